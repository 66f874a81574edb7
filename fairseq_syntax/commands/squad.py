"""fairseq-syntax-squad: SQuAD 2.0, from questions to their score.

It is for models of --task syntax_span_prediction.

    fairseq-syntax-squad prepare --input train-v2.0.json --split train --output-dir data/squad \\
        --bpe gpt2 --gpt2-encoder-json encoder.json --gpt2-vocab-bpe vocab.bpe
    fairseq-syntax-squad answer data/squad --path checkpoints/checkpoint_best.pt --gen-subset valid \\
        --output predictions.json --n-best-output n-best.json
    fairseq-syntax-squad score --input dev-v2.0.json --predictions predictions.json --best n-best.json

prepare writes passages and questions, each text once a line (SPLIT.passage, SPLIT.question), their subwords beside them
(SPLIT.passage.bpe, SPLIT.question.bpe), SPLIT.passages.jsonl and SPLIT.examples.jsonl. fairseq-syntax-parse parses the
text; fairseq-preprocess and fairseq-syntax-binarize, with --only-source, make passage/ and question/ beside.

answer leaves a question without an answer, "", if its diff, the score of no answer less that of the best answer, is
greater than --threshold. score prints the official script's exact match and F1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from syntax_data.commands.main import UsageError, command_line, positive, run
from syntax_data.errors import InputError, short_repr
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite
from syntax_data.io.versioned_json import check_types, read_json
from syntax_data.squad.read import Question, read_questions, write_split
from syntax_data.squad.score import METRICS, Candidate, best_of, best_threshold, compare, scores
from syntax_data.text.subwords import subword_reader

#: For each choice of ``--bpe`` the kind of its subwords, and the options that it needs; none: words between spaces.
_BPE: dict[str, tuple[str, tuple[str, ...]]] = {
    "bert": ("wordpiece", ("--bpe-vocab-file",)),
    "gpt2": ("gpt2", ("--gpt2-encoder-json", "--gpt2-vocab-bpe")),
    "sentencepiece": ("sentencepiece", ("--sentencepiece-model",)),
    "subword_nmt": ("subword_nmt", ("--bpe-codes",)),
    "none": ("words", ()),
}


def prepare(args: Namespace) -> None:
    """Write a split's files, and print what it has."""
    kind, needed = _BPE[args.bpe]
    given = {f"--{name.replace('_', '-')}": value for name, value in vars(args).items() if value is not None}
    for option in needed:
        if option not in given:
            raise UsageError(f"--bpe {args.bpe}: expected {option} FILE beside it, found none")
    vocabulary = args.gpt2_encoder_json if kind == "gpt2" else None
    questions = read_questions(args.input)
    os.makedirs(args.output_dir, exist_ok=True)
    prefix = os.path.join(args.output_dir, args.split)
    try:
        counts = write_split(prefix, questions, _encoder(args), subword_reader(kind, vocabulary))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(args.input, None, str(error)) from None
    unsaid = counts.pop("without is_impossible")
    if unsaid:
        print(f"{args.input}: {unsaid} questions without is_impossible are taken as answerable")
    print(f"{prefix}: {', '.join(f'{number} {what}' for what, number in counts.items())}")


def _encoder(args: Namespace) -> Callable[[str], str]:
    """Return fairseq's function from a line to its subwords, with spaces between them."""
    if args.bpe == "none":
        return lambda line: " ".join(line.split())
    from fairseq.data import encoders

    given = {name: value for name, value in vars(args).items() if value is not None}
    encode: Callable[[str], str] = encoders.build_bpe(Namespace(**given)).encode
    return encode


def answer(args: Namespace) -> None:
    """Write answers, and print how many there are."""
    from fairseq import utils

    from fairseq_syntax.commands.question_answers import answer_split
    from fairseq_syntax.commands.trained import memory_errors

    utils.import_user_module(args)
    outputs = [path for path in (args.output, args.n_best_output) if path is not None]
    read = [args.path, *filter(None, [args.verifier])]
    read += [os.path.join(args.data, f"{args.gen_subset}.{name}.jsonl") for name in ("examples", "passages")]
    for output in outputs:
        refuse_to_overwrite(output, read)
    with memory_errors():
        found = answer_split(args)
    predictions = {id: "" if of.diff > args.threshold else of.answers[0].text for id, of in found.items()}
    _write(args.output, predictions)
    if args.n_best_output is not None:
        _write(args.n_best_output, {id: asdict(of) for id, of in found.items()})
    count = sum(map(bool, predictions.values()))
    print(f"{args.output}: {len(predictions)} questions, {count} with an answer (δ = {args.threshold:g})")


def _write(path: str, content: dict[str, Any]) -> None:
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, indent=1, allow_nan=False)
        file.write("\n")


def score(args: Namespace) -> None:
    """Print scores as JSON."""
    if not (args.predictions or args.best):
        raise UsageError("expected --predictions or --best, found neither")
    if args.compare and not args.predictions:
        raise UsageError("--compare: expected with --predictions")
    questions = read_questions(args.input)
    found: dict[str, float | str] = {}
    if args.predictions:
        predictions = _read_by_id(args.predictions, questions, _prediction)
        found |= scores(questions, predictions)
        if args.compare:
            found |= compare(questions, predictions, _read_by_id(args.compare, questions, _prediction))
    if args.best:
        n_best = _read_by_id(args.best, questions, _best)
        for metric in METRICS:
            candidates = [
                Candidate(
                    n_best[question.id][0],
                    score=best_of(metric, n_best[question.id][1], question),
                    empty=best_of(metric, "", question),
                )
                for question in questions
            ]
            threshold, best = best_threshold(candidates)
            # JSON has no infinity: "-inf", as --threshold reads it
            written = threshold if math.isfinite(threshold) else str(threshold)
            found |= {f"best_{metric}": best, f"best_{metric}_thresh": written}
    print(json.dumps(found, indent=2, allow_nan=False))


def _prediction(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError(f"{short_repr(content)} instead of an answer")
    return content


def _best(content: Any) -> tuple[float, str]:
    check_types("an n-best list", content, {"diff": float, "answers": list})
    if not content["answers"] or not math.isfinite(content["diff"]):
        raise ValueError(f"{short_repr(content)} instead of an n-best list")
    return content["diff"], _prediction(content["answers"][0]["text"])


def _read_by_id(path: str, questions: Sequence[Question], build: Callable[[Any], Any]) -> dict[str, Any]:
    """Read a value of each question.

    Raises :class:`InputError` unless the file has all the questions, and no others.
    """
    found = read_json(
        path, "JSON of fairseq-syntax-squad answer", lambda content: {k: build(v) for k, v in content.items()}
    )
    ids = {question.id for question in questions}
    for some, what in (
        ([i for i in ids if i not in found], "is missing"),
        ([i for i in found if i not in ids], "is not one"),
    ):
        if some:
            message = (
                f"expected the {len(ids)} questions of --input, found that {min(some)!r} {what} ({len(some)} such ids)"
            )
            raise InputError(path, None, message)
    return found


def get_parser() -> ArgumentParser:
    """The command line; fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-squad", __doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{prepare,answer,score}")
    _add_prepare(commands.add_parser("prepare", help="write text, subwords and examples", allow_abbrev=False))
    _add_answer(commands.add_parser("answer", help="answer the questions of a split", allow_abbrev=False))
    _add_score(commands.add_parser("score", help="print exact match and F1", allow_abbrev=False))
    return parser


def _add_prepare(parser: ArgumentParser) -> None:
    parser.set_defaults(work=prepare)
    parser.add_argument("--input", required=True, metavar="FILE", help="a SQuAD file (JSON), version 1.1 or 2.0")
    parser.add_argument("--split", required=True, metavar="SPLIT", help="train, valid or test: begins the files' names")
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="where to write")
    parser.add_argument("--bpe", required=True, choices=_BPE, help="fairseq's subwords; none: words between spaces")
    parser.add_argument("--gpt2-encoder-json", metavar="FILE", help="for --bpe gpt2: encoder.json")
    parser.add_argument("--gpt2-vocab-bpe", metavar="FILE", help="for --bpe gpt2: vocab.bpe")
    parser.add_argument("--bpe-vocab-file", metavar="FILE", help="for --bpe bert: vocab.txt")
    parser.add_argument("--bpe-cased", action="store_true", help="for --bpe bert: do not lower the case")
    parser.add_argument("--sentencepiece-model", metavar="FILE", help="for --bpe sentencepiece: the model")
    parser.add_argument("--bpe-codes", metavar="FILE", help="for --bpe subword_nmt: the merges")


def _add_answer(parser: ArgumentParser) -> None:
    parser.set_defaults(work=answer)
    parser.add_argument("data", help="the folder with passage/, question/ and the files of prepare")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--output", required=True, metavar="FILE", help="answers by the questions' ids (JSON)")
    parser.add_argument("--n-best-output", metavar="FILE", help="diff and the best answers by id (JSON)")
    parser.add_argument("--gen-subset", default="valid", metavar="SPLIT", help="which split (default: valid)")
    parser.add_argument("--n-best", type=positive, default=20, metavar="N", help="answers in it (default: 20)")
    parser.add_argument(
        "--max-answer-length", type=positive, default=30, metavar="N", help="subwords of an answer (default: 30)"
    )
    parser.add_argument(
        "--threshold",
        type=_number,
        default=0.0,
        metavar="δ",
        help="no answer if diff is greater; --threshold=-inf: no answers (default: 0)",
    )
    parser.add_argument(
        "--verifier",
        metavar="FILE",
        help="checkpoint of a classifier of answerable and impossible questions, whose logits are added to diff",
    )
    parser.add_argument(
        "--verifier-weights",
        type=_number,
        nargs=2,
        default=[1.0, 1.0],
        metavar="β",
        help="weights of diff and of the verifier's impossible − answerable (default: 1 1)",
    )
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="windows in a batch (default: 32)")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks")


def _add_score(parser: ArgumentParser) -> None:
    parser.set_defaults(work=score)
    parser.add_argument("--input", required=True, metavar="FILE", help="the SQuAD file with the right answers")
    parser.add_argument("--predictions", metavar="FILE", help="answers by id (JSON), of answer --output")
    parser.add_argument(
        "--compare", metavar="FILE", help="another system's, for McNemar's exact test of the exact matches"
    )
    parser.add_argument(
        "--best", metavar="FILE", help="n-best lists of answer --n-best-output, for which the best --threshold is found"
    )


def _number(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise argparse.ArgumentTypeError("expected a number, found nan")
    return number


def main(argv: list[str] | None = None) -> None:
    """Run the command; invalid input ends it with a message and exit status 1."""
    run("fairseq-syntax-squad", get_parser, lambda args: args.work(args), argv, errors=(ImportError,))
