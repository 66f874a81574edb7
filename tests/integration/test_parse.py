"""fairseq-syntax-parse, with a parser from an entry point and with files that another parser made."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import Process, get_context
from pathlib import Path
from typing import Any

import pytest

from bracketed import bracketed
from fake_parser import FakeParser
from places import TESTS
from syntax_data.commands import parse
from syntax_data.errors import InputError
from syntax_data.parsers import Line, Parse
from syntax_data.parsers.record import check_unchanged
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import NoParse, Tree
from time_limit import small_files

pytestmark = pytest.mark.usefixtures("fake_parser")

TEXT = "".join(f"a{i} b ( c{i} )\n" for i in range(10))


def run(text: Path, *more: object, parser: str = "fake", size: int = 3) -> None:
    parse.main(["--input", str(text), "--parser", parser, "--batch-size", str(size), *map(str, more)])


def refused(message: str, text: Path, *more: object, **options: Any) -> None:
    """The command ends with a short message, and no file is changed but for batches."""
    before = snapshot(text.parent)
    with pytest.raises(SystemExit, match=message) as error:
        run(text, *more, **options)
    assert len(str(error.value)) < 1500
    assert outputs(snapshot(text.parent)) == outputs(before)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(prefix: Path, kind: str = "conllu") -> list[Any]:
    """The parses that were written."""
    return [parse for _, parse in FORMATS[kind].read(FORMATS[kind].path(str(prefix)))]


def tokens(prefix: Path) -> list[Any]:
    """The tokens of each dependency tree, or why there is none."""
    return [getattr(entry, "tokens", entry) for entry in read(prefix)]


def record(prefix: Path, kind: str = "trees") -> dict[str, Any]:
    return json.loads(Path(f"{prefix}.parse.json").read_text())["parses"][kind]


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def outputs(files: dict[str, bytes]) -> dict[str, bytes]:
    """Files that are neither batches nor locks."""
    return {path: content for path, content in files.items() if ".parts/" not in path}


@pytest.fixture
def one_run(tmp_path) -> dict[str, bytes]:
    """Files that one undisturbed process makes of TEXT in a folder of its own."""
    run(write(tmp_path / "one/x", TEXT))
    return snapshot(tmp_path / "one")


@pytest.fixture
def no_work(monkeypatch) -> None:
    """The fake parser must not be loaded."""
    monkeypatch.setattr(FakeParser, "from_arguments", lambda args: pytest.fail("the parser was loaded"))


@pytest.fixture
def seen(monkeypatch) -> list[str]:
    """The lines that the fake parser has been given."""
    lines: list[str] = []
    hook(monkeypatch, lambda line, parse: lines.append(line.text) or parse)
    return lines


def hook(monkeypatch: pytest.MonkeyPatch, function: Callable[[Line, Parse], Any]) -> None:
    """The fake parser returns what `function` makes of each line and its parse."""
    monkeypatch.setattr(FakeParser, "hook", staticmethod(function))


# Lines, and why they have no parse


def test_one_entry_for_each_line_and_reasons_where_there_is_no_parse(tmp_path, capsys):
    text = write(tmp_path / "x.en", "a b\n\na FAIL\n \t\nc d e f\ng")
    run(text, "--max-tokens", "3", size=4)
    expected = [["a", "b"], NoParse("empty"), NoParse("failed"), NoParse("empty"), NoParse("too_long"), ["g"]]
    assert tokens(text) == expected
    assert [e if isinstance(e, NoParse) else e[0].leaves() for e in read(text, "trees")] == expected
    captured = capsys.readouterr()
    assert "6 lines: 2 parsed (33.33%), without a parse: 2 empty, 1 failed, 1 too_long; 3 tokens" in captured.out
    assert f"{text}:3: the parser failed: RuntimeError('told to fail')" in captured.err
    assert re.search(r"x\.en:  67%.* 4/6 \[\d\d:\d\d<\d\d:\d\d, .* lines/s\]", captured.err)  # after the first batch
    found = record(text, "conllu")
    assert found["parser"] == {"name": "fake", "version": "1"}
    assert found["settings"] == {"max_tokens": 3, "max_characters": 10_000, "batch_size": 4}
    assert (found["text"]["path"], found["text"]["lines"]) == ("x.en", 6)
    assert found["counts"]["no_parse.empty"] == 2
    assert sorted(os.listdir(tmp_path)) == ["x.en", "x.en.conllu", "x.en.parse.json", "x.en.trees"]


def test_a_parser_that_always_fails_is_not_taken_for_a_text_that_cannot_be_parsed(tmp_path):
    text = write(tmp_path / "x.en", "\n" + "FAIL\n\n" * 10 + "\n" * 9 + "a\n")
    for size in (1, 9):  # independent of the size of batches
        message = r"x\.en: the parser failed on 10 lines up to line 2[07] and parsed none"
        refused(message, text, "--output-prefix", f"{text}.{size}", size=size)
        (shard,) = (tmp_path / f"x.en.{size}.parts").glob("*.jsonl")
        assert b"failed" not in shard.read_bytes()  # no line counts as one that cannot be parsed
    run(write(text, "FAIL\n\n" * 9), size=1)
    assert (tmp_path / "x.en.trees").read_text() == "(()) failed\n(()) empty\n" * 9
    run(write(text, "a\n" + "FAIL\n" * 20), "--overwrite", size=1)
    assert (tmp_path / "x.en.trees").read_text().count("failed") == 20


@pytest.mark.parametrize(
    ("options", "parsed"),
    [
        ([], [0, 4]),
        (["--max-tokens", "6000"], [0, 2, 3, 4]),  # characters in proportion
        (["--max-tokens", "6000", "--max-characters", "2000"], [0, 3]),
        (["--max-characters", "60001"], [0, 1, 2, 4]),
    ],
)
def test_the_parser_never_sees_a_line_that_is_too_long(tmp_path, seen, options, parsed):
    lines = ["a", "x" * 60_001, "x" * 60_000, "x " * 251, "x" * 1999 + " a"]
    run(write(tmp_path / "x.en", "".join(f"{line}\n" for line in lines)), *options)
    assert seen == [lines[i] for i in parsed]
    found = [i for i, entry in enumerate(read(tmp_path / "x.en", "trees")) if entry != NoParse("too_long")]
    assert found == parsed


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The fake parser raises `error` for a line BAD."""

    def bad(line: Line, parse: Parse) -> Parse:
        if line.text == "BAD":
            raise error
        return parse

    hook(monkeypatch, bad)


@pytest.mark.parametrize("error", [MemoryError("x" * 10**6), StopIteration()])
def test_an_exception_of_a_parser_costs_the_parse_of_one_line(tmp_path, monkeypatch, error, capsys):
    raising(monkeypatch, error)
    text = write(tmp_path / "x.en", "a\nb\nBAD\nc\nd\nBAD\ne\n")
    run(text, size=7)
    assert tokens(text) == [["a"], ["b"], NoParse("failed"), ["c"], ["d"], NoParse("failed"), ["e"]]
    message, _ = (line for line in capsys.readouterr().err.splitlines() if re.search("x.en:[36]: the parser fai", line))
    assert type(error).__name__ in message
    assert len(message) < 2000


@pytest.mark.parametrize(
    ("error", "code"),
    [(SystemExit(0), "error: the parser ended the program: SystemExit"), (KeyboardInterrupt(), "130")],
)
def test_a_parser_that_ends_the_program_does_not_end_it_well(tmp_path, monkeypatch, error, code, seen):
    text = write(tmp_path / "x.en", "a\nb\nBAD\nc\nd\n")
    with monkeypatch.context() as patch:
        raising(patch, error)
        with pytest.raises(SystemExit) as ended:
            run(text, size=1)
    assert code in str(ended.value.code)
    assert not (tmp_path / "x.en.conllu").exists()
    seen.clear()
    run(text, size=1)
    assert seen == ["BAD", "c", "d"]
    assert tokens(text) == [["a"], ["b"], ["BAD"], ["c"], ["d"]]


@pytest.mark.parametrize(("line", "reason"), [("", "empty"), ("x FAIL", "failed"), ("x " * 300, "too_long")])
def test_strict_makes_a_line_without_a_parse_an_error(tmp_path, line, reason):
    text = write(tmp_path / "x.en", f"a\nb\n{line}\nc\n")
    refused(rf"x\.en:3: .*--strict.*{reason}", text, "--strict")
    run(text, "--num-shards", "1", "--shard-id", "0")
    refused(rf"x\.en:3: .*--strict.*{reason}", text, "--strict")  # also of batches of an earlier run
    run(text)
    refused(rf"x\.en\.conllu: expected a parse of every line \(--strict\), .*: 1 {reason}", text, "--strict")


BROKEN_PARSES: dict[str, Callable[[Any], object]] = {
    "none": lambda parse: None,
    "a reason on two lines": lambda parse: NoParse("timeout\n(60 s)"),
    "other tokens": lambda parse: parse.dependencies.tokens.__setitem__(0, "zzz"),
    "a cycle": lambda parse: parse.dependencies.heads.__setitem__(slice(2), [2, 1]),
    "a word too few": lambda parse: parse.trees[0].children.pop(),
    "a word twice": lambda parse: parse.trees[0].children[0].children.append(""),
    "no words": lambda parse: parse.trees[0].children.append(Tree("X", [])),
    "no string": lambda parse: parse.trees[0].children.append(3),
    "trees are none": lambda parse: setattr(parse, "trees", NoParse("x")),
    "a tab": lambda parse: parse.dependencies.columns[0].__setitem__(7, "a\tb"),
    "a carriage return": lambda parse: parse.dependencies.columns[0].__setitem__(7, "a\rb"),
    "a surrogate": lambda parse: setattr(parse.trees[0], "label", "\ud800"),
    "few columns": lambda parse: setattr(parse.dependencies, "columns", [["_"]] * 2),
    "heads of strings": lambda parse: setattr(parse.dependencies, "heads", ["a", "b"]),
    "multiword": lambda parse: setattr(parse, "multiword", "x"),
}


@pytest.mark.parametrize("damage", BROKEN_PARSES)
def test_parses_are_checked_so_that_what_is_written_can_be_read(tmp_path, damage, monkeypatch, capsys):
    def broken(line: Line, parse: Parse) -> Any:
        changed = BROKEN_PARSES[damage](parse) if line.number == 2 else parse
        return changed if damage in ("none", "a reason on two lines") else parse

    hook(monkeypatch, broken)
    text = write(tmp_path / "x.en", "a b\nc d\ne\n")
    run(text)
    assert tokens(text) == [["a", "b"], NoParse("failed"), ["e"]]
    assert [type(entry) for entry in read(text, "trees")] == [list, NoParse, list]
    assert "x.en:2: the parser failed: " in capsys.readouterr().err


# Processes, shards, kills


@pytest.mark.parametrize("how", ["2 workers", "5 workers", "3 shards", "7 shards"])
def test_shards_and_workers_make_what_one_process_makes(tmp_path, how, capfd):
    text = TEXT + "FAIL\n\n" + TEXT
    run(write(tmp_path / "one/x", text))
    many = write(tmp_path / "many/x", text)
    count, kind = how.split()
    if kind == "workers":
        run(many, "--workers", count)
    for i in reversed(range(int(count))) if kind == "shards" else ():
        run(many, "--num-shards", count, "--shard-id", i)
    if kind == "shards":
        run(many, "--merge")
    assert snapshot(tmp_path / "many") == snapshot(tmp_path / "one")
    assert not (tmp_path / "many/x.parts").exists()
    assert f"{many}:11: the parser failed: RuntimeError(" in capfd.readouterr().err


def test_what_several_processes_have_done_stays_when_one_is_killed(tmp_path, monkeypatch, one_run, capsys):
    def die(line: Line, parse: Parse) -> Parse:
        if line.number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return parse

    text = write(tmp_path / "x", TEXT)
    with monkeypatch.context() as patch:
        hook(patch, die)
        refused(r"a worker process died \(by SIGKILL\)", text, "--workers", "2")
    capsys.readouterr()
    run(text, "--workers", "3")
    assert re.search(" [36]/10 ", capsys.readouterr().err)  # where the progress bar begins
    assert outputs(snapshot(tmp_path)).items() >= one_run.items()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "torn header": lambda content: content[:50],
    "torn": lambda content: content[:-7],
    "not ended": lambda content: content[:-1],
    "a byte changed": lambda content: content.replace(b"a1", b"a2", 1),
    "a batch left out": lambda content: b"".join(content.splitlines(True)[::2]),
    "another order": lambda content: b"".join(content.splitlines(True)[::-1]),
    "a batch twice": lambda content: content + content.splitlines(True)[-1],
    "not UTF-8": lambda content: content + b"\xff" * 10**6,
    "no header": lambda content: b"[" * 10**5,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_batches_that_are_torn_or_damaged_are_parsed_again(tmp_path, damage, one_run, capsys):
    text = write(tmp_path / "x", TEXT)
    for i in "01":
        run(text, "--num-shards", "2", "--shard-id", i)
    shard = tmp_path / "x.parts/0-of-2.jsonl"
    write(shard, DAMAGES[damage](shard.read_bytes()))
    if damage not in ("a batch twice", "not UTF-8"):
        refused(r"x\.parts: expected all batches, found that some are missing of shard 0 of 2", text, "--merge")
    capsys.readouterr()
    run(text, "--num-shards", "2", "--shard-id", "0")
    said = re.search(r"x\.parts/0-of-2\.jsonl: a line from byte \d+ on is torn or damaged", capsys.readouterr().err)
    assert bool(said) == (damage != "empty")
    run(text, "--merge")
    assert outputs(snapshot(tmp_path)).items() >= one_run.items()


def test_a_full_disk_is_named_and_loses_nothing(tmp_path):
    run(write(tmp_path / "one/x", TEXT * 10))
    text = write(tmp_path / "x", TEXT * 10)

    for size in (5_000, 9_000, 14_000):
        with small_files(size):
            refused(r"error: .*x\.parts/0-of-1\.jsonl: File too large$", text)
    run(text)
    assert outputs(snapshot(tmp_path)).items() >= snapshot(tmp_path / "one").items()


@pytest.fixture
def at_work() -> Iterator[Callable[..., Process]]:
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
    def wait(line: Line, parse: Parse) -> Parse:
        (text.parent / f"begun.{os.getpid()}").touch()
        while not (text.parent / "go").exists():
            time.sleep(0.01)
        return parse

    FakeParser.hook = staticmethod(wait)
    run(text, *more)


ALL, ZERO, ONE = [], *(["--num-shards", "2", "--shard-id", i] for i in "01")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (ALL, ALL, r"x\.parts/0-of-1\.lock: expected to be the only process that does this, found this lock held"),
        (ALL, ZERO, r"x\.parts/0-of-1\.jsonl: expected batches of this run, .* it is of 1 shards, now there are 2"),
        (ZERO, ZERO, r"x\.parts/0-of-2\.lock: expected to be the only process that does this"),
        (ZERO, ["--merge"], r"x\.parts: expected all batches, found that some are missing of shard 0, 1 of 2"),
    ],
    ids=["all twice", "all, shard", "shard twice", "shard, merge"],
)
def test_two_processes_do_not_do_the_same(tmp_path, at_work, first, second, message, one_run):
    text = write(tmp_path / "two/x", TEXT)
    other = at_work(text, *first)
    for _ in range(2):
        refused(message, text, *second)
    if first == ZERO:  # shards work beside each other
        run(text, *ONE)
    other.kill()  # leaves no trace of itself
    other.join()
    (tmp_path / "two/go").touch()
    run(text, *first)
    if first == ZERO:
        run(text, "--merge")
    assert snapshot(tmp_path / "two").items() >= one_run.items()
    assert not (tmp_path / "two/x.parts").exists()


OTHER_WORK = {
    "text": "the text was another one",
    "options": "settings had max_tokens 250, now max_tokens 7",
    "version": "parser had version '1', now version '2'",
}


def other_work(change: str, text: Path, monkeypatch) -> list[str]:
    """Change the text, the parser or an option, which is returned."""
    if change == "text":
        write(text, TEXT.replace("a3", "a4"))
    elif change == "version":
        monkeypatch.setenv("FAKE_VERSION", "2")
    return ["--max-tokens", "7"] if change == "options" else []


@pytest.mark.parametrize("change", OTHER_WORK)
def test_batches_of_other_work_are_refused(tmp_path, change, monkeypatch):
    text = write(tmp_path / "x.en", TEXT)
    run(text, *ZERO)
    more = other_work(change, text, monkeypatch)
    before = snapshot(tmp_path)
    message = rf"0-of-2\.jsonl: expected batches of this run, found others: {OTHER_WORK[change]}; .*or delete .*\.parts"
    for shard in (ZERO, ONE):
        refused(message, text, *shard, *more, "--overwrite")
    if change != "version":
        refused(message, text, "--merge", *more)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("change", [*OTHER_WORK, "by hand", "unknown"])
def test_outputs_of_other_work_are_replaced_only_if_the_user_says_so(tmp_path, change, monkeypatch, seen):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    seen.clear()
    for more in ([], ["--overwrite"], ["--merge"]):  # it is done
        run(text, *more)
    assert seen == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    more = other_work(change, text, monkeypatch)
    why = OTHER_WORK.get(change, "it was changed since it was made")
    if change == "by hand":
        write(tmp_path / "x.en.trees", "(S by hand)\n")
    elif change == "unknown":
        (tmp_path / "x.en.parse.json").unlink()
        why = r".*x\.en\.parse\.json does not say what made it"
    message = rf"x\.en\.(conllu|trees): expected no file of other parses, found one: {why}; --overwrite replaces it"
    refused(message, text, *more)
    assert seen == []
    run(text, *more, "--overwrite")
    assert len(seen) == 10
    run(text, *more)
    assert len(seen) == 10


def test_a_record_vouches_for_its_files_and_text(tmp_path, capsys):
    text = write(tmp_path / "x.en", TEXT)
    run(text)
    for path in (tmp_path / "x.en.trees", text):
        content = path.read_bytes()
        write(path, content.replace(b"a1", b"a2"))
        with pytest.raises(InputError, match=rf"{path.name}: expected the file that .*parse\.json records"):
            check_unchanged(str(text), ["trees"])
        write(path, content)
    assert check_unchanged(str(text), ["trees"])["trees"].parser["name"] == "fake"
    text.unlink()
    assert check_unchanged(str(text), ["trees", "conllu"]).keys() == {"trees", "conllu"}
    assert "x.en, does not exist; whether it changed was not checked" in capsys.readouterr().out


def record_with(**changes: object) -> str:
    text = {"path": "x.en", "lines": 1, "sha256": "0"}
    content = {"parser": {}, "settings": {}, "text": text, "sha256": "0", "counts": {}, **changes}
    return json.dumps({"format_version": 1, "parses": {"conllu": content}})


@pytest.mark.parametrize(
    "content",
    [
        "", "[1]", b"\xff" * 10**6, "[" * 10**5,
        *(json.dumps({"format_version": v, "parses": {}}) for v in (True, 2, "x" * 10**6)),
        '{"format_version": 1, "parses": {"conllu": null}}',
        *(record_with(**{key: None}) for key in ("parser", "text", "other")),
        record_with(text={"path": "x.en", "lines": "1", "sha256": "0"}),
        record_with(counts={"parsed": "1"}),
    ],
)  # fmt: skip
def test_records_that_cannot_be_read_are_refused_before_any_work(tmp_path, no_work, content):
    text = write(tmp_path / "x.en", "a\n")
    write(tmp_path / "x.en.parse.json", content)
    for more in ([], ["--merge"]):
        refused(r"error: .*/x\.en\.parse\.json: expected .*, found", text, *more)


# Places


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize("output", ["x.conllu", "x.parse.json", "x.parts/0-of-1.jsonl"])
def test_no_input_is_ever_overwritten(tmp_path, no_work, output, link):
    """Neither the text nor a file of parses, also not by a link."""
    text = write(tmp_path / "x", "a\n")
    write(tmp_path / output, "(S   a)\n")
    file = tmp_path / output
    if link:
        file = tmp_path / "file"
        os.rename(tmp_path / output, file)
        link(file, tmp_path / output)
    message = rf"{re.escape(output)}: expected another file to write to than those that are read"
    refused(message, text, "--parse-file", file, parser="trees")
    refused(message, text, "--input", file, "--output-prefix", text, "--overwrite")


def test_outputs_that_cannot_be_written_are_refused_before_any_work(tmp_path, no_work):
    text = write(tmp_path / "x", "a\n")
    for output in ("trees", "parse.json"):
        (tmp_path / f"x.{output}").mkdir()
        refused(rf"x\.{output}: expected a file to write, found a folder", text)
        (tmp_path / f"x.{output}").rmdir()


def test_nothing_but_its_own_batches_is_deleted(tmp_path):
    text = write(tmp_path / "x", "a\n")
    write(tmp_path / "x.parts/notes", "mine")
    write(tmp_path / "x.parts/a-of-b.jsonl", "mine")
    run(text)
    assert sorted(os.listdir(tmp_path / "x.parts")) == ["a-of-b.jsonl", "notes"]


def test_an_output_prefix_elsewhere(tmp_path):
    text = write(tmp_path / "x.tc.en", TEXT)
    (tmp_path / "out").mkdir()
    run(text, "--output-prefix", f"{tmp_path}/out/y.en")
    assert sorted(os.listdir(tmp_path / "out")) == ["y.en.conllu", "y.en.parse.json", "y.en.trees"]
    assert record(tmp_path / "out/y.en")["text"]["path"] == "../x.tc.en"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\rc\n", r"x:2: expected no carriage return inside the line, found one in column 2"),
        (b"a\n\xff\n", r"x:2: expected UTF-8, found .*0xff.* \(iconv converts other encodings\)"),
        (b"\x1f\x8b\x08a\n", r"x: expected UTF-8, found a gzip file: unpack it first"),
        (b"\xef\xbb\xbfa\n", r"x:1: expected UTF-8 without a byte order mark"),
    ],
)
def test_text_that_cannot_be_used_is_refused_before_any_work(tmp_path, content, expected, no_work):
    refused(expected, write(tmp_path / "x", content))
    assert os.listdir(tmp_path) == ["x"]


def test_odd_characters_keep_their_lines(tmp_path):
    lines = [
        "a\x0bb\u2028c\x85d\u00a0e",  # white space to fairseq, not the end of a line
        "tab\tin between", "zero\u200bwidth \u200d \u00ad e\u0301\u0323", "( ) [ ] { } :-) a(b)c", "", "crlf\r",
        "no newline at the end",
    ]  # fmt: skip
    text = write(tmp_path / "x.en", "")
    run(text)
    assert read(text) == read(text, "trees") == []
    write(text, "\n".join(lines))
    run(text, "--overwrite")
    expected = [line.split() or NoParse("empty") for line in lines]
    assert tokens(text) == expected
    assert [e if isinstance(e, NoParse) else e[0].leaves() for e in read(text, "trees")] == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--batch-size", "0"], "--batch-size: expected at least 1"),
        (["--max-tokens", "-1"], "--max-tokens: expected at least 1, found -1"),
        (["--shard-id", "1"], "--shard-id: expected 0 to 0"),
        (["--num-shards", "2"], "--num-shards and --shard-id together"),
        (["--num-shards", "2", "--shard-id", "1", "--merge"], "--merge or --shard-id"),
        (["--merge"], "expected the parsed batches of .*, found none"),
        (["--workers", "0"], "--workers: expected 1 to"),
        (["--workers", "2", "--parser", "trees"], "--workers: expected 1 with --parser trees"),
        ([*ZERO, "--parser", "trees"], "--num-shards: expected 1 with --parser trees"),
        (["--input", "/nothing"], "/nothing: expected a text, found no file"),
        (["--input", "/"], "/: expected a text, found a folder"),
        (["--output-prefix", "\udcff"], r"expected a name in UTF-8, found '\\udcff'"),
        (["--output-prefix", "/"], r"--output-prefix: expected a file's name at the end, found '/'"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, arguments, expected):
    own = "--parse-file=p" if "trees" in arguments else "--seconds=0"
    refused(expected, write(tmp_path / "x", "a\n"), own, *arguments)


@pytest.mark.parametrize("recipe", ["slurm", "ray"])
def test_recipes_for_many_machines(tmp_path, one_run, recipe):
    options = ["--input", write(tmp_path / "many/x", TEXT), "--parser", "fake", "--batch-size", "3"]
    examples = TESTS.parent / "examples/parse_at_scale"
    if recipe == "slurm":
        for shard in "101":
            environment = {**os.environ, "SLURM_ARRAY_TASK_ID": shard}
            subprocess.run(["bash", examples / "slurm_parse.sh", "2", *options], check=True, env=environment)
        subprocess.run(["bash", examples / "slurm_parse.sh", "merge", *options], check=True)
    else:
        pytest.importorskip("ray", reason="the extra ray is not installed")
        subprocess.run([sys.executable, examples / "ray_parse.py", "--num-shards", "3", "--", *options], check=True)
    assert snapshot(tmp_path / "many") == one_run


def test_control_parser(tmp_path):
    text = write(tmp_path / "x.en", "( a b_c # d\n\n_\u00a0x\n1 2 3 4\n")
    run(text, "--control", "left-branching", parser="control")
    dependencies = read(text)
    assert [d if isinstance(d, NoParse) else d.heads for d in dependencies][2:] == [[2, 0], [2, 3, 4, 0]]
    assert dependencies[0].tokens == ["(", "a", "b_c", "#", "d"]
    assert dependencies[0].heads == [2, 3, 4, 5, 0]
    assert bracketed(read(text, "trees")[3][0]) == "(X (X (X 1 2) 3) 4)"
    assert record(text)["parser"] == {"name": "control", "control": "left-branching"}
    assert record(text)["counts"]["parsed"] == 3


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
