"""A made-up task in which only the tree determines the label: what does a phrase belong to?

The sentences are those of the translation quickstart (``syntax_experiments/corpora/grammar.py``), such as *the pilot
saw the farmer with the lantern*.

- One segment: does the last phrase belong to the verb?
- Two segments: does the last phrase of each belong to its verb? For *no*, that of one of the two does.
- Ranking: *the verb* or *the noun*, as options after one segment.
- Spans: the word that the last phrase belongs to, as SQuAD's answer. Each passage has one of its trees.

Training has each sentence once, with one of its trees. The valid and test sets have each sentence, or pair, with as
many trees for *yes* as for *no*: a system that sees the words alone has an accuracy of exactly 50%. For *no*, the tree
of each segment is as often the one that differs: a system that sees the trees of one segment has exactly 75%.

    python -m syntax_experiments.corpora.attachment FOLDER [--segments 2 | --kind ranking | --kind spans]

writes SPLIT.input0 (and SPLIT.input1), .input0.trees, .input0.conllu, and SPLIT.label; of spans SPLIT.json, and the
parses of SPLIT.passage and SPLIT.question.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

from syntax_experiments.corpora.grammar import Example, Words, all_readings, different_sentences


@dataclass(frozen=True)
class Question:
    """One or two segments, and the answer."""

    segments: tuple[Example, ...]
    answer: bool


def questions(random: Random, sentences: tuple[Words, ...]) -> list[Question]:
    """Return sentences with as many trees for *yes* as for *no*.

    Of two sentences with one phrase each there are too few trees for that: nothing is returned.
    """
    found = defaultdict(list)
    for examples in product(*map(all_readings, sentences)):
        of_the_verb = tuple(example.reading[-1] == "verb" for example in examples)
        found[of_the_verb].append(Question(examples, all(of_the_verb)))
    segments = range(len(sentences))
    yes = found[tuple(True for _ in segments)]
    no = [found[tuple(segment != other for segment in segments)] for other in segments]
    fewest = min(len(yes) // len(sentences), *map(len, no))
    sampled = [random.sample(yes, fewest * len(sentences)), *(random.sample(of, fewest) for of in no)]
    return [question for of_answer in sampled for question in of_answer]


def make_task(random: Random, *, segments: int, train: int, held_out: int) -> dict[str, list[Question]]:
    """Return random splits, without a sentence in two of them.

    Args:
        segments: 1 or 2, sentences of an example.
        train: examples of the training split, with one tree a sentence.
        held_out: different sentences, or pairs, of valid and of test, with as many trees of one answer as of the other.
    """
    sentences = different_sentences(random)
    fresh = filter(None, (questions(random, of) for of in zip(*[sentences] * segments, strict=True)))
    task = {name: [question for _ in range(held_out) for question in next(fresh)] for name in ("valid", "test")}
    return {"train": [random.choice(next(fresh)) for _ in range(train)], **task}


def write(folder: Path, split: str, questions: list[Question], *, kind: str = "label") -> None:
    """Write a split, `kind` ``label``, ``ranking`` or ``spans``."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "spans":
        files = _spans(split, _one_reading_each(questions))
    else:
        yes, no = ("0", "1") if kind == "ranking" else ("yes", "no")
        files = {"label": [yes if question.answer else no for question in questions]}
        for i, segments in enumerate(zip(*(question.segments for question in questions), strict=True)):
            files[f"input{i}"] = [" ".join(segment.source()) for segment in segments]
            files |= _parses(f"input{i}", [segment.tree() for segment in segments], [s.conllu() for s in segments])
    if kind == "ranking":
        for name, option in (("input1", "the verb"), ("input2", "the noun")):
            files[name] = [option] * len(questions)
            files |= _parses(name, *([parse] * len(questions) for parse in _flat(option)))
    for ending, lines in files.items():
        (folder / f"{split}.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _one_reading_each(questions: list[Question]) -> list[Example]:
    """Return each sentence once; of those with several trees, every second one with a tree of the answer *yes*."""
    readings: dict[Words, list[Example]] = defaultdict(list)
    for question in questions:
        readings[question.segments[0].words].append(question.segments[0])
    return [of_sentence[-(i % 2)] for i, of_sentence in enumerate(readings.values())]


def _spans(split: str, examples: list[Example]) -> dict[str, list[str]]:
    """Questions in SQuAD's format, and parses of passages and of the one question."""
    question = "what does it belong to"
    paragraphs = []
    for i, example in enumerate(examples):
        words = example.source()
        place = words.index(belongs_to(example))
        answer = {"text": words[place], "answer_start": len("".join(f"{word} " for word in words[:place]))}
        asked = {"id": f"{split}-{i}", "question": question, "answers": [answer], "is_impossible": False}
        paragraphs.append({"context": " ".join(words), "qas": [asked]})
    content = {"version": "v2.0", "data": [{"title": "attachment", "paragraphs": paragraphs}]}
    parses = _parses("passage", [example.tree() for example in examples], [example.conllu() for example in examples])
    return {"json": [json.dumps(content)], **parses, **_parses("question", *([parse] for parse in _flat(question)))}


def belongs_to(example: Example) -> str:
    """Return the word that the last phrase of a sentence belongs to."""
    words, site = example.words, example.reading[-1]
    return words.verb if site == "verb" else words.object if site == "object" else words.phrases[-2][1]


def _parses(name: str, trees: list[str], conllu: list[str]) -> dict[str, list[str]]:
    return {f"{name}.trees": trees, f"{name}.conllu": conllu}


def _flat(text: str) -> tuple[str, str]:
    """A tree of words, in brackets, and as CoNLL-U, the last the head of all others."""
    words = text.split()
    heads = [len(words)] * (len(words) - 1) + [0]
    rows = (
        f"{i}\t{word}\t_\tX\t_\t_\t{head}\t{'dep' if head else 'root'}\t_\t_\n"
        for i, (word, head) in enumerate(zip(words, heads, strict=True), start=1)
    )
    return f"(X {' '.join(f'(X {word})' for word in words)})", "".join(rows)


def main() -> None:
    """Write the task into FOLDER."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write the splits")
    parser.add_argument("--segments", type=int, choices=[1, 2], default=1, help="of an example (default: 1)")
    kinds = ("label", "ranking", "spans")
    parser.add_argument(
        "--kind", choices=kinds, default="label", help="of the task (default: label); others: 1 segment"
    )
    parser.add_argument("--train", type=int, default=4000, help="training examples (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=100, help="different ones in valid and test (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the task (default: 1)")
    args = parser.parse_args()
    if args.kind != "label" and args.segments > 1:
        parser.error(f"--kind {args.kind}: expected one segment, found {args.segments}")
    task = make_task(Random(args.seed), segments=args.segments, train=args.train, held_out=args.held_out)
    for split, questions in task.items():
        write(args.folder, split, questions, kind=args.kind)
        print(f"{split}: {len(questions)} sentences with a tree, {sum(q.answer for q in questions)} of them yes")


if __name__ == "__main__":
    main()
