"""The option ``--control``, and the parses that it draws instead of a sentence's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from random import Random

from syntax_data.controls.from_length import FROM_LENGTH, control_heads, control_trees
from syntax_data.controls.noise import noisy_heads, noisy_tree
from syntax_data.controls.shuffled import SentencePool
from syntax_data.trees.tree import DependencyTree, NoParse, Tree

#: The kinds of controls; ``noise`` has its percentage after a colon.
KINDS = (*FROM_LENGTH, "shuffled", "noise", "no-parse")

_SPELLED = re.compile(r"(?P<kind>[a-z-]+)(:(?P<percent>[0-9]{1,3}))?(@(?P<seed>[0-9]{1,9}))?")

Trees = list[Tree] | NoParse | None
Dependencies = DependencyTree | NoParse | None


@dataclass(frozen=True)
class Control:
    """A control.

    Attributes:
        kind: one of :data:`KINDS`.
        percent: of the heads and brackets that ``noise`` replaces, 0 to 100.
        seed: of the control's random parses.
    """

    kind: str
    percent: int = 0
    seed: int = 0

    @staticmethod
    @cache
    def read(text: str) -> Control:
        """The control of a value of ``--control``: ``flat``, ``noise:20``, ``random@2`` …

        Raises :class:`ValueError` for an invalid value.
        """
        spelled = _SPELLED.fullmatch(text)
        if spelled is None or (kind := spelled["kind"]) not in KINDS:
            raise ValueError(f"--control: expected {spelling(KINDS)}, found {text!r}")
        if (kind == "noise") != (spelled["percent"] is not None) or int(spelled["percent"] or 0) > 100:
            raise ValueError(
                f"--control: expected a percentage, an integer from 0 to 100, after noise: and no other control, "
                f"found {text!r}"
            )
        return Control(kind, int(spelled["percent"] or 0), int(spelled["seed"] or 0))

    def __str__(self) -> str:
        """As :meth:`read` reads it."""
        percent = f":{self.percent}" if self.kind == "noise" else ""
        return f"{self.kind}{percent}{f'@{self.seed}' if self.seed else ''}"

    def seed_of(self, text: str) -> str:
        """The seed of random draws for the sentence `text`."""
        return f"{self.seed} {text}" if self.seed else text

    def parses(
        self, trees: Trees, dependencies: Dependencies, *, text: str, pool: SentencePool | None
    ) -> tuple[Trees, Dependencies]:
        """The control's parses of a sentence instead of its own; where it has no parse, that stays.

        Args:
            trees: its constituency trees, ``None`` if they are not wanted.
            dependencies: likewise.
            text: the sentence.
            pool: the sentences to draw from, for ``shuffled`` alone.

        Raises:
            ValueError: ``shuffled`` has nothing to draw from.
        """
        own = (
            trees if isinstance(trees, list) else None,
            dependencies if isinstance(dependencies, DependencyTree) else None,
        )
        if own == (None, None):
            return trees, dependencies
        drawn = self._parses(*own, self.seed_of(text), pool)
        return (trees if own[0] is None else drawn[0]), (dependencies if own[1] is None else drawn[1])

    def _parses(
        self, trees: list[Tree] | None, dependencies: DependencyTree | None, seed: str, pool: SentencePool | None
    ) -> tuple[Trees, Dependencies]:
        if self.kind == "no-parse":
            return NoParse("--control no-parse"), NoParse("--control no-parse")
        if self.kind == "shuffled":
            if pool is None:
                raise ValueError(f"--control {self}: expected other sentences to draw from, found none")
            return pool.parses(trees, dependencies, seed)
        if self.kind == "noise":
            marks, draws = Random(seed), Random(f"{seed} brackets")
            share = self.percent / 100
            return (
                trees and [noisy_tree(tree, share, marks, draws) for tree in trees],
                dependencies and dependencies.with_heads(noisy_heads(dependencies.heads, share, seed)),
            )
        return (
            trees and control_trees(self.kind, trees, seed),
            dependencies and control_heads(self.kind, dependencies, seed),
        )


def spelling(kinds: tuple[str, ...]) -> str:
    """The controls of these kinds as ``--control`` has them."""
    names = [f"{kind}:PERCENT" if kind == "noise" else kind for kind in kinds]
    return f"{', '.join(names[:-1])} or {names[-1]}, and perhaps @SEED behind it"
