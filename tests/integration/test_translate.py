"""fairseq-syntax-translate gives the translations of fairseq-generate, one for each line, in their order."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import commands
from fairseq_syntax.commands import translate
from fairseq_syntax.inference.new_text import PARSER_FAILED
from fake_parser import FakeParser

pytestmark = pytest.mark.usefixtures("fake_parser")

SEARCH = ("--beam=2", "--max-len-b=20")


@pytest.fixture(scope="module")
def expected(trained) -> list[str]:
    """Translations of the test set by fairseq-generate."""
    return [text for _, text in sorted(commands.generate(trained.data, trained.checkpoint).items())]


def model_of(trained) -> list[str]:
    return [f"--path={trained.checkpoint}", f"--data={trained.data}", f"--bpe-codes={trained.codes}", "--cpu", *SEARCH]


def run(trained, folder: Path, text: str | bytes, *more: object, status: int = 0) -> list[str]:
    """The lines that the command writes for a text; it ends with a status."""
    (folder / "text").write_bytes(text.encode() if isinstance(text, str) else text)
    files = [f"--input={folder / 'text'}", f"--output={folder / 'out'}"]
    found = 0
    try:
        translate.main([*model_of(trained), *files, *map(str, more)])
    except SystemExit as end:
        found = end.code
    assert found == status, found
    written = (folder / "out").read_bytes().decode()
    assert written.endswith("\n") or not written
    return written.split("\n")[:-1]


def joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("more", [(), ("--batch-size=3",), ("--max-tokens=40",)])
def test_translations_are_those_of_fairseq_generate_in_order(trained, expected, tmp_path, size, more):
    assert run(trained, tmp_path, joined(trained.lines), f"--buffer-size={size}", *more) == expected
