"""Attention as a mixture of experts, and the ways to compute it.

Expert k turns the scores x = q·kᵀ/√d into A_k = softmax(f_k ⊙ x + b_k + padding), by the factor f_k and the bias b_k of
its :class:`~fairseq_syntax.nn.masks.Guide`; the global expert 0 has f = 1, b = 0. Then

    A = (1 - Σ w_k) ⊙ A_0 + Σ w_k ⊙ dropout(A_k),

with weights w of shape ``(batch, masks, heads, 1 or n)``, the last axis being queries: Hou 2024, eq. (7)-(11).
Attention dropout then acts on A, once. The first heads may have experts, the others have A = A_0. Where weights have no
rest, there is no A_0 but for those. A bias by relative position, if a model has one for all experts, is part of x.

:func:`plain` is the definition. :func:`shared` and :func:`fused` agree with it up to rounding, where :func:`choose`
takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_syntax.nn.masks import BatchMasks
from fairseq_syntax.nn.numerics import at_least_float32

#: The ways to compute it that one can ask for.
WAYS = ("auto", "plain", "shared", "fused")

#: Below this share of a row's global attention that a mask lets pass, :func:`shared` would lose precision.
_SMALLEST_SHARE = 1e-12

#: On a CPU, fused attention is faster than :func:`shared` from about this sentence length.
_LONG = 128


@dataclass(frozen=True)
class Mixture:
    """What attention over a batch is made of, beside queries, keys and values.

    Attributes:
        masks: of the batch, each a :class:`~fairseq_syntax.nn.masks.Guide` here.
        weights: w, ``(batch, masks, heads with experts, 1 or n)``.
        padding: true at keys that are padding, ``(batch, n)``; ``None`` where there are none.
        ignore: dropout of syntactic attention ("syntax ignoring"); ``None`` where none acts.
        has_rest: whether the global expert has a weight; the weights of the masks sum up to 1 otherwise.
    """

    masks: BatchMasks
    weights: Tensor
    padding: Tensor | None
    ignore: Callable[[Tensor], Tensor] | None
    has_rest: bool = True

    @property
    def heads(self) -> int:
        """How many heads, the first ones, have experts."""
        return self.weights.shape[2] if self.masks.guides else 0

    def needs_global(self, heads: int) -> bool:
        """Whether A_0 is needed, of `heads` heads in all."""
        return self.has_rest or self.heads < heads

    def hidden_keys(self, dtype: torch.dtype) -> Tensor | None:
        """What hides keys that are padding from scores, ``(batch, 1, 1, n)``: -inf there, 0 elsewhere."""
        return self.masks.hidden_keys(self.padding, dtype)

    def weight(self, k: int) -> Tensor:
        """w_k, ``(batch, heads, 1 or n, 1)``: one for each row of A_k."""
        return self.weights[:, k, :, :, None]

    def rest(self) -> Tensor:
        """1 - Σ w_k, in the same shape: the weights of the global expert."""
        return (1.0 - self.weights.sum(dim=1))[..., None]

    def ignored(self, guided: Tensor, k: int) -> Tensor:
        """Syntax dropout on mask k's ``(batch, heads, n, n)``, of the sentences that are parsed."""
        if self.ignore is None:
            return guided
        dropped = self.ignore(guided)
        masks = self.masks
        return dropped if masks.all_parsed else torch.where(masks.parsed[:, k, None, None, None], dropped, guided)


def choose(
    asked: str,
    *,
    n: int,
    on_cuda: bool,
    wants_attention: bool,
    masks: BatchMasks,
    own_parameters: bool,
    has_rest: bool = True,
) -> str:
    """Which of ``plain``, ``shared`` and ``fused`` computes it.

    Args:
        asked: one of :data:`WAYS`. ``auto``: on CUDA ``fused`` where it is possible, else ``plain``; on a CPU ``fused``
            where it is possible and sentences are long, else ``shared``.
        n: the length of the sentences.
        wants_attention: whether A itself is needed: it is asked for, or a dropout acts on it or on an A_k.
        own_parameters: whether a mask has parameters of its own, so that its bias is any number, not the logarithm of a
            mask.
        has_rest: whether the global expert has a weight.
    """
    if any(guide.factor is not None or guide.bias is None for guide in masks.guides):
        return "plain"
    softmaxes = len(masks.guides) + has_rest
    sharable = "plain" if own_parameters or not masks.guides or softmaxes == 1 else "shared"
    if asked == "plain" or asked == "shared":
        return "plain" if asked == "plain" else sharable
    if asked == "fused" or on_cuda:
        return "plain" if wants_attention else "fused"
    return "fused" if not wants_attention and n >= _LONG else sharable


def scores(q: Tensor, k: Tensor, *, heads: int, position: Tensor | None = None) -> Tensor:
    """x = q·kᵀ, ``(batch, heads, n, n)`` in float32 at least, of q (divided by √d) and k, ``(batch · heads, n, d)``.

    Args:
        position: a bias that all experts have, ``(1, heads, n, n)``, is added.
    """
    x = at_least_float32(torch.bmm(q, k.transpose(1, 2))).unflatten(0, (-1, heads))
    return x if position is None else x + position


def plain(x: Tensor, mixture: Mixture) -> Tensor:
    """A before attention dropout, ``(batch, heads, n, n)``, of scores x: as the module's formula is written."""
    hidden = mixture.hidden_keys(x.dtype)
    padded = x if hidden is None else x + hidden
    attention = padded.softmax(dim=-1) if mixture.needs_global(x.shape[1]) else None
    if not mixture.heads and attention is not None:
        return attention
    first = slice(0, mixture.heads)
    mixed = mixture.rest() * attention[:, first] if attention is not None and mixture.has_rest else None
    for k, guide in enumerate(mixture.masks.guides):
        guided = padded[:, first]
        if guide.factor is not None:  # padding comes after it: 0·(-∞) is no number
            guided = x[:, first] * guide.factor
            guided = guided if hidden is None else guided + hidden
        if guide.bias is not None:
            guided = guided + guide.bias
        mixed = _plus(mixed, mixture.weight(k) * mixture.ignored(guided.softmax(dim=-1), k))
    return _with_global_heads(mixed, attention)


def shared(x: Tensor, mixture: Mixture) -> Tensor:
    """As :func:`plain`, by one softmax: A = A_0 ⊙ (1 - Σ w_k + Σ w_k ⊙ dropout(m_k)/Z_k), Z_k = Σ m_k·A_0.

    Where a mask lets less than 1e-12 of a row's global attention pass, or exp(b) is too large a number, the batch falls
    back to :func:`plain`; finding that out makes a GPU wait.
    """
    hidden = mixture.hidden_keys(x.dtype)
    attention = (x if hidden is None else x + hidden).softmax(dim=-1)
    raw = attention[:, : mixture.heads]
    factor = mixture.rest()
    for k, guide in enumerate(mixture.masks.guides):
        share = (raw * guide.mask).sum(dim=-1, keepdim=True)
        least, most = share.detach().aminmax()
        if not (least > _SMALLEST_SHARE and most < torch.inf):
            return plain(x, mixture)
        mask = mixture.ignored(guide.mask.expand_as(raw), k)
        factor = factor + mask * (mixture.weight(k) / share)  # faster than addcmul
    return _with_global_heads(raw * factor, attention)


def fused(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, *, position: Tensor | None = None) -> Tensor:
    """A·v, ``(batch, heads, n, d)``: torch's fused attention once for each expert, mixed afterwards.

    That is the same, because the output is linear in A. No dropout acts.

    Args:
        position: that of :func:`scores`.
    """
    first = slice(0, mixture.heads)
    hidden = mixture.hidden_keys(q.dtype)
    added = None if position is None else position.to(q.dtype)
    output = mixed = None
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        if mixture.needs_global(q.shape[1]):
            bias = hidden if added is None else _plus(hidden, added)
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
            if not mixture.heads:
                return output
            mixed = mixture.rest() * output[:, first] if mixture.has_rest else None
        for i, guide in enumerate(mixture.masks.guides):
            bias = guide.padded_bias(mixture.padding, q.dtype)
            bias = bias if added is None else bias + added[:, first]
            guided = F.scaled_dot_product_attention(q[:, first], k[:, first], v[:, first], attn_mask=bias, scale=1.0)
            weight = mixture.weight(i)
            mixed = weight * guided if mixed is None else torch.addcmul(mixed, weight, guided.to(mixed))
    assert mixed is not None
    return _with_global_heads(mixed.to(q.dtype), output)


def _plus(sum_of_some: Tensor | None, term: Tensor) -> Tensor:
    return term if sum_of_some is None else sum_of_some + term


def _with_global_heads(mixed: Tensor | None, of_all: Tensor | None) -> Tensor:
    assert mixed is not None
    heads = mixed.shape[1]
    if of_all is None or heads == of_all.shape[1]:
        return mixed
    return torch.cat([mixed, of_all[:, heads:]], dim=1)
