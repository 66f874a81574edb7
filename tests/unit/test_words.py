"""The words of the project: the field's, in the packages, their messages, and the documentation."""

from __future__ import annotations

import re

from places import ROOT

#: Phrases that are not the field's, with what to write instead.
INSTEAD = {
    r"hangs? on": "depends on, is attached to",
    r"so many|that much": "N, as many as",
    r"whoever": "a user who",
    r"whatever": "any",
    r"in the place of|in place of their": "instead of",
    r"made anew|anew": "again",
    r"made of": "from",
    r"guided (layers?|attention)|guiding masks?": "syntax layers, syntactic attention",
    r"(true|false) (trees?|parses?)": "the parser's trees; random, shuffled, flat trees",
    r"cannot be meant|can be meant": "invalid, valid",
    r"a whole number": "an integer",
    r"what is said of|is said to": "–",
    r"lockstep": "parallel",
    r"ways of attention": "implementations",
}
#: Files with text that users and readers see.
FILES = [
    *(path for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "run.sh") if (path := ROOT / name).exists()),
    *(
        path
        for folder in ("docs", "fairseq_syntax", "preprocess", "examples", "benchmarks")
        for kind in ("*.md", "*.py", "*.yaml", "*.html")
        for path in sorted((ROOT / folder).rglob(kind))
    ),
]


def test_words_are_those_of_the_field():
    phrases = re.compile("|".join(rf"(?P<_{i}>\b(?:{phrase})\b)" for i, phrase in enumerate(INSTEAD)), re.I)
    found = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        for match in phrases.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            say = list(INSTEAD.values())[int(match.lastgroup.removeprefix("_"))]
            found.append(f"{path.relative_to(ROOT)}:{line}: expected {say!r}, found {match[0]!r}")
    assert not found, "\n".join(found)
