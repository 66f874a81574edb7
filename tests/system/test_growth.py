"""Work on a line grows about as the line does, for all kinds of lines: nothing stalls, and nothing recurses."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from syntax_data.controls import KINDS, Control, SentencePool, control_trees
from syntax_data.errors import InputError
from syntax_data.features.dependencies import head_feature
from syntax_data.features.distance import syntactic_distances
from syntax_data.parsers import Line, parse_lines
from syntax_data.parsers.files import ConlluParser, TreesParser
from syntax_data.text.alignment import AlignmentError, align
from syntax_data.text.folding import fold, same_folded, unescape_moses
from syntax_data.text.subwords import subword_reader
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.brackets import format_brackets, parse_brackets
from syntax_data.trees.conllu import format_conllu, parse_conllu
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import DependencyTree, Tree, merge_leaves, sentence_sizes
from tiers import others_nightly

CONTROLS = [Control(kind, percent) for kind in KINDS for percent in ([0, 30, 100] if kind == "noise" else [0])]
#: Characters, words, brackets, … in a line.
MANY = 30_000
#: What they may take, of this process's time. The slowest of them takes a tenth of it; what grows with the square of
#: the length takes several times as much.
SECONDS = 2.5


def timed(work: Callable[[], Any]) -> Any:
    """Result or error of `work`, in time."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return work()
    except (InputError, AlignmentError) as error:
        return error
    except TimeoutError:
        late = f"not done after {SECONDS} seconds"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return pytest.fail(late, pytrace=False)


def row(number: object, head: object, form: str = "a") -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_"


def one_other(trees: list[Tree] | None, heads: DependencyTree | None) -> SentencePool:
    """A line of the same shape over other words, to draw."""
    pool = SentencePool()
    if trees is not None:
        trees = control_trees("flat", trees, "")
        trees[0].children[0] = "another"
    pool.add(1, trees, None if heads is None else DependencyTree(["b"] * len(heads.tokens), heads.heads))
    return pool


def two_chains(n: int) -> list[int]:
    return [*range(n // 2), 0, *range(n // 2 + 1, n)]


def conllu(heads: list[int], comment: str = "# sentences = 2") -> list[str]:
    return [comment, *(row(i, head) for i, head in enumerate(heads, start=1))]


def pairs(n: int) -> list[str]:
    """Multi-word tokens and empty nodes."""
    rows = [[row(f"{i}-{i + 1}", "_"), row(i, i - 1), row(f"{i}.1", "_"), row(i + 1, i)] for i in range(1, n, 2)]
    return [one for several in rows for one in several]


BLOCKS = {
    "chains": conllu(two_chains(MANY)),
    "chains to the right": conllu([*range(2, MANY // 2 + 1), 0, *range(MANY // 2 + 2, MANY + 1), 0]),
    "cycle": conllu([*range(2, MANY + 1), 1], "# a cycle"),
    "sentences": conllu([0] * MANY, f"# sentences = {MANY}"),
    "multi-word tokens and empty nodes": pairs(MANY),
    "one token": [row(f"1-{MANY}", "_"), *conllu([*range(MANY)], "#")],
    "comments": [*["# text = a"] * MANY, row(1, 0)],
    **{key: [f"# {key} = x{' ' * 10 * MANY}y", row(1, 0)] for key in ("no_parse", "sentences", "generator")},
    "spaces": ["#" + " " * 10 * MANY, row(1, 0)],
    "tabs": ["\t" * 100 * MANY],
    "word": [row(1, 0, "a" * 100 * MANY)],
    "word number": [row("9" * MANY, 0)],
    "range": [row("1-" + "9" * MANY, "_"), row(1, 0)],
    "head": [row(1, "9" * MANY)],
    "digits": ["# sentences = " + "9" * MANY, row(1, 0)],
}


def assert_short(error: Exception) -> None:
    assert str(error).startswith("x:")
    assert len(str(error)) < 500


@pytest.mark.parametrize("block", BLOCKS)
def test_conllu(block):
    found = timed(lambda: parse_conllu(BLOCKS[block], path="x", line=1))
    assert_short(found) if isinstance(found, Exception) else timed(lambda: format_conllu(found))


LINES = {
    "unary": "(X " * MANY + "w" + ")" * MANY,
    "right": "(X w " * MANY + "w" + ")" * MANY,
    "left": "(X " * MANY + "w" + " w)" * MANY,
    "flat": "(X " + "w " * MANY + ")",
    "trees": "(X w) " * MANY,
    "open": "(" * MANY,
    "closed": "(a b" + ")" * MANY,
    "reason": "(()) a" + " " * MANY + "b(",
    "reason of spaces": "( ( ) )" + " " * MANY + "(",
    "spaces": " " * MANY + "((" + " " * MANY + "x",
    "word": "(X " + "w" * 100 * MANY + ")" + "w" * 100 * MANY,
    "label": "(" + "X" * 100 * MANY + " -LRB-)",
}


@pytest.mark.parametrize(
    "line",
    others_nightly(LINES, LINES.keys() - {"left", "right", "trees", "flat"}),
)
def test_brackets(line):
    found = timed(lambda: parse_brackets(LINES[line], path="x", line=1))
    if isinstance(found, Exception):
        return assert_short(found)
    words = [word for tree in found for word in tree.leaves()]
    timed(lambda: format_brackets(found))
    timed(lambda: merge_leaves(found[0], words, {i: i for i in range(0, len(words), 2)}))
    for binarize in ("none", "left", "right"):
        timed(lambda binarize=binarize: syntactic_distances(found, binarize=binarize))
    for control in CONTROLS:
        timed(lambda control=control: control.parses(found, None, text="seed", pool=one_other(found, None)))


def test_heads():
    heads = two_chains(MANY)
    assert timed(lambda: sentence_sizes(heads)) == [MANY // 2, MANY // 2]
    tree = DependencyTree(["a"] * MANY, heads, sentences=2)
    for control in CONTROLS:
        timed(lambda control=control: control.parses(None, tree, text="seed", pool=one_other(None, tree)))
    # Half of the words have no subword, and the pool hang below all of them.
    middle = MANY // 2
    below = DependencyTree(["a"] * MANY, [*range(middle), *[middle] * middle])
    assert timed(lambda: head_feature(range(middle, MANY), below)) == [0] * (middle + 1)


TEXTS = [
    "ab cd ", "&" + "amp;" * MANY, "& amp ; ", "&", "&amp;amp", "-LRB", "@-", "i\u0307", "e" + "\u0301\u0323" * MANY,
    "\u200b ",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:9]))
def test_texts(text):
    text = text if len(text) > MANY else text * MANY
    folded, _ = timed(lambda: fold(text))
    timed(lambda: unescape_moses(text))
    assert timed(lambda: same_folded(folded, folded[::-1])) == (folded == folded[::-1])


def test_marks_in_another_order():
    one, other = "\u0301" * MANY, "\u0323" * MANY
    assert timed(lambda: same_folded(f"e{one}{other}", f"e{other}{one}"))
    assert not timed(lambda: same_folded("e" + "\u0301\u0323" * MANY, "e" + "\u0323\u0300" * MANY))


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("subword_nmt", ["ab@@"] * MANY + ["c"]),
        ("sentencepiece", ["▁a"] + ["字字字字"] * MANY),
        ("sentencepiece", ["▁"] * MANY),
        ("sentencepiece", ["▁a"] + ["<0xE2>", "<0x82>", "<0xAC>"] * MANY),
        ("sentencepiece", ["<0x82>"] * MANY),
        ("byte_bpe", ["a", "Ġ"] * MANY),
        ("byte_bpe", ["Ġ"] * MANY),
        ("byte_bpe", ["â", "Ĥ"] * MANY),
        ("wordpiece", ["a", *["##é"] * MANY]),
        ("wordpiece", ["a", "[UNK]"] * MANY),
        ("words", ["\u200b"] * MANY + ["a"]),
        ("words", ["a"] * MANY),
        ("words", ["<marker>"] * MANY + ["a"]),
    ],
)
def test_subwords(kind, tokens):
    read = subword_reader(kind, markers="<marker>")
    subwords = timed(lambda: read(tokens))
    assert len(subwords.word_of) == len(tokens)
    text = "".join(subwords.words)
    if kind == "sentencepiece":
        timed(lambda: read(["▁a"] + ["字"] * 10 * MANY))
    for parse in ([text], [*text], [*text[:-1], "?"], [*text, "?"], ["?", *text]):
        found = timed(lambda parse=parse: align(subwords, parse))
        if isinstance(found, AlignmentError):
            assert len(str(found)) < 3000


SENTENCES = MANY // 3
FILES = {
    "sentences in CoNLL-U": (ConlluParser, "ab . " * SENTENCES, f"{row(1, 2, 'ab')}\n{row(2, 0, '.')}\n\n" * SENTENCES),
    "trees of a line": (TreesParser, "ab . " * SENTENCES, "(S ab .)\n" * SENTENCES),
    "a tree over lines": (TreesParser, "a " * MANY, "(S\n" + " (X a)\n" * MANY + ")\n"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_of_parses(tmp_path, case):
    parser_class, text, parses = FILES[case]
    (tmp_path / "text").write_text(f"{text}\n")
    (tmp_path / "parses").write_text(parses)

    def work() -> Any:
        parser = parser_class(str(tmp_path / "parses"), str(tmp_path / "text"), bad=BadParses("error"))
        failed = lambda line, error: pytest.fail(str(error))  # noqa: E731
        (parse,) = parse_lines(parser, [Line(1, text)], max_tokens=parser.default_max_tokens, failed=failed)
        parser.finish()
        return parse

    assert len(timed(work).tokens) == len(text.split())


def test_a_file_of_empty_lines_and_one_of_one_line(tmp_path):
    (tmp_path / "x").write_text("\n \n\t\n" * MANY)
    assert timed(lambda: list(CONLLU.read(str(tmp_path / "x")))) == []
    (tmp_path / "x").write_text("x" * 1000 * MANY)
    assert "10 tab-separated columns" in str(timed(lambda: list(CONLLU.read(str(tmp_path / "x")))))
