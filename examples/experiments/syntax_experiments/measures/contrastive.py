"""Print how often a model prefers German references to wrong translations, by category of the error, in percent.

    python contrastive.py MODEL DATA --train train.de --target test.de [--codes CODES] [--subset test] [--sentences]

The wrong translations are made by rule (``syntax_experiments.corpora.contrastive_pairs``). MODEL has ``checkpoint.pt``,
DATA is its data-bin. The files have words, those of the references are the subset's; CODES are subword-nmt's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from subword_nmt.apply_bpe import BPE

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)
from fairseq_syntax.inference.forced_decoding import score_targets
from syntax_data.scoring.contrastive import ALL, accuracies
from syntax_experiments.corpora.contrastive_pairs import Lexicon, german_pairs

_NAME = "contrastive accuracy"


def main() -> None:
    """Print a JSON object; with sentences, before it [100 · right, pairs] of each that has pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")
    parser.add_argument("--train", type=Path, required=True, help="German training text, to learn words from")
    parser.add_argument("--target", type=Path, required=True, help="German references")
    parser.add_argument("--codes", type=Path, help="merges of subword-nmt (default: words)")
    parser.add_argument("--subset", default="test", help="default: %(default)s")
    parser.add_argument("--sentences", action="store_true", help="first print each sentence, for the table")
    args = parser.parse_args()
    utils.import_user_module(args)
    lexicon = Lexicon.of(args.train.read_text().splitlines())
    references = args.target.read_text().splitlines()
    pairs = [(i, *pair) for i, target in enumerate(references) for pair in german_pairs(target, lexicon)]
    found = {"contrastive pairs": float(len(pairs))}
    if pairs:
        right = preferred(args, references, [(i, wrong) for i, _, wrong in pairs])
        of_categories = accuracies((category, of) for (_, category, _), of in zip(pairs, right, strict=True))
        found = {f"accuracy, {name}": of.percent for name, of in of_categories.items() if name != ALL}
        found[_NAME] = of_categories[ALL].percent
        if args.sentences:
            of_lines: dict[int, list[int]] = {}
            for (i, _, _), of in zip(pairs, right, strict=True):
                of_lines.setdefault(i, []).append(of)
            print(json.dumps({"sentences": {_NAME: [[100 * sum(of), len(of)] for of in of_lines.values()]}}))
    print(json.dumps(found))


def preferred(args: argparse.Namespace, references: list[str], wrong: list[tuple[int, str]]) -> list[bool]:
    """Return whether log p(reference) > log p(wrong translation) of each sentence number and wrong translation.

    Raises:
        ValueError: the references are not those of the subset.
    """
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(args.model / "checkpoint.pt")], arg_overrides={"data": args.data}
    )
    model.eval()
    if torch.cuda.is_available():
        model.cuda()
    task.load_dataset(args.subset)
    dataset, encode = task.dataset(args.subset), _encoder(task, args.codes)
    lines = list(dict.fromkeys(i for i, _ in wrong))
    for i in lines:
        if encode(references[i]).tolist() != dataset[i]["target"].tolist():
            raise ValueError(f"{args.target}:{i + 1}: expected the reference in {args.data}, found another")
    targets = [(i, dataset[i]["target"]) for i in lines] + [(i, encode(text)) for i, text in wrong]
    scores = [float(of.sum()) for of in score_targets(task, [model], dataset, targets)]
    of_references = dict(zip(lines, scores, strict=False))
    return [of_references[i] > of for (i, _), of in zip(wrong, scores[len(lines) :], strict=True)]


def _encoder(task: Any, codes: Path | None) -> Callable[[str], torch.Tensor]:
    bpe = None
    if codes is not None:
        with open(codes, encoding="utf-8") as file:
            bpe = BPE(file)

    def encode(text: str) -> torch.Tensor:
        subwords = bpe.process_line(text) if bpe else text
        ids: torch.Tensor = task.target_dictionary.encode_line(subwords, add_if_not_exist=False).long()
        return ids

    return encode


if __name__ == "__main__":
    main()
