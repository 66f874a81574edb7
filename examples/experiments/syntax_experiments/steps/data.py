"""Data-bins of subwords and parses."""

from __future__ import annotations

import os

from syntax_experiments.make import Step, files_in, run


def preprocess(step: Step) -> None:
    """Write fairseq's data-bin of the tokens alone."""
    subwords = step.inputs["subwords"]
    joint = ["--joined-dictionary"] if step.settings["joint"] else []
    prefixes: list[str | os.PathLike[str]] = ["--trainpref", subwords / "train", "--validpref", subwords / "valid"]
    prefixes += ["--testpref", ",".join(str(subwords / test) for test in step.settings["tests"])]
    run("fairseq-preprocess", *_languages(step), *joint, *prefixes, "--destdir", step.folder, log=step.folder / "log")


def binarize(step: Step) -> None:
    """Write the features of the parses, or of a control, beside the same tokens."""
    for path in files_in(step.inputs["tokens"]):
        os.link(path, step.folder / path.name)
    subwords = step.inputs["subwords"]
    words: list[str | os.PathLike[str]] = []
    splits = {"train": ["train"], "valid": ["valid"], "test": step.settings["tests"]}
    for option, names in splits.items():
        parses = ",".join(str(step.inputs[f"parses of {name}"] / name) for name in names)
        words += [f"--{option}pref", ",".join(str(subwords / name) for name in names), f"--{option}parse", parses]
    if step.settings["control"]:
        words += ["--control", step.settings["control"]]
    run(
        "fairseq-syntax-binarize", *_languages(step), *words, "--subwords", step.settings["subwords"], "--destdir",
        step.folder, "--workers", str(step.threads), log=step.folder / "log",
    )  # fmt: skip


def _languages(step: Step) -> list[str]:
    return ["--source-lang", step.settings["source"], "--target-lang", step.settings["target"]]
