"""fairseq-syntax-score: sacreBLEU's BLEU, chrF2 and TER of detokenised text.

    fairseq-syntax-score --hypotheses generate.log --references test.de --remove-bpe subword_nmt --detokenize de
    … --baseline stock.log        with paired bootstrap resampling and approximate randomisation

Translations are the log of fairseq-generate or fairseq-interactive (any file with lines H-<number>, put back into the
order of the numbers; of an n-best list the first), or plain text with one a line. Of a log the lines H-, the model's
tokens, are read, not the lines D-, whose subwords and tokenisation fairseq itself may have undone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Literal

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite
from syntax_data.scoring.metrics import TESTS, ScoreSettings, corpus_scores, paired_test
from syntax_data.scoring.scoring_options import add_scoring_options
from syntax_data.scoring.translations import read_references, read_translations, restore

_SAMPLES: dict[Literal["bs", "ar"], int] = {"bs": 1000, "ar": 10000}
_MOST_SAMPLES = 100_000
#: Tokenisers of BLEU that find words where spaces are, and letters of texts that have none.
_BY_SPACES = ("none", "13a", "intl")
_CJ = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def score(args: argparse.Namespace) -> dict[str, Any]:
    """The scores of all systems, as ``--format json`` prints them."""
    samples = {"bs": args.paired_bs_n, "ar": args.paired_ar_n}
    if args.baseline is None and any(samples.values()):
        raise ValueError("expected --paired-bs-n and --paired-ar-n with --baseline only, found no --baseline")
    # sacreBLEU's tests compare all others with the first.
    paths = [*([] if args.baseline is None else [args.baseline]), *args.hypotheses]
    for one, other in itertools.combinations([*args.references, *paths], 2):
        if os.path.samefile(one, other):
            raise InputError(other, None, f"expected each file once, found {one} again")
    if args.output is not None:
        refuse_to_overwrite(args.output, [*args.references, *paths])
    references = [read_references(path) for path in args.references]
    count = len(references[0])
    systems: list[tuple[str, Sequence[str]]] = [
        (path, restore(path, read_translations(path, count), remove_bpe=args.remove_bpe, detokenize=args.detokenize))
        for path in paths
    ]
    for path, texts in [*systems, *zip(args.references, references, strict=True)]:
        if len(texts) != count:
            raise InputError(path, None, f"expected {count} sentences as in {args.references[0]}, found {len(texts)}")
        if empty := sum(not text.strip() for text in texts):
            print(f"{path}: {empty} of {count} lines are empty", file=sys.stderr)
    if args.tokenize in _BY_SPACES and sum(bool(_CJ.search(text)) for text in references[0]) > count / 2:
        print(
            f"{args.references[0]}: Chinese or Japanese, where {args.tokenize!r} finds no words "
            "(--tokenize zh, ja-mecab, char?)",
            file=sys.stderr,
        )
    settings = ScoreSettings(
        tokenize=args.tokenize, lowercase=args.lowercase, ter_case_sensitive=args.ter_case_sensitive
    )
    if args.output is not None:
        with atomic_write(args.output) as path, open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in systems[-1][1])
    restored = f"remove-bpe:{args.remove_bpe or 'no'}|detokenize:{args.detokenize or 'no'}"
    scores = {path: corpus_scores(texts, references, settings=settings) for path, texts in systems}
    result: dict[str, Any] = {"restored": restored, "scores": scores, "tests": {}}
    if args.baseline is not None:
        for kind, usual in _SAMPLES.items():
            found = paired_test(dict(systems), references, settings=settings, kind=kind, samples=samples[kind] or usual)
            result["tests"][TESTS[kind]] = {
                metric: {"signature": of.signature, "p": of.p} for metric, of in found.items()
            }
    return result


def _print(result: dict[str, Any]) -> None:
    baseline = next(iter(result["scores"])) if result["tests"] else None
    names: Sequence[str] = list(next(iter(result["scores"].values())))
    width = max(map(len, [*result["scores"], "system"])) + (len(" (baseline)") if baseline else 0)
    print(f"{'system':{width}}  {'  '.join(f'{name:>7}' for name in names)}")
    for path, scores in result["scores"].items():
        label = f"{path} (baseline)" if path == baseline else path
        row = "  ".join(f"{scores[name]['score']:7.2f}" for name in names)
        print(f"{label:{width}}  {row}")
    for test, found in result["tests"].items():
        print(f"\n{test}, p of no difference to the baseline")
        for path in list(result["scores"])[1:]:
            row = "  ".join(f"{found[name]['p'][path]:7.4f}" for name in names)
            print(f"{path:{width}}  {row}")
    print("\nsignatures")
    for name in names:
        print(f"{name}: {next(iter(result['scores'].values()))[name]['signature']}")
    for test, found in result["tests"].items():
        for name in names:
            print(f"{name}, {test}: {found[name]['signature']}")
    print(f"translations: {result['restored']}")


def _samples(text: str) -> int:
    # sacreBLEU takes its default for 0 and negative numbers.
    if not re.fullmatch("[0-9]{1,6}", text) or not 0 < int(text) <= _MOST_SAMPLES:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {_MOST_SAMPLES}, found {text[:20]!r}")
    return int(text)


def get_parser() -> argparse.ArgumentParser:
    """The command line; sacreBLEU's names where sacreBLEU has the option."""
    parser = command_line("fairseq-syntax-score", __doc__)
    parser.add_argument("--hypotheses", required=True, nargs="+", metavar="FILE", help="logs or texts, one a system")
    parser.add_argument("--references", required=True, nargs="+", metavar="FILE", help="raw text, one a reference")
    parser.add_argument(
        "--baseline", metavar="FILE", help="log or text of the system that the others are compared with"
    )
    add_scoring_options(parser)
    parser.add_argument(
        "--ter-case-sensitive", action="store_true", help="TER of cased text (default: sacreBLEU's, lower-cased)"
    )
    parser.add_argument("--paired-bs-n", type=_samples, metavar="N", help="bootstrap samples (default: 1000)")
    parser.add_argument("--paired-ar-n", type=_samples, metavar="N", help="randomisation trials (default: 10000)")
    parser.add_argument("--output", metavar="FILE", help="where to write the text that was scored (of the last system)")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="of the result (default: text)")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command; broken input ends it with a message and exit status 1."""
    # The errors: sacreBLEU lacks a tokeniser.
    run("fairseq-syntax-score", get_parser, _run, argv, errors=(RuntimeError, ImportError))


def _run(args: argparse.Namespace) -> None:
    result = score(args)
    if args.format == "json":
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        _print(result)


if __name__ == "__main__":
    main()
