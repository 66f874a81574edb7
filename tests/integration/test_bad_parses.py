"""--on-bad-parse: one bad parse of many is an error that says what to do, or costs its line's parse alone."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from binarizing import rows, run, write
from bracketed import bracketed
from fairseq_syntax.testing import random_tree
from syntax_data.commands import parse
from syntax_data.data_bin import encoding
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import Tree

KINDS = ("trees", "conllu")


def row(number: int, form: str, head: object) -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


def entry(words: list[str], random: Random) -> str:
    """A CoNLL-U entry; all words depend on the root, or on the word before them."""
    root = random.randrange(len(words))
    heads = [0 if i == root else random.choice([root + 1, i]) if i > root else root + 1 for i in range(len(words))]
    return "".join(map(row, range(1, len(words) + 1), words, heads)) + "\n"


def columns(change):
    """Breaks a CoNLL-U entry in a row that is not its root's."""

    def broken(entry: str, random: Random) -> str:
        lines = entry.splitlines(keepends=True)
        i = random.choice([i for i, line in enumerate(lines[:-1]) if line.split("\t")[6] != "0"])
        lines[i] = "\t".join(change(lines[i].split("\t")))
        return "".join(lines)

    return broken


def at(part: str, new: str):
    """Breaks a tree at one of the occurrences of `part`."""

    def broken(tree: str, random: Random) -> str:
        start = random.choice([i for i in range(len(tree)) if tree.startswith(part, i)])
        return tree[:start] + new + tree[start + len(part) :]

    return broken


#: What makes a parse bad so that its words can be read.
WITH_WORDS = [
    ("conllu", columns(lambda row: [*row[:6], "0", *row[7:]])),  # a second root
    ("conllu", columns(lambda row: [*row[:6], row[0], *row[7:]])),  # a cycle
    ("conllu", columns(lambda row: [*row[:6], "99", *row[7:]])),
    ("conllu", columns(lambda row: [*row[:6], "x", *row[7:]])),
    ("conllu", columns(lambda row: [*row[:4], "\n"])),
    ("conllu", columns(lambda row: ["77", *row[1:]])),
    ("trees", at(")", "")),
    ("trees", at(")", "))")),
    ("trees", at(" w", " (Y ) w")),  # a constituent without words
    ("trees", at("(", "((")),
]
#: What makes it bad so that they cannot, or differ from the line's.
WITHOUT_WORDS = [
    ("conllu", columns(lambda row: [row[0], "other", *row[2:]])),
    ("conllu", columns(lambda row: [row[0], "", *row[2:]])),
    ("conllu", columns(lambda row: [" ".join(row)])),
    ("conllu", lambda entry, random: "# sentences = x\n" + entry),
    ("conllu", lambda entry, random: "1\tw0" + "\t_" * 4 + "\t0" + "\t_" * 3 + "\n\n"),  # a part
    ("trees", at("w0", "other")),
    ("trees", lambda tree, random: "(X other)"),
    ("trees", lambda tree, random: "(X w0)"),
    ("trees", lambda tree, random: "(X (Y )"),
    ("trees", lambda tree, random: tree + " x"),
]


def pretty(tree: Tree, indent: int = 0) -> str:
    """A tree over several lines, as CoreNLP writes it."""
    inside = (
        f" {c}" if isinstance(c, str) else "\n" + "  " * (indent + 1) + pretty(c, indent + 1) for c in tree.children
    )
    return f"({tree.label}{''.join(inside)})"


class Corpus:
    """Some lines and their parses; each line has `sentences` sentences of two to four words, or none."""

    def __init__(self, random: Random, sentences: int, layout: str):
        self.random, self.layout = random, layout
        sizes = [[random.randint(2, 4) for _ in range(sentences)] for _ in range(6)]
        sizes.insert(random.randint(0, 6), [])
        self.trees = [[random_tree(random, n) for n in line] for line in sizes]
        self.conllu = [[entry([f"w{i}" for i in range(n)], random) for n in line] for line in sizes]

    def write(self, folder: Path, route: str, bad: tuple[int, str, object] | None, *options: str) -> Path:
        folder.mkdir()
        text = "".join(" ".join(leaf for tree in line for leaf in tree.leaves()) + "\n" for line in self.trees)
        form = pretty if self.layout == "pretty" else bracketed
        made = {"trees": [[*map(form, line)] for line in self.trees], "conllu": [[*line] for line in self.conllu]}
        if bad:
            number, kind, spoil = bad
            made[kind][number][0] = spoil(made[kind][number][0], self.random)
        between = "\n" if route == "parse" else " "
        files = {"trees": "".join(between.join(line) + "\n" for line in made["trees"])}
        files["conllu"] = "".join("".join(line) or "#\n\n" for line in made["conllu"])
        write(folder, text=text, **files)
        for kind in KINDS if route == "parse" else ():
            given = (folder / f"train.en.{kind}").rename(folder / f"given.{kind}")
            parse.main([f"--input={folder}/train.en", f"--parser={kind}", f"--parse-file={given}", *options])
        run(folder, *options)
        return folder


def counted(folder: Path) -> dict[str, dict[str, int]]:
    return json.loads((folder / "bin/syntax.en-de.en.json").read_text())["splits"]["train"]["counts"]["no_parse"]


def features(folder: Path) -> list[dict[str, list[int]]]:
    found = {name: rows(folder, name) for name in ("word", "distance", "head", "position")}
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


LAYOUTS = [("binarize", 1, ""), ("parse", 1, ""), ("parse", 1, "pretty"), ("parse", 2, ""), ("parse", 2, "pretty")]


@given(st.integers(0), st.sampled_from(LAYOUTS), st.data())
@settings(max_examples=15, deadline=None, phases=[Phase.generate])
def test_a_bad_parse_costs_its_line_alone(seed, layout, data):
    route, sentences, form = layout
    corpus = Corpus(Random(seed), sentences, form)
    kind, spoil = data.draw(st.sampled_from(WITH_WORDS + WITHOUT_WORDS * (sentences == 1)))
    number = data.draw(st.sampled_from([i for i, line in enumerate(corpus.trees) if line]))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as err:
        whole, broken, refused = (Path(folder, name) for name in "abc")
        expected = features(corpus.write(whole, route, None))
        found = features(corpus.write(broken, route, (number, kind, spoil), "--on-bad-parse=skip"))
        assert not found[number]["distance" if kind == "trees" else "head"]
        assert found[:number] + found[number + 1 :] == expected[:number] + expected[number + 1 :]
        added = {k: sum(n.values()) - sum(counted(whole)[k].values()) for k, n in counted(broken).items()}
        assert added == {k: int(k == kind) for k in KINDS}
        assert err.getvalue().count("skipped (") == 1
        with pytest.raises(SystemExit, match="--on-bad-parse skip"):
            corpus.write(refused, route, (number, kind, spoil))
        assert not list(refused.glob("bin/*.json"))


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
