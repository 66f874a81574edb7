"""Scores of predictions by hand and by other programs, and files of predictions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from random import Random

import pytest

from syntax_data.errors import InputError
from syntax_data.scoring.classification import (
    accuracy,
    label_set_scores,
    matthews,
    mcnemar,
    micro_scores,
    pearson,
    relation_macro_f1,
    spearman,
)
from syntax_data.scoring.predictions import Predictions, compare, scores


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1), (5, 5, 1), (1, 0, 1), (2, 0, 0.5), (1, 9, 0.021484375), (9, 1, 0.021484375), (0, 10, 2 / 1024)],
)
def test_mcnemars_exact_p(first, second, p):
    assert mcnemar(first, second) == p


def test_mcnemar_is_a_sum_over_all_outcomes():
    for n in range(1, 9):
        heads = [sum(outcome) for outcome in product([0, 1], repeat=n)]
        for first in range(n + 1):
            as_far = sum(min(k, n - k) <= min(first, n - first) for k in heads) / 2**n
            assert mcnemar(first, n - first) == pytest.approx(as_far if first * 2 != n else 1)
    assert 0 < mcnemar(4900, 5100) < 0.05


def test_matthews_of_two_labels_is_the_textbooks_and_of_more_a_correlation():
    random = Random(1)
    right = random.choices(["no", "yes"], k=200)
    predicted = [r if random.random() < 0.7 else "no" for r in right]
    n = Counter(zip(predicted, right, strict=True))
    tp, fp, fn, tn = (n[pair] for pair in (("yes", "yes"), ("yes", "no"), ("no", "yes"), ("no", "no")))
    expected = (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert matthews(predicted, right) == pytest.approx(expected)
    numbers = [[float(label == "yes") for label in of] for of in (predicted, right)]
    assert pearson(*numbers) == pytest.approx(expected)
    assert matthews(list("abca"), list("abca")) == 1
    assert matthews(list("aabbcc"), list("abbcca")) == pytest.approx(0.25)  # (3·6 − 12) / (36 − 12)
    assert matthews(["no"] * 4, ["no", "yes"] * 2) == 0


def test_scores_without_a_label():
    right = ["none", "a", "a", "b", "none", "b"]
    predicted = ["a", "a", "none", "a", "none", "b"]
    assert micro_scores(predicted, right, ["none"]) == pytest.approx((2 / 4, 2 / 4, 0.5))
    assert micro_scores(predicted, right, ["none", "b"]) == pytest.approx((1 / 3, 1 / 2, 0.4))
    assert micro_scores(["none"], ["none"], ["none"]) == (0, 0, 0)
    assert accuracy(predicted, right) == 0.5


def test_macro_f1_of_relations_with_directions():
    """C and P are right 3 and 2 times and predicted 3 and 2 times; each is once exactly right."""
    right = ["C(e1,e2)", "C(e2,e1)", "C(e1,e2)", "P(e1,e2)", "P(e2,e1)", "Other"]
    predicted = ["C(e1,e2)", "C(e1,e2)", "Other", "P(e1,e2)", "C(e2,e1)", "P(e1,e2)"]
    assert relation_macro_f1(predicted, right) == pytest.approx((2 / 6 + 2 / 4) / 2)
    assert relation_macro_f1(predicted, ["Other", *right[1:]]) == pytest.approx((0 / 5 + 2 / 4) / 2)
    assert relation_macro_f1(["D(e1,e2)", *predicted[1:]], right) == pytest.approx((0 / 5 + 2 / 4) / 2)
    assert relation_macro_f1(predicted, ["no"] * 6) is None
    given = Predictions(dict(enumerate(predicted)), dict(enumerate(right)))
    assert scores(given, "label")["macro F1"] == pytest.approx(5 / 12)


def test_scores_of_label_sets():
    predicted, right = ([set(labels) for labels in of] for of in (["ab", "", "c"], ["a", "b", "c"]))
    found = label_set_scores(predicted, right)
    expected = {"accuracy": 1 / 3, "macro F1": 2 * 0.5 * (2 / 3) / (0.5 + 2 / 3), "micro F1": 2 / 3}
    assert found == pytest.approx(expected)
    assert found["macro F1"] == pytest.approx(0.5714, abs=5e-5)


def test_correlations_with_ties():
    x, y = [1, 2, 2, 4.0], [10, 30, 20, 1000.0]
    assert spearman(x, y) == pytest.approx(0.9486833)  # ranks 1 2.5 2.5 4 and 1 3 2 4
    assert pearson(x, [2 * a - 1 for a in x]) == pytest.approx(1)
    assert math.isnan(spearman(x, [1, 1, 1, 1]))


ROWS = {2: ("no", "yes"), 0: ("yes", "yes"), 1: ("no", "no")}


def predictions(rows=ROWS) -> Predictions:
    predicted, gold = ({line: values[side] for line, values in rows.items()} for side in (0, 1))
    return Predictions(predicted, gold, {line: (float(line), 0.1) for line in rows})


def test_a_file_has_what_was_written_in_the_order_of_lines(tmp_path):
    path = str(tmp_path / "x.tsv")
    predictions().write(path, ["no", "yes"])
    assert (tmp_path / "x.tsv").read_text().splitlines() == [
        "id\tprediction\tgold\tlogit no\tlogit yes",
        "0\tyes\tyes\t0\t0.1",
        "1\tno\tno\t1\t0.1",
        "2\tno\tyes\t2\t0.1",
    ]
    found = Predictions.read(path, "label")
    assert (found.predicted, found.gold) == (predictions().predicted, predictions().gold)
    assert scores(found, "label", ignored=["no"]) == pytest.approx(
        {"accuracy": 2 / 3, "MCC": 0.5, "precision": 1, "recall": 0.5, "F1": 2 / 3}
    )
    Predictions({0: ""}, None, {0: (0.5, -1)}).write(path, ["a", "b"])
    unlabelled = Predictions.read(path, "label set")
    assert unlabelled == Predictions({0: ""}, None)
    assert scores(unlabelled, "label set") == {}


def test_two_systems_are_compared_by_what_each_alone_has_right():
    ours = predictions()
    other = predictions({2: ("yes", "yes"), 0: ("no", "yes"), 1: ("yes", "no")})
    found = compare("other.tsv", other, ours, "label")
    assert (found.first, found.second, found.p) == (2, 1, 1)
    sets = predictions({0: ("a b", "b a"), 1: ("", "")})
    assert compare("x.tsv", predictions({0: ("a", "a b"), 1: ("", "")}), sets, "label set").first == 1
    numbers = predictions({0: ("1.5", "1")})
    assert compare("x.tsv", numbers, numbers, "number") is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (predictions({0: ("no", "yes"), 1: ("no", "no")}), "same examples, found 1 in one file alone, first 2"),
        (predictions({**ROWS, 1: ("no", "yes")}), "same gold, found another one in 1 examples, first id 1: no and yes"),
        (Predictions(predictions().predicted, None), "two files with gold, .* found one without"),
    ],
)
def test_other_examples_are_not_compared(other, message):
    with pytest.raises(InputError, match=rf"^x\.tsv: expected .*{message}"):
        compare("x.tsv", other, predictions(), "label")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", "label", "1: expected the header"),
        ("id\tgold\n", "label", "1: expected the header"),
        ("id\tprediction\n0\ta\tb\n", "label", "2: expected 2 columns, found 3"),
        ("id\tprediction\n0\ta\n0\tb\n", "label", "3: expected ids from 0, each once, found '0'"),
        ("id\tprediction\n-1\ta\n", "label", "2: expected ids from 0, each once, found '-1'"),
        ("id\tprediction\tgold\n0\t1\tyes\n", "number", "2: expected numbers, found"),
    ],
)
def test_files_that_are_no_predictions(text, kind, message, tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"x\.tsv:{message}"):
        Predictions.read(str(path), kind)
