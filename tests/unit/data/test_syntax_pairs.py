"""Features lie over their own sentence's tokens, however the batch was made."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pytest
import torch
from fairseq.data import (
    FairseqDataset,
    LanguagePairDataset,
    ListDataset,
    PrependTokenDataset,
    StripTokenDataset,
    TransformEosLangPairDataset,
)

from fairseq_syntax.data.syntax_pairs import SyntaxPairs
from fairseq_syntax.modules.biases import UNKNOWN, BiasBuilder, SyntacticDependencyOfInterest, SyntacticLocalRange
from fairseq_syntax.testing import random_features
from small import dictionary
from syntax_data.features import INFINITE, truncate
from time_limit import within


class Rows(FairseqDataset):
    def __init__(self, rows):
        self.rows = [torch.tensor(row, dtype=torch.long) for row in rows]
        self.sizes = np.array([len(row) for row in rows])

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self):
        return len(self.rows)


def dataset(lengths, *, same_tokens=False, truncated=False, wrapped=lambda pairs: pairs, **of_pairs):
    """Sentence i has tokens 10 + i and a `distance` of 100·i + position; the third has none."""
    symbols = dictionary()
    tokens = [[10 if same_tokens else 10 + i] * (n - 1) + [symbols.eos()] for i, n in enumerate(lengths)]
    syntax = Rows([[] if i == 2 else [100 * i + p for p in range(n)] for i, n in enumerate(lengths)])
    source = Rows(tokens)
    target = Rows([[5] * (n + 1) for n in lengths])
    pairs = LanguagePairDataset(source, source.sizes, symbols, target, target.sizes, symbols, **of_pairs)
    return SyntaxPairs(wrapped(pairs), syntax={"distance": syntax}, dictionary=symbols, truncated=truncated)


def batch_of(data, *numbers):
    return data.collater([data[i] for i in numbers])


def expected_distance(batch, lengths):
    """What :func:`dataset` has under the tokens of a batch."""
    tokens = batch["net_input"]["src_tokens"]
    expected = torch.full_like(tokens, UNKNOWN)
    for row, i in enumerate(batch["id"].tolist()):
        if i != 2:
            expected[row, tokens[row].ne(1)] = 100 * i + torch.arange(lengths[i])
    return expected


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize(("pad_to", "num_buckets"), [(None, 0), ({"source": 9, "target": 12}, 0), (None, 2)], ids=str)
@pytest.mark.parametrize("same_tokens", [True, False])
def test_features_follow_the_sentence(left_pad, pad_to, same_tokens, num_buckets):
    lengths = [3, 6, 4, 5, 2]
    data = dataset(lengths, left_pad_source=left_pad, same_tokens=same_tokens, num_buckets=num_buckets)
    batch = data.collater([data[i] for i in (4, 2, 0, 1, 3)], pad_to_length=pad_to)
    tokens = batch["net_input"]["src_tokens"]
    distance = batch["net_input"]["src_syntax"]["distance"]
    assert distance.shape == tokens.shape
    assert not distance.is_floating_point()
    if not num_buckets:
        assert batch["id"].tolist() == [1, 3, 2, 0, 4]  # sorted by length
    for i, row, values in zip(batch["id"].tolist(), tokens, distance, strict=True):
        real = row.ne(1)
        expected = [UNKNOWN] * lengths[i] if i == 2 else [100 * i + p for p in range(lengths[i])]
        assert values[real].tolist() == expected
        assert values[~real].eq(UNKNOWN).all()


LENGTHS = [3, 6, 4, 5, 2]


@pytest.mark.parametrize(
    "options",
    [
        {"src_lang_id": 7},
        {"tgt_lang_id": 8},
        {"append_eos_to_target": True},
        {"left_pad_source": False, "left_pad_target": True},
        {"input_feeding": False},
        {"pad_to_multiple": 4},
        {"eos": 9},
        {"constraints": torch.arange(20).view(5, 4)},
        {"align_dataset": [torch.tensor([0, 0, 1, 1])] * 5},
        {"shuffle": False},
        {"num_buckets": 2},
    ],
    ids=str,
)
def test_no_argument_of_the_pairs_is_lost(options):
    data = dataset(LENGTHS, **options)
    batch = batch_of(data, 4, 2, 0, 1, 3)
    distance = batch["net_input"].pop("src_syntax")["distance"]
    assert torch.equal(distance, expected_distance(batch, LENGTHS))
    pairs = data.dataset
    torch.testing.assert_close(batch, batch_of(pairs, 4, 2, 0, 1, 3), rtol=0, atol=0)
    assert batch_of(pairs, 0, 1).keys() >= {"id", "net_input", "target"}
    for name in options.keys() - {"num_buckets"}:
        assert getattr(data, name) is getattr(pairs, name)
    np.random.seed(1)
    order = data.ordered_indices()
    np.random.seed(1)
    assert order.tolist() == pairs.ordered_indices().tolist()
    assert data.get_batch_shapes() == pairs.get_batch_shapes()
    assert [data.size(i) for i in range(5)] == [pairs.size(i) for i in range(5)]


@pytest.mark.parametrize("options", [{"append_bos": True}, {"remove_eos_from_source": True}], ids=str)
@pytest.mark.parametrize("truncated", [False, True])
def test_other_source_tokens_go_without_features_alone(options, truncated):
    data = dataset(LENGTHS, truncated=truncated, **options)
    with pytest.raises(ValueError, match=r"expected source tokens that end in </s>|as there are tokens, found"):
        batch_of(data, 0, 1)
    data.syntax = {}
    torch.testing.assert_close(batch_of(data, 0, 1), batch_of(data.dataset, 0, 1), rtol=0, atol=0)
    tokens = batch_of(data, 0)["net_input"]["src_tokens"].tolist()
    assert tokens == [[0, 10, 10, 2] if "append_bos" in options else [10, 10]]


def test_a_prepended_token_is_refused_also_where_another_is_gone():
    data = dataset(LENGTHS)
    data.dataset.src = PrependTokenDataset(data.src, 30)
    with pytest.raises(ValueError, match=r"expected \[4\] values a sentence.*found \[3\]"):
        batch_of(data, 0)
    data.dataset.src = PrependTokenDataset(StripTokenDataset(data.src.dataset, 2), 30)
    with pytest.raises(ValueError, match=r"sentence 0 \(counted from 0\): expected source tokens that end in </s>"):
        batch_of(data, 0)


@pytest.mark.parametrize("left_pad", [True, False])
def test_wrapped_pairs(left_pad):
    def renamed(pairs):  # as the tasks for several languages do
        return TransformEosLangPairDataset(pairs, src_eos=2, new_src_eos=35, tgt_bos=2, new_tgt_bos=36)

    batch = batch_of(dataset(LENGTHS, wrapped=renamed, left_pad_source=left_pad), 4, 2, 0, 1, 3)
    tokens = batch["net_input"]["src_tokens"]
    assert tokens.eq(35).sum() == 5
    assert batch["net_input"]["prev_output_tokens"][:, 0].eq(36).all()
    assert torch.equal(batch["net_input"]["src_syntax"]["distance"], expected_distance(batch, LENGTHS))

    chosen = dataset(LENGTHS, wrapped=lambda pairs: ListDataset([pairs[4], pairs[1]]))
    chosen.dataset.collater = dataset(LENGTHS).dataset.collater
    batch = batch_of(chosen, 0, 1)
    assert batch["id"].tolist() == [1, 4]
    assert torch.equal(batch["net_input"]["src_syntax"]["distance"], expected_distance(batch, LENGTHS))


def test_copies_for_other_processes():
    data = dataset(LENGTHS, num_buckets=2)
    copied = pickle.loads(pickle.dumps(data))
    torch.testing.assert_close(batch_of(copied, 0, 1), batch_of(data, 0, 1), rtol=0, atol=0)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = data.nothing_of_the_kind


def test_without_features_batches_are_fairseqs_own():
    data = dataset([3, 6])
    data.syntax = {}
    assert "src_syntax" not in data.collater([data[0], data[1]])["net_input"]
    assert data.collater([]) == {}


def test_buckets_bound_the_number_of_shapes():
    data = dataset([3, 6, 4, 5, 2, 9, 8], num_buckets=2)
    shapes = {data.collater([data[i]])["net_input"]["src_tokens"].shape for i in range(7)}
    assert len(shapes) == 2
    assert len(data.get_batch_shapes()) <= 4
    assert sorted(data.ordered_indices().tolist()) == list(range(7))


@pytest.mark.parametrize("sentences", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("num_buckets", [0, 2])
def test_no_sentence_is_dropped(sentences, num_buckets):
    data = dataset([3 + i % 4 for i in range(sentences)], num_buckets=num_buckets)
    batches = data.batch_by_size(data.ordered_indices(), max_tokens=30, required_batch_size_multiple=8)
    assert sorted(i for batch in batches for i in batch) == list(range(sentences))
    assert all(data.num_tokens_vec(np.array(batch)).max() * len(batch) <= 30 for batch in batches)


def test_features_of_another_length_are_refused():
    data = dataset([3, 6])
    data.syntax["distance"].rows[0] = torch.tensor([1, 2])
    with pytest.raises(ValueError, match=r"expected \[3\] values a sentence.*found \[2\]"):
        data.collater([data[0]])


@pytest.mark.parametrize("seed", range(30))
def test_truncated_features_make_the_submatrix_of_the_whole_mask(seed):
    random = Random(seed)
    words = random.randint(1, 9)
    whole = {k: np.array(v) for k, v in random_features(random, words, words + random.randint(0, 4)).items()}
    n = len(whole["word"])
    for form, subwords in (("soft", "share"), ("hard", "share"), ("soft", "first")):
        build = BiasBuilder([SyntacticLocalRange(form=form), SyntacticDependencyOfInterest(subwords=subwords)])
        full = build({k: torch.from_numpy(v)[None] for k, v in whole.items()}).log_masks[0]
        for length in range(1, n + 1):
            cut = truncate(whole, length)
            assert {len(v) for v in cut.values()} == {length}
            masks = build({k: torch.from_numpy(v)[None] for k, v in cut.items()}).log_masks[0]
            kept = length - 1
            torch.testing.assert_close(masks[:, :kept, :kept], full[:, :kept, :kept])
            slr, sdoi = masks
            assert (slr[kept] == 0).all()  # </s> sees everything
            assert sdoi[kept].exp().tolist() == [0.0] * kept + [1.0]  # itself
            if kept > 1:
                assert (slr[: kept - 1, kept] == -torch.inf).all()
                assert slr[kept - 1, kept] == 0


def test_no_parse_stays_no_parse_when_truncated():
    cut = truncate(
        {"word": np.arange(5), "head": np.zeros(0), "distance": np.array([1, 2, 3, INFINITE, INFINITE])},
        3,
    )
    assert cut["head"].tolist() == []
    assert cut["distance"].tolist() == [1, INFINITE, INFINITE]
    assert cut["word"].tolist() == [0, 1, 2]


def test_labels_are_truncated_too():
    features = {"word": np.arange(5), "upos": np.array([3, 1, 2, 4, 0]), "case": np.array([2, 1, 1, 1, 0])}
    cut = truncate(features, 3)
    assert cut["upos"].tolist() == [3, 1, 0]
    assert cut["case"].tolist() == [2, 1, 0]


def test_a_cycle_beyond_the_cut_is_refused():
    whole = {"word": np.arange(6), "head": np.array([0, 4, 1, 5, 4, 0])}
    assert truncate(whole, 1)["head"].tolist() == [0]
    with within(20), pytest.raises(ValueError, match=r"found a cycle through word [34] \(from 0\)"):
        truncate(whole, 3)
    data = dataset([3, 6], truncated=True)
    data.src.rows[1] = data.src.rows[1][-3:]
    data.syntax = {name: Rows([range(3), values.tolist()]) for name, values in whole.items()}
    with within(20), pytest.raises(ValueError, match=r"sentence 1 \(counted from 0\): .*found a cycle through word"):
        data[1]


def test_truncating_dataset():
    data = dataset([3, 6], truncated=True)
    data.src.rows[1] = data.src.rows[1][-3:]
    item = data[1]["syntax"]["distance"]
    assert item.tolist() == [100, INFINITE, INFINITE]
