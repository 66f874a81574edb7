"""A made-up task in which only the tree determines the label: what does a phrase belong to?

The sentences are those of the translation quickstart (``syntax_experiments/corpora/grammar.py``), such as *the pilot
saw the farmer with the lantern*.

- One segment: does the last phrase belong to the verb?
- Two segments: does the last phrase of each belong to its verb? For *no*, that of one of the two does.

Training has each sentence once, with one of its trees. The valid and test sets have each sentence, or pair, with as
many trees for *yes* as for *no*: a system that sees the words alone has an accuracy of exactly 50%. For *no*, the tree
of each segment is as often the one that differs: a system that sees the trees of one segment has exactly 75%.

    python -m syntax_experiments.corpora.attachment FOLDER [--segments 2]

writes SPLIT.input0 (and SPLIT.input1), .input0.trees, .input0.conllu, and SPLIT.label.
"""

from __future__ import annotations

import argparse
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


def write(folder: Path, split: str, questions: list[Question]) -> None:
    """Write the segments of a split, their trees, and its labels."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"label": ["yes" if question.answer else "no" for question in questions]}
    for i, segments in enumerate(zip(*(question.segments for question in questions), strict=True)):
        files[f"input{i}"] = [" ".join(segment.source()) for segment in segments]
        files[f"input{i}.trees"] = [segment.tree() for segment in segments]
        files[f"input{i}.conllu"] = [segment.conllu() for segment in segments]
    for ending, lines in files.items():
        (folder / f"{split}.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Write the task into FOLDER."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write the splits")
    parser.add_argument("--segments", type=int, choices=[1, 2], default=1, help="of an example (default: 1)")
    parser.add_argument("--train", type=int, default=4000, help="training examples (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=100, help="different ones in valid and test (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the task (default: 1)")
    args = parser.parse_args()
    task = make_task(Random(args.seed), segments=args.segments, train=args.train, held_out=args.held_out)
    for split, questions in task.items():
        write(args.folder, split, questions)
        print(f"{split}: {len(questions)} examples, {sum(question.answer for question in questions)} of them yes")


if __name__ == "__main__":
    main()
