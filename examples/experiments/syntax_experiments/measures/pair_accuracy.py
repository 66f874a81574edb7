"""Print how often a model gives a right translation the higher probability than a wrong one, in percent.

    python pair_accuracy.py MODEL DATA --pairs agreement:test3,test4 omission:test5,test6

MODEL has ``checkpoint.pt``, DATA is its data-bin, with the right translations in one subset, and the wrong ones of the
same sentences, in their order, in another. A tie is wrong.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fairseq import utils
from loss import losses


def main() -> None:
    """Print a JSON object, by category."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")
    parser.add_argument("--pairs", nargs="+", required=True, metavar="CATEGORY:RIGHT,WRONG", help="names of subsets")
    args = parser.parse_args()
    utils.import_user_module(args)
    found = {}
    for pairs in args.pairs:
        category, _, subsets = pairs.partition(":")
        right, wrong = (losses(args.model / "checkpoint.pt", args.data, [name])[0] for name in subsets.split(","))
        if len(right) != len(wrong):
            raise ValueError(f"--pairs {pairs}: expected subsets of as many lines, found {len(right)} and {len(wrong)}")
        found[f"accuracy, {category}"] = 100 * float((right < wrong).double().mean())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
