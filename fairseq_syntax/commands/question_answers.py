"""Answers of a trained model to the questions of a split."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks
from torch import Tensor

from fairseq_syntax.commands.trained import batches, build_trained, load_split, read_checkpoint
from fairseq_syntax.data.passage_windows import PassageWindows, Text
from fairseq_syntax.tasks.syntax_span_prediction import LABELS, SyntaxSpanPredictionTask
from syntax_data.errors import InputError
from syntax_data.squad.answers import WindowLogits, best_spans, null_score, verified
from syntax_data.squad.read import Passage, read_passages


@dataclass(frozen=True)
class Answer:
    """A span's text, and its score s_first + e_last."""

    text: str
    score: float


@dataclass(frozen=True)
class QuestionAnswers:
    """The best answers to a question, the best one first.

    The question has none if `diff` is greater than δ.
    """

    diff: float
    answers: list[Answer]


def answer_split(args: Namespace) -> dict[str, QuestionAnswers]:
    """Return the answers of a checkpoint's model by the questions' ids.

    Of a passage's windows the one counts that a verifier, if there is one, finds most answerable.

    Args:
        args: those of ``fairseq-syntax-squad answer``.

    Raises:
        InputError: a checkpoint is another one, or the data does not fit it.
    """
    state, task = read_checkpoint(args.path, args.data)
    name = getattr(state["cfg"].criterion, "classification_head_name", None)
    if not isinstance(task, SyntaxSpanPredictionTask) or f"span_heads.{name}.weight" not in state["model"]:
        expected = "a model of --task syntax_span_prediction --criterion span_prediction"
        raise InputError(args.path, None, f"expected {expected}, found one of --task {state['cfg'].task._name}")
    of_items = dict(_outputs(build_trained(args.path, state, task, cpu=args.cpu), task, args))
    dataset = task.dataset(args.gen_subset)
    passages = _passages(os.path.join(args.data, f"{args.gen_subset}.passages.jsonl"), dataset.passages)
    verifiers = _verify(task, args) if args.verifier else None
    found = {}
    for example, items in zip(dataset.examples, _items_of_examples(dataset), strict=True):
        of_windows = [_window_logits(dataset.windows[item][1], *of_items[item]) for item in items]
        spans = best_spans(of_windows, count=args.n_best, max_length=args.max_answer_length)
        diff = null_score(of_windows) - spans[0].score
        if verifiers:
            answerable, impossible = min((verifiers[item] for item in items), key=lambda logits: logits[1] - logits[0])
            diff = verified(diff, impossible, answerable, weights=args.verifier_weights)
        of_passage = passages[example.passage]
        answers = [Answer(of_passage.span(span.first, span.last), span.score) for span in spans]
        found[example.id] = QuestionAnswers(diff, answers)
    return found


def _outputs(model: Any, task: Any, args: Namespace) -> Iterator[tuple[int, tuple[Tensor, Any]]]:
    """Yield the number of each item of the split, with the outputs of the model's head and the place of the passage."""
    load_split(task, args.data, args.gen_subset)
    for batch in batches(task, args.gen_subset, args.batch_size, model):
        with torch.no_grad():
            outputs, _ = model(**batch["net_input"], classification_head_name=task.cfg.classification_head_name)
        rows = zip(outputs.float().cpu(), batch["passage"].tolist(), strict=True)
        yield from zip(batch["id"].tolist(), rows, strict=True)


def _window_logits(window: range, logits: Tensor, passage: tuple[int, int]) -> WindowLogits:
    first, stop = passage
    if not logits[:stop].isfinite().all():
        raise ValueError("expected finite logits of the model, found others: did its training diverge?")
    start, end = logits[first:stop].numpy().T
    return WindowLogits(window, start, end, null=float(logits[0].sum()))


def _items_of_examples(dataset: PassageWindows) -> list[list[int]]:
    """Return the items of each example, in the order of their windows."""
    found: list[list[int]] = [[] for _ in dataset.examples]
    for item, (number, _) in enumerate(dataset.windows):
        found[number].append(item)
    return found


def _passages(path: str, binarized: Text) -> list[Passage]:
    """Read the passages, which must have as many subwords as there are tokens."""
    passages = read_passages(path)
    if len(passages) != len(binarized.tokens):
        raise InputError(
            path, None, f"expected {len(binarized.tokens)} passages, as in passage/, found {len(passages)}"
        )
    for line, passage in enumerate(passages):
        if (expected := binarized.subwords(line)) != (found := len(passage.starts)):
            raise InputError(path, line + 1, f"expected {expected} subwords, as in passage/, found {found}")
    return passages


def _verify(task: SyntaxSpanPredictionTask, args: Namespace) -> dict[int, list[float]]:
    """Return the verifier's logits of answerable and impossible, by the numbers of the split's items.

    It may also be one of ``--task syntax_sentence_prediction``, which reads the same windows as those of `task`.
    """
    state = checkpoint_utils.load_checkpoint_to_cpu(args.verifier, {})
    names = (getattr(state["cfg"].model, "label_names", None) or "").split()
    if set(names) != set(LABELS):
        expected = f"a classifier of {' and '.join(LABELS)}"
        raise InputError(args.verifier, None, f"expected {expected}, found labels {' '.join(names) or '(none)'}")
    cfg = copy(task.cfg)
    cfg.criterion_name = "sentence_prediction"
    cfg.classification_head_name = state["cfg"].criterion.classification_head_name
    cfg.max_positions = state["cfg"].model.max_positions
    of_windows = tasks.setup_task(cfg)
    model = build_trained(args.verifier, state, of_windows, cpu=args.cpu)
    order = [names.index(label) for label in LABELS]
    outputs = _outputs(model, of_windows, args)
    return {item: [float(logits[number]) for number in order] for item, (logits, _) in outputs}
