"""Translations in logs and plain text, restored to raw text, and their references."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from syntax_data.errors import InputError
from syntax_data.text.lines import decode_lines, read_lines

_LOG = re.compile(rb"(?<![^\r\n])[A-Z]-[0-9]+\t|H-[0-9]+\t")
_HYPOTHESIS = re.compile(r"H-(0|[1-9][0-9]{0,17})\t([^\t]*)\t([^\t\0]*)")
_HYPOTHESIS_INSIDE = re.compile(rb"H-[0-9]+\t")
#: The mark of subwords, by the name of their kind.
MARKS = {"subword_nmt": "@@ ", "sentencepiece": "▁"}


def read_translations(path: str, count: int) -> list[str]:
    """The translations in a log or in plain text, in the order of the sentences.

    Raises :class:`InputError` unless a log has one, or an n-best list, of each of `count` sentences and of no other, in
    lines that are whole. The lines of plain text are not counted.
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
            message = f"expected H-0 to H-{count - 1}, as there are {count} references, found H-{sentence}"
            raise InputError(path, number, message)
        if sentence in first and sentence != last:
            message = f"expected the hypotheses of a sentence together, found H-{sentence} again: two logs?"
            raise InputError(path, number, message)
        first.setdefault(sentence, text)
        found += 1
        last = sentence
    if not first:
        message = f"expected a log with hypotheses (H-…), found {log[0].strip().decode()} and no H-; to score the "
        message += "lines D-, give their text alone, one a line in the order of their numbers"
        raise InputError(path, content.count(b"\n", 0, log.start()) + 1, message)
    missing = [sentence for sentence in range(count) if sentence not in first]
    if missing:
        some = f"{', '.join(map(str, missing[:8]))}{' …' * (len(missing) > 8)}"
        message = f"expected a translation (H-…) of each of {count} sentences, {len(missing)} are missing: {some}"
        raise InputError(path, None, message)
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
            message = f"expected {inside[0].strip().decode()} where a line begins, found it inside of one"
            raise InputError(path, number, message)
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
    """Restore raw text by the options of these names; warn of marks or escapes left."""
    texts = [join_subwords(text, remove_bpe) for text in translations] if remove_bpe else list(translations)
    for name, mark in MARKS.items():
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
    """The words of a translation, joined as by fairseq's --remove-bpe=KIND."""
    if kind == "sentencepiece":
        return text.replace(" ", "").replace(MARKS[kind], " ").strip()
    return f"{text} ".replace(MARKS[kind], "").rstrip()


def read_references(path: str) -> list[str]:
    """The lines of raw text; :class:`InputError` for those of a log, or for none."""
    lines = []
    for number, line in read_lines(path):
        if _LOG.match(line.encode()):
            raise InputError(path, number, f"expected raw text, found a line of a log: {line[:60]!r}")
        lines.append(line)
    if not lines:
        raise InputError(path, None, "expected references, found an empty file")
    return lines
