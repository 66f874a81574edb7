"""Subwords of words."""

from __future__ import annotations

from pathlib import Path

import sentencepiece

from syntax_experiments.make import Step, run
from syntax_experiments.recipe import Subwords


def split(step: Step) -> None:
    """Learn subwords of the training split, and write every split's ``SPLIT.LANG``."""
    asked = Subwords(**step.settings["subwords"])
    languages = step.settings["source"], step.settings["target"]
    text = step.inputs["text"]
    splits = sorted({path.stem for path in text.iterdir() if path.suffix == f".{languages[0]}"})
    groups = [languages] if asked.joint else [(language,) for language in languages]
    for group in groups:
        _KINDS[asked.kind](step, group, text, splits)


def _none(step: Step, languages: tuple[str, ...], text: Path, splits: list[str]) -> None:
    for language in languages:
        for name in splits:
            (step.folder / f"{name}.{language}").write_bytes((text / f"{name}.{language}").read_bytes())


def _subword_nmt(step: Step, languages: tuple[str, ...], text: Path, splits: list[str]) -> None:
    codes, log = step.folder / f"codes.{'-'.join(languages)}", step.folder / "log"
    size = str(Subwords(**step.settings["subwords"]).size)
    if len(languages) > 1:
        inputs = [text / f"train.{language}" for language in languages]
        vocabularies = [step.folder / f"vocabulary.{language}" for language in languages]
        run(
            "subword-nmt", "learn-joint-bpe-and-vocab", "--input", *inputs, "-s", size, "-o", codes,
            "--write-vocabulary", *vocabularies, log=log,
        )  # fmt: skip
    else:
        run("subword-nmt", "learn-bpe", "-s", size, "-o", codes, log=log, stdin=text / f"train.{languages[0]}")
    for language in languages:
        for name in splits:
            file = f"{name}.{language}"
            run("subword-nmt", "apply-bpe", "-c", codes, log=log, stdin=text / file, stdout=step.folder / file)


def _sentencepiece(step: Step, languages: tuple[str, ...], text: Path, splits: list[str]) -> None:
    prefix = step.folder / f"model.{'-'.join(languages)}"
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(text / f"train.{language}") for language in languages),
        model_prefix=str(prefix),
        vocab_size=Subwords(**step.settings["subwords"]).size,
        character_coverage=1.0,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    for language in languages:
        for name in splits:
            lines = (text / f"{name}.{language}").read_text(encoding="utf-8").splitlines()
            pieces = (" ".join(model.encode(line, out_type=str)) for line in lines)
            (step.folder / f"{name}.{language}").write_text("".join(f"{p}\n" for p in pieces), encoding="utf-8")


_KINDS = {"none": _none, "subword_nmt": _subword_nmt, "sentencepiece": _sentencepiece}
