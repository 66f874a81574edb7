"""The sentences of a split, whose words are found in its subwords and whose parses give their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from syntax_data.errors import BadParse, InputError
from syntax_data.features.aligned import Settings, align_sentence
from syntax_data.text.alignment import AlignmentError
from syntax_data.text.lines import read_lines
from syntax_data.text.subwords import SENTENCEPIECE_HINT, first_marked_line, subword_reader
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import DependencyTree
from syntax_experiments.probing.probed_labels import ProbeLabels, labels_of


@dataclass(frozen=True)
class Sentence:
    """A sentence that can be probed, with m words and n - 1 subwords."""

    number: int  # its id in the split, from 0
    words: list[str]
    word_of: np.ndarray  # for each subword the index of its word, never falling; every word has one
    labels: ProbeLabels


def read_sentences(
    tokens: Mapping[int, list[str]], parses: Mapping[str, str], *, count: int, settings: Settings, on_bad_parse: str
) -> tuple[list[Sentence], Counter[str]]:
    """Return the sentences that can be probed, and the number of others by reason.

    A sentence's words are those of its parse, found by its text, as fairseq-syntax-binarize does.

    Args:
        tokens: the n - 1 subwords of some sentences of a split, by number, in order.
        parses: by format, the file that has a parse for each sentence of the split.
        count: the number of sentences of the split.
        settings: how subwords are marked, and which words are symbols; a sentence with some is left out.
        on_bad_parse: ``skip`` leaves out sentences with a bad parse or with subwords that make no words.

    Raises :class:`InputError` for another number of parses than sentences, and for a parse that is broken or of
    another text; :class:`ValueError` for subwords that are not marked so.
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
        if aligned.symbols:
            left_out["words that its parse has not (--symbols)"] += 1
        elif aligned.mismatches:
            left_out["a parse of another text"] += 1
        elif trees is None and heads is None:
            left_out["no parse"] += 1
        elif trees is not None and heads is not None and aligned.word_of != aligned.word_of_leaf:
            left_out["constituents over other words than dependencies"] += 1
        elif list(dict.fromkeys(aligned.word_of)) != list(range(len(aligned.words))):
            left_out["a word without a subword of its own"] += 1
        else:
            labels = labels_of(len(aligned.words), trees, heads)
            found.append(Sentence(number, aligned.words, np.array(aligned.word_of), labels))
    return found, left_out


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
