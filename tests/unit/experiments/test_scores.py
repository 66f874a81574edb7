"""Scores of a run: of detokenised text, and of tokens beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU
from steps_in import step_in

from syntax_experiments.steps import scores

TEXTS = {
    "run/test.txt": ["Ein Hund's Ball rollt weit.", "Ja, doch!"],
    "run/test.tokens": ["ein Hund &apos;s Ball rollt weit .", "ja , doch !"],
    "text/test.reference": ["Ein Hund's Ball rollt fort.", "Ja, doch!"],
    "text/test.de": ["ein Hund &apos;s Ball rollt fort .", "Ja , doch !"],
    "text/test.raw": ["a dog's ball rolls away.", "yes!"],
}


def scored(folder: Path, **score: bool) -> dict[str, dict[str, dict[str, object]]]:
    """The metrics of the test set and of its subset."""
    for name in ("run", "text", "subsets"):
        (folder / name).mkdir(exist_ok=True)
    for name, lines in TEXTS.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "subsets/test.json").write_text(json.dumps({"second": [1]}))
    inputs = {name: folder / name for name in ("run", "text", "subsets")}
    settings = {"score": score, "tests": ["test"], "source": "en", "target": "de"}
    scores.score_run(step_in(folder / "scores", settings, inputs=inputs, local={"metrics": {}}))
    return {one["subset"] or "": one["metrics"] for one in json.loads((folder / "scores/scores.json").read_text())}


@pytest.mark.parametrize(("lowercase", "case"), [(False, "mixed"), (True, "lc")])
def test_bleu_of_tokens_is_of_the_tokens_alone(tmp_path, lowercase, case):
    found = scored(tmp_path, lowercase=lowercase, tokenized=True)
    bleu = BLEU(tokenize="none", lowercase=lowercase, force=True)
    for subset, lines in (("", slice(None)), ("second", slice(1, 2))):
        expected = bleu.corpus_score(TEXTS["run/test.tokens"][lines], [TEXTS["text/test.de"][lines]]).score
        of_tokens = found[subset]["tokenised BLEU"]
        assert of_tokens["score"] == pytest.approx(expected)
        assert f"case:{case}|" in of_tokens["signature"]
        assert "|tok:none|" in of_tokens["signature"]
        assert "|tok:13a|" in found[subset]["BLEU"]["signature"]
    assert found[""]["tokenised BLEU"]["score"] != pytest.approx(found[""]["BLEU"]["score"])
    assert scored(tmp_path)[""].keys() == {"BLEU", "chrF2", "TER"}, "without being asked there is none"
