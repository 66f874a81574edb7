"""fairseq-syntax-translate: translations of lines of text, in their order.

    fairseq-syntax-translate --path exported/model.pt < raw.en > translated.de
    fairseq-syntax-translate --path checkpoints/checkpoint_best.pt --data data-bin/en-de \\
        --tokenizer moses --bpe-codes codes --input raw.en --output translated.de
    … --nbest 5 --json            one JSON object a line: {"line": 1, "hypotheses": [{"text": …, "score": …}, …]}
    … --constraints               words that a translation must have follow the line, each phrase after a tab

Text is tokenised, split into subwords and parsed as the training data was. A blank line stays blank. A line that is too
long for the model gets an empty one, and is named and counted on stderr, as are lines without a parse. Scores are the
mean log-probability of a subword (base e), as --lenpen changes it.

The exit status is 3 if the parser failed on lines, which are translated without a parse.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, make_dataclass
from itertools import islice
from typing import Any, BinaryIO, NoReturn

from fairseq import utils
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from tqdm import tqdm

from fairseq_syntax.commands.new_text import (
    add_data_argument,
    add_parse_arguments,
    add_subword_arguments,
    check_subwords,
    load,
)
from fairseq_syntax.commands.trained import memory_errors
from fairseq_syntax.compat import remarks
from fairseq_syntax.inference.hub import SyntaxHubInterface
from fairseq_syntax.inference.new_text import PARSER_FAILED, TranslationReport
from fairseq_syntax.inference.parse_sources import ParserFailed
from fairseq_syntax.inference.source_lines import SourceLines, is_reading_ahead, read_ahead
from syntax_data.commands.main import UsageError, command_line, run
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite
from syntax_data.text.lines import decode_lines

_COMMAND = "fairseq-syntax-translate"
#: Options of the search, which are fairseq's.
_SEARCH = (
    "beam", "nbest", "max_len_a", "max_len_b", "min_len", "lenpen", "unkpen", "unnormalized", "no_repeat_ngram_size",
    "sampling", "sampling_topk", "sampling_topp", "temperature", "diverse_beam_groups", "diverse_beam_strength",
    "constraints",
)  # fmt: skip


def translate(args: argparse.Namespace, out: BinaryIO) -> bool:
    """Write the translation of each line, and on stderr a summary; return if the parser failed on lines."""
    model = load(args, max_tokens=args.max_tokens, batch_size=args.batch_size, interactive_input=args.input)
    check_subwords(model, args)
    if args.fp16:
        model.half()
    source = model.task.new_text.reader.source if model.task.syntax_features else None  # before a line is read
    search, report = {name: getattr(args, name) for name in _SEARCH}, TranslationReport()
    with tqdm(unit=" lines", disable=None) as bar:
        for lines in read_ahead(_read(model, args)):
            for number, hypotheses in enumerate(model.translate_lines(lines, **search), start=report.lines + 1):
                found = [(_text(model, h), h["score"].item()) for h in hypotheses[: args.nbest]]
                out.write(f"{_json(number, found) if args.json else found[0][0] if found else ''}\n".encode())
            out.flush()
            report.add(lines.batch, too_long=lines.too_long, blank=lines.blank)
            bar.update(lines.count)
    if source is not None:
        source.end()
    report.print(_COMMAND)
    return source is not None and report.parser_failed(source)


def _read(model: SyntaxHubInterface, args: argparse.Namespace) -> Iterator[SourceLines]:
    """Read the input buffer by buffer."""
    first, name = 1, "standard input" if args.input == "-" else args.input
    # A file of its own: when Python ends, it waits for sys.stdin, which may wait for input.
    with open(0 if args.input == "-" else args.input, "rb", closefd=args.input != "-") as file:
        lines = (line for _, line in decode_lines(file, path=name, first=1))
        while buffer := list(islice(lines, args.buffer_size)):
            yield model.read_lines(buffer, first=first, on_too_long="skip", constraints=args.constraints is not None)
            first += len(buffer)


def _text(model: SyntaxHubInterface, hypothesis: Mapping[str, Any]) -> str:
    """Return the text of a hypothesis, on one line: subwords of bytes may have line breaks."""
    return re.sub(r"[\r\n]+", " ", model.decode(hypothesis["tokens"]))


def _json(line: int, found: Sequence[tuple[str, float]]) -> str:
    hypotheses = [{"text": text, "score": score} for text, score in found]
    return json.dumps({"line": line, "hypotheses": hypotheses}, ensure_ascii=False)


@contextmanager
def _output(path: str | None) -> Iterator[BinaryIO]:
    """Yield the file that is written, which becomes `path`; or stdout, where then nothing else is printed."""
    if path is not None:
        with atomic_write(path) as part, open(part, "wb") as file:
            yield file
        return
    stdout = sys.stdout.buffer
    with redirect_stdout(sys.stderr):
        try:
            yield stdout
        except BrokenPipeError:  # Python would flush it once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
            raise


def get_parser() -> argparse.ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line(_COMMAND, __doc__)
    parser.add_argument(
        "--path",
        required=True,
        metavar="FILE",
        help="the checkpoint; several, with : between them, are an ensemble",
    )
    add_data_argument(parser)
    parser.add_argument("--input", default="-", metavar="FILE", help="lines of text (default: standard input)")
    parser.add_argument("--output", metavar="FILE", help="where to write translations (default: standard output)")
    parser.add_argument("--json", action="store_true", help="write JSON, one object a line, with scores")
    add_subword_arguments(parser)
    add_parse_arguments(parser)
    parser.add_argument("--fp16", action="store_true", help="compute in half precision")
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="of a batch (default: 4000)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="sentences of a batch (default: any number)")
    parser.add_argument(
        "--buffer-size", type=int, default=2000, metavar="N",
        help="lines that are read, parsed and sorted by length before they are translated (default: 2000)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of --sampling (default: 1)")
    chosen = [(field.name, field.type, field) for field in fields(GenerationConfig) if field.name in _SEARCH]
    search = make_dataclass("Search", chosen, bases=(FairseqDataclass,))
    gen_parser_from_dataclass(parser.add_argument_group("search, as in fairseq"), search())
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; invalid input ends it with a message and exit status 1."""
    try:
        run(_COMMAND, get_parser, _run, argv, errors=(ParserFailed,))
    except SystemExit as end:
        if is_reading_ahead():
            _exit_at_once(end)
        raise


def _run(args: argparse.Namespace) -> None:
    _check(args)
    if args.input != "-":
        os.stat(args.input)  # an error before the model is loaded
    if args.output is not None:
        files = filter(None, (args.bpe_codes, args.sentencepiece_model))
        refuse_to_overwrite(args.output, [args.input, *utils.split_paths(args.path), *files])
    utils.set_torch_seed(args.seed)
    with memory_errors(), remarks.left_out("fairseq"), _output(args.output) as out:
        failed = translate(args, out)
    if failed:
        sys.exit(PARSER_FAILED)


def _check(args: argparse.Namespace) -> None:
    """Raise :class:`UsageError` for options that are invalid, or exclude each other."""
    for name in ("beam", "nbest", "max_tokens", "batch_size", "buffer_size"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')}: expected at least 1, found {value}")
    if args.nbest > args.beam:
        raise UsageError(f"--nbest: expected at most --beam {args.beam}, found {args.nbest}")
    if args.nbest > 1 and not args.json:
        raise UsageError("--nbest above 1: expected --json beside it")
    if args.sampling and args.nbest != args.beam:
        raise UsageError("--sampling: expected --nbest equal to --beam, as of fairseq")
    if max(args.sampling_topk, args.sampling_topp) > 0 and not args.sampling:
        raise UsageError("--sampling-topk, --sampling-topp: expected with --sampling")
    if args.sampling + (args.diverse_beam_groups > 0) + bool(args.constraints) > 1:
        raise UsageError("expected one of --sampling, --diverse-beam-groups and --constraints, found several")
    if args.diverse_beam_groups > 0 and args.beam % args.diverse_beam_groups:
        raise UsageError("--diverse-beam-groups: expected a divisor of --beam")


def _exit_at_once(end: SystemExit) -> NoReturn:
    """End the process, though a thread may be inside torch, which would abort when Python ends."""
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if isinstance(end.code, str) else end.code or 0)
