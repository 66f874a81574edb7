"""Tests of differences, held to numbers that others have computed."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest

pytest.importorskip("scipy")

from scipy.stats import ttest_1samp

from syntax_data.scoring.metrics import ScoreSettings
from syntax_experiments.significance import (
    adjust,
    compare,
    holm,
    over_seeds,
    over_seeds_and_sentences,
    smallest_difference,
)

WORDS = [f"wort{number}" for number in range(50)]
REFERENCES = [" ".join(Random(seed).choices(WORDS, k=9)) for seed in range(40)]


def worse(*, share: float, seed: int) -> list[str]:
    random = Random(seed)
    return [" ".join(word if random.random() > share else "falsch" for word in line.split()) for line in REFERENCES]


def compared(system: list[str], baseline: list[str], **samples: int) -> dict:
    return compare(system, baseline, REFERENCES, settings=ScoreSettings(), **samples)


def test_a_comparison_of_very_different_systems_and_of_one_with_itself():
    baseline, system = worse(share=0.6, seed=1), worse(share=0.1, seed=2)
    found = compared(system, baseline, bootstrap=99, randomisation=199)
    assert list(found) == ["BLEU", "chrF2", "TER"]
    for metric, of in found.items():
        assert of["difference"] == of["system"] - of["baseline"]
        assert (of["difference"] < -20) if metric == "TER" else (of["difference"] > 20)
        assert (of["bootstrap"]["p"], of["randomisation"]["p"]) == (1 / 100, 1 / 200)
        assert "|bs:99|seed:12345" in of["bootstrap"]["signature"]
        assert "|ar:199|seed:12345" in of["randomisation"]["signature"]
    assert json.dumps(found) == json.dumps(compared(system, baseline, bootstrap=99, randomisation=199))
    for of in compared(system, list(system), bootstrap=50, randomisation=50).values():
        assert (of["difference"], of["bootstrap"]["p"], of["randomisation"]["p"]) == (0, 1, 1)


def test_a_paired_t_test_of_student():
    # Student's sleep data (1908), as in the documentation of R's t.test, paired: t = -4.0621, p-value = 0.002833,
    # 95 percent confidence interval -2.4598858 -0.7001142.
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = over_seeds(dict(enumerate(first)), dict(enumerate(second)))
    assert found.difference == pytest.approx(0.75 - 2.33)
    assert found.p == pytest.approx(0.002833, abs=5e-7)
    assert (found.low, found.high) == (pytest.approx(-2.4598858, abs=1e-7), pytest.approx(-0.7001142, abs=1e-7))
    assert found.why == ""


@pytest.mark.parametrize("test", [over_seeds, lambda *sides: over_seeds_and_sentences(*sides, samples=10)])
def test_seeds_of_one_side_alone_do_not_count(test):
    pairs = test is not over_seeds
    system, baseline = (
        {seed: [[value, 1]] if pairs else value for seed, value in enumerate(values)}
        for values in ([30.0, 31.0, 29.0], [28.0, 28.5, 28.0])
    )
    assert test({**system, 8: system[0]}, {9: system[0], **baseline}) == test(system, baseline)
    alone = test({1: system[0]}, {1: baseline[0], 2: baseline[1]})
    assert (alone.difference, alone.p, alone.low, alone.high) == (2, None, None, None)
    assert alone.why == "1 seed in common, 2 are needed"
    assert test({}, baseline) is None
    assert test({8: system[0]}, baseline) is None


def test_a_constant_difference_has_no_t_test():
    constant = over_seeds({1: 30.0, 2: 31.0}, {1: 28.0, 2: 29.0})
    assert (constant.difference, constant.p, constant.why) == (2, None, "no seed differs from another")


def test_seeds_and_sentences_resampled_together_by_hand():
    # Differences of two seeds in two sentences of 1 and 3 tokens. Of 4 draws of seeds and 4 of sentences, all alike:
    system, baseline = {1: [[5, 1], [9, 3]], 2: [[3, 1], [7, 3]]}, {1: [[4, 1], [3, 3]], 2: [[5, 1], [7, 3]]}
    of_sentences = {(0, 0): (1, -2), (0, 1): (7 / 4, -2 / 4), (1, 0): (7 / 4, -2 / 4), (1, 1): (2, 0)}
    outcomes = sorted((of[a] + of[b]) / 2 for of in of_sentences.values() for a in (0, 1) for b in (0, 1))
    found = over_seeds_and_sentences(system, baseline, samples=4000)
    assert found.difference == pytest.approx((7 / 4 - 2 / 4) / 2)
    assert (found.low, found.high) == (outcomes[0], outcomes[-1]) == (-2, 2)  # each 1 of 16, more than 2.5%
    assert found.p == pytest.approx(2 * sum(value <= 0 for value in outcomes) / 16, abs=0.05)
    assert found == over_seeds_and_sentences(system, baseline, samples=4000)
    same = over_seeds_and_sentences({1: [[2, 1]], 2: [[2, 1]]}, {1: [[1, 1]], 2: [[1, 1]]}, samples=100)
    assert (same.low, same.high, same.p) == (1, 1, 2 / 100)
    with pytest.raises(ValueError, match="expected the same sentences"):
        over_seeds_and_sentences(system, {1: [[4, 1]], 2: [[5, 1]]})


def test_ratios_whose_denominators_differ_are_resampled():
    # F1 of two sentences: 2 of 2 and 2 of 4, beside 1 of 2 and 2 of 2.
    found = over_seeds_and_sentences({s: [[2, 2], [2, 4]] for s in (1, 2)}, {s: [[1, 2], [2, 2]] for s in (1, 2)})
    assert found.difference == pytest.approx(4 / 6 - 3 / 4)
    assert (found.low, found.high) == (pytest.approx(2 / 4 - 2 / 2), pytest.approx(2 / 2 - 1 / 2))


@pytest.mark.parametrize(
    ("sd", "seeds", "expected"),
    [(0.0059, 3, 0.0193), (0.0059, 5, 0.0099), (0.386, 5, 0.649), (1, 10, 0.996), (1, 20, 0.660)],
)
def test_smallest_difference_with_80_percent_power(sd, seeds, expected):
    assert smallest_difference(sd, seeds) == pytest.approx(expected, rel=5e-3)  # tables of power of the paired test


@pytest.mark.parametrize("seeds", [2, 5])
def test_power_by_simulation(seeds):
    shift = smallest_difference(1.0, seeds)
    p = ttest_1samp(np.random.default_rng(1).normal(shift, 1, (20_000, seeds)), 0.0, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.01)


def test_equivalence_is_that_of_two_one_sided_tests():
    differences = [0.1, -0.2, 0.3, 0.1, -0.1]
    found = over_seeds(dict(enumerate(differences)), dict.fromkeys(range(5), 0.0))
    for bound in (0.05, 0.15, 0.22, 0.25, 0.5):
        above = ttest_1samp(differences, -bound, alternative="greater").pvalue
        below = ttest_1samp(differences, bound, alternative="less").pvalue
        assert found.is_within(bound) == (max(above, below) < 0.05)
    assert found.is_within(0.5)
    assert not found.is_within(0.15)
    assert over_seeds({1: 1.0}, {1: 1.0}).is_within(9) is None


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.5, times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.5; none below an earlier one.
    assert holm({"a": 0.03, "b": 0.5, "c": 0.01, "d": 0.02}) == pytest.approx(
        {"c": 0.04, "d": 0.06, "a": 0.06, "b": 0.5}
    )
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1, "b": 1}
    assert holm({}) == {}


def test_adjusted_p_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.5, times 4 / rank: 0.04, 0.04, 0.04, 0.5; none above a later one.
    assert adjust({"a": 0.03, "b": 0.5, "c": 0.01, "d": 0.02}) == pytest.approx(
        {"a": 0.04, "b": 0.5, "c": 0.04, "d": 0.04}
    )
    assert adjust({"alone": 0.2}) == {"alone": 0.2}
    assert adjust({}) == {}
