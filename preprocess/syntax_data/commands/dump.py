"""fairseq-syntax-dump: what the syntax-guided attention of a trained model does with each sentence of a split.

    fairseq-syntax-dump data-bin/en-de --path checkpoints/checkpoint_best.pt --gen-subset valid --output valid.npz

It writes one .npz file, which numpy.load reads member by member. It has, for sentence ID of the split (n subwords,
`</s>` the last) and in this order of axes,

    ID/tokens      n strings
    ID/gates       layers × masks × heads    weights of the masks (Hou 2024, eq. 6); only of models that have gates
    ID/masks       masks × n × n             the masks m, from 0 (hidden) to 1; rows are queries; none if one is learned
    ID/biases      layers × tables × heads × n × n    learned biases, as they are added to scores, where there are some
    ID/attention   layers × heads × n × n    the mixed attention A (eq. 10), as it weighs the values

in float32, and the names of these axes in `layers` (numbers from 1; only those that syntax enters), `masks`, and
`biases` (the tables: masks that are learned, and `position_bias`).
"""

from __future__ import annotations

import argparse
import importlib

from syntax_data.commands.main import command_line, run


def get_parser() -> argparse.ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-dump", __doc__)
    parser.add_argument("data", help="the data-bin")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write (.npz)")
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="which split (default: test)")
    parser.add_argument("--contents", metavar="LIST", help="some of gates,masks,biases,attention (default: all)")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences in a batch (default: 32)")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--user-dir", metavar="DIR", help="what else registers masks, models and tasks, as in training")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    run("fairseq-syntax-dump", get_parser, _work, argv)


def _work(args: argparse.Namespace) -> None:
    # By its name: torch and fairseq are loaded only when there is work for them.
    importlib.import_module("fairseq_syntax.commands.dump").work(args)


if __name__ == "__main__":
    main()
