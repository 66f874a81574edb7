"""--on-bad-parse: one bad parse of many is an error that says what to do, or costs its line's parse alone."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from binarizing import rows, run, write
from syntax_data.commands import parse
from syntax_data.data_bin import encoding
from syntax_data.trees.formats import FORMATS


def row(number: int, form: str, head: object) -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


def entry(size: int) -> str:
    """A CoNLL-U entry in which each word depends on the one before."""
    return "".join(row(i + 1, f"w{i}", i) for i in range(size)) + "\n"


def tree(size: int) -> str:
    return "(S w0" + "".join(f" (X w{i}" for i in range(1, size)) + ")" * size


def columns(change):
    """Breaks a CoNLL-U entry in its second row."""

    def broken(entry: str) -> str:
        first, second, *rest = entry.splitlines(keepends=True)
        return "".join([first, "\t".join(change(second.split("\t"))), *rest])

    return broken


MAKE = {"trees": tree, "conllu": entry}
KINDS = tuple(MAKE)
#: What makes a parse bad so that its words can be read.
WITH_WORDS = [
    ("conllu", columns(lambda row: [*row[:6], "0", *row[7:]])),  # a second root
    ("conllu", columns(lambda row: [*row[:6], row[0], *row[7:]])),  # a cycle
    ("conllu", columns(lambda row: [*row[:6], "99", *row[7:]])),
    ("conllu", columns(lambda row: [*row[:6], "x", *row[7:]])),
    ("conllu", columns(lambda row: [*row[:4], "\n"])),
    ("conllu", columns(lambda row: ["77", *row[1:]])),
    ("trees", lambda tree: tree.replace(")", "", 1)),
    ("trees", lambda tree: tree.replace(")", "))", 1)),
    ("trees", lambda tree: tree.replace(" w", " (Y ) w", 1)),  # a constituent without words
    ("trees", lambda tree: tree.replace("(", "((", 1)),
]
#: What makes it bad so that they cannot, or differ from the line's.
WITHOUT_WORDS = [
    ("conllu", columns(lambda row: [row[0], "other", *row[2:]])),
    ("conllu", columns(lambda row: [row[0], "", *row[2:]])),
    ("conllu", columns(lambda row: [" ".join(row)])),
    ("conllu", lambda entry: "# sentences = x\n" + entry),
    ("conllu", lambda entry: "1\tw0" + "\t_" * 4 + "\t0" + "\t_" * 3 + "\n\n"),  # a part
    ("trees", lambda tree: tree.replace("w0", "other")),
    ("trees", lambda tree: "(X other)"),
    ("trees", lambda tree: "(X w0)"),
    ("trees", lambda tree: "(X (Y )"),
    ("trees", lambda tree: tree + " x"),
]


class Corpus:
    """Four lines and their parses; each line has sentences of two to four words, or none.

    Where they are parsed, trees are written over several lines.
    """

    def __init__(self, route: str, sentences: int):
        self.route, self.between = route, {"binarize": " ", "parse": "\n  "}[route]
        self.sizes = [sizes[:sentences] for sizes in ([3, 2], [], [4, 3], [2, 4])]

    def write(self, folder: Path, bad: tuple[int, str, Callable[[str], str]] | None, *options: str) -> Path:
        folder.mkdir()
        text = "".join(" ".join(f"w{i}" for size in sizes for i in range(size)) + "\n" for sizes in self.sizes)
        made = {kind: [[*map(make, sizes)] for sizes in self.sizes] for kind, make in MAKE.items()}
        made["trees"] = [[one.replace(" (", self.between + "(") for one in line] for line in made["trees"]]
        if bad:
            number, kind, spoil = bad
            made[kind][number][0] = spoil(made[kind][number][0])
        files = {"trees": "".join(("\n" if self.route == "parse" else " ").join(one) + "\n" for one in made["trees"])}
        files["conllu"] = "".join("".join(line) or "#\n\n" for line in made["conllu"])
        write(folder, text=text, **files)
        for kind in KINDS if self.route == "parse" else ():
            given = (folder / f"train.en.{kind}").rename(folder / f"given.{kind}")
            parse.main([f"--input={folder}/train.en", f"--parser={kind}", f"--parse-file={given}", *options])
        run(folder, *options)
        return folder


def counted(folder: Path) -> dict[str, dict[str, int]]:
    return json.loads((folder / "bin/syntax.en-de.en.json").read_text())["splits"]["train"]["counts"]["no_parse"]


def features(folder: Path) -> list[dict[str, list[int]]]:
    found = {name: rows(folder, name) for name in ("word", "distance", "head", "position")}
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


@pytest.mark.parametrize(
    ("route", "sentences", "bad"),
    [("binarize", 1, WITH_WORDS + WITHOUT_WORDS), ("parse", 1, WITHOUT_WORDS), ("parse", 2, WITH_WORDS)],
)
def test_a_bad_parse_costs_its_line_alone(tmp_path, route, sentences, bad, capfd):
    corpus = Corpus(route, sentences)
    whole = corpus.write(tmp_path / "whole", None)
    expected = features(whole)
    for i, (kind, spoil) in enumerate(bad):
        capfd.readouterr()
        broken = corpus.write(tmp_path / f"broken{i}", (2, kind, spoil), "--on-bad-parse=skip")
        found = features(broken)
        assert not found[2]["distance" if kind == "trees" else "head"]
        assert found[:2] + found[3:] == expected[:2] + expected[3:]
        added = {k: sum(n.values()) - sum(counted(whole)[k].values()) for k, n in counted(broken).items()}
        assert added == {k: int(k == kind) for k in KINDS}
        assert capfd.readouterr().err.count("skipped (") == 1
        with pytest.raises(SystemExit, match="--on-bad-parse skip"):
            corpus.write(tmp_path / f"refused{i}", (2, kind, spoil))
        assert not list((tmp_path / f"refused{i}").glob("bin/*.json"))


GOOD = row(1, "a", 2) + row(2, "b", 0) + "\n"
BAD = {
    "several_roots": GOOD.replace("\t2\t", "\t0\t"),
    "cycle": GOOD.replace("\t0\t", "\t1\t"),
    "head_out_of_range": GOOD.replace("\t2\t", "\t3\t"),
    "no_head": GOOD.replace("\t2\t", "\tx\t"),
    "columns": GOOD.replace("\t2\t", " 2 "),
    "no_form": "1-2" + 9 * "\t" + "\n" + GOOD,
    "word_numbers": GOOD.replace("2\tb", "3\tb"),
    "sentences": "# sentences = 2\n" + GOOD,
    "comment": "# sentences = two\n" + GOOD,
    "mismatch": GOOD.replace("b", "c"),
}
BAD_TREES = {
    "unbalanced": "(S (X a) (X b)",
    "empty_tree": "(S (X a) (X b) (X))",
    "outside_brackets": "(S (X a)) b",
    "mismatch": "(S (X a))",
}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_bad_parses_are_counted_by_reason_and_the_first_of_each_is_shown(tmp_path, workers, capfd, monkeypatch):
    monkeypatch.setattr(encoding, "LINES_AT_ONCE", 3)
    entries, trees = [GOOD, *BAD.values()] * 2, ["(S a b)", *BAD_TREES.values()] * 2
    trees += ["(())"] * (len(entries) - len(trees))
    write(tmp_path, text="a b\n" * len(entries), trees="".join(f"{tree}\n" for tree in trees), conllu="".join(entries))
    run(tmp_path, "--on-bad-parse=skip", f"--workers={workers}")
    printed = capfd.readouterr()
    found = counted(tmp_path)
    assert found["conllu"] == dict.fromkeys(BAD, 2)
    assert found["trees"] == {**dict.fromkeys(BAD_TREES, 2), "not_stated": 12}
    assert "conllu: 2 parsed (9.09%), without a parse: 2 columns, 2 comment, 2 cycle, " in printed.out
    shown = re.findall(r"skipped \((\w+)\): \S*/train\.en\.(\w+):(\d+): ", printed.err)
    named = {"conllu": BAD, "trees": BAD_TREES}
    assert sorted(one[:2] for one in shown) == sorted((reason, kind) for kind in named for reason in named[kind])
    starts = itertools.accumulate((GOOD, *BAD.values()), lambda line, entry: line + entry.count("\n"), initial=1)
    lines = dict(zip(BAD, list(starts)[1:], strict=False))
    assert all(lines[reason] <= int(line) <= lines[reason] + 2 for reason, kind, line in shown if kind == "conllu")
    assert [int(line) for _, kind, line in shown if kind == "trees"] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("trees", b"(S a b)\n(S a\n(S a b)\n", r"trees:3: expected 2 parses, one for each line of .*, found more"),
        ("trees", b"(S a b)\n(S \xff b)\n", r"trees:2: expected UTF-8"),
        (
            "conllu",
            f"# global.columns = ID FORM\n{GOOD}{GOOD}".encode(),
            "conllu:1: expected CoNLL-U, found CoNLL-U Plus",
        ),
    ],
)
def test_an_error_of_the_whole_file_is_no_bad_parse(tmp_path, kind, content, expected):
    write(tmp_path, text="a b\na b\n", **{"trees": None, "conllu": None, kind: ""})
    (tmp_path / f"train.en.{kind}").write_bytes(content)
    with pytest.raises(SystemExit, match=rf"train\.en\.{expected}"):
        run(tmp_path, "--on-bad-parse=skip")


def skip(folder: Path, kind: str, text: str, parses: str) -> list[str]:
    """Reasons why lines have no parse, empty for those that have one."""
    (folder / "x").write_text(text)
    (folder / "p").write_text(parses)
    parse.main([f"--input={folder}/x", f"--parser={kind}", f"--parse-file={folder}/p", "--on-bad-parse=skip"])
    return [getattr(entry, "reason", "") for _, entry in FORMATS[kind].read(f"{folder}/x.{kind}")]


UNKNOWN = "it is not known which parses are those of the lines after it"


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("trees", "(S a)\n(S b)\n(S c\n(S other)\n(S e)\n", f"p:3: expected 1 more '.*{UNKNOWN}"),
        ("trees", "(S a)\n(S b)\n(S c)\n(S other)\n(S e)\n", f"p:4: .*the parse 'other'.*{UNKNOWN}"),
        ("trees", "(S a)\n(S b)\n(S )\n(S c)\n(S d)\n(S e)\n", f"p:3: expected a word or a constituent .*{UNKNOWN}"),
        ("trees", "(S a)\n(S b)\n(S c)\n(S d)\n", r"p: expected a parse of .*x:3, found the end"),
        ("trees", "(S a)\n(S b)\n(S c)\n(S d)\n(S e)\n(S f)\n", "p:6: expected no parse after the last line"),
        ("conllu", row(1, "a", 0) + "\n" + row(1, "b", 3) + row(2, "other", 0), f"p:3: .*out of range.*{UNKNOWN}"),
    ],
)
def test_a_bad_parse_after_which_nothing_is_known_is_always_an_error(tmp_path, kind, content, expected):
    with pytest.raises(SystemExit, match=expected):
        skip(tmp_path, kind, "a b\nc d\ne\n", content)
    assert not (tmp_path / f"x.{kind}").exists()


TREE, BROKEN_TREE = "(S (X a) (X b))\n", "(S (X a) (X b)\n"


@pytest.mark.parametrize(
    ("kind", "text", "parses", "reasons"),
    [
        ("trees", "a b\na b\n\n", f"{TREE}\n{BROKEN_TREE}", ["", "unbalanced", "empty"]),
        ("trees", "a b\nc d\n\n", f"{TREE}\n(S (X c) (X q))\n", ["", "mismatch", "empty"]),
        ("trees", "a b\na b\n\n\na b\n", f"{TREE}\n{BROKEN_TREE}\n{TREE}", ["", "unbalanced", "empty", "empty", ""]),
        ("trees", "a b\nc d\n", f"{TREE}\n", ["", "mismatch"]),
        ("trees", "a b\n\na b\n", f"{TREE}(())\n{BROKEN_TREE}", ["", "empty", "unbalanced"]),
        # One lacks a bracket that a later one has too many, also where lines have several trees.
        (
            "trees",
            "a\nb\n\nc\nd e\nf\n",
            " (S a)\n (S b\n\n (S c))\n (S d) (S\n  e)\n (S f)\n",
            ["", "unbalanced", "empty", "unbalanced", "", ""],
        ),
        ("conllu", "a b\na b\n\na b\n", f"{GOOD}# newdoc\n\n{BAD['cycle']}{GOOD}", ["", "cycle", "empty", ""]),
        ("conllu", "a b\na b\n", f"{GOOD}# text = a b\n\n", ["", "mismatch"]),
    ],
)
def test_blank_entries_between_parses_are_those_of_no_line(tmp_path, kind, text, parses, reasons):
    assert skip(tmp_path, kind, text, parses) == reasons


def test_lines_with_a_bad_parse_are_not_drawn_for_others(tmp_path):
    """By --control shuffled."""
    entries = GOOD.replace("a", "c") + BAD["cycle"] + GOOD
    write(tmp_path, text="c b\na b\na b\n", trees=None, conllu=entries)
    with pytest.raises(SystemExit, match=r"train\.en\.conllu:4: expected a tree.*--on-bad-parse skip"):
        run(tmp_path, "--control=shuffled")
    run(tmp_path, "--control=shuffled", "--on-bad-parse=skip")
    assert rows(tmp_path, "head") == [[2, 0, 0], [], [2, 0, 0]]
