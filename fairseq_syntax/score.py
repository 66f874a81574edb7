"""fairseq-syntax-score: sacreBLEU's BLEU, chrF2 and TER of translations, as detokenised text against raw references.

    fairseq-syntax-score --hypotheses generate.log --references test.de --remove-bpe subword_nmt --detokenize de
    … --baseline stock.log        with paired bootstrap resampling and approximate randomisation

Translations are the log of fairseq-generate or fairseq-interactive (any file with lines H-<number>, put back into the
order of the numbers; of an n-best list the first), or a text with one a line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from typing import Any, cast

import sacrebleu.tokenizers
from fairseq.data.data_utils import post_process
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest, Result
from sacremoses import MosesDetokenizer

from fairseq_syntax.cli import command
from fairseq_syntax.errors import InputError
from fairseq_syntax.files import whole
from fairseq_syntax.trees import read_lines

_HYPOTHESIS = re.compile(rb"H-(\d+)\t[^\t]*\t(.*)")
_MARKS = {"subword_nmt": "@@ ", "sentencepiece": "▁"}
_TESTS = {"bs": "paired bootstrap resampling", "ar": "paired approximate randomisation"}


def read_translations(path: str) -> list[str]:
    """The translations in a log or a text, in the order of the sentences.

    Raises :class:`InputError` if some of the sentences of a log have none.
    """
    with open(path, "rb") as file:
        # A progress bar that went to the same file as the log ends its lines with \r.
        lines = file.read().replace(b"\r", b"\n").split(b"\n")
    matches = [match for line in lines if (match := _HYPOTHESIS.fullmatch(line))]
    if not matches:
        return [line for _, line in read_lines(path)]
    first: dict[int, str] = {}
    for match in matches:
        try:
            first.setdefault(int(match[1]), match[2].decode("utf-8"))
        except UnicodeDecodeError as error:
            raise InputError(path, None, f"H-{int(match[1])}: expected UTF-8, found {error.reason}") from None
    missing = sorted(set(range(max(first) + 1)) - first.keys())
    if missing:
        raise InputError(
            path,
            None,
            f"expected a translation (H-…) of each sentence from 0 to {max(first)}, {len(missing)} are missing: "
            f"{', '.join(map(str, missing[:8]))}{' …' * (len(missing) > 8)}",
        )
    if len(matches) > len(first):
        print(f"{path}: took the first of {len(matches)} hypotheses of {len(first)} sentences", file=sys.stderr)
    return [first[number] for number in range(len(first))]


def restore(path: str, translations: Sequence[str], *, remove_bpe: str | None, detokenize: str | None) -> list[str]:
    """The text that people read of what a model wrote; says so if it seems that something of the model's is left.

    Args:
        path: of the translations, for messages.
        remove_bpe: what marks subwords, ``subword_nmt`` or ``sentencepiece``; ``None``: there are none.
        detokenize: the language by whose rules Moses' tokenisation and escapes are undone; ``None``: they are not.
    """
    texts = [post_process(text, remove_bpe) for text in translations]
    for name, mark in _MARKS.items():
        if marked := sum(mark in f"{text} " for text in texts):
            print(f"{path}: {marked} translations have {mark!r} in them (--remove-bpe {name}?)", file=sys.stderr)
    if detokenize:
        detokenizer = MosesDetokenizer(lang=detokenize)
        return [detokenizer.detokenize(text.split()) for text in texts]
    if escaped := sum(bool(re.search(r"&(apos|quot|amp|lt|gt|#\d+);| @-@ ", text)) for text in texts):
        print(f"{path}: {escaped} translations have escapes of Moses in them (--detokenize LANG?)", file=sys.stderr)
    return texts


def score(args: argparse.Namespace) -> dict[str, Any]:
    """The scores of all systems, as ``--format json`` prints them."""
    references = [[line for _, line in read_lines(path)] for path in args.references]
    # sacreBLEU's tests compare all others with the first.
    paths = [*([args.baseline] if args.baseline else []), *args.hypotheses]
    systems: list[tuple[str, Sequence[str]]] = [
        (path, restore(path, read_translations(path), remove_bpe=args.remove_bpe, detokenize=args.detokenize))
        for path in paths
    ]
    for path, texts in [*systems, *zip(args.references[1:], references[1:], strict=True)]:
        if len(texts) != len(references[0]):
            raise InputError(
                path, None, f"expected {len(references[0])} sentences as in {args.references[0]}, found {len(texts)}"
            )
    if args.output:
        with whole(args.output) as path, open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in systems[-1][1])
    metrics = {
        "BLEU": BLEU(lowercase=args.lowercase, tokenize=args.tokenize),
        "CHRF": CHRF(lowercase=args.lowercase),
        "TER": TER(case_sensitive=args.ter_case_sensitive),
    }
    restored = f"remove-bpe:{args.remove_bpe or 'no'}|detokenize:{args.detokenize or 'no'}"
    result: dict[str, Any] = {"restored": restored, "scores": {path: {} for path in paths}, "tests": {}}
    for metric in metrics.values():
        for path, texts in systems:
            found = metric.corpus_score(texts, references)
            result["scores"][path][found.name] = {
                "score": found.score,
                "signature": metric.get_signature().format(),
            }
    if args.baseline:
        for kind, samples in (("bs", args.paired_bs_n), ("ar", args.paired_ar_n)):
            test = PairedTest(systems, metrics, references, test_type=kind, n_samples=samples)
            signatures, found = test()
            result["tests"][_TESTS[kind]] = {
                name: {
                    "signature": signatures[name].format(),
                    "p": {path: cast(Result, r).p_value for path, r in zip(paths[1:], found[name][1:], strict=True)},
                }
                for name in signatures
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


def get_parser() -> argparse.ArgumentParser:
    """The command line; sacreBLEU's names where sacreBLEU has the option."""
    parser = argparse.ArgumentParser(
        prog="fairseq-syntax-score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--hypotheses", required=True, nargs="+", metavar="FILE", help="logs or texts, one a system")
    parser.add_argument("--references", required=True, nargs="+", metavar="FILE", help="raw text, one a reference")
    parser.add_argument(
        "--baseline", metavar="FILE", help="log or text of the system that the others are compared with"
    )
    parser.add_argument(
        "--remove-bpe", choices=list(_MARKS), help="undo subwords of this kind (default: there are none, or no more)"
    )
    parser.add_argument(
        "--detokenize",
        metavar="LANG",
        help="undo Moses' tokenisation and escapes by the rules of this language, with sacremoses (default: do not)",
    )
    parser.add_argument("--lowercase", action="store_true", help="BLEU and chrF2 of lower-cased text (default: cased)")
    parser.add_argument(
        "--tokenize",
        choices=list(sacrebleu.BLEU.TOKENIZERS),
        default=sacrebleu.BLEU.TOKENIZER_DEFAULT,
        help="what BLEU counts as tokens (default: %(default)s)",
    )
    parser.add_argument(
        "--ter-case-sensitive", action="store_true", help="TER of cased text (default: sacreBLEU's, lower-cased)"
    )
    parser.add_argument("--paired-bs-n", type=int, default=1000, metavar="N", help="bootstrap samples (default: 1000)")
    parser.add_argument(
        "--paired-ar-n", type=int, default=10000, metavar="N", help="randomisation trials (default: 10000)"
    )
    parser.add_argument("--output", metavar="FILE", help="where to write the text that was scored (of the last system)")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="of the result (default: text)")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
    args = get_parser().parse_args(argv)
    with command("fairseq-syntax-score", errors=(RuntimeError, ImportError)):  # the errors: sacreBLEU lacks a tokeniser
        result = score(args)
    if args.format == "json":
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        _print(result)


if __name__ == "__main__":
    main()
