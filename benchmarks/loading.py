"""What the checks of feature files cost: loading and making a data-bin by several versions of fairseq-syntax.

    python benchmarks/loading.py DATA WORK CHECKOUT [CHECKOUT …]

DATA is the folder that the recipes of Multi30k read (examples/experiments/README.md#multi30k); CHECKOUT is a folder
with both packages (git worktree add makes one of any commit), the first being what the others are compared with.
Measured on Multi30k's training set written --copies times, each version on its own data-bin, in turn, medians of
--repeats processes: the seconds, and those of CPU time, of loading the features word, head and distance alone
(load_features) and the whole split (the task's load_dataset); CPU time of fairseq-syntax-binarize with one worker; and
the bytes a sentence of what the latter writes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

LANGUAGES = ["--source-lang", "en", "--target-lang", "de"]


def load(data: str) -> None:
    """Prints the seconds of loading the features alone, and the split, each as they pass and of CPU time."""
    from fairseq_syntax.data.features import load_features
    from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask

    config = SyntaxTranslationConfig(data=data, source_lang="en", target_lang="de", dataset_impl=None)
    task = SyntaxTranslationTask.setup_task(config)
    task.syntax_features = {"word", "head", "distance"}
    times = [(time.perf_counter(), time.process_time())]
    load_features(config, "train", task.syntax_features)
    times.append((time.perf_counter(), time.process_time()))
    task.load_dataset("train")
    times.append((time.perf_counter(), time.process_time()))
    print(*(after - before for pair in itertools.pairwise(times) for before, after in zip(*pair, strict=True)))


def run(version: Path, *command: str) -> str:
    """Output of a Python program under a version of the package."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(version), f"{version}/preprocess"])}
    done = subprocess.run([sys.executable, *command], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def binarize(version: Path, data: str) -> float:
    """Seconds of CPU time of making the features."""
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree("plain", data)
    before = os.times()
    run(version, "-m", "syntax_data.commands.binarize", *LANGUAGES, "--trainpref", "all", "--destdir", data)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--copies", type=int, default=10)
    args = parser.parse_args()
    from preprocessing import alternate, prepare

    data, versions = args.data.absolute(), [path.absolute() for path in args.checkouts]
    script = str(Path(__file__).resolve())
    args.work.mkdir(parents=True, exist_ok=True)
    os.chdir(args.work)
    os.environ["OMP_NUM_THREADS"] = "1"
    if not Path("plain").exists():
        prepare(data, args.copies)
        subprocess.run(["fairseq-preprocess", *LANGUAGES, "--trainpref", "all", "--destdir", "plain"], check=True)
    bins = [f"bin{i}" for i in range(len(versions))]
    pairs = list(zip(versions, bins, strict=True))
    made = alternate(args.repeats, *(partial(binarize, *pair) for pair in pairs))
    tokens = sum(path.stat().st_size for path in Path("plain").iterdir())
    sizes = [sum(path.stat().st_size for path in Path(name).iterdir()) - tokens for name in bins]
    loaded = alternate(args.repeats, *(lambda pair=pair: run(pair[0], script, "--load", pair[1]) for pair in pairs))
    seconds = [np.median([np.fromstring(line, sep=" ") for line in turns], axis=0) for turns in loaded]
    with open("all.en", "rb") as file:
        sentences = sum(1 for _ in file)
    rows = {
        "load_features, s": [turns[0] for turns in seconds],
        "load_features, CPU s": [turns[1] for turns in seconds],
        "load_dataset, s": [turns[2] for turns in seconds],
        "load_dataset, CPU s": [turns[3] for turns in seconds],
        "fairseq-syntax-binarize, CPU s": [statistics.median(turns) for turns in made],
        "bytes a sentence": [size / sentences for size in sizes],
    }
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(f"{sentences} sentences\n\n| | {' | '.join(path.name for path in versions)} |")
    print("| --- |" + " --- |" * len(versions))
    for what, found in rows.items():
        print(f"| {what} | {' | '.join(f'{number:.3f}' for number in found)} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        load(sys.argv[2])
    else:
        main()
