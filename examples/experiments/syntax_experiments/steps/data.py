"""Data-bins of subwords and parses: one of a pair of languages, or of inputs beside labels or questions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from syntax_experiments.make import Step, files_in, run
from syntax_experiments.texts import all_texts, classifies, finds_spans, has_labels

_Words = list[str | os.PathLike[str]]
_LABELS = "label"


def preprocess(step: Step) -> None:
    """Write fairseq's data-bin of the tokens alone, or those of inputs and labels."""
    subwords = step.inputs["subwords"]
    if not classifies(step.settings):
        joint = ["--joined-dictionary"] if step.settings["joint"] else []
        _preprocess(step, "", [*_names(step), *joint], subwords)
        return
    for name in all_texts(step.settings):
        _preprocess(step, name, [*_names(step), "--srcdict", subwords / "dict.txt"], subwords)
    if finds_spans(step.settings):
        _copy(step, "subwords", "", "passages.jsonl", "examples.jsonl")
    elif has_labels(step.settings) and step.settings["regression"]:
        _copy(step, "text", _LABELS, _LABELS)
    elif has_labels(step.settings):
        _preprocess(step, _LABELS, _names(step), step.inputs["text"])


def binarize(step: Step) -> None:
    """Write the features of the parses, of a control, or of words alone, beside the same tokens."""
    settings = step.settings
    folders = all_texts(settings) if classifies(settings) else [""]
    with_labels = [*folders, *([_LABELS] if has_labels(settings) else [""] if finds_spans(settings) else [])]
    for folder in with_labels:
        (step.folder / folder).mkdir(exist_ok=True)
        for path in files_in(step.inputs["tokens"] / folder):
            if path.is_file():
                os.link(path, step.folder / folder / path.name)
    more: _Words = ["--control", settings["control"]] if settings["control"] else []
    more += ["--markers", settings["markers"]] if settings.get("markers") else []
    more += ["--features", settings["features"]] if "features" in settings else []
    more += ["--gpt2-encoder-json", step.local["encoder"]] if "encoder" in step.local else []
    kind = "words" if settings["subwords"] == "none" else settings["subwords"]
    for folder in folders:
        words = _prefixes(step, "pref", lambda _: step.inputs["subwords"], folder)
        if "features" not in settings:
            words += _prefixes(step, "parse", lambda name: step.inputs[f"parses of {name}"], folder)
        run(
            "fairseq-syntax-binarize", *_names(step), *words, *more, "--subwords", kind, "--destdir",
            step.folder / folder, "--workers", str(step.threads), log=step.folder / "log",
        )  # fmt: skip


def _preprocess(step: Step, folder: str, words: _Words, texts: Path) -> None:
    prefixes = _prefixes(step, "pref", lambda _: texts, folder)
    run("fairseq-preprocess", *words, *prefixes, "--destdir", step.folder / folder, log=step.folder / "log")


def _copy(step: Step, source: str, folder: str, *endings: str) -> None:
    """Copy files of each split from an input into a folder of the data-bin."""
    (step.folder / folder).mkdir(exist_ok=True)
    tests = {f"test{i or ''}": test for i, test in enumerate(step.settings["tests"])}
    for split, name in ({"train": "train", "valid": "valid"} | tests).items():
        for ending in endings:
            shutil.copyfile(step.inputs[source] / f"{name}.{ending}", step.folder / folder / f"{split}.{ending}")


def _names(step: Step) -> _Words:
    """Return the options that say how files are named."""
    if classifies(step.settings):
        return ["--only-source"]
    return ["--source-lang", step.settings["source"], "--target-lang", step.settings["target"]]


def _prefixes(step: Step, option: str, folder_of: Callable[[str], Path], ending: str) -> _Words:
    """Return ``--trainpref`` and so on: an input's file in the folder of each split that has one."""
    words: _Words = []
    for split, names in {"train": ["train"], "valid": ["valid"], "test": step.settings["tests"]}.items():
        paths = [str(folder_of(name) / (f"{name}.{ending}" if ending else name)) for name in names]
        words += [f"--{split}{option}", ",".join(paths)]
    return words
