"""fairseq-syntax-analyze: logs, translations, parses and dumps to one page of pictures.

Reads what training and generating left behind, and draws what can be drawn of it: learning curves; gates over training
and at its end; the score by source length, depth of the trees and number of clauses; the score against a setting; and
masks, attention and trees of chosen sentences. Writes a folder with index.html, and each picture as SVG, PNG and CSV.

    fairseq-syntax-analyze --output pictures --log stock=stock.log --log slr=slr.1.log --log slr=slr.2.log \\
        --hypotheses stock=stock.gen --hypotheses slr=slr.1.gen --hypotheses slr=slr.2.gen --detokenize de \\
        --references raw/test.de --source raw/test.en --parses raw/test.en --dump slr=slr.1.npz --sentence 7

A system is what its NAME says; a NAME that is given again is another seed of it. Sentences are numbered from 0, as
fairseq numbers them (H-0). Needs the packages of the extra `analysis`.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from syntax_data.commands.main import command_line, run
from syntax_data.scoring.scoring_options import add_scoring_options
from syntax_data.trees.bad_parses import ON_BAD_PARSE

#: What it needs of the extra `analysis`.
PACKAGES = ("jinja2", "matplotlib", "nltk")


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("fairseq-syntax-analyze", __doc__)
    named: dict[str, Any] = {"type": _named, "action": "append", "default": [], "metavar": "NAME=FILE"}
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where to write; an earlier page is replaced")
    parser.add_argument("--title", default="Syntax and translation", help="of the page (default: %(default)s)")

    group = parser.add_argument_group("training")
    group.add_argument("--log", **named, help="log of fairseq-train (--log-format simple, tqdm or json)")
    group.add_argument(
        "--run", action="append", default=[], metavar="FOLDER",
        help="run record of fairseq-syntax-experiment, which names its system: losses, gates, translations",
    )  # fmt: skip
    group.add_argument(
        "--valid-subset", default="valid", metavar="NAME", help="which validation set of the logs (default: valid)"
    )
    group.add_argument(
        "--x-axis", choices=["updates", "epochs"], default="updates", help="of training (default: updates)"
    )

    group = parser.add_argument_group("translations of a test set")
    group.add_argument("--hypotheses", **named, help="log of fairseq-generate, or translations, one a line")
    group.add_argument("--references", nargs="+", metavar="FILE", help="raw text, one a reference")
    group.add_argument("--source", metavar="FILE", help="its source, words between spaces, for the length")
    group.add_argument(
        "--parses", metavar="PREFIX", help="parses of the source, PREFIX.trees and PREFIX.conllu, either or both, for "
        "height, depth and clauses (and length without --source)",
    )  # fmt: skip
    group.add_argument(
        "--on-bad-parse", choices=ON_BAD_PARSE, default="error",
        help="a broken parse: an error, or skip it, so that its sentence has none (default: error)",
    )  # fmt: skip
    group.add_argument(
        "--sweep", nargs=4, action="append", default=[], metavar=("AXIS", "NAME", "VALUE", "FILE"),
        help="translations of a system under a value of a setting, such as 'parser noise (%%)' slr 10 slr.10.gen, or a "
        "run record's folder; a picture an AXIS. VALUE is a number or text; '-': the setting does not concern it",
    )  # fmt: skip
    group.add_argument("--test", metavar="NAME", help="which test set of the run records (default: their only one)")
    group.add_argument(
        "--min-sentences", type=_positive, default=50, metavar="N", help="smaller bins are joined (default: 50)"
    )
    add_scoring_options(group)

    group = parser.add_argument_group("gates, masks and attention")
    group.add_argument("--dump", **named, help="what fairseq-syntax-dump wrote")
    group.add_argument(
        "--sentence",
        type=_sentence,
        action="append",
        default=[],
        metavar="N",
        help="a sentence to draw, of dumps and parses",
    )
    return parser


def _named(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not (name.strip() and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, found {text!r}")
    return name.strip(), path


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number from 1, found {text[:20]!r}")
    return int(text)


def _sentence(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number from 0, found {text[:20]!r}")
    return int(text)


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    # The errors: sacreBLEU lacks a tokeniser.
    run("fairseq-syntax-analyze", get_parser, _work, argv, errors=(RuntimeError, ImportError))


def _work(args: argparse.Namespace) -> None:
    # Here: matplotlib takes longer to load than --help takes.
    try:
        importlib.import_module("syntax_experiments.plots.report").report(args)
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in PACKAGES:
            raise
        raise ValueError(f"{name} is not installed: pip install {' '.join(PACKAGES)}") from None


if __name__ == "__main__":
    main()
