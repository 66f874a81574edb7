"""A page of pictures for each test set, by fairseq-syntax-analyze."""

from __future__ import annotations

import re
from pathlib import Path

from syntax_experiments.fairseq_options import with_user_dir
from syntax_experiments.make import Step, options, run
from syntax_experiments.recipe import Pictures, Scoring


def draw(step: Step) -> None:
    """Write a folder for each test set: index.html, and each picture as SVG and CSV."""
    settings = step.settings
    asked, scoring = Pictures(**settings["pictures"]), Scoring(**settings["score"])
    labels = {name: _plain(label) for name, label in settings["labels"].items()}
    runs = [(name.split(" ")[1], path) for name, path in step.inputs.items() if name.startswith("run ")]
    dumps = [word for name in asked.of if f"model {name}" in step.inputs for word in _dump(step, name, labels[name])]
    for i, test in enumerate(settings["tests"]):
        source = f"{test}.{settings['source']}"
        words: list[str | Path] = ["--title", f"{settings['title']}: {test}"]
        words += ["--references", step.inputs["text"] / f"{test}.reference", "--source", step.inputs["text"] / source]
        words += ["--tokenize", scoring.tokenize, *(["--lowercase"] if scoring.lowercase else [])]
        if parses := step.inputs.get(f"parses of {test}"):
            words += ["--parses", parses / source]
        for name, path in runs:
            if name in (asked.systems or labels):
                words += ["--hypotheses", f"{labels[name]}={path / test}.txt"]
        for axis, series in asked.sweeps.items():
            for label, systems in series.items():
                for value, of in systems.items():
                    for name, path in runs:
                        words += ["--sweep", axis, _plain(label), value, path / f"{test}.txt"] if name == of else []
        if i == 0:
            words += [*dumps, *(word for number in asked.sentences for word in ("--sentence", str(number)))]
        run("fairseq-syntax-analyze", "--output", step.folder / test, *words, log=step.folder / "log")
    for path in step.folder.glob("*.npz"):
        path.unlink()


def _dump(step: Step, name: str, label: str) -> list[str]:
    path = step.folder / f"{name}.npz"
    run(
        "fairseq-syntax-dump", step.inputs[f"data {name}"], "--path", step.inputs[f"model {name}"] / "checkpoint.pt",
        "--gen-subset", "test", "--output", path, "--cpu", *options(with_user_dir({}, step.local.get(name, {}))),
        log=step.folder / "log",
    )  # fmt: skip
    return ["--dump", f"{label}={path}"]


def _plain(label: str) -> str:
    """Return a label without Markdown's marks, and without =, which ends it."""
    return re.sub(r"`| *=", "", label)
