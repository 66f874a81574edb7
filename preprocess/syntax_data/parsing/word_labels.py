"""Labels of words of your own, from files beside raw text into MISC of CoNLL-U: ``--word-labels``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from syntax_data.errors import InputError, short_repr
from syntax_data.parsers import Line, Parse
from syntax_data.parsers.record import file_hash
from syntax_data.text.lines import read_lines, tokenize_line
from syntax_data.trees.tree import WORD_LABEL


class LabelFile(NamedTuple):
    """A file of labels, and its SHA-256."""

    path: str
    sha256: str


def read_option(written: Sequence[str]) -> dict[str, LabelFile]:
    """The file of each name in values ``NAME=FILE``; :class:`ValueError` for another value."""
    files: dict[str, LabelFile] = {}
    for one in written:
        name, _, path = one.partition("=")
        if not path or not WORD_LABEL.fullmatch(name) or name in files:
            expected = "NAME=FILE with different names of letters, digits and _"
            raise ValueError(f"--word-labels: expected {expected}, found {short_repr(one)}")
        files[name] = LabelFile(path, file_hash(path))
    return files


def check_lines(files: Mapping[str, LabelFile], text: str, lines: int) -> None:
    """Raise :class:`InputError` unless each file has as many lines as the text."""
    for file in files.values():
        if (found := sum(1 for _ in read_lines(file.path))) != lines:
            raise InputError(file.path, None, f"expected {lines} lines, as {text} has, found {found}")


def label_words(parse: Parse, line: Line, files: Mapping[str, LabelFile]) -> None:
    """Write the labels of a line into MISC of its dependency tree.

    Raises :class:`InputError` unless a file's line has a label for each token, and :class:`ValueError` without a tree.
    """
    tree = parse.dependencies
    if tree is None:
        raise ValueError("--word-labels: expected a parser that makes CoNLL-U, whose MISC has the labels")
    rows = tree.columns or [["_"] * 10 for _ in tree.tokens]
    for name, file in files.items():
        labels = tokenize_line(_read(file)[line.number - 1])
        if len(labels) != len(tree.tokens):
            tokens = short_repr(" ".join(tree.tokens))
            message = f"expected {len(tree.tokens)} labels, one for each token of {tokens}, found {len(labels)}"
            raise InputError(file.path, line.number, message)
        if wrong := [label for label in labels if "|" in label]:
            raise InputError(file.path, line.number, f"expected labels without |, found {short_repr(wrong[0])}")
        rows = [[*row[:9], _with_attribute(row[9], name, label)] for row, label in zip(rows, labels, strict=True)]
    tree.columns = rows


def _with_attribute(misc: str, name: str, value: str) -> str:
    others = [one for one in misc.split("|") if one != "_" and one.partition("=")[0] != name]
    return "|".join([f"{name}={value}", *others])


@lru_cache
def _read(file: LabelFile) -> list[str]:
    """The lines of a file; a process reads it once."""
    return [line for _, line in read_lines(file.path)]
