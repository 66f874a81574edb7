"""Raw text: from archives, files, or a command, to one plain file a split and language."""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import shlex
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from harness.commands import run
from harness.make import Step
from harness.recipe import SplitFiles
from syntax_preprocess.errors import InputError

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)


def generate(step: Step) -> None:
    """Runs the recipe's command, which writes to ``{output}``."""
    run(*shlex.split(step.places["command"].replace("{output}", str(step.folder))), log=step.folder / "log")


def collect(step: Step) -> None:
    """Writes ``SPLIT.LANG``, and for test sets ``SPLIT.reference``, a line for each line, white space folded.

    Raises:
        InputError: a file is not there, or the two languages have not as many lines.
    """
    languages = step.settings["source"], step.settings["target"]
    counts = {}
    for split, told in step.settings["splits"].items():
        files = SplitFiles(**told)
        sides = {languages[0]: files.source, languages[1]: files.target}
        if split not in ("train", "valid"):
            sides["reference"] = files.reference or files.target
        lengths = {}
        for side, names in sides.items():
            found = [line for name in names for line in _lines(step, name, files.format)]
            if files.every:
                found = found[files.every - 1 :: files.every]
            if files.but_every:
                del found[files.but_every - 1 :: files.but_every]
            lengths[side] = len(found)
            (step.folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
        if len(set(lengths.values())) > 1 or not all(lengths.values()):
            counted = ", ".join(f"{n} of {side}" for side, n in lengths.items())
            raise InputError(split, None, f"expected as many lines in each language, found {counted}")
        counts[split] = lengths[languages[0]]
    (step.folder / "counts.json").write_text(json.dumps(counts))
    print("; ".join(f"{split}: {count} lines" for split, count in counts.items()))


def _lines(step: Step, name: str, format: str) -> Iterator[str]:
    with _opened(step, name) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            if format == "seg":
                for match in _SEGMENT.finditer(text.read()):
                    yield " ".join(html.unescape(match[1]).split())
            else:
                for line in text:
                    if format != "tags" or not line.lstrip().startswith("<"):
                        yield " ".join(line.split())
        except UnicodeDecodeError as error:
            raise InputError(name, None, f"expected UTF-8, found: {error}") from None


def _opened(step: Step, name: str) -> IO[bytes]:
    archive, _, member = name.partition("!")
    if archive in step.inputs:
        (path,) = (p for p in step.inputs[archive].iterdir() if p.name != "made.json")
    else:
        path, member = Path(step.inputs.get("generated", step.places["folder"] or "."), name), ""
    try:
        file = _member(path, member) if member else path.open("rb")
    except (OSError, KeyError) as error:
        raise InputError(str(path), None, f"expected {member or 'a file'}, found: {error}") from None
    packed = (member or path.name).endswith(".gz")
    return gzip.open(file) if packed else file  # type: ignore[return-value]


def _member(path: Path, member: str) -> IO[bytes]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.open(member)
    with tarfile.open(path) as archive:
        found = archive.extractfile(member)
        if found is None:
            raise KeyError(f"{member} is no file")
        return io.BytesIO(found.read())
