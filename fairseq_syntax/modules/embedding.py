"""Embeddings of syntactic features, joined with those of tokens (Sundararaman et al.)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.options import NONE, check_names, names_in, option
from syntax_data.features import FEATURES

#: Features that number labels, so that each number can have an embedding.
LABELLED = tuple(name for name, feature in FEATURES.items() if feature.labels is not None)


@dataclass(frozen=True)
class FeatureEmbeddingOptions:
    """Options of embeddings of features."""

    written: str = option(
        NONE,
        name="feature_embeddings",
        help="comma-separated features whose embeddings join those of tokens (syntax-infused Transformer): some of "
        + ", ".join(LABELLED),
    )
    merge: str = option(
        "concatenate",
        name="feature_merge",
        choices=("concatenate", "sum"),
        help="how they join: concatenated, so that embeddings of tokens are the narrower, or added at full width",
    )
    dim: int = option(20, name="feature_embed_dim", at_least=1, help="their width, if they are concatenated")
    upos_labels: str | None = option(
        None,
        name="upos_labels",
        help="parts of speech that have an embedding, </s> the first, with spaces between; default: the data-bin's",
    )
    deprel_labels: str | None = option(
        None,
        name="deprel_labels",
        help="dependency relations that have an embedding, or edges (tree_edge), likewise; default: the data-bin's",
    )

    def __post_init__(self) -> None:
        check_names("--feature-embeddings", self.written, LABELLED)
        for option_name, written in (("upos", self.upos_labels), ("deprel", self.deprel_labels)):
            labels = (written or "").split()
            if labels and (labels[0] != "</s>" or len(set(labels)) < len(labels)):
                raise ValueError(f"--{option_name}-labels: expected </s> and then labels, each once, found {written!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The features, in the order of their table."""
        return tuple(names_in(self.written, LABELLED))

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """The labels of each embedded feature whose labels are known, in the order of indices."""
        return self.labels_of(self.names)

    def labels_of(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The labels of some features, embedded or not, those whose labels are known."""
        known = {"upos": self.upos_labels, "deprel": self.deprel_labels}
        found = {name: FEATURES[name].labels or tuple((known[name] or "").split()) for name in names}
        return {name: labels for name, labels in found.items() if labels}


class InfusedEmbedding(nn.Embedding):
    """Embeddings of tokens, and of the features over them: [e; Σ f], or e + Σ f (Sundararaman et al., §4.1).

    A label that the model does not know, whose number is one beyond the labels', and a position without a parse have
    f = 0 for that feature.

    Args:
        tokens: embeddings of tokens, ``embed_dim`` wide, or narrower by the width of f. Their weight is shared with
            `tokens`.
        labels: the labels of each feature, in the order of their indices.
        embed_dim: width of the output.
        merge: ``concatenate`` or ``sum``.
    """

    def __init__(self, tokens: nn.Embedding, *, labels: Mapping[str, Sequence[str]], embed_dim: int, merge: str):
        width = tokens.embedding_dim
        super().__init__(tokens.num_embeddings, width, padding_idx=tokens.padding_idx, _weight=tokens.weight.detach())
        self.weight = tokens.weight
        self.embedding_dim = embed_dim
        self.labels = {name: tuple(of_feature) for name, of_feature in labels.items()}
        self.merge = merge
        feature_dim = embed_dim if merge == "sum" else embed_dim - width
        self.tables = nn.ParameterDict(
            {name: torch.randn(len(known), feature_dim) * embed_dim**-0.5 for name, known in self.labels.items()}
        )

    def forward(self, tokens: Tensor, features: Mapping[str, Tensor] | None = None) -> Tensor:
        """Embed tokens and features, ``(batch, n)`` each: ``(batch, n, embed_dim)``."""
        embedded = super().forward(tokens)
        if features is None:
            raise ValueError("embeddings of features need features")
        of_features = sum(self._embed(name, features[name]) for name in self.labels)
        assert isinstance(of_features, Tensor)
        if self.merge == "sum":
            return embedded + of_features
        return torch.cat([embedded, of_features.to(embedded.dtype)], dim=2)

    def _embed(self, name: str, values: Tensor) -> Tensor:
        table = F.pad(self.tables[name], (0, 0, 0, 1))  # the last row is for unknown labels
        return F.embedding(torch.where(values < 0, len(table) - 1, values), table)
