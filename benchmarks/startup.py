"""How long the commands take to start: seconds of CPU of `--help`, and of a run on next to nothing.

    python benchmarks/startup.py [PYTHON of another environment]

Medians of five runs each; with another environment, such as one with an earlier version, the two take turns.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TEXT = "the cat sat\n"
TREE = "(S (NP the cat) (VP sat))\n"
REPEATS = 5
COMMANDS = {
    "fairseq-syntax-parse --help": "parse --help",
    "fairseq-syntax-binarize --help": "binarize --help",
    "fairseq-syntax-score --help": "score --help",
    "fairseq-syntax-analyze --help": "analyze --help",
    "fairseq-syntax-dump --help": "dump --help",
    "fairseq-syntax-average-checkpoints --help": "average-checkpoints --help",
    "fairseq-syntax-parse": "parse --input x.en --output-prefix y --parser trees --parse-file x.en.trees",
    "fairseq-syntax-binarize": "binarize -s en -t de --trainpref x --destdir bin",
    "fairseq-syntax-score": "score --hypotheses x.en --references x.de",
}


def prepare(folder: str) -> None:
    """Write a line, its tree and a data-bin of it."""
    for file, text in (("x.en", TEXT), ("x.de", TEXT), ("x.en.trees", TREE)):
        Path(folder, file).write_text(text)
    program = Path(sys.executable).with_name("fairseq-preprocess")
    command = [program, "-s", "en", "-t", "de", "--trainpref", "x", "--destdir", "bin"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def seconds(python: str, command: str, prepared: str) -> float:
    """Of CPU, until the command of that environment ends."""
    name, *arguments = command.split()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(prepared, folder, dirs_exist_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        program = Path(python).with_name(f"fairseq-syntax-{name}")
        subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    pythons = [*sys.argv[1:2], sys.executable]
    print(f"| | {' | '.join(pythons)} |\n| --- {'| --- ' * len(pythons)}|")
    with tempfile.TemporaryDirectory() as prepared:
        prepare(prepared)
        for name, command in COMMANDS.items():
            turns = [[seconds(python, command, prepared) for python in pythons] for _ in range(REPEATS)]
            medians = [statistics.median(of_one) for of_one in zip(*turns, strict=True)]
            print(f"| `{name}` | {' | '.join(f'{median:.2f}' for median in medians)} |", flush=True)


if __name__ == "__main__":
    main()
