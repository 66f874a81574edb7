"""A made-up task in which only the tree determines the label: what does a phrase belong to?

The sentences are those of the translation quickstart (``syntax_experiments/corpora/grammar.py``), such as *the pilot
saw the farmer with the lantern*.

- One segment: does the last phrase belong to the verb?
- Two segments: does it follow that *the lantern is with the farmer*? The statement is of a random phrase, and of the
  object or of the noun before the phrase.

Training has each sentence once, with one of its trees. The valid and test sets have each sentence with as many trees
for *yes* as for *no*: a system that sees the words alone has an accuracy of exactly 50%.

    python -m syntax_experiments.corpora.attachment FOLDER [--segments 2]

writes SPLIT.input0 (and SPLIT.input1), .input0.trees, .input0.conllu, and SPLIT.label.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from syntax_experiments.corpora.grammar import Example, Words, all_readings, different_sentences


@dataclass(frozen=True)
class Statement:
    """*The lantern is with the farmer*: a phrase, as said of a noun."""

    preposition: str
    noun: str
    host: str

    def source(self) -> list[str]:
        return ["the", self.noun, "is", self.preposition, "the", self.host]

    def tree(self) -> str:
        """The constituency tree, in brackets."""
        phrase = f"(PP (IN {self.preposition}) (NP (DT the) (NN {self.host})))"
        return f"(S (NP (DT the) (NN {self.noun})) (VP (VBZ is) {phrase}))"

    def conllu(self) -> str:
        """The dependency tree, as a CoNLL-U block."""
        rows = zip(
            self.source(),
            ["DET", "NOUN", "AUX", "ADP", "DET", "NOUN"],
            [2, 6, 6, 6, 6, 0],
            ["det", "nsubj", "cop", "case", "det", "root"],
            strict=True,
        )
        return "".join(
            f"{i}\t{word}\t_\t{upos}\t_\t_\t{head}\t{relation}\t_\t_\n"
            for i, (word, upos, head, relation) in enumerate(rows, start=1)
        )


@dataclass(frozen=True)
class Question:
    """One or two segments, and the answer."""

    segments: tuple[Example | Statement, ...]
    answer: bool


def of_the_verb(random: Random, words: Words) -> list[Question]:
    """Return a sentence with as many trees in which its last phrase belongs to the verb as others."""
    return _balanced(random, words, lambda example: example.reading[-1] == "verb")


def of_a_statement(random: Random, words: Words) -> list[Question]:
    """Return a sentence with a statement, and as many trees from which it follows as others."""
    i, site = random.choice([(i, site) for i in range(len(words.phrases)) for site in ("object", "noun")[: i + 1]])
    preposition, noun = words.phrases[i]
    statement = Statement(preposition, noun, host=words.object if site == "object" else words.phrases[i - 1][1])
    return _balanced(random, words, lambda example: example.reading[i] == site, statement)


def _balanced(random: Random, words: Words, holds: Callable[[Example], bool], *more: Statement) -> list[Question]:
    answers: dict[bool, list[Question]] = {True: [], False: []}
    for example in all_readings(words):
        answers[holds(example)].append(Question((example, *more), holds(example)))
    fewer = min(map(len, answers.values()))
    return [question for of_answer in answers.values() for question in random.sample(of_answer, fewer)]


def make_task(random: Random, *, segments: int, train: int, held_out: int) -> dict[str, list[Question]]:
    """Return random splits, without a sentence in two of them.

    Args:
        train: sentences of the training split, with one tree each.
        held_out: different sentences of valid and of test, with as many trees of one answer as of the other.
    """
    questions = of_the_verb if segments == 1 else of_a_statement
    fresh = (questions(random, words) for words in different_sentences(random))
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
    parser.add_argument("--train", type=int, default=4000, help="training sentences (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=100, help="different ones in valid and test (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the task (default: 1)")
    args = parser.parse_args()
    task = make_task(Random(args.seed), segments=args.segments, train=args.train, held_out=args.held_out)
    for split, questions in task.items():
        write(args.folder, split, questions)
        print(f"{split}: {len(questions)} examples, {sum(question.answer for question in questions)} of them yes")


if __name__ == "__main__":
    main()
