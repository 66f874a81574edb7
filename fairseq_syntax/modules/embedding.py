"""Embeddings of syntactic features, joined with those of tokens (Sundararaman et al.)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_syntax.modules.dependency import first_subwords, head_positions
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.options import NONE, check_names, names_in, option
from syntax_data.features import FEATURES, is_word_label

#: Features that number labels, so that each number can have an embedding.
LABELLED = tuple(name for name, feature in FEATURES.items() if feature.labels is not None)

#: Heads that are more words away share an embedding.
_FARTHEST_HEAD = 5


def _label_option(help: str) -> Any:
    """Declare an option that states the labels of a feature."""
    return option(None, help=f"{help}; default: the data-bin's")


@dataclass(frozen=True)
class FeatureEmbeddingOptions:
    """Options of embeddings of features."""

    written: str = option(
        NONE,
        name="feature_embeddings",
        help="comma-separated features whose embeddings join those of tokens (syntax-infused Transformer): some of "
        + ", ".join(LABELLED)
        + ", and word labels",
    )
    merge: str = option(
        "concatenate",
        name="feature_merge",
        choices=("concatenate", "sum"),
        help="how they join: concatenated, so that embeddings of tokens are the narrower, or added at full width",
    )
    dim: int = option(20, name="feature_embed_dim", at_least=1, help="their width, if they are concatenated")
    supertags: bool = option(
        False,
        help="these features make a supertag of each word: its own, its head's, and the side and distance of its head",
    )
    weight_learned: bool = option(
        False,
        name="feature_weight_learned",
        help="with --feature-merge sum: a learned weight of all of them, 0 at first; their tables begin at random",
    )
    keys: bool = option(
        False,
        name="feature_keys",
        help="keys of the decoder's cross-attention have these embeddings, too; values have not",
    )
    upos_labels: str | None = _label_option(
        "parts of speech that have an embedding, </s> the first, with spaces between"
    )
    deprel_labels: str | None = _label_option(
        "dependency relations that have an embedding, or edges (tree_edge), likewise"
    )
    category_labels: str | None = _label_option("categories of constituents that have an embedding, likewise")
    category_2_labels: str | None = _label_option("the same of the second constituent above each word")
    category_3_labels: str | None = _label_option("the same of the third")
    shared_category_labels: str | None = _label_option(
        "categories of constituents of two neighbours that have an embedding, or edges (tree_category), likewise"
    )
    word_labels: str | None = _label_option(
        "word labels that have an embedding, likewise, after their name; | between names"
    )

    def __post_init__(self) -> None:
        own = filter(is_word_label, names_in(self.written, LABELLED))
        check_names("--feature-embeddings", self.written, [*LABELLED, *dict.fromkeys(own)])
        if wrong := [name for name in self._word_labels if not is_word_label(name)]:
            raise ValueError(f"--word-labels: expected names, each with </s> and labels, found {wrong[0]!r}")
        needing = (
            ("--supertags", self.supertags),
            ("--feature-weight-learned", self.weight_learned),
            ("--feature-keys", self.keys),
        )
        for flag, given in needing:
            if given and not self.names:
                raise ValueError(f"{flag}: expected with --feature-embeddings, found none")
        if self.weight_learned and self.merge != "sum":
            raise ValueError(f"--feature-weight-learned: expected with --feature-merge sum, found {self.merge}")
        for option_name, written in self._written_labels.items():
            labels = (written or "").split()
            if labels and (labels[0] != "</s>" or len(set(labels)) < len(labels)):
                flag = f"--{option_name}-labels" if option_name in LABELLED else f"--word-labels {option_name}"
                raise ValueError(f"{flag}: expected </s> and then labels, each once, found {written!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The features, in the order of their table."""
        return tuple(names_in(self.written, LABELLED))

    @property
    def _written_labels(self) -> dict[str, str | None]:
        ours = {name: getattr(self, f"{name}_labels") for name in LABELLED if FEATURES[name].labels == ()}
        return {**self._word_labels, **ours}

    @property
    def _word_labels(self) -> dict[str, str]:
        written = (one.strip().partition(" ") for one in (self.word_labels or "").split("|"))
        return {name: labels for name, _, labels in written if name}

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """The labels of each embedded feature whose labels are known, in the order of indices."""
        return self.labels_of(self.names)

    def labels_of(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The labels of some features, embedded or not, those whose labels are known."""
        known = self._written_labels
        found = {name: FEATURES[name].labels or tuple((known.get(name) or "").split()) for name in names}
        return {name: labels for name, labels in found.items() if labels}

    @staticmethod
    def write_labels(labels: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """The options that state the labels of features."""
        written = {name: " ".join(known) for name, known in labels.items()}
        own = " | ".join(f"{name} {known}" for name, known in written.items() if name not in LABELLED)
        found = {f"{name}_labels": known for name, known in written.items() if name in LABELLED}
        return {**found, "word_labels": own} if own else found

    def with_labels(self, labels: Mapping[str, Sequence[str]]) -> FeatureEmbeddingOptions:
        """Return the options with the labels, from number 0, of more features."""
        own = {name: known.split() for name, known in self._word_labels.items()}
        return replace(self, **self.write_labels({**own, **labels}))  # type: ignore[arg-type]

    def join(self, tokens: nn.Embedding, embed_dim: int) -> InfusedEmbedding:
        """Return embeddings of tokens with those of features, `embed_dim` wide."""
        return InfusedEmbedding(
            tokens,
            labels=self.labels,
            embed_dim=embed_dim,
            merge=self.merge,
            supertags=self.supertags,
            weight_learned=self.weight_learned,
        )


class InfusedEmbedding(nn.Embedding):
    """Embeddings of tokens, and of the features over them: [e; t], or e + t (Sundararaman et al., §4.1).

    t is the sum of the features' embeddings, t_i = Σ_f u_f[f_i]. With supertags it has those of the word's head and its
    place, too: t_i = Σ_f (u_f[f_i] + u'_f[f_head]) + s[head - word], -5 to 5 words away, farther ones as 5; a root has
    s[0] alone. All subwords of a word have one head.

    A label that the model does not know, whose number is one beyond the labels', and a position without a parse have 0
    in t. Under ``sum`` all tables are 0 at first: a new model begins with tokens and positions alone, a pre-trained one
    as it is. With a learned weight γ, 0 at first, it is e + γ·t, and tables are drawn at random. Under ``concatenate``
    they are drawn as embeddings of tokens are.

    Args:
        tokens: embeddings of tokens, ``embed_dim`` wide, or narrower by the width of t. Their weight is shared with
            `tokens`.
        labels: the labels of each feature, in the order of their indices.
        embed_dim: width of the output.
        merge: ``concatenate`` or ``sum``.
        supertags: t has the head's features.
        weight_learned: there is a γ.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        *,
        labels: Mapping[str, Sequence[str]],
        embed_dim: int,
        merge: str,
        supertags: bool = False,
        weight_learned: bool = False,
    ):
        width = tokens.embedding_dim
        super().__init__(tokens.num_embeddings, width, padding_idx=tokens.padding_idx, _weight=tokens.weight.detach())
        self.weight = tokens.weight
        self.embedding_dim = embed_dim
        self.labels = {name: tuple(of_feature) for name, of_feature in labels.items()}
        self.merge = merge
        #: γ, ``(1,)``.
        self.feature_weight = nn.Parameter(torch.zeros(1)) if weight_learned else None
        #: The width of t.
        self.feature_dim = embed_dim if merge == "sum" else embed_dim - width
        rows = {name: len(known) for name, known in self.labels.items()}
        self.tables = self._new_tables(rows)
        #: Of the head's features, and of its place.
        self.supertags = self._new_tables({**rows, "head": 2 * _FARTHEST_HEAD + 1}) if supertags else None

    def _new_tables(self, rows: Mapping[str, int]) -> nn.ParameterDict:
        if self.merge == "sum" and self.feature_weight is None:
            return nn.ParameterDict({name: torch.zeros(n, self.feature_dim) for name, n in rows.items()})
        scale = self.embedding_dim**-0.5
        return nn.ParameterDict({name: torch.randn(n, self.feature_dim) * scale for name, n in rows.items()})

    @property
    def features(self) -> tuple[str, ...]:
        """The features that it needs."""
        of_supertags = ("word", "head") if self.supertags is not None else ()
        return (*self.labels, *of_supertags, *(["distance"] if "shared_category" in self.labels else []))

    def forward(self, tokens: Tensor, of_features: Tensor | None = None) -> Tensor:
        """Embed tokens, ``(batch, n)``, and join t of :meth:`of_features`: ``(batch, n, embed_dim)``."""
        embedded = super().forward(tokens)
        if of_features is None:
            raise ValueError("embeddings of features need features")
        if self.merge == "sum":
            return embedded + of_features
        return torch.cat([embedded, of_features.to(embedded.dtype)], dim=2)

    def of_features(self, features: Mapping[str, Tensor]) -> Tensor:
        """Return t, or γ·t, ``(batch, n, feature_dim)``, of features, ``(batch, n)`` each."""
        numbers = {name: features[name] for name in self.labels}
        embedded = [_rows(self.tables[name], of_word) for name, of_word in numbers.items()]
        if self.supertags is not None:
            word, head = features["word"], features["head"]
            position = head_positions(word, head, first_subwords(word))
            of_heads = {
                name: torch.where(head > 0, of_word.gather(1, position), UNKNOWN) for name, of_word in numbers.items()
            }
            place = (head - 1 - word).clamp(-_FARTHEST_HEAD, _FARTHEST_HEAD).masked_fill(head == 0, 0)
            of_heads["head"] = torch.where(head < 0, UNKNOWN, place + _FARTHEST_HEAD)
            embedded += [_rows(self.supertags[name], of_head) for name, of_head in of_heads.items()]
        t = sum(embedded[1:], start=embedded[0])
        return t if self.feature_weight is None else self.feature_weight * t


def _rows(table: Tensor, numbers: Tensor) -> Tensor:
    """Rows of a table by their numbers, the number of rows at most; 0 where there is none."""
    return F.embedding(torch.where(numbers < 0, len(table), numbers), F.pad(table, (0, 0, 0, 1)))
