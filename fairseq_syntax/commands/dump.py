"""fairseq-syntax-dump: the syntactic attention of a trained model in each sentence of a split.

    fairseq-syntax-dump data-bin/en-de --path checkpoints/checkpoint_best.pt --gen-subset valid --output valid.npz

It writes one .npz file, which numpy.load reads member by member. It has, for sentence ID of the split (n tokens,
`</s>` the last; of a choice among K options, K · line + option, from 0) and in this order of axes,

    ID/tokens      n strings
    ID/gates       layers × masks × heads    weights of the masks (Hou 2024, eq. 6); only of models that have gates
    ID/masks       masks × n × n             the masks m, from 0 (hidden) to 1; rows are queries; none if one is learned
    ID/biases      layers × tables × heads × n × n    learned biases, as they are added to scores, where there are some
    ID/attention   layers × heads × n × n    the mixed attention A (eq. 10), as it weighs the values

in float32, and the names of these axes in `layers` (numbers from 1; only syntax layers), `masks`, and `biases` (the
tables: learned masks, and `position_bias`).
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from fairseq import utils

from fairseq_syntax.commands.trained import (
    batches,
    build_trained,
    files_of_data_bin,
    load_split,
    memory_errors,
    read_checkpoint,
)
from fairseq_syntax.inference.collect import CONTENTS, by_sentence
from fairseq_syntax.models.syntax_model import SyntaxModel
from syntax_data.commands.main import command_line, positive, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite


def sentences(
    model: SyntaxModel, task: Any, split: str, *, batch_size: int, contents: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yield the number and arrays of each sentence of a split."""
    dictionary = task.source_dictionary
    for batch in batches(task, split, batch_size, model):
        inputs = [part for name, part in batch.items() if name.startswith("net_input")]  # of a choice, several
        for option, net_input in enumerate(inputs):
            of_option = {"id": batch["id"] * len(inputs) + option, "net_input": net_input}
            rows = dict(zip(of_option["id"].tolist(), net_input["src_tokens"].tolist(), strict=True))
            for number, arrays in by_sentence(model, of_option, pad=dictionary.pad(), contents=contents):
                tokens = [dictionary[token] for token in rows[number] if token != dictionary.pad()]
                yield number, {"tokens": np.array(tokens), **arrays}


def dump(args: argparse.Namespace) -> int:
    """Write the file; return the number of sentences in it."""
    contents = CONTENTS if args.contents is None else tuple(args.contents.split(","))
    if not set(contents) <= set(CONTENTS):
        raise ValueError(f"--contents: expected some of {','.join(CONTENTS)}, found {args.contents!r}")
    state, task = read_checkpoint(args.path, args.data)
    read = [args.path, *(path for path in files_of_data_bin(args.data) if not path.endswith(".npz"))]
    refuse_to_overwrite(args.output, read)
    model = build_trained(args.path, state, task, cpu=args.cpu)
    if not isinstance(model, SyntaxModel):
        raise InputError(args.path, None, f"expected a model with a syntax encoder, found a {type(model).__name__}")
    load_split(task, args.data, args.gen_subset)
    found = sentences(model, task, args.gen_subset, batch_size=args.batch_size, contents=contents)
    count = 0
    with atomic_write(args.output) as path, zipfile.ZipFile(path, "w") as file:
        _add(file, "layers", np.array(model.syntax_encoder.traced_layers))
        _add(file, "masks", np.array(model.syntax_encoder.bias_builder.names))
        if model.learned_biases:
            _add(file, "biases", np.array(model.learned_biases))
        for number, sentence in found:
            count += 1
            for name, array in sentence.items():
                _add(file, f"{number}/{name}", array)
    return count


def _add(file: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with file.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def get_parser() -> argparse.ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-dump", __doc__)
    parser.add_argument("data", help="the data-bin")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write (.npz)")
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="which split (default: test)")
    parser.add_argument("--contents", metavar="LIST", help=f"some of {','.join(CONTENTS)} (default: all)")
    parser.add_argument(
        "--batch-size", type=positive, default=32, metavar="N", help="sentences in a batch (default: 32)"
    )
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; invalid input ends it with a message and exit status 1."""
    run("fairseq-syntax-dump", get_parser, _run, argv)


def _run(args: argparse.Namespace) -> None:
    utils.import_user_module(args)
    with memory_errors():
        count = dump(args)
    print(f"{args.output}: {count} sentences of {args.gen_subset}")
