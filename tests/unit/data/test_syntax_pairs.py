"""Features are over their sentence's tokens, however a batch was made and moved."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pytest
import torch
from fairseq import utils
from fairseq.data import (
    LanguagePairDataset,
    ListDataset,
    PrependTokenDataset,
    StripTokenDataset,
    TransformEosLangPairDataset,
)

import small
from fairseq_syntax.data.syntax_pairs import SyntaxPairs
from fairseq_syntax.modules.biases import UNKNOWN, BiasBuilder, SyntacticDependencyOfInterest, SyntacticLocalRange
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.testing import random_features
from syntax_data.features import INFINITE, truncate, window
from time_limit import within

LENGTHS = [3, 6, 4, 5, 2]
ORDER = (4, 2, 0, 1, 3)


def dataset(lengths=LENGTHS, *, features=None, truncated=False, wrapped=lambda pairs: pairs, **of_pairs):
    """Sentence i has tokens 10 + i and `distance` 100·i + position; the third none."""
    symbols = small.dictionary()
    source = small.Rows([[10 + i] * (n - 1) + [symbols.eos()] for i, n in enumerate(lengths)])
    target = small.Rows([[5] * (n + 1) for n in lengths])
    if features is None:
        rows = [[] if i == 2 else [100 * i + p for p in range(n)] for i, n in enumerate(lengths)]
        features = {"distance": small.Rows(rows)}
    pairs = LanguagePairDataset(source, source.sizes, symbols, target, target.sizes, symbols, **of_pairs)
    return SyntaxPairs(wrapped(pairs), features=features, dictionary=symbols, truncated=truncated)


def batch_of(data, *numbers, **more):
    return data.collater([data[i] for i in numbers], **more)


def assert_features_are_in_place(batch):
    """The features of :func:`dataset`, under the tokens of a batch."""
    tokens, distance = batch["net_input"]["src_tokens"], batch["net_input"]["src_syntax"]["distance"]
    expected = torch.full_like(tokens, UNKNOWN)
    for row, i in enumerate(batch["id"].tolist()):
        if i != 2:
            expected[row, tokens[row].ne(1)] = 100 * i + torch.arange(LENGTHS[i])
    assert torch.equal(distance, expected)
    assert not distance.is_floating_point()


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize(("pad_to", "num_buckets"), [(None, 0), ({"source": 9, "target": 12}, 0), (None, 2)], ids=str)
def test_features_follow_the_sentence(left_pad, pad_to, num_buckets):
    data = dataset(left_pad_source=left_pad, num_buckets=num_buckets)
    batch = batch_of(data, *ORDER, pad_to_length=pad_to)
    assert_features_are_in_place(batch)
    if not num_buckets:
        assert batch["id"].tolist() == [1, 3, 2, 0, 4]  # sorted by length


def test_all_that_moves_a_batch_moves_its_features():
    features = batch_of(dataset(), *ORDER)["net_input"]["src_syntax"]
    assert isinstance(features, SyntaxBatch)
    moved = utils.apply_to_sample(lambda tensor: tensor.to("meta"), {"net_input": {"src_syntax": features}})
    found = SyntaxBatch.of(moved["net_input"]["src_syntax"])
    for other in (found, features.to(torch.device("meta"))):
        assert {name: feature.device.type for name, feature in other.items()} == {"distance": "meta"}
    assert SyntaxBatch.of(features) is features
    assert SyntaxBatch.of(None) == {}
    assert torch.equal(pickle.loads(pickle.dumps(features))["distance"], features["distance"])


OF_PAIRS = [
    {"src_lang_id": 7}, {"tgt_lang_id": 8}, {"append_eos_to_target": True}, {"input_feeding": False}, {"eos": 9},
    {"left_pad_source": False, "left_pad_target": True}, {"pad_to_multiple": 4}, {"shuffle": False},
    {"constraints": torch.arange(20).view(5, 4)}, {"align_dataset": [torch.tensor([0, 0, 1, 1])] * 5},
    {"num_buckets": 2},
]  # fmt: skip


@pytest.mark.parametrize("options", OF_PAIRS, ids=str)
def test_no_argument_of_the_pairs_is_lost(options):
    data = dataset(**options)
    batch = batch_of(data, *ORDER)
    assert_features_are_in_place(batch)
    del batch["net_input"]["src_syntax"]
    pairs = data.dataset
    torch.testing.assert_close(batch, batch_of(pairs, *ORDER), rtol=0, atol=0)
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
    with pytest.raises(ValueError, match=r"expected source tokens that end in </s>|as there are tokens, found"):
        batch_of(dataset(truncated=truncated, **options), 0, 1)
    data = dataset(truncated=truncated, features={}, **options)
    torch.testing.assert_close(batch_of(data, 0, 1), batch_of(data.dataset, 0, 1), rtol=0, atol=0)
    assert data.collater([]) == {}
    data = dataset()
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

    batch = batch_of(dataset(wrapped=renamed, left_pad_source=left_pad), *ORDER)
    assert batch["net_input"]["src_tokens"].eq(35).sum() == 5
    assert batch["net_input"]["prev_output_tokens"][:, 0].eq(36).all()
    assert_features_are_in_place(batch)

    chosen = dataset(wrapped=lambda pairs: ListDataset([pairs[4], pairs[1]]))
    chosen.dataset.collater = dataset().dataset.collater
    batch = batch_of(chosen, 0, 1)
    assert batch["id"].tolist() == [1, 4]
    assert_features_are_in_place(batch)


def test_copies_for_other_processes():
    data = dataset(num_buckets=2)
    copied = pickle.loads(pickle.dumps(data))
    torch.testing.assert_close(batch_of(copied, 0, 1), batch_of(data, 0, 1), rtol=0, atol=0)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = data.nothing_of_the_kind


@pytest.mark.parametrize("sentences", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("num_buckets", [0, 2])
def test_no_sentence_is_dropped_and_buckets_bound_the_number_of_shapes(sentences, num_buckets):
    data = dataset([3 + i % 4 for i in range(sentences)], num_buckets=num_buckets)
    batches = data.batch_by_size(data.ordered_indices(), max_tokens=30, required_batch_size_multiple=8)
    assert sorted(i for batch in batches for i in batch) == list(range(sentences))
    assert all(data.num_tokens_vec(np.array(batch)).max() * len(batch) <= 30 for batch in batches)
    if num_buckets:
        assert len({batch_of(data, i)["net_input"]["src_tokens"].shape for i in range(sentences)}) <= 2


@pytest.mark.parametrize("seed", range(6))
def test_features_of_a_part_make_the_submatrix_of_the_whole_mask(seed):
    random = Random(seed)
    words = random.randint(1, 9)
    whole = {k: np.array(v) for k, v in random_features(random, words, words + random.randint(0, 4)).items()}
    n = len(whole["word"])
    for form, subwords in (("soft", "share"), ("hard", "share"), ("soft", "first")):
        build = BiasBuilder([SyntacticLocalRange(form=form), SyntacticDependencyOfInterest(subwords=subwords)])
        full = small.log_masks(build({k: torch.from_numpy(v)[None] for k, v in whole.items()}))[0]
        for length in range(1, n + 1):
            cut = truncate(whole, length)
            assert {len(v) for v in cut.values()} == {length}
            masks = small.log_masks(build({k: torch.from_numpy(v)[None] for k, v in cut.items()}))[0]
            kept = length - 1
            torch.testing.assert_close(masks[:, :kept, :kept], full[:, :kept, :kept])
            slr, sdoi = masks
            assert (slr[kept] == 0).all()  # </s> sees everything
            assert sdoi[kept].exp().tolist() == [0.0] * kept + [1.0]  # itself
            if kept > 1:
                assert (slr[: kept - 1, kept] == -torch.inf).all()
                assert slr[kept - 1, kept] == 0
            # "first" needs each word's first subword
            for start in (
                i for i in range(kept) if subwords == "share" or i == list(cut["word"]).index(cut["word"][i])
            ):
                inside = window(whole, range(start, kept))
                masks = small.log_masks(build({k: torch.from_numpy(v)[None] for k, v in inside.items()}))[0]
                torch.testing.assert_close(masks[:, :-1, :-1], full[:, start:kept, start:kept])


def test_truncation_cuts_every_feature_and_refuses_a_cycle_beyond_the_cut():
    features = {
        "word": np.arange(5), "head": np.zeros(0), "distance": np.array([1, 2, 3, INFINITE, INFINITE]),
        "upos": np.array([3, 1, 2, 4, 0]), "case": np.array([2, 1, 1, 1, 0]),
    }  # fmt: skip
    expected = {
        "word": [0, 1, 2], "head": [], "distance": [1, INFINITE, INFINITE], "upos": [3, 1, 0], "case": [2, 1, 0],
    }  # fmt: skip
    assert {name: values.tolist() for name, values in truncate(features, 3).items()} == expected
    cyclic = {"word": np.arange(6), "head": np.array([0, 4, 1, 5, 4, 0])}
    assert truncate(cyclic, 1)["head"].tolist() == [0]
    distances = {"distance": np.array([100, 101, 102, 103, INFINITE, INFINITE])}
    for rows, cut in ((distances, [100, INFINITE, INFINITE]), (cyclic, None)):
        features = {name: small.Rows([range(3), values]) for name, values in rows.items()}
        data = dataset([3, 6], truncated=True, features=features)
        data.src.rows[1] = data.src.rows[1][-3:]
        if cut:
            assert data[1]["syntax"]["distance"].tolist() == cut
        else:
            with (
                within(20),
                pytest.raises(ValueError, match=r"sentence 1 \(counted from 0\): .*found a cycle through word"),
            ):
                data[1]
