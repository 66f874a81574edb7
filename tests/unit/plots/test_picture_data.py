"""The numbers of the pictures, and the text in them."""

from __future__ import annotations

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from syntax_data.errors import InputError
from syntax_experiments.plots import picture_data
from syntax_experiments.plots.dumps import Dump


def test_spread_over_seeds():
    table = picture_data.over_seeds([("a", 4.0), ("b", 1.0), ("b", 3.0), ("b", 5.0)], ["system"])
    assert table.fillna(-1).to_dict("split")["data"] == [["a", 4, 4, 4, -1, 1], ["b", 3, 1, 5, 2, 3]]
    assert list(table) == ["system", "mean", "low", "high", "sd", "seeds"]


def write_dump(path, **arrays):
    np.savez(path, **arrays)
    return Dump(str(path))


@pytest.fixture
def dump(tmp_path):
    """Layers 1, 2 and 4, a mask, two learned biases, two heads; sentences 0 and 3."""
    rng = np.random.default_rng(1)
    arrays = {"layers": np.array([1, 2, 4]), "masks": np.array(["slr"]), "biases": np.array(["height", "path"])}
    for number, n in ((0, 3), (3, 2)):
        arrays[f"{number}/tokens"] = np.array([f"t{i}" for i in range(n)])
        arrays[f"{number}/gates"] = np.full((3, 1, 2), number, dtype=np.float32) / 4 + np.array([0, 0.1])
        arrays[f"{number}/masks"] = np.eye(n, dtype=np.float32)[None]
        arrays[f"{number}/biases"] = rng.random((3, 2, 2, n, n)).astype(np.float32)
        arrays[f"{number}/attention"] = rng.random((3, 2, n, n)).astype(np.float32)
    return write_dump(tmp_path / "d.npz", **arrays)


@pytest.mark.parametrize("name", ["0/atTention", "1/attention", "00/tokens", "heads"])
def test_a_dump_with_anything_else_in_it_is_refused(tmp_path, name):
    """One changed bit in a name; else it would be a dump without attention."""
    arrays = {"layers": np.array([1]), "masks": np.array([], dtype=str), "0/tokens": np.array(["a"])}
    assert write_dump(tmp_path / "d.npz", **arrays).sentences == [0]
    with pytest.raises(InputError, match=f"d.npz: expected a file of fairseq-syntax-dump, found '{name}' in it"):
        write_dump(tmp_path / "d.npz", **arrays, **{name: np.ones(1)})


def test_gates_are_of_dumps_or_else_of_the_last_validation(dump):
    heads = {("slr", 1, 0): 0.5, ("slr", 1, 1): 0.4, ("slr", 1, 2): 0.6}
    mean = {("slr", 1, 0): 0.7}
    table = picture_data.final_gates({"both": [dump]}, {"both": [heads], "heads": [heads], "mean": [heads, mean]})
    found = table[["system", "layer", "head", "mean"]].round(6).to_dict("split")["data"]
    assert found == [
        *(["both", layer, head, gate] for layer in (1, 2, 4) for head, gate in ((1, 0.375), (2, 0.475))),
        ["heads", 1, 1, 0.4], ["heads", 1, 2, 0.6], ["mean", 1, 0, 0.6],
    ]  # fmt: skip
    both, _, of_mean = picture_data.matrices_of(table, ["system", "bias"])
    assert (both.title, both.rows, both.columns) == ("both: slr", ["1", "2", "4"], ["1", "2"])
    np.testing.assert_allclose(both.values, [[0.375, 0.475]] * 3, rtol=1e-6)
    assert of_mean.columns == ["all"]


@pytest.mark.parametrize(
    ("kind", "titles"),
    [
        ("masks", ["slr"]),
        ("biases", ["height, layer 1", "path, layer 1", "height, layer 4", "path, layer 4"]),
        ("attention", ["attention, layer 1", "attention, layer 4"]),
        ("heads", [f"layer {layer}, head {head}" for layer in (1, 2, 4) for head in (1, 2)]),
    ],
)
def test_matrices_of_a_sentence(dump, kind, titles):
    found = picture_data.matrices("x", dump, 0, kind, 80)
    assert [m.title for m in found] == [f"x: {title}" for title in titles]
    array = dump.array(0, "attention" if kind == "heads" else kind)
    expected = array if kind in ("masks", "heads") else array[[0, 2]].mean(axis=-3)  # over heads
    expected = expected.reshape(-1, 3, 3)
    np.testing.assert_array_equal([m.values for m in found], expected)
    table = picture_data.cells(found)
    assert list(table.iloc[5])[1:5] == [1, 2, "t1", "t2"]
    assert table["value"].iloc[5] == pytest.approx(float(found[0].values[1, 2]))
    [cut, *_] = picture_data.matrices("x", dump, 0, kind, 2)
    np.testing.assert_array_equal(cut.values, found[0].values[:2, :2])
    assert cut.rows == cut.columns == ["t0", "t1"]
    with pytest.raises(InputError, match="expected sentence 1, found 0 to 3"):
        picture_data.matrices("x", dump, 1, kind, 80)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["10", "3", "10", "-"], [("-", 1), ("3", 1), ("10", 2)]),
        (["1-3", "1", "-"], [("-", 1), ("1-3", 1), ("1", 1)]),
        (["nan", "1"], [("nan", 1), ("1", 1)]),
    ],
)
def test_numbers_of_a_sweep_are_sorted_and_strings_are_not(values, expected):
    texts = ["der kleine Hund läuft schnell", "ein Mann geht nach Hause"]
    score = picture_data.CorpusScorer([texts], lowercase=False, tokenize="13a")
    table = picture_data.sweep([picture_data.Point("x", value, texts) for value in values], score)
    of_bleu = table[table["metric"] == "BLEU"]
    assert list(zip(of_bleu["value"], of_bleu["seeds"], strict=True)) == expected


@pytest.mark.parametrize(
    ("values", "least", "expected"),
    [
        ([3, 1, 2, 1], 2, [(1, 1, (1, 3)), (2, 3, (0, 2))]),
        ([1, 2, 2, 3], 2, [(1, 3, (0, 1, 2, 3))]),  # 3 alone joins what 1 has joined
        ([None, 4, None], 50, [(4, 4, (1,))]),
        ([4, 5, 6, 12, 33], 1, [(4, 5, (0, 1)), (6, 10, (2,)), (11, 15, (3,)), (16, 33, (4,))]),
    ],
)
def test_neighbours_are_joined(values, least, expected):
    assert picture_data.make_bins(values, least=least) == expected


@hypothesis.given(st.lists(st.none() | st.integers(1, 300)), st.integers(1, 20))
def test_every_sentence_is_in_one_bin_of_enough(values, least):
    bins = picture_data.make_bins(values, least=least)
    found = sorted(s for b in bins for s in b.sentences)
    assert found == [i for i, value in enumerate(values) if value is not None]
    assert all(b.first <= values[s] <= b.last for b in bins for s in b.sentences)
    assert len(bins) <= picture_data.MOST
    assert all(b.last < c.first for b, c in itertools.pairwise(bins))
    assert len(bins) < 2 or all(len(b.sentences) >= least for b in bins)
