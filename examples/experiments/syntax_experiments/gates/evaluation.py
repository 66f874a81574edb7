"""Difference between gates in evaluation and in training mode, on the test set.

    python evaluation.py MODEL DATA [--last 5]

Each checkpoint of the folder MODEL (``checkpoint.pt``, and ``checkpoints/checkpointN.pt`` of epoch N) translates the
test set of the data-bin DATA by greedy search, with the gates in evaluation mode and in training mode. Prints one JSON
object: exact match of ``checkpoint.pt``; of exact match in the two modes the difference (percent of sentences; of the
last epochs the mean, of all the largest); and how far apart the gates are (from 0 to 1, mean of the last epochs). The
numbers of each checkpoint go to stderr.

In training mode gates are normalised by ``--gate-batch-norm-statistics``. A model that stopped normalising by
batch (``frozen_gates``) is evaluated so all the same: that shows how far its statistics have aged.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from argparse import Namespace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from fairseq import checkpoint_utils, utils

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)
from fairseq_syntax.modules.trace import SyntaxTrace


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--last", type=int, default=5, help="how many of the last epochs count (default: %(default)s)")
    args = parser.parse_args()
    epochs = sorted((args.model / "checkpoints").glob("checkpoint[0-9]*.pt"), key=_epoch)
    if not epochs:
        sys.exit(f"{args.model / 'checkpoints'}: expected checkpoints of epochs, found none")
    best, *found = (evaluate(path, args.data) for path in (args.model / "checkpoint.pt", *epochs))
    differences = [abs(of["exact"] - of["as_trained"]) for of in found]
    columns = {
        "exact match, greedy": best["exact"],
        f"difference to training mode, last {args.last} epochs": fmean(differences[-args.last :]),
        "difference, largest of all epochs": max(differences),
        f"distance of gates, last {args.last} epochs": fmean(of["distance"] for of in found[-args.last :]),
    }
    print(json.dumps(columns))


def evaluate(path: Path, data: str) -> dict[str, float]:
    """Exact match with gates in both modes, and the gates' mean distance."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": data})
    if torch.cuda.is_available():
        model.cuda()
    task.load_dataset("test")
    generator = task.build_generator([model], Namespace(beam=1, max_len_a=0, max_len_b=50))  # puts all in eval mode
    exact, gates = exact_match(model, task, generator)
    for gate in model.gates.values():
        gate.train()
    as_trained, gates_as_trained = exact_match(model, task, generator)
    found = {"exact": exact, "as_trained": as_trained, "distance": float((gates - gates_as_trained).abs().mean())}
    print(f"{path.name}: {json.dumps(found)}", file=sys.stderr)
    return found


def exact_match(model: Any, task: Any, generator: Any) -> tuple[float, torch.Tensor]:
    """Percentage that greedy search translates exactly, and the sentences' gates."""
    iterator = task.get_batch_iterator(task.dataset("test"), max_sentences=150, disable_iterator_cache=True)
    gates = []
    exact = count = 0
    with torch.no_grad():
        for batch in iterator.next_epoch_itr(shuffle=False):
            if torch.cuda.is_available():
                batch = utils.move_to_cuda(batch)
            trace = SyntaxTrace()
            batch["net_input"]["trace"] = trace
            for (best, *_), target in zip(generator.generate([model], batch), batch["target"], strict=True):
                exact += best["tokens"].tolist() == target[target != task.target_dictionary.pad()].tolist()
                count += 1
            gates.append(trace.stacked("gates").flatten())
    return 100 * exact / count, torch.cat(gates)


def _epoch(path: Path) -> int:
    return int(re.sub(r"\D", "", path.name))


if __name__ == "__main__":
    main()
