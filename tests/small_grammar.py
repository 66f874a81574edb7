"""The quickstart's language with fewer words, which a small model learns in seconds."""

from __future__ import annotations

import sys

from places import EXPERIMENTS

sys.path.insert(0, str(EXPERIMENTS / "corpora"))
import grammar

if __name__ == "__main__":
    for words, size in ((grammar.NOUNS, 6), (grammar.VERBS, 2), (grammar.PREPOSITIONS, 2)):
        for word in list(words)[size:]:
            del words[word]
    grammar.main()
