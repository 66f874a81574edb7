"""Scores of a run, and paired tests of two runs, on each test set and each subset of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from syntax_data.scoring.metrics import ScoreSettings
from syntax_experiments.make import Step
from syntax_experiments.metric_names import EXACT_MATCH, TOKENISED
from syntax_experiments.recipe import Scoring
from syntax_experiments.run_record import read_sentences
from syntax_experiments.scores import score
from syntax_experiments.significance import compare


def score_run(step: Step) -> None:
    """Write ``scores.json``: a list of :func:`syntax_experiments.scores.score`, each with ``test`` and ``subset``."""
    wanted = Scoring(**step.settings["score"])
    found = []
    for test in step.settings["tests"]:
        reference, translation = _references(step, test), _translations(step, "run", test)
        raw = read_sentences(str(step.inputs["text"] / f"{test}.raw"))
        subsets = json.loads((step.inputs["subsets"] / f"{test}.json").read_text())
        for subset, lines in {None: range(len(reference)), **subsets}.items():
            texts = [[text[i] for i in lines] for text in (translation, reference, raw)]
            own = {"own": step.local["metrics"], "sources": texts.pop()}
            scored = score(*texts, settings=_settings(wanted), **own)
            if wanted.tokenized:
                scored["metrics"][TOKENISED] = _score_of_tokens(step, test, lines, wanted.lowercase)
            if wanted.exact_match:
                same = sum(a == b for a, b in zip(*texts, strict=True))
                of_metric = {"score": 100 * same / len(lines), "signature": "the same text, in %"}
                scored["metrics"][EXACT_MATCH] = of_metric
            found.append({"test": test, "subset": subset, **scored})
    Path(step.folder, "scores.json").write_text(json.dumps(found, indent=1))


def compare_runs(step: Step) -> None:
    """Write ``comparison.json``: a list of :func:`syntax_experiments.significance.compare`, one a test set.

    Subsets have no test within a seed: TER's statistics of them would take longer than many a training.
    """
    wanted = Scoring(**step.settings["score"])
    bootstrap, randomisation = wanted.bootstrap, wanted.randomisation
    found = []
    for test in step.settings["tests"]:
        texts = [*(_translations(step, side, test) for side in ("system", "baseline")), _references(step, test)]
        of_test = compare(*texts, settings=_settings(wanted), bootstrap=bootstrap, randomisation=randomisation)
        found.append({"test": test, "subset": None, **of_test})
    Path(step.folder, "comparison.json").write_text(json.dumps(found, indent=1))


def _score_of_tokens(step: Step, test: str, lines: Sequence[int], lowercase: bool) -> dict[str, Any]:
    """Return BLEU of a translation before it is detokenised, against the target as the recipe's text has it."""
    from sacrebleu.metrics import BLEU

    reference = read_sentences(str(step.inputs["text"] / f"{test}.{step.settings['target']}"))
    found = read_sentences(str(step.inputs["run"] / f"{test}.tokens"), sentences=len(reference))
    bleu = BLEU(lowercase=lowercase, tokenize="none", force=True)  # force: no warning that the text is tokenised
    score = bleu.corpus_score([found[i] for i in lines], [[reference[i] for i in lines]]).score
    return {"score": score, "signature": bleu.get_signature().format()}


def _settings(wanted: Scoring) -> ScoreSettings:
    return ScoreSettings(tokenize=wanted.tokenize, lowercase=wanted.lowercase)


def _translations(step: Step, side: str, test: str) -> list[str]:
    return read_sentences(str(step.inputs[side] / f"{test}.txt"), sentences=len(_references(step, test)))


def _references(step: Step, test: str) -> list[str]:
    return read_sentences(str(step.inputs["text"] / f"{test}.reference"))
