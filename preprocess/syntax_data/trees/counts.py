"""Counts of parses, and of the reasons why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Self

from syntax_data.errors import short_repr

_NO_PARSE = "no_parse."
_REASONS = 8  # that a report lists
_LONGEST_REASON = 100  # characters that it shows


@dataclass
class ParseCounts:
    """Numbers of parses or lines with a parse, and of those without, by reason."""

    parsed: int = 0
    no_parse: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All of them."""
        return self.parsed + self.no_parse.total()

    def update(self, other: ParseCounts) -> None:
        """Add other counts, as far as these have them."""
        self.no_parse.update(other.no_parse)
        for name in _numbers(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        """The report: ``2 parsed (33.33%), without a parse: 2 empty, 1 failed``."""
        return f"{self.parsed} parsed ({self.parsed / max(self.total, 1):.2%}), without a parse: {self.reasons() or 0}"

    def reasons(self) -> str:
        """The reasons for no parse with their counts, most frequent first."""
        frequent = Counter(dict(sorted(self.no_parse.items()))).most_common()
        listed = [f"{n} {short_reason(reason)}" for reason, n in frequent[:_REASONS]]
        others = sum(n for _, n in frequent[_REASONS:])
        return ", ".join([*listed, *([f"{others} others"] if others else [])])

    def as_dict(self) -> dict[str, int]:
        """For JSON: numbers by name; those without a parse under ``no_parse.REASON``."""
        numbers = {name: getattr(self, name) for name in _numbers(self)}
        return dict(sorted({**numbers, **{f"{_NO_PARSE}{reason}": n for reason, n in self.no_parse.items()}}.items()))

    @classmethod
    def from_dict(cls, content: Mapping[str, int]) -> Self:
        """The counts from :meth:`as_dict`."""
        no_parse = {k.removeprefix(_NO_PARSE): n for k, n in content.items() if k.startswith(_NO_PARSE)}
        return cls(no_parse=Counter(no_parse), **{name: content.get(name, 0) for name in _numbers(cls)})


@dataclass
class TextCounts(ParseCounts):
    """Counts of lines of text, and of the contents of those that have a parse.

    These are surface tokens, those of several words (``multiword``), sentences, and lines of several (``split_lines``).
    """

    tokens: int = 0
    multiword: int = 0
    sentences: int = 0
    split_lines: int = 0

    def __str__(self) -> str:
        return (
            f"{self.total} lines: {super().__str__()}; {self.tokens} tokens ({self.multiword} of several words) in "
            f"{self.sentences} sentences ({self.split_lines} lines have several)"
        )


def _numbers(counts: ParseCounts | type[ParseCounts]) -> list[str]:
    return [attribute.name for attribute in fields(counts) if attribute.name != "no_parse"]


def short_reason(reason: str) -> str:
    """A reason for a message, cut if it is long."""
    return reason if len(reason) <= _LONGEST_REASON else short_repr(reason)
