"""Bracketed constituency trees, read and written.

An entry is a line with a tree, or with several, one a sentence. Without a parse the line is ``(())``, and perhaps a
reason after it, ``()`` or :data:`_UNPARSABLE`, as Stanford's parsers write it; if the text has no words, it is empty.

ASCII's blanks alone separate: other white space belongs to a word, as in CoreNLP's fractions and telephone numbers.
"""

from __future__ import annotations

import re

from syntax_data.errors import BadParse, short_repr
from syntax_data.text.folding import escape_brackets, unescape_brackets
from syntax_data.trees.tree import NoParse, Tree

# No two of an expression's repetitions may match the same characters: it would take the square of a line's length.
_NO_TREE = re.compile(r"\s*\(\s*(?:\(\s*\)\s*)?\)([^()]*)", re.ASCII)
_UNPARSABLE = "SENTENCE_SKIPPED_OR_UNPARSABLE"
_TOKEN = re.compile(r"\(\s*([^\s()]*)|(\)|[^\s()]+)", re.ASCII)
# The same where a backslash before a bracket makes it a part of the word.
_TOKEN_WITH_ESCAPES = re.compile(r"\(\s*((?:\\[()]|[^\s()])*)|(\)|(?:\\[()]|[^\s()])+)", re.ASCII)
_ESCAPE = re.compile(r"\\([()])")
_BLANKS = re.compile(r"\s+", re.ASCII)
_BRACKETS_AS_WORDS = "; brackets that are words are written -LRB- and -RRB-"


def parse_brackets(text: str, *, path: str, line: int) -> list[Tree] | NoParse:
    """Read the bracketed trees on one line.

    Returns one tree a sentence, none for an empty line, or :class:`NoParse`. Raises :class:`BadParse` for brackets that
    do not balance.

    nltk writes the brackets of words as ``\\(`` and ``\\)``. They are read so where the other brackets balance then.
    Elsewhere a word ends in a backslash.
    """
    if nothing := _NO_TREE.fullmatch(text):
        return NoParse(nothing[1].strip() or "not_stated")
    if text.strip() == _UNPARSABLE:
        return NoParse(_UNPARSABLE.lower())
    escapes = "\\" in text and still_open(text)[1] == 0
    trees: list[Tree] = []
    stack: list[list[Tree | str]] = []  # the children of the constituents that are open
    for match in (_TOKEN_WITH_ESCAPES if escapes else _TOKEN).finditer(text):
        label, token = match.groups()
        if label is not None:
            node = Tree(escape_brackets(_ESCAPE.sub(r"\1", label)) if escapes else label, [])
            if stack:
                stack[-1].append(node)
            else:
                trees.append(node)
            stack.append(node.children)
        elif not stack:
            if token.isspace():
                continue
            message = f"expected '(' in column {match.start() + 1}, found {short_repr(token)}{_BRACKETS_AS_WORDS}"
            raise BadParse(path, line, message, "unbalanced" if token == ")" else "outside_brackets")
        elif token != ")":
            stack[-1].append(unescape_brackets(_ESCAPE.sub(r"\1", token) if escapes else token))
        elif not stack[-1] and len(stack) > 1 and stack[-2][-1] == Tree("_SP", []):
            stack.pop()
            stack[-1].pop()  # spaCy's token of white space, which has no characters
        elif not stack.pop():
            place = f"the brackets that end in column {match.start() + 1}"
            message = f"expected a word or a constituent in {place}, found none{_BRACKETS_AS_WORDS}"
            raise BadParse(path, line, message, "empty_tree")
    if stack:
        message = f"expected {len(stack)} more ')' at the end of the line (unbalanced brackets){_BRACKETS_AS_WORDS}"
        raise BadParse(path, line, message, "unbalanced")
    return trees


def words_in_brackets(text: str) -> list[str]:
    """Return the words of a line of trees, also where its brackets are broken."""
    return [unescape_brackets(token) for _, token in _TOKEN.findall(text) if token not in ("", ")")]


def still_open(text: str) -> tuple[int, int]:
    """Return how many brackets are open: of all, and of those without a backslash."""
    opened = text.count("(") - text.count(")")
    return opened, opened - text.count("\\(") + text.count("\\)")


def format_brackets(trees: list[Tree] | NoParse) -> str:
    """A line of bracketed trees, as :func:`parse_brackets` reads it, with its end."""
    if isinstance(trees, NoParse):
        return f"(()) {trees.reason}\n"
    return " ".join(map(_format_tree, trees)) + "\n"


def _format_tree(tree: Tree) -> str:
    parts: list[str] = []
    for node, step in tree.walk():
        if isinstance(node, str):
            parts.append(f" {_in_brackets(node)}")
        elif step < 0:
            parts.append(")")
        else:
            parts.append(f"{' ' * bool(parts)}({_in_brackets(node.label)}")
    return "".join(parts)


def _in_brackets(text: str) -> str:
    """A word or label, with no-break spaces for ASCII's blanks, as CoreNLP writes it."""
    return escape_brackets(_BLANKS.sub("\u00a0", text))
