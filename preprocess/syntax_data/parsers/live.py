"""What parsers in Python have in common: the text that they get of a line, and the tree that they make of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from syntax_data.errors import InputError
from syntax_data.text.folding import unescape_moses
from syntax_data.trees.conllu import parse_conllu
from syntax_data.trees.tree import DependencyTree, NoParse

_WHITE_SPACE = re.compile(r"\s")
# Of those that are no white space, NUL ends UDPipe's text, and stanza drops \x80 to \x9f.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_WORD = re.compile(r"\S+")


def add_pretokenized(group: Any, parser: str) -> None:
    """Adds ``--pretokenized`` to a group of argparse's."""
    group.add_argument(
        "--pretokenized",
        action="store_true",
        help=f"a line is one sentence of tokens with spaces between them, which are kept (default: {parser} splits "
        "lines into sentences and tokens)",
    )


@dataclass(frozen=True, slots=True)
class RawText:
    """A line as a parser gets it that splits it into tokens itself: without Moses' escapes, with spaces alone as white
    space, and with U+FFFD for control characters.

    Attributes:
        line: the line itself.
        text: what the parser gets.
        starts: character i of it stands at ``starts[i]`` of the line; the last is where the line ends.
    """

    line: str
    text: str
    starts: list[int]

    @classmethod
    def of(cls, line: str, *, single_spaces: bool = False) -> RawText:
        """Of a line; with `single_spaces` one space stands between words, and none at either end."""
        text, starts = unescape_moses(line)
        text = _CONTROL.sub("\ufffd", text)
        if not single_spaces:
            return cls(line, _WHITE_SPACE.sub(" ", text), starts)
        spans = [match.span() for match in _WORD.finditer(text)]
        places = [i for start, end in spans for i in range(start, end + 1)][:-1]  # a word's, and the space after it
        words = " ".join(text[start:end] for start, end in spans)
        return cls(line, words, [*(starts[i] for i in places), starts[len(text)]])

    def surface(self, start: int, end: int) -> str:
        """What stands in the line for these characters of :attr:`text`."""
        return " ".join(self.line[self.starts[start] : self.starts[end]].split())


@dataclass(frozen=True, slots=True)
class Word:
    """What a parser says of a word; `head` is the number of another of its sentence, from 1, or 0: it is the root."""

    head: int
    deprel: str | None
    lemma: str | None = None
    upos: str | None = None
    xpos: str | None = None
    feats: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text, and the words that it is made of: one, but for multi-word tokens."""

    form: str
    words: Sequence[Word]


def dependency_tree(sentences: Sequence[Sequence[Token]], *, parser: str) -> DependencyTree:
    """The tree of a line's sentences.

    Raises:
        RuntimeError: it is none; names the parser.
    """
    rows = [f"# sentences = {len(sentences)}"]
    first = number = 0
    for sentence in sentences:
        for token in sentence:
            if len(token.words) > 1:
                span = f"{number + 1}-{number + len(token.words)}"
                rows.append("\t".join([span, token.form, *"________"]))
            for word in token.words:
                number += 1
                labels = (label or "_" for label in (word.lemma, word.upos, word.xpos, word.feats))
                head = word.head + first if word.head else 0
                columns = [number, token.form, *labels, head, word.deprel or "_"]
                rows.append("\t".join([*map(str, columns), "_", "_"]))
        first = number
    try:
        tree = parse_conllu(rows, path=parser, line=1)
    except InputError as error:
        raise RuntimeError(f"{parser}'s parse is not a tree: {error.message}") from None
    if isinstance(tree, NoParse):
        raise RuntimeError(f"{parser}'s parse is empty")
    return tree
