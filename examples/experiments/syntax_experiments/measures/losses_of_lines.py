"""Print how probable the references of several sets are under a trained model, line by line and together.

    python losses_of_lines.py MODEL DATA [--subsets valid,test]

The last line is a JSON object: ``loss, valid and test``, the bits a target token of the sets together, without label
smoothing, as ``test_loss.py`` measures it of one. The line before it holds, under ``sentences`` and the same name, the
bits and the number of tokens of each line of the sets: so the table can resample the sentences of this column.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from loss_of_parts import of_lines


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--subsets", default="valid,test", help="with commas between them; default: %(default)s")
    args = parser.parse_args()
    subsets = args.subsets.split(",")
    name = f"loss, {' and '.join(subsets)}"
    found = [of_lines(args.model / "checkpoint.pt", args.data, subset) for subset in subsets]
    bits, tokens = (torch.cat(of_all) for of_all in zip(*found, strict=True))
    lines = [[round(b, 4), int(t)] for b, t in zip(bits.tolist(), tokens.tolist(), strict=True)]
    print(json.dumps({"sentences": {name: lines}}))
    print(json.dumps({name: float(bits.sum() / tokens.sum())}))


if __name__ == "__main__":
    main()
