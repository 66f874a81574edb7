"""Tags of languages and placeholders, which the parser never saw: ``--symbols``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from syntax_data.errors import InputError, describe_path, short_repr
from syntax_data.text.alignment import Subwords
from syntax_data.text.lines import read_lines, tokenize_line

_LOOKS_LIKE_ONE = re.compile(
    r"<[^<>\s]+>|\[(?!UNK\])[^][\s]+\]|\{[^{}\s]+\}|⟨[^⟨⟩\s]+⟩|｟[^｟｠\s]+｠|&lt;\S+?&gt;|>>\w+<<|__\w+__|@\w+@|\b[a-z]{2}_[A-Z]{2}\b"
)

HELP = (
    "comma-separated words that the parser never saw: tags of languages, placeholders. Each * in one is any "
    "characters: '<2*>,<num>'. @FILE reads them from a file, one a line. They are taken out of the text before it is "
    "compared with the parse, and are words of their own outside of the tree; fairseq-interactive hides them from the "
    "parser of new text (default: none)"
)


def read_option(value: str) -> str:
    """Return the symbols of a value of ``--symbols``; of ``@FILE``, its lines.

    Raises :class:`InputError` for the file, :class:`ValueError` for a pattern that could be any word.
    """
    if value.startswith("@"):
        path = value[1:]
        if not os.path.isfile(path):
            also = "a symbol that begins with @ is named in such a file"
            raise InputError(path, None, f"expected a file of --symbols, found {describe_path(path)}; {also}")
        lines = [(number, line.strip()) for number, line in read_lines(path) if line.strip()]
        for number, line in lines:
            if "," in line:
                raise InputError(path, number, f"expected a symbol without commas, found {short_repr(line)}")
            try:
                SymbolPattern.read(line)
            except ValueError as error:
                raise InputError(path, number, str(error)) from None
        value = ",".join(line for _, line in lines)
    elif os.path.isfile(value):
        raise ValueError(f"--symbols: {value} is a file; @{value} reads symbols from it")
    SymbolPattern.read(value)
    return value


@dataclass(frozen=True)
class SymbolPattern:
    """Which words are symbols.

    One is found wherever it is no part of a longer word: ``<num>`` in ``<num>.`` and ``x<num>``, ``BT`` not in ``BTU``.

    Attributes:
        expression: matches each; ``None``: there are none.
    """

    expression: re.Pattern[str] | None

    @classmethod
    def read(cls, written: str) -> SymbolPattern:
        """The pattern of ``--symbols``; :class:`ValueError` if it could be any word."""
        if not written:
            return cls(None)
        patterns = written.split(",")
        for pattern in patterns:
            if not pattern.strip("*") or pattern.split() != [pattern]:
                expected = "words between commas, each with more than *"
                raise ValueError(f"--symbols: expected {expected}, found {short_repr(written)}")
        return cls(re.compile("|".join(map(_expression, patterns))))

    def without(self, text: str) -> str:
        """Return a line without its symbols; as it is, if it has none."""
        if self.expression is None or not self.expression.search(text):
            return text
        return re.sub(rf"\s*(?:{self.expression.pattern})\s*", " ", text).strip()

    def rest(self, tokens: Sequence[str]) -> Sequence[str]:
        """Return the subwords of a line, with their marks, without its symbols."""
        return tokens if self.expression is None else tokenize_line(self.without(" ".join(tokens)))

    def take_out(self, subwords: Subwords) -> tuple[Subwords, list[range]]:
        """The subwords without those of symbols, and the subwords of each symbol.

        A symbol whose subwords are also those of other text is none.
        """
        if self.expression is None or not self.expression.search(" ".join(subwords.words)):
            return subwords, []
        symbols: list[range] = []
        first = 0
        while first < len(subwords.pieces):
            end = first
            while end < len(subwords.pieces) and subwords.word_of[end] == subwords.word_of[first]:
                end += 1
            symbols += self._in_word(subwords, range(first, end))
            first = end
        return _rest(subwords, symbols), symbols

    def _in_word(self, subwords: Subwords, word: range) -> Iterable[range]:
        assert self.expression is not None
        starts: dict[int, int] = {}  # by place in the word, the subwords that start and end there
        ends: dict[int, int] = {}
        end = 0
        for i in word:
            piece = subwords.pieces[i]
            start, end = end + len(piece) - len(piece.lstrip("▁").lstrip()), end + len(piece)
            if i not in subwords.inside:
                starts.setdefault(start, i)  # with the mark of a space before it
            ends[end] = i  # with all bytes of its last character
        for match in self.expression.finditer("".join(subwords.pieces[i] for i in word)):
            if match.start() in starts and match.end() in ends:
                yield range(starts[match.start()], ends[match.end()] + 1)


symbol_pattern = lru_cache(maxsize=8)(SymbolPattern.read)


def _expression(pattern: str) -> str:
    """The expression of one symbol, which begins and ends where a word can."""
    *parts, last = (re.escape(part) for part in pattern.split("*"))
    inside = r"[^\s▁]*?".join([*parts, last])
    before = r"(?<![^\s▁])" if pattern[0] == "*" else r"(?<!\w)" if re.match(r"\w", pattern[0]) else ""
    after = r"(?![^\s▁])" if pattern[-1] == "*" else r"(?!\w)" if re.match(r"\w", pattern[-1]) else ""
    return f"{before}{inside}{after}"


def _rest(subwords: Subwords, symbols: list[range]) -> Subwords:
    taken = {i for symbol in symbols for i in symbol}
    rest = Subwords([], [], [], accents=subwords.accents)
    inside, unknown = [], []
    for i, piece in enumerate(subwords.pieces):
        if i in taken:
            continue
        begins = not i or i - 1 in taken or subwords.word_of[i] != subwords.word_of[i - 1]
        if begins and (not rest.words or rest.words[-1]):  # white space alone is of the word that follows
            rest.words.append("")
        if i in subwords.inside:
            inside.append(len(rest.pieces))
        if i in subwords.unknown:
            unknown.append(len(rest.pieces))
        rest.word_of.append(len(rest.words) - 1)
        rest.words[-1] += "".join(piece.replace("▁", " ").split())
        rest.pieces.append(piece)
    rest.inside, rest.unknown = frozenset(inside), frozenset(unknown)
    return rest


def advice(words: Iterable[str], symbols: str) -> str:
    """Advice for a message about another text, if a word looks like a symbol."""
    found = next((match[0] for word in words if (match := _LOOKS_LIKE_ONE.search(word))), None)
    if found is None:
        return ""
    expression = symbol_pattern(symbols).expression
    if expression and expression.fullmatch(found):
        return f"; the symbol {found!r} must have subwords of its own, and be no part of the parse"
    return f"; --symbols names words that the parser never saw, perhaps {found!r}"
