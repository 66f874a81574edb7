"""fairseq-syntax-parse, with a parser from an entry point and with files that another parser made."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import Process, get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bracketed import bracketed
from places import TESTS
from syntax_data.commands import binarize, parse
from syntax_data.parsers import parser_names
from syntax_data.text.lines import read_lines
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.conllu import conllu_entries, parse_conllu
from syntax_data.trees.tree import NoParse, Tree

pytestmark = pytest.mark.usefixtures("fake_parser")


def run(text: Path, *more: str, parser: str = "fake", size: int = 3) -> None:
    parse.main(["--input", str(text), "--parser", parser, "--batch-size", str(size), *more])


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def units(prefix: Path) -> tuple[list, list]:
    """The dependency trees and the constituency trees that were written."""
    conllu, trees = f"{prefix}.conllu", f"{prefix}.trees"
    return (
        [parse_conllu(block, path=conllu, line=n) for n, block in conllu_entries(read_lines(conllu))],
        [parse_brackets(line, path=trees, line=n) for n, line in read_lines(trees)],
    )


def outputs(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if not p.is_dir()}


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def no_work(monkeypatch) -> None:
    """Whoever loads the fake parser has begun to work."""
    fake = pytest.importorskip("fake_parser").FakeParser
    monkeypatch.setattr(fake, "from_arguments", lambda args: pytest.fail("the parser was loaded"))


TEXT = "".join(f"a{i} b ( c{i} )\n" for i in range(10))


def test_one_unit_for_each_line_and_reasons_where_there_is_no_parse(tmp_path, capsys):
    text = write(tmp_path / "x.en", "a b\n\na FAIL\n \t\nc d e f\ng")
    run(text, "--max-tokens", "3", size=2)
    dependencies, trees = units(text)
    assert [getattr(unit, "tokens", unit) for unit in dependencies] == [
        ["a", "b"], NoParse("empty"), NoParse("failed"), NoParse("empty"), NoParse("too_long"), ["g"],
    ]  # fmt: skip
    assert [unit if isinstance(unit, NoParse) else unit[0].leaves() for unit in trees] == [
        getattr(unit, "tokens", unit) for unit in dependencies
    ]
    captured = capsys.readouterr()
    assert "6 lines: 2 parsed (33.33%), without a parse: 2 empty, 1 failed, 1 too_long; 3 tokens" in captured.out
    assert f"{text}:3: the parser failed: RuntimeError('told to fail')" in captured.err
    record = json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["conllu"]
    assert record["parser"] == {"name": "fake", "version": "1"}
    assert record["settings"] == {"max_tokens": 3, "max_characters": 10_000, "batch_size": 2}
    assert (record["text"]["path"], record["text"]["lines"]) == ("x.en", 6)
    assert record["counts"]["no_parse.empty"] == 2
    assert sorted(os.listdir(tmp_path)) == ["x.en", "x.en.conllu", "x.en.parse.json", "x.en.trees"]


def test_only_the_lines_are_lost_on_which_the_parser_fails(tmp_path):
    text = write(tmp_path / "x.en", "a\nb\nFAIL\nc\nd\nFAIL\ne\n")
    run(text, size=7)
    dependencies, _ = units(text)
    assert [getattr(unit, "tokens", unit) for unit in dependencies] == [
        ["a"], ["b"], NoParse("failed"), ["c"], ["d"], NoParse("failed"), ["e"],
    ]  # fmt: skip


def test_a_parser_that_always_fails_is_not_taken_for_a_text_that_cannot_be_parsed(tmp_path):
    text = write(tmp_path / "x.en", "\n" + "FAIL\n\n" * 10 + "\n" * 9 + "a\n")
    for size in (1, 3, 9, 20):  # whatever the size of the blocks
        with pytest.raises(SystemExit, match=r"x\.en: the parser failed on 10 lines up to line 2[017] and parsed none"):
            run(text, "--resume", size=size)
        # No line counts as one that cannot be parsed.
        assert [p.name for p in (tmp_path / "x.en.parts").glob("0*")] == ["0000000.json"] * (size == 1)
        shutil.rmtree(tmp_path / "x.en.parts")
    write(text, "FAIL\n\n" * 9)
    run(text, size=1)
    assert (tmp_path / "x.en.trees").read_text() == "(()) failed\n(()) empty\n" * 9
    write(text, "a\n" + "FAIL\n" * 20)
    run(text, size=1)
    assert (tmp_path / "x.en.trees").read_text().count("failed") == 20


@pytest.fixture
def seen(monkeypatch) -> list[str]:
    """The lines that the fake parser has been given."""
    fake = pytest.importorskip("fake_parser").FakeParser
    lines: list[str] = []
    original = fake.parse

    def parse(self, given):
        lines.extend(line.text for line in given)
        return original(self, given)

    monkeypatch.setattr(fake, "parse", parse)
    return lines


@pytest.mark.parametrize("line", ["x" * 300_000, "x " * 5_001, "x " * 251], ids=["a word", "characters", "tokens"])
def test_the_parser_never_sees_a_line_that_is_too_long(tmp_path, seen, line, capsys):
    text = write(tmp_path / "x.en", f"a\n{line}\nb c\n{line}\n")
    run(text)
    assert seen == ["a", "b c"]
    assert (tmp_path / "x.en.trees").read_text().splitlines()[1] == "(()) too_long"
    assert "4 lines: 2 parsed (50.00%), without a parse: 2 too_long" in capsys.readouterr().out
    record = json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["conllu"]
    assert record["settings"] == {"max_tokens": 250, "max_characters": 10_000, "batch_size": 3}
    assert record["counts"]["no_parse.too_long"] == 2


def test_who_wants_longer_lines_says_so(tmp_path, seen):
    lines = ["x" * 60_001, "x" * 60_000, "x" * 1999 + " a"]
    text = write(tmp_path / "x.en", "".join(f"{line}\n" for line in lines))
    for more, parsed in (
        ((), lines[2:]),
        (("--max-tokens", "6000"), lines[1:]),  # in proportion
        (("--max-tokens", "6000", "--max-characters", "2000"), []),
        (("--max-characters", "2001"), lines[2:]),
        (("--max-characters", "60001"), lines),
    ):
        seen.clear()
        run(text, *more)
        assert seen == parsed
    settings = json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["conllu"]["settings"]
    assert (settings["max_tokens"], settings["max_characters"]) == (250, 60001)


def test_files_of_parses_have_the_limits_that_are_asked_for(tmp_path):
    text = write(tmp_path / "x.en", f"a\n{'b' * 11}\nc d e\nf\n")
    trees = write(tmp_path / "p", f"(S a)\n(S {'b' * 11})\n(S c d e)\n(S f)\n")
    run(text, "--parse-file", str(trees), "--max-tokens", "2", "--max-characters", "10", parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == "(S a)\n(()) too_long\n(()) too_long\n(S f)\n"


@pytest.mark.parametrize("line", ["b " * 300, "b" * 10_001])
def test_a_long_parse_that_is_given_is_taken(tmp_path, line):
    text = write(tmp_path / "x.en", f"a\n{line}\n")
    trees = write(tmp_path / "p", f"(S a)\n(S {line})\n")
    run(text, "--parse-file", str(trees), parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == f"(S a)\n(S {line.strip()})\n"
    assert json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["trees"]["settings"] == {"batch_size": 3}


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyError, AssertionError, StopIteration])
def test_whatever_a_parser_raises_costs_one_line(tmp_path, monkeypatch, error, capsys):
    fake = pytest.importorskip("fake_parser").FakeParser
    monkeypatch.setattr(fake, "_parse", raising(fake._parse, error("x" * 10**6)))
    text = write(tmp_path / "x.en", "a\nb\nBAD\nc\nd\n")
    run(text, size=5)
    assert [getattr(unit, "tokens", unit) for unit in units(text)[0]] == [["a"], ["b"], NoParse("failed"), ["c"], ["d"]]
    (message,) = (line for line in capsys.readouterr().err.splitlines() if "x.en:3: the parser failed: " in line)
    assert error.__name__ in message
    assert len(message) < 2000


def raising(method, error):
    def parse(self, line, call):
        if line.text == "BAD":
            raise error
        return method(self, line, call)

    return parse


@pytest.mark.parametrize("error", [SystemExit(), SystemExit(0), SystemExit("bad"), KeyboardInterrupt()])
def test_a_parser_that_ends_the_program_does_not_end_it_well(tmp_path, monkeypatch, error):
    fake = pytest.importorskip("fake_parser").FakeParser
    original = fake._parse
    text = write(tmp_path / "x.en", "a\nb\nBAD\nc\nd\n")
    with monkeypatch.context() as patch:
        patch.setattr(fake, "_parse", raising(original, error))
        with pytest.raises(SystemExit) as ended:
            run(text, size=1)
    if isinstance(error, KeyboardInterrupt):
        assert ended.value.code == 130
    else:  # a text is printed, and makes a status of 1
        assert "error: the parser ended the program: SystemExit" in ended.value.code
    assert not (tmp_path / "x.en.conllu").exists()
    run(text, "--resume", size=1)  # nothing was lost
    assert [unit.tokens for unit in units(text)[0]] == [["a"], ["b"], ["BAD"], ["c"], ["d"]]


@pytest.mark.parametrize(("line", "reason"), [("", "empty"), ("x FAIL", "failed"), ("x " * 300, "too_long")])
def test_strict_makes_a_line_without_a_parse_an_error(tmp_path, line, reason):
    text = write(tmp_path / "x.en", f"a\nb\n{line}\nc\n")
    with pytest.raises(SystemExit, match=rf"x\.en:3: .*--strict.*{reason}"):
        run(text, "--strict")
    assert not (tmp_path / "x.en.conllu").exists()


def test_strict_also_sees_what_an_earlier_run_let_pass(tmp_path):
    text = write(tmp_path / "x.en", "a\nb\nc\n\nd\n")
    run(text, "--num-shards", "1000", "--shard-id", "1")
    with pytest.raises(SystemExit, match=r"x\.en:4: .*--strict.*empty"):
        run(text, "--strict", "--resume")


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_shards_merged_equal_one_run(tmp_path, shards):
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
        text = write(tmp_path / name / "x.en", TEXT)
        if name == "one":
            run(text)
    for i in reversed(range(shards)):
        run(text, "--num-shards", str(shards), "--shard-id", str(i))
    run(text, "--merge")
    assert outputs(tmp_path / "many") == outputs(tmp_path / "one")
    assert not (tmp_path / "many/x.en.parts").exists()


@pytest.mark.parametrize("workers", ["2", "5"])
def test_several_processes_make_what_one_makes(tmp_path, workers, capfd):
    for name, more in (("one", []), ("several", ["--workers", workers])):
        (tmp_path / name).mkdir()
        text = write(tmp_path / name / "x", TEXT + "FAIL\n\n" + TEXT)
        run(text, *more)
        assert f"{text}:11: the parser failed: RuntimeError(" in capfd.readouterr().err
    assert outputs(tmp_path / "one") == outputs(tmp_path / "several")


def test_what_several_processes_have_done_stays_when_one_is_killed(tmp_path, monkeypatch, capsys):
    fake = pytest.importorskip("fake_parser").FakeParser
    parse_lines = fake.parse

    def parse_or_die(self, lines):
        if lines[0].number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return parse_lines(self, lines)

    text = write(tmp_path / "x", TEXT)
    with monkeypatch.context() as patch:
        patch.setattr(fake, "parse", parse_or_die)
        with pytest.raises(SystemExit, match=r"a worker process died \(by SIGKILL\)"):
            run(text, "--workers", "2")
    assert 1 <= len(list((tmp_path / "x.parts").glob("0*.json"))) <= 2  # of four
    run(text, "--workers", "2", "--resume")
    (tmp_path / "one").mkdir()
    run(write(tmp_path / "one" / "x", TEXT))
    assert outputs(tmp_path) == outputs(tmp_path / "one")


def test_who_reads_a_file_in_order_works_alone(tmp_path, no_work):
    text = write(tmp_path / "x", "a\n")
    parses = write(tmp_path / "x.theirs", "(S a)\n")
    with pytest.raises(SystemExit, match="--workers: expected 1 with --parser trees, which reads its file from line 1"):
        run(text, "--parse-file", str(parses), "--workers", "2", parser="trees")


def test_after_the_first_batch_a_log_says_how_long_the_rest_will_take(tmp_path, capsys):
    run(write(tmp_path / "x.en", "a b\n" * 30))
    assert re.search(r"x\.en:  10%.* 3/30 \[\d\d:\d\d<\d\d:\d\d, .* lines/s\]", capsys.readouterr().err)


def test_a_killed_run_resumed_equals_one_run(tmp_path):
    for name in ("one", "killed"):
        (tmp_path / name).mkdir()
        text = write(tmp_path / name / "x.en", TEXT * 3)
        if name == "one":
            run(text)
    command = [
        sys.executable,
        "-m",
        "syntax_data.commands.parse",
        "--input",
        text,
        "--parser",
        "fake",
        "--batch-size",
        "3",
    ]
    process = subprocess.Popen([*command, "--seconds", "0.3"], stderr=subprocess.DEVNULL)
    third = tmp_path / "killed/x.en.parts/0000002.json"
    while not third.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {p.name: p.stat().st_mtime_ns for p in third.parent.glob("*.json")}
    assert 3 <= len(done) - 1 < 10
    assert not (tmp_path / "killed/x.en.conllu").exists()
    with pytest.raises(SystemExit, match=r"batches of an earlier run: go on with --resume"):
        run(text)
    with pytest.raises(SystemExit, match=r"expected 10 batches, \d are missing: .*--resume"):
        run(text, "--merge")
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert f"{3 * (len(done) - 1)}/30" in resumed.stderr  # where the progress bar begins
    assert outputs(tmp_path / "killed") == outputs(tmp_path / "one")


BROKEN = {
    "empty": b"",
    "cut off": b'{"counts": {"parsed": 3}, "without": null, "conllu": "1\\ta',
    "null": b"null",
    "list": b"[1]",
    "no keys": b"{}",
    "not UTF-8": b"\xff" * 10**6,
    "nested": b"[" * 10**5,
    "digits": b'{"counts": ' + b"9" * 5000 + b"}",
}


def half_done(folder: Path) -> Path:
    """A text of ten lines, of which one shard of two was parsed."""
    text = write(folder / "x.en", TEXT)
    run(text, "--num-shards", "2", "--shard-id", "0")
    assert len(list((folder / "x.en.parts").glob("0*.json"))) == 2
    return text


@pytest.mark.parametrize("content", [*BROKEN.values(), b'{"settings": {}, "text": {}}'], ids=[*BROKEN, "others"])
def test_work_that_is_not_known_is_not_taken_for_this(tmp_path, content):
    text = half_done(tmp_path)
    write(tmp_path / "x.en.parts/work.json", content)
    before = snapshot(tmp_path)
    for more in (["--resume"], ["--merge"], ["--resume", "--num-shards", "2", "--shard-id", "1"]):
        with pytest.raises(SystemExit, match=r"parts/work\.json: expected .*found .*; delete .*x\.en\.parts") as error:
            run(text, *more)
        assert len(str(error.value)) < 1500
        assert snapshot(tmp_path).items() >= before.items()
    for path in (tmp_path / "x.en.parts").glob("0*"):
        path.unlink()
    run(text)  # of blocks that are not there, nothing need be known


BROKEN_BLOCKS = {
    **BROKEN,
    "no trees": lambda part: part.pop("trees"),
    "trees are a number": lambda part: part.update(trees=3),
    "a tree too few": lambda part: part.update(trees=part["trees"].partition("\n")[2]),
    "a tree too many": lambda part: part.update(trees=part["trees"] + "(S a)\n"),
    "no end": lambda part: part.update(trees=part["trees"].rstrip("\n") + "\n(S a)"),
    "a block too few": lambda part: part.update(conllu=part["conllu"].partition("\n\n")[2]),
    "a block too many": lambda part: part.update(conllu=part["conllu"] + "# no_parse = x\n\n"),
    "no counts": lambda part: part.pop("counts"),
    "counts are a list": lambda part: part.update(counts=[]),
    "counts of others": lambda part: part["counts"].update(parsed=4),
    "counts of words": lambda part: part["counts"].update(parsed="3"),
    "a letter changed": lambda part: part.update(trees=part["trees"].replace("S", "X", 1)),
    "other lines": lambda part: part.update(first_line=3),
    "no hash": lambda part: part.pop("sha256"),
    "without": lambda part: part.update(without="x"),
    "without a line": lambda part: part.update(without=["x", "failed"]),
}


@pytest.mark.parametrize("damage", BROKEN_BLOCKS.values(), ids=list(BROKEN_BLOCKS))
def test_a_damaged_block_is_parsed_again(tmp_path, damage, capsys):
    (tmp_path / "one").mkdir()
    (tmp_path / "damaged").mkdir()
    run(write(tmp_path / "one/x.en", TEXT))
    text = half_done(tmp_path / "damaged")
    block = tmp_path / "damaged/x.en.parts/0000002.json"
    if isinstance(damage, bytes):
        write(block, damage)
    else:
        part = json.loads(block.read_text())
        damage(part)
        block.write_text(json.dumps(part))
    run(text, "--num-shards", "2", "--shard-id", "1")
    before = snapshot(tmp_path / "damaged")
    with pytest.raises(SystemExit, match=r"parts/0000002\.json: expected .*found .*; delete it") as error:
        run(text, "--merge")
    assert len(str(error.value)) < 1500
    assert snapshot(tmp_path / "damaged").items() >= before.items()
    capsys.readouterr()
    run(text, "--resume")
    assert re.search(r"parts/0000002\.json: expected .*found .*; its lines are parsed again\n", capsys.readouterr().err)
    assert outputs(tmp_path / "damaged") == outputs(tmp_path / "one")


def record_with(**changes: object) -> bytes:
    text = {"path": "x.en", "lines": 1, "sha256": "0"}
    record = {"parser": {}, "settings": {}, "text": text, "sha256": "0", "counts": {}, **changes}
    return json.dumps({"format_version": 1, "parses": {"conllu": {k: v for k, v in record.items() if v != ...}}})


@pytest.mark.parametrize(
    "content",
    [
        *BROKEN.values(),
        *(json.dumps({"format_version": v, "parses": {}}) for v in (True, 1.0, "1", 2, [1], None, "x" * 10**6)),
        b'{"format_version": ' + b"1" * 5000 + b"}",
        '{"format_version": 1}',
        '{"format_version": 1, "parses": null}',
        '{"format_version": 1, "parses": {"conllu": null}}',
        *(record_with(**{key: []}) for key in ("parser", "settings", "text", "sha256", "counts", "other")),
        *(record_with(**{key: None}) for key in ("parser", "settings", "text", "sha256", "counts", "other")),
        record_with(text={}),
        record_with(text={"path": 1, "lines": 1, "sha256": "0"}),
        record_with(text={"path": "x.en", "lines": "1", "sha256": "0"}),
        record_with(text={"path": "x.en", "lines": 1}),
        record_with(counts={"parsed": "1"}),
    ],
)  # fmt: skip
def test_records_that_cannot_be_read_are_refused_before_any_work(tmp_path, no_work, content):
    text = write(tmp_path / "x.en", "a\n")
    write(tmp_path / "x.en.conllu", "1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n\n")
    write(tmp_path / "x.en.parse.json", content)
    before = snapshot(tmp_path)
    for more in ([], ["--resume"], ["--merge"]):
        with pytest.raises(SystemExit, match=r"error: .*/x\.en\.parse\.json: expected .*, found") as error:
            run(text, *more)
        assert len(str(error.value)) < 1500
        assert snapshot(tmp_path) == before
    with pytest.raises(SystemExit, match=r"error: .*/x\.en\.parse\.json: expected .*, found"):
        _binarize(tmp_path)


@pytest.fixture
def at_work() -> Iterator[Callable[..., None]]:
    """Starts other processes of the command, whose parser waits for the file ``go`` beside the text."""
    processes = []

    def start(text: Path, *more: str) -> Process:
        process = get_context("fork").Process(target=_wait_and_parse, args=(text, *more))
        process.start()
        processes.append(process)
        while not (text.parent / f"begun.{process.pid}").exists():
            assert process.is_alive()
            time.sleep(0.01)
        return process

    yield start
    for process in processes:
        process.kill()
        process.join()


def _wait_and_parse(text: Path, *more: str) -> None:
    original = fake_parser_class()._parse

    def parse(self, line, call):
        (text.parent / f"begun.{os.getpid()}").touch()
        while not (text.parent / "go").exists():
            time.sleep(0.01)
        return original(self, line, call)

    fake_parser_class()._parse = parse
    run(text, *more)


def fake_parser_class() -> Any:
    return pytest.importorskip("fake_parser").FakeParser


ALONE, MERGE, ZERO, ONE = [], ["--merge"], *(["--num-shards", "2", "--shard-id", i] for i in "01")


@pytest.mark.parametrize(
    ("first", "second"),
    [(ALONE, ALONE), (ALONE, MERGE), (ALONE, ZERO), (ZERO, ALONE), (ZERO, ZERO), (ZERO, MERGE)],
    ids=["alone twice", "alone, merge", "alone, shard", "shard, alone", "shard twice", "shard, merge"],
)
@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_two_processes_do_not_do_the_same(tmp_path, at_work, first, second, resume):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        text = write(tmp_path / name / "x.en", TEXT)
        if name == "one":
            run(text)
    other = at_work(text, *first)
    for _ in range(2):
        with pytest.raises(
            SystemExit, match=r"x\.en\.parts/.*lock: expected to be alone at (it|shard 0 of 2), found this lock held"
        ):
            run(text, *second, *(resume if second != MERGE else []))
    # What is killed leaves no trace of itself.
    other.kill()
    other.join()
    (tmp_path / "two/go").touch()
    run(text, "--resume", *first)
    if first == ZERO:
        run(text, *ONE)
        run(text, *MERGE)
    assert {k: v for k, v in outputs(tmp_path / "two").items() if k.startswith("x.en")} == outputs(tmp_path / "one")


def test_a_report_lists_some_reasons_and_counts_the_rest(tmp_path, capsys):
    text = write(tmp_path / "x.en", "a\n" * 31 + "b\n")
    reasons = [*range(20), *[3] * 5, *[7] * 4, *["x" * 10**6] * 2]
    trees = "".join(f"(()) reason {reason}\n" for reason in reasons) + "(S b)\n"
    run(text, "--parse-file", str(write(tmp_path / "p", trees)), parser="trees")
    report = capsys.readouterr().out
    assert "without a parse: 6 reason 3, 5 reason 7, 2 'reason xxx" in report
    assert "xxx', 1 reason 0, 1 reason 1, 1 reason 10, 1 reason 11, 1 reason 12, 13 others; 1 tokens" in report
    assert len(report) < 1000
    write(tmp_path / "p", "(S a)\n" * 30 + f"(()) reason {'x' * 10**6}\n(S b)\n")
    with pytest.raises(SystemExit, match=r"x\.en:31: expected a parse \(--strict\), found none: 'reason xxx") as error:
        run(text, "--strict", "--parse-file", str(tmp_path / "p"), parser="trees")
    assert len(str(error.value)) < 500


def test_shards_work_beside_each_other(tmp_path, at_work):
    text = write(tmp_path / "x.en", TEXT)
    shards = [at_work(text, "--num-shards", "3", "--shard-id", str(i)) for i in range(3)]
    with pytest.raises(SystemExit, match="its settings differs"):
        run(text, "--num-shards", "4", "--shard-id", "1", "--max-tokens", "7")
    (tmp_path / "go").touch()
    for shard in shards:
        shard.join()
        assert shard.exitcode == 0
    run(text, "--merge")
    assert len(units(text)[0]) == 10


def test_shards_of_different_work_that_begin_at_once(tmp_path):
    """One is the first, and the blocks of all that go on are of its work."""
    text = write(tmp_path / "x.en", TEXT)
    context = get_context("fork")
    barrier = context.Barrier(8)
    for _ in range(5):
        processes = [context.Process(target=_parse_together, args=(barrier, text, i)) for i in range(8)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        settings = json.loads((tmp_path / "x.en.parts/work.json").read_text())["settings"]["max_tokens"]
        assert [p.exitcode == 0 for p in processes] == [100 + i % 2 == settings for i in range(8)]
        shutil.rmtree(tmp_path / "x.en.parts")


def _parse_together(barrier: Any, text: Path, i: int) -> None:
    original = os.path.exists

    def exists(path: str) -> bool:
        found = original(path)
        if not found and path.endswith("work.json"):
            time.sleep(i / 50)  # others may make it meanwhile
        return found

    os.path.exists = exists
    barrier.wait()
    run(text, "--num-shards", "8", "--shard-id", str(i), "--max-tokens", str(100 + i % 2))


def test_without_locks_one_is_told(tmp_path, monkeypatch, capsys):
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    assert "No locks available: see that no other process does the same" in capsys.readouterr().err
    assert len(units(text)[0]) == 10


@pytest.mark.parametrize("change", ["text", "options", "version"])
def test_resuming_other_work_is_refused(tmp_path, change, monkeypatch):
    text = write(tmp_path / "x.en", TEXT)
    run(text, "--num-shards", "2", "--shard-id", "0")
    before = snapshot(tmp_path / "x.en.parts")
    more: tuple[str, ...] = ()
    if change == "text":
        write(text, TEXT.replace("a3", "a4"))
    elif change == "version":
        monkeypatch.setenv("FAKE_VERSION", "2")
    else:
        more = ("--max-tokens", "7")
    expected = {"text": "its text differs", "options": "its settings differs", "version": "its parser differs"}[change]
    with pytest.raises(SystemExit, match=expected):
        run(text, "--num-shards", "2", "--shard-id", "1", "--resume", *more)
    assert snapshot(tmp_path / "x.en.parts").items() >= before.items()


def test_other_places(tmp_path):
    text = write(tmp_path / "x.tc.en", TEXT)
    (tmp_path / "out").mkdir()
    run(text, "--output-prefix", f"{tmp_path}/out/y.en")
    assert sorted(os.listdir(tmp_path / "out")) == ["y.en.conllu", "y.en.parse.json", "y.en.trees"]
    record = json.loads((tmp_path / "out/y.en.parse.json").read_text())["parses"]["trees"]
    assert record["text"]["path"] == "../x.tc.en"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\rc\n", r"x:2: expected no carriage return inside the line, found one in column 2"),
        (b"a\n\xff\n", r"x:2: expected UTF-8, found .*0xff.* \(iconv converts other encodings\)"),
        (b"\x1f\x8b\x08a\n", r"x: expected a text in UTF-8, found a gzip file: unpack it first"),
        (b"\xef\xbb\xbfa\n", r"x:1: expected UTF-8 without a byte order mark"),
    ],
)
def test_text_that_cannot_be_used_is_refused_at_once(tmp_path, content, expected):
    text = write(tmp_path / "x", content)
    with pytest.raises(SystemExit, match=expected):
        run(text)
    assert os.listdir(tmp_path) == ["x"]


def test_odd_characters_keep_their_lines_through_to_the_data_bin(tmp_path):
    lines = [
        "a\x0bb\u2028c\x85d\u00a0e",  # white space to fairseq, not the end of a line
        "tab\tin between",
        "zero\u200bwidth \u200d \u00ad e\u0301\u0323",
        "( ) [ ] { } -LRB- :-) a(b)c",
        "x " * 5000,
        "",
        "crlf\r",
        "no newline at the end",
    ]
    text = write(tmp_path / "x.en", "\n".join(lines))
    run(text, "--max-tokens", "6000")
    dependencies, trees = units(text)
    assert len(dependencies) == len(trees) == len(lines)
    report = _binarize(tmp_path, "--subwords", "words")
    assert [len(row) for row in report] == [6, 4, 5, 10, 5001, 1, 2, 6]


def _binarize(folder: Path, *more: str) -> list[list[int]]:
    from fairseq.data import indexed_dataset

    arguments = ["-s", "en", "-t", "de", "--trainpref", str(folder / "x"), "--destdir", str(folder / "bin"), *more]
    binarize.main(arguments)
    dataset = indexed_dataset.make_dataset(str(folder / "bin/train.en-de.en.word"), "mmap")
    return [dataset[i].tolist() for i in range(len(dataset))]


def test_empty_text(tmp_path):
    text = write(tmp_path / "x.en", "")
    run(text)
    assert units(text) == ([], [])
    assert _binarize(tmp_path) == []


def test_the_binarizer_takes_over_the_record_and_sees_changes(tmp_path, capsys):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    _binarize(tmp_path)
    signature = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())["splits"]["train"]
    assert signature["parser"]["conllu"]["name"] == "fake"
    assert signature["parser"]["trees"]["text"]["lines"] == 10
    before = outputs(tmp_path / "bin")

    trees = tmp_path / "x.en.trees"
    content = trees.read_text()
    write(trees, content.replace("(S ", "(X ", 1))
    with pytest.raises(
        SystemExit, match=r"x\.en\.trees: expected the file that .*parse\.json tells of, found it changed"
    ):
        _binarize(tmp_path)
    write(trees, content)
    # The text that is trained on may be another one than the text that was parsed, which is looked for where it was.
    text.rename(tmp_path / "x.tc.en")
    write(tmp_path / "x.en", TEXT.upper())
    with pytest.raises(SystemExit, match=r"x\.en: expected the file"):
        _binarize(tmp_path)
    (tmp_path / "x.tc.en").rename(text)
    run(text, "--output-prefix", f"{tmp_path}/y.en")
    write(tmp_path / "x.en.bpe.en", TEXT)
    text.unlink()
    capsys.readouterr()
    binarize.main(
        ["-s", "en", "-t", "de", "--trainpref", f"{tmp_path}/x.en.bpe", "--trainparse", f"{tmp_path}/y", "--destdir",
         str(tmp_path / "bin2")]
    )  # fmt: skip
    assert "x.en, is not there; whether it changed was not checked" in capsys.readouterr().out
    assert outputs(tmp_path / "bin") == before


# Files that another parser made

CONLLU = """# sent_id = 1
1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_
1\tin\tin\tADP\t_\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\t_\t_\t3\tdet\t_\t_
3\tHaus\tHaus\tNOUN\t_\t_\t0\troot\t_\t_

1\tJa\tja\tINTJ\t_\t_\t0\troot\t_\t_
2\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

1\tX\tx\tNOUN\t_\t_\t0\troot\t_\t_

"""


def test_conllu_files_are_checked_and_normalised(tmp_path, capsys):
    text = write(tmp_path / "x.de", "Im Haus ja.\n\nx\n")
    file = write(tmp_path / "udpipe.conllu", CONLLU)
    run(text, "--parse-file", str(file), "--parser-name", "UDPipe 2", parser="conllu", size=1)
    content = (tmp_path / "x.de.conllu").read_text()
    assert content == (
        "# sentences = 2\n"
        "1\tim\t_\tADP\t_\t_\t2\tcase\t_\t_\n"
        "2\tHaus\tHaus\tNOUN\t_\t_\t0\troot\t_\t_\n"
        "3\tJa\tja\tINTJ\t_\t_\t0\troot\t_\t_\n"
        "4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_\n"
        "\n# no_parse = empty\n\n1\tX\tx\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    )
    assert "3 lines: 2 parsed (66.67%), without a parse: 1 empty; 5 tokens (1 of several words) in 3 sentences "
    assert "(1 lines have several)" in capsys.readouterr().out
    assert not (tmp_path / "x.de.trees").exists()
    # What was written passes the same check, and the other kind may come from somewhere else.
    run(text, "--parse-file", str(tmp_path / "x.de.conllu"), "--output-prefix", f"{tmp_path}/y.de", parser="conllu")
    assert (tmp_path / "y.de.conllu").read_text() == content
    trees = write(tmp_path / "benepar", "(S (P Im) (N Haus))\n(S ja .)\n\n(S x)\n")
    run(text, "--parse-file", str(trees), parser="trees")
    assert (tmp_path / "x.de.trees").read_text() == "(S (P Im) (N Haus)) (S ja .)\n(()) empty\n(S x)\n"
    records = json.loads((tmp_path / "x.de.parse.json").read_text())["parses"]
    assert records["conllu"]["parser"]["name"] == "UDPipe 2"
    assert list(records["trees"]["parser"]["file"]) == ["benepar"]


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("conllu", CONLLU.replace("Haus\tHaus", "Haut\tHaut"), r"p:1: .*x\.de:1: .*has 'Haus' .*, the parse 'Haut'"),
        ("conllu", CONLLU + "1\tX\t_\t_\t_\t_\t0\t_\t_\t_\n", r"p:12: expected no parse after the last line"),
        ("conllu", CONLLU[: CONLLU.index("1\tX")], r"p: expected a parse of .*x\.de:3, found none of it"),
        ("conllu", CONLLU[: CONLLU.index("1\tJa")], r"p: expected a parse of .*x\.de:1, found none of the rest of it"),
        ("conllu", CONLLU.replace("\t3\tcase", "\t9\tcase"), r"p:3: .*out of range"),
        ("conllu", CONLLU.replace("1\tJa", "# no_parse = x\n\n1\tJa"), r"p:7: expected the rest of .*x\.de:1"),
        ("trees", "(S Im Haus)\n(S ja . x)\n", r"p:2: .*x\.de:1: .*the text has nothing, the parse 'x'"),
        ("trees", "(S Im Haus) (S ja .)\n\n(S x\n", r"p:3: expected 1 more '\)'"),
        ("trees", "(S Im Haus) (S ja .)\n\n(S x)\n(S y)\n", r"p:4: expected no parse after the last line"),
        ("trees", "(S Im Haus) (S ja .)\n\n(S x)\n\n\n(S y)\n", r"p:6: expected no parse after the last line"),
        ("trees", "(S Im Haus) (S ja .)\n\n(S x)\n\n(())\n", r"p:5: expected no parse after the last line"),
        ("conllu", f"{CONLLU}#\n\n# no_parse = x\n\n", r"p:14: expected no parse after the last line"),
        ("trees", "\n\n(S x)\n", r"p:3: .*x\.de:1: .*; .*p:1 has no parse: .* failed there, write '\(\(\)\) failed'"),
        ("trees", "(S Im Haus) (S ja .)\n\n\n", r"p: expected a parse of .*; .*p:3 has no parse: if the parser failed"),
        ("conllu", f"#\n\n{CONLLU}".replace("Haus", "Haut"), r"p:3: .*p:1 has no parse: .*'# no_parse = failed'"),
        ("trees", "(S Im Haus (-NONE- *)) (S ja .)\n\n(S x)\n", r"p:1: .*x\.de:1: .*--parser trees --drop-traces"),
    ],
)  # fmt: skip
def test_broken_files_are_refused_with_file_and_line(tmp_path, kind, content, expected):
    text = write(tmp_path / "x.de", "Im Haus ja.\n\nx\n")
    file = write(tmp_path / "p", content)
    with pytest.raises(SystemExit, match=expected):
        run(text, "--parse-file", str(file), parser=kind)
    assert not (tmp_path / f"x.de.{kind}").exists()


def test_units_that_are_no_sentences(tmp_path):
    """Comments between blocks, and the marks of lines without a parse."""
    text = write(tmp_path / "x.en", "a b\n\nc\n")
    content = (
        "# generator = a parser 2\n# newdoc\n\n1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n2\tb\t_\t_\t_\t_\t1\t_\t_\t_\n\n#\n\n"
    )
    content += "# newpar\n\n# no_parse = timeout\n\n"
    run(text, "--parse-file", str(write(tmp_path / "p", content)), parser="conllu")
    dependencies = [parse_conllu(b, path="x", line=n) for n, b in conllu_entries(read_lines(f"{text}.conllu"))]
    assert [getattr(unit, "tokens", unit) for unit in dependencies] == [
        ["a", "b"],
        NoParse("empty"),
        NoParse("timeout"),
    ]
    record = json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["conllu"]
    assert record["parser"]["name"] == "a parser 2"
    run(text, "--parse-file", str(write(tmp_path / "t", "(S a b)\n(())\n(S c)\n")), parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == "(S a b)\n(()) empty\n(S c)\n"
    run(text, "--parse-file", str(write(tmp_path / "t", "(S a b)\n(()) failed\n")), parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == "(S a b)\n(()) empty\n(()) failed\n"


def test_sentences_whose_marks_and_escapes_differ_from_the_lines(tmp_path):
    """Marks come in another order, and what is one character together is torn apart."""
    text = write(tmp_path / "x.en", "a\u0301\u0323 b & amp ; c\ni\u0307 d e\n")
    content = "(S a\u0323\u0301)\n(S b &)\n(S c)\n(S i)\n(S \u0307 d)\n(S e)\n"
    run(text, "--parse-file", str(write(tmp_path / "t", content)), parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == "(S a\u0323\u0301) (S b &) (S c)\n(S i) (S \u0307 d) (S e)\n"


def test_trees_over_several_lines(tmp_path):
    text = write(tmp_path / "x.en", "a ( b\nc\n")
    content = "(ROOT\n  (S (X a) (-LRB- -LRB-)\n    (Y b)))\n(ROOT (X c))\n"
    run(text, "--parse-file", str(write(tmp_path / "corenlp", content)), parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == "(ROOT (S (X a) (-LRB- -LRB-) (Y b)))\n(ROOT (X c))\n"


@settings(max_examples=20, deadline=None)
@given(
    blank=st.lists(st.sampled_from(["\n", " \t\n", "\x0b\r\n"]), max_size=5).map("".join),
    comments=st.lists(st.sampled_from(["\n", " \n", "# a\n", "# newdoc id = b\n", "#\n\n"]), max_size=5).map("".join),
    empty=st.integers(0, 2),
    between=st.integers(0, 2),
    size=st.integers(1, 3),
)
def test_blank_lines_and_comments_after_the_last_parse_are_none(
    tmp_path_factory, blank, comments, empty, between, size
):
    folder = tmp_path_factory.mktemp("blank")
    text = write(folder / "x.en", "a b\nc\n" + "\n" * empty)
    trees = f"(ROOT\n  (S a))\n{between * chr(10)}(S b)\n{between * chr(10)}(()) x\n"
    conllu = "1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n2\tb\t_\t_\t_\t_\t1\t_\t_\t_\n\n# no_parse = x\n\n"
    for kind, content, expected in (
        ("trees", trees + blank, "(ROOT (S a)) (S b)\n(()) x\n" + "(()) empty\n" * empty),
        ("conllu", conllu + comments, conllu + "# no_parse = empty\n\n" * empty),
    ):
        run(text, "--parse-file", str(write(folder / "p", content)), parser=kind, size=size)
        assert (folder / f"x.en.{kind}").read_text() == expected


def test_units_without_a_parse_are_those_of_empty_lines_also_before_blank_ones(tmp_path):
    text = write(tmp_path / "x.en", "a\n\nb\n")
    run(text, "--parse-file", str(write(tmp_path / "p", "(S a)\n(())\n(S b)\n\n\n")), parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == "(S a)\n(()) empty\n(S b)\n"


def test_reasons_why_other_parsers_have_no_parse_are_counted(tmp_path, capsys):
    text = write(tmp_path / "x.en", "a\nb\nc\nd\n")
    content = "(S a)\nSENTENCE_SKIPPED_OR_UNPARSABLE\n()\n(())\n"
    run(text, "--parse-file", str(write(tmp_path / "p", content)), parser="trees")
    assert "without a parse: 2 not_stated, 1 sentence_skipped_or_unparsable" in capsys.readouterr().out


def test_traces_are_dropped_and_counted(tmp_path, capsys):
    text = write(tmp_path / "x.en", "The dog was seen .\nSo ?\n")
    tree = "( (S \n  (NP-SBJ-1 (DT The) (NN dog) )\n  (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1) )))\n  (. .) ))\n"
    trees = write(tmp_path / "p", f"{tree}(S (NP (-NONE- *T*-2) (-NONE- 0)) (RB So) (. ?))\n")
    run(text, "--parse-file", str(trees), "--drop-traces", parser="trees", size=1)
    assert (tmp_path / "x.en.trees").read_text() == (
        "( (S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBD was) (VP (VBN seen))) (. .)))\n(S (RB So) (. ?))\n"
    )
    assert f"{trees}: 3 traces were dropped\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["trees"]["parser"]["drop_traces"] is True


def test_escaped_brackets_in_trees_over_several_lines(tmp_path):
    text = write(tmp_path / "x.en", "fine :)\n:) a\n\n:( b\nC:\\ ( d )\ne \\\n")
    content = "(S\n  (JJ fine)\n  (. :\\)))\n(S\n  (. :\\))\n  (X a))\n\n(S (. :\\()\n  (X b))\n"
    content += "(S\n  (X C:\\)\n  (Y -LRB- d -RRB-))\n(S (X e) (X \\))\n"
    run(text, "--parse-file", str(write(tmp_path / "p", content)), parser="trees")
    assert (tmp_path / "x.en.trees").read_text() == (
        "(S (JJ fine) (. :-RRB-))\n(S (. :-RRB-) (X a))\n(()) empty\n(S (. :-LRB-) (X b))\n"
        "(S (X C:\\) (Y -LRB- d -RRB-))\n(S (X e) (X \\))\n"
    )


def test_a_token_of_white_space_has_no_subword(tmp_path):
    text = write(tmp_path / "x.en", "One  two\n")
    heads = "1\tOne\t_\tX\t_\t_\t2\tx\t_\t_\n2\t{}\t_\tX\t_\t_\t3\tx\t_\t_\n3\ttwo\t_\tX\t_\t_\t0\tx\t_\t_\n\n"
    for form in ("", " ", "\u00a0"):
        run(text, "--parse-file", str(write(tmp_path / "p", heads.format(form))), parser="conllu")
        assert (tmp_path / "x.en.conllu").read_text() == heads.format(" ")
        assert _binarize(tmp_path, "--subwords", "words") == [[0, 1, 2]]


def test_a_refused_file_can_be_put_right(tmp_path):
    text = write(tmp_path / "x.en", "a\nb\nc\n")
    with pytest.raises(SystemExit, match=r"p:3: expected 1 more"):
        run(text, "--parse-file", str(write(tmp_path / "p", "(S a)\n(S b)\n(S c\n")), parser="trees", size=1)
    run(text, "--parse-file", str(write(tmp_path / "p", "(S a)\n(S b)\n(S c)\n")), parser="trees", size=1)
    assert len((tmp_path / "x.en.trees").read_text().splitlines()) == 3


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize("output", ["conllu", "trees", "parse.json"])
@pytest.mark.parametrize("merge", [[], ["--merge"], ["--resume"]])
def test_the_text_is_never_overwritten(tmp_path, no_work, output, link, merge):
    text = tmp_path / f"x.{output}"
    if link is None:
        write(text, "a\nb\n")
    else:
        link(write(tmp_path / "text", "a\nb\n"), text)
    before = snapshot(tmp_path)
    expected = rf"x\.{re.escape(output)}: expected another file to write to than those that are read"
    with pytest.raises(SystemExit, match=expected):
        run(text if link is None else tmp_path / "text", "--output-prefix", f"{tmp_path}/x", *merge)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize("output", ["conllu", "trees", "parse.json"])
@pytest.mark.parametrize("parser", ["conllu", "trees"])
def test_the_parse_file_is_never_overwritten(tmp_path, output, link, parser):
    text = write(tmp_path / "x.en", "a\n")
    file = tmp_path / f"x.en.{output}"
    write(file if link is None else tmp_path / "file", "(S   a)\n" if parser == "trees" else "1\ta\n\n")
    if link:
        link(tmp_path / "file", file)
    before = snapshot(tmp_path)
    with pytest.raises(SystemExit, match=rf"x\.en\.{output}: expected another file to write to than those that are"):
        run(text, "--parse-file", str(file if link is None else tmp_path / "file"), parser=parser)
    assert snapshot(tmp_path) == before


def test_only_what_is_left_of_parts_is_swept(tmp_path):
    text = write(tmp_path / "x", "a\n")
    own = tmp_path / "x.parts.some.host.7.done"
    (tmp_path / "elsewhere").mkdir()
    folders = [
        tmp_path / "x.parts.user.done",
        tmp_path / "x.parts.user.8.done",  # with a file that is nobody's but theirs
        tmp_path / "x.parts.user.9.done",  # with a folder
        tmp_path / "elsewhere",
        own,
    ]
    for folder in folders:
        folder.mkdir(exist_ok=True)
        write(folder / "work.json", "{}")
    write(folders[1] / "notes", "mine")
    (folders[2] / "whole.trees").mkdir()
    (tmp_path / "x.parts.user.10.done").symlink_to(tmp_path / "elsewhere")
    before = snapshot(tmp_path)
    run(text)
    after = snapshot(tmp_path)
    assert not own.exists()
    assert {path for path in before if path not in after} == {path for path in before if own.name in path}
    assert (tmp_path / "x.parts.user.10.done").is_symlink()


def test_the_folder_of_the_parts_is_never_somebody_elses(tmp_path, no_work):
    parts = tmp_path / "x.parts"
    text = write(tmp_path / "x", "a\n")

    def refused(expected: str, *more: str, text: Path = text) -> None:
        before = snapshot(tmp_path)
        with pytest.raises(SystemExit, match=expected):
            run(text, "--output-prefix", f"{tmp_path}/x", *more)
        assert snapshot(tmp_path) == before

    for more in ([], ["--resume"], ["--merge"]):
        write(parts, "b\n")
        refused(r"x\.parts: expected a folder of its own, found a file", *more)
        refused(r"x\.parts: expected a folder of its own, found a file", *more, text=parts)
        parts.unlink()
        parts.mkdir()
        inside = write(parts / "0000000.json", "b\n")
        refused(
            r"x\.parts: expected a folder of its own, found .*0000000\.json in it, which is read", *more, text=inside
        )
        inside.rename(parts / "notes")
        refused(r"x\.parts: expected a folder of its own, found 'notes' in it", *more)
        (parts / "notes").unlink()
        parts.rmdir()
        (tmp_path / "elsewhere").mkdir()
        parts.symlink_to(tmp_path / "elsewhere")
        refused(r"x\.parts: expected a folder of its own, found a link", *more)
        parts.unlink()
        (tmp_path / "elsewhere").rmdir()


@pytest.mark.parametrize("output", ["conllu", "trees", "parse.json"])
def test_outputs_that_cannot_be_written_are_refused_before_any_work(tmp_path, no_work, output):
    text = write(tmp_path / "x", "a\n")
    folder = tmp_path / f"x.{output}"
    folder.mkdir()
    with pytest.raises(SystemExit, match=rf"x\.{output}: expected a file to write, found a folder"):
        run(text)
    folder.rmdir()
    with pytest.raises(SystemExit, match=r"--output-prefix: expected a file's name at the end, found '.*/'"):
        run(text, "--output-prefix", f"{tmp_path}/")
    assert os.listdir(tmp_path) == ["x"]


BROKEN_PARSES = {
    "a word twice": lambda parse: parse.trees[0].children[0].children.append(""),
    "no words": lambda parse: parse.trees[0].children.append(Tree("X", [])),
    "no text": lambda parse: parse.trees[0].children.append(3),
    "trees are none": lambda parse: setattr(parse, "trees", NoParse("x")),
    "root of no children": lambda parse: parse.trees.append(Tree("X", [])),
    "tab": lambda parse: parse.dependencies.columns[0].__setitem__(7, "a\tb"),
    "line": lambda parse: parse.dependencies.columns[0].__setitem__(7, "a\nb"),
    "carriage return": lambda parse: parse.dependencies.columns[0].__setitem__(7, "a\rb"),
    "surrogate": lambda parse: parse.dependencies.columns[0].__setitem__(7, "\ud800"),
    "surrogate in a tree": lambda parse: setattr(parse.trees[0], "label", "\ud800"),
    "few columns": lambda parse: setattr(parse.dependencies, "columns", [["_"]] * 2),
    "few rows": lambda parse: setattr(parse.dependencies, "columns", [["_"] * 10]),
    "heads of text": lambda parse: setattr(parse.dependencies, "heads", ["a", "b"]),
    "no heads": lambda parse: setattr(parse.dependencies, "heads", None),
    "negative heads": lambda parse: setattr(parse.dependencies, "heads", [0, -1]),
    "tokens of numbers": lambda parse: setattr(parse.dependencies, "tokens", [1, 2]),
    "sentences": lambda parse: setattr(parse.dependencies, "sentences", "x"),
    "multiword": lambda parse: setattr(parse, "multiword", "x"),
}


@pytest.mark.parametrize("damage", BROKEN_PARSES.values(), ids=list(BROKEN_PARSES))
def test_what_a_parser_says_can_be_written_and_read_again(tmp_path, damage, monkeypatch, capsys):
    fake = pytest.importorskip("fake_parser").FakeParser
    original = fake._parse

    def broken(self, line, call):
        parse = original(self, line, call)
        if line.number == 2:
            damage(parse)
        return parse

    monkeypatch.setattr(fake, "_parse", broken)
    text = write(tmp_path / "x.en", "a b\nc d\ne\n")
    run(text)
    dependencies, trees = units(text)
    assert [getattr(unit, "tokens", unit) for unit in dependencies] == [["a", "b"], NoParse("failed"), ["e"]]
    assert [type(unit) for unit in trees] == [list, NoParse, list]
    assert "x.en:2: the parser failed: " in capsys.readouterr().err


@pytest.mark.parametrize("attribute", ["tokens", "heads", "trees", "number", "reason", "none"])
def test_what_a_parser_says_is_checked(tmp_path, attribute, monkeypatch, capsys):
    fake = pytest.importorskip("fake_parser").FakeParser
    original = fake._parse

    def broken(self, line, call):
        parse = original(self, line, call)
        if line.number == 2:
            if attribute == "tokens":
                parse.dependencies.tokens[0] = "zzz"
            elif attribute == "heads":
                parse.dependencies.heads[:2] = [2, 1]
            elif attribute == "trees":
                parse.trees[0].children.pop()
            elif attribute in ("number", "none"):
                return None
            else:
                return NoParse("timeout\n(60 s)")
        return parse

    monkeypatch.setattr(fake, "_parse", broken)
    if attribute == "number":
        whole = fake.parse
        monkeypatch.setattr(fake, "parse", lambda self, lines: [parse for parse in whole(self, lines) if parse])
    text = write(tmp_path / "x.en", "a b\nc d\ne\n")
    run(text)
    dependencies, _ = units(text)
    assert [getattr(unit, "tokens", unit) for unit in dependencies] == [["a", "b"], NoParse("failed"), ["e"]]
    assert "x.en:2: the parser failed: " in capsys.readouterr().err


def test_work_that_is_done_is_not_done_again(tmp_path, capsys):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    for more in (["--resume"], ["--resume", "--num-shards", "2", "--shard-id", "1"], ["--merge"]):
        capsys.readouterr()
        run(text, *more)
        assert "all of it was done before" in capsys.readouterr().out
    assert {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()} == before
    run(text, "--resume", "--max-tokens", "4")  # other work
    with pytest.raises(SystemExit, match=r"every line \(--strict\), found lines without: 10 too_long"):
        run(text, "--resume", "--max-tokens", "4", "--strict")
    assert (tmp_path / "x.en.trees").read_text() == "(()) too_long\n" * 10


def test_what_an_earlier_run_made_is_named_before_it_is_replaced(tmp_path, capsys, monkeypatch):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    said = capsys.readouterr().err
    assert "will be" not in said
    assert "stays" not in said
    run(text)  # the same once more
    assert "will be" not in capsys.readouterr().err
    trees = (tmp_path / "x.en.trees").read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    both = f"{text}.trees, {text}.conllu: will be replaced"
    with monkeypatch.context() as patch:
        patch.setattr(fake_parser_class(), "parse", interrupted)
        with pytest.raises(SystemExit):
            run(text, "--resume", "--max-tokens", "7")
    assert f"{both} (settings had max_tokens 250, now max_tokens 7)\n" in capsys.readouterr().err
    assert (tmp_path / "x.en.trees").read_bytes() == trees  # said in time
    run(text, "--resume", "--max-tokens", "7")
    assert f"{both} (settings had max_tokens 250, now max_tokens 7)\n" in capsys.readouterr().err
    monkeypatch.setenv("FAKE_VERSION", "2")
    run(text, "--num-shards", "2", "--shard-id", "0", "--resume")
    changes = "parser had version '1', now version '2'; settings had max_tokens 7, now max_tokens 250"
    assert f"{both} ({changes})\n" in capsys.readouterr().err
    run(text, "--resume")
    (tmp_path / "x.en.trees").write_text("(S by hand)\n")
    (tmp_path / "x.en.conllu").unlink()
    capsys.readouterr()
    run(text)
    said = capsys.readouterr().err
    assert f"{text}.trees: will be replaced (it was changed since it was made)\n" in said
    assert "x.en.conllu" not in said
    (tmp_path / "x.en.parse.json").unlink()
    run(text)
    assert f"{both} ({text}.parse.json does not tell who made it)\n" in capsys.readouterr().err
    write(text, TEXT.replace("a3", "a4"))
    run(text)
    assert f"{both} (the text was another one)\n" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["there", "by hand", "missing", "unknown"])
def test_what_becomes_of_the_other_kind_is_said_before_the_merge(tmp_path, capsys, other):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    if other == "by hand":
        write(tmp_path / "x.en.conllu", "# by hand\n")
    elif other != "there":
        (tmp_path / "x.en.conllu").unlink()
    if other == "unknown":
        (tmp_path / "x.en.parse.json").unlink()
    trees = str(write(tmp_path / "p", (tmp_path / "x.en.trees").read_bytes()))
    more = "--parse-file", trees, "--parser-name", "benepar 1"
    for i in "01":
        run(text, *more, "--num-shards", "2", "--shard-id", i, parser="trees")
    before = snapshot(tmp_path)
    capsys.readouterr()
    (tmp_path / "x.en.parts/0000001.json").rename(tmp_path / "aside")
    for missing in (True, False):
        if not missing:
            (tmp_path / "aside").rename(tmp_path / "x.en.parts/0000001.json")
            run(text, *more, "--merge", parser="trees")
        else:
            with pytest.raises(SystemExit, match="1 are missing: 1; "):
                run(text, *more, "--merge", parser="trees")
            assert {k: v for k, v in snapshot(tmp_path).items() if "x.en." in k}.keys() <= before.keys()
        said = capsys.readouterr().err
        replaced = rf"x\.en\.trees: will be replaced \(.*{'not tell who' if other == 'unknown' else 'benepar 1'}.*\)\n"
        assert re.search(replaced, said)
        stays = {
            "there": r" stays as it is \(made by 'fake'\)\n",
            "by hand": r" stays as it is \(it was changed since it was made\)\n",
            "missing": r" stays missing, though .*x\.en\.parse\.json tells of it, for this makes none\n",
            "unknown": None,
        }[other]
        assert re.search(r"x\.en\.conllu:" + stays, said) if stays else "conllu" not in said
    capsys.readouterr()
    run(text, *more, "--merge", parser="trees")  # with the other kind from elsewhere beside it, this is done
    assert "all of it was done before" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["trees", "conllu"])
@pytest.mark.parametrize(("content", "found"), [(None, "none"), ("junk\n", "it changed since")])
def test_merge_is_not_done_where_one_of_the_files_made_together_is_lost(tmp_path, kind, content, found):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    made = tmp_path / f"x.en.{kind}"
    if content is None:
        made.unlink()
    else:
        write(made, content)
    with pytest.raises(SystemExit, match=rf"x\.en\.{kind}: expected the file that .*x\.en\.parse\.json .* {found}"):
        run(text, "--merge")
    run(text, "--resume")  # makes it anew
    run(text, "--merge")


def test_files_can_be_shared_and_resumed_too(tmp_path):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    whole = (tmp_path / "x.en.conllu").read_bytes()
    for i in (1, 0):
        more = ("--num-shards", "2", "--shard-id", str(i), "--output-prefix", f"{tmp_path}/y")
        run(text, "--parse-file", str(tmp_path / "x.en.conllu"), *more, parser="conllu")
    run(text, "--parse-file", "-", "--output-prefix", f"{tmp_path}/y", "--merge", parser="conllu")
    assert (tmp_path / "y.conllu").read_bytes() == whole


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--batch-size", "0"], "--batch-size: expected at least 1"),
        (["--max-characters", "0"], "--max-characters: expected at least 1, found 0"),
        (["--max-tokens", "-1"], "--max-tokens: expected at least 1, found -1"),
        (["--shard-id", "1"], "--shard-id: expected 0 to 0"),
        (["--num-shards", "2"], "--num-shards and --shard-id together"),
        (["--num-shards", "2", "--shard-id", "2"], "--shard-id: expected 0 to 1"),
        (["--num-shards", "2", "--shard-id", "1", "--merge"], "--merge or --shard-id"),
        (["--merge"], "expected the parsed batches of .*, found none"),
        (["--input", "/nothing"], "/nothing: expected a text, found no file"),
        (["--input", "/"], "/: expected a text, found a folder"),
        (["--input", ""], "--input: expected a text, found no file"),
        (["--output-prefix", "\udcff"], r"expected a name in UTF-8, found '\\udcff'"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, arguments, expected):
    text = write(tmp_path / "x", "a\n")
    with pytest.raises(SystemExit, match=expected):
        run(text, *arguments)


def test_slurm_recipe(tmp_path):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    expected = outputs(tmp_path)
    script = TESTS.parent / "examples/parse_at_scale/slurm_parse.sh"
    options = ["--input", text, "--parser", "fake", "--batch-size", "3"]
    for shard in ("1", "0", "1"):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": shard}
        subprocess.run(["bash", script, "2", *options], check=True, env=environment)
    subprocess.run(["bash", script, "merge", *options], check=True)
    assert outputs(tmp_path) == expected


def test_ray_recipe(tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    expected = outputs(tmp_path)
    script = TESTS.parent / "examples/parse_at_scale/ray_parse.py"
    command = [
        sys.executable,
        script,
        "--num-shards",
        "3",
        "--",
        "--input",
        text,
        "--parser",
        "fake",
        "--batch-size",
        "3",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "3 shards are parsed" in done.stdout
    assert outputs(tmp_path) == expected


def test_names_and_help(capsys):
    assert parser_names() == ["conllu", "control", "fake", "spacy", "stanza", "trees", "udpipe"]
    with pytest.raises(SystemExit):
        parse.main(["--parser", "fake", "--help"])
    assert "--seconds" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        parse.main(["--help"])
    assert "--stanza-dir" in capsys.readouterr().out


def test_control_parser(tmp_path, capsys):
    text = write(tmp_path / "x.en", "( a b_c # d\n\n_\u00a0x\n1 2 3 4\n")
    run(text, "--control", "left-branching", parser="control")
    dependencies, trees = units(text)
    assert [d if isinstance(d, NoParse) else d.heads for d in dependencies][2:] == [[2, 0], [2, 3, 4, 0]]
    assert dependencies[0].tokens == ["(", "a", "b_c", "#", "d"]
    assert dependencies[0].heads == [2, 3, 4, 5, 0]
    assert bracketed(trees[3][0]) == "(X (X (X 1 2) 3) 4)"
    record = json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["trees"]
    assert record["parser"] == {"name": "control", "control": "left-branching"}
    assert record["counts"]["parsed"] == 3
    # Another control is another parser: nothing is kept.
    run(text, "--control", "flat", "--resume", parser="control")
    assert units(text)[0][3].heads == [0, 1, 1, 1]
    with pytest.raises(SystemExit, match=r"--parser control: expected --control right-branching, .*, found shuffled"):
        run(text, "--control", "shuffled", parser="control")
    with pytest.raises(SystemExit):
        run(text, parser="control")
    assert "required: --control" in capsys.readouterr().err


def test_script_in_a_checkout(tmp_path):
    script = TESTS.parent / "preprocess/parse.py"
    text = write(tmp_path / "x.de", "Im Haus ja.\nx\n")
    file = write(tmp_path / "p", CONLLU)
    command = [sys.executable, script, "--input", text, "--parser", "conllu", "--parse-file", file]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 lines: 2 parsed" in done.stdout
    failed = subprocess.run([*command, "--input", "nothing"], capture_output=True, text=True, cwd=tmp_path)
    assert failed.returncode == 1
    assert "fairseq-syntax-parse: error" in failed.stderr


NO_NETWORK = """
import os, socket, sys
def refuse(*args, **kwargs):
    os.write(2, b"the network was touched")
    os._exit(99)
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
before = dict(os.environ)
from syntax_data.commands import parse
try:
    parse.main()
finally:
    from huggingface_hub import constants
    assert not constants.HF_HUB_OFFLINE and os.environ == before
"""


def test_without_download_stanza_never_touches_the_network(tmp_path):
    """Not where there are no models, nor where the environment asks the hub of models to be online."""
    pytest.importorskip("stanza")
    text = write(tmp_path / "x.en", "a\n")
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-c", NO_NETWORK, "--input", text, "--lang", "en", "--stanza-dir", tmp_path / "none"]
    done = subprocess.run([*command, "--device", "cpu"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1, done.stderr
    assert "fairseq-syntax-parse --download fetches models" in done.stderr.splitlines()[-1]
