"""The option ``--control``, and the parses that it draws."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from random import Random

from syntax_data.controls.from_length import FROM_LENGTH, control_heads, control_trees
from syntax_data.controls.noise import noisy_heads, noisy_tree
from syntax_data.controls.shuffled import SentencePool
from syntax_data.controls.tags import dummy_categories, dummy_tags, random_tags
from syntax_data.trees.tree import DependencyTree, NoParse, Tree

#: The kinds of controls; ``noise`` has its percentage after a colon.
KINDS = (*FROM_LENGTH, "shuffled", "noise", "random-tags", "dummy-tags", "no-parse")

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
            kinds = ", ".join([*FROM_LENGTH, "shuffled", "noise:PERCENT", "random-tags", "dummy-tags"])
            raise ValueError(f"--control: expected {kinds} or no-parse, and perhaps @SEED behind it, found {text!r}")
        if (kind == "noise") != (spelled["percent"] is not None) or int(spelled["percent"] or 0) > 100:
            expected = "a percentage, an integer from 0 to 100, after noise: and no other control"
            raise ValueError(f"--control: expected {expected}, found {text!r}")
        return Control(kind, int(spelled["percent"] or 0), int(spelled["seed"] or 0))

    def __str__(self) -> str:
        """As :meth:`read` reads it."""
        percent = f":{self.percent}" if self.kind == "noise" else ""
        return f"{self.kind}{percent}{f'@{self.seed}' if self.seed else ''}"

    @property
    def draws_categories(self) -> bool:
        """Its trees have categories of their own; under other controls words keep theirs, as they do relations."""
        return self.kind in ("shuffled", "dummy-tags")

    def parses(
        self, trees: Trees, dependencies: Dependencies, *, text: str, pool: SentencePool | None
    ) -> tuple[Trees, Dependencies]:
        """The control's parses of the sentence `text`; where it has no parse, that stays.

        ``None`` is a kind of parse that is not wanted. Raises :class:`ValueError` if ``shuffled`` has no `pool`.
        """
        seed = f"{self.seed} {text}" if self.seed else text
        own_trees = trees if isinstance(trees, list) else None
        own = dependencies if isinstance(dependencies, DependencyTree) else None
        made: tuple[Trees, Dependencies]
        if own_trees is None and own is None:
            return trees, dependencies
        if self.kind == "no-parse":
            made = NoParse("--control no-parse"), NoParse("--control no-parse")
        elif self.kind == "shuffled":
            if pool is None:
                raise ValueError(f"--control {self}: expected other sentences to draw from, found none")
            made = pool.parses(own_trees, own, seed)
        elif self.kind == "random-tags":
            made = own_trees, own and random_tags(own, seed)
        elif self.kind == "dummy-tags":
            made = own_trees and dummy_categories(own_trees, self.seed), own and dummy_tags(own, self.seed)
        elif self.kind == "noise":
            marks, draws = Random(seed), Random(f"{seed} brackets")
            share = self.percent / 100
            made = (
                own_trees and [noisy_tree(tree, share, marks, draws) for tree in own_trees],
                own and own.with_heads(noisy_heads(own.heads, share, seed)),
            )
        else:
            made = own_trees and control_trees(self.kind, own_trees, seed), own and control_heads(self.kind, own, seed)
        return (trees if own_trees is None else made[0]), (dependencies if own is None else made[1])
