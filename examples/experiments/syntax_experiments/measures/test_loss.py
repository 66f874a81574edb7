"""How probable are the test set's references under a trained model? Bits a target token, without label smoothing.

    python test_loss.py MODEL DATA [--subset test]

MODEL has ``checkpoint.pt``, DATA is its data-bin. No checkpoint is chosen by this number, as it is by the validation
loss, and it varies far less from seed to seed than BLEU.
"""

from __future__ import annotations

import argparse
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
    parser.add_argument("--subset", default="test", help="default: %(default)s")
    args = parser.parse_args()
    print(test_loss(args.model / "checkpoint.pt", args.data, args.subset))


@torch.no_grad()
def test_loss(path: Path, data: str, subset: str) -> float:
    """Mean over target tokens, ``</s>`` among them, of −log₂ p(token | source, tokens before it)."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": data})
    model.eval()
    if torch.cuda.is_available():
        model.cuda()
    task.load_dataset(subset)
    iterator = task.get_batch_iterator(task.dataset(subset), max_tokens=4000, disable_iterator_cache=True)
    nats, tokens = 0.0, 0
    for batch in iterator.next_epoch_itr(shuffle=False):
        if torch.cuda.is_available():
            batch = utils.move_to_cuda(batch)
        scores = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
        target = batch["target"]
        of_target = scores.gather(-1, target.unsqueeze(-1)).squeeze(-1)[target.ne(task.target_dictionary.pad())]
        nats -= float(of_target.double().sum())
        tokens += batch["ntokens"]
    return nats / tokens / math.log(2)


if __name__ == "__main__":
    main()
