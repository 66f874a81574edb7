"""``head``: 0 for a root and ``</s>``, else 1 + the index of the head's word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from syntax_data.features.feature import Feature, Rows, Wrong
from syntax_data.features.sentence import AlignedSentence
from syntax_data.features.word import insert_symbol_words, inside_a_word, word_feature
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import DependencyTree


def head_feature(word_of: Sequence[int], tree: DependencyTree) -> list[int]:
    """``head`` for the n - 1 subwords of `word_of` and ``</s>``.

    A word whose head has no subword depends on its nearest ancestor that has one.
    """
    heads = tree.heads
    if len(set(word_of)) == len(heads):
        return [*(heads[word] for word in word_of), 0]
    end = len(heads)  # the number of </s> as a word
    return _reattached(np.array([*heads, 0]), np.arange(end + 1), np.array([*word_of, end])).tolist()


def _reattached(values: np.ndarray, word: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """``head`` of the subwords `kept`: a word whose head is not among them depends on its nearest ancestor that is.

    Raises :class:`ValueError` if the heads of other words lead into a cycle.
    """
    numbers = word[kept] + 1  # of words, from 1, as in `values`
    number_of_words = int(word[-1]) + 1
    is_kept = np.zeros(number_of_words + 1, bool)
    is_kept[0] = True
    is_kept[numbers] = True
    above = np.zeros(number_of_words + 1, values.dtype)  # as many steps up as are taken at once, to a word that is kept
    above[word + 1] = values
    above[numbers] = numbers
    heads = values[kept]
    for _ in range(number_of_words.bit_length() + 1):  # each iteration doubles the number of steps
        lost = ~is_kept[heads]
        if not lost.any():
            return (np.cumsum(is_kept) - 1)[heads].astype(values.dtype)
        heads, above = above[heads], above[above]
    word_in_cycle = int(heads[lost].max()) - 1
    raise ValueError(f"expected heads that lead to a root, found a cycle through word {word_in_cycle} (from 0)")


class Head(Feature):
    name = "head"
    source = CONLLU.name

    def values(self, sentence: AlignedSentence, _: Callable[[str], int]) -> list[int]:
        tree = sentence.dependencies
        return head_feature(sentence.word_of, tree) if isinstance(tree, DependencyTree) else []

    def with_symbols(self, values: list[int], sentence: AlignedSentence) -> list[int]:
        """A symbol is a root; inside of a word it has that word's head."""
        words, new = insert_symbol_words(word_feature(sentence.word_of), sentence.symbols)
        for number in new:
            values = [head + (head > number) for head in values]
        for symbol in sentence.symbols:
            head = values[symbol.start] if inside_a_word(words, symbol.start) else 0
            values = [*values[: symbol.start], *[head] * len(symbol), *values[symbol.start :]]
        return values

    def resegmented(self, values: np.ndarray, first_in: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """A word in whose head no subword begins depends on its nearest ancestor in which one does.

        Needs ``word`` in `features`. Raises :class:`ValueError` if the heads of words without one lead into a cycle.
        """
        return _reattached(values, features["word"], first_in)

    def wrong(self, rows: Rows, features: Mapping[str, Rows], _labels: Sequence[str]) -> Wrong:
        yield rows.last & (rows.values != 0), "no head for </s>"
        if "word" not in features:
            return
        words = features["word"]
        parsed = rows.lengths > 0
        word = words.values[np.repeat(parsed, words.lengths)]
        lengths = rows.lengths[parsed]
        number_of_words = word[rows.last]
        yield rows.values > np.repeat(number_of_words, lengths), "a head among the sentence's words"
        same_word = ~rows.first & (np.diff(word, prepend=-1) == 0)
        yield same_word & (np.diff(rows.values, prepend=0) != 0), "one head for all subwords of a word"
        # All sentences' words are nodes, </s> too, and before them, for each sentence, number 0, above the roots.
        nodes = number_of_words + 2
        above = np.repeat(np.cumsum(nodes) - nodes, lengths)
        node = above + word + 1
        ancestor = np.arange(nodes.sum())
        ancestor[node] = above + rows.values
        for _ in range(int(nodes.max(initial=1)).bit_length()):
            ancestor = ancestor[ancestor]
        yield ancestor[node] != above, "a head from which heads lead to a root, not into a cycle"
