"""fairseq-syntax-probe: what of a sentence's syntax a linear classifier reads off the frozen states of an encoder.

    fairseq-syntax-probe data-bin/en-de --path checkpoints/checkpoint_best.pt --output probes.json \\
        --gen-subset train --parses raw/train.en --test-subset test --test-parses raw/test.en

The model is one of ours or a stock Transformer of fairseq. Its encoder encodes the sentences of a split, whose parses
say what is asked:

    depth               of a sentence, the height of its tree, in five classes
    top-constituents    of a sentence, the constituents below the topmost node: the 19 most frequent sequences, or other
    bigram-shift        of a sentence, whether two consecutive words of it have changed places (asked without parses)
    distance            of a word and the next, their syntactic distance, in eight classes
    head                of a word, its head among the words of its sentence

Each is asked with labels that are random by word type, or by a sentence's last word, too (control tasks), and of the
lengths and places alone. Beside accuracy stands balanced accuracy, and what other test sentences would have given
(95% intervals). The results are printed as a Markdown table and written as JSON. It needs scikit-learn: pip
install 'fairseq-syntax[analysis]'.
"""

from __future__ import annotations

import argparse
import importlib

from syntax_data.commands.main import command_line, run
from syntax_data.text.alignment import SUBWORDS
from syntax_data.trees.bad_parses import ON_BAD_PARSE


def get_parser() -> argparse.ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-probe", __doc__)
    parser.add_argument("data", help="the data-bin")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write (.json)")
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="which split (default: test)")
    parser.add_argument(
        "--parses",
        metavar="PREFIX",
        help="the split's word-level parses, PREFIX.trees and/or PREFIX.conllu; only bigram-shift needs none",
    )
    parser.add_argument(
        "--test-subset",
        metavar="SPLIT",
        help="test the probes on this split and train them on all of --gen-subset (default: a fifth of the sentences "
        "of --gen-subset, another one in each repeat, is for testing)",
    )
    parser.add_argument("--test-parses", metavar="PREFIX", help="the parses of --test-subset")
    parser.add_argument(
        "--tasks",
        metavar="LIST",
        help="some of depth,top-constituents,bigram-shift,distance,head (default: all that the parses allow)",
    )
    parser.add_argument(
        "--layers",
        metavar="LIST",
        help="0 for the embeddings, 1 … for what the encoder's layers put out, such as 0,2,6 (default: 0 and the last)",
    )
    parser.add_argument(
        "--random-encoder",
        action="store_true",
        help="probe the model as it was before training, with random weights, too, and give the differences to it",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first repeat (default: 1)")
    parser.add_argument(
        "--repeats",
        type=int,
        default=5,
        metavar="N",
        help="with how many seeds, which divide the sentences and draw the control tasks (default: 5)",
    )
    parser.add_argument(
        "--max-sentences",
        type=int,
        default=5000,
        metavar="N",
        help="of a split, drawn at random if there are more (default: 5000)",
    )
    parser.add_argument(
        "--max-pairs",
        type=int,
        default=30000,
        metavar="N",
        help="pairs of words that a probe of distance or head learns, and words that it is tested on (default: 30000)",
    )
    parser.add_argument(
        "--inverse-l2",
        type=float,
        default=0.1,
        metavar="C",
        help="scikit-learn's C: the smaller, the stronger the probes' L2 penalty (default: 0.1)",
    )
    parser.add_argument(
        "--subwords",
        choices=sorted(SUBWORDS),
        help="how the text marks subwords (default: as the data-bin's features were made, else subword_nmt)",
    )
    parser.add_argument(
        "--on-bad-parse",
        choices=ON_BAD_PARSE,
        default="error",
        help="a parse that is broken, or of another text than its sentence: an error, or skip the sentence and count "
        "it (default: error)",
    )
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences in a batch (default: 32)")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--user-dir", metavar="DIR", help="what else registers masks, models and tasks, as in training")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    run("fairseq-syntax-probe", get_parser, _work, argv)


def _work(args: argparse.Namespace) -> None:
    # By its name: torch and fairseq are loaded only when there is work for them.
    importlib.import_module("syntax_experiments.probing.command").work(args)


if __name__ == "__main__":
    main()
