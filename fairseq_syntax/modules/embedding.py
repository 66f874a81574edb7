"""Embeddings of a parse's features, beside those of tokens (syntax-infused Transformer, Sundararaman et al.)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.options import NONE, check_names, names_in, option
from syntax_data.features import FEATURES

#: Features that number labels, so that each number can have an embedding.
LABELLED = tuple(name for name, feature in FEATURES.items() if feature.labels is not None)


@dataclass(frozen=True)
class FeatureEmbeddingOptions:
    """Which features have embeddings, and how these join the tokens'."""

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
        help="dependency relations that have an embedding, likewise; default: the data-bin's",
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
        """Of each feature, what the model's numbers of it number; without those that are not known yet."""
        known = {"upos": self.upos_labels, "deprel": self.deprel_labels}
        found = {name: FEATURES[name].labels or tuple((known[name] or "").split()) for name in self.names}
        return {name: labels for name, labels in found.items() if labels}


class InfusedEmbedding(nn.Embedding):
    """Embeddings of tokens, and of the features over them: [e; Σ f], or e + Σ f (Sundararaman et al., §4.1).

    A label that the model does not know, and a position without a parse, have f = 0 for that feature.

    Args:
        tokens: those of tokens, ``embed_dim`` wide, or narrower by the width of f. Their weight is taken as it is, so
            that others may share it.
        labels: of each feature, what its numbers number.
        embed_dim: the width of what comes out.
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
        self._numbers: dict[str, Tensor] = {}

    def set_label_vocabulary(self, labels: Mapping[str, Sequence[str]]) -> None:
        """Says what features number from now on, in other data: labels are found by their names."""
        for name, known in self.labels.items():
            ours = {label: number for number, label in enumerate(known)}
            theirs = labels.get(name, known)
            self._numbers[name] = torch.tensor([ours.get(label, UNKNOWN) for label in theirs])

    def forward(self, tokens: Tensor, features: Mapping[str, Tensor] | None = None) -> Tensor:
        """Embeds, ``(batch, n, embed_dim)``.

        Args:
            tokens: ``(batch, n)``.
            features: each ``(batch, n)``; :data:`~fairseq_syntax.modules.numerics.UNKNOWN` where there is none.
        """
        embedded = super().forward(tokens)
        if features is None:
            raise ValueError("embeddings of features need features")
        of_features = sum(self._embed(name, features[name]) for name in self.labels)
        assert isinstance(of_features, Tensor)
        if self.merge == "sum":
            return embedded + of_features
        return torch.cat([embedded, of_features.to(embedded.dtype)], dim=2)

    def _embed(self, name: str, numbers: Tensor) -> Tensor:
        table = F.pad(self.tables[name], (0, 0, 0, 1))  # the last row is of what is not known
        if (ours := self._numbers.get(name)) is not None:
            ours = self._numbers[name] = ours.to(numbers.device)
            numbers = torch.where(numbers < 0, numbers, ours[numbers.clamp(min=0)])
        return F.embedding(torch.where(numbers < 0, len(table) - 1, numbers), table)
