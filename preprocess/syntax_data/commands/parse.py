"""fairseq-syntax-parse: text to parses, one unit for each line, in INPUT.conllu and INPUT.trees.

The parser gets a batch of --batch-size lines in one call. What it makes of each goes to the folder PREFIX.parts; when
all batches are there they are merged, and PREFIX.parse.json says what was done. Several processes may do a shard of the
batches each: the result depends neither on how many they are nor on where one was stopped.

    one process           fairseq-syntax-parse --lang en --input raw/train.en
    another parser        fairseq-syntax-parse --parser spacy --model en_core_web_sm --input raw/train.en
    several on a CPU      the same with --workers 4
    after a kill          the same with --resume
    several machines      each the same with --num-shards N --shard-id 0 (… N - 1), then one with --merge
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from functools import partial

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError, describe_path
from syntax_data.io.workers import check_workers
from syntax_data.parsers import (
    CHARACTERS_A_TOKEN,
    MAX_CHARACTERS,
    MAX_TOKENS,
    default_characters,
    parser_class,
    parser_names,
)
from syntax_data.parsing.job import merge, open_parser, parse_batches
from syntax_data.parsing.outputs import check_places, is_finished, what_becomes_of_others
from syntax_data.parsing.plan import ParsePlan, Shard
from syntax_data.parsing.store import BatchStore


def get_parser(parser_name: str | None = None) -> argparse.ArgumentParser:
    """The command line, with the options of one parser."""
    parser = command_line("fairseq-syntax-parse", __doc__)
    parser.add_argument("--input", required=True, metavar="FILE", help="text, one unit a line")
    parser.add_argument("--output-prefix", metavar="PREFIX", help="where to write PREFIX.conllu … (default: the input)")
    parser.add_argument(
        "--parser",
        choices=parser_names(),
        default="stanza",
        help="stanza, spacy and udpipe parse; conllu and trees check and normalise what another parser made; control "
        "makes trees of the number of words alone, for comparisons and trial runs (default: stanza)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help=f"lines of more tokens get no parse (default: {MAX_TOKENS}; no limit for --parser conllu and trees)",
    )
    parser.add_argument(
        "--max-characters",
        type=int,
        metavar="N",
        help=f"nor do lines of more characters, which no parser sees (default: {CHARACTERS_A_TOKEN} for each of "
        f"--max-tokens, at least {MAX_CHARACTERS}; no limit where --max-tokens has none)",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=1000,
        metavar="N",
        help="lines in a batch, which the parser gets in one call (default: 1000)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="parallel processes, each with a parser of its own and a share of the CPU's cores; if OMP_NUM_THREADS is "
        "set, each has so many threads (default: 1)",
    )
    parser.add_argument("--strict", action="store_true", help="a line without a parse is an error (default: counted)")
    parser.add_argument("--resume", action="store_true", help="keep the batches that an earlier run has parsed")
    parser.add_argument("--num-shards", type=int, default=1, metavar="N", help="share the batches among N processes")
    parser.add_argument("--shard-id", type=int, metavar="I", help="which shard to parse, 0 to N - 1")
    parser.add_argument("--merge", action="store_true", help="parse nothing; merge the batches of all shards")
    if parser_name is not None:
        parser_class(parser_name).add_arguments(parser.add_argument_group(f"options of --parser {parser_name}"))
    return parser


def parse(args: argparse.Namespace) -> None:
    """Does what the command line says."""
    _check_options(args)
    if args.max_tokens is None:
        args.max_tokens = parser_class(args.parser).default_max_tokens
    prefix = args.output_prefix or args.input
    inputs = [args.input] if args.merge else [args.input, *parser_class(args.parser).input_files(args)]
    check_places(prefix, inputs)
    plan = ParsePlan(
        args.input,
        prefix,
        max_tokens=args.max_tokens,
        max_characters=args.max_characters or default_characters(args.max_tokens),
        batch_size=args.batch_size,
        strict=args.strict,
    )
    store = BatchStore(plan)
    store.sweep()
    shard = None if args.shard_id is None else Shard(args.shard_id, args.num_shards)
    make = partial(parser_class(args.parser).from_arguments, args)
    with nullcontext() if args.merge else open_parser(args.workers, make) as parser:
        work = None if parser is None else plan.work(parser.described)
        if (args.merge or args.resume) and is_finished(plan, work):
            print(f"{prefix}: all of it was done before")
            return
        with store.open(work, shard) as found:
            for line in what_becomes_of_others(plan, found):
                print(line, file=sys.stderr)
            if parser is not None:
                try:
                    parse_batches(store, parser, (shard or Shard(0, 1)).batches(len(plan.batches)), resume=args.resume)
                except InputError:
                    if parser.sequential and not shard:  # quickly made anew, once its file is put right
                        store.discard()
                    raise
            if not shard:
                print(merge(store, found))
                print(f"wrote {', '.join(map(plan.output, found.kinds))} and {plan.record}")
    if shard:
        print(f"{shard} is done; when all are, give the command with --merge")


def _check_options(args: argparse.Namespace) -> None:
    for name in ("batch_size", "max_tokens", "max_characters", "num_shards"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')}: expected at least 1, found {value}")
    if args.merge and args.shard_id is not None:
        raise ValueError("expected --merge or --shard-id, found both")
    if not args.merge and args.shard_id is None and args.num_shards > 1:
        raise ValueError("expected --num-shards and --shard-id together")
    if not 0 <= (args.shard_id or 0) < args.num_shards:
        raise ValueError(f"--shard-id: expected 0 to {args.num_shards - 1}, found {args.shard_id}")
    check_workers(args.workers)
    if args.workers > 1 and parser_class(args.parser).sequential:
        raise ValueError(f"--workers: expected 1 with --parser {args.parser}, which reads its file from line 1 on")
    if not os.path.isfile(args.input):
        raise InputError(args.input or "--input", None, f"expected a text, found {describe_path(args.input)}")


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    advice = "; the same command with --resume goes on"
    run("fairseq-syntax-parse", lambda: get_parser(_named_parser(argv)), parse, argv, advice=advice)


def _named_parser(argv: list[str] | None) -> str:
    """The value of --parser, which brings options of its own."""
    asked = argparse.ArgumentParser(prog="fairseq-syntax-parse", add_help=False, allow_abbrev=False)
    asked.add_argument("--parser", choices=parser_names(), default="stanza")
    name: str = asked.parse_known_args(argv)[0].parser
    return name


if __name__ == "__main__":
    main()
