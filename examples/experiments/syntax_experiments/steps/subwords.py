"""Subwords of words."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import sentencepiece

from syntax_experiments.make import Step, read_lines, run, write_lines
from syntax_experiments.recipe import Subwords

#: Writes the subwords of a text file to another file.
_Apply = Callable[[Path, Path], object]


def split(step: Step) -> None:
    """Learn subwords of the training split, and write every split's ``SPLIT.LANG``."""
    asked = Subwords(**step.settings["subwords"])
    languages = step.settings["source"], step.settings["target"]
    text = step.inputs["text"]
    splits = {path.stem for path in text.iterdir() if path.suffix == f".{languages[0]}"}
    for group in [languages] if asked.joint else [(language,) for language in languages]:
        apply = _KINDS[asked.kind](step, group, asked.size)
        for file in [f"{name}.{language}" for name in sorted(splits) for language in group]:
            apply(text / file, step.folder / file)


def _none(step: Step, languages: tuple[str, ...], size: int) -> _Apply:
    return shutil.copyfile


def _subword_nmt(step: Step, languages: tuple[str, ...], size: int) -> _Apply:
    codes, log = step.folder / f"codes.{'-'.join(languages)}", step.folder / "log"
    inputs = [step.inputs["text"] / f"train.{language}" for language in languages]
    vocabularies = [step.folder / f"vocabulary.{language}" for language in languages]
    run(
        "subword-nmt", "learn-joint-bpe-and-vocab", "--input", *inputs, "-s", str(size), "-o", codes,
        "--write-vocabulary", *vocabularies, log=log,
    )  # fmt: skip
    return lambda text, to: run("subword-nmt", "apply-bpe", "-c", codes, log=log, stdin=text, stdout=to)


def _sentencepiece(step: Step, languages: tuple[str, ...], size: int) -> _Apply:
    prefix = step.folder / f"model.{'-'.join(languages)}"
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(step.inputs["text"] / f"train.{language}") for language in languages),
        model_prefix=str(prefix),
        vocab_size=size,
        character_coverage=1.0,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    return lambda text, to: write_lines(to, (" ".join(model.encode(line, out_type=str)) for line in read_lines(text)))


_KINDS = {"none": _none, "subword_nmt": _subword_nmt, "sentencepiece": _sentencepiece}
