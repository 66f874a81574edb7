"""Contrastive pairs: from German references by rule, or in the files of LingEval97.

    python -m syntax_experiments.corpora.contrastive_pairs german train.de test.en test.de PREFIX
    python -m syntax_experiments.corpora.contrastive_pairs lingeval FOLDER … PREFIX

write PREFIX.source, .right, .wrong and .category, a pair a line, for fairseq-syntax-contrast. The rules take tokenised,
lower-cased text with one sentence a line, and need no parser: they learn genders of nouns and numbers of verbs from the
training text. Each place that a rule finds makes a pair; what is not certain is left out. Categories:

    article case       ein mann → einen mann: another case of the same gender
    relative pronoun   ein hund , der … → die …: another gender or number
    verb position      während ein mann im gras sitzt → während ein mann sitzt im gras: verb-second in a subclause
    agreement          zwei frauen stehen → zwei frauen steht: the verb's other number

FOLDER has src.en, tgt.correct.de and tgt.incorrect.de, perhaps .gz; its name is the category.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write
from syntax_data.scoring.contrastive import Pair

#: Of each gender, an article and the one of another case that replaces it.
_ARTICLES = {
    "masculine": {
        "ein": "einen", "einen": "ein", "einem": "einen", "eines": "einem",
        "der": "den", "den": "der", "dem": "den", "des": "dem",
    },
    "feminine": {"eine": "einer", "einer": "eine", "die": "der", "der": "die"},
    "neuter": {"ein": "einem", "einem": "ein", "eines": "einem", "das": "dem", "dem": "das", "des": "dem"},
}  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: After these prepositions accusative and dative are both grammatical; of masculine nouns the nominative is not.
_TWO_WAY = _words("an auf hinter in neben über unter vor zwischen")
_TWO_WAY_WRONG = {"einen": "ein", "einem": "ein", "den": "der", "dem": "der"}
_PREPOSITIONS = _TWO_WAY | _words(
    "aus bei bis durch entlang für gegen mit nach ohne um von zu zur zum im am vom beim ins ans aufs gegenüber seit"
)
_PRONOUNS = _words("er sie es ihn ihm ihr ihnen sich ihre ihren ihrem ihrer sein seine seinen seinem seiner etwas man")
_RELATIVE = {"der": "die", "die": "das", "das": "der", "dessen": "deren", "deren": "dessen"}
_RELATIVE_OF_PREPOSITION = {"dem": "der", "der": "dem", "den": "die", "die": "den", "denen": "dem"}
_SUBORDINATORS = _words("bis während weil dass damit wobei obwohl bevor nachdem")
_DETERMINERS = frozenset(article for of in _ARTICLES.values() for article in of)
_NUMBERS = _words("zwei drei vier fünf sechs mehrere einige viele")
#: Where a noun phrase has ended.
_BOUNDARIES = _PREPOSITIONS | _SUBORDINATORS | _PRONOUNS | _DETERMINERS | _NUMBERS | _words("und , . ; : &quot;")
#: Subjects whose verb may have either number.
_COLLECTIVE = _words("gruppe gruppen paar menge menschenmenge reihe anzahl haufen teil team familie schar")
_PREFIXES = sorted(
    _words("ab an auf aus bei ein entlang heraus herum herunter hin hinunter hoch mit nach um vor vorbei zu")
)
#: Before an infinitive or a noun, not a finite verb.
_BEFORE_NOUNS = _DETERMINERS | _words("zu zum beim am im")
_IRREGULAR = {"ist": "sind", "hat": "haben", "wird": "werden"}
#: Vowels of the singular and of the plural, the regular verbs first.
_VOWELS = (("", ""), ("äu", "au"), ("ä", "a"), ("ie", "e"), ("i", "e"), ("ö", "o"))


@dataclass(frozen=True)
class Lexicon:
    """Words of a training text.

    Attributes:
        genders: of words that always follow articles of one gender.
        numbers: of each verb, third person singular or plural, the other one.
    """

    genders: Mapping[str, str]
    numbers: Mapping[str, str]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Lexicon:
        """Learn from tokenised lines.

        A word's gender shows after *einen* (masculine), *eine*, *einer* (feminine) and *das* (neuter), where at least
        95% of them agree; adjectives in -en follow all. A verb is what follows both a singular subject (*ein X …*) and,
        in its plural, a plural one (*zwei X …*) at the beginning of a sentence.
        """
        shown = {"einen": "masculine", "eine": "feminine", "einer": "feminine", "das": "neuter"}
        after: dict[str, Counter[str]] = defaultdict(Counter)
        singular, plural = {*_IRREGULAR}, {*_IRREGULAR.values()}
        for words in map(str.split, lines):
            for article, word in pairwise(words):
                if article in shown and word not in _BOUNDARIES and not word.endswith("en"):
                    after[word][shown[article]] += 1
            if words and words[0] in ("ein", "eine"):
                singular.update(words[2:4])
            elif words and words[0] in _NUMBERS:
                plural.update(words[2:4])
        genders = {}
        for word, counts in after.items():
            gender, count = counts.most_common(1)[0]
            if count >= 3 and count >= 0.95 * counts.total():
                genders[word] = gender
        singulars = {several: one for one, several in _IRREGULAR.items()}
        for vowels in _VOWELS:  # a plural is that of one verb: beten is of betet, not of bietet
            for one in sorted(singular - {*singulars.values()}):
                if several := next((of for of in _plurals(one, *vowels) if of in plural - singulars.keys()), None):
                    singulars[several] = one
        return cls(genders, singulars | {one: several for several, one in singulars.items()})

    def other_number(self, word: str) -> str | None:
        """Return a finite verb, perhaps with a separable prefix, in its other number; ``None`` for other words."""
        if word in self.numbers:
            return self.numbers[word]
        for prefix in _PREFIXES:
            if word.startswith(prefix) and (found := self.numbers.get(word.removeprefix(prefix))):
                return f"{prefix}{found}"
        return None


def _plurals(singular: str, vowel: str, of_plural: str) -> Iterator[str]:
    """Yield what the plural of a verb in -t may be: läuft, laufen; sieht, sehen; wandert, wandern; reitet, reiten."""
    if singular.endswith("t") and vowel in singular:
        stem = singular.removesuffix("t").replace(vowel, of_plural, 1)
        yield from (f"{stem}en", f"{stem}n", f"{stem.removesuffix('e')}en")


def german_pairs(target: str, lexicon: Lexicon) -> Iterator[tuple[str, str]]:
    """Yield categories and wrong translations of a right one, one for each place that a rule finds."""
    words = target.split()
    for category, rule in _RULES.items():
        for wrong in rule(words, lexicon):
            yield category, " ".join(wrong)


def _with(words: Sequence[str], i: int, word: str) -> list[str]:
    return [*words[:i], word, *words[i + 1 :]]


def _articles(words: Sequence[str], lexicon: Lexicon) -> Iterator[list[str]]:
    for i, word in enumerate(words):
        before, phrase = words[i - 1] if i else "", words[i + 1 : i + 4]
        if word not in _DETERMINERS or before == "," or "entlang" in words or "paar" in phrase[:1]:
            continue
        gender = _gender(phrase, lexicon)
        wrong = _ARTICLES[gender].get(word) if gender else None
        if before in _TWO_WAY:
            wrong = _TWO_WAY_WRONG.get(word) if gender == "masculine" else None
        if wrong:
            yield _with(words, i, wrong)


def _gender(phrase: Sequence[str], lexicon: Lexicon) -> str | None:
    """Return the gender of a noun phrase, shown by its first word of one gender; adjectives before it have several."""
    for word in phrase:
        if word in lexicon.genders:
            return lexicon.genders[word]
        if word in _BOUNDARIES or not re.search("(e|en|er|es)$", word):
            return None
    return None


def _clauses(words: Sequence[str], lexicon: Lexicon) -> Iterator[tuple[int, int]]:
    """Yield begin and last word of subordinate clauses, which end in a finite verb."""
    for i in range(1, len(words)):
        starts = words[i] in _SUBORDINATORS or _pronoun(words, i) is not None
        end = next((k for k in range(i, len(words)) if words[k] in {",", ".", ";", "und"}), len(words)) - 1
        if starts and end > i + 1 and words[end - 1] != "zu" and lexicon.other_number(words[end]):
            yield i, end


def _pronoun(words: Sequence[str], i: int) -> int | None:
    """Return where the relative pronoun is of a clause that begins at i, after a comma."""
    if words[i - 1] != ",":
        return None
    if words[i] in _RELATIVE:
        return i
    if words[i] in _PREPOSITIONS - _SUBORDINATORS and _RELATIVE_OF_PREPOSITION.keys() & {*words[i + 1 : i + 2]}:
        return i + 1
    return None


def _pronouns(words: Sequence[str], lexicon: Lexicon) -> Iterator[list[str]]:
    for begin, _ in _clauses(words, lexicon):
        at = _pronoun(words, begin)
        if at is not None:
            others = _RELATIVE if at == begin else _RELATIVE_OF_PREPOSITION
            yield _with(words, at, others[words[at]])


def _positions(words: Sequence[str], lexicon: Lexicon) -> Iterator[list[str]]:
    for begin, end in _clauses(words, lexicon):
        second = _pronoun(words, begin)
        if second is None:  # a conjunction and the subject
            second = begin + 1
            if words[second] not in _PRONOUNS:
                while second + 1 < end and words[second + 1] not in _BOUNDARIES:
                    second += 1
        if second + 1 < end:
            yield [*words[: second + 1], words[end], *words[second + 1 : end], *words[end + 1 :]]


def _agreement(words: Sequence[str], lexicon: Lexicon) -> Iterator[list[str]]:
    first = next((i for i, word in enumerate(words) if word == "," or lexicon.other_number(word)), 0)
    subject = words[:first]
    begins = bool(subject) and subject[0] in _DETERMINERS | _NUMBERS
    found = [first] if begins and not _COLLECTIVE & {*subject} and words[first - 1] not in _BEFORE_NOUNS else []
    found += [end for begin, end in _clauses(words, lexicon) if words[begin] in ("der", "die", "das")]
    for i in dict.fromkeys(found):
        if other := lexicon.other_number(words[i]):
            yield _with(words, i, other)


_RULES = {
    "article case": _articles,
    "relative pronoun": _pronouns,
    "verb position": _positions,
    "agreement": _agreement,
}


def read_lingeval(folder: Path) -> list[Pair]:
    """Return the pairs in the files of LingEval97 and DistilLingEval.

    Raises:
        InputError: a file is missing, or has another number of lines.
    """
    columns = [_lines(folder / name) for name in ("src.en", "tgt.correct.de", "tgt.incorrect.de")]
    if len({*map(len, columns)}) > 1:
        raise InputError(str(folder), None, f"expected files of as many lines, found {[*map(len, columns)]}")
    category = folder.name.partition(".")[0]
    return [Pair(source, right, wrong, category) for source, right, wrong in zip(*columns, strict=True)]


def _lines(path: Path) -> list[str]:
    path = path if path.exists() else path.with_name(f"{path.name}.gz")
    if not path.exists():
        raise InputError(str(path), None, "expected a file, found none, packed or not")
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as file:
        return file.read().rstrip("\n").split("\n")


def write_pairs(prefix: str, pairs: Sequence[Pair]) -> None:
    """Write a file for each column, and print the number of pairs of each category."""
    for column in Pair._fields:
        with atomic_write(f"{prefix}.{column}") as part:
            Path(part).write_text("".join(f"{getattr(pair, column)}\n" for pair in pairs), encoding="utf-8")
    for category, count in Counter(pair.category for pair in pairs).items():
        print(f"{category}: {count} pairs")


def _german(args: argparse.Namespace) -> None:
    lexicon = Lexicon.of(_lines(args.train))
    sources, targets = _lines(args.source), _lines(args.target)
    if len(sources) != len(targets):
        raise InputError(str(args.target), None, f"expected {len(sources)} lines, found {len(targets)}")
    pairs = [
        Pair(source, target, wrong, category)
        for source, target in zip(sources, targets, strict=True)
        for category, wrong in german_pairs(target, lexicon)
    ]
    write_pairs(args.prefix, sorted(pairs, key=lambda pair: [*_RULES].index(pair.category)))


def _lingeval(args: argparse.Namespace) -> None:
    write_pairs(args.prefix, [pair for folder in args.folders for pair in read_lingeval(folder)])


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("contrastive_pairs.py", __doc__)
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    german = kinds.add_parser("german", help="by rule, from German references")
    for name, what in (("train", "German training text"), ("source", "source sentences"), ("target", "references")):
        german.add_argument(name, type=Path, help=what)
    german.set_defaults(work=_german)
    lingeval = kinds.add_parser("lingeval", help="in the files of LingEval97")
    lingeval.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="one a category")
    lingeval.set_defaults(work=_lingeval)
    for of_kind in (german, lingeval):
        of_kind.add_argument("prefix", metavar="PREFIX", help="of the files that are written")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Run the command line; broken input ends it with a message and exit status 1."""
    run("contrastive_pairs.py", get_parser, lambda args: args.work(args), argv)


if __name__ == "__main__":
    main()
