"""The work of fairseq-syntax-analyze; its command line is in :mod:`syntax_data.commands`."""

from __future__ import annotations

import argparse
import os
import sys

from syntax_experiments.plots import pictures
from syntax_experiments.plots.figures.style import looks, styled
from syntax_experiments.plots.folder import PAGE, check, whole_folder
from syntax_experiments.plots.inputs import Inputs
from syntax_experiments.plots.page import Picture, write_page
from syntax_experiments.plots.scores import Scorer


def report(args: argparse.Namespace) -> None:
    """Does what the command line asks for, and says what was done."""
    check(args.output)
    inputs = Inputs(args)
    with styled(), whole_folder(args.output) as folder:
        found = all_pictures(inputs, args)
        if not found:
            raise ValueError(
                "nothing can be drawn: expected --log, --run, --dump, --sweep, or --hypotheses with --references and "
                "--source or --parses"
            )
        write_page(folder, title=args.title, sources=inputs.sources, pictures=found)
    for picture in found:
        for note in picture.table.notes:
            print(f"{picture.title}: {note}", file=sys.stderr)
    print(f"{os.path.join(args.output, PAGE)}: {len(found)} pictures")


def all_pictures(inputs: Inputs, args: argparse.Namespace) -> list[Picture]:
    """Every picture that can be made of what was given."""
    of_system = looks(inputs.systems)
    found = list(pictures.of_training(inputs, of_system, by=args.x_axis))
    if inputs.references:
        score = Scorer(inputs.references, lowercase=args.lowercase, tokenize=args.tokenize)
        found += pictures.of_scores(inputs, of_system, score, least=args.min_sentences)
        found += pictures.of_sweeps(inputs, of_system, score)
    for sentence in dict.fromkeys(args.sentence):
        found += pictures.of_sentence(inputs, sentence)
    return found
