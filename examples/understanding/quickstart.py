"""Does the parse reach the label? Systems on the made-up task, with gold trees, and with shuffled and flat ones.

    bash run.sh quickstart attachment          about four minutes on two cores

makes the task (``attachment.py``), its data folders, and a table of accuracies on the test set, in --work.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from syntax_data.commands.main import command_line, run
from syntax_experiments.corpora import attachment

SPLITS = ("train", "valid", "test")
#: Options of fairseq-syntax-binarize, by columns of the table.
TREES: dict[str, list[str]] = {
    "gold trees": [],
    "shuffled trees": ["--control", "shuffled"],
    "flat trees": ["--control", "flat"],
}
NO_TREES = "no trees"


@dataclass(frozen=True)
class System:
    """A row of the table: an architecture, its options."""

    name: str
    architecture: str
    options: tuple[str, ...] = ()
    needs_trees: bool = True


SYSTEMS = [
    System("RoBERTa (fairseq)", "roberta", needs_trees=False),
    System("relative position", "relative_position_roberta", needs_trees=False),
    System("SEPREM", "seprem_roberta"),
    System("gated", "gated_syntax_roberta", ("--syntax-masks", "slr,sdoi", "--slr-temperature", "1")),
    System("tree biases", "tree_bias_roberta"),
    System("SG-Net, mean of words", "sg_net_roberta", ("--pooling", "mean")),
    System("SG-Net, <s> as published", "sg_net_roberta", ("--pooling", "first")),
]
OPTIONS = [
    "--encoder-layers", "2", "--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128",
    "--encoder-attention-heads", "4", "--max-positions", "32", "--dropout", "0", "--attention-dropout", "0",
    "--criterion", "sentence_prediction", "--num-classes", "2", "--init-token", "0", "--separator-token", "2",
    "--optimizer", "adam", "--lr", "1e-3", "--lr-scheduler", "polynomial_decay", "--warmup-updates", "40",
    "--clip-norm", "1", "--batch-size", "64", "--num-workers", "0", "--no-save", "--log-format", "json",
    "--valid-subset", "test", "--validate-interval", "1000",  # at the end alone
]  # fmt: skip


def call(*command: object, log: Path | None = None) -> str:
    """Run a command on one thread; return what it prints, which also goes to a log.

    Raises:
        ValueError: it fails.
    """
    words = list(map(str, command))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if log:
        log.write_text(done.stdout, encoding="utf-8")
    if done.returncode:
        raise ValueError(f"{' '.join(words)} failed{f', see {log}' if log else ''}:\n{done.stdout[-2000:]}")
    return done.stdout


def make_data(raw: Path, data: Path, segments: int) -> None:
    """Write a data folder for each column: tokens and labels, as fairseq reads them, and parses."""
    inputs = [f"input{i}" for i in range(segments)]
    prefixes = {name: [f"--{split}pref={raw}/{split}.{name}" for split in SPLITS] for name in [*inputs, "label"]}
    for names in (inputs, ["label"]):  # the segments have one dictionary
        words = Counter(word for name in names for word in (raw / f"train.{name}").read_text(encoding="utf-8").split())
        dictionary = raw / f"dict.{names[0]}.txt"
        dictionary.write_text("".join(f"{word} {n}\n" for word, n in words.most_common()), encoding="utf-8")
        for name in names:
            folder = data / NO_TREES / name
            call("fairseq-preprocess", "--only-source", *prefixes[name], "--srcdict", dictionary, "--destdir", folder)
    for trees, control in TREES.items():
        shutil.copytree(data / NO_TREES, data / trees, dirs_exist_ok=True)
        for name in inputs:
            call(
                "fairseq-syntax-binarize", "--only-source", *prefixes[name], "--subwords", "words",
                "--parser-name", "attachment", *control, "--destdir", data / trees / name,
            )  # fmt: skip


def accuracy(system: System, data: Path, log: Path, options: list[str]) -> float:
    """Train a system; return its accuracy on the test set after the last update, in percent."""
    task = "syntax_sentence_prediction" if system.needs_trees else "sentence_prediction"
    printed = call(
        "fairseq-train", data, "--user-dir", "fairseq_syntax", "--task", task, "--arch", system.architecture,
        *system.options, *OPTIONS, *options, log=log,
    )  # fmt: skip
    *_, last = re.findall(r'\{"epoch": .*"test_accuracy": .*\}', printed)
    return float(json.loads(last)["test_accuracy"])


def table(found: dict[tuple[str, str], float]) -> str:
    """The accuracies as a table of Markdown."""
    columns = [*TREES, NO_TREES]
    rows = [["test accuracy", *columns], ["---"] * (1 + len(columns))]
    for system in SYSTEMS:
        cells = [found.get((system.name, column)) for column in columns]
        rows.append([system.name, *("" if cell is None else f"{cell:.1f}%" for cell in cells)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def quickstart(args: argparse.Namespace) -> None:
    """Make everything again, and print the table."""
    work: Path = args.work / f"segments{args.segments}"
    (work / "logs").mkdir(parents=True, exist_ok=True)
    task = attachment.make_task(Random(1), segments=args.segments, train=args.train, held_out=args.held_out)
    for split, questions in task.items():
        attachment.write(work / "raw", split, questions)
    make_data(work / "raw", work / "data", args.segments)
    updates = str(args.max_update)
    options = ["--max-update", updates, "--total-num-update", updates, "--seed", str(args.seed)]
    runs = [(system, trees) for system in SYSTEMS for trees in (TREES if system.needs_trees else [NO_TREES])]
    print(f"training {len(runs)} models, {args.jobs} at a time …", flush=True)

    def one(number: int, system: System, trees: str) -> float:
        log = work / f"logs/{number:02}.{system.architecture}.log"
        found = accuracy(system, work / "data" / trees, log, options)
        print(f"{system.name}, {trees}: {found:.1f}%", flush=True)
        return found

    with ThreadPoolExecutor(args.jobs) as jobs:
        found = list(jobs.map(one, range(len(runs)), *zip(*runs, strict=True)))
    text = table({(system.name, trees): value for (system, trees), value in zip(runs, found, strict=True)})
    (work / "table.md").write_text(text, encoding="utf-8")
    print(f"\nWords alone: 50.0%\n\n{text}")


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("quickstart attachment", __doc__)
    here = Path(__file__).parent / "output/attachment"
    parser.add_argument("--work", type=Path, default=here, metavar="DIR", help="where to write (default: %(default)s)")
    parser.add_argument("--segments", type=int, choices=[1, 2], default=1, help="of an example (default: 1)")
    parser.add_argument("--train", type=int, default=4000, help="training sentences (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=100, help="different ones in valid and test (default: 100)")
    parser.add_argument("--max-update", type=int, default=600, metavar="N", help="updates of a model (default: 600)")
    parser.add_argument("--seed", type=int, default=1, help="of the models (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="models trained at a time (default: 2)")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the quickstart; a command that fails ends it with a message and exit status 1."""
    run("quickstart attachment", get_parser, quickstart, argv)


if __name__ == "__main__":
    main()
