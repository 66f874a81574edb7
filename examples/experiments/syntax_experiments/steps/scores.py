"""Scores of a run, and of two runs side by side: on each test set and each subset of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """Writes ``scores.json``: a list of :func:`syntax_experiments.scores.score`, each with ``test`` and ``subset``."""
    settings = _settings(step)
    asked = Scoring(**step.settings["score"])

    def of(lines: Sequence[int], test: str) -> dict[str, Any]:
        found, reference = _texts(step, "run", test), _reference(step, test)
        texts = [found[i] for i in lines], [reference[i] for i in lines]
        raw = read_sentences(str(step.inputs["text"] / f"{test}.raw"))
        scored = score(*texts, settings=settings, own=step.local["metrics"], sources=[raw[i] for i in lines])
        if asked.tokenized:
            scored["metrics"][TOKENISED] = _of_tokens(step, test, lines, lowercase=asked.lowercase)
        if asked.exact_match:
            same = sum(a == b for a, b in zip(*texts, strict=True))
            scored["metrics"][EXACT_MATCH] = {"score": 100 * same / len(lines), "signature": "the same text, in %"}
        return scored

    _write(step, "scores.json", of, _parts(step))


def compare_runs(step: Step) -> None:
    """Writes ``comparison.json``: a list of :func:`syntax_experiments.significance.compare`, one a test set.

    Subsets have no test within a seed: TER's statistics of them would take longer than many a training.
    """
    settings = _settings(step)
    asked = Scoring(**step.settings["score"])

    def of(lines: Sequence[int], test: str) -> dict[str, Any]:
        sides = (*(_texts(step, name, test) for name in ("system", "baseline")), _reference(step, test))
        texts = [[side[i] for i in lines] for side in sides]
        return compare(*texts, settings=settings, bootstrap=asked.bootstrap, randomisation=asked.randomisation)

    whole = [(test, None, range(len(_reference(step, test)))) for test in step.settings["tests"]]
    _write(step, "comparison.json", of, whole)


def _of_tokens(step: Step, test: str, lines: Sequence[int], *, lowercase: bool) -> dict[str, Any]:
    """BLEU of a translation before it is detokenised, against the target as the recipe's text has it."""
    from sacrebleu.metrics import BLEU

    reference = read_sentences(str(step.inputs["text"] / f"{test}.{step.settings['target']}"))
    found = read_sentences(str(step.inputs["run"] / f"{test}.tokens"), sentences=len(reference))
    bleu = BLEU(lowercase=lowercase, tokenize="none", force=True)  # force: it does not ask for detokenised text
    score = bleu.corpus_score([found[i] for i in lines], [[reference[i] for i in lines]]).score
    return {"score": score, "signature": bleu.get_signature().format()}


def _settings(step: Step) -> ScoreSettings:
    asked = Scoring(**step.settings["score"])
    return ScoreSettings(tokenize=asked.tokenize, lowercase=asked.lowercase)


def _texts(step: Step, of: str, test: str) -> list[str]:
    return read_sentences(str(step.inputs[of] / f"{test}.txt"), sentences=len(_reference(step, test)))


def _reference(step: Step, test: str) -> list[str]:
    return read_sentences(str(step.inputs["text"] / f"{test}.reference"))


def _parts(step: Step) -> Iterator[tuple[str, str | None, Sequence[int]]]:
    """Each test set and its lines, and each of its subsets."""
    for test in step.settings["tests"]:
        yield test, None, range(len(_reference(step, test)))
        for subset, lines in json.loads((step.inputs["subsets"] / f"{test}.json").read_text()).items():
            yield test, subset, lines


def _write(
    step: Step,
    name: str,
    of: Callable[[Sequence[int], str], dict[str, Any]],
    parts: Iterable[tuple[str, str | None, Sequence[int]]],
) -> None:
    found = [{"test": test, "subset": subset, **of(lines, test)} for test, subset, lines in parts]
    Path(step.folder, name).write_text(json.dumps(found, indent=1))
