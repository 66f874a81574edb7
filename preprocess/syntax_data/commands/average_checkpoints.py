"""fairseq-syntax-average-checkpoints: the mean of the weights of several checkpoints, as one checkpoint.

    the last 10 epochs    fairseq-syntax-average-checkpoints --inputs SAVE_DIR --num-epoch-checkpoints 10 --output X.pt
    chosen files          fairseq-syntax-average-checkpoints --inputs A.pt B.pt --output X.pt

Works for the checkpoints of any fairseq model. The result translates, scores and is fine-tuned like any checkpoint; it
holds no optimizer state, because no training ended there.
"""

from __future__ import annotations

import argparse
import importlib

from syntax_data.commands.main import command_line, run


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("fairseq-syntax-average-checkpoints", __doc__)
    parser.add_argument("--inputs", required=True, nargs="+", metavar="PATH", help="checkpoints, or one --save-dir")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write the average")
    newest = parser.add_mutually_exclusive_group()
    newest.add_argument("--num-epoch-checkpoints", type=int, metavar="N", help="take a --save-dir's last N epochs")
    newest.add_argument(
        "--num-update-checkpoints", type=int, metavar="N", help="take the last N of --save-interval-updates"
    )
    parser.add_argument(
        "--checkpoint-upper-bound", type=int, metavar="N", help="take none after this epoch, or update (default: any)"
    )
    parser.add_argument("--user-dir", metavar="DIR", help="what else registers masks, models and tasks, as in training")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    run("fairseq-syntax-average-checkpoints", get_parser, _work, argv)


def _work(args: argparse.Namespace) -> None:
    # By its name: torch and fairseq are loaded only when there is work for them.
    importlib.import_module("fairseq_syntax.commands.average_checkpoints").work(args)


if __name__ == "__main__":
    main()
