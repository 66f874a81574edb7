"""Print the loss of references in bits a target token, without label smoothing.

    python loss.py MODEL DATA [--user-dir DIR] [--subsets test] [--parts FILE] [--sentences]

MODEL has ``checkpoint.pt``, DATA is its data-bin. No checkpoint is chosen by the loss of a test set, as by that of the
validation set, and it varies far less from seed to seed than BLEU. Several subsets (``valid,test``) count as one.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)


def main() -> None:
    """Print a number; of parts, or with sentences, a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")
    parser.add_argument("--subsets", default="test", help="default: %(default)s")
    parser.add_argument("--parts", type=Path, metavar="FILE", help="JSON object: by name the lines, from 0")
    parser.add_argument("--sentences", action="store_true", help="first print [bits, tokens] of each, for the table")
    args = parser.parse_args()
    utils.import_user_module(args)
    subsets = args.subsets.split(",")
    bits, tokens = losses(args.model / "checkpoint.pt", args.data, subsets)
    parts = json.loads(args.parts.read_text()) if args.parts else {" and ".join(subsets): range(len(bits))}
    lines = {f"loss, {name}": list(of) for name, of in parts.items()}
    if args.sentences:
        pairs = [[round(b, 4), int(t)] for b, t in zip(bits.tolist(), tokens.tolist(), strict=True)]
        print(json.dumps({"sentences": {name: [pairs[line] for line in of] for name, of in lines.items()}}))
    found = {name: float(bits[of].sum() / tokens[of].sum()) for name, of in lines.items()}
    print(json.dumps(found if args.parts or args.sentences else next(iter(found.values()))))


@torch.no_grad()
def losses(path: Path, data: str, subsets: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Σ −log₂ p(token | source, tokens before it) and Σ 1, each ``(lines,)``."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": data})
    model.eval()
    if torch.cuda.is_available():
        model.cuda()
    found = []
    for subset in subsets:
        task.load_dataset(subset)
        of_subset = torch.zeros(2, len(task.dataset(subset)), dtype=torch.float64)
        iterator = task.get_batch_iterator(task.dataset(subset), max_tokens=4000, disable_iterator_cache=True)
        for batch in iterator.next_epoch_itr(shuffle=False):
            if torch.cuda.is_available():
                batch = utils.move_to_cuda(batch)
            scores = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
            target = batch["target"]
            there = target.ne(task.target_dictionary.pad())
            nats = -scores.gather(-1, target.unsqueeze(-1)).squeeze(-1).double().where(there, 0.0).sum(dim=1)
            of_subset[:, batch["id"].cpu()] = torch.stack([nats / math.log(2), there.sum(dim=1).double()]).cpu()
        found.append(of_subset)
    bits, tokens = torch.cat(found, dim=1)
    return bits, tokens


if __name__ == "__main__":
    main()
