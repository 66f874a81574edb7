"""Common parts of parsers that run here: their options, the text they get, the tree they return."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from syntax_data.errors import InputError
from syntax_data.parsers.parser import MAX_TOKENS, NER, Parser
from syntax_data.text.folding import unescape_moses
from syntax_data.trees.conllu import parse_conllu
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import DependencyTree, NoParse

_WHITE_SPACE = re.compile(r"\s")
# Characters that are no white space: NUL ends UDPipe's text, and stanza drops \x80 to \x9f.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_WORD = re.compile(r"\S+")

T = TypeVar("T")


class LiveParser(Parser):
    """A parser of some library.

    Args:
        pretokenized: whether a line is one sentence of tokens with spaces between them, which are kept. If not, the
            library splits lines into sentences and tokens.
        max_tokens: lines of more tokens are not parsed.
        ner: whether to label named entities, if the library finds some.
        multiword: whether to look for multi-word tokens among given tokens, too, if the library knows such.

    Raises:
        ValueError: `multiword` without `pretokenized`.
    """

    restartable = True
    finds_entities: ClassVar[bool] = False
    splits_tokens: ClassVar[bool] = False

    def __init__(
        self,
        *,
        pretokenized: bool = False,
        max_tokens: int = MAX_TOKENS,
        ner: bool = False,
        multiword: bool = False,
    ):
        if multiword and not pretokenized:
            raise ValueError("--multiword: expected --pretokenized; in raw text multi-word tokens are found without it")
        self.pretokenized = pretokenized
        self.max_tokens = max_tokens
        self.multiword = multiword and self.splits_tokens
        self.word_labels = [NER] if ner and self.finds_entities else []

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument(
            "--pretokenized",
            action="store_true",
            help="a line is one sentence of tokens with spaces between them, which are kept (default: the parser "
            "splits lines into sentences and tokens)",
        )
        if cls.splits_tokens:
            group.add_argument(
                "--multiword",
                action="store_true",
                help="with --pretokenized: parse the words of a token (im: in dem) if the parser's tokenizer finds it "
                "and them in the line",
            )
        if cls.finds_entities:
            group.add_argument(
                "--ner",
                action="store_true",
                help=f"label named entities in the column MISC of CoNLL-U, as {NER}=B-PERSON, {NER}=I-PERSON and "
                f"{NER}=O, with the model's types; fairseq-syntax-binarize --word-labels {NER} reads them",
            )

    def _check_labels(self) -> None:
        """Raise :class:`ValueError` if there is no CoNLL-U to write labels of words into."""
        if self.word_labels and CONLLU.name not in self.kinds:
            raise ValueError("--ner: expected dependency parses, whose CoNLL-U has the named entities, found none")

    def _described_settings(self) -> dict[str, Any]:
        """Return what :meth:`describe` has of the arguments, without those that are not used."""
        used = {"multiword": self.multiword, "word_labels": self.word_labels}
        return {"pretokenized": self.pretokenized, **{name: value for name, value in used.items() if value}}

    @staticmethod
    def given_settings(args: Namespace) -> dict[str, Any]:
        """Return the arguments of this class that a command line has."""
        names = ("pretokenized", "max_tokens", "ner", "multiword")
        return {name: getattr(args, name) for name in names if name in args}

    @staticmethod
    def recorded_settings(description: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of this class that a parser's description records."""
        return {
            "pretokenized": description.get("pretokenized", False),
            "max_tokens": description.get("settings", {}).get("max_tokens", MAX_TOKENS),
            "ner": NER in description.get("word_labels", ()),
            "multiword": description.get("multiword", False),
        }


def add_device(group: Any) -> None:
    """Add ``--device`` to a group of argparse's."""
    group.add_argument("--device", choices=["cpu", "cuda"], help="where it runs (default: on a GPU if there is one)")


@dataclass(frozen=True, slots=True)
class RawText:
    """A line for a parser that splits it.

    It is without Moses' escapes, with spaces as its only white space, and with U+FFFD for control characters.

    Attributes:
        line: the line itself.
        text: what the parser gets.
        starts: index in the line of each character of the text, and of the end.
    """

    line: str
    text: str
    starts: list[int]

    @classmethod
    def of(cls, line: str, *, single_spaces: bool = False) -> RawText:
        """Return the text of a line; `single_spaces`: one between words, none at the ends."""
        text, starts = unescape_moses(line)
        text = _CONTROL.sub("\ufffd", text)
        if not single_spaces:
            return cls(line, _WHITE_SPACE.sub(" ", text), starts)
        spans = [match.span() for match in _WORD.finditer(text)]
        kept = [i for start, end in spans for i in range(start, end + 1)][:-1]  # a word's, and the space after it
        words = " ".join(text[start:end] for start, end in spans)
        return cls(line, words, [*(starts[i] for i in kept), starts[len(text)]])

    def surface(self, start: int, end: int) -> str:
        """Return the part of the line that these characters of :attr:`text` come from."""
        return " ".join(self.line[self.starts[start] : self.starts[end]].split())

    def at_tokens(self, found: Mapping[tuple[int, int], T]) -> list[T | None]:
        """Return for each token of the line, between its spaces, what is found at exactly its place in :attr:`text`."""
        in_line = {(self.starts[start], self.starts[end]): what for (start, end), what in found.items()}
        return [in_line.get(match.span()) for match in _WORD.finditer(self.line)]


@dataclass(frozen=True, slots=True)
class SyntacticWord:
    """A word's annotation; `head` is a word of the sentence (from 1), 0 of the root."""

    head: int
    deprel: str | None
    lemma: str | None = None
    upos: str | None = None
    xpos: str | None = None
    feats: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text, its words (one, except in multi-word tokens), and its named entity as B-, I- or O."""

    form: str
    words: Sequence[SyntacticWord]
    entity: str | None = None


def dependency_tree(sentences: Sequence[Sequence[Token]], *, parser: str) -> DependencyTree:
    """Return the trees of a line. Raises :class:`RuntimeError` if one is no tree, or MISC cannot have an entity."""
    rows = [f"# sentences = {len(sentences)}"]
    first = number = 0
    for sentence in sentences:
        for token in sentence:
            misc = "_" if token.entity is None else f"{NER}={token.entity}"
            if "|" in misc:
                raise RuntimeError(f"expected types of entities without |, found {parser}'s {token.entity!r}")
            if len(token.words) > 1:
                span = f"{number + 1}-{number + len(token.words)}"
                rows.append("\t".join([span, token.form, *"________"]))
            for word in token.words:
                number += 1
                labels = (label or "_" for label in (word.lemma, word.upos, word.xpos, word.feats))
                head = word.head + first if word.head else 0
                columns = [number, token.form, *labels, head, word.deprel or "_"]
                rows.append("\t".join([*map(str, columns), "_", misc]))
        first = number
    try:
        tree = parse_conllu(rows, path=parser, line=1)
    except InputError as error:
        raise RuntimeError(f"{parser}'s parse is not a tree: {error.message}") from None
    if isinstance(tree, NoParse):
        raise RuntimeError(f"{parser}'s parse is empty")
    tree.words = None  # their forms are those of the tokens
    return tree
