"""Print F1 of the articles and prepositions, and of all other words, in translations, in percent.

    python function_words.py HYPOTHESES REFERENCES [--words FILE] [--sentences]

Translations and references are text with one sentence a line. Of each sentence the bags of (lower-cased) words are
compared: F1 = 2 · Σ matches / Σ (words of the hypothesis + words of the reference). The list is German.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

GERMAN = """
ein eine einen einem einer eines der die das den dem des
ab an am ans auf aufs aus bei beim bis durch durchs entlang für fürs gegen gegenüber hinter in im ins mit nach neben
ohne seit über übers um ums unter von vom vor vorm während wegen zu zum zur zwischen
"""


def main() -> None:
    """Print a JSON object; with sentences, before it [200 · matches, words] of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hypotheses", type=Path, metavar="HYPOTHESES")
    parser.add_argument("references", type=Path, metavar="REFERENCES")
    parser.add_argument("--words", type=Path, metavar="FILE", help="function words of another language")
    parser.add_argument("--sentences", action="store_true", help="first print each sentence, for the table")
    args = parser.parse_args()
    words = frozenset((GERMAN if args.words is None else args.words.read_text()).split())
    texts = [path.read_text().splitlines() for path in (args.hypotheses, args.references)]
    found = {
        "function words F1": matches(*texts, among=words.__contains__),
        "other words F1": matches(*texts, among=lambda word: word not in words),
    }
    found = {name: of for name, of in found.items() if any(count for _, count in of)}  # there may be no such words
    if args.sentences:
        print(json.dumps({"sentences": found}))
    print(json.dumps({name: f1(of) for name, of in found.items()}))


def matches(
    hypotheses: Sequence[str], references: Sequence[str], *, among: Callable[[str], bool]
) -> list[tuple[int, int]]:
    """Return 200 · (words in both) and (words of one + words of the other) of each sentence; words `among` some."""
    found = []
    for pair in zip(hypotheses, references, strict=True):
        one, other = (Counter(filter(among, re.findall(r"\w+", text.lower()))) for text in pair)
        found.append((200 * (one & other).total(), one.total() + other.total()))
    return found


def f1(of: Sequence[tuple[int, int]]) -> float:
    """Return F1 of all sentences, in percent."""
    numerators, denominators = map(sum, zip(*of, strict=True))
    return numerators / denominators


if __name__ == "__main__":
    main()
