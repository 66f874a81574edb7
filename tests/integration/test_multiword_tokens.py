"""CoNLL-U with multi-word tokens, for text that has either these tokens or their words."""

from __future__ import annotations

from pathlib import Path

import pytest

from binarizing import rows, run, write
from syntax_data.commands import parse
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import DependencyTree

IM_HAUS = """1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_
1\tin\tin\tADP\t_\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\t_\t_\t3\tdet\t_\t_
3\tHaus\tHaus\tNOUN\t_\t_\t0\troot\t_\t_

"""
DONT = """1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\t_\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_
4-5\tzum\t_\t_\t_\t_\t_\t_\t_\t_
4\tzu\tzu\tADP\t_\t_\t3\tcase\t_\t_
5\tdem\tder\tDET\t_\t_\t3\tdet\t_\t_

"""
NO_RANGE = IM_HAUS[IM_HAUS.index("1\tin") :]


def given(folder: Path, text: str, conllu: str) -> DependencyTree:
    """The dependency tree of a line that fairseq-syntax-parse writes."""
    (folder / "train.en").write_text(f"{text}\n", encoding="utf-8")
    (folder / "given.conllu").write_text(conllu, encoding="utf-8")
    parse.main([f"--input={folder}/train.en", "--parser=conllu", f"--parse-file={folder}/given.conllu"])
    ((_, tree),) = CONLLU.read(f"{folder}/train.en.conllu")
    return tree


@pytest.mark.parametrize(
    ("text", "conllu", "heads", "multiword"),
    [
        ("im Haus", IM_HAUS, [2, 0], 1),
        ("Im Haus", IM_HAUS, [2, 0], 1),
        ("in dem Haus", IM_HAUS, [3, 3, 0], 0),
        ("in dem Haus", NO_RANGE, [3, 3, 0], 0),
        ("don't go zum", DONT, [2, 0, 2], 2),
        ("don 't go zum", DONT, [2, 0, 2], 2),  # the same text as the tokens'
        ("do n't go zu dem", DONT, [3, 3, 0, 3, 3], 0),
    ],
)
def test_trees_are_over_tokens_or_over_words(tmp_path, capsys, text, conllu, heads, multiword):
    tree = given(tmp_path, text, conllu)
    assert tree.heads == heads
    assert f"{len(heads)} tokens ({multiword} of several words)" in capsys.readouterr().out
    found = []
    for name, content in (("parsed", None), ("given", conllu)):
        (folder := tmp_path / name).mkdir()
        content = content or (tmp_path / "train.en.conllu").read_text(encoding="utf-8")
        run(write(folder, text=f"{text}\n", trees=None, conllu=content))
        found.append([rows(folder, feature) for feature in ("word", "head", "deprel", "upos")])
    assert found[0] == found[1]


@pytest.mark.parametrize("sentences", [["in dem Haus", "im Haus"], ["im Haus", "in dem Haus", "im Haus"]])
def test_each_sentence_of_a_line_is_over_tokens_or_over_words(tmp_path, sentences):
    tree = given(tmp_path, text := " ".join(sentences), IM_HAUS * len(sentences))
    assert (tree.tokens, tree.sentences) == (text.split(), len(sentences))
    assert [i for i, head in enumerate(tree.heads) if not head] == [i for i, w in enumerate(tree.tokens) if w == "Haus"]


@pytest.mark.parametrize(
    ("text", "conllu", "expected"),
    [
        ("im Haus", NO_RANGE, r"the text has 'im' 'Haus' \(from word 1 on\), the parse 'in' 'dem' 'Haus'"),
        ("in das Haus", IM_HAUS, r"the parse 'im' 'Haus' .*; .* over words, 'in dem Haus', is another text, too"),
        ("do n't go zu den", DONT, r"the text has 'den' .*, the parse 'zum' .* over words, \"do n't go zu dem\", is"),
        ("am Haus", IM_HAUS, r"the text has 'am' .*, the parse 'im' .*; the parse over words, 'in dem Haus', is"),
    ],
)  # fmt: skip
def test_another_text_than_tokens_and_words_is_refused(tmp_path, text, conllu, expected):
    with pytest.raises(SystemExit, match=rf"given\.conllu:1: .*train\.en:1: expected the same text .*{expected}"):
        given(tmp_path, text, conllu)
    with pytest.raises(SystemExit, match=rf"train\.en\.conllu:1: .*train\.en:1: expected the same text .*{expected}"):
        run(write(tmp_path, text=f"{text}\n", trees=None, conllu=conllu))


def test_shuffled_trees_are_over_the_words_of_their_text(tmp_path):
    """Of three words there are two trees, both over words."""
    other = "1\ta\t_\t_\t_\t_\t2\t_\t_\t_\n2\tb\t_\t_\t_\t_\t0\t_\t_\t_\n3\tc\t_\t_\t_\t_\t2\t_\t_\t_\n\n"
    write(tmp_path, text="in dem Haus\na b c\nim Haus\n", trees=None, conllu=IM_HAUS + other + IM_HAUS)
    run(tmp_path, "--control=shuffled")
    heads = rows(tmp_path, "head")
    run(write(tmp_path, text="in dem Haus\na b c\nim Haus\n", trees=None, conllu=NO_RANGE + other + IM_HAUS))
    plain = rows(tmp_path, "head")
    assert heads == [plain[1], plain[0], []]
