"""Alignment of a sentence's subwords with its parses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from syntax_data.controls import Control, SentencePool
from syntax_data.errors import short_repr
from syntax_data.features.distance import syntactic_distances
from syntax_data.features.feature import INFINITE
from syntax_data.features.sentence import AlignedSentence
from syntax_data.text.alignment import AlignmentError, Subwords, align
from syntax_data.text.subwords import read_markers, subword_kind
from syntax_data.text.symbols import symbol_pattern
from syntax_data.trees.bad_parses import ON_BAD_PARSE
from syntax_data.trees.categories import word_categories
from syntax_data.trees.formats import CONLLU, FORMATS, TREES, ParseFormat
from syntax_data.trees.tree import NoParse


@dataclass(frozen=True)
class Settings:
    """Options of fairseq-syntax-binarize that features depend on.

    Attributes:
        vocabulary: SHA-256 of the file of subwords that need one.

    Raises :class:`ValueError` for an invalid value.
    """

    subwords: str = "subword_nmt"
    on_bad_parse: str = "error"
    binarize_trees: str = "none"
    control: str | None = None
    symbols: str = ""
    markers: str = ""
    vocabulary: str | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                expected = ", ".join(choices)
                raise ValueError(f"{name}: expected one of {expected}, found {short_repr(getattr(self, name))}")
        subword_kind(self.subwords)
        symbol_pattern(self.symbols)
        read_markers(self.markers)
        if self.control is not None:
            Control.read(self.control)


_CHOICES = {"on_bad_parse": ON_BAD_PARSE, "binarize_trees": ("none", "left", "right")}


def align_sentence(
    text: str, subwords: Subwords, parses: Mapping[str, Any], *, settings: Settings, pool: SentencePool | None = None
) -> AlignedSentence:
    """Align the subwords of `text` with its parses, or with a control's.

    A parse of another text is left out, and the difference is in ``mismatches``. A dependency tree is over words where
    the text has the words of its multi-word tokens, and not the tokens. `pool` is for ``shuffled``.
    """
    subwords, symbols = symbol_pattern(settings.symbols).take_out(subwords)
    aligned = AlignedSentence(subwords.words, subwords.word_of, subwords.word_of, {}, symbols=symbols)
    for kind in FORMATS:
        if (parse := parses.get(kind)) is None:
            continue
        if not isinstance(parse, NoParse):
            try:
                aligned.word_of, aligned.words, parse = _align(subwords, parse, FORMATS[kind])
                if kind == TREES.name:
                    aligned.word_of_leaf = aligned.word_of
            except AlignmentError as error:
                message = f"{error}{FORMATS[kind].hint(parse)}"
                parse, aligned.mismatches[kind] = NoParse("mismatch"), AlignmentError(message)
        aligned.parses[kind] = parse
    labelled = aligned.trees
    if settings.control:
        control = Control.read(settings.control)
        of_symbols = {i for symbol in symbols for i in symbol}
        # The same in a file and at inference.
        plain = " ".join(token for i, token in enumerate(text.split()) if i not in of_symbols)
        trees, dependencies = control.parses(aligned.trees, aligned.dependencies, text=plain, pool=pool)
        drawn = {TREES.name: trees, CONLLU.name: dependencies}
        aligned.parses = {kind: drawn[kind] for kind in aligned.parses}
        labelled = aligned.trees if control.draws_categories else labelled
    if isinstance(aligned.trees, list) and isinstance(labelled, list):
        aligned.distances = syntactic_distances(aligned.trees, binarize=settings.binarize_trees)
        aligned.categories = word_categories(labelled)
    return aligned


def _align(subwords: Subwords, parse: Any, parses: ParseFormat) -> tuple[list[int], list[str], Any]:
    """Return each subword's word, the words, and the parse: over words where the text has these, not its tokens."""
    tokens = parses.tokens(parse)
    if len(tokens) >= INFINITE:
        raise AlignmentError(f"expected fewer than {INFINITE} words in a line, found {len(tokens)}")
    try:
        return align(subwords, tokens), tokens, parse
    except AlignmentError:
        if (over_words := parses.over_words(parse)) is not None:
            with suppress(AlignmentError):
                return _align(subwords, over_words, parses)
        raise
