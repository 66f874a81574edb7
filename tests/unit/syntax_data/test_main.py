"""How commands end."""

from __future__ import annotations

import argparse
import builtins
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairseq_syntax.commands import average_checkpoints, dump
from forked import Forked
from syntax_data.commands import binarize, parse, score
from syntax_data.commands.main import UsageError, command, run
from syntax_data.errors import InputError
from syntax_data.io.workers import WorkerDied
from syntax_experiments import __main__ as experiment
from syntax_experiments.plots import analyze
from syntax_experiments.probing import probe

COMMANDS = {
    "binarize": (binarize.main, ["-s", "en", "-t", "de", "--trainpref", "x"]),
    "parse": (parse.main, ["--parser", "trees", "--parse-file", "x", "--input", "x"]),
    "average-checkpoints": (average_checkpoints.main, ["--inputs", "x", "--output", "y"]),
    "dump": (dump.main, ["x", "--path", "x", "--output", "y"]),
    "probe": (probe.main, ["x", "--path", "x", "--output", "y", "--parses", "z"]),
    "score": (score.main, ["--hypotheses", __file__, "--references", os.devnull]),
}


@pytest.mark.parametrize("module", [analyze, average_checkpoints, binarize, dump, experiment, parse, probe, score])
def test_help_has_an_example(module):
    parser = module.get_parser()
    assert re.search(rf"^ +(?:[a-z0-9 ]+   )?{parser.prog} \S", parser.description, re.M)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("number", "exception", "status", "message"),
    [
        (None, MemoryError(), 1, "error: there is not enough memory"),
        (None, FileNotFoundError(2, "No such file or directory", "x"), 1, "error: x: No such file or directory"),
        (signal.SIGINT, None, 130, "stopped"),
        (signal.SIGTERM, None, 143, "terminated"),
    ],
)
def test_every_command_ends_with_one_line(tmp_path, name, number, exception, status, message):
    main, arguments = COMMANDS[name]

    def happens(*_: object) -> None:  # wherever the command looks for its first file
        if exception:
            raise exception
        signal.raise_signal(number)

    def run() -> None:
        os.path.isfile = builtins.open = happens
        main(arguments)

    process = Forked(run, tmp_path / "log")
    assert process.end() == status
    assert "Traceback" not in process.said
    advice = "; the same command goes on" if name == "parse" and number else ""
    assert process.said.splitlines()[-1] == f"fairseq-syntax-{name}: {message}{advice}"


MESSAGES = {
    "x:3: expected y": InputError("x", 3, "expected y"),
    "a worker died": WorkerDied("a worker died"),
    "Unable to allocate 9 TiB": MemoryError("Unable to allocate 9 TiB"),
    "[Errno 5] Input/output error": OSError(5, "Input/output error"),
    "'x'": KeyError("x"),
}


@pytest.mark.parametrize("expected", MESSAGES)
def test_messages(expected):
    with pytest.raises(SystemExit) as stop, command("name", errors=(KeyError,)):
        raise MESSAGES[expected]
    assert stop.value.code == f"name: error: {expected}"
    with pytest.raises(LookupError), command("name", errors=(KeyError,)):  # a fault of the program is not hidden
        raise LookupError("x")


def test_one_way_to_run_a_command(capsys):
    def get_parser() -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog="name")
        parser.add_argument("--number", type=int)
        return parser

    def work(args: argparse.Namespace) -> None:
        if args.number < 0:
            raise UsageError("expected a number from 0 on")
        raise KeyError(args.number)

    for arguments, code in ((["--number", "x"], 2), (["--number", "-1"], 2), (["--number", "3"], "name: error: 3")):
        with pytest.raises(SystemExit) as stop:
            run("name", get_parser, work, arguments, errors=(KeyError,))
        assert stop.value.code == code
    assert "usage: name [-h] [--number NUMBER]\nname: error: expected a number from 0 on\n" in capsys.readouterr().err


def test_signals_are_as_before_when_a_command_is_done():
    before = signal.getsignal(signal.SIGTERM)
    with command("name"):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    with ThreadPoolExecutor() as pool:  # where no signals are handled
        pool.submit(lambda: command("name").__enter__()).result()
