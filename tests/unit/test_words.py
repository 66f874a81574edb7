"""Phrases that are not the field's are in no text that users and readers see."""

from __future__ import annotations

import re

from places import ROOT

PHRASES = re.compile(
    r"\b(hangs? on|so many|that much|whoever|whatever|in the place of|in place of their|anew|made of|is said to|"
    r"a whole number|what is said of|guided (layers?|attention)|guiding masks?|(true|false) (trees?|parses?)|"
    r"can(not)? be meant|lockstep|ways of attention)\b",
    re.IGNORECASE,
)
FOLDERS = ("docs", "fairseq_syntax", "preprocess", "examples", "benchmarks")
FILES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "run.sh")]
KINDS = "md", "py", "yaml", "html"
FILES += [path for name in FOLDERS for kind in KINDS for path in (ROOT / name).rglob(f"*.{kind}")]


def test_words_are_those_of_the_field():
    found = []
    for path in filter(lambda path: path.exists(), FILES):
        text = path.read_text(encoding="utf-8")
        for match in PHRASES.finditer(text):
            found.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}")
    assert not found, "\n".join(found)
