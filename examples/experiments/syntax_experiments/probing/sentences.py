"""The sentences of a split, whose words are found in its subwords and whose parses give their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from syntax_data.errors import BadParse, InputError
from syntax_data.features.aligned import Settings, align_sentence
from syntax_data.features.distance import greatest_distance, syntactic_distances
from syntax_data.features.feature import INFINITE
from syntax_data.features.sentence import AlignedSentence
from syntax_data.text.alignment import AlignmentError
from syntax_data.text.lines import read_lines
from syntax_data.text.subwords import SENTENCEPIECE_HINT, first_marked_line, subword_reader
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import DependencyTree, Tree
from syntax_experiments.probing.labels import NO_LABEL, top_constituents


@dataclass(frozen=True)
class Sentence:
    """A sentence that can be probed, with m words and n - 1 subwords; :data:`NO_LABEL` where parses give no label.

    Attributes:
        number: its id in the split, from 0.
        word_of: of each subword the index of its word, never falling; every word has one.
        depth: the height of the constituency tree less 1, unary chains collapsed.
        top: see :func:`top_constituents`.
        distances: between each word and the next (Hou 2024, §3.1), ``(m,)``.
        heads: of each word, its head's index from 0, ``(m,)``; none of a root.
    """

    number: int
    words: list[str]
    word_of: np.ndarray
    depth: int
    top: str | None
    distances: np.ndarray
    heads: np.ndarray


def labelled(
    number: int,
    words: list[str],
    word_of: Sequence[int],
    trees: Sequence[Tree] | None,
    dependencies: DependencyTree | None,
) -> Sentence:
    """Return a sentence with the labels that its parses give."""
    depth, top, distances = NO_LABEL, None, np.full(len(words), NO_LABEL)
    if trees is not None:
        found = syntactic_distances(trees)
        depth, top = greatest_distance(found), top_constituents(trees)
        distances[:-1] = [NO_LABEL if d == INFINITE else d for d in found]
    heads = np.full(len(words), NO_LABEL) if dependencies is None else np.array(dependencies.heads) - 1
    return Sentence(number, words, np.array(word_of), depth, top, distances, heads)


def read_sentences(
    tokens: Mapping[int, list[str]], parses: Mapping[str, str], *, count: int, settings: Settings, on_bad_parse: str
) -> tuple[list[Sentence], Counter[str]]:
    """Return the sentences that can be probed, and the number of others by reason.

    A sentence's words are those of its parse, found by its text, as fairseq-syntax-binarize does.

    Args:
        tokens: the n - 1 subwords of some sentences of a split, by number, in order.
        parses: by format, the file that has a parse for each of all `count` sentences of the split.
        on_bad_parse: ``skip`` leaves out sentences with a bad parse or with subwords that make no words, which else are
            a :class:`ValueError`, as is another number of parses.
    """
    if (marked := first_marked_line(tokens.items(), settings.subwords)) is not None:
        raise ValueError(f"sentence {marked} of the split (from 0): {SENTENCEPIECE_HINT}")
    read_subwords = subword_reader(settings.subwords)
    found: list[Sentence] = []
    left_out: Counter[str] = Counter()
    bad = BadParses(on_bad_parse)
    read = {kind: _parses(kind, path, tokens, count, bad) for kind, path in parses.items()}
    for number, subwords in tokens.items():
        where = f"sentence {number} of the split (from 0)"
        try:
            split = read_subwords(subwords)
        except AlignmentError as error:
            if not bad.skips:
                raise ValueError(f"{where}: {error}") from None
            left_out["subwords that make no words"] += 1
            continue
        of_kinds = {kind: of_kind[number][1] for kind, of_kind in read.items()}
        aligned = align_sentence(" ".join(subwords), split, of_kinds, settings=settings)
        for kind, mismatch in () if aligned.symbols else aligned.mismatches.items():
            bad.no_parse(BadParse(parses[kind], read[kind][number][0], f"{where}: {mismatch}", "mismatch"))
        trees = aligned.trees if isinstance(aligned.trees, list) else None
        heads = aligned.dependencies if isinstance(aligned.dependencies, DependencyTree) else None
        if reason := _reason(aligned, trees, heads):
            left_out[reason] += 1
        else:
            found.append(labelled(number, aligned.words, aligned.word_of, trees, heads))
    return found, left_out


def _reason(aligned: AlignedSentence, trees: list[Tree] | None, heads: DependencyTree | None) -> str | None:
    """Return the first reason why a sentence cannot be probed."""
    words = list(dict.fromkeys(aligned.word_of))
    reasons = {
        "words that its parse has not (--symbols)": aligned.symbols,
        "a parse of another text": aligned.mismatches,
        "no parse": trees is None and heads is None,
        "constituents over other words than dependencies": trees and heads and aligned.word_of != aligned.word_of_leaf,
        "a word without a subword of its own": words != list(range(len(aligned.words))),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _parses(
    kind: str, path: str, chosen: Mapping[int, object], count: int, bad: BadParses
) -> dict[int, tuple[int, object]]:
    """Return the parses of the chosen sentences with their first lines; no other is read."""
    entries = list(FORMATS[kind].entries(read_lines(path)))
    while len(entries) > count and FORMATS[kind].blank(entries[-1][1]):
        entries.pop()
    if len(entries) != count:
        expected = f"expected {count} parses, one for each sentence of the split"
        raise InputError(path, None, f"{expected}, found {len(entries)}")
    parse = FORMATS[kind].parse
    return {n: (entries[n][0], bad.read(parse, entries[n][1], path=path, line=entries[n][0])) for n in chosen}
