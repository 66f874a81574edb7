"""Parses from the number of words alone: controls, and parses for a trial run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from syntax_data.controls import FROM_LENGTH, Control
from syntax_data.parsers.parser import Line, Parse, Parser
from syntax_data.text.lines import tokenize_line
from syntax_data.trees.tree import DependencyTree, NoParse, Tree


class ControlParser(Parser):
    """Parses from the number of words of a line, which is one sentence.

    They equal those of ``fairseq-syntax-binarize --control`` of the same name (:mod:`syntax_data.controls`).

    Args:
        control: of a kind of :data:`~syntax_data.controls.FROM_LENGTH`.
    """

    kinds = ("conllu", "trees")
    pretokenized = True
    restartable = True

    def __init__(self, control: Control):
        if control.kind not in FROM_LENGTH:
            raise ValueError(f"--parser control: expected --control {', '.join(FROM_LENGTH)}, found {control}")
        self.control = control

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument(
            "--control",
            required=True,
            metavar="KIND",
            help=f"one of {', '.join(FROM_LENGTH)}: trees from the number of words; random@2 draws other ones",
        )

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> ControlParser:
        return cls(Control.read(args.control))

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], *, kinds: Sequence[str], models: str | None, device: str | None
    ) -> ControlParser:
        control = description.get("control")
        if not isinstance(control, str):
            raise ValueError("the parser control: expected one that is recorded of the training data, found none")
        return cls(Control.read(control))

    def describe(self) -> dict[str, Any]:
        return {"name": "control", "control": str(self.control)}

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        return [self._parse(tokenize_line(line.text)) for line in lines]

    def _parse(self, words: list[str]) -> Parse | NoParse:
        if not words:
            return NoParse("empty")
        one_sentence = [Tree("X", [*words])], DependencyTree(words, [0, *[1] * (len(words) - 1)])
        trees, dependencies = self.control.parses(*one_sentence, text=" ".join(words), pool=None)
        assert isinstance(trees, list)
        assert isinstance(dependencies, DependencyTree)
        return Parse(dependencies=dependencies, trees=trees)
