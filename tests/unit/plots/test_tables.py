"""The numbers of the pictures."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from syntax_data.errors import InputError
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.tree import DependencyTree
from syntax_experiments.plots.bins import make_bins
from syntax_experiments.plots.curves import learning_curves
from syntax_experiments.plots.dumps import Dump
from syntax_experiments.plots.gates import gates_at_end, gates_of_heads, gates_over_training
from syntax_experiments.plots.history import Validation
from syntax_experiments.plots.scores import Point, Scorer, scores_by_bin, sweep
from syntax_experiments.plots.sentence import attention_and_masks, attention_of_heads, constituents, dependencies
from syntax_experiments.plots.table import Table, spread


def history(*losses: float, gates: dict | None = None):
    return [Validation(k, 10 * k, loss, gates or {}) for k, loss in enumerate(losses, start=1)]


def test_spread_over_seeds():
    assert spread([4.0]) == (4.0, 4.0, 4.0, None, 1)
    assert spread([1.0, 3.0, 5.0]) == (3.0, 1.0, 5.0, 2.0, 3)


def test_a_table_is_written_as_csv(tmp_path):
    table = Table(("a", "b"), [("x,y", 1.23456789), (None, 7)])
    table.write_csv(str(tmp_path / "t.csv"))
    assert (tmp_path / "t.csv").read_text() == 'a,b\n"x,y",1.23457\n,7\n'
    with open(tmp_path / "t.csv", newline="") as file:
        assert list(csv.reader(file)) == [["a", "b"], *table.cells()]


def test_learning_curves_are_means_as_far_as_all_seeds_go():
    table = learning_curves({"slr": [history(6, 4, 3), history(8, 5)], "stock": [history(7)]})
    assert table.columns == ("system", "validation", "epoch", "updates", "mean", "low", "high", "sd", "seeds")
    assert table.rows == [
        ("slr", 1, 1, 10, 7, 6, 8, math.sqrt(2), 2),
        ("slr", 2, 2, 20, 4.5, 4, 5, math.sqrt(0.5), 2),
        ("stock", 1, 1, 10, 7, 7, 7, None, 1),
    ]
    assert table.notes == ("slr: 1 later validations of seeds that trained longer than another are left out.",)


GATES = {("slr", 1, 0): 0.5, ("slr", 1, 1): 0.4, ("slr", 1, 2): 0.6}


def test_gates_over_training_are_those_of_layers():
    logged = [history(6, 5, gates=GATES), history(6, 5, gates={("slr", 1, 0): 0.7})]
    table = gates_over_training({"stock": [history(5)], "slr": logged})
    assert [row[:6] for row in table.rows] == [("slr", "slr", 1, 1, 1, 10), ("slr", "slr", 1, 2, 2, 20)]
    assert [r["mean"] for r in table.records()] == pytest.approx([0.6, 0.6])


def test_gates_of_heads_are_those_of_the_first_run_that_has_them():
    means = history(6, 5, gates={("slr", 1, 0): 0.7})
    late = [means[0], *history(5, gates=GATES)]  # begun by a version that logged means alone
    assert gates_of_heads([means]).rows == []
    table = gates_of_heads([means, late, history(6, gates=GATES)])
    assert table.columns == ("mask", "layer", "head", "validation", "epoch", "updates", "gate")
    assert table.rows == [
        ("slr", 1, 0, 1, 1, 10, 0.7), ("slr", 1, 0, 2, 1, 10, 0.5), ("slr", 1, 1, 2, 1, 10, 0.4),
        ("slr", 1, 2, 2, 1, 10, 0.6),
    ]  # fmt: skip
    assert table.notes == ("Of run 2 of 3.",)
    assert gates_of_heads([late]).notes == ()


def write_dump(path, **arrays):
    np.savez(path, **arrays)
    return Dump(str(path))


@pytest.fixture
def dump(tmp_path):
    """Two layers, a mask, two heads; sentences 0 and 3."""
    rng = np.random.default_rng(1)
    arrays = {"layers": np.array([1, 3]), "masks": np.array(["slr"])}
    for number, n in ((0, 3), (3, 2)):
        arrays[f"{number}/tokens"] = np.array([f"t{i}" for i in range(n)])
        arrays[f"{number}/gates"] = np.full((2, 1, 2), number, dtype=np.float32) / 4 + np.array([0, 0.1])
        arrays[f"{number}/masks"] = np.eye(n, dtype=np.float32)[None]
        arrays[f"{number}/attention"] = rng.random((2, 2, n, n)).astype(np.float32)
    return write_dump(tmp_path / "d.npz", **arrays)


@pytest.mark.parametrize("name", ["0/atTention", "0/attention.npy", "1/attention", "00/tokens", "heads"])
def test_a_dump_with_anything_else_in_it_is_refused(tmp_path, name):
    """As it comes of one changed bit, and would else be a dump without attention."""
    arrays = {"layers": np.array([1]), "masks": np.array([], dtype=str), "0/tokens": np.array(["a"])}
    assert write_dump(tmp_path / "d.npz", **arrays).sentences == [0]
    with pytest.raises(InputError, match=f"d.npz: expected a file of fairseq-syntax-dump, found '{name}' in it"):
        write_dump(tmp_path / "d.npz", **arrays, **{name: np.ones(1)})


def test_gates_at_the_end_are_of_dumps_or_else_of_the_last_validation(dump):
    table = gates_at_end({"slr": [history(6, 5, gates=GATES)], "both": [history(6, gates=GATES)]}, {"both": [dump]})
    assert [(*row[:4], round(row[4], 6)) for row in table.rows] == [
        ("both", "slr", 1, 1, 0.375), ("both", "slr", 1, 2, 0.475), ("both", "slr", 3, 1, 0.375),
        ("both", "slr", 3, 2, 0.475), ("slr", "slr", 1, 1, 0.4), ("slr", "slr", 1, 2, 0.6),
    ]  # fmt: skip
    means = gates_at_end({"slr": [history(5, gates={("slr", 1, 0): 0.5})]}, {})
    assert [row[:5] for row in means.rows] == [("slr", "slr", 1, 0, 0.5)]


def test_cells_of_a_sentence(dump):
    table = attention_and_masks({"slr": dump}, 0)
    assert table.values("matrix") == ["mask slr", "attention, layer 1", "attention, layer 3"]
    assert len(table.rows) == 3 * 9
    attention = dump.array(0, "attention")
    [found] = table.records(matrix="attention, layer 3", query=2, key=1)
    assert (found["query_token"], found["key_token"]) == ("t2", "t1")
    assert found["value"] == pytest.approx(float(attention[1, :, 2, 1].mean()))
    [found] = attention_of_heads(dump, 3).records(layer=1, head=2, query=0, key=1)
    assert found["value"] == pytest.approx(float(dump.array(3, "attention")[0, 1, 0, 1]))
    with pytest.raises(InputError, match="expected sentence 1, found 0 to 3"):
        attention_and_masks({"slr": dump}, 1)


def test_learned_biases_are_drawn_where_there_is_no_mask(tmp_path):
    biases = np.arange(2 * 1 * 2 * 4, dtype=np.float32).reshape(2, 1, 2, 2, 2)
    dump = write_dump(
        tmp_path / "d.npz", layers=np.array([1, 2]), masks=np.array(["position"]), biases=np.array(["position"]),
        **{"0/tokens": np.array(["a", "b"]), "0/biases": biases},
    )  # fmt: skip
    table = attention_and_masks({"x": dump}, 0)
    assert table.values("matrix") == ["bias position, layer 1", "bias position, layer 2"]
    [found] = table.records(matrix="bias position, layer 2", query=1, key=0)
    assert found["value"] == (10 + 14) / 2


def test_of_many_layers_the_first_and_the_last_are_compared(tmp_path):
    dump = write_dump(
        tmp_path / "d.npz", layers=np.arange(1, 7), masks=np.array(["slr"]),
        **{"0/tokens": np.array(["a"]), "0/attention": np.ones((6, 2, 1, 1))},
    )  # fmt: skip
    assert attention_and_masks({"x": dump}, 0).values("matrix") == ["attention, layer 1", "attention, layer 6"]
    assert attention_of_heads(dump, 0).values("layer") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("content", [b"", b"no file of numpy", None])
def test_what_is_no_dump_is_refused(tmp_path, content):
    path = tmp_path / "d.npz"
    if content is None:
        np.savez(path, a=np.ones(2))
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"d\.npz: expected a file of fairseq-syntax-dump, found "):
        Dump(str(path))


def test_trees_as_tables():
    table = constituents(parse_brackets("(S (NP a b) c) (X d)", path="x", line=1))
    assert table.rows == [
        (0, None, "S", None, None), (1, 0, "NP", None, None), (2, 1, None, 0, "a"), (3, 1, None, 1, "b"),
        (4, 0, None, 2, "c"), (5, None, "X", None, None), (6, 5, None, 3, "d"),
    ]  # fmt: skip
    assert dependencies(DependencyTree(["a", "b"], [2, 0])).rows == [(1, "a", "_", 2, "_"), (2, "b", "_", 0, "_")]


REFERENCES = [["der kleine Hund läuft schnell", "ein Mann geht nach Hause", "die Frau sieht den Hund im Garten"]]
GOOD = REFERENCES[0]
BAD = ["der kleine Hund sitzt da", "ein Mann geht ins Haus", "die Frau mag den Hund im Haus"]


def test_scores_are_sacrebleus_of_each_bins_sentences():
    from sacrebleu.metrics import BLEU, CHRF

    score = Scorer(REFERENCES, lowercase=False, tokenize="13a")
    table = scores_by_bin(make_bins([1, 2, 2], least=1), {"x": [GOOD, BAD]}, score)
    assert [row[:6] for row in table.rows] == [
        (*key, "x", metric) for key in (("1", 1, 1, 1), ("2", 2, 2, 2)) for metric in ("BLEU", "chrF2")
    ]
    for metric, name in ((BLEU(), "BLEU"), (CHRF(), "chrF2")):
        [found] = table.records(bin="2", metric=name)
        expected = metric.corpus_score(BAD[1:], [GOOD[1:]]).score
        assert (found["low"], found["high"]) == (pytest.approx(expected), pytest.approx(100))
        assert found["mean"] == pytest.approx((expected + 100) / 2)
    assert score.signatures()[0].startswith("BLEU: nrefs:1|case:mixed")


def test_numbers_of_a_sweep_are_sorted_and_words_are_not():
    score = Scorer(REFERENCES, lowercase=False, tokenize="13a")
    numbers = [Point("slr", "10", GOOD), Point("slr", "3", BAD), Point("slr", "10", BAD), Point("stock", "-", GOOD)]
    table = sweep(numbers, score)
    assert [(r["system"], r["value"], r["seeds"]) for r in table.records(metric="BLEU")] == [
        ("slr", "3", 1), ("slr", "10", 2), ("stock", None, 1)
    ]  # fmt: skip
    words = sweep([Point("slr", "1-3", GOOD), Point("slr", "1", GOOD)], score)
    assert [r["value"] for r in words.records(metric="BLEU")] == ["1-3", "1"]
