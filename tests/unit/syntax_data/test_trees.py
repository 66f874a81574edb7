"""The readers: what they read, and what they refuse, with file and line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bracketed import bracketed
from syntax_data.errors import InputError
from syntax_data.text.folding import unescape_brackets
from syntax_data.text.lines import read_lines
from syntax_data.trees.brackets import format_brackets, parse_brackets
from syntax_data.trees.conllu import conllu_entries, format_conllu, parse_conllu
from syntax_data.trees.tree import DependencyTree, NoParse, Tree, merge_leaves, without_traces


def read_brackets(path):
    return [(n, parse_brackets(line, path=path, line=n)) for n, line in read_lines(path)]


def read_conllu(path):
    return [(n, parse_conllu(block, path=path, line=n)) for n, block in conllu_entries(read_lines(path))]


def row(number, form, head):
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


def block(*heads, forms=None):
    return "".join(row(i, (forms or "abcdefgh")[i - 1], h) for i, h in enumerate(heads, start=1)) + "\n"


BLANKS = " \t\n\v\f\r"
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=f"{BLANKS}()"), min_size=1)
ODD_WORDS = st.text(st.sampled_from("a1\\-/\u00a0\u2028\u3000\x85\x1c\u200b"), min_size=1)
TREES = st.recursive(
    WORDS | ODD_WORDS, lambda children: st.builds(Tree, WORDS | ODD_WORDS, st.lists(children, min_size=1, max_size=3))
)


@given(st.lists(TREES.filter(lambda tree: isinstance(tree, Tree)), max_size=2))
def test_trees_of_any_characters_round_trip(trees):
    read = parse_brackets(format_brackets(trees).removesuffix("\n"), path="x", line=1)
    assert read == [_with_plain_brackets(tree) for tree in trees]


def _with_plain_brackets(tree):
    if isinstance(tree, str):
        return unescape_brackets(tree)
    return Tree(tree.label, [*map(_with_plain_brackets, tree.children)])


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1))
def test_any_words_can_stand_in_brackets(words):
    tree = Tree("S", [Tree("(", [*words])])
    (read,) = parse_brackets(format_brackets([tree]).removesuffix("\n"), path="x", line=1)
    blank = str.maketrans(dict.fromkeys(BLANKS, "\u00a0"))
    assert [re.sub("\u00a0+", " ", leaf) for leaf in read.leaves()] == [
        re.sub("\u00a0+", " ", unescape_brackets(word.translate(blank))) for word in words
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (r"(S (NP It) (. :\)))", ["It", ":)"]),
        (r"(S (-LRB- \() (NN a) (-RRB- \)))", ["(", "a", ")"]),
        (r"(S (\( \() (NN like\(d\)))", ["(", "like(d)"]),
        (r"(S (NN C:\) (NN \))", ["C:\\", "\\"]),  # words that end in a backslash
        (r"(S (NN C:\) (NN -LRB-))", ["C:\\", "("]),
        (r"(NP (CD 1\/2))", ["1\\/2"]),
    ],
)
def test_brackets_that_a_backslash_escapes(line, expected):
    (tree,) = parse_brackets(line, path="x", line=1)
    assert tree.leaves() == expected
    assert parse_brackets(format_brackets([tree]), path="x", line=1) == [tree]


def test_spacys_token_of_white_space_is_no_leaf():
    assert parse_brackets("(S (X a) (_SP  ) (X b))", path="p", line=1)[0].leaves() == ["a", "b"]
    for broken in ("(S (X a) (Y (_SP )))", "(_SP )", "(S (X a) (X ))"):
        with pytest.raises(InputError, match="expected a word or a constituent"):
            parse_brackets(broken, path="p", line=1)


def test_leaves_are_merged_to_surface_tokens():
    (tree,) = parse_brackets("(S (NP I) (VP (V do) (RB n't) (VP (X know))) (A (B .)))", path="x", line=1)
    for leaf_of, expected in (
        ({0: 0, 1: 1, 3: 2}, "(S (NP I) (VP (V don't) (VP (X know.))))"),
        ({0: 0, 2: 1, 4: 2}, "(S (NP I) (VP (RB don't)) (A (B know.)))"),
    ):
        assert bracketed(merge_leaves(tree, ["I", "don't", "know."], leaf_of)) == expected


def test_traces_go_with_what_is_empty_without_them():
    line = "( (S (NP-1 (DT The) (NN dog)) (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1)))))) (X (-NONE- 0))"
    trees, traces = without_traces(parse_brackets(line, path="x", line=1))
    assert format_brackets(trees) == "( (S (NP-1 (DT The) (NN dog)) (VP (VBD was) (VP (VBN seen)))))\n"
    assert traces == 2


def test_brackets_as_parsers_write_them(tmp_path):
    assert format_brackets(NoParse("too_long")) == "(()) too_long\n"
    assert format_brackets([]) == "\n"
    path = tmp_path / "x.trees"
    path.write_text(
        "( (S (NP (DT a) (NN dog)) (-LRB- -LRB-) (. .)) )\n"  # an unlabelled root, an escaped bracket
        "\n"  # no words
        "(()) too_long\n"  # no parse
        "(S (X a)) (S (X b))\r\n"  # two sentences, CRLF
        "()\n"
        "SENTENCE_SKIPPED_OR_UNPARSABLE\n"
        "\u3000(S (X 1\u00a01/2) (Y b\u2028))\u00a0\n"  # white space in words, and around the tree
        "(S (X c))"  # no newline at the end
    )
    entries = [entry for _, entry in read_brackets(str(path))]
    assert [t.leaves() for t in entries[0]] == [["a", "dog", "(", "."]]
    assert entries[0][0].children[0].children[0] == Tree("NP", [Tree("DT", ["a"]), Tree("NN", ["dog"])])
    assert entries[1] == []
    assert entries[2] == NoParse("too_long")
    assert [t.leaves() for t in entries[3]] == [["a"], ["b"]]
    assert entries[4:6] == [NoParse("not_stated"), NoParse("sentence_skipped_or_unparsable")]
    assert [t.leaves() for t in entries[6]] == [["1\u00a01/2", "b\u2028"]]
    assert [t.leaves() for t in entries[7]] == [["c"]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"(S (X \xff))", "expected UTF-8"),
        (b"(S (X a)\r(Y b))", "carriage return inside the line, found one in column 9"),
        ("(S (X a)", r"expected 1 more '\)' .*written -LRB- and -RRB-"),
        ("(S (X a)))", r"expected '\(' in column 10, found '\)'"),
        ("(S (X a)) b", r"expected '\(' in column 11, found 'b'"),
        ("a b c", r"expected '\(' in column 1, found 'a'"),
        ("(S (X) (Y a))", r"in the brackets that end in column 6"),
        ("(S ())", r"in the brackets that end in column 5"),
        ("(S (VB like(d)) (. .))", r"in the brackets that end in column 14, .*written -LRB- and -RRB-"),
        ("(S (VB like) (. :)))", r"expected '\(' in column 20, found '\)'; .*written -LRB- and -RRB-"),
        ("(S (VB like) (. :())", r"in the brackets that end in column 19, .*written -LRB- and -RRB-"),
    ],
)
def test_broken_brackets_are_refused_with_file_and_line(tmp_path, line, expected):
    path = tmp_path / "x.trees"
    path.write_bytes(b"(S (X a))\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n(S (X a))\n")
    with pytest.raises(InputError, match=expected) as error:
        list(read_brackets(str(path)))
    assert str(error.value).startswith(f"{path}:2: ")


def test_conllu_blocks(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text(
        "# sent_id = 1\n" + block(2, 0, 2) + "# no_parse = too long\n\n# text =\n\n\n" + block(0).rstrip("\n")
    )
    entries = list(read_conllu(str(path)))
    assert [line for line, _ in entries] == [1, 6, 8, 11]
    assert entries[0][1].tokens == ["a", "b", "c"]
    assert entries[0][1].heads == [2, 0, 2]
    assert entries[1][1] == NoParse("too long")
    assert entries[2][1].tokens == []
    assert entries[3][1].heads == [0]


def test_conllu_is_written_as_it_is_read():
    lines = "# sentences = 2\n1\ta b\ta\tNOUN\tN\tX=1\t0\troot\t_\t_\n" + row(2, "c", 0)
    tree = parse_conllu(lines.splitlines(), path="x", line=1)
    assert tree.upos == ["NOUN", "_"]
    assert tree.deprel == ["root", "_"]
    assert format_conllu(tree) == lines + "\n"
    assert format_conllu(NoParse("empty")) == "# no_parse = empty\n\n"
    assert format_conllu(DependencyTree(["a"], [0])) == row(1, "a", 0) + "\n"
    assert format_conllu(DependencyTree([], [])) == "#\n\n"


@pytest.mark.parametrize(
    "lines",
    [
        ["# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC", row(1, "a", 2), row(2, " ", 0)],
        *([row(1, "a", 2), row(2, form, 0)] for form in ("", "\u00a0", "\u3000 ")),  # tokens of white space
        *([f"{row(1, 'a', 2)}{more}", f"{row(2, ' ', 0)}{more}"] for more in ("\t", "\t ", "\t\t")),
    ],
)
def test_conllu_lines_in_other_forms(lines):
    tree = parse_conllu([line.replace("\n", "") for line in lines], path="x", line=1)
    assert format_conllu(tree) == row(1, "a", 2) + row(2, " ", 0) + "\n"


@pytest.mark.parametrize(
    ("text", "tokens", "heads", "others"),
    [
        (
            row(1, "er", 2) + row(2, "geht", 0) + row("3-4", "zum", "_") + row(3, "zu", 5) + row(4, "dem", 5)
            + row("4.1", "x", "_") + row(5, "Haus", 2),
            ["er", "geht", "zum", "Haus"], [2, 0, 4, 2], (1, 3, [0, 1, 2, 4]),
        ),
        # The heads of 1-2 are 3 and 0: one from the first word would give the cycle 1-2 -> 3 -> 1-2.
        (row("1-2", "ab", "_") + row(1, "a", 3) + row(2, "b", 0) + row(3, "c", 2), ["ab", "c"], [0, 1], (1, 3, [1, 2])),
    ],
)  # fmt: skip
def test_conllu_multi_word_tokens_and_empty_nodes(text, tokens, heads, others):
    tree = parse_conllu(text.splitlines(), path="x", line=1)
    assert (tree.tokens, tree.heads, (tree.multiword, tree.depth, tree.head_words)) == (tokens, heads, others)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (block(0) + block(2, 0, 9), 5, "head between 0 and 3, found 9"),
        (block(0) + block(2, 1), 3, "cycle through word 1"),
        (block(0) + block(0, 1, 0), 5, "one root"),
        ("# sentences = 2\n" + block(0, 0, 1, 2), 1, "heads that stay within the 2 sentences"),
        (block(0) + row(1, "a", "9" * 5000), 3, "number of a head"),
        ("# sentences = 2\n" + block(0, 1, 1), 4, "expected 2 roots, one a sentence, found 1"),
        ("# sentences = 2\n" + block(0, 0, 0), 4, "expected 2 roots, one a sentence, found another"),
        (block(0) + row(1, "a", "x"), 3, "number of a head, found 'x'"),
        (block(0) + row(1, "a", 0) + row(3, "b", 1), 4, "word number 2, found '3'"),
        (block(0) + "1 a _ _ _ _ 0 _ _ _\n", 3, "10 tab-separated columns, found 1, and spaces where tabs are"),
        (block(0) + "1\ta  _ _ _\t_ 0 _ _\t_\n", 3, "found 4, and spaces where tabs are expected: put one tab"),
        (block(0) + row(1, "a", 0).strip() + "\tx\n", 3, "10 tab-separated columns, found 11: CoNLL-U has ID FORM "),
        (block(0) + "1\ta" + "\t_" * 12 + "\n", 3, "found 14, as CoNLL-09 and .* have: --parser conll09 and"),
        (
            "# global.columns = ID FORM HEAD\n" + block(0),
            1,
            "CoNLL-U Plus with the columns 'ID FORM HEAD': .* --parser conllup",
        ),
        (block(0) + row("2-1", "a", "_"), 3, "rising range of words after word 0"),
        (block(0) + row("1-2", "ab", "_") + row(1, "a", 0), 3, "only 1 words"),
        (block(0) + row("1-" + "9" * 5000, "ab", "_"), 3, "rising range of words after word 0, found '1-999"),
        (block(0) + row("٣-٤", "ab", "_"), 3, "rising range of words after word 0, found '٣-٤'"),
        (block(0) + row(1, "a", "٠"), 3, "number of a head, found '٠'"),
        (block(0) + row("1-2", "", "_") + row(1, "a", 0), 3, "form of a token of several words, found none"),
        (block(0) + row("a.b", "a", "_"), 3, "word number 1, found 'a.b'"),
        ("# sentences = " + "9" * 5000 + "\n" + block(0), 1, "a number of sentences, found '999"),
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
