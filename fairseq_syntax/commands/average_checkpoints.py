"""fairseq-syntax-average-checkpoints: the mean of the weights of several checkpoints, as one checkpoint.

    the last 10 epochs    fairseq-syntax-average-checkpoints --inputs SAVE_DIR --num-epoch-checkpoints 10 --output X.pt
    chosen files          fairseq-syntax-average-checkpoints --inputs A.pt B.pt --output X.pt

It averages checkpoints of any fairseq model. The result translates, scores and is fine-tuned like any checkpoint; it
holds no optimizer state, because no training ended there.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from torch import Tensor
from tqdm import tqdm

from fairseq_syntax.checkpoints.recorded_options import incompatible_options, recorded
from fairseq_syntax.checkpoints.safe_loading import read
from fairseq_syntax.checkpoints.saving import drop_training_state, save
from syntax_data.commands.main import UsageError, command_line, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite


def last_checkpoints(folder: str, count: int, *, by_update: bool = False, upper_bound: int | None = None) -> list[str]:
    """The newest `count` checkpoints in a folder, up to an epoch or update.

    They are those of whole epochs, or, `by_update`, of ``--save-interval-updates``. Raises :class:`InputError` if there
    are fewer.
    """
    pattern = r"checkpoint_\d+_(\d+)\.pt" if by_update else r"checkpoint(\d+)\.pt"
    numbers = {path: int(re.findall(r"\d+", path)[-1]) for path in checkpoint_utils.checkpoint_paths(folder, pattern)}
    found = [path for path, number in numbers.items() if upper_bound is None or number <= upper_bound]
    if len(found) < count:
        kind = "checkpoint_<epoch>_<update>.pt" if by_update else "checkpoint<epoch>.pt"
        limit = "" if upper_bound is None else f" up to {upper_bound}"
        raise InputError(folder, None, f"expected at least {count} files {kind}{limit}, found {len(found)}")
    return found[:count]


def average(paths: Sequence[str]) -> dict[str, Any]:
    """Return the first checkpoint's state with the mean of all weights, buffers included, and their latest epoch.

    Means are computed in float64 and stored in the dtype of the weights. Integers must be equal in all checkpoints.
    Raises :class:`InputError` for parameters of other names or shapes than the first one's, or other options.
    """
    remaining = iter(tqdm(paths, unit=" checkpoints", disable=None))
    result = read(next(remaining))
    first = recorded(paths[0], result)
    latest = first.epoch or 0
    sums = {name: w.double() if w.is_floating_point() else w for name, w in result["model"].items()}
    for path in remaining:
        state = read(path)
        weights: dict[str, Tensor] = state["model"]
        other = recorded(path, state)
        for option, expected, found in incompatible_options(first.model, other.model):
            raise InputError(path, None, f"{option}: expected {expected} as in {paths[0]}, found {found}")
        if (other.epoch or 0) > latest:
            latest = other.epoch or 0
            result.setdefault("extra_state", {})["train_iterator"] = state["extra_state"]["train_iterator"]
        if others := sorted(weights.keys() ^ sums.keys()):
            raise InputError(path, None, f"expected the parameters of {paths[0]}, {len(others)} differ: {others[:5]}")
        for name, weight in weights.items():
            if weight.shape != sums[name].shape:
                shapes = f"{tuple(sums[name].shape)} as in {paths[0]}, found {tuple(weight.shape)}"
                raise InputError(path, None, f"{name}: expected the shape {shapes}")
            if weight.is_floating_point():
                sums[name] = sums[name] + weight
            elif not torch.equal(weight, sums[name]):
                raise InputError(path, None, f"{name}: integers that differ from those of {paths[0]} have no mean")
    for name, weight in result["model"].items():
        if weight.is_floating_point():
            weight.data.copy_(sums[name] / len(paths))  # in place: parameters that share a storage stay tied
    drop_training_state(result)
    return result


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("fairseq-syntax-average-checkpoints", __doc__)
    parser.add_argument("--inputs", required=True, nargs="+", metavar="PATH", help="checkpoints, or one --save-dir")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write the average")
    newest = parser.add_mutually_exclusive_group()
    newest.add_argument("--num-epoch-checkpoints", type=int, metavar="N", help="take a --save-dir's last N epochs")
    newest.add_argument("--num-update-checkpoints", type=int, metavar="N", help="the last N of --save-interval-updates")
    parser.add_argument("--checkpoint-upper-bound", type=int, metavar="N", help="up to this epoch, or update")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; invalid input ends it with a message and exit status 1."""
    run("fairseq-syntax-average-checkpoints", get_parser, _run, argv)


def _run(args: argparse.Namespace) -> None:
    utils.import_user_module(args)
    paths, by_update = args.inputs, args.num_update_checkpoints is not None
    count = args.num_update_checkpoints if by_update else args.num_epoch_checkpoints
    if count is None:
        if os.path.isdir(paths[0]) or args.checkpoint_upper_bound is not None:
            option = "--checkpoint-upper-bound" if args.checkpoint_upper_bound is not None else "a folder as --inputs"
            raise UsageError(f"{option} goes with --num-epoch-checkpoints or --num-update-checkpoints")
    elif count < 1 or len(paths) > 1:
        raise UsageError("the number of checkpoints is at least 1, and --inputs then one folder")
    else:
        paths = last_checkpoints(paths[0], count, by_update=by_update, upper_bound=args.checkpoint_upper_bound)
    refuse_to_overwrite(args.output, paths)
    with atomic_write(args.output) as path:
        save(average(paths), path)
    print(f"{args.output}: the average of")
    print(*paths, sep="\n")
