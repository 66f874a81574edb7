"""Questions of a SQuAD file, and the answers' subwords.

A split is six files. :func:`write_split` writes them.

====================== ===============================================================================================
SPLIT.passage          each passage once, a line; line breaks inside are spaces
SPLIT.question         each question once
SPLIT.passage.bpe      the subwords of the passages
SPLIT.question.bpe     the subwords of the questions
SPLIT.passages.jsonl   :class:`Passage`, a line of SPLIT.passage each
SPLIT.examples.jsonl   :class:`SquadExample`, a question of the SQuAD file each
====================== ===============================================================================================
"""

from __future__ import annotations

import json
import string
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from syntax_data.errors import InputError, one_line, short_repr
from syntax_data.io.atomic_write import atomic_write
from syntax_data.io.versioned_json import check_types, read_json
from syntax_data.text.alignment import AlignmentError, Subwords, align
from syntax_data.text.lines import read_lines

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """A question about a passage.

    Attributes:
        answers: the texts of the answers, and the character of `passage` at which each starts.
        impossible: the passage does not answer it; ``None``: the file does not say so (version 1.1).
    """

    id: str
    text: str
    passage: str
    answers: tuple[tuple[str, int], ...]
    impossible: bool | None


@dataclass(frozen=True)
class SquadExample:
    """A question, by its lines in SPLIT.passage and SPLIT.question, from 0.

    Attributes:
        answers: first and last subword of each answer in the passage, from 0; no two are the same.
    """

    id: str
    passage: int
    question: int
    impossible: bool
    answers: list[list[int]]


@dataclass(frozen=True)
class Passage:
    """A passage, and the character at which each of its subwords starts, from 0."""

    text: str
    starts: list[int]

    def span(self, first: int, last: int) -> str:
        """Return the text of subwords `first` to `last`, without white space around it."""
        start = self.starts[first]
        after = bisect_right(self.starts, self.starts[last])
        return self.text[start : self.starts[after] if after < len(self.starts) else len(self.text)].strip()

    def subwords(self, start: int, end: int) -> list[int]:
        """Return the first and last subword of the characters `start` to `end` - 1.

        A character inside a subword takes the whole subword.
        """
        first = self.starts[max(bisect_right(self.starts, start) - 1, 0)]
        return [bisect_left(self.starts, first), max(bisect_right(self.starts, end - 1) - 1, 0)]


def read_questions(path: str) -> list[Question]:
    """Return the questions of a SQuAD file, version 1.1 or 2.0.

    Raises:
        InputError: the file has another structure; an id is there twice; the passage has not an answer's text where
            it should start; a question has answers and is impossible, or has neither.
    """

    def build(content: Any) -> list[Question]:
        questions: dict[str, Question] = {}
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for qa in paragraph["qas"]:
                    question = _question(path, qa, paragraph["context"])
                    if question.id in questions:
                        raise InputError(path, None, f"expected each id once, found {question.id!r} twice")
                    questions[question.id] = question
        if not questions:
            raise ValueError("none")
        return list(questions.values())

    return read_json(path, "SQuAD's questions", build)


def _question(path: str, qa: dict[str, Any], passage: str) -> Question:
    answers = tuple((str(answer["text"]), int(answer["answer_start"])) for answer in qa["answers"])
    impossible = qa.get("is_impossible")
    question = Question(str(qa["id"]), str(qa["question"]), str(passage), answers, impossible)
    for text, start in answers:
        found = passage[start : start + len(text)] if start >= 0 else ""
        if not text.strip() or found != text:
            place = f"characters {start} to {start + len(text)} of the passage"
            message = f"question {question.id}: expected the answer {short_repr(text)} as {place}, "
            raise InputError(path, None, f"{message}found {short_repr(found)}")
    if bool(answers) is bool(impossible):
        expected = "no answers, since is_impossible is true" if impossible else "an answer, or is_impossible: true"
        raise InputError(path, None, f"question {question.id}: expected {expected}, found {len(answers)} answers")
    return question


def find_subwords(text: str, subwords: Subwords) -> Passage:
    """Return a passage with the first character of each of its subwords.

    A subword without a visible character starts where the next one does; the bytes of a character start together.

    Raises :class:`~syntax_data.text.alignment.AlignmentError` unless both are the same text.
    """
    if subwords.unknown:
        words = _berts_words(text)
        word_of = align(subwords, words)
        pieces = [words[word_of[i]] if i in subwords.unknown else piece for i, piece in enumerate(subwords.pieces)]
        subwords = replace(subwords, pieces=pieces, unknown=frozenset())
    visible = [i for i, character in enumerate(text) if not character.isspace()]
    return Passage(text, [visible[i] for i in align(subwords, [text[i] for i in visible])])


def _berts_words(text: str) -> list[str]:
    """Return the words that BERT cuts into subwords: between spaces, with each punctuation mark and ideograph alone."""
    alone = (f" {c} " if _is_alone(c) else c for c in text)
    return "".join(alone).split()


def _is_alone(character: str) -> bool:
    if character.isascii():
        return character in string.punctuation
    return unicodedata.category(character).startswith("P") or unicodedata.name(character, "").startswith("CJK ")


def texts(questions: Sequence[Question]) -> dict[str, list[str]]:
    """Return the lines of SPLIT.passage and SPLIT.question, by these endings."""
    found = {"passage": [of.passage for of in questions], "question": [of.text for of in questions]}
    return {name: [_one_line(text) for text in dict.fromkeys(of)] for name, of in found.items()}


def write_split(
    prefix: str,
    questions: Sequence[Question],
    encode: Callable[[str], str],
    subwords: Callable[[Sequence[str]], Subwords],
) -> dict[str, int]:
    """Write the files of a split, ``PREFIX.passage`` and so on; return counts.

    Args:
        encode: cuts a line into subwords, separated by spaces.
        subwords: reads them (:func:`~syntax_data.text.subwords.subword_reader`).

    Raises:
        ValueError: the subwords are not the text of the passage; names the question.
    """
    passages: dict[str, tuple[int, Passage]] = {}
    asked: dict[str, int] = {}
    subword_lines: dict[str, list[str]] = {"passage": [], "question": []}
    examples = []
    for question in questions:
        if question.passage not in passages:
            cut = encode(_one_line(question.passage))
            passages[question.passage] = len(passages), _passage(question, subwords(cut.split()))
            subword_lines["passage"].append(cut)
        if question.text not in asked:
            asked[question.text] = len(asked)
            subword_lines["question"].append(encode(_one_line(question.text)))
        number, passage = passages[question.passage]
        spans = [passage.subwords(*_without_space(text, start)) for text, start in question.answers]
        spans = [span for i, span in enumerate(spans) if span not in spans[:i]]
        examples.append(SquadExample(question.id, number, asked[question.text], bool(question.impossible), spans))
    of_passages = [passage for _, passage in passages.values()]
    for name, lines in texts(questions).items():
        _write(f"{prefix}.{name}", lines)
    for name, lines in subword_lines.items():
        _write(f"{prefix}.{name}.bpe", lines)
    _write(f"{prefix}.passages.jsonl", map(_json, of_passages))
    _write(f"{prefix}.examples.jsonl", map(_json, examples))
    return {
        "questions": len(questions),
        "impossible": sum(bool(question.impossible) for question in questions),
        "without is_impossible": sum(question.impossible is None for question in questions),
        "passages": len(passages),
    }


def _one_line(text: str) -> str:
    """Return a string with each white-space character as a space, so that characters keep their places."""
    return "".join(" " if character.isspace() else character for character in text)


def _without_space(text: str, start: int) -> tuple[int, int]:
    """Return the first character of an answer, and that after its last, without white space around it."""
    start += len(text) - len(text.lstrip())
    return start, start + len(text.strip())


def _passage(question: Question, subwords: Subwords) -> Passage:
    try:
        passage = find_subwords(_one_line(question.passage), subwords)
    except AlignmentError as error:
        raise ValueError(f"the passage of question {question.id}: {error}") from None
    if not passage.starts:
        raise ValueError(f"the passage of question {question.id}: expected text, found none")
    return passage


def _write(path: str, lines: Iterable[str]) -> None:
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _json(value: Passage | SquadExample) -> str:
    return json.dumps(asdict(value), ensure_ascii=False)


def read_passages(path: str) -> list[Passage]:
    """Return the passages of SPLIT.passages.jsonl.

    Raises :class:`~syntax_data.errors.InputError` for a line that :func:`write_split` does not write.
    """

    def build(content: Any) -> Passage:
        check_types("a passage", content, {"text": str, "starts": list})
        return Passage(**content)

    return _read(path, build)


def read_examples(path: str) -> list[SquadExample]:
    """Return the examples of SPLIT.examples.jsonl, each id once; errors as :func:`read_passages`."""
    ids: set[str] = set()

    def build(content: Any) -> SquadExample:
        types = {"id": str, "passage": int, "question": int, "impossible": bool, "answers": list}
        check_types("an example", content, types)
        if not all(0 <= first <= last for first, last in content["answers"]):
            raise ValueError(f"the answers {short_repr(content['answers'])}")
        if content["id"] in ids:
            raise ValueError(f"the id {short_repr(content['id'])} twice")
        ids.add(content["id"])
        return SquadExample(**content)

    return _read(path, build)


def _read(path: str, build: Callable[[Any], T]) -> list[T]:
    values = []
    for number, line in read_lines(path):
        try:
            values.append(build(json.loads(line)))
        except (ValueError, TypeError, RecursionError) as error:
            message = f"expected a line of fairseq-syntax-squad prepare, found {one_line(error)}"
            raise InputError(path, number, message) from None
    return values
