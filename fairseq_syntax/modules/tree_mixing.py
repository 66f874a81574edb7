"""Mixtures of each word and its descendants, as the input of layers (SEPREM, Xu et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_syntax.modules.dependency import ancestors, columns_of_positions, is_word_start
from fairseq_syntax.modules.heads import CorruptedDistances, corrupt_distances
from fairseq_syntax.modules.numerics import no_autocast
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.options import option

#: Activations that an option names; :func:`fairseq.utils.get_activation_fn` has the others.
SIGMOID = "sigmoid"


@dataclass(frozen=True)
class TreeMixingOptions:
    """Options of the mixture."""

    on: bool = option(
        False,
        name="tree_mixing",
        help="mixes each word's descendants in the dependency tree into what encoder layers read (SEPREM eq. 1-5)",
    )
    weight: float = option(
        0.1, name="tree_mixing_weight", help="initial weight of that mixture, which is learned (α of SEPREM)"
    )
    plain: bool = option(
        False,
        name="tree_mixing_plain",
        help="that mixture is added, without a weight (SEPREM's Table 6, without α)",
    )
    activation: str | None = option(
        None,
        name="tree_mixing_activation",
        choices=("relu", "gelu", "tanh", "linear", SIGMOID),
        help="activation in that mixture (σ of SEPREM eq. 5); default: that of the feed-forward networks",
    )


@dataclass(frozen=True)
class Descendants:
    """Descendants of a batch's words, as layers mix them in.

    Attributes:
        weights: D̃ of :func:`descendant_weights`, ``(batch, n, n)``.
        has_parse: true for a sentence with a parse, ``(batch,)``.
        corrupted: distances that are corrupted in D̃, to be predicted; ``None`` where none are.
    """

    weights: Tensor
    has_parse: Tensor
    corrupted: CorruptedDistances | None = None

    @classmethod
    def of(cls, syntax: SyntaxBatch, *, corruption_rate: float | None = None) -> Descendants:
        """Find the descendants by the features ``word`` and ``head``, ``(batch, n)`` each.

        Args:
            corruption_rate: see :func:`~fairseq_syntax.modules.heads.corrupt_distances`; ``None``: none are corrupted.
        """
        word, head, known = syntax["word"], syntax["head"], syntax.known("word", "head")
        depths = descendant_depths(word, head) * (known.unsqueeze(2) & known.unsqueeze(1))
        corrupted = None
        if corruption_rate is not None:
            corrupted = corrupt_distances(depths, word, head, syntax.special, rate=corruption_rate)
        shown = depths if corrupted is None else corrupted.shown
        return cls(descendant_weights(shown), known.any(dim=1), corrupted)


class DescendantMixing(nn.Module):
    """Mixture of words and their descendants: (1 - α)·H + α·Ĥ, Ĥ = σ(H·W1 + D̃·H·W2) (SEPREM, eq. 1 and 5).

    It is the input of all layers of an encoder. Each layer has matrices of its own, and all share α. D̃ is of
    :func:`descendant_weights`. A sentence without a parse has α = 0. Without a weight it is H + Ĥ, and H without a
    parse.

    Args:
        embed_dim: width of the encoder.
        layers: number of layers.
        weight: initial α; ``None``: there is none.
        activation: σ.
    """

    def __init__(self, embed_dim: int, *, layers: int, weight: float | None, activation: Callable[[Tensor], Tensor]):
        super().__init__()
        #: By this name fairseq finds parts of layers that it prunes.
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(embed_dim, embed_dim, bias=False) for name in ("own", "descendants")})
            for _ in range(layers)
        )
        self.weight = None if weight is None else nn.Parameter(torch.tensor([float(weight)]))
        self.activation = activation

    def forward(self, x: Tensor, layer: int, descendants: Descendants) -> Tensor:
        """Mix descendants into a layer's input.

        Args:
            x: H, ``(n, batch, embed_dim)``.
            layer: the layer's number, from 1.
        """
        matrices: Any = self.layers[layer - 1]
        own, below = matrices["own"](x), matrices["descendants"](x).transpose(0, 1)
        mixed = self.activation(own + torch.bmm(descendants.weights.to(below.dtype), below).transpose(0, 1))
        if self.weight is None:
            return x + mixed * descendants.has_parse.to(x.dtype)[None, :, None]
        weight = torch.where(descendants.has_parse, self.weight, torch.zeros_like(self.weight))
        weight = weight.to(x.dtype)[None, :, None]
        return (1 - weight) * x + weight * mixed


def descendant_depths(word: Tensor, head: Tensor) -> Tensor:
    """Return D: the number of steps down from i to j (SEPREM, eq. 3), ``(batch, n, n)``, integers.

    0 unless i is the first subword of an ancestor of j's word. For `word` and `head`, and the :class:`ValueError` that
    a cycle of heads raises, see :func:`fairseq_syntax.modules.dependency.ancestors`.
    """
    of_words = ancestors(word, head)
    depth = of_words.sum(dim=2)
    above = columns_of_positions(of_words, word) & is_word_start(word).unsqueeze(1)
    return (depth.unsqueeze(1) - depth.unsqueeze(2)) * above.transpose(1, 2)


def descendant_weights(depths: Tensor) -> Tensor:
    """Return D̃: 1/D[i, j], divided by the sum of its row; 0 where D is 0 (SEPREM, eq. 4).

    Both are ``(batch, n, n)``, D̃ in float32.
    """
    with no_autocast(depths.device):
        inverse = torch.where(depths > 0, depths.clamp(min=1).float().reciprocal(), 0.0)
        return inverse / inverse.sum(dim=2, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
