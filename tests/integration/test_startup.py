"""What the commands for text load, and when."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import syntax_data
from syntax_data.commands import parse
from syntax_data.parsers import parser_class, parser_names

HEAVY = "fairseq", "jinja2", "matplotlib", "nltk", "numpy", "sacrebleu", "sacremoses", "stanza", "torch"


def loaded(module: str, *arguments: str) -> list[str]:
    """Which of the heavy modules a command has loaded when it ends."""
    program = f"""
import sys
from importlib import import_module
try:
    import_module("syntax_data.commands.{module}").main({list(arguments)})
except SystemExit as stop:
    assert not stop.code, stop.code
print(*[name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def test_no_module_loads_fairseq_stanza_or_torch():
    modules = [m.name for m in pkgutil.walk_packages(syntax_data.__path__, "syntax_data.")]
    assert len(modules) > 30
    program = f"import sys, {', '.join(modules)}; print(*{{'fairseq', 'stanza', 'torch'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("command", ["parse", "binarize", "score", "dump", "average_checkpoints"])
def test_help_loads_nothing_heavy(command):
    assert loaded(command, "--help") == (["numpy"] if command == "binarize" else [])


def test_files_are_read_without_anything_heavy(tmp_path):
    (tmp_path / "x.en").write_text("a b\n")
    (tmp_path / "p").write_text("(S a b)\n")
    arguments = "--input", f"{tmp_path}/x.en", "--parser", "trees", "--parse-file", f"{tmp_path}/p"
    assert loaded("parse", *arguments) == []
    assert (tmp_path / "x.en.trees").read_text() == "(S a b)\n"


def test_scoring_needs_neither_fairseq_nor_torch(tmp_path):
    for name in ("x", "ref"):
        (tmp_path / name).write_text("ein Mann geht nach Hause\n")
    files = "--hypotheses", f"{tmp_path}/x", "--references", f"{tmp_path}/ref"
    found = loaded("score", *files, "--remove-bpe", "subword_nmt", "--detokenize", "de", "--tokenize", "intl")
    assert not {"fairseq", "torch"} & set(found)


@pytest.fixture
def broken_parser(tmp_path, monkeypatch) -> Path:
    """An installed parser whose module cannot be imported, and says so in a file where it is."""
    site = tmp_path / "site"
    info = site / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fairseq_syntax.parsers]\nbroken = broken_parser:Broken\n")
    tried = tmp_path / "tried"
    (site / "broken_parser.py").write_text(f"open({str(tried)!r}, 'w').close()\nraise ImportError('no libx.so')\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    return tried


def test_a_broken_parser_breaks_no_other(tmp_path, broken_parser, capsys):
    assert "broken" in parser_names()
    for asked in ([], ["--parser", "stanza"], ["--parser", "trees"]):
        with pytest.raises(SystemExit) as stop:
            parse.main([*asked, "--help"])
        assert stop.value.code == 0
    (tmp_path / "x.en").write_text("a\n")
    (tmp_path / "p").write_text("(S a)\n")
    parse.main(["--input", f"{tmp_path}/x.en", "--parser", "trees", "--parse-file", f"{tmp_path}/p"])
    assert not broken_parser.exists()


def test_a_broken_parser_that_is_named_ends_with_one_line(broken_parser):
    expected = r"^fairseq-syntax-parse: error: the parser broken \(broken_parser:Broken\) cannot be loaded: ImportError"
    with pytest.raises(SystemExit, match=expected):
        parse.main(["--parser", "broken", "--input", os.devnull])
    assert broken_parser.exists()
    with pytest.raises(ValueError, match=r"no libx\.so"):
        parser_class("broken")
