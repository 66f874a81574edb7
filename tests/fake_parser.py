"""A parser of another package: each word depends on the one before, its columns name the call, and its tag is X."""

from __future__ import annotations

import os
import time
from pathlib import Path

from syntax_data.parsers import Parse, Parser
from syntax_data.trees.tree import DependencyTree, NoParse, Tree


class FakeParser(Parser):
    """Fails on a call with the word FAIL in it; a call takes `seconds`; tests may replace `hook`."""

    kinds = ("conllu", "trees")
    pretokenized = True
    restartable = True
    hook = staticmethod(lambda line, parse: parse)

    def __init__(self, seconds: float):
        self.seconds = seconds

    @classmethod
    def add_arguments(cls, group):
        group.add_argument("--seconds", type=float, default=0.0)

    @classmethod
    def from_arguments(cls, args):
        return cls(args.seconds)

    @classmethod
    def from_description(cls, description, *, kinds, models, device):
        return cls(0.0)

    def describe(self):
        return {"name": "fake", "version": os.environ.get("FAKE_VERSION", "1")}

    def parse(self, lines):
        time.sleep(self.seconds)
        return [self._parse(line, f"{lines[0].number}+{len(lines)}") for line in lines]

    def _parse(self, line, call):
        words = line.text.split()
        if "FAIL" in words:
            raise RuntimeError("told to fail")
        if not words:
            return NoParse("empty")
        columns = [[*"___X___", call, "_", "_"] for _ in words]
        tree = DependencyTree(words, list(range(len(words))), columns)
        return self.hook(line, Parse(dependencies=tree, trees=[Tree("S", [Tree(call, [word]) for word in words])]))


def install_parser(site: Path, name: str, target: str) -> Path:
    """Write the files that pip leaves in `site` of a distribution whose entry point is a parser."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fairseq_syntax.parsers]\n{name} = {target}\n")
    return site
