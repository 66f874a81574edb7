"""fairseq-syntax-score: sacreBLEU's BLEU, chrF2 and TER of translations, as detokenised text against raw references.

    fairseq-syntax-score --hypotheses generate.log --references test.de --remove-bpe subword_nmt --detokenize de
    … --baseline stock.log        with paired bootstrap resampling and approximate randomisation

Translations are the log of fairseq-generate or fairseq-interactive (any file with lines H-<number>, put back into the
order of the numbers; of an n-best list the first), or a text with one a line. Of a log the lines H- are read, which are
what the model wrote; the lines D-, whose subwords and tokenisation fairseq itself may have undone, are not.
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

from syntax_preprocess.commands.main import run
from syntax_preprocess.errors import InputError
from syntax_preprocess.lines import decode_lines, read_lines
from syntax_preprocess.scoring import TESTS, ScoreSettings, corpus_scores, paired_test
from syntax_preprocess.system.atomic_write import atomic_write, refuse_to_overwrite

_LOG = re.compile(rb"(?<![^\r\n])[A-Z]-[0-9]+\t|H-[0-9]+\t")
_HYPOTHESIS = re.compile(r"H-(0|[1-9][0-9]{0,17})\t([^\t]*)\t([^\t\0]*)")
_HYPOTHESIS_INSIDE = re.compile(rb"H-[0-9]+\t")
_MARKS = {"subword_nmt": "@@ ", "sentencepiece": "▁"}
_SAMPLES: dict[Literal["bs", "ar"], int] = {"bs": 1000, "ar": 10000}
_MOST_SAMPLES = 100_000
#: Tokenisers of BLEU that find words where spaces are, and letters of texts that have none.
_BY_SPACES = ("none", "13a", "intl")
_CJ = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def read_translations(path: str, count: int) -> list[str]:
    """The translations in a log or a text, in the order of the sentences.

    Raises :class:`InputError` unless a log has one, or an n-best list, of each of `count` sentences and of no other, in
    lines that are whole. Of a text the lines are not counted.
    """
    with open(path, "rb") as file:
        content = file.read()
    log = _LOG.search(content)
    if not log:
        return [line for _, line in read_lines(path)]
    first: dict[int, str] = {}
    found = 0
    last = None
    for number, line in enumerate(content.split(b"\n"), start=1):
        hypothesis = _hypothesis(line, path=path, number=number)
        if hypothesis is None:
            continue
        sentence, text = hypothesis
        if sentence >= count:
            raise InputError(
                path, number, f"expected H-0 to H-{count - 1}, as there are {count} references, found H-{sentence}"
            )
        if sentence in first and sentence != last:
            raise InputError(
                path, number, f"expected the hypotheses of a sentence together, found H-{sentence} again: two logs?"
            )
        first.setdefault(sentence, text)
        found += 1
        last = sentence
    if not first:
        raise InputError(
            path,
            content.count(b"\n", 0, log.start()) + 1,
            f"expected a log with hypotheses (H-…), found {log[0].strip().decode()} and no H-; to score the lines D-, "
            "give their text alone, one a line in the order of their numbers",
        )
    missing = [sentence for sentence in range(count) if sentence not in first]
    if missing:
        raise InputError(
            path,
            None,
            f"expected a translation (H-…) of each of {count} sentences, {len(missing)} are missing: "
            f"{', '.join(map(str, missing[:8]))}{' …' * (len(missing) > 8)}",
        )
    if found > count:
        print(f"{path}: took the first of {found} hypotheses of {count} sentences", file=sys.stderr)
    return [first[sentence] for sentence in range(count)]


def _hypothesis(line: bytes, *, path: str, number: int) -> tuple[int, str] | None:
    """The sentence's number and the text, if this line of a log is a hypothesis.

    Raises :class:`InputError` for a part of a hypothesis, or one that something else was written into.
    """
    # A progress bar that went to the same file as the log begins or ends with \r.
    *before, last = line.removesuffix(b"\r").split(b"\r")
    if any(part.startswith(b"H-") or _HYPOTHESIS_INSIDE.search(part) for part in before):
        raise InputError(path, number, "expected a whole line H-…, found one that a carriage return cuts")
    if not last.startswith(b"H-"):
        if inside := _HYPOTHESIS_INSIDE.search(last):
            raise InputError(
                path, number, f"expected {inside[0].strip().decode()} where a line begins, found it inside of one"
            )
        return None
    _, text = next(decode_lines([last], path=path, first=number))
    if not (match := _HYPOTHESIS.fullmatch(text)):
        raise InputError(path, number, f"expected H-NUMBER, score and text, tabs between them, found {text[:60]!r}")
    try:
        float(match[2])
    except ValueError:
        raise InputError(path, number, f"expected a score after H-{match[1]}, found {match[2][:60]!r}") from None
    return int(match[1]), match[3]


def restore(path: str, translations: Sequence[str], *, remove_bpe: str | None, detokenize: str | None) -> list[str]:
    """The text that people read of what a model wrote; says so if it seems that something of the model's is left.

    Args:
        path: of the translations, for messages.
        remove_bpe: what marks subwords, ``subword_nmt`` or ``sentencepiece``; ``None``: there are none.
        detokenize: the language by whose rules Moses' tokenisation and escapes are undone; ``None``: they are not.
    """
    texts = [join_subwords(text, remove_bpe) for text in translations] if remove_bpe else list(translations)
    for name, mark in _MARKS.items():
        if marked := sum(mark in f"{text} " for text in texts):
            print(f"{path}: {marked} translations have {mark!r} in them (--remove-bpe {name}?)", file=sys.stderr)
    if detokenize:
        from sacremoses import MosesDetokenizer

        detokenizer = MosesDetokenizer(lang=detokenize)
        return [detokenizer.detokenize(text.split()) for text in texts]
    if escaped := sum(bool(re.search(r"&(apos|quot|amp|lt|gt|#\d+);| @-@ ", text)) for text in texts):
        print(f"{path}: {escaped} translations have escapes of Moses in them (--detokenize LANG?)", file=sys.stderr)
    return texts


def join_subwords(text: str, kind: str) -> str:
    """The words of a translation whose subwords are marked as :data:`_MARKS` says, as fairseq's --remove-bpe=KIND."""
    if kind == "sentencepiece":
        return text.replace(" ", "").replace(_MARKS[kind], " ").strip()
    return f"{text} ".replace(_MARKS[kind], "").rstrip()


def _read_reference(path: str) -> list[str]:
    lines = []
    for number, line in read_lines(path):
        if _LOG.match(line.encode()):
            raise InputError(path, number, f"expected raw text, found a line of a log: {line[:60]!r}")
        lines.append(line)
    if not lines:
        raise InputError(path, None, "expected references, found an empty file")
    return lines


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
    references = [_read_reference(path) for path in args.references]
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


def _language(code: str) -> str:
    # To any other code sacremoses would apply the general rules, without a word.
    from sacremoses.corpus import NonbreakingPrefixes

    known = sorted({*NonbreakingPrefixes().available_langs.values(), "ja", "ko"})
    if code not in known:
        raise argparse.ArgumentTypeError(f"sacremoses knows {', '.join(map(repr, known))}, found {code[:20]!r}")
    return code


def _tokenizer(name: str) -> str:
    from sacrebleu.metrics import BLEU

    if name not in BLEU.TOKENIZERS:
        known = ", ".join(map(repr, BLEU.TOKENIZERS))
        raise argparse.ArgumentTypeError(f"sacreBLEU knows {known}, found {name[:20]!r}")
    return name


def _samples(text: str) -> int:
    # sacreBLEU takes its default for 0 and whatever is negative.
    if not re.fullmatch("[0-9]{1,6}", text) or not 0 < int(text) <= _MOST_SAMPLES:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {_MOST_SAMPLES}, found {text[:20]!r}")
    return int(text)


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
        type=_language,
        help="undo Moses' tokenisation and escapes by the rules of this language, a code that sacremoses knows, such "
        "as de (default: do not)",
    )
    parser.add_argument("--lowercase", action="store_true", help="BLEU and chrF2 of lower-cased text (default: cased)")
    parser.add_argument(
        "--tokenize",
        metavar="NAME",
        type=_tokenizer,
        default="13a",
        help="what BLEU counts as tokens, one of sacreBLEU's: 13a, intl, zh, ja-mecab, char … (default: %(default)s)",
    )
    parser.add_argument(
        "--ter-case-sensitive", action="store_true", help="TER of cased text (default: sacreBLEU's, lower-cased)"
    )
    parser.add_argument("--paired-bs-n", type=_samples, metavar="N", help="bootstrap samples (default: 1000)")
    parser.add_argument("--paired-ar-n", type=_samples, metavar="N", help="randomisation trials (default: 10000)")
    parser.add_argument("--output", metavar="FILE", help="where to write the text that was scored (of the last system)")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="of the result (default: text)")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Runs the command; broken input ends it with a message and exit status 1."""
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
