"""Parses in the JSON of Stanford's CoreNLP.

A file has documents: one a line; or over several lines each, one after the other or in an array. An entry is a
sentence, and its line is that at which its document begins. A word that CoreNLP splits (French *du*) is several words
in JSON, another text than its line's; CoreNLP's CoNLL-U has both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from syntax_data.errors import BadParse, InputError, short_repr
from syntax_data.parsers.files import FileParser
from syntax_data.parsers.parser import NER, Parse
from syntax_data.text.folding import fold, same_folded, unescape_brackets
from syntax_data.text.lines import read_lines
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.formats import CONLLU, TREES, EntryFormat, NumberedLines
from syntax_data.trees.tree import DependencyTree, NoParse, Tree, depths, merge_leaves

#: The key of a sentence under which it has each kind of parse.
_KEYS = {CONLLU.name: "basicDependencies", TREES.name: "parse"}
_BLANKS = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True)
class Sentence:
    """The JSON of a sentence, and its number in its document, from 1."""

    number: int
    content: dict[str, Any]


def corenlp_entries(lines: NumberedLines) -> Iterator[tuple[int, Sentence | ValueError]]:
    """Yield each sentence; at the end of what can be read, the error."""
    for line, document in _documents(lines):
        for part in document if isinstance(document, list) else [document]:
            sentences = part.get("sentences") if isinstance(part, dict) else None
            if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
                wrong = ValueError(f"expected a document of CoreNLP with 'sentences', found {short_repr(part)}")
                yield line, part if isinstance(part, ValueError) else wrong
                return
            yield from ((line, Sentence(number, content)) for number, content in enumerate(sentences, start=1))


def _documents(lines: NumberedLines) -> Iterator[tuple[int, Any]]:
    """Yield each JSON value with the number of its first line; an error ends them."""
    decode = json.JSONDecoder().raw_decode
    for line, text in _whole_values(lines):
        first, end = line, 0
        while (start := _after_blanks(text, end)) < len(text):
            line += text.count("\n", end, start)
            try:
                value, end = decode(text, start)
            except json.JSONDecodeError as error:
                found = f"{error.msg} in column {error.colno}"
                yield first + error.lineno - 1, ValueError(f"expected JSON of CoreNLP, found none: {found}")
                return
            except RecursionError:
                yield line, ValueError("expected JSON of CoreNLP, found too many brackets in brackets")
                return
            yield line, value
            line += text.count("\n", start, end)


def _whole_values(lines: NumberedLines) -> Iterator[tuple[int, str]]:
    """Cut a file into texts of whole values: its lines, if the first is one, or all of it."""
    lines = iter(lines)
    number, first = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        yield number, "\n".join([first, *(line for _, line in lines)])
    else:
        yield from chain([(number, first)], lines)


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    assert blanks
    return blanks.end()


def parse_sentence(sentence: Sentence, *, path: str, line: int, kinds: Sequence[str] = tuple(_KEYS)) -> Parse:
    """Read a sentence, whose document begins at line `line` of `path`.

    Its ``pos`` is CoNLL-U's ``XPOS``, its ``ner`` is in MISC. Raises :class:`BadParse` unless it has a tree of each of
    `kinds` over its tokens.
    """
    parse = Parse()
    try:
        tokens = _objects(sentence.content, "tokens", {"word": str})
        words = [unescape_brackets(token["word"]) for token in tokens]
        if CONLLU.name in kinds:
            parse.dependencies = _dependencies(words, tokens, sentence.content)
        if TREES.name in kinds:
            parse.trees = [_tree(words, sentence.content)]
    except BadParse as error:
        message = f"sentence {sentence.number} of this document: {error.message}"
        raise BadParse(path, line, message, error.reason) from None
    return parse


def words_in_sentence(sentence: Sentence) -> list[str]:
    """The words of a sentence, perhaps broken, as far as they can be read."""
    tokens = sentence.content.get("tokens")
    found = [token.get("word") for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []
    return [unescape_brackets(word) for word in found if isinstance(word, str)]


def _bad(message: str, reason: str) -> BadParse:
    return BadParse("", None, message, reason)  # parse_sentence knows where


def _objects(sentence: dict[str, Any], key: str, types: dict[str, type]) -> list[dict[str, Any]]:
    """The list of objects under a key, which have values of these types."""
    found = sentence.get(key)
    if not isinstance(found, list):
        raise _bad(f"expected a list {key!r}, found {short_repr(found)}", "keys")
    for one in found:
        if not isinstance(one, dict) or any(type(one.get(name)) is not kind for name, kind in types.items()):
            raise _bad(f"expected objects with {', '.join(types)} in {key!r}, found {short_repr(one)}", "keys")
    return found


def _dependencies(words: list[str], tokens: list[dict[str, Any]], sentence: dict[str, Any]) -> DependencyTree:
    key = _KEYS[CONLLU.name]
    arcs = _objects(sentence, key, {"dependent": int, "governor": int, "dep": str})
    arcs = sorted(arcs, key=lambda arc: arc["dependent"])
    if (found := [arc["dependent"] for arc in arcs]) != [*range(1, len(words) + 1)]:
        raise _bad(
            f"expected one governor of each word, 1 to {len(words)}, found those of {short_repr(found)}", "no_head"
        )
    heads = [arc["governor"] for arc in arcs]
    if (roots := heads.count(0)) > 1:
        raise _bad(f"expected one root, found {roots}", "several_roots")
    if min(heads, default=0) < 0:
        raise _bad(f"expected governors from 0 on, found {min(heads)}", "head_out_of_range")
    depth = max(depths(heads, path="", lines=[0] * len(heads)), default=0)
    labels = ["root" if not arc["governor"] else arc["dep"] for arc in arcs]  # CoreNLP writes ROOT
    columns = [
        ["_", "_", _column(token, "lemma"), "_", _column(token, "pos"), "_", "_", label, "_", _entity(token)]
        for token, label in zip(tokens, labels, strict=True)
    ]
    return DependencyTree(words, heads, columns, depth=depth)


def _column(token: dict[str, Any], key: str) -> str:
    return " ".join(str(token.get(key, "_")).split()) or "_"


def _entity(token: dict[str, Any]) -> str:
    """MISC with the named entity that a token is in, if CoreNLP's ner has run."""
    return f"{NER}={_column(token, 'ner')}" if "ner" in token else "_"


def _tree(words: list[str], sentence: dict[str, Any]) -> Tree:
    key = _KEYS[TREES.name]
    trees = parse_brackets(str(sentence.get(key, "")), path="", line=0)
    if isinstance(trees, NoParse) or len(trees) != 1:
        raise _bad(f"expected a tree {key!r}, as other sentences have, found {short_repr(sentence.get(key))}", "keys")
    leaves = trees[0].leaves()
    if len(leaves) != len(words) or not all(
        same_folded(fold(a)[0], fold(b)[0]) for a, b in zip(leaves, words, strict=True)
    ):
        raise _bad(f"expected a tree over {short_repr(words)}, found {short_repr(leaves)}", "mismatch")
    return merge_leaves(trees[0], words, {i: i for i in range(len(words))})


CORENLP = EntryFormat(
    name="corenlp",
    entries=corenlp_entries,
    parse=parse_sentence,
    words=words_in_sentence,
    tokens=lambda parse: parse.tokens,
    blank=lambda sentence: not sentence.content.get("tokens", True),
    maker=lambda lines: "CoreNLP",
)


class CorenlpParser(FileParser):
    """Parses in CoreNLP's JSON: dependencies, constituents or both, as its file has them."""

    def __init__(self, path: str, *args: Any, **options: Any):
        self.kinds = _kinds(path)
        self.format = replace(CORENLP, parse=partial(parse_sentence, kinds=self.kinds))
        super().__init__(path, *args, **options)

    def _join(self, entries: list[Parse]) -> Parse:
        dependencies = [entry.dependencies for entry in entries if entry.dependencies]
        trees = [tree for entry in entries for tree in entry.trees or []]
        return Parse(DependencyTree.join(dependencies) if dependencies else None, trees or None)


def _kinds(path: str) -> list[str]:
    """The kinds of parse that some sentence of a file has.

    Raises :class:`InputError` where it is no JSON of CoreNLP, or has no parses.
    """
    found: set[str] = set()
    for line, sentence in corenlp_entries(read_lines(path)):
        if isinstance(sentence, ValueError):
            raise InputError(path, line, str(sentence))
        found |= sentence.content.keys()
    kinds = [kind for kind, key in _KEYS.items() if key in found]
    if not kinds:
        message = "expected sentences with 'basicDependencies' or 'parse', found neither: CoreNLP's annotators "
        raise InputError(path, None, f"{message}depparse and parse write them")
    return kinds
