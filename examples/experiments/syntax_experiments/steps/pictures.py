"""A page of pictures for each test set, by fairseq-syntax-analyze."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from syntax_experiments.make import Step, run
from syntax_experiments.recipe import Pictures, Scoring


def draw(step: Step) -> None:
    """Write a folder for each test set: index.html, and each picture as SVG, PNG and CSV."""
    settings = step.settings
    asked, scoring = Pictures(**settings["pictures"]), Scoring(**settings["score"])
    labels = {name: _plain(label) for name, label in settings["labels"].items()}
    records = _records(step, labels)
    dumps = [word for name in asked.of if f"model {name}" in step.inputs for word in _dump(step, name, labels[name])]
    for i, test in enumerate(settings["tests"]):
        source = f"{test}.{settings['source']}"
        words: list[str | Path] = ["--title", f"{settings['title']}: {test}", "--test", test]
        words += ["--references", step.inputs["text"] / f"{test}.reference", "--source", step.inputs["text"] / source]
        words += ["--tokenize", scoring.tokenize, *(["--lowercase"] if scoring.lowercase else [])]
        if parses := step.inputs.get(f"parses of {test}"):
            words += ["--parses", parses / source]
        for (of, _), record in records.items():
            words += ["--run", record] if of in (asked.systems or labels) else []
        for axis, series in asked.sweeps.items():
            for label, systems in series.items():
                for value, name in systems.items():
                    for (of, _), record in records.items():
                        words += ["--sweep", axis, label, value, record] if of == name else []
        if i == 0:
            words += [*dumps, *(word for number in asked.sentences for word in ("--sentence", str(number)))]
        run("fairseq-syntax-analyze", "--output", step.folder / test, *words, log=step.folder / "log")
    shutil.rmtree(step.folder / "records")
    for path in step.folder.glob("*.npz"):
        path.unlink()


def _records(step: Step, labels: dict[str, str]) -> dict[tuple[str, str], Path]:
    """The run records by system and seed, with the systems' labels in them."""
    found = {}
    for name, path in step.inputs.items():
        if name.startswith("run "):
            _, system, seed = name.split(" ")
            found[system, seed] = copy = step.folder / "records" / f"{system}-{seed}"
            shutil.copytree(path, copy)
            record = json.loads((copy / "run.json").read_text())
            (copy / "run.json").write_text(json.dumps({**record, "system": labels[system], "seed": int(seed)}))
    return found


def _dump(step: Step, name: str, label: str) -> list[str]:
    path = step.folder / f"{name}.npz"
    run(
        "fairseq-syntax-dump", step.inputs[f"data {name}"], "--path", step.inputs[f"model {name}"] / "checkpoint.pt",
        "--gen-subset", "test", "--output", path, "--cpu", log=step.folder / "log",
    )  # fmt: skip
    return ["--dump", f"{label}={path}"]


def _plain(label: str) -> str:
    """A label without Markdown, and without =, which --dump puts after it."""
    return re.sub(r"`| *=", "", label)
