"""fairseq-syntax-contrast: how often a model prefers a right translation to a wrong one.

    fairseq-syntax-contrast data-bin/en-de --path checkpoints/checkpoint_best.pt --bpe-codes codes \\
        --source pairs.source --right pairs.right --wrong pairs.wrong --categories pairs.category --output scores.tsv

A pair is right if log p(right | source) > log p(wrong | source), each the sum over all subwords of the translation and
its end (forced decoding, as fairseq-generate --score-reference). The files have one sentence, or category, a line, in
words as the training data had before its subwords, or in its subwords. The source is parsed as the training data was,
or --input-parses has its parses. The output has tab-separated columns and a header: line, category, both logarithms
(natural), and how many subwords they are of.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from fairseq_syntax.commands.new_text import add_parse_arguments, add_subword_arguments, load
from fairseq_syntax.commands.trained import files_of_data_bin, memory_errors
from fairseq_syntax.inference.hub import SentenceTooLong
from fairseq_syntax.inference.parsed_batch import ParsedBatch
from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite
from syntax_data.scoring.contrastive import Pair, accuracies, read_pairs

_COLUMNS = ("line", "category", "right", "wrong", "right_subwords", "wrong_subwords")


def contrast(args: argparse.Namespace) -> list[tuple[Pair, torch.Tensor, torch.Tensor]]:
    """Return the pairs with log p of each subword of the right and of the wrong translation.

    Raises:
        InputError: a file or the model does not fit, or a sentence is longer than the model can read.
    """
    files = [path for path in (args.source, args.right, args.wrong, args.categories) if path is not None]
    if args.output is not None:
        refuse_to_overwrite(args.output, [*files, args.path, *files_of_data_bin(args.data)])
    pairs = read_pairs(args.source, args.right, args.wrong, args.categories)
    # The parses of a file are compared with the sources at once.
    model = load(args, **({"interactive_input": args.source} if args.input_parses else {}))
    with _in_file(args.source):
        sources = model.read([pair.source for pair in pairs])
    if isinstance(sources, ParsedBatch):
        model.task.new_text.reader.source.end()
        for reason, count in sources.without_parse.items():
            print(f"{args.source}: {count} of {len(pairs)} sentences have no parse ({reason})")
    scores = []
    for path, texts in ((args.right, [pair.right for pair in pairs]), (args.wrong, [pair.wrong for pair in pairs])):
        with _in_file(path):
            ids = torch.cat(model.read_translations(texts))
            scores.append(model.score(sources, texts))
        if unknown := int((ids == model.tgt_dict.unk()).sum()):
            print(f"{path}: {unknown} of {len(ids)} subwords are not in the model's dictionary")
    return list(zip(pairs, *scores, strict=True))


@contextmanager
def _in_file(path: str) -> Iterator[None]:
    """Inside the block, sentences that are too long are errors of a file."""
    try:
        yield
    except SentenceTooLong as error:
        raise InputError(path, None, str(error)) from None


def _write(path: str, scored: Sequence[tuple[Pair, torch.Tensor, torch.Tensor]]) -> None:
    with atomic_write(path) as part, open(part, "w", encoding="utf-8") as file:
        file.write("\t".join(_COLUMNS) + "\n")
        for line, (pair, right, wrong) in enumerate(scored, start=1):
            file.write(f"{line}\t{pair.category}\t{right.sum():.6f}\t{wrong.sum():.6f}\t{len(right)}\t{len(wrong)}\n")


def get_parser() -> argparse.ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-contrast", __doc__)
    parser.add_argument("data", help="the data-bin of the training")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--source", required=True, metavar="FILE", help="source sentences")
    parser.add_argument("--right", required=True, metavar="FILE", help="their right translations")
    parser.add_argument("--wrong", required=True, metavar="FILE", help="wrong ones")
    parser.add_argument("--categories", metavar="FILE", help="category of each pair (default: one for all)")
    parser.add_argument("--output", metavar="FILE", help="where to write the scores (.tsv)")
    add_subword_arguments(parser)
    add_parse_arguments(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; invalid input ends it with a message and exit status 1."""
    run("fairseq-syntax-contrast", get_parser, _run, argv)


def _run(args: argparse.Namespace) -> None:
    with memory_errors():
        scored = contrast(args)
    if args.output is not None:
        _write(args.output, scored)
        print(f"{args.output}: {len(scored)} pairs")
    found = accuracies((pair.category, bool(right.sum() > wrong.sum())) for pair, right, wrong in scored)
    width = max(map(len, [*found, "category"]))
    print(f"{'category':{width}}  {'pairs':>7}  {'right':>7}  accuracy (%)")
    for category, of in found.items():
        print(f"{category:{width}}  {of.pairs:7}  {of.right:7}  {of.percent:12.2f}")
