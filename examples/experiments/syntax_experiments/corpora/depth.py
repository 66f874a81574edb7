"""A parallel corpus that asks whether structure carries over from shallow sentences to deep ones.

Sentences have a subject, a verb, an object and prepositional phrases; each phrase belongs to the verb or to a noun
before it, which the tree alone says. In the target language modifiers stand before their noun, a preposition after it,
and the verb at the end, so that each tree gives another order of the same words. Training sentences have one or two
phrases, after the object; other splits have more, or phrases of the subject, or more adjectives. Held-out sentences are
there with all their trees, or with a sample of them: a system that reads the words only is right for one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from syntax_experiments.corpora.grammar import tree_blind_best

#: Words of each kind, in number.
PREPOSITIONS, ADJECTIVES, VERBS = 8, 10, 8

#: Where a phrase belongs: to the verb, to the object, or, from 1, to the noun of that phrase.
VERB, OBJECT = -1, 0


@dataclass(frozen=True)
class NounPhrase:
    """A noun with the preposition before it (of the subject and the object none), adjectives, and phrases after it."""

    noun: str
    preposition: str | None = None
    adjectives: tuple[str, ...] = ()
    phrases: tuple[NounPhrase, ...] = ()


@dataclass(frozen=True)
class Sentence:
    """A source sentence with its tree; `phrases` are the verb's."""

    subject: NounPhrase
    verb: str
    object: NounPhrase
    phrases: tuple[NounPhrase, ...] = ()

    def rows(self) -> list[tuple[str, str, int, str]]:
        """Word, part of speech, head (from 1; 0: the root) and relation of each word."""
        rows: list[tuple[str, str, int, str]] = []

        def noun_phrase(phrase: NounPhrase, head: int, relation: str) -> int:
            before = [(phrase.preposition, "ADP", "case")] * (phrase.preposition is not None)
            before += [("the", "DET", "det"), *((word, "ADJ", "amod") for word in phrase.adjectives)]
            number = len(rows) + len(before) + 1
            rows.extend((str(word), tag, number, deprel) for word, tag, deprel in before)
            rows.append((phrase.noun, "NOUN", head, relation))
            for inner in phrase.phrases:
                noun_phrase(inner, number, "nmod")
            return number

        subject = noun_phrase(self.subject, 0, "nsubj")
        rows.append((self.verb, "VERB", 0, "root"))
        verb = len(rows)
        rows[subject - 1] = (self.subject.noun, "NOUN", verb, "nsubj")
        noun_phrase(self.object, verb, "obj")
        for phrase in self.phrases:
            noun_phrase(phrase, verb, "obl")
        return rows

    def source(self) -> list[str]:
        """The words."""
        return [word for word, *_ in self.rows()]

    def target(self) -> list[str]:
        """The translation's words, still those of the source."""

        def noun_phrase(phrase: NounPhrase) -> list[str]:
            inner = [word for one in phrase.phrases for word in noun_phrase(one)]
            return [*inner, *phrase.adjectives, phrase.noun, *([phrase.preposition] if phrase.preposition else [])]

        return [word for one in (self.subject, self.object, *self.phrases) for word in noun_phrase(one)] + [self.verb]

    def tree(self) -> str:
        """The constituency tree, in brackets."""

        def noun_phrase(phrase: NounPhrase) -> str:
            words = ["(DT the)", *(f"(JJ {word})" for word in phrase.adjectives), f"(NN {phrase.noun})"]
            inner = f"(NP {' '.join([*words, *map(noun_phrase, phrase.phrases)])})"
            return inner if phrase.preposition is None else f"(PP (IN {phrase.preposition}) {inner})"

        verb_phrase = " ".join([f"(VBD {self.verb})", *map(noun_phrase, (self.object, *self.phrases))])
        return f"(S {noun_phrase(self.subject)} (VP {verb_phrase}))"

    def conllu(self) -> str:
        """The dependency tree, as a CoNLL-U block."""
        return "".join(
            f"{i}\t{word}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_\n"
            for i, (word, tag, head, relation) in enumerate(self.rows(), start=1)
        )


def attachments(phrases: int, first: tuple[int, ...] = (VERB, OBJECT)) -> list[tuple[int, ...]]:
    """Return all ways to attach phrases without crossing: of n, as many as the Catalan number n + 1 under `first`.

    Args:
        first: where the first phrase may belong; a phrase may belong there, or to the noun of any phrase before it,
            until one belongs further to the left.
    """
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), first)]
    for number in range(1, phrases + 1):
        found = [
            ((*done, site), (*open_sites[: i + 1], number))
            for done, open_sites in found
            for i, site in enumerate(open_sites)
        ]
    return [done for done, _ in found]


@dataclass(frozen=True)
class Words:
    """The words of a sentence with phrases at places that are still open."""

    subject: NounPhrase
    verb: str
    object: NounPhrase
    phrases: tuple[NounPhrase, ...]

    def attach(self, sites: tuple[int, ...], *, to_subject: bool = False) -> Sentence:
        """Return the sentence with each phrase at its site; :data:`OBJECT` is the subject, if `to_subject`."""

        def of(site: int) -> tuple[NounPhrase, ...]:
            chosen = [number for number, at in enumerate(sites, start=1) if at == site]
            return tuple(replace(self.phrases[number - 1], phrases=of(number)) for number in chosen)

        subject, object_ = self.subject, self.object
        if to_subject:
            subject = replace(subject, phrases=of(OBJECT))
        else:
            object_ = replace(object_, phrases=of(OBJECT))
        return Sentence(subject, self.verb, object_, of(VERB))


class Language:
    """A lexicon of invented words, and random sentences.

    Args:
        nouns: how many there are.
        adjectives: most adjectives of a noun.
        mirrored: translations are written from their end: all modifiers follow their heads.
    """

    def __init__(self, random: Random, *, nouns: int, adjectives: int, mirrored: bool):
        self._random = random
        self._adjectives = adjectives
        self._mirrored = mirrored
        syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
        fresh = self._new_words(syllables)
        sizes = {"noun": nouns, "verb": VERBS, "preposition": PREPOSITIONS, "adjective": ADJECTIVES}
        self.words = {kind: [next(fresh) for _ in range(size)] for kind, size in sizes.items()}
        self.lexicon = {word: next(fresh) for words in self.words.values() for word in words}

    def _new_words(self, syllables: list[str]) -> Iterator[str]:
        seen = {"the"}
        while True:
            word = "".join(self._random.choices(syllables, k=self._random.choice((1, 2, 3))))
            if word not in seen:
                seen.add(word)
                yield word

    def translate(self, sentence: Sentence) -> list[str]:
        """Return the words of the translation."""
        words = [self.lexicon[word] for word in sentence.target()]
        return words[::-1] if self._mirrored else words

    def sentence(self, phrases: int, *, more_adjectives: bool = False) -> Words:
        """Return random words; nouns differ.

        Args:
            more_adjectives: each noun has more of them than in training.
        """
        most = self._adjectives
        numbers = range(most + 1, most + 3) if more_adjectives else range(most + 1)

        def noun_phrase(noun: str) -> NounPhrase:
            chosen = self._random.choices(self.words["adjective"], k=self._random.choice(numbers))
            return NounPhrase(noun, adjectives=tuple(chosen))

        subject, object_, *others = map(noun_phrase, self._random.sample(self.words["noun"], 2 + phrases))
        prepositions = self._random.choices(self.words["preposition"], k=phrases)
        of_prepositions = (replace(noun, preposition=p) for noun, p in zip(others, prepositions, strict=True))
        return Words(subject, self._random.choice(self.words["verb"]), object_, tuple(of_prepositions))


def make_corpus(
    language: Language, random: Random, *, train: int, held_out: int, trees: int
) -> dict[str, list[Sentence]]:
    """Return the splits; no sentence of `train` is in another.

    Args:
        train: sentences of the training split, with one tree each.
        held_out: different sentences of each other split.
        trees: most trees of each of those.
    """
    shallow, seen = (1, 2), set()

    def fresh(phrases: tuple[int, ...], **options: bool) -> Words:
        while (words := language.sentence(random.choice(phrases), **options)) in seen:
            pass
        seen.add(words)
        return words

    def all_trees(words: Words, *, to_subject: bool = False) -> list[Sentence]:
        sites = attachments(len(words.phrases), (OBJECT,) if to_subject else (VERB, OBJECT))
        chosen = sites if len(sites) <= trees else random.sample(sites, trees)
        return [words.attach(each, to_subject=to_subject) for each in chosen]

    corpus = {name: [s for _ in range(held_out) for s in all_trees(fresh(shallow))] for name in ("valid", "test")}
    for phrases in (3, 4, 5):
        corpus[f"phrases{phrases}"] = [s for _ in range(held_out) for s in all_trees(fresh((phrases,)))]
    corpus["subject"] = [s for _ in range(held_out) for s in all_trees(fresh(shallow), to_subject=True)]
    corpus["adjectives"] = [s for _ in range(held_out) for s in all_trees(fresh(shallow, more_adjectives=True))]
    corpus["train"] = [random.choice(all_trees(fresh(shallow))) for _ in range(train)]
    return corpus


def main() -> None:
    """Write the splits into FOLDER: NAME.src, NAME.tgt, NAME.src.trees and NAME.src.conllu."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--train", type=int, default=10000, help="training sentences (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=60, help="different ones in each other split (default: 60)")
    parser.add_argument("--trees", type=int, default=14, help="most trees of each of those (default: %(default)s)")
    parser.add_argument("--nouns", type=int, default=20, help="different nouns (default: %(default)s)")
    parser.add_argument("--adjectives", type=int, default=2, help="most adjectives of a noun (default: %(default)s)")
    parser.add_argument("--mirrored", action="store_true", help="translations are written from their end")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus (default: 1)")
    args = parser.parse_args()
    random = Random(args.seed)
    language = Language(random, nouns=args.nouns, adjectives=args.adjectives, mirrored=args.mirrored)
    corpus = make_corpus(language, random, train=args.train, held_out=args.held_out, trees=args.trees)
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, sentences in corpus.items():
        files = {
            "src": [" ".join(s.source()) for s in sentences],
            "tgt": [" ".join(language.translate(s)) for s in sentences],
            "src.trees": [s.tree() for s in sentences],
            "src.conllu": [s.conllu() for s in sentences],
        }
        for ending, lines in files.items():
            (args.folder / f"{name}.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if name != "train":
            best = tree_blind_best(sentences)
            print(f"{name}: {len(sentences)} lines; best exact match without seeing the tree: {best:.1f}%")


if __name__ == "__main__":
    main()
