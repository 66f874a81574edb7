"""A small parallel corpus whose translations depend on the trees.

Source sentences are English-like: a subject, a verb, an object and one or two prepositional phrases, as in *the
pilot saw the farmer with the lantern near the bridge*. Where a phrase attaches (to the verb, to the object, to
the noun of the phrase before it) is in the tree alone. The target language puts every modifier before the
noun it belongs to, and those of the verb between the object and the verb, so that each attachment gives another
order of the same words::

    the pilot saw [the farmer with the lantern]   →   pilto lantare wis farmu sehi
    the pilot saw [the farmer] with the lantern   →   pilto farmu lantare wis sehi

The valid and test sets hold every source sentence once with each of its attachments. A system that does
not see the tree gives all of them one translation and is right once: its best exact match is the number of different
source sentences over the number of all, exactly.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

NOUNS = {
    "pilot": "pilto", "farmer": "farmu", "lantern": "lantare", "teacher": "tichero", "telescope": "teleska",
    "soldier": "soldato", "river": "rivano", "painter": "pintero", "baker": "bakaro", "castle": "kastelo",
    "doctor": "doktu", "mountain": "montira", "umbrella": "parapu", "bridge": "brigo", "market": "marketu",
    "violin": "violo",
}  # fmt: skip
VERBS = {"saw": "sehi", "found": "findi", "followed": "folgi", "called": "kalli", "heard": "horri", "met": "meti"}
PREPOSITIONS = {"with": "wis", "near": "nare", "behind": "hinta", "above": "oba"}

#: Attachments of each phrase: "verb", "object", or "noun" (of the phrase before). No crossing: after a phrase of the
#: verb, the object is closed.
READINGS: dict[int, list[tuple[str, ...]]] = {
    1: [("verb",), ("object",)],
    2: [
        ("verb", "verb"), ("verb", "noun"), ("object", "verb"), ("object", "object"), ("object", "noun"),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Words:
    """The words of a source sentence; of each phrase preposition and noun."""

    subject: str
    verb: str
    object: str
    phrases: tuple[tuple[str, str], ...]

    def source(self) -> list[str]:
        words = ["the", self.subject, self.verb, "the", self.object]
        for preposition, noun in self.phrases:
            words += [preposition, "the", noun]
        return words


@dataclass(frozen=True)
class Example:
    """A source sentence with one of its readings."""

    words: Words
    reading: tuple[str, ...]

    def _attached_to(self, site: str, before: int = -1) -> list[int]:
        """The phrases at a site; those at a noun are those right after phrase `before`."""
        return [i for i, where in enumerate(self.reading) if where == site and (site != "noun" or i == before + 1)]

    def source(self) -> list[str]:
        return self.words.source()

    def target(self) -> list[str]:
        """The translation."""

        def phrase(i: int) -> list[str]:
            preposition, noun = self.words.phrases[i]
            inner = [w for j in self._attached_to("noun", i) for w in phrase(j)]
            return [*inner, NOUNS[noun], PREPOSITIONS[preposition]]

        at_object = [w for i in self._attached_to("object") for w in phrase(i)]
        at_verb = [w for i in self._attached_to("verb") for w in phrase(i)]
        words = self.words
        return [NOUNS[words.subject], *at_object, NOUNS[words.object], *at_verb, VERBS[words.verb]]

    def tree(self) -> str:
        """The constituency tree, in brackets."""

        def phrase(i: int) -> str:
            preposition, noun = self.words.phrases[i]
            return f"(PP (IN {preposition}) {noun_phrase(noun, self._attached_to('noun', i))})"

        def noun_phrase(noun: str, modifiers: list[int]) -> str:
            return " ".join(["(NP (DT the)", f"(NN {noun})", *map(phrase, modifiers)]) + ")"

        words = self.words
        verb_phrase = " ".join(
            [
                f"(VP (VBD {words.verb})",
                noun_phrase(words.object, self._attached_to("object")),
                *map(phrase, self._attached_to("verb")),
            ]
        )
        return f"(S {noun_phrase(words.subject, [])} {verb_phrase}))"

    def conllu(self) -> str:
        """The dependency tree, as a CoNLL-U block."""
        heads = [2, 3, 0, 5, 3]
        relations = ["det", "nsubj", "root", "det", "obj"]
        parts_of_speech = ["DET", "NOUN", "VERB", "DET", "NOUN"] + ["ADP", "DET", "NOUN"] * len(self.reading)
        for i, site in enumerate(self.reading):
            noun = 8 + 3 * i
            head = {"verb": 3, "object": 5, "noun": noun - 3}[site]
            heads += [noun, noun, head]
            relations += ["case", "det", "obl" if site == "verb" else "nmod"]
        rows = zip(self.source(), parts_of_speech, heads, relations, strict=True)
        return "".join(
            f"{i}\t{word}\t_\t{upos}\t_\t_\t{head}\t{relation}\t_\t_\n"
            for i, (word, upos, head, relation) in enumerate(rows, start=1)
        )


def random_words(random: Random, phrases: int) -> Words:
    """Random words for a sentence with N phrases."""
    subject, object_, *nouns = random.sample(sorted(NOUNS), 2 + phrases)
    prepositions = random.choices(sorted(PREPOSITIONS), k=phrases)
    return Words(
        subject,
        random.choice(sorted(VERBS)),
        object_,
        tuple(zip(prepositions, nouns, strict=True)),
    )


def all_readings(words: Words) -> list[Example]:
    """Return the sentence with each of its readings."""
    return [Example(words, reading) for reading in READINGS[len(words.phrases)]]


def different_sentences(random: Random) -> Iterator[Words]:
    """Yield random sentences with one or two phrases, none of them twice."""
    seen: set[Words] = set()
    while True:
        words = random_words(random, random.choice(sorted(READINGS)))
        if words not in seen:
            seen.add(words)
            yield words


def make_corpus(random: Random, *, train: int, held_out: int) -> dict[str, list[Example]]:
    """Return random splits, without a sentence in two of them.

    Args:
        train: sentences of the training split, with one reading each.
        held_out: different sentences of valid and of test, in all their readings.
    """
    fresh = different_sentences(random)
    corpus = {
        name: [example for _ in range(held_out) for example in all_readings(next(fresh))] for name in ("valid", "test")
    }
    corpus["train"] = [random.choice(all_readings(next(fresh))) for _ in range(train)]
    return corpus


class Translated(Protocol):
    """A sentence with its translation."""

    def source(self) -> list[str]: ...

    def target(self) -> list[str]: ...


def tree_blind_best(examples: Sequence[Translated]) -> float:
    """Return the best exact match, in percent, of a system that sees the words only."""
    translations: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
    for example in examples:
        of_source = translations.setdefault(tuple(example.source()), {})
        target = tuple(example.target())
        of_source[target] = of_source.get(target, 0) + 1
    return 100 * sum(max(counts.values()) for counts in translations.values()) / len(examples)


def with_trees_of_others(random: Random, examples: list[Example]) -> list[Example]:
    """Return another example of the same length for each; see `false_parse`."""
    by_length: dict[int, list[int]] = {}
    for i, example in enumerate(examples):
        by_length.setdefault(len(example.source()), []).append(i)
    others = list(examples)
    for indices in by_length.values():
        random.shuffle(indices)
        for here, there in zip(indices, indices[1:] + indices[:1], strict=True):
            others[here] = examples[there]
    return others


def false_parse(example: Example, other: Example) -> Example:
    """Return the words of `example` with the tree of `other`."""
    return Example(example.words, other.reading)


def write(folder: Path, name: str, examples: list[Example], parses: list[Example]) -> None:
    """Write NAME.src, NAME.tgt, NAME.src.trees and NAME.src.conllu."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "src": [" ".join(e.source()) for e in examples],
        "tgt": [" ".join(e.target()) for e in examples],
        "src.trees": [p.tree() for p in parses],
        "src.conllu": [p.conllu() for p in parses],
    }
    for ending, lines in files.items():
        (folder / f"{name}.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Write the corpus into FOLDER/true, and with shuffled trees into FOLDER/false."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write true/ and false/")
    parser.add_argument("--train", type=int, default=10000, help="training sentences (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=100, help="different ones in valid and test (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus (default: 1)")
    args = parser.parse_args()
    corpus = make_corpus(Random(args.seed), train=args.train, held_out=args.held_out)
    for name, examples in corpus.items():
        write(args.folder / "true", name, examples, examples)
        others = with_trees_of_others(Random(args.seed), examples)
        parses = [false_parse(e, o) for e, o in zip(examples, others, strict=True)]
        write(args.folder / "false", name, examples, parses)
    print(f"best exact match without seeing the tree: {tree_blind_best(corpus['test']):.1f}%")


if __name__ == "__main__":
    main()
