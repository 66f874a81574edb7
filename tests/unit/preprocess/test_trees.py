"""The readers: what they read, and what they refuse, with file and line."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bracketed import bracketed
from fairseq_syntax.testing import random_tree
from syntax_preprocess.brackets import format_brackets, parse_brackets
from syntax_preprocess.conllu import conllu_units, format_conllu, parse_conllu
from syntax_preprocess.errors import InputError
from syntax_preprocess.folding import unescape_brackets
from syntax_preprocess.lines import read_lines
from syntax_preprocess.trees import DependencyTree, NoParse, Tree, merge_leaves


def read_brackets(path):
    return [(n, parse_brackets(line, path=path, line=n)) for n, line in read_lines(path)]


def read_conllu(path):
    return [(n, parse_conllu(block, path=path, line=n)) for n, block in conllu_units(read_lines(path))]


def row(number, form, head):
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


def block(*heads, forms=None):
    return "".join(row(i, (forms or "abcdefgh")[i - 1], h) for i, h in enumerate(heads, start=1)) + "\n"


@given(st.integers(), st.integers(1, 12))
def test_brackets_round_trip(seed, words):
    tree = random_tree(Random(seed), words)
    assert parse_brackets(bracketed(tree), path="x", line=1) == [tree]
    assert tree.leaves() == [f"w{i}" for i in range(words)]


@given(st.lists(st.text(st.characters(exclude_categories=("Z", "C")), min_size=1), min_size=1))
def test_any_words_can_stand_in_brackets(words):
    tree = Tree("S", [Tree("(", [*words])])
    (read,) = parse_brackets(format_brackets([tree]), path="x", line=1)
    assert read.leaves() == [*map(unescape_brackets, words)]


def test_no_parse_in_brackets():
    assert format_brackets(NoParse("too_long")) == "(()) too_long\n"
    assert parse_brackets("(()) too_long", path="x", line=1) == NoParse("too_long")
    assert format_brackets([]) == "\n"


def test_leaves_are_merged_to_surface_tokens():
    (tree,) = parse_brackets("(S (NP I) (VP (V do) (RB n't) (VP (X know))) (A (B .)))", path="x", line=1)
    tokens = ["I", "don't", "know."]
    assert (
        format_brackets([merge_leaves(tree, tokens, {0: 0, 1: 1, 3: 2})])
        == "(S (NP I) (VP (V don't) (VP (X know.))))\n"
    )
    assert (
        format_brackets([merge_leaves(tree, tokens, {0: 0, 2: 1, 4: 2})])
        == "(S (NP I) (VP (RB don't)) (A (B know.)))\n"
    )


def test_brackets_as_parsers_write_them(tmp_path):
    path = tmp_path / "x.trees"
    path.write_text(
        "( (S (NP (DT a) (NN dog)) (-LRB- -LRB-) (. .)) )\n"  # an unlabelled root, an escaped bracket
        "\n"  # no words
        "(())\n"  # no parse
        "(S (X a)) (S (X b))\r\n"  # two sentences, CRLF
        "(S (X c))"  # no newline at the end
    )
    units = [unit for _, unit in read_brackets(str(path))]
    assert [t.leaves() for t in units[0]] == [["a", "dog", "(", "."]]
    assert units[0][0].children[0].children[0] == Tree("NP", [Tree("DT", ["a"]), Tree("NN", ["dog"])])
    assert units[1] == []
    assert units[2] == NoParse("not_stated")
    assert [t.leaves() for t in units[3]] == [["a"], ["b"]]
    assert [t.leaves() for t in units[4]] == [["c"]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("(S (X a)", r"expected 1 more '\)'"),
        ("(S (X a)))", r"expected '\(' in column 10, found '\)'"),
        ("(S (X a)) b", r"expected '\(' in column 11, found 'b'"),
        ("a b c", r"expected '\(' in column 1, found 'a'"),
        ("(S (X) (Y a))", r"in the brackets that end in column 6"),
        ("()", r"in the brackets that end in column 2"),
        ("(S (X a\x0b(Y b)", r"expected 2 more"),
    ],
)
def test_broken_brackets_are_refused_with_file_and_line(tmp_path, line, expected):
    path = tmp_path / "x.trees"
    path.write_text(f"(S (X a))\n{line}\n(S (X a))\n")
    with pytest.raises(InputError, match=expected) as error:
        list(read_brackets(str(path)))
    assert str(error.value).startswith(f"{path}:2: ")


def test_deep_trees_do_not_exhaust_the_stack():
    deep = "(X " * 5000 + "w" + ")" * 5000
    (tree,) = parse_brackets(deep, path="x", line=1)
    assert tree.leaves() == ["w"]


def test_conllu_blocks(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text(
        "# sent_id = 1\n" + block(2, 0, 2) + "# no_parse = too long\n\n# text =\n\n\n" + block(0).rstrip("\n")
    )
    units = list(read_conllu(str(path)))
    assert [line for line, _ in units] == [1, 6, 8, 11]
    assert units[0][1].tokens == ["a", "b", "c"]
    assert units[0][1].heads == [2, 0, 2]
    assert units[1][1] == NoParse("too long")
    assert units[2][1].tokens == []
    assert units[3][1].heads == [0]


def test_conllu_is_written_as_it_is_read():
    lines = "# sentences = 2\n1\ta b\ta\tNOUN\tN\tX=1\t0\troot\t_\t_\n" + row(2, "c", 0)
    tree = parse_conllu(lines.splitlines(), path="x", line=1)
    assert tree.upos == ["NOUN", "_"]
    assert tree.deprel == ["root", "_"]
    assert format_conllu(tree) == lines + "\n"
    assert format_conllu(NoParse("empty")) == "# no_parse = empty\n\n"
    assert format_conllu(DependencyTree(["a"], [0])) == row(1, "a", 0) + "\n"
    assert format_conllu(DependencyTree([], [])) == "#\n\n"


def test_conllu_block_of_several_sentences(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text("# sentences = 2\n" + block(0, 1, 0, 3))
    ((_, tree),) = read_conllu(str(path))
    assert tree.heads == [0, 1, 0, 3]


def test_conllu_multi_word_tokens_and_empty_nodes(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text(
        row(1, "er", 2)
        + row(2, "geht", 0)
        + "3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_\n"
        + row(3, "zu", 5)
        + row(4, "dem", 5)
        + "4.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
        + row(5, "Haus", 2)
        + "\n"
    )
    ((_, tree),) = read_conllu(str(path))
    assert tree.tokens == ["er", "geht", "zum", "Haus"]
    assert tree.heads == [2, 0, 4, 2]
    assert (tree.multiword, tree.depth, tree.head_words) == (1, 3, [0, 1, 2, 4])


def test_conllu_multi_word_token_that_would_make_a_cycle(tmp_path):
    # 1-2 hold words whose heads are 3 and 0: a head taken from the first word would give 1-2 -> 3 -> 1-2.
    path = tmp_path / "x.conllu"
    path.write_text("1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row(1, "a", 3) + row(2, "b", 0) + row(3, "c", 2))
    ((_, tree),) = read_conllu(str(path))
    assert tree.tokens == ["ab", "c"]
    assert tree.heads == [0, 1]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (block(0) + block(2, 0, 9), 5, "head between 0 and 3, found 9"),
        (block(0) + block(2, 1), 3, "cycle through word 1"),
        (block(0) + block(2, 3, 4, 2, 0), 4, "cycle through word 2"),
        (block(0) + block(0, 1, 0), 5, "one root"),
        (block(0) + block(1), 3, "cycle through word 1"),
        ("# sentences = 2\n" + block(0, 0, 1, 2), 1, "heads that stay within the 2 sentences"),
        (block(0) + row(1, "", 0), 3, "form of a word"),
        (block(0) + row(1, "a", "9" * 5000), 3, "number of a head"),
        ("# sentences = 2\n" + block(0, 1, 1), 4, "expected 2 roots, one a sentence, found 1"),
        ("# sentences = 2\n" + block(0, 0, 0), 4, "expected 2 roots, one a sentence, found another"),
        (block(0) + row(1, "a", "x"), 3, "number of a head, found 'x'"),
        (block(0) + row(1, "a", 0) + row(3, "b", 1), 4, "word number 2, found '3'"),
        (block(0) + "1 a _ _ _ _ 0 _ _ _\n", 3, "10 tab-separated columns, found 1"),
        (block(0) + row("2-1", "a", "_"), 3, "rising range of words after word 0"),
        (block(0) + row("1-2", "ab", "_") + row(1, "a", 0), 3, "only 1 words"),
        (block(0) + row("1-" + "9" * 5000, "ab", "_"), 3, "rising range of words after word 0, found '1-999"),
        (block(0) + row("1-2-3", "ab", "_"), 3, "rising range of words after word 0, found '1-2-3'"),
        (block(0) + row("٣-٤", "ab", "_"), 3, "rising range of words after word 0, found '٣-٤'"),
        (block(0) + row(1, "a", "²"), 3, "number of a head, found '²'"),
        (block(0) + row(1, "a", "٠"), 3, "number of a head, found '٠'"),
        (block(0) + row("1-2", "", "_") + row(1, "a", 0), 3, "form of a word, found none"),
        (block(0) + row("1.x", "a", "_"), 3, "word number 1, found '1.x'"),
        (block(0) + row("a.b", "a", "_"), 3, "word number 1, found 'a.b'"),
        ("# sentences = " + "9" * 5000 + "\n" + block(0), 1, "a number of sentences, found '999"),
        ("# sentences = ٢\n" + block(0, 0), 1, "a number of sentences, found '٢'"),
        ("# sentences = 0\n" + block(0), 1, "a number of sentences, found '0'"),
        ("# x\n# no_parse = a (b)\n\n", 2, r"without round brackets, found 'a \(b\)'"),
        (block(0) + f"1\t{'a' * 10**6}\n", 3, "10 tab-separated columns, found 2"),
    ],
)
def test_broken_conllu_is_refused_with_file_and_line(tmp_path, text, line, expected):
    path = tmp_path / "x.conllu"
    path.write_text(text)
    with pytest.raises(InputError, match=expected) as error:
        list(read_conllu(str(path)))
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert len(error.value.message) < 300


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        (b"(S (X a))\n(S (X \xff))\n", 2, "UTF-8"),
        (b"(S (X a))\n(S (X a)\r(Y b))\n", 2, "carriage return inside the line, found one in column 9"),
    ],
)
def test_broken_text_is_refused_with_file_and_line(tmp_path, content, line, expected):
    path = tmp_path / "x.trees"
    path.write_bytes(content)
    with pytest.raises(InputError, match=expected) as error:
        list(read_brackets(str(path)))
    assert str(error.value).startswith(f"{path}:{line}: ")
