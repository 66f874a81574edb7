"""Subwords of words."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import sentencepiece

from syntax_data.squad.read import read_questions, write_split
from syntax_data.text.subwords import subword_reader
from syntax_experiments.corpora.wordpiece import encode
from syntax_experiments.make import Step, read_lines, run, write_lines
from syntax_experiments.recipe import Subwords
from syntax_experiments.texts import all_texts, classifies, finds_spans

#: Writes the subwords of a file to another file.
_Apply = Callable[[Path, Path], object]


def split(step: Step) -> None:
    """Learn subwords of the training split, and write every split's ``SPLIT.TEXT``.

    Of inputs of examples, ``dict.txt`` has the subwords of all, or is that of the recipe. Of questions there are the
    files of :mod:`syntax_data.squad.read`, too.
    """
    asked = Subwords(**step.settings["subwords"], **step.local.get("files", {}))
    names = all_texts(step.settings)
    text = step.inputs["text"]
    if finds_spans(step.settings):
        _write_questions(step, asked)
    splits = sorted(path.stem for path in text.iterdir() if path.suffix == f".{names[0]}")
    for group in [names] if asked.joint else [[name] for name in names]:
        apply = _KINDS[asked.kind](step, group, asked)
        for file in [f"{split}.{name}" for split in splits for name in group]:
            apply(text / file, step.folder / file)
    if asked.dictionary is not None:
        shutil.copyfile(asked.dictionary, step.folder / "dict.txt")
    elif classifies(step.settings):
        of_train = [line.split() for name in names for line in read_lines(step.folder / f"train.{name}")]
        counts = Counter(chain.from_iterable(of_train))
        write_lines(step.folder / "dict.txt", (f"{word} {count}" for word, count in counts.most_common()))


def _write_questions(step: Step, asked: Subwords) -> None:
    """Write ``SPLIT.passages.jsonl`` and ``SPLIT.examples.jsonl``, which have the places of answers in subwords."""
    read = subword_reader("words" if asked.kind == "none" else asked.kind, asked.encoder)
    for path in step.inputs["text"].glob("*.questions.json"):
        split = path.name.removesuffix(".questions.json")
        write_split(str(step.folder / split), read_questions(str(path)), line_encoder(asked), read)


def _none(step: Step, names: Sequence[str], asked: Subwords) -> _Apply:
    return shutil.copyfile


def line_encoder(asked: Subwords) -> Callable[[str], str]:
    """Return a function from a line to its subwords, of a kind that is not learned."""
    if asked.kind == "gpt2":
        from fairseq.data.encoders.gpt2_bpe_utils import get_encoder  # takes seconds

        bpe = get_encoder(asked.encoder, asked.merges)
        return lambda line: " ".join(map(str, bpe.encode(line)))
    if asked.kind == "none":
        return lambda line: " ".join(line.split())
    # Of BERT's vocabulary, fairseq's dictionary lacks the special symbols alone.
    symbols = {line.rpartition(" ")[0]: i for i, line in enumerate(read_lines(Path(str(asked.dictionary))))}
    cased = any(symbol != symbol.lower() for symbol in symbols)
    markers = frozenset(filter(None, asked.markers.split(",")))
    return lambda line: encode(line, symbols, cased=cased, markers=markers)


def _by_line(step: Step, names: Sequence[str], asked: Subwords) -> _Apply:
    encode_line = line_encoder(asked)
    return lambda text, to: write_lines(to, map(encode_line, read_lines(text)))


def _subword_nmt(step: Step, names: Sequence[str], asked: Subwords) -> _Apply:
    codes, log = step.folder / f"codes.{'-'.join(names)}", step.folder / "log"
    inputs = [step.inputs["text"] / f"train.{name}" for name in names]
    vocabularies = [step.folder / f"vocabulary.{name}" for name in names]
    run(
        "subword-nmt", "learn-joint-bpe-and-vocab", "--input", *inputs, "-s", str(asked.size), "-o", codes,
        "--write-vocabulary", *vocabularies, log=log,
    )  # fmt: skip
    return lambda text, to: run("subword-nmt", "apply-bpe", "-c", codes, log=log, stdin=text, stdout=to)


def _sentencepiece(step: Step, names: Sequence[str], asked: Subwords) -> _Apply:
    prefix = step.folder / f"model.{'-'.join(names)}"
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(step.inputs["text"] / f"train.{name}") for name in names),
        model_prefix=str(prefix),
        vocab_size=asked.size,
        character_coverage=1.0,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    return lambda text, to: write_lines(to, (" ".join(model.encode(line, out_type=str)) for line in read_lines(text)))


_KINDS = {
    "none": _none,
    "subword_nmt": _subword_nmt,
    "sentencepiece": _sentencepiece,
    "wordpiece": _by_line,
    "gpt2": _by_line,
}
