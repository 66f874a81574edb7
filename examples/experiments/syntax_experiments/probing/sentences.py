"""The sentences of a split, whose words are found in its subwords and whose parses say what they are probed for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from syntax_data.errors import BadParse, InputError
from syntax_data.features.aligned import Settings, align_sentence
from syntax_data.features.sentence import AlignedSentence
from syntax_data.text.alignment import SENTENCEPIECE_HINT, SUBWORDS, AlignmentError, Subwords, first_marked_line
from syntax_data.text.lines import read_lines
from syntax_data.trees.bad_parses import BadParses
from syntax_data.trees.formats import FORMATS, TREES
from syntax_data.trees.tree import DependencyTree, NoParse
from syntax_experiments.probing.labels import Labels, labels_of


@dataclass(frozen=True)
class Sentence:
    """A sentence that can be probed.

    Attributes:
        number: its id in the split, from 0.
        words: its m words.
        word_of: for each of its n - 1 subwords the index of its word, never falling; every word has one.
        labels: what its parses say; nothing where it has none.
    """

    number: int
    words: list[str]
    word_of: np.ndarray
    labels: Labels = field(default_factory=Labels)


_UNKNOWN = "unknown subwords, of words that are not known"

#: The tokens of a sentence without ``</s>``, whether one of them is unknown, and, if the data-bin has it, its feature
#: ``word`` without ``</s>``'s value.
TokenizedSentence = tuple[list[str], bool, Sequence[int] | None]


def read_sentences(
    chosen: Mapping[int, TokenizedSentence],
    parses: Mapping[str, str],
    *,
    count: int,
    settings: Settings,
    on_bad_parse: str,
    most_tokens: int,
) -> tuple[list[Sentence], Counter[str]]:
    """Of the chosen sentences of a split those that can be probed, and how many others there are, by reason.

    A sentence's words are those of its parse, found by its text, as fairseq-syntax-binarize does; if it has unknown
    subwords, whose text is not known, by the feature ``word``.

    Args:
        chosen: sentences by their number, in order.
        parses: by format, the file that has a parse for each sentence of the split; may be empty.
        count: how many sentences the split has.
        settings: how subwords are marked, and which words are symbols; a sentence with some is left out.
        on_bad_parse: ``error``, or ``skip`` the sentence.
        most_tokens: that the encoder takes, ``</s>`` included.

    Raises:
        InputError: the files have not as many parses as there are sentences.
        BadParse: a parse is broken, or of another text.
        ValueError: the subwords are not marked so. Neither this nor a bad parse is an error to ``skip``, unless all
            subwords are sentencepiece's.
    """
    numbered = ((number, tokens) for number, (tokens, *_) in chosen.items())
    if (marked := first_marked_line(numbered, settings.subwords)) is not None:
        raise ValueError(f"sentence {marked} of the split (from 0): {SENTENCEPIECE_HINT}")
    found: list[Sentence] = []
    left_out: Counter[str] = Counter()
    bad = BadParses(on_bad_parse)
    for number, units in _units(parses, chosen, count, bad):
        tokens = chosen[number]
        if reason := _unusable(tokens, most_tokens):
            left_out[reason] += 1
            continue
        if broken := next((parse.reason for _, parse in units.values() if isinstance(parse, BadParse)), None):
            left_out[f"a broken parse: {broken}"] += 1
            continue
        try:
            aligned = _align(*tokens, {kind: parse for kind, (_, parse) in units.items()}, settings)
        except AlignmentError as error:
            if not bad.skips:
                raise ValueError(f"sentence {number} of the split (from 0): {error}") from None
            left_out["subwords that make no words"] += 1
            continue
        if aligned is None:
            left_out[_UNKNOWN] += 1
            continue
        if aligned.symbols:
            left_out["words that its parse has not (--symbols)"] += 1
            continue
        for kind, mismatch in aligned.mismatches.items():
            if not tokens[1]:
                message = f"sentence {number} of the split (from 0): {mismatch}"
                bad.no_parse(BadParse(parses[kind], units[kind][0], message, "mismatch"))
        if aligned.mismatches:
            left_out[_UNKNOWN if tokens[1] else "a parse of another text"] += 1
        elif isinstance(aligned.trees, list) and _differ(aligned):
            left_out["constituents over other words than dependencies"] += 1
        elif list(dict.fromkeys(aligned.word_of)) != list(range(len(aligned.words))):
            left_out["a word without a subword of its own"] += 1
        else:
            trees = aligned.trees if isinstance(aligned.trees, list) else None
            heads = aligned.dependencies if isinstance(aligned.dependencies, DependencyTree) else None
            labels = labels_of(trees, heads, without_trees=TREES.name not in parses)
            found.append(Sentence(number, aligned.words, np.array(aligned.word_of), labels))
    return found, left_out


def _unusable(sentence: TokenizedSentence, most_tokens: int) -> str | None:
    tokens = sentence[0]
    return "empty" if not tokens else "longer than the encoder takes" if len(tokens) + 1 > most_tokens else None


def _align(
    tokens: list[str], unknown: bool, word: Sequence[int] | None, parses: Mapping[str, object], settings: Settings
) -> AlignedSentence | None:
    """``None``: it has unknown subwords, and the words that they belong to are not known."""
    if not unknown:
        split = SUBWORDS[settings.subwords](tokens)
    else:
        words = _words(parses)
        if words is None or word is None or len(word) != len(tokens) or len(words) != int(word[-1]) + 1:
            return None
        split = Subwords(tokens, words, [int(value) for value in word])
    return align_sentence(
        " ".join(tokens), split, parses, settings=Settings(settings.subwords, symbols=settings.symbols)
    )


def _differ(aligned: AlignedSentence) -> bool:
    return aligned.word_of != aligned.word_of_leaf or len(aligned.distances or []) != len(aligned.words) - 1


def _words(parses: Mapping[str, object]) -> list[str] | None:
    for kind in reversed(FORMATS):
        parse = parses.get(kind)
        if parse is not None and not isinstance(parse, NoParse):
            return FORMATS[kind].tokens(parse)
    return None


def _units(
    parses: Mapping[str, str], chosen: Mapping[int, object], count: int, bad: BadParses
) -> Iterator[tuple[int, dict[str, tuple[int, object]]]]:
    """For each chosen one of `count` sentences the unit of each file, read, with the number of its first line;
    a bad one that is skipped is its :class:`BadParse`."""
    readers = {kind: iter(FORMATS[kind].entries(read_lines(path))) for kind, path in parses.items()}
    for number in range(count):
        units = {}
        for kind, reader in readers.items():
            line, unit = next(reader, (None, None))
            if line is None:
                raise InputError(
                    parses[kind], None, f"expected {count} parses, one for each sentence of the split, found {number}"
                )
            if number in chosen:
                try:
                    units[kind] = line, FORMATS[kind].parse(unit, path=parses[kind], line=line)
                except BadParse as error:
                    bad.no_parse(error)
                    units[kind] = line, error
        if number in chosen:
            yield number, units
    for kind, reader in readers.items():
        more = (line for line, unit in reader if not FORMATS[kind].blank(unit))
        if (line := next(more, None)) is not None:
            raise InputError(
                parses[kind], line, f"expected {count} parses, one for each sentence of the split, found more"
            )


def exchanged(sentence: Sentence, random: np.random.Generator) -> np.ndarray | None:
    """The order of the n - 1 subwords after two consecutive words changed places (Conneau et al. 2018, BShift).

    The first word stays where it is, and so does what has neither letter nor digit: a capital or a full stop in the
    wrong place would tell. So do two equal words. ``None``: there are no two words to exchange.
    """
    words = [word.casefold() for word in sentence.words]
    moves = [i > 0 and any(map(str.isalnum, word)) for i, word in enumerate(words)]
    places = [i for i in range(len(words) - 1) if moves[i] and moves[i + 1] and words[i] != words[i + 1]]
    if not places:
        return None
    place = places[random.integers(len(places))]
    new_place = np.arange(len(words))
    new_place[[place, place + 1]] = place + 1, place
    return np.argsort(new_place[sentence.word_of], kind="stable")
