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
        ("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat))))", 4),
        ("(S a) (S (X b c) d)", 3),  # two sentences on a line
    ],
)
def test_unary_chains_count_once(brackets, expected):
    assert height(parse_brackets(brackets, path="x", line=1)) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", 0),
        ("NOUN 0 root, ADJ 1 amod", 1),
        ("VERB 0 root, VERB 0 root", 2),
        ("VERB 0 root, VERB 1 acl:relcl, VERB 1 xcomp, VERB 1 advcl", 4),
        ("VERB 0 root, VERB 1 ccomp, VERB 1 csubj:pass, NOUN 1 parataxis", 4),
        ("VERB 0 root, VERB 1 conj, NOUN 1 obj, NOUN 3 conj, AUX 1 conj", 3),
    ],
)
def test_clauses_are_counted_by_sentences_and_relations(words, expected):
    entry = [f"# sentences = {words.count('root')}"] if words else ["# empty"]
    for i, word in enumerate(words.split(", ") if words else [], start=1):
        upos, head, relation = word.split()
        entry.append(f"{i}\tw\t_\t{upos}\t_\t_\t{head}\t{relation}\t_\t_")
    assert clauses(parse_conllu(entry, path="x", line=1)) == expected
