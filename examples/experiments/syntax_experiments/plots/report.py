"""The pictures that can be drawn of the inputs, with titles and captions."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from pandas import DataFrame

from syntax_data.trees.brackets import format_brackets
from syntax_data.trees.tree import NoParse, Tree, merge_leaves
from syntax_experiments.plots import drawings, picture_data
from syntax_experiments.plots.inputs import Inputs
from syntax_experiments.plots.page import Picture
from syntax_experiments.plots.properties import values_of
from syntax_experiments.plots.style import looks

#: Pictures of longer sentences would take minutes, and nobody could read them.
MOST_TOKENS = 80
_MOST_LEVELS = 100  # of a tree
_SEEDS = "Over several seeds, the mean, and from the lowest to the highest."
_GATES = (
    "The share of each head's attention that an attention bias has, from 0 (global attention alone) to 1: the mean "
    "over sentences, of a dump if there is one, else of the last validation; over several seeds, the mean."
)
#: Title, meaning of the colours, caption of the matrices of a sentence.
_MATRICES = {
    "masks": ("masks", "mask (0: hidden, 1: visible)", "Rows are queries, columns keys."),
    "biases": ("learned biases", "bias (added to scores)", "Means over heads, in the first and the last layer."),
    "attention": (
        "attention", "attention weight",
        "The mixed attention, which weighs the values: means over heads, in the first and the last layer.",
    ),
    "heads": ("heads", "attention weight", "Attention of each layer and head, in the order of the tokens."),
}  # fmt: skip


def all_pictures(inputs: Inputs, args: argparse.Namespace) -> Iterator[Picture]:
    """Yield every picture that can be drawn."""
    look = looks(inputs.systems)
    if len(data := picture_data.final_gates(inputs.dumps, inputs.logged)):
        key, gates = "gate (weight of the bias)", picture_data.matrices_of(data, ["system", "bias"])
        drawing = drawings.matrices(gates, key, columns=3, top=1.0, axes_of=("layer", "head"), style="numbers")
        yield Picture("gates-at-end", "Gates of heads", _GATES, data, drawing)
    if inputs.references:
        score = picture_data.CorpusScorer(inputs.references, lowercase=args.lowercase, tokenize=args.tokenize)
        yield from _scores_by_bin(inputs, look, score, least=args.min_sentences)
        for i, (axis, points) in enumerate(inputs.sweeps.items(), start=1):
            data = picture_data.sweep(points, score)
            caption = f"The score of the test set. {_SEEDS} A level line: the setting does not concern the system."
            drawing = drawings.scores(data, look, axis=axis)
            name, title = _file_name(f"sweep-{i}-{axis}"), f"Score against {axis}"
            yield Picture(name, title, caption, data, drawing, signatures=score.signatures)
    for sentence in dict.fromkeys(args.sentence):
        yield from _trees(inputs, sentence)
        yield from _attention(inputs, sentence)


def _scores_by_bin(inputs: Inputs, look: Any, score: picture_data.CorpusScorer, *, least: int) -> Iterator[Picture]:
    kinds = [
        ("length", "source length (words)", "Words are what white space separates.",
         [None if isinstance(count, NoParse) else count for count in inputs.lengths]),
        ("height", "height of the constituency tree (constituents)",
         "A word has the height 1, a constituent 1 more than its highest child; unary chains count once.",
         values_of("height", inputs.trees)),
        ("depth", "depth of the dependency tree (words)",
         "The greatest number of words on the way from a root down.", values_of("depth", inputs.dependencies)),
        ("clauses", "number of clauses",
         "One a sentence, one for each csubj, ccomp, xcomp, advcl, acl and parataxis of Universal Dependencies, and "
         "one for each conj that is a verb or an auxiliary.", values_of("clauses", inputs.dependencies)),
    ]  # fmt: skip
    for name, axis, meaning, found in kinds:
        values = [value or None for value in found]
        bins = picture_data.make_bins(values, least=least)
        if bins and inputs.hypotheses:
            data = picture_data.scores_by_bin(bins, inputs.hypotheses, score)
            caption = (
                f"The corpus score of each bin; bins of fewer than {least} sentences are joined. {meaning} {_SEEDS}"
            )
            without, title = values.count(None), f"Score by {axis.partition(' (')[0]}"
            note = f"{without} of {len(values)} sentences are in no bin: they are empty or have no parse."
            drawing = drawings.scores(data, look, axis=axis)
            notes = (note,) if without else ()
            yield Picture(f"score-by-{name}", title, caption, data, drawing, notes, score.signatures)


def _cut(count: int) -> tuple[str, ...]:
    return (f"Only the first {MOST_TOKENS} of {count} tokens are drawn.",) if count > MOST_TOKENS else ()


def _trees(inputs: Inputs, sentence: int) -> Iterator[Picture]:
    for kind, found in (("constituents", inputs.trees), ("dependencies", inputs.dependencies)):
        if found and not 0 <= sentence < len(found):
            raise ValueError(f"--sentence: expected 0 to {len(found) - 1}, as there are parses, found {sentence}")
        parse: Any = found[sentence] if found else None
        name, title = f"sentence-{sentence}-{kind}", f"Sentence {sentence}: {kind}"
        if isinstance(parse, NoParse):
            print(f"{title}: no parse ({parse.reason})", file=sys.stderr)
        elif kind == "dependencies" and parse and parse.tokens:
            data = picture_data.dependencies(parse).head(MOST_TOKENS)
            caption, drawing = "An arrow leads from each head to its word.", drawings.dependencies(data)
            yield Picture(name, title, caption, data, drawing, _cut(len(parse.tokens)))
        elif kind == "constituents" and parse:
            words = [word for tree in parse for word in tree.leaves()]
            kept = {i: i for i in range(min(len(words), MOST_TOKENS))}
            trees: Any = merge_leaves(Tree("", parse), words, kept).children
            if max(accumulate(step for tree in trees for _, step in tree.walk())) > _MOST_LEVELS:
                print(f"{title}: not drawn, as it has more than {_MOST_LEVELS} levels", file=sys.stderr)
            else:
                data = DataFrame({"trees": [format_brackets(trees).strip()]})
                yield Picture(name, title, "The parse, by nltk.", data, drawings.constituents(trees), _cut(len(words)))


def _attention(inputs: Inputs, sentence: int) -> Iterator[Picture]:
    dumps = {system: seeds[0] for system, seeds in inputs.dumps.items()}
    notes = {note for dump in dumps.values() for note in _cut(len(dump.tokens(sentence)))}
    notes |= {f"{s}: the first of {len(seeds)} dumps." for s, seeds in inputs.dumps.items() if len(seeds) > 1}
    for kind, (title, key, caption) in _MATRICES.items():
        pictures = [(kind, title, [*dumps])]
        if kind == "heads":  # a picture a system, a row a layer
            pictures = [(f"heads-{i}-{system}", f"heads of {system}", [system]) for i, system in enumerate(dumps, 1)]
        for name, of, systems in pictures:
            found = [m for s in systems for m in picture_data.matrices(s, dumps[s], sentence, kind, MOST_TOKENS)]
            if found:
                top = 1.0 if kind == "masks" else max(float(abs(m.values).max()) for m in found)
                columns, style = 3, "named"
                if kind == "heads":
                    columns, style = len(found) // len(dumps[systems[0]].layers), "bare"
                axes_of = ("query", "key")
                drawing = drawings.matrices(found, key, columns=columns, top=top, axes_of=axes_of, style=style)
                name, data = _file_name(f"sentence-{sentence}-{name}"), picture_data.cells(found)
                yield Picture(name, f"Sentence {sentence}: {of}", caption, data, drawing, tuple(sorted(notes)))


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:60]
