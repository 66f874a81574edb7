"""``random-tags`` and ``dummy-tags``: the tree and the heads stay, the words' labels are others.

Under ``random-tags`` the parts of speech of a line's words are in random order. Under ``dummy-tags`` each word form has
one part of speech, one relation and one category of each level, drawn once for all text, with equal chance (a control
task of Hewitt and Liang 2019): a model may learn them by heart, word by word, but they tell nothing of syntax.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from random import Random

from syntax_data.trees.categories import CHAIN, with_categories
from syntax_data.trees.tree import DependencyTree, Tree

#: The columns of CoNLL-U that belong together: UPOS, XPOS and FEATS.
_TAGS = slice(3, 6)
_DEPREL = 7
#: How many labels ``dummy-tags`` draws from: as Universal Dependencies 2 has, and the Penn Treebank.
_UPOS_COUNT, _DEPREL_COUNT, _CATEGORY_COUNT = 17, 37, 26


def random_tags(dependencies: DependencyTree, seed: str) -> DependencyTree:
    """Give each word UPOS, XPOS and FEATS of a random one of the line's words; each is given once."""
    columns = [list(row) for row in dependencies.columns]
    drawn = Random(f"{seed} tags").sample(dependencies.columns, len(columns))
    for row, other in zip(columns, drawn, strict=True):
        row[_TAGS] = other[_TAGS]
    return replace(dependencies, columns=columns)


def dummy_tags(dependencies: DependencyTree, seed: int) -> DependencyTree:
    """Give each word the UPOS (``tag1`` to ``tag17``) and DEPREL (``dep1`` to ``dep37``) of its form."""
    columns = [list(row) for row in dependencies.columns] or [["_"] * 10 for _ in dependencies.tokens]
    for row, form in zip(columns, dependencies.tokens, strict=True):
        row[_TAGS] = [_drawn("tag", _UPOS_COUNT, form, seed), "_", "_"]
        row[_DEPREL] = _drawn("dep", _DEPREL_COUNT, form, seed)
    return replace(dependencies, columns=columns)


def dummy_categories(trees: list[Tree], seed: int) -> list[Tree]:
    """Give each word, and each bracket for its first word, the categories of its form, ``cat1`` to ``cat26``."""
    drawn: list[tuple[str, ...]] = []
    dummies = []
    for tree in trees:
        words = tree.leaves()
        chains = [_dummy_chain(form, seed) for form in words]
        dummies.append(Tree.from_brackets(words, {span: chains[span[0]][0] for span in tree.brackets()}))
        drawn += chains
    return with_categories(dummies, drawn)


def _dummy_chain(form: str, seed: int) -> tuple[str, ...]:
    names = [form, *(f"{form} {level}" for level in range(2, CHAIN + 1))]
    return tuple(_drawn("cat", _CATEGORY_COUNT, name, seed) for name in names)


def _drawn(kind: str, count: int, form: str, seed: int) -> str:
    """The label of a form, the same in all text."""
    text = f"{seed} {kind} {form}".encode("utf-8", "surrogatepass")
    return f"{kind}{1 + int.from_bytes(blake2b(text, digest_size=8).digest(), 'big') % count}"
