"""Syntax masks: per-subword features to n×n matrices that say who sees whom.

One polarity everywhere: a mask is kept as its logarithm, in float32 and of shape ``(batch, n, n)``, rows being
queries and columns keys. 0 is visible, -inf is hidden, anything between is partly visible. It is added to
attention scores: softmax(x + log m) = m·exp(x) / Σ m·exp(x), the masked softmax of Hou 2024, eq. (9).

Features arrive as integers of shape ``(batch, n)``; :data:`UNKNOWN` marks positions without any: padding, and
all of a sentence that has no parse. There a query sees everything (padding keys are for the attention's
key-padding mask), so no row is ever empty, and a sentence without a parse is not masked at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.nn.numerics import hiding
from syntax_preprocess.features import INFINITE

#: Marks a position that has no feature, in batches only (never in files).
UNKNOWN = -1

#: The features that each mask is made of.
MASK_FEATURES: dict[str, tuple[str, ...]] = {"slr": ("distance",), "sdoi": ("word", "head")}


def hard_slr(distance: Tensor, *, strict: bool = False) -> Tensor:
    """Hard syntactic local range (Hou 2024, §3.2 and eq. 1-2).

    Position i sees j > i when no boundary t in [i+1, j-1] rises above boundary i, and j < i when none in [j, i-2]
    rises above boundary i-1; itself and its two neighbours always. Boundary b lies between b and b+1.

    Ties count as inside (d_t <= d_r): only so is the mask equal to the paper's tree definition, in which the
    range of a word reaches from its parent's leftmost to its rightmost child (§3.2), on n-ary trees. The
    paper's eq. (1) is strict, which contradicts that on ties; ``strict=True`` is that reading. Its eq. (2) as
    printed also swaps α's arguments, includes t = r, and is off by one on the right.

    Args:
        distance: syntactic distances, ``(batch, n)``, as in :mod:`syntax_preprocess.features`.
        strict: whether a tie hides.

    Returns:
        the mask's logarithm, ``(batch, n, n)``, 0 or -inf.
    """
    here, there = distance.unsqueeze(2), distance.unsqueeze(1)
    inside = there < here if strict else there <= here
    log_alpha = torch.zeros(inside.shape, device=distance.device).masked_fill_(~inside, -torch.inf)
    return _accumulate(log_alpha, known=distance != UNKNOWN)


def soft_slr(distance: Tensor, *, temperature: float) -> Tensor:
    """Soft syntactic local range (Hou 2024, eq. 3): the product over the boundaries t of :func:`hard_slr` of
    α_t = (tanh((d_r - d_t) / τ) + 1) / 2, where r is the boundary beside i.

    A tie gives 1/2, also between two infinite distances. Computed as Σ log σ(2·(d_r - d_t)/τ), the same number,
    by cumulative sums: O(n²) a sentence.

    Args:
        distance: syntactic distances, ``(batch, n)``, as in :mod:`syntax_preprocess.features`.
        temperature: τ > 0, in units of distance.

    Returns:
        the mask's logarithm, ``(batch, n, n)``.
    """
    real = distance.to(torch.float32).masked_fill(distance == INFINITE, torch.inf)
    difference = real.unsqueeze(2) - real.unsqueeze(1)
    difference = difference.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)  # ∞ - ∞ is a tie
    return _accumulate(F.logsigmoid(difference * (2.0 / temperature)), known=distance != UNKNOWN)


def _accumulate(log_alpha: Tensor, *, known: Tensor) -> Tensor:
    """Sums log α over the boundaries between two positions.

    Args:
        log_alpha: ``(batch, n, n)``; [r, t] compares boundary t with the boundary r beside the query.
        known: ``(batch, n)``, which positions have a distance.

    Returns:
        ``(batch, n, n)``: [i, j] = Σ over i < t < j of [i, t], or Σ over j <= t < i-1 of [i-1, t].
    """
    to_the_right = log_alpha.triu(1).cumsum(-1)  # [r, t]: sum over r < u <= t
    to_the_left = log_alpha.tril(-1).flip(-1).cumsum(-1).flip(-1)  # [r, t]: sum over t <= u < r
    log_mask = torch.zeros_like(log_alpha)
    log_mask[:, :, 1:] += to_the_right[:, :, :-1]
    log_mask[:, 1:, :] += to_the_left[:, :-1, :]
    return _everything_visible_outside(known, log_mask)


def sdoi(word: Tensor, head: Tensor, *, subwords: str = "share") -> Tensor:
    """Syntactic dependency of interest (SG-Net, Zhang et al. 2020, eq. 1): M[i, j] = 1 iff j's word is i's word
    or one of its ancestors in the dependency tree.

    SG-Net's eq. (7) multiplies the scores by M before the softmax, which leaves a hidden key with score 0 and
    so with weight exp(0); its released code adds -10000 to them instead. This mask hides, as the code does.

    Args:
        word: index of each position's word, ``(batch, n)``.
        head: 0 or 1 + index of the head's word, ``(batch, n)``; see :mod:`syntax_preprocess.features`.
        subwords: ``share``: subwords take their word's row and column. ``first``: the word's later subwords
            become children of its first.

    Returns:
        the mask's logarithm, ``(batch, n, n)``, 0 or -inf.

    Raises:
        ValueError: the heads of a sentence lead into a cycle; names it.
    """
    known = (word != UNKNOWN) & (head != UNKNOWN)
    batch, n = word.shape
    position = torch.arange(n, device=word.device).expand(batch, n)
    starts_word = word != F.pad(word, (1, 0), value=UNKNOWN)[:, :-1]
    first = position.masked_fill(~starts_word, 0).cummax(dim=1).values  # first subword of one's own word

    # Words are numbered from 1 here as in `head`; number 0, above the root, lives at position n.
    first_of_word = torch.full((batch, n + 1), n, device=word.device)
    first_of_word.scatter_(1, word + 1, first)
    first_of_word[:, 0] = n
    parent = first_of_word.gather(1, head.clamp(min=0))
    parent = F.pad(parent, (0, 1), value=n)

    visible = torch.zeros(batch, n, n + 1, dtype=torch.bool, device=word.device)
    ancestor = first
    for level in itertools.count(1):
        visible.scatter_(2, ancestor.unsqueeze(2), True)
        ancestor = parent.gather(1, ancestor)
        if level % 8 == 0:  # not at each level: a GPU is waited for
            if not bool((ancestor < n).any()):
                break
            if level >= n:
                raise _cycle(word, ancestor)
    if subwords == "share":
        visible = visible.gather(2, first.unsqueeze(1).expand(batch, n, n))
    else:
        visible = visible[:, :, :n] | torch.eye(n, dtype=torch.bool, device=word.device)
    log_mask = torch.zeros(batch, n, n, device=word.device).masked_fill_(~visible, -torch.inf)
    return _everything_visible_outside(known, log_mask)


def _cycle(word: Tensor, ancestor: Tensor) -> ValueError:
    """What is wrong where the n-th ancestor of a position, ``(batch, n)``, is no number above the root."""
    row, position = (ancestor < ancestor.size(1)).nonzero()[0].tolist()
    there = int(ancestor[row, position])
    return ValueError(
        f"expected heads that lead to a root, found a cycle through position {there}, word {int(word[row, there])}, of "
        f"sentence {row} of the batch (counted from 0); fairseq-syntax-binarize --verify finds it in a data-bin"
    )


def _everything_visible_outside(known: Tensor, log_mask: Tensor) -> Tensor:
    return log_mask.masked_fill_(~(known.unsqueeze(2) & known.unsqueeze(1)), 0.0)


class SyntaxBias:
    """The masks of one batch, as the attention uses them.

    Args:
        log_masks: logarithms of the masks, ``(batch, masks, n, n)``.
        parsed: whether the sentence has the parse that the mask is made of, ``(batch, masks)``.
    """

    def __init__(self, log_masks: Tensor, parsed: Tensor):
        self.log_masks = log_masks
        self.parsed = parsed
        self._made_for: tuple[Tensor | None, torch.dtype] | None = None
        self._made: tuple[Tensor | None, list[Tensor]] = None, []

    @cached_property
    def masks(self) -> Tensor:
        """The masks themselves, from 0 to 1."""
        return self.log_masks.exp()

    @cached_property
    def all_parsed(self) -> bool:
        """Whether all sentences have all parses; finding out makes a GPU wait, once a batch."""
        return bool(self.parsed.all())

    def with_padding(self, padding: Tensor | None, dtype: torch.dtype) -> tuple[Tensor | None, list[Tensor]]:
        """What fused attention adds to scores of `dtype`: for global attention ``(batch, 1, 1, n)``, which hides the
        keys that are padding (``(batch, n)``), and for each mask ``(batch, 1, n, n)``. Made once for all layers."""
        made_for = self._made_for
        if made_for is None or made_for[0] is not padding or made_for[1] != dtype:
            hidden = None if padding is None else hiding(padding, dtype)[:, None, None, :]
            biases = [mask[:, None].to(dtype) for mask in self.log_masks.unbind(dim=1)]
            self._made = hidden, [bias if hidden is None else bias + hidden for bias in biases]
            self._made_for = padding, dtype
        return self._made


class SyntaxMasks:
    """Builds a model's masks from a batch's features.

    Args:
        names: which masks, in order: keys of :data:`MASK_FEATURES`.
        slr: ``soft``, ``hard`` or ``strict``.
        slr_temperature: τ of the soft mask.
        sdoi_subwords: ``share`` or ``first``.
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        slr: str = "soft",
        slr_temperature: float = 10.0,
        sdoi_subwords: str = "share",
    ):
        self.names = tuple(names)
        self.slr = slr
        self.slr_temperature = slr_temperature
        self.sdoi_subwords = sdoi_subwords

    @property
    def features(self) -> tuple[str, ...]:
        """The features that these masks are made of, each once."""
        return tuple(dict.fromkeys(f for name in self.names for f in MASK_FEATURES[name]))

    def __call__(self, syntax: Mapping[str, Tensor]) -> SyntaxBias:
        """Builds the masks from features of shape ``(batch, n)``."""
        log_masks = [self._build(name, syntax) for name in self.names]
        parsed = [
            torch.stack([syntax[f].ne(UNKNOWN).any(dim=1) for f in MASK_FEATURES[name]]).all(dim=0)
            for name in self.names
        ]
        return SyntaxBias(torch.stack(log_masks, dim=1), torch.stack(parsed, dim=1))

    def _build(self, name: str, syntax: Mapping[str, Tensor]) -> Tensor:
        if name == "sdoi":
            return sdoi(syntax["word"], syntax["head"], subwords=self.sdoi_subwords)
        if self.slr == "soft":
            return soft_slr(syntax["distance"], temperature=self.slr_temperature)
        return hard_slr(syntax["distance"], strict=self.slr == "strict")
