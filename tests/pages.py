"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from places import ROOT

#: Paths from the root.
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "examples/*/README.md", "benchmarks/README.md")
    for path in ROOT.glob(pattern)
)


@dataclass(frozen=True)
class Block:
    """A block of code: its page, its first line there, its language, its text."""

    page: str
    line: int
    language: str
    text: str


def blocks(page: str, language: str = r"\w+") -> list[Block]:
    """A page's blocks, or those in a language."""
    text = (ROOT / page).read_text()
    found = re.finditer(rf"^```({language})\n(.*?)^```$", text, re.S | re.M)
    return [Block(page, text.count("\n", 0, block.start()) + 2, block[1], block[2]) for block in found]
