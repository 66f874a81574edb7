"""fairseq-syntax-predict: predictions of a trained model for a split, and scores.

    fairseq-syntax-predict data/rte --path checkpoints/checkpoint_best.pt --gen-subset valid --output valid.tsv
    … --compare stock.tsv         with McNemar's exact test

It is for models of --task syntax_sentence_prediction (labels, sets of labels, numbers), syntax_sentence_ranking, and
syntax_masked_lm, whose predictions are pseudo-log-likelihoods of lines (natural logarithms; Salazar et al. 2020).
The file has tab-separated columns and a header: id (the line of the split, from 0), prediction, gold (if the split has
labels), and the logit of each label. Labels are written by name. A checkpoint has the names of its labels: a folder may
number them differently, but may have no others. Scores are printed in percent.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import NestedDictionaryDataset
from torch import Tensor, nn

from fairseq_syntax.commands.trained import (
    batches,
    build_trained,
    files_of_data_bin,
    load_split,
    memory_errors,
    read_checkpoint,
)
from fairseq_syntax.data.examples import innermost
from fairseq_syntax.inference.pseudo_likelihood import pseudo_log_likelihoods
from fairseq_syntax.tasks.syntax_masked_lm import SyntaxMaskedLMTask
from fairseq_syntax.tasks.syntax_sentence_prediction import SyntaxSentencePredictionTask
from fairseq_syntax.tasks.syntax_sentence_ranking import SyntaxSentenceRankingTask
from syntax_data.commands.main import command_line, positive, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite
from syntax_data.scoring.predictions import Kind, Predictions, compare, scores


@dataclass(frozen=True)
class Outputs:
    """How the outputs of a model are read.

    Attributes:
        kind: of the predictions.
        names: of the labels, or numbers of the options, in the order of the outputs; none for numbers. Outputs without
            a name are never predicted.
        head: name of the classification head; ``None``: a masked LM, whose outputs are pseudo-log-likelihoods.
    """

    kind: Kind
    names: Sequence[str]
    head: str | None

    @classmethod
    def of(cls, task: Any, criterion: Any) -> Outputs:
        """Outputs of a model by its task and the criterion of its training."""
        if isinstance(task, SyntaxMaskedLMTask):
            return cls("number", [], None)
        if isinstance(task, SyntaxSentenceRankingTask):
            return cls("option", [str(k) for k in range(task.cfg.num_classes)], criterion.ranking_head_name)
        head = criterion.classification_head_name
        if task.cfg.regression_target:
            return cls("number", [], head)
        takes_sets = getattr(criterion, "takes_label_sets", False)
        return cls("label set" if takes_sets else "label", task.label_names, head)

    def logits(self, model: nn.Module, batch: Mapping[str, Any], task: Any) -> Tensor:
        """Return logits of a batch, ``(batch, outputs)``; of each option its one output."""
        if self.head is None:
            return pseudo_log_likelihoods(model, batch["net_input"], task.source_dictionary).unsqueeze(1)
        inputs = [part for name, part in batch.items() if name.startswith("net_input")]
        options = {"features_only": True, "classification_head_name": self.head}
        found = torch.cat([model(**of_input, **options)[0] for of_input in inputs], dim=1)
        return found[:, : len(self.names)] if self.names else found

    def predicted(self, logits: Sequence[float]) -> str:
        """Write what is predicted from the logits of an example."""
        if self.kind == "label set":
            return self.written([number for number, logit in enumerate(logits) if logit > 0])
        return self.written(logits if self.kind == "number" else [int(np.argmax(logits))])

    def written(self, values: Iterable[Any]) -> str:
        """Write numbers, or labels from their numbers; -1 is padding."""
        if self.kind == "number":
            return " ".join(f"{value:.7g}" for value in values)
        return " ".join(self.names[value] for value in sorted(values) if value >= 0)


def predict(args: argparse.Namespace) -> None:
    """Write the file, and print its scores and the comparison with another one.

    Raises:
        InputError: the model is of another task; its labels are not the data's; an example is longer than it can read;
            or the other file is not of these examples.
        ValueError: the ignored label is none of the model's.
    """
    task, model, outputs = _open_model(args)
    if args.ignored_label is not None and args.ignored_label not in outputs.names:
        raise ValueError(f"--ignored-label: expected one of {' '.join(outputs.names)}, found {args.ignored_label}")
    other = None if args.compare is None else Predictions.read(args.compare, outputs.kind)
    load_split(task, args.data, args.gen_subset)
    _check_lengths(args, task, model)
    found = _predictions(args, model, task, outputs)
    with atomic_write(args.output) as path:
        found.write(path, outputs.names)
    print(f"{args.output}: {len(found.predicted)} predictions of {args.gen_subset}")
    _report(args, outputs.kind, found, other)


def _open_model(args: argparse.Namespace) -> tuple[Any, nn.Module, Outputs]:
    """Return the task of a checkpoint on the data, its model, and how that one's outputs are read."""
    overrides = {} if args.truncate_to is None else {"truncate_to": args.truncate_to}
    state, task = read_checkpoint(args.path, args.data, **overrides)
    if not isinstance(task, SyntaxSentencePredictionTask | SyntaxSentenceRankingTask | SyntaxMaskedLMTask):
        tasks = "syntax_sentence_prediction, syntax_sentence_ranking or syntax_masked_lm"
        raise InputError(args.path, None, f"expected a model of --task {tasks}, found one of {type(task).__name__}")
    if isinstance(task, SyntaxMaskedLMTask):
        for option in ("truncate_to", "compare", "ignored_label"):
            if (found := getattr(args, option)) is not None:
                raise ValueError(f"--{option.replace('_', '-')}: expected none for a masked LM, found {found}")
        # Lines as they are, one an example.
        task.cfg.skip_masking, task.cfg.sample_break_mode, task.cfg.shorten_method = True, "eos", "none"
    folders = [folder for text in task.texts for folder in text.folders] + [os.path.join(args.data, "label")]
    read = [path for folder in filter(os.path.isdir, folders) for path in files_of_data_bin(folder)]
    refuse_to_overwrite(args.output, [*read, args.path, *filter(None, [args.compare])])
    model = build_trained(args.path, state, task, cpu=args.cpu)
    return task, model, Outputs.of(task, task.build_criterion(state["cfg"].criterion))


@torch.no_grad()
def _predictions(args: argparse.Namespace, model: nn.Module, task: Any, outputs: Outputs) -> Predictions:
    """Return the predictions of all examples.

    Raises:
        InputError: logits are infinite or no numbers.
    """
    predicted: dict[int, str] = {}
    gold: dict[int, str] = {}
    logits: dict[int, Sequence[float]] = {}
    for batch in batches(task, args.gen_subset, args.batch_size, model):
        ids, of_batch = batch["id"].tolist(), outputs.logits(model, batch, task).float().tolist()
        if not np.isfinite(of_batch).all():
            raise InputError(args.path, None, "expected finite logits, found others: did its training diverge?")
        predicted.update(zip(ids, map(outputs.predicted, of_batch), strict=True))
        if outputs.names:
            logits.update(zip(ids, of_batch, strict=True))
        if "target" in batch and outputs.head is not None:
            targets = batch["target"].view(len(ids), batch["target"].numel() // len(ids)).tolist()
            gold.update(zip(ids, map(outputs.written, targets), strict=True))
    return Predictions(predicted, gold or None, logits)


def _check_lengths(args: argparse.Namespace, task: Any, model: Any) -> None:
    """Raise :class:`InputError` for examples that are longer than the model can read."""
    sizes = np.max(innermost(task.dataset(args.gen_subset), NestedDictionaryDataset).sizes, axis=0)
    most = model.max_positions()
    if (long := np.flatnonzero(sizes > most)).size:
        message = f"expected examples of at most {most} tokens in {args.gen_subset}, found {sizes[long[0]]} in line "
        message += f"{long[0] + 1}; {long.size} are longer"
        if not isinstance(task, SyntaxMaskedLMTask):
            message += " (--truncate-to N cuts all to N tokens)"
        raise InputError(args.data, None, message)


def _report(args: argparse.Namespace, kind: Kind, found: Predictions, other: Predictions | None) -> None:
    """Print the scores in percent, and the comparison with another file's."""
    ignored = [] if args.ignored_label is None else [args.ignored_label]
    comparison = None if other is None else compare(args.compare, other, found, kind)
    systems = {args.output: found} if other is None else {args.output: found, args.compare: other}
    rows = {path: scores(of, kind, ignored=ignored) for path, of in systems.items()}
    width = max(map(len, systems))
    if names := list(rows[args.output]):
        print(" " * width, *(f"{name:>9}" for name in names))
        for path, values in rows.items():
            print(f"{path:{width}}", *(f"{100 * values[name]:9.2f}" for name in names))
    if comparison is not None:
        print(
            f"McNemar's exact test: {comparison.first} are right in {args.output} alone, {comparison.second} in "
            f"{args.compare} alone, p = {comparison.p:.3g}"
        )


def get_parser() -> argparse.ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-predict", __doc__)
    parser.add_argument("data", help="the folder with input0, input1 … and label; of a masked LM that of its text")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--output", required=True, metavar="FILE", help="where to write (.tsv)")
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="which split (default: test)")
    parser.add_argument("--compare", metavar="FILE", help="predictions of another system for the same examples")
    parser.add_argument(
        "--ignored-label", metavar="NAME", help="also print precision, recall and F1 of all other labels (micro)"
    )
    parser.add_argument(
        "--truncate-to", type=int, metavar="N", help="cut examples to N tokens (default: as in training)"
    )
    parser.add_argument(
        "--batch-size", type=positive, default=32, metavar="N", help="examples in a batch (default: 32)"
    )
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; invalid input ends it with a message and exit status 1."""
    run("fairseq-syntax-predict", get_parser, _run, argv)


def _run(args: argparse.Namespace) -> None:
    utils.import_user_module(args)
    with memory_errors():
        predict(args)
