"""HANS (McCoy et al. 2019) as premises, hypotheses, their constituents, and labels.

    python -m syntax_experiments.corpora.hans heuristics_evaluation_set.txt FOLDER

writes SPLIT.input0, .input1, .input0.trees, .input1.trees and .label. The test set has six of the thirty kinds of
sentences, of each heuristic one that is entailed and one that is not; a tenth of the others is for validation.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
from collections import Counter, defaultdict
from pathlib import Path

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError

#: The kinds (subcases) of the test set.
HELD_OUT = {
    "le_passive", "ln_passive", "se_relative_clause_on_obj", "sn_relative_clause_on_subject",
    "ce_after_since_clause", "cn_after_if_clause",
}  # fmt: skip
#: Columns by the endings of files.
_COLUMNS = {
    "input0": "sentence1", "input1": "sentence2", "input0.trees": "sentence1_parse", "input1.trees": "sentence2_parse",
    "label": "gold_label", "kind": "subcase",
}  # fmt: skip
_LEAF = re.compile(r"([^\s()]+)\)")


def convert(args: argparse.Namespace) -> None:
    """Write the splits; examples whose trees have other words than their sentences are left out, and counted."""
    splits: dict[str, list[dict[str, str]]] = defaultdict(list)
    counts: Counter[str] = Counter()
    with gzip.open(args.file, "rt") if args.file.endswith(".gz") else open(args.file, encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if missing := [name for name in _COLUMNS.values() if name not in (rows.fieldnames or ())]:
            raise InputError(args.file, 1, f"expected a column {missing[0]}, found {', '.join(rows.fieldnames or ())}")
        for row in rows:
            example = {ending: row[column] for ending, column in _COLUMNS.items()}
            if any(_LEAF.findall(example[f"{text}.trees"]) != example[text].split() for text in ("input0", "input1")):
                counts["other words in a tree"] += 1
                continue
            counts["trained on"] += example["kind"] not in HELD_OUT
            held_out = "valid" if counts["trained on"] % 10 == 0 else "train"
            splits["test" if example["kind"] in HELD_OUT else held_out].append(example)
    args.folder.mkdir(parents=True, exist_ok=True)
    for split, examples in splits.items():
        for ending in [name for name in _COLUMNS if name != "kind"]:
            lines = "".join(f"{example[ending]}\n" for example in examples)
            (args.folder / f"{split}.{ending}").write_text(lines, encoding="utf-8")
        print(f"{split}: {len(examples)} examples")
    print(f"left out, with other words in a tree: {counts['other words in a tree']}")


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("hans.py", __doc__)
    parser.add_argument("file", metavar="FILE", help="HANS's table, as it is published, or .gz")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write the splits")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command line; broken input ends it with a message and exit status 1."""
    run("hans.py", get_parser, convert, argv)


if __name__ == "__main__":
    main()
