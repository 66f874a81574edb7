"""fairseq-syntax-analyze: a page of pictures of translations, parses, dumps and logs.

Draws what its inputs allow: the gates of heads; the score by source length, height and depth of the trees, and number
of clauses; the score against a setting; and masks, learned biases, attention and trees of chosen sentences. Writes a
folder with index.html, and each picture as SVG and its numbers as CSV. For losses and gates over training, see
TensorBoard (fairseq-train --tensorboard-logdir).

    fairseq-syntax-analyze --output pictures --hypotheses stock=stock.gen --hypotheses slr=slr.1.gen \\
        --hypotheses slr=slr.2.gen --detokenize de --references raw/test.de --source raw/test.en --parses raw/test.en \\
        --dump slr=slr.1.npz --sentence 7

A NAME is a system's; a NAME that is given again is another seed of it. Sentences are numbered from 0, as fairseq
numbers them (H-0). Needs the packages of the extra `analysis`.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from syntax_data.commands.main import command_line, run
from syntax_data.scoring.scoring_options import add_scoring_options
from syntax_data.trees import bad_parses

#: Packages of the extra `analysis`.
PACKAGES = ("jinja2", "matplotlib", "nltk", "pandas")


def get_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = command_line("fairseq-syntax-analyze", __doc__)
    named: dict[str, Any] = {"type": _named, "action": "append", "default": [], "metavar": "NAME=FILE"}
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where to write; an earlier page is replaced")
    parser.add_argument("--title", default="Syntax and translation", help="of the page (default: %(default)s)")

    group = parser.add_argument_group("translations of a test set")
    group.add_argument("--hypotheses", **named, help="log of fairseq-generate, or translations, one a line")
    group.add_argument("--references", nargs="+", metavar="FILE", help="raw text, one a reference")
    group.add_argument("--source", metavar="FILE", help="its source, words between spaces, for the length")
    group.add_argument(
        "--parses", metavar="PREFIX", help="parses of the source, PREFIX.trees and PREFIX.conllu, either or both, for "
        "height, depth and clauses (and length without --source)",
    )  # fmt: skip
    bad_parses.add_option(group)
    group.add_argument(
        "--sweep", nargs=4, action="append", default=[], metavar=("AXIS", "NAME", "VALUE", "FILE"),
        help="translations of a system under a value of a setting, such as 'parser noise (%%)' slr 10 slr.10.gen; a "
        "picture an AXIS. VALUE is a number or a string; '-': the setting does not concern the system",
    )  # fmt: skip
    group.add_argument(
        "--min-sentences", type=int, default=50, metavar="N", help="smaller bins are joined (default: 50)"
    )
    add_scoring_options(group)

    group = parser.add_argument_group("gates, masks, biases and attention")
    group.add_argument("--dump", **named, help="a file of fairseq-syntax-dump")
    group.add_argument("--log", **named, help="log of fairseq-train, for the gates of its last validation")
    group.add_argument(
        "--sentence", type=int, action="append", default=[], metavar="N",
        help="a sentence of dumps and parses to draw; of a long one the first 80 tokens",
    )  # fmt: skip
    return parser


def _named(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not (name.strip() and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, found {text!r}")
    return name.strip(), path


def main(argv: list[str] | None = None) -> None:
    """Run the command; broken input ends it with a message and exit code 1."""
    # The errors: sacreBLEU lacks a tokeniser.
    run("fairseq-syntax-analyze", get_parser, _work, argv, errors=(RuntimeError, ImportError))


def _work(args: argparse.Namespace) -> None:
    try:
        # Here: matplotlib and pandas take longer to load than --help.
        from syntax_experiments.plots.inputs import read_inputs
        from syntax_experiments.plots.page import PAGE, whole_folder, write_page
        from syntax_experiments.plots.report import all_pictures
        from syntax_experiments.plots.style import styled

        with styled(), whole_folder(args.output) as folder:
            inputs = read_inputs(args)
            pictures = list(all_pictures(inputs, args))
            if not pictures:
                expected = "--dump, --log, --sweep, or --hypotheses with --references and --source or --parses"
                raise ValueError(f"nothing can be drawn: expected {expected}")
            write_page(folder, title=args.title, sources=inputs.sources, pictures=pictures)
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        if name not in PACKAGES:
            raise
        raise ValueError(f"{name} is not installed: pip install 'fairseq-syntax[analysis]'") from None
    for picture in pictures:
        for note in picture.notes:
            print(f"{picture.title}: {note}", file=sys.stderr)
    print(f"{os.path.join(args.output, PAGE)}: pictures: {len(pictures)}")


if __name__ == "__main__":
    main()
