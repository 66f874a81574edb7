"""Raw text, from archives, files or a command, as a file a split and language; and labels."""

from __future__ import annotations

import gzip
import json
import posixpath
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, cast
from xml.etree import ElementTree

from syntax_data.errors import InputError
from syntax_data.squad.read import read_questions, texts
from syntax_experiments.corpus_formats import READERS
from syntax_experiments.make import Step, files_in, fill, run, write_lines
from syntax_experiments.recipe import SplitFiles
from syntax_experiments.texts import all_texts, classifies, finds_spans, has_labels, task_of

_UNREADABLE = (OSError, EOFError, ElementTree.ParseError, tarfile.TarError, zipfile.BadZipFile)


def generate(step: Step) -> None:
    """Run the recipe's command, which writes to ``{output}``."""
    run(*fill(step.local["command"], {"output": step.folder}), log=step.folder / "log")


def collect(step: Step) -> None:
    """Write ``SPLIT.LANG``, of test sets ``SPLIT.reference``, white space folded.

    Raises:
        InputError: a file is not there or cannot be read, or texts and labels differ in their numbers of lines.
    """
    counts = {}
    for split, asked in step.settings["splits"].items():
        files = SplitFiles(**asked)
        if finds_spans(step.settings):
            counts[split] = _collect_questions(step, split, files)
            continue
        if task_of(step.settings) == "masked_lm" and split not in ("train", "valid"):
            _check_pairs(step, split, files)
        sides = _sides(step.settings, split, files)
        lengths = {side: _write(step, f"{split}.{side}", files, *of) for side, of in sides.items()}
        if len(set(lengths.values())) > 1 or not all(lengths.values()):
            counted = ", ".join(f"{n} of {side}" for side, n in lengths.items())
            raise InputError(split, None, f"expected as many lines in each language, found {counted}")
        counts[split] = min(lengths.values())
    (step.folder / "counts.json").write_text(json.dumps(counts))
    print("; ".join(f"{split}: {count} lines" for split, count in counts.items()))


def _collect_questions(step: Step, split: str, files: SplitFiles) -> int:
    """Write a split's questions, and their texts, each once; return their number."""
    (name,) = files.questions
    path = step.folder / f"{split}.questions.json"
    try:
        with _opened(step, name) as file:
            path.write_bytes(file.read())
    except _UNREADABLE as error:
        raise InputError(name, None, f"expected a file of SQuAD, found: {error}") from None
    questions = read_questions(str(path))
    for text, lines in texts(questions).items():
        write_lines(step.folder / f"{split}.{text}", lines)
    return len(questions)


def _sides(settings: Mapping[str, Any], split: str, files: SplitFiles) -> dict[str, tuple[list[str], str]]:
    """Return files and their language by what the names of their joined files end in."""
    if classifies(settings):
        labels = ["label"] if has_labels(settings) else []
        return {name: (getattr(files, name), "") for name in (*all_texts(settings), *labels)}
    source, target = all_texts(settings)
    sides = {source: (files.source, source), target: (files.target, target)}
    return sides if split in ("train", "valid") else {**sides, "reference": (files.reference or files.target, target)}


def _check_pairs(step: Step, split: str, files: SplitFiles) -> None:
    """Raise :class:`InputError` for a file of minimal pairs with a line alone, or an empty one."""
    for name in files.input0:
        lines = list(_lines(step, name, files.format, ""))
        if len(lines) % 2:
            expected = "expected pairs of lines, a right one before its wrong one"
            raise InputError(name, None, f"{expected}, found {len(lines)} lines in {split}")
        if empty := [number for number, line in enumerate(lines, start=1) if not line.strip()]:
            raise InputError(name, empty[0], "expected a sentence of a pair, found an empty line")


def _write(step: Step, name: str, files: SplitFiles, names: list[str], language: str) -> int:
    """Write the lines of some files as one file; return their number."""
    count = 0
    with open(step.folder / name, "w", encoding="utf-8") as out:
        for file in names:
            for line in _lines(step, file, files.format, language):
                for old, new in files.replace.items():
                    line = line.replace(old, new)
                out.write(f"{line}\n")
                count += 1
    return count


def _lines(step: Step, name: str, format: str, language: str) -> Iterator[str]:
    try:
        with _opened(step, name) as file:
            yield from READERS[format](file, language)
    except UnicodeDecodeError as error:
        raise InputError(name, None, f"expected UTF-8, found: {error}") from None
    except _UNREADABLE as error:
        raise InputError(name, None, f"expected a file of format {format}, found: {error}") from None


@contextmanager
def _opened(step: Step, name: str) -> Iterator[IO[bytes]]:
    """A file of the recipe, unpacked."""
    archive, _, member = name.partition("!")
    if archive in step.inputs:
        (path,) = files_in(step.inputs[archive])
    else:
        path, member = Path(step.inputs.get("generated", step.local["folder"] or "."), name), ""
    with _member(path, member) if member else path.open("rb") as file:
        packed = (member or path.name).endswith(".gz")
        with gzip.open(file) if packed else nullcontext(file) as unpacked:
            yield cast(IO[bytes], unpacked)


@contextmanager
def _member(path: Path, member: str) -> Iterator[IO[bytes]]:
    """A member of a zip or tar archive."""
    opened: Any
    with zipfile.ZipFile(path) if zipfile.is_zipfile(path) else tarfile.open(path) as archive:
        if isinstance(archive, zipfile.ZipFile):
            names, opened = archive.namelist(), archive.open
        else:
            names, opened = archive.getnames(), archive.extractfile
        known = {posixpath.normpath(name): name for name in names}
        file = opened(known[member]) if member in known else None
        if file is None:  # or of a folder
            near = ", ".join(get_close_matches(member, known, n=3, cutoff=0.3)) or "nothing"
            raise InputError(str(path), None, f"expected {member} in it, found none; near: {near}")
        with file:
            yield file
