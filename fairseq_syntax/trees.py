"""Constituency and dependency trees, and the readers of the two file formats they come in.

Both formats hold one *unit* for every line of the text they belong to:

=========  ==============================  =================================  =====================
format     one unit                        the parser gave up on this line    the line has no words
=========  ==============================  =================================  =====================
brackets   a line with one tree; several   ``(())``                           an empty line
           trees on it are a forest
CoNLL-U    a block of lines, closed by an  a block of comments with           a block of comments
           empty line; several sentences   ``# no_parse = REASON`` in it
           with ``# sentences = N`` in it
=========  ==============================  =================================  =====================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fairseq_syntax.errors import InputError

NO_TREE = "(())"
_NO_PARSE = re.compile(r"#\s*no_parse\s*=")
_SENTENCES = re.compile(r"#\s*sentences\s*=\s*(\d+)\s*$")
_BRACKET_TOKEN = re.compile(r"[()]|[^\s()]+")
_BRACKET_ESCAPES = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}


def unescape_brackets(word: str) -> str:
    """The Penn Treebank's ``-LRB-`` and its kin as the brackets they stand for."""
    return _BRACKET_ESCAPES.get(word, word)


@dataclass(slots=True)
class Tree:
    """A constituent: its label and its children, which are constituents or words."""

    label: str
    children: list[Tree | str]

    def leaves(self) -> list[str]:
        """The words below this constituent, from left to right."""
        words = []
        stack: list[Tree | str] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                words.append(node)
            else:
                stack.extend(reversed(node.children))
        return words


@dataclass(slots=True)
class DependencyTree:
    """Surface tokens and, for each, its head: 0 above the root of each sentence, i the i-th token (from 1)."""

    tokens: list[str]
    heads: list[int]


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yields each line of a UTF-8 file with its number, without the line end.

    Lines end at ``\\n`` or ``\\r\\n``. A carriage return anywhere else is refused: fairseq would end a
    line there, and every later line would belong to another sentence.
    """
    with open(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(path, number, f"expected UTF-8, found {error}") from None
            line = line.removesuffix("\n").removesuffix("\r")
            if "\r" in line:
                raise InputError(
                    path,
                    number,
                    f"expected no carriage return inside the line, found one in column "
                    f"{line.index(chr(13)) + 1}; fairseq would count two lines",
                )
            yield number, line


def parse_brackets(text: str, *, path: str, line: int) -> list[Tree] | None:
    """Reads the bracketed trees on one line.

    Returns one tree a sentence: usually one, none for an empty line; ``None`` where the line says that
    there is no parse. Raises :class:`InputError` for brackets that do not balance.
    """
    if text.strip() == NO_TREE:
        return None
    trees: list[Tree] = []
    stack: list[Tree] = []
    opened = False  # was the last token an opening bracket, so that a label is due?
    for match in _BRACKET_TOKEN.finditer(text):
        token = match.group()
        if token == "(":
            node = Tree("", [])
            if stack:
                stack[-1].children.append(node)
            else:
                trees.append(node)
            stack.append(node)
        elif not stack:
            raise InputError(path, line, f"expected '(' in column {match.start() + 1}, found {token!r}")
        elif token == ")":
            node = stack.pop()
            if not node.children:
                raise InputError(
                    path,
                    line,
                    f"expected a word or a constituent inside ({node.label}) before column "
                    f"{match.start() + 1}, found none",
                )
        elif opened:
            stack[-1].label = token
        else:
            stack[-1].children.append(unescape_brackets(token))
        opened = token == "("
    if stack:
        raise InputError(path, line, f"expected {len(stack)} more ')' at the end of the line (unbalanced brackets)")
    return trees


def conllu_blocks(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each block of a CoNLL-U file: the number of its first line, and its lines."""
    block: list[str] = []
    for number, line in read_lines(path):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []
    if block:
        yield number - len(block) + 1, block


def parse_conllu(block: list[str], *, path: str, line: int) -> DependencyTree | None:
    """Reads one CoNLL-U block, whose first line is line `line` of `path`.

    Multi-word tokens (``3-4 im``) count as the one surface token that the text has; its head is that of
    the word in it that is nearest to the root, which keeps the result a tree. Empty nodes (``5.1``)
    belong to the enhanced graph and are not part of the tree.

    Words are numbered through the whole block, also where a comment says that it holds several sentences.

    Returns ``None`` where a comment says that there is no parse. Raises :class:`InputError` for a line
    without ten columns, word numbers out of order, a head out of range, a cycle, or other than one root a sentence.
    """
    forms: list[str] = []
    heads: list[int] = []
    lines: list[int] = []
    spans: list[tuple[int, int, str]] = []  # multi-word tokens: first word, last word, form
    no_parse = False
    sentences = 1
    for number, text in enumerate(block, start=line):
        if text.startswith("#"):
            no_parse = no_parse or bool(_NO_PARSE.match(text))
            if stated := _SENTENCES.match(text):
                sentences = int(stated[1])
            continue
        columns = text.split("\t")
        if len(columns) != 10:
            raise InputError(path, number, f"expected 10 tab-separated columns, found {len(columns)}")
        identifier, form, head = columns[0], columns[1], columns[6]
        if "." in identifier:
            continue
        if "-" in identifier:
            first, _, last = identifier.partition("-")
            if not (first.isdecimal() and last.isdecimal() and len(forms) < int(first) < int(last)):
                raise InputError(
                    path,
                    number,
                    f"expected a rising range of words after word {len(forms)}, found {identifier!r}",
                )
            spans.append((int(first), int(last), form))
            continue
        if identifier != str(len(forms) + 1):
            raise InputError(path, number, f"expected word number {len(forms) + 1}, found {identifier!r}")
        if not head.isdecimal():
            raise InputError(path, number, f"expected the number of a head, found {head!r}")
        forms.append(form)
        heads.append(int(head))
        lines.append(number)
    if no_parse:
        return None
    _check_roots(heads, sentences, path=path, lines=lines)
    depths = _depths(heads, path=path, lines=lines)
    if not spans:
        return DependencyTree(forms, heads)
    return _collapse(forms, heads, depths, spans, path=path, line=line)


def _check_roots(heads: list[int], sentences: int, *, path: str, lines: list[int]) -> None:
    roots = [line for head, line in zip(heads, lines, strict=True) if head == 0]
    due = "one root" if sentences == 1 else f"{sentences} roots, one a sentence"
    if len(roots) > sentences:
        raise InputError(
            path,
            roots[sentences],
            f"expected {due}, found another one; a line of several sentences says so in a comment '# sentences = N'",
        )
    if sentences > 1 and len(roots) < sentences and heads:
        raise InputError(path, lines[-1], f"expected {due}, found {len(roots)}")


def _depths(heads: list[int], *, path: str, lines: list[int]) -> list[int]:
    """Distance of each word from its root (1 for a root itself), having checked that all lead to one."""
    for head, line in zip(heads, lines, strict=True):
        if head > len(heads):
            raise InputError(path, line, f"expected a head between 0 and {len(heads)}, found {head} (out of range)")
    depths = [0] * len(heads)
    for start in range(len(heads)):
        path_up = []
        word = start
        while word >= 0 and not depths[word]:
            depths[word] = -1  # on the way up
            path_up.append(word)
            word = heads[word] - 1
        if word >= 0 and depths[word] == -1:
            raise InputError(path, lines[word], f"expected a tree, found a cycle through word {word + 1}")
        depth = depths[word] if word >= 0 else 0
        for below in reversed(path_up):
            depth += 1
            depths[below] = depth
    return depths


def _collapse(
    forms: list[str],
    heads: list[int],
    depths: list[int],
    spans: list[tuple[int, int, str]],
    *,
    path: str,
    line: int,
) -> DependencyTree:
    """Turns words into surface tokens.

    A token's head is the token of its shallowest word's head. That head is shallower than any word of
    the token, so it lies outside the token and depths fall strictly on the way up: no cycle can arise.
    """
    tokens: list[str] = []
    groups: list[range] = []
    rest = iter(spans)
    span = next(rest, None)
    word = 1
    while word <= len(forms):
        if span and word == span[0]:
            last = span[1]
            if last > len(forms):
                raise InputError(
                    path,
                    line,
                    f"expected words {word} to {last} of {span[2]!r}, found only {len(forms)} words",
                )
            tokens.append(span[2])
            groups.append(range(word, last + 1))
            span = next(rest, None)
            word = last + 1
        else:
            tokens.append(forms[word - 1])
            groups.append(range(word, word + 1))
            word += 1
    if span:
        raise InputError(path, line, f"expected multi-word tokens that do not overlap, found {span[2]!r}")
    token_of = {word: i for i, group in enumerate(groups, start=1) for word in group}
    token_of[0] = 0
    shallowest = (min(group, key=lambda w: depths[w - 1]) for group in groups)
    return DependencyTree(tokens, [token_of[heads[w - 1]] for w in shallowest])
