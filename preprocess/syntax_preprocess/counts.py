"""How many units have a parse, and why the others have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from syntax_preprocess.errors import shown

_REASONS = 8  # that a report lists
_LONGEST_REASON = 100  # characters that it shows


@dataclass
class ParseCounts:
    """Counts of units of one kind of parse, or of a text's.

    Attributes:
        parsed: how many have a parse.
        no_parse: how many have none, by reason.
    """

    parsed: int = 0
    no_parse: Counter[str] = field(default_factory=Counter)

    @property
    def units(self) -> int:
        """All of them."""
        return self.parsed + self.no_parse.total()

    def update(self, other: ParseCounts) -> None:
        """Adds what was counted elsewhere."""
        self.parsed += other.parsed
        self.no_parse.update(other.no_parse)

    def __str__(self) -> str:
        """For people: ``2 parsed (33.33%), without a parse: 2 empty, 1 failed``."""
        return f"{self.parsed} parsed ({self.parsed / max(self.units, 1):.2%}), without a parse: {self.reasons() or 0}"

    def reasons(self) -> str:
        """How many have no parse for which reason, the most frequent ones first; empty if all have one."""
        frequent = Counter(dict(sorted(self.no_parse.items()))).most_common()
        listed = [f"{n} {short_reason(reason)}" for reason, n in frequent[:_REASONS]]
        others = sum(n for _, n in frequent[_REASONS:])
        return ", ".join([*listed, *([f"{others} others"] if others else [])])

    def as_dict(self) -> dict[str, int]:
        """For JSON: ``parsed``, and ``no_parse.REASON`` for each reason, sorted."""
        return {**{f"no_parse.{reason}": n for reason, n in sorted(self.no_parse.items())}, "parsed": self.parsed}

    @staticmethod
    def reasons_in(content: Mapping[str, int]) -> Counter[str]:
        """The attribute `no_parse` of what :meth:`as_dict` gave."""
        prefix = "no_parse."
        return Counter({key.removeprefix(prefix): n for key, n in content.items() if key.startswith(prefix)})


def short_reason(reason: str) -> str:
    """A reason as messages show it: whoever made the parses may have written a long one."""
    return reason if len(reason) <= _LONGEST_REASON else shown(reason)
