"""One sentence: attention and masks of systems, and its trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from syntax_data.errors import InputError
from syntax_data.trees.tree import DependencyTree, Tree
from syntax_experiments.plots.dumps import Dump
from syntax_experiments.plots.table import Table

#: Of so many layers the attention is shown side by side.
MOST_LAYERS = 3
_CELL = ("query", "key", "query_token", "key_token", "value")


def attention_and_masks(dumps: Mapping[str, Dump], sentence: int) -> Table:
    """Each system's masks, and the means over heads of its learned biases and attention, cell by cell.

    Of more than :data:`MOST_LAYERS` layers the first and the last. Queries and keys are numbered from 0.
    """
    rows: list[tuple[object, ...]] = []
    for system, dump in dumps.items():
        tokens = _tokens(dump, sentence)
        masks, attention = dump.array(sentence, "masks"), dump.array(sentence, "attention")
        for name, matrix in zip(dump.masks, () if masks is None else masks, strict=False):
            rows += [(system, f"mask {name}", *cell) for cell in _cells(matrix, tokens)]
        biases = dump.array(sentence, "biases")
        for layer, tables in _some(dump.layers, biases):
            for name, matrices in zip(dump.biases, tables, strict=False):
                rows += [(system, f"bias {name}, layer {layer}", *c) for c in _cells(matrices.mean(axis=0), tokens)]
        for layer, matrices in _some(dump.layers, attention):
            rows += [(system, f"attention, layer {layer}", *cell) for cell in _cells(matrices.mean(axis=0), tokens)]
    return Table(("system", "matrix", *_CELL), rows)


def _some(layers: Sequence[int], arrays: np.ndarray | None) -> list[tuple[int, np.ndarray]]:
    """The layers that are compared, each with its array; none without arrays."""
    found = list(zip(layers, () if arrays is None else arrays, strict=False))
    return found if len(found) <= MOST_LAYERS else [found[0], found[-1]]


def attention_of_heads(dump: Dump, sentence: int) -> Table:
    """One system's attention in every layer and head, cell by cell."""
    attention = dump.array(sentence, "attention")
    tokens = _tokens(dump, sentence)
    rows: list[tuple[object, ...]] = []
    for layer, matrices in zip(dump.layers, () if attention is None else attention, strict=False):
        for head, matrix in enumerate(matrices, start=1):
            rows += [(layer, head, *cell) for cell in _cells(matrix, tokens)]
    return Table(("layer", "head", *_CELL), rows)


def _tokens(dump: Dump, sentence: int) -> list[str]:
    tokens = dump.array(sentence, "tokens")
    if tokens is None:
        raise InputError(dump.path, None, f"expected the tokens of sentence {sentence}, found none")
    return tokens.tolist()


def _cells(matrix: np.ndarray, tokens: Sequence[str]) -> list[tuple[object, ...]]:
    return [(q, k, query, key, float(matrix[q, k])) for q, query in enumerate(tokens) for k, key in enumerate(tokens)]


def constituents(trees: Sequence[Tree]) -> Table:
    """The nodes of a line's trees, from the top down and from left to right; a word's row has no label.

    Words and nodes are numbered from 0; ``parent`` is ``None`` at the top of a tree.
    """
    rows: list[tuple[object, ...]] = []
    words = 0
    stack: list[tuple[Tree | str, int | None]] = [(tree, None) for tree in reversed(trees)]
    while stack:
        node, parent = stack.pop()
        if isinstance(node, str):
            rows.append((len(rows), parent, None, words, node))
            words += 1
        else:
            number = len(rows)
            rows.append((number, parent, node.label, None, None))
            stack.extend((child, number) for child in reversed(node.children))
    return Table(("node", "parent", "label", "word", "form"), rows)


def dependencies(tree: DependencyTree) -> Table:
    """A line's words with their heads, numbered from 1 (0: a root), and relations."""
    rows = zip(range(1, len(tree.tokens) + 1), tree.tokens, tree.upos, tree.heads, tree.deprel, strict=True)
    return Table(("word", "form", "upos", "head", "deprel"), list(rows))
