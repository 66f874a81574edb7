"""fairseq-syntax-parse: parse a file, one entry for each line, into INPUT.conllu and INPUT.trees.

The text is parsed in batches of --batch-size lines, which gather in the folder PREFIX.parts and are merged in the end;
PREFIX.parse.json records what made the parses. Several machines may do a shard each: the result depends neither on how
many they are nor on where one was stopped.

    one process           fairseq-syntax-parse --lang en --input raw/train.en
    another parser        fairseq-syntax-parse --parser spacy --model en_core_web_sm --input raw/train.en
    several on a CPU      the same with --workers 4
    after a kill          the same again
    several machines      each the same with --num-shards N --shard-id 0 (… N - 1), then one with --merge
"""

from __future__ import annotations

import argparse
import os
from functools import partial

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError, describe_path
from syntax_data.io.workers import check_workers
from syntax_data.parsers import MAX_TOKENS, parser_class, parser_names
from syntax_data.parsers.parser import CHARACTERS_PER_TOKEN, MAX_CHARACTERS, default_characters
from syntax_data.parsing import word_labels
from syntax_data.parsing.batches import open_parser
from syntax_data.parsing.run import ParseRun


def get_parser(parser_name: str | None = None) -> argparse.ArgumentParser:
    """Return the command line, with the options of one parser."""
    parser = command_line("fairseq-syntax-parse", __doc__)
    parser.add_argument("--input", required=True, metavar="FILE", help="text, one sentence or entry a line")
    parser.add_argument("--output-prefix", metavar="PREFIX", help="where to write PREFIX.conllu … (default: the input)")
    parser.add_argument(
        "--parser",
        choices=parser_names(),
        default="stanza",
        help="stanza, spacy and udpipe parse; conllu, conllup (CoNLL-U Plus), conll09, corenlp (its JSON) and trees "
        "check and normalise what another parser made; control makes trees from the number of words alone, for "
        "comparisons and trial runs (default: stanza)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help=f"lines of more tokens get no parse (default: {MAX_TOKENS}; no limit for files of parses)",
    )
    parser.add_argument(
        "--max-characters",
        type=int,
        metavar="N",
        help=f"nor do lines of more characters, which no parser sees (default: {CHARACTERS_PER_TOKEN} for each of "
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
        "set, each has that many threads (default: 1)",
    )
    parser.add_argument(
        "--word-labels",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="write your own labels of words into the column MISC of CoNLL-U, as NAME=label: line by line one for each "
        "token of the parse, with spaces between (may be given several times)",
    )
    parser.add_argument("--strict", action="store_true", help="a line without a parse is an error (default: counted)")
    parser.add_argument("--overwrite", action="store_true", help="replace outputs of other work (default: an error)")
    parser.add_argument("--num-shards", type=int, default=1, metavar="N", help="share the batches among N processes")
    parser.add_argument("--shard-id", type=int, metavar="I", help="which shard to parse, 0 to N - 1")
    parser.add_argument("--merge", action="store_true", help="parse nothing; merge the batches of all shards")
    if parser_name is not None:
        parser_class(parser_name).add_arguments(parser.add_argument_group(f"options of --parser {parser_name}"))
    return parser


def parse(args: argparse.Namespace) -> None:
    """Do what the command line says."""
    _check_options(args)
    found = parser_class(args.parser)
    if args.max_tokens is None:
        args.max_tokens = found.default_max_tokens
    run = ParseRun(
        args.input,
        args.output_prefix or args.input,
        max_tokens=args.max_tokens,
        max_characters=args.max_characters or default_characters(args.max_tokens),
        batch_size=args.batch_size,
        shards=args.num_shards,
        strict=args.strict,
        overwrite=args.overwrite,
        inputs=() if args.merge else found.input_files(args),
        word_labels=word_labels.read_option(args.word_labels),
    )
    if args.merge:
        counts = run.merge()
    else:
        with open_parser(args.workers, partial(found.from_arguments, args)) as parsers:
            counts = run.parse(parsers, args.shard_id, sequential=found.sequential)
    if counts is None:
        print(f"{run.prefix}: all of it was done before")
    elif args.shard_id is not None:
        print(f"shard {args.shard_id} of {args.num_shards}: {counts}; when all are done, give the command with --merge")
    else:
        print(f"{counts}\nwrote {run.prefix}.* and {run.record}")


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
    if args.workers * args.num_shards > 1 and parser_class(args.parser).sequential:
        option = "--workers" if args.workers > 1 else "--num-shards"
        raise ValueError(f"{option}: expected 1 with --parser {args.parser}, which reads its file from line 1 on")
    if not os.path.isfile(args.input):
        raise InputError(args.input or "--input", None, f"expected a text, found {describe_path(args.input)}")


def main(argv: list[str] | None = None) -> None:
    """Run the command; broken input ends it with a message and exit status 1."""
    advice = "; the same command goes on"
    run("fairseq-syntax-parse", lambda: get_parser(_named_parser(argv)), parse, argv, advice=advice)


def _named_parser(argv: list[str] | None) -> str:
    """Return the value of --parser, which brings options of its own."""
    asked = argparse.ArgumentParser(prog="fairseq-syntax-parse", add_help=False, allow_abbrev=False)
    asked.add_argument("--parser", choices=parser_names(), default="stanza")
    name: str = asked.parse_known_args(argv)[0].parser
    return name


if __name__ == "__main__":
    main()
