"""How probable are the references of parts of the test set under a trained model? Bits a target token of each.

    python loss_of_parts.py MODEL DATA PARTS [--subset test]

PARTS is a JSON file that has of each part the numbers (from 0) of its lines. Prints a JSON object: ``loss, NAME`` of
each part NAME, as ``test_loss.py`` measures it of the whole.
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
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("parts", type=Path, metavar="PARTS")
    parser.add_argument("--subset", default="test", help="default: %(default)s")
    args = parser.parse_args()
    bits, tokens = of_lines(args.model / "checkpoint.pt", args.data, args.subset)
    parts = {name: torch.tensor(lines) for name, lines in json.loads(args.parts.read_text()).items()}
    print(json.dumps({f"loss, {name}": float(bits[of].sum() / tokens[of].sum()) for name, of in parts.items()}))


@torch.no_grad()
def of_lines(path: Path, data: str, subset: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of −log₂ p(token | source, tokens before it), and the number of tokens, of each line's reference."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": data})
    model.eval()
    if torch.cuda.is_available():
        model.cuda()
    task.load_dataset(subset)
    bits, tokens = torch.zeros(2, len(task.dataset(subset)), dtype=torch.float64)
    iterator = task.get_batch_iterator(task.dataset(subset), max_tokens=4000, disable_iterator_cache=True)
    for batch in iterator.next_epoch_itr(shuffle=False):
        if torch.cuda.is_available():
            batch = utils.move_to_cuda(batch)
        scores = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
        target = batch["target"]
        there = target.ne(task.target_dictionary.pad())
        nats = -scores.gather(-1, target.unsqueeze(-1)).squeeze(-1).double().where(there, 0.0).sum(dim=1)
        bits[batch["id"].cpu()] = nats.cpu() / math.log(2)
        tokens[batch["id"].cpu()] = there.sum(dim=1).double().cpu()
    return bits, tokens


if __name__ == "__main__":
    main()
