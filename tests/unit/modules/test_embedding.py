"""Embeddings of features beside those of tokens."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairseq_syntax.modules.biases import UNKNOWN
from fairseq_syntax.modules.embedding import FeatureEmbeddingOptions, InfusedEmbedding
from fairseq_syntax.modules.labels import LabelVocabulary
from fairseq_syntax.modules.syntax_batch import SyntaxBatch

LABELS = {"upos": ["</s>", "DET", "NOUN", "VERB", "ADJ"], "case": ["</s>", "l", "c"], "position": ["</s>", *"OSME"]}
#: The increase re@@ flects lower credit losses </s>
FEATURES = {
    "upos": torch.tensor([[1, 2, 3, 3, 4, 2, 2, 0]]),
    "case": torch.tensor([[2, 1, 1, 1, 1, 1, 1, 0]]),
    "position": torch.tensor([[1, 1, 2, 4, 1, 1, 1, 0]]),
}
TOKENS = torch.tensor([[4, 5, 6, 7, 8, 9, 10, 2]])
#: Σ f by hand, and without the parse.
EXPECTED = torch.tensor([12.1, 21.1, 31.2, 31.4, 41.1, 21.1, 21.1, 0])
UNPARSED = torch.tensor([2.1, 1.1, 1.2, 1.4, 1.1, 1.1, 1.1, 0])


def embedding(merge: str = "concatenate", *, supertags: bool = False) -> InfusedEmbedding:
    """Tokens are their numbers; the tables are those of the worked example; five or one dimensions in all."""
    width = 1 if merge == "sum" else 4
    tokens = nn.Embedding(12, width, padding_idx=1)
    tokens.weight.data.copy_(torch.arange(12.0)[:, None].expand(12, width))
    options = {"labels": LABELS, "embed_dim": 1 if merge == "sum" else 5, "merge": merge, "supertags": supertags}
    made = InfusedEmbedding(tokens, **options)
    for name, step in (("upos", 10.0), ("case", 1.0), ("position", 0.1)):
        made.tables[name].data.copy_(step * torch.arange(float(len(LABELS[name])))[:, None])
    return made


def joined(made: InfusedEmbedding, features: dict[str, torch.Tensor]) -> torch.Tensor:
    return made(TOKENS, made.of_features(features))


def test_features_are_summed_and_concatenated_by_hand():
    found = joined(embedding(), FEATURES)
    torch.testing.assert_close(found[0], torch.cat([TOKENS[0, :, None].expand(8, 4), EXPECTED[:, None]], dim=1))
    torch.testing.assert_close(joined(embedding("sum"), FEATURES)[0, :, 0], TOKENS[0] + EXPECTED)
    unparsed = {**FEATURES, "upos": torch.full((1, 8), UNKNOWN)}
    torch.testing.assert_close(joined(embedding(), unparsed)[0, :, 4], UNPARSED)


def test_labels_of_other_data_are_found_by_name_and_unknown_ones_have_no_embedding():
    vocabulary = LabelVocabulary(LABELS)
    vocabulary.set_order({"upos": ["</s>", "VERB", "X", "NOUN", "DET", "ADJ"]})
    theirs = SyntaxBatch({**FEATURES, "upos": torch.tensor([[4, 3, 1, 1, 5, 3, 2, 0]])})  # the last word's is X
    found = vocabulary.renumber(theirs)
    assert found["upos"].tolist() == [[1, 2, 3, 3, 4, 2, 5, 0]]
    torch.testing.assert_close(joined(embedding(), found)[0, :, 4], torch.cat([EXPECTED[:6], UNPARSED[6:]]))
    unparsed = SyntaxBatch({**FEATURES, "upos": torch.full((1, 8), UNKNOWN)})
    assert vocabulary.renumber(unparsed)["upos"].eq(UNKNOWN).all()
    for same in ({}, LABELS):
        vocabulary.set_order(same)
        assert vocabulary.renumber(theirs) == theirs


def test_a_supertag_adds_the_heads_labels_and_its_side_and_distance_by_hand():
    """The last word depends on the first, six to the left; `re@@ flects` is the root."""
    made = embedding("sum", supertags=True)
    assert made.features == ("upos", "case", "position", "word", "head")
    assert not any(table.any() for table in made.supertags.values())
    for name, step in (("upos", 1000.0), ("case", 0.0), ("position", 0.0)):
        made.supertags[name].data.copy_(step * torch.arange(float(len(LABELS[name])))[:, None])
    made.supertags["head"].data.copy_(10_000 * torch.arange(-5.0, 6.0)[:, None])
    features = {name: torch.cat([values[:, :7], values[:, 6:]], dim=1) for name, values in FEATURES.items()}
    features |= {
        "word": torch.tensor([[0, 1, 2, 2, 3, 4, 5, 6, 7]])[:, :9],
        "head": torch.tensor([[2, 3, 0, 0, 6, 6, 3, 1, 0]]),
    }
    own = made.of_features(features)[0, :, 0] - embedding("sum").of_features(features)[0, :, 0]
    #                     The: NOUN, 1   increase    (root)  lower: NOUN, 2 credit: 1  losses: VERB, -3  DET, -6
    expected = torch.tensor([12_000.0, 13_000.0, 0, 0, 22_000.0, 12_000.0, -27_000.0, -49_000.0, 0])
    torch.testing.assert_close(own, expected)
    features["head"][0, :] = UNKNOWN
    torch.testing.assert_close(made.of_features(features), embedding("sum").of_features(features))


def test_a_learned_weight_begins_at_zero_with_random_tables_and_is_a_factor():
    tokens = nn.Embedding(12, 3, padding_idx=1)
    made = InfusedEmbedding(tokens, labels=LABELS, embed_dim=3, merge="sum", supertags=False, weight_learned=True)
    assert all(table.any() for table in made.tables.values())
    torch.testing.assert_close(joined(made, FEATURES), tokens(TOKENS))
    made.feature_weight.data.fill_(2.0)
    rows = sum(made.tables[name][numbers[0]] for name, numbers in FEATURES.items())
    torch.testing.assert_close(joined(made, FEATURES)[0], tokens(TOKENS)[0] + 2 * rows)


def test_parameters_are_as_many_as_the_paper_has():
    tokens = nn.Embedding(100, 492, padding_idx=1)
    made = InfusedEmbedding(tokens, labels={**LABELS, "upos": range(18)}, embed_dim=512, merge="concatenate")
    assert sum(p.numel() for p in made.parameters()) == 100 * 492 + 20 * (18 + 3 + 5)
    assert made.weight is tokens.weight
    assert made.embedding_dim == 512


def test_features_are_in_one_order_and_those_without_labels_are_refused():
    assert FeatureEmbeddingOptions(written="position, upos").names == ("upos", "position")
    known = FeatureEmbeddingOptions(written="upos,case", upos_labels="</s> NOUN").labels
    assert known == {"upos": ("</s>", "NOUN"), "case": ("</s>", "lower", "capitalised")}
    for written in ("upos,upos", "upos,distance", "a-tag", "tag,tag"):
        with pytest.raises(ValueError, match="--feature-embeddings: expected some of deprel,upos,category,"):
            FeatureEmbeddingOptions(written=written)
