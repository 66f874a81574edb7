"""Which pictures there are of what was given, with titles and captions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from syntax_data.trees.tree import NoParse
from syntax_experiments.plots import properties
from syntax_experiments.plots.bins import make_bins
from syntax_experiments.plots.curves import learning_curves
from syntax_experiments.plots.figures import constituents as constituents_figure
from syntax_experiments.plots.figures import dependencies as dependencies_figure
from syntax_experiments.plots.figures import gates_at_end as gates_at_end_figure
from syntax_experiments.plots.figures import gates_of_heads as gates_of_heads_figure
from syntax_experiments.plots.figures import gates_over_training as gates_over_training_figure
from syntax_experiments.plots.figures import heads as heads_figure
from syntax_experiments.plots.figures import learning_curves as learning_curves_figure
from syntax_experiments.plots.figures import matrices as matrices_figure
from syntax_experiments.plots.figures import scores_by_bin as scores_by_bin_figure
from syntax_experiments.plots.figures import sweep as sweep_figure
from syntax_experiments.plots.figures.style import Look
from syntax_experiments.plots.gates import gates_at_end, gates_of_heads, gates_over_training
from syntax_experiments.plots.inputs import Inputs
from syntax_experiments.plots.page import Picture
from syntax_experiments.plots.scores import Scorer, scores_by_bin, sweep
from syntax_experiments.plots.sentence import (
    MOST_LAYERS,
    attention_and_masks,
    attention_of_heads,
    constituents,
    dependencies,
)
from syntax_experiments.plots.table import Table

_SEEDS = "Over several seeds, {} the mean and {} from the lowest seed to the highest."


def of_training(inputs: Inputs, looks: Mapping[str, Look], *, by: str) -> Iterator[Picture]:
    """Learning curves and gates."""
    if inputs.histories:
        table = learning_curves(inputs.histories)
        yield Picture(
            "learning-curves", "Learning curves",
            "The criterion's loss on the validation set (with label smoothing, if training had it), in bits; lower is "
            "better. The first quarter of a curve may lie above the picture. "
            f"{_SEEDS.format('the line is', 'the band goes')}",
            table, learning_curves_figure.draw(table, looks, by=by),
        )  # fmt: skip
    table = gates_at_end(inputs.histories, inputs.dumps)
    if table.rows:
        yield Picture(
            "gates-at-end", "Gates at the end of training",
            "How much of each head's attention is the mask's, from 0 (global attention alone) to 1: the mean over "
            "sentences, of a dump if there is one, else of the last validation. Over several seeds, the mean.",
            table, gates_at_end_figure.draw(table),
        )  # fmt: skip
    table = gates_over_training(inputs.histories)
    if table.rows:
        yield Picture(
            "gates-over-training", "Gates over training",
            "The mean gate of a layer's heads, over the sentences of the validation set. "
            f"{_SEEDS.format('the line is', 'the band goes')}",
            table, gates_over_training_figure.draw(table, by=by),
        )  # fmt: skip
    for number, (system, seeds) in enumerate(inputs.histories.items(), start=1):
        table = gates_of_heads(seeds)
        if table.rows:
            yield Picture(
                f"gates-of-heads-{number}-{_file_name(system)}".rstrip("-"), f"Gates over training: heads of {system}",
                "The gate of each head of a layer, a thin line each, and their mean, the thick line; means over the "
                "sentences of the validation set.",
                table, gates_of_heads_figure.draw(table, by=by),
            )  # fmt: skip


def of_scores(inputs: Inputs, looks: Mapping[str, Look], score: Scorer, *, least: int) -> Iterator[Picture]:
    """Scores by length, height, depth and clauses."""
    kinds: list[tuple[str, str, str, str, list[Any], Callable[[Any], int]]] = [
        ("length", "source length", "source length (words)", "Words are what white space separates.",
         inputs.lengths, int),
        ("height", "height of the constituency tree", "height of the constituency tree (constituents)",
         "A word has the height 1, a constituent 1 more than its highest child; unary chains count once.",
         inputs.trees, properties.height),
        ("depth", "depth of the dependency tree", "depth of the dependency tree (words)",
         "The greatest number of words on the way from a root down.", inputs.dependencies, lambda tree: tree.depth),
        ("clauses", "number of clauses", "clauses",
         "One a sentence, one for each csubj, ccomp, xcomp, advcl, acl and parataxis of Universal Dependencies, and "
         "one for each conj that is a verb or an auxiliary.", inputs.dependencies, properties.clauses),
    ]  # fmt: skip
    for name, title, axis, meaning, found, measure in kinds:
        values = [None if isinstance(item, NoParse) else measure(item) for item in found]
        values = [value or None for value in values]  # of empty lines, nothing
        bins = make_bins(values, least=least)
        if not (bins and inputs.hypotheses):
            continue
        table = scores_by_bin(bins, inputs.hypotheses, score)
        if without := sum(value is None for value in values):
            note = f"{without} of {len(values)} sentences are in no bin: they are empty or have no parse."
            table = replace(table, notes=(note,))
        yield Picture(
            f"score-by-{name}", f"Score by {title}",
            f"The corpus score of each bin's sentences; bins with fewer than {least} sentences are joined. {meaning} "
            f"{_SEEDS.format('the point is', 'the bar goes')}",
            table, scores_by_bin_figure.draw(table, looks, axis=axis), score.signatures(),
        )  # fmt: skip


def of_sweeps(inputs: Inputs, looks: Mapping[str, Look], score: Scorer) -> Iterator[Picture]:
    """Scores against settings."""
    for number, (axis, points) in enumerate(inputs.sweeps.items(), start=1):
        table = sweep(points, score)
        yield Picture(
            f"sweep-{number}-{_file_name(axis)}".rstrip("-"), f"Score against {axis}",
            f"The score of the whole test set. {_SEEDS.format('the point is', 'the bar goes')} A level line is a "
            "system that the setting does not concern.",
            table, sweep_figure.draw(table, looks, axis=axis), score.signatures(),
        )  # fmt: skip


def of_sentence(inputs: Inputs, sentence: int) -> Iterator[Picture]:
    """Trees, masks and attention of a sentence."""
    of_tree: list[tuple[str, str, str, list[Any], Callable[[Any], Table], Callable[[Table], Any]]] = [
        ("constituents", "constituents", "The parse of the source; nltk places its nodes.",
         inputs.trees, constituents, constituents_figure.draw),
        ("dependencies", "dependencies", "The parse of the source: each arrow leads from a head to its word.",
         inputs.dependencies, dependencies, dependencies_figure.draw),
    ]  # fmt: skip
    for name, title, caption, found, tabulate, draw in of_tree:
        if not found:
            continue
        if sentence >= len(found):
            raise ValueError(f"--sentence: expected 0 to {len(found) - 1}, as there are parses, found {sentence}")
        if isinstance(found[sentence], NoParse):
            print(f"sentence {sentence} has no {title}: {found[sentence].reason}", file=sys.stderr)
            continue
        if (table := tabulate(found[sentence])).rows:
            yield Picture(f"sentence-{sentence}-{name}", f"Sentence {sentence}: {title}", caption, table, draw(table))
    dumps = {system: of_system[0] for system, of_system in inputs.dumps.items()}
    if not dumps:
        return
    table = attention_and_masks(dumps, sentence)
    notes = tuple(f"{s}: of the first of {len(d)} dumps." for s, d in inputs.dumps.items() if len(d) > 1)
    if table.rows:
        table = replace(table, notes=notes)
        yield Picture(
            f"sentence-{sentence}-attention", f"Sentence {sentence}: masks and attention",
            "Rows are queries, columns keys. Learned biases and attention (the mixed one, which weighs the values) are "
            f"means over heads; colours are the same for all systems. Of more than {MOST_LAYERS} layers, the first and "
            "the last.",
            table, matrices_figure.draw(table),
        )  # fmt: skip
    for number, (system, dump) in enumerate(dumps.items(), start=1):
        table = attention_of_heads(dump, sentence)
        if table.rows:
            yield Picture(
                f"sentence-{sentence}-heads-{number}-{_file_name(system)}".rstrip("-"),
                f"Sentence {sentence}: heads of {system}",
                "Attention of each layer and head; rows are queries, columns keys, in the order of the words.",
                table, heads_figure.draw(table),
            )  # fmt: skip


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:40]
