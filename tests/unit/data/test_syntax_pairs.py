"""Features lie over their own sentence's tokens, however the batch was made."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from fairseq.data import FairseqDataset, LanguagePairDataset

from fairseq_syntax.data.syntax_pairs import SyntaxPairs
from fairseq_syntax.nn.masks import UNKNOWN, MaskBuilder, SyntacticDependencyOfInterest, SyntacticLocalRange
from small import dictionary, features
from syntax_preprocess.features import INFINITE, truncate
from time_limit import within


class Rows(FairseqDataset):
    def __init__(self, rows):
        self.rows = [torch.tensor(row, dtype=torch.long) for row in rows]
        self.sizes = np.array([len(row) for row in rows])

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self):
        return len(self.rows)


def dataset(lengths, *, left_pad=True, num_buckets=0, same_tokens=False, **kwargs):
    """Sentence i has tokens 10 + i and a `distance` of 100·i + position; the third has none."""
    symbols = dictionary()
    tokens = [[10 if same_tokens else 10 + i] * (n - 1) + [symbols.eos()] for i, n in enumerate(lengths)]
    syntax = Rows([[] if i == 2 else [100 * i + p for p in range(n)] for i, n in enumerate(lengths)])
    source = Rows(tokens)
    target = Rows([[5] * (n + 1) for n in lengths])
    pairs = LanguagePairDataset(
        source, source.sizes, symbols, target, target.sizes, symbols, left_pad_source=left_pad, num_buckets=num_buckets
    )
    return SyntaxPairs(pairs, syntax={"distance": syntax}, dictionary=symbols, **kwargs)


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize(("pad_to", "num_buckets"), [(None, 0), ({"source": 9, "target": 12}, 0), (None, 2)], ids=str)
@pytest.mark.parametrize("same_tokens", [True, False])
def test_features_follow_the_sentence(left_pad, pad_to, same_tokens, num_buckets):
    lengths = [3, 6, 4, 5, 2]
    data = dataset(lengths, left_pad=left_pad, same_tokens=same_tokens, num_buckets=num_buckets)
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
    whole = {k: np.array(v) for k, v in features(random, words, words + random.randint(0, 4)).items()}
    n = len(whole["word"])
    for form, subwords in (("soft", "share"), ("hard", "share"), ("soft", "first")):
        build = MaskBuilder([SyntacticLocalRange(form=form), SyntacticDependencyOfInterest(subwords=subwords)])
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
