"""What commands import, and when."""

from __future__ import annotations

import os
import pkgutil
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import syntax_data
from fake_parser import install_parser
from syntax_data.commands import parse
from syntax_data.parsers import parser_class, parser_names

HEAVY = "fairseq", "jinja2", "matplotlib", "nltk", "numpy", "sacrebleu", "sacremoses", "stanza", "torch"


def imported(command: str, *arguments: str) -> list[str]:
    """The heavy modules that a command has imported when it ends."""
    program = f"""
import sys
from syntax_data.commands.{command} import main
try:
    main({list(arguments)})
except SystemExit as stop:
    assert not stop.code, stop.code
print(*[name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def test_no_module_imports_fairseq_stanza_or_torch():
    modules = [m.name for m in pkgutil.walk_packages(syntax_data.__path__, "syntax_data.")]
    assert len(modules) > 30
    program = f"import sys, {', '.join(modules)}; print(*{{'fairseq', 'stanza', 'torch'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def cpu_seconds(*command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("command", ["parse", "binarize", "score"])
def test_help_is_there_at_once(command):
    assert imported(command, "--help") == (["numpy"] if command == "binarize" else [])
    assert min(cpu_seconds(f"fairseq-syntax-{command}", "--help") for _ in range(3)) < 0.5


def test_files_are_read_and_scored_without_parsers_torch_and_fairseq(tmp_path):
    (tmp_path / "x.en").write_text("a b\n")
    (tmp_path / "p").write_text("(S a b)\n")
    arguments = "--input", f"{tmp_path}/x.en", "--parser", "trees", "--parse-file", f"{tmp_path}/p"
    assert imported("parse", *arguments) == []
    assert (tmp_path / "x.en.trees").read_text() == "(S a b)\n"
    for name in ("hypotheses", "references"):
        (tmp_path / name).write_text("ein Mann geht nach Hause\n")
    files = [f"--{name}={tmp_path}/{name}" for name in ("hypotheses", "references")]
    found = imported("score", *files, "--remove-bpe", "subword_nmt", "--detokenize", "de", "--tokenize", "intl")
    assert not {"fairseq", "torch"} & set(found)


@pytest.mark.nightly
def test_fairseqs_remark_on_tensorboard_is_left_out():
    def printed_by(program: str) -> str:
        program = f"import sys; sys.modules['tensorboardX'] = None; {program}"
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr

    assert printed_by("import fairseq_syntax.commands.dump") == ""
    assert "tensorboardX" in printed_by("import fairseq"), "upstream is mended: delete compat/remarks.py"


@pytest.mark.parametrize(
    ("command", "package", "options"),
    [
        ("plots.analyze", "matplotlib", ["--output=page", "--parses=x", "--sentence=1"]),
        pytest.param(
            "plots.analyze", "nltk", ["--output=page", "--parses=x", "--sentence=1"], marks=pytest.mark.nightly
        ),
        pytest.param("probing.probe", "pandas", [], marks=pytest.mark.nightly),
    ],
)
def test_a_package_that_is_missing_is_named(tmp_path, command, package, options):
    (tmp_path / "x.trees").write_text("(S a)\n(S b)\n")
    program = f"import sys; sys.modules[{package!r}] = None; from syntax_experiments.{command} import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *options], capture_output=True, text=True, cwd=tmp_path)
    name = command.rpartition(".")[2]
    expected = f"fairseq-syntax-{name}: error: {package} is not installed: pip install 'fairseq-syntax[analysis]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, expected)


@pytest.fixture
def broken_parser(tmp_path, monkeypatch) -> Path:
    """An installed parser whose module cannot be imported, and the file that it writes when that is tried."""
    site, tried = install_parser(tmp_path / "site", "broken", "broken_parser:Broken"), tmp_path / "tried"
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
    expected = r"^fairseq-syntax-parse: error: the parser broken \(broken_parser:Broken\) cannot be loaded: ImportError"
    with pytest.raises(SystemExit, match=expected):
        parse.main(["--parser", "broken", "--input", os.devnull])
    assert broken_parser.exists()
    with pytest.raises(ValueError, match=r"no libx\.so"):
        parser_class("broken")
