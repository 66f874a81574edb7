"""Print Kendall's τ of the words of translations and their references, in percent: 100 is the reference's order.

    python word_order.py HYPOTHESES REFERENCES [--sentences]

Translations and references are words with spaces between them, one sentence a line. Words are aligned that are in both
once, punctuation too, as by RIBES (Isozaki et al. 2010): each system is scored on the words that it got right.
τ = (pairs in the reference's order − pairs in the other) / all pairs of aligned words, a mean over sentences that have
a pair; the aligned words are a share of all, an F1.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import kendalltau

from syntax_experiments.make import read_lines


def main() -> None:
    """Print a JSON object; with sentences, before it [100 τ, 1] or [0, 0], and [200 · aligned, words], of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hypotheses", type=Path, metavar="HYPOTHESES")
    parser.add_argument("references", type=Path, metavar="REFERENCES")
    parser.add_argument("--sentences", action="store_true", help="first print each sentence, for the table")
    args = parser.parse_args()
    texts = [read_lines(path) for path in (args.hypotheses, args.references)]
    taus, aligned = zip(*(compare(*(line.split() for line in pair)) for pair in zip(*texts, strict=True)), strict=True)
    found = {"word order (τ)": taus, "aligned words F1": aligned}
    found = {name: of for name, of in found.items() if any(count for _, count in of)}  # there may be no pair of words
    if args.sentences:
        print(json.dumps({"sentences": found}))
    print(json.dumps({name: sum(n for n, _ in of) / sum(d for _, d in of) for name, of in found.items()}))


def compare(hypothesis: Sequence[str], reference: Sequence[str]) -> tuple[tuple[float, int], tuple[int, int]]:
    """Return 100 τ and 1 (0 and 0 without two aligned words), and 200 · aligned words and the words of both."""
    counts, of_reference = Counter(hypothesis), Counter(reference)
    aligned = [word for word in reference if counts[word] == of_reference[word] == 1]
    share = 200 * len(aligned), len(hypothesis) + len(reference)
    if len(aligned) < 2:
        return (0, 0), share
    return (round(100 * kendalltau([hypothesis.index(word) for word in aligned], range(len(aligned)))[0], 4), 1), share


if __name__ == "__main__":
    main()
