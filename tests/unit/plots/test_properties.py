"""Height, and clauses."""

from __future__ import annotations

import pytest

from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.conllu import parse_conllu
from syntax_experiments.plots.properties import clauses, height


@pytest.mark.parametrize(
    ("brackets", "expected"),
    [
        ("(ROOT (NN dog))", 1),
        ("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))", 3),
        ("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat))))", 4),
        ("(S a) (S (X b c) d)", 3),  # two sentences on a line
    ],
)
def test_unary_chains_count_once(brackets, expected):
    assert height(parse_brackets(brackets, path="x", line=1)) == expected


def tree(*words: tuple[str, int, str], sentences: int = 1):
    rows = [f"{i}\tw\t_\t{upos}\t_\t_\t{head}\t{rel}\t_\t_" for i, (upos, head, rel) in enumerate(words, start=1)]
    return parse_conllu([f"# sentences = {sentences}", *rows], path="x", line=1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([("NOUN", 0, "root"), ("ADJ", 1, "amod")], 1),
        ([("VERB", 0, "root"), ("VERB", 1, "acl:relcl"), ("VERB", 1, "xcomp"), ("VERB", 1, "advcl")], 4),
        ([("VERB", 0, "root"), ("VERB", 1, "ccomp"), ("VERB", 1, "csubj:pass"), ("NOUN", 1, "parataxis")], 4),
        ([("VERB", 0, "root"), ("VERB", 1, "conj"), ("NOUN", 1, "obj"), ("NOUN", 3, "conj"), ("AUX", 1, "conj")], 3),
    ],
)
def test_clauses_are_counted_by_relations(words, expected):
    assert clauses(tree(*words)) == expected


def test_every_sentence_of_a_line_has_a_clause():
    assert clauses(tree(("VERB", 0, "root"), ("VERB", 0, "root"), sentences=2)) == 2
    assert clauses(parse_conllu(["# empty"], path="x", line=1)) == 0
