"""Learned biases and values by labelled edges: of the dependency tree, and of neighbours in a constituent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.biases.bias import AttentionBias, Buckets, PairValues
from fairseq_syntax.modules.biases.bias_tables import BiasTable, TableBias, columns_of
from fairseq_syntax.modules.biases.registry import register_syntax_bias
from fairseq_syntax.modules.dependency import first_subwords, head_positions
from fairseq_syntax.modules.numerics import UNKNOWN, at_least_float32
from fairseq_syntax.options import option

#: Of an edge from i to j: what j's word is to i's.
KINDS = ("head", "dependent", "sibling", "grandparent", "grandchild")


@register_syntax_bias("tree_edge")
class TreeEdge(TableBias):
    """A learned bias by the labelled edge from word to word in the dependency tree.

    The edge r(i, j) is a kind, what j's word is to i's, and a label, the dependency relation of one of them to its own
    head: of i for a head and a grandparent (the head's head), of j for a dependent, a sibling (another word with the
    same head) and a grandchild. All subwords of two words have their edge. No edge, so no bias, is within a word,
    between roots, at ``</s>``, and where the path is another one. The bias is b_h[i, j] = T_h[r(i, j)]. With values,
    attention also sums a vector of the edge: o_i = Σ_j A[i, j]·(v_j + E[r(i, j)]) (Shaw et al. 2018, eq. 3).

    Buckets of L labels: kind·(L + 1) + label, kinds in the order of :data:`KINDS`, labels in that of the model, the
    last the unknown label: one that the model did not see in training. Where a line is cut, heads are the nearest
    ancestors that are left.
    """

    features = ("word", "head", "deprel")

    values: bool = option(
        False,
        help="under tree_edge, attention sums a learned vector of the edge beside each value (Shaw et al. 2018 eq. 3)",
    )
    factored: bool = option(
        False,
        help="under tree_edge, an edge's bias (and vector) is the sum of its kind's and its label's, instead of the "
        "pair's",
    )
    dropout: float = option(
        0.0,
        at_least=0,
        at_most=1,
        help="under tree_edge, probability, in training, that a kind's label is taken as unknown, drawn for a batch in "
        "each layer",
    )
    #: The labels that the model knows, in the order of their numbers.
    labels: tuple[str, ...] = ()

    def with_labels(self, labels: Mapping[str, Sequence[str]]) -> TreeEdge:
        return dataclasses.replace(self, labels=tuple(labels.get("deprel", self.labels)))

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        word, head, deprel = features
        of_head = head.gather(1, head_positions(word, head, first_subwords(word)))
        parent = _is_word(head, word)
        grandparent = _is_word(torch.where(head > 0, of_head, 0), word)
        sibling = (head.unsqueeze(2) == head.unsqueeze(1)) & (head > 0).unsqueeze(2)
        sibling = sibling & (word.unsqueeze(2) != word.unsqueeze(1))
        label = deprel.clamp(min=0, max=len(self.labels))
        here, there = label.unsqueeze(2), label.unsqueeze(1)
        found = (
            (parent, here), (parent.mT, there), (sibling, there), (grandparent, here), (grandparent.mT, there)
        )  # fmt: skip
        buckets = torch.full_like(parent, UNKNOWN, dtype=torch.long)
        for kind, (edges, labels_of_edges) in enumerate(found):
            buckets = torch.where(edges, labels_of_edges + kind * (len(self.labels) + 1), buckets)
        return Buckets(buckets)

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> EdgeTable:
        return EdgeTable(
            heads=heads,
            kinds=len(KINDS),
            labels=len(self.labels) + 1,
            head_dim=head_dim if self.values else None,
            factored=self.factored,
            dropout=self.dropout,
        )

    def effective_options(self) -> dict[str, object]:
        return {}  # names and shapes of weights show what matters; dropout concerns training alone


@register_syntax_bias("tree_category")
class TreeCategory(TableBias):
    """A learned bias between neighbouring words by the category of the smallest constituent that they share.

    It is b_h[i, j] = T_h[r(i, j)] as that of ``tree_edge``, and likewise with values; all subwords of two words have
    it, but ``</s>`` and symbols have none. Neighbours in two sentences of the line have the label ``_``. Buckets of L
    labels: label for a j in the next word, L + 1 + label in the previous one, the last label the unknown one.
    """

    features = ("word", "shared_category", "distance")  # distance alone for subwords that are drawn

    values: bool = option(False, help="under tree_category, attention sums a learned vector of it beside each value")
    #: The labels that the model knows, in the order of their numbers.
    labels: tuple[str, ...] = ()

    def with_labels(self, labels: Mapping[str, Sequence[str]]) -> TreeCategory:
        return dataclasses.replace(self, labels=tuple(labels.get("shared_category", self.labels)))

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        word, category, _ = features
        is_word = category > 0
        following = (word.unsqueeze(2) + 1 == word.unsqueeze(1)) & is_word.unsqueeze(2) & is_word.unsqueeze(1)
        label = category.clamp(min=0, max=len(self.labels)).unsqueeze(2)
        buckets = torch.where(following, label, UNKNOWN)
        return Buckets(torch.where(following.mT, label.mT + len(self.labels) + 1, buckets))

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> EdgeTable:
        width = head_dim if self.values else None
        return EdgeTable(heads=heads, kinds=2, labels=len(self.labels) + 1, head_dim=width)

    def effective_options(self) -> dict[str, object]:
        return {}


def _is_word(number: Tensor, word: Tensor) -> Tensor:
    """True where a number of i, from 1, is that of j's word, ``(batch, n, n)``; 0 is of no word."""
    return (number.unsqueeze(2) == (word + 1).unsqueeze(1)) & (number > 0).unsqueeze(2)


class EdgeTable(BiasTable):
    """T and E: biases and vectors of edges by kind and label, all 0 at first, S times their parameters.

    Args:
        heads: number of heads, each with biases of its own.
        kinds: number of kinds.
        labels: number of labels, the unknown one included.
        head_dim: width of vectors, which heads share; ``None``: there are none.
        factored: T[kind, label] = K[kind] + L[label], and E likewise.
        dropout: probability, in training, that a label of a kind is taken as the unknown one, in T and E alike.
    """

    def __init__(
        self, *, heads: int, kinds: int, labels: int, head_dim: int | None, factored: bool = False, dropout: float = 0
    ):
        columns = kinds + labels if factored else kinds * labels
        super().__init__(heads=heads, buckets=columns)
        self.vectors = None if head_dim is None else nn.Parameter(torch.zeros(head_dim, columns))
        self.kinds = kinds
        self.labels = labels
        self.factored = factored
        self.dropout = dropout

    def forward(self, buckets: Buckets, query: Tensor | None = None) -> AttentionBias:
        """The bias, ``(batch, heads, n, n)`` in float32 at least, 0 where there is no edge; and the vectors."""
        taken = self._taken()
        table = F.pad(self._of_buckets(at_least_float32(self.weight), taken), (1, 0))  # column 0: there is no edge
        values = [] if self.vectors is None else [PairValues(buckets, self._of_buckets(self.vectors, taken).t())]
        return AttentionBias(bias=columns_of(table, buckets.numbers + 1), values=values)

    def _taken(self) -> Tensor | None:
        """The bucket that each is taken as under dropout, ``(buckets,)``; ``None``: each as itself."""
        if not (self.training and self.dropout):
            return None
        buckets = torch.arange(self.kinds * self.labels, device=self.weight.device).view(self.kinds, self.labels)
        dropped = torch.rand(buckets.shape, device=buckets.device) < self.dropout
        return torch.where(dropped, buckets[:, -1:], buckets).flatten()

    def _of_buckets(self, table: Tensor, taken: Tensor | None) -> Tensor:
        """Columns of buckets, ``(rows, buckets)``, of T or E, by its parameter."""
        table = self.scaled(table)
        if self.factored:
            of_kinds, of_labels = table[:, : self.kinds], table[:, self.kinds :]
            table = (of_kinds.unsqueeze(2) + of_labels.unsqueeze(1)).flatten(1)
        return table if taken is None else table.index_select(1, taken)
