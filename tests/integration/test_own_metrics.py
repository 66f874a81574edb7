"""A recipe's own metric: the last number that a command of bash prints."""

from __future__ import annotations

import pytest

from syntax_data.scoring.metrics import ScoreSettings
from syntax_experiments.steps.scores import score

TEXTS = {
    "hypotheses": ["Ein Hund läuft.", "Zwei Kinder spielen.", "Es regnet."],
    "source": ["A dog runs.", "Two children play.", "It rains."],
    "references": ["Ein Hund rennt.", "Zwei Kinder spielen.", "Es regnet."],
}


def own(command: str) -> float:
    metrics = score(TEXTS, settings=ScoreSettings(), own={"mine": command})
    assert list(metrics) == ["BLEU", "chrF2", "TER", "mine"]
    assert metrics["mine"]["signature"] == command
    return metrics["mine"]["score"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("paste {hypotheses} {references} | grep -c 'läuft.*rennt' | awk '{print $1/4}'", 0.25),
        ("wc -l < {hypotheses}", 3),
        ("grep -q läuft {hypotheses} && echo 'test2.txt score: 0.8321'", 0.8321),
        ("cat {hypotheses} >&2; echo 'system: -1.5e-2 (v2)'", -0.015),
        ("test -s {hypotheses}; echo 83.2%", 83.2),
        ("paste -d' ' {source} {hypotheses} | grep -c 'dog .*Hund'", 1),
    ],
)
def test_the_last_number_counts(command, expected):
    assert own(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("comet-that-is-not-installed {hypotheses}", "ended with status 127: .*comet-that-is-not-installed"),
        ("(echo gone >&2; exit 3) | cat {hypotheses} -", "ended with status 3: gone"),
        ("echo no score {hypotheses} | cut -c 1-8", "expected a number on stdout of .*, found 'no score'"),
        ("test -s {hypotheses}; echo nan", "expected a number on stdout"),
        ("test -s {hypotheses}; echo 1e999", "expected a number on stdout"),
    ],
)
def test_a_command_that_gives_no_score_is_an_error(command, expected):
    with pytest.raises(ValueError, match=f"^metrics: mine: .*{expected}"):
        own(command)
