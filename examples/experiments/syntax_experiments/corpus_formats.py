"""Formats of parallel text, as lines in constant memory, white space folded."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import IO
from xml.etree import ElementTree

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)
_METADATA = re.compile(r"\s*</?(url|talkid|keywords|speaker|translator|reviewer|doc|transcript)\b", re.IGNORECASE)
_TEXT_TAG = re.compile(r"</?(?:title|description)>", re.IGNORECASE)
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def lines(file: IO[bytes], language: str) -> Iterator[str]:
    """Each line."""
    for line in file:
        yield _folded(line.decode())


def iwslt(file: IO[bytes], language: str) -> Iterator[str]:
    """Lines of IWSLT's training text, titles and descriptions too, no metadata."""
    for line in lines(file, language):
        if not _METADATA.match(line):
            yield _folded(_TEXT_TAG.sub("", line))


def seg(file: IO[bytes], language: str) -> Iterator[str]:
    """The text of each ``<seg>`` (SGML, XML) of a test set, entities replaced."""
    for match in _SEGMENT.finditer(file.read().decode()):
        yield _folded(html.unescape(match[1]))


def tmx(file: IO[bytes], language: str) -> Iterator[str]:
    """One language of a translation memory, an empty line where an entry lacks it."""
    body = None
    for event, element in ElementTree.iterparse(file, events=("start", "end")):
        if event == "start":
            body = element if element.tag == "body" else body
        elif element.tag == "tu":
            sides = {_language(tuv): tuv.find("seg") for tuv in element.iter("tuv")}
            side = sides.get(language.lower())
            yield "" if side is None else _folded("".join(side.itertext()))
            if body is not None:
                body.clear()  # else it keeps all entries


def _language(tuv: ElementTree.Element) -> str:
    return (tuv.get(_LANG) or tuv.get("lang") or "").partition("-")[0].lower()


def _folded(line: str) -> str:
    return " ".join(line.split())


#: By name in recipes; of a file and the language to read.
READERS: dict[str, Callable[[IO[bytes], str], Iterator[str]]] = {"lines": lines, "iwslt": iwslt, "seg": seg, "tmx": tmx}
