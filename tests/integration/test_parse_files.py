"""--parser conllu and trees: parses that another parser made are checked, joined to lines and normalised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syntax_data.commands import parse


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def run(text: Path, kind: str, parses: str, *more: str, size: int = 3) -> str:
    """The parses that are written for text and a file with these parses."""
    file = write(text.with_name("p"), parses)
    files = [f"--input={text}", f"--parser={kind}", f"--parse-file={file}"]
    parse.main([*files, f"--batch-size={size}", "--overwrite", *more])
    return Path(f"{text}.{kind}").read_text()


def record(text: Path, kind: str) -> dict[str, Any]:
    return json.loads(Path(f"{text}.parse.json").read_text())["parses"][kind]


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
    content = run(text, "conllu", CONLLU, "--parser-name", "UDPipe 2", size=1)
    assert content == (
        "# sentences = 2\n"
        "1\tim\t_\tADP\t_\t_\t2\tcase\t_\t_\n"
        "2\tHaus\tHaus\tNOUN\t_\t_\t0\troot\t_\t_\n"
        "3\tJa\tja\tINTJ\t_\t_\t0\troot\t_\t_\n"
        "4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_\n"
        "\n# no_parse = empty\n\n1\tX\tx\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    )
    report = (
        "3 lines: 2 parsed (66.67%), without a parse: 1 empty; 5 tokens (1 of several words) in 3 sentences (1 lines"
    )
    assert report in capsys.readouterr().out
    assert not (tmp_path / "x.de.trees").exists()
    assert record(text, "conllu")["parser"]["name"] == "UDPipe 2"
    # What was written passes the same check, and the other kind may come from somewhere else.
    assert run(text, "conllu", content) == content
    trees = "(S (P Im) (N Haus))\n(S ja .)\n\n(S x)\n"
    assert run(text, "trees", trees) == "(S (P Im) (N Haus)) (S ja .)\n(()) empty\n(S x)\n"
    assert list(record(text, "trees")["parser"]["file"]) == ["p"]
    assert record(text, "conllu")["sha256"]


NOT_MORE = "expected no parse after the last line"


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("conllu", CONLLU.replace("Haus\tHaus", "Haut\tHaut"), r"p:1: .*x\.de:1: .*has 'Haus' .*, the parse 'Haut'"),
        ("conllu", CONLLU + "1\tX\t_\t_\t_\t_\t0\t_\t_\t_\n", f"p:12: {NOT_MORE}"),
        ("conllu", CONLLU[: CONLLU.index("1\tX")], r"p: expected a parse of .*x\.de:3, found the end"),
        ("conllu", CONLLU[: CONLLU.index("1\tJa")], r"p: expected the rest of .*x\.de:1, found the end"),
        ("conllu", CONLLU.replace("\t3\tcase", "\t9\tcase"), r"p:3: .*out of range"),
        ("conllu", CONLLU.replace("1\tJa", "# no_parse = x\n\n1\tJa"), r"p:7: expected the rest of .*x\.de:1"),
        ("conllu", f"{CONLLU}#\n\n# no_parse = x\n\n", f"p:14: {NOT_MORE}"),
        ("trees", "(S Im Haus)\n(S ja . x)\n", r"p:2: .*x\.de:1: .*the text has nothing, the parse 'x'"),
        ("trees", "(S Im Haus) (S ja .)\n\n(S x\n", r"p:3: expected 1 more '\)'"),
        ("trees", "(S Im Haus) (S ja .)\n\n(S x)\n\n\n(S y)\n", f"p:6: {NOT_MORE}"),
        ("trees", "(S Im Haus) (S ja .)\n\n(S x)\n\n(())\n", f"p:5: {NOT_MORE}"),
        ("trees", "(()) empty\n\n(S x)\n", r"p:1: expected a parse of .*x\.de:1, found that of an empty line"),
        ("trees", "\n\n(S x)\n", r"p:1: .*x\.de:1, found a blank entry: .* failed, write '\(\(\)\) failed'"),
        ("trees", "(S Im Haus) (S ja .)\n\n\n", r"p:3: .*x\.de:3, found a blank entry"),
        ("trees", "(S Im Haus (-NONE- *)) (S ja .)\n\n(S x)\n", r"p:1: .*x\.de:1: .*--parser trees --drop-traces"),
    ],
)
def test_broken_files_are_refused_with_file_and_line(tmp_path, kind, content, expected):
    text = write(tmp_path / "x.de", "Im Haus ja.\n\nx\n")
    with pytest.raises(SystemExit, match=expected):
        run(text, kind, content)
    assert not (tmp_path / f"x.de.{kind}").exists()
    corrected = "(S Im Haus ja .)\n\n(S x)\n" if kind == "trees" else CONLLU
    assert run(text, kind, corrected, size=1)  # nothing is left of the first


def row(number: int, form: str, head: int) -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


TREES = {
    "sentences of a line, whose marks and escapes differ": (
        "a\u0301\u0323 b & amp ; c\ni\u0307 d e\n",
        "(S a\u0323\u0301)\n(S b &)\n(S c)\n(S i)\n(S \u0307 d)\n(S e)\n",
        "(S a\u0323\u0301) (S b &) (S c)\n(S i) (S \u0307 d) (S e)\n",
    ),
    "over several lines": (
        "a ( b\nc\n",
        "(ROOT\n  (S (X a) (-LRB- -LRB-)\n    (Y b)))\n(ROOT (X c))\n",
        "(ROOT (S (X a) (-LRB- -LRB-) (Y b)))\n(ROOT (X c))\n",
    ),
    "no parse of an empty line": ("a b\n\nc\n", "(S a b)\n(())\n(S c)\n", "(S a b)\n(()) empty\n(S c)\n"),
    "before blank lines": ("a\n\nb\n", "(S a)\n(())\n(S b)\n\n\n", "(S a)\n(()) empty\n(S b)\n"),
    "no entry of an empty line": ("a b\n\nc\n", "(S a b)\n(()) failed\n", "(S a b)\n(()) empty\n(()) failed\n"),
    "reasons of other parsers": (
        "a\nb\nc\nd\n",
        "(S a)\nSENTENCE_SKIPPED_OR_UNPARSABLE\n()\n(())\n",
        "(S a)\n(()) sentence_skipped_or_unparsable\n(()) not_stated\n(()) not_stated\n",
    ),
    "escaped brackets": (
        "fine :)\n:) a\n\n:( b\nC:\\ ( d )\ne \\\n",
        "(S\n  (JJ fine)\n  (. :\\)))\n(S\n  (. :\\))\n  (X a))\n\n(S (. :\\()\n  (X b))\n"
        "(S\n  (X C:\\)\n  (Y -LRB- d -RRB-))\n(S (X e) (X \\))\n",
        "(S (JJ fine) (. :-RRB-))\n(S (. :-RRB-) (X a))\n(()) empty\n(S (. :-LRB-) (X b))\n"
        "(S (X C:\\) (Y -LRB- d -RRB-))\n(S (X e) (X \\))\n",
    ),
}


@pytest.mark.parametrize("case", TREES)
def test_files_of_trees(tmp_path, case):
    text, parses, expected = TREES[case]
    assert run(write(tmp_path / "x.en", text), "trees", parses) == expected


def test_conllu_blocks_that_are_no_sentences(tmp_path):
    """Comments between blocks, and the marks of lines without a parse."""
    text = write(tmp_path / "x.en", "a b\n\nc\n")
    sentence = row(1, "a", 0) + row(2, "b", 1) + "\n"
    content = f"# generator = a parser 2\n# newdoc\n\n{sentence}#\n\n# newpar\n\n# no_parse = timeout\n\n"
    assert run(text, "conllu", content) == f"{sentence}# no_parse = empty\n\n# no_parse = timeout\n\n"
    assert record(text, "conllu")["parser"]["name"] == "a parser 2"


@settings(max_examples=20, deadline=None)
@given(
    blank=st.lists(st.sampled_from(["\n", " \t\n", "\x0b\r\n"]), max_size=5).map("".join),
    comments=st.lists(st.sampled_from(["\n", " \n", "# a\n", "# newdoc id = b\n", "#\n\n"]), max_size=5).map("".join),
    empty=st.integers(0, 2),
    between=st.integers(0, 2),
    size=st.integers(1, 3),
)
def test_blank_lines_and_comments_are_no_parses(tmp_path_factory, blank, comments, empty, between, size):
    text = write(tmp_path_factory.mktemp("blank") / "x.en", "a b\nc\n" + "\n" * empty)
    trees = f"(ROOT\n  (S a))\n{between * chr(10)}(S b)\n{between * chr(10)}(()) x\n"
    conllu = row(1, "a", 0) + row(2, "b", 1) + "\n# no_parse = x\n\n"
    expected = "(ROOT (S a)) (S b)\n(()) x\n" + "(()) empty\n" * empty
    assert run(text, "trees", trees + blank, size=size) == expected
    assert run(text, "conllu", conllu + comments, size=size) == conllu + "# no_parse = empty\n\n" * empty
