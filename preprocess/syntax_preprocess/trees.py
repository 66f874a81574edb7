"""Constituency and dependency trees, and the two file formats they come in.

Both formats hold one *unit* for every line of the text they belong to:

=========  ==============================  =================================  =====================
format     one unit                        the parser gave up on this line    the line has no words
=========  ==============================  =================================  =====================
brackets   a line with one tree; several   ``(())``, and perhaps a reason     an empty line
           trees on it are a forest        after it
CoNLL-U    a block of lines, closed by an  a block of comments with           a block of comments
           empty line; several sentences   ``# no_parse = REASON`` in it
           with ``# sentences = N`` in it
=========  ==============================  =================================  =====================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from syntax_preprocess.errors import InputError, shown
from syntax_preprocess.folding import escape_brackets, unescape_brackets

# No two of an expression's repetitions may match the same characters: it would take the square of a line's length.
_NO_TREE = re.compile(r"\s*\(\s*\(\s*\)\s*\)([^()]*)")
_STATEMENT = re.compile(r"#\s*(no_parse|sentences)\s*=(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_EMPTY_NODE = re.compile(r"[0-9]+\.[0-9]+")
_BRACKET_TOKEN = re.compile(r"\(\s*([^\s()]*)|(\)|[^\s()]+)")
_LEMMA, _UPOS, _HEAD, _DEPREL = 2, 3, 6, 7  # columns of CoNLL-U
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class NoParse:
    """In the place of a parse: there is none, and why, in a line without round brackets."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip() or set(self.reason) & set("()\n\r"):
            raise ValueError(f"expected a reason on one line, without round brackets, found {shown(self.reason)}")


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
    """The dependency trees of a line.

    Attributes:
        tokens: its m surface tokens.
        heads: of each token: 0 above the root of each sentence, i for the i-th token (from 1).
        columns: of each token, the ten columns of CoNLL-U; in a multi-word token those of its head word. Only
            LEMMA, UPOS, XPOS, FEATS and DEPREL are meant.
        sentences: how many sentences the line has.
        multiword: how many tokens were made of several words.
        depth: the greatest number of words on the way from a root down; 0 if not known.
        head_words: of each token, the word (from 0) that it has its head from; ``None``: every word is a token.
    """

    tokens: list[str]
    heads: list[int]
    columns: list[list[str]] = field(default_factory=list)
    sentences: int = 1
    multiword: int = 0
    depth: int = 0
    head_words: list[int] | None = None

    def labels(self, column: int) -> list[str]:
        """One column of all tokens; ``_`` where there are none."""
        return [columns[column] for columns in self.columns] or ["_"] * len(self.tokens)

    @property
    def upos(self) -> list[str]:
        """Each token's universal part of speech."""
        return self.labels(_UPOS)

    @property
    def deprel(self) -> list[str]:
        """Each token's relation to its head."""
        return self.labels(_DEPREL)


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yields each line of a UTF-8 file with its number, without the line end.

    Lines end at ``\\n`` or ``\\r\\n``. A carriage return anywhere else is refused: fairseq would end a
    line there, and every later line would belong to another sentence. So are a byte order mark, which
    fairseq would take for a part of the first word, and whatever is not UTF-8.
    """
    with open(path, "rb") as file:
        yield from decode_lines(file, path=path, first=1)


def decode_lines(lines: Iterable[bytes], *, path: str, first: int) -> Iterator[tuple[int, str]]:
    """As :func:`read_lines`, for lines that have been read already; `first` is the number of the first."""
    for number, raw in enumerate(lines, start=first):
        if number == 1 and raw.startswith(_BOM):
            raise InputError(path, 1, "expected UTF-8 without a byte order mark, found one")
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


def parse_brackets(text: str, *, path: str, line: int) -> list[Tree] | NoParse:
    """Reads the bracketed trees on one line.

    Returns one tree a sentence: usually one, none for an empty line; :class:`NoParse` where the line says
    that there is no parse. Raises :class:`InputError` for brackets that do not balance.
    """
    if nothing := _NO_TREE.fullmatch(text):
        return NoParse(nothing[1].strip() or "not_stated")
    trees: list[Tree] = []
    stack: list[list[Tree | str]] = []  # the children of the constituents that are open
    for match in _BRACKET_TOKEN.finditer(text):
        label, token = match.groups()
        if label is not None:
            node = Tree(label, [])
            if stack:
                stack[-1].append(node)
            else:
                trees.append(node)
            stack.append(node.children)
        elif not stack:
            raise InputError(path, line, f"expected '(' in column {match.start() + 1}, found {shown(token)}")
        elif token != ")":
            stack[-1].append(unescape_brackets(token))
        elif not stack.pop():
            raise InputError(
                path,
                line,
                f"expected a word or a constituent in the brackets that end in column {match.start() + 1}, found none",
            )
    if stack:
        raise InputError(path, line, f"expected {len(stack)} more ')' at the end of the line (unbalanced brackets)")
    return trees


def format_trees(trees: list[Tree] | NoParse) -> str:
    """A line of bracketed trees, as :func:`parse_brackets` reads it, with its end."""
    if isinstance(trees, NoParse):
        return f"(()) {trees.reason}\n"
    return " ".join(map(_format_tree, trees)) + "\n"


def _format_tree(tree: Tree) -> str:
    parts: list[str] = []
    stack: list[Tree | str | None] = [tree]
    while stack:
        node = stack.pop()
        if node is None:
            parts.append(")")
        elif isinstance(node, str):
            parts.append(f" {_in_brackets(node)}")
        else:
            parts.append(f"{' ' * bool(parts)}({_in_brackets(node.label)}")
            stack.append(None)
            stack.extend(reversed(node.children))
    return "".join(parts)


def _in_brackets(text: str) -> str:
    return escape_brackets("".join(text.split()))


def conllu_blocks(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yields each block of the lines of a CoNLL-U file: the number of its first line, and its lines."""
    block: list[str] = []
    number = 0
    for number, line in lines:
        if line.strip(" \t\x0b\x0c"):
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []
    if block:
        yield number - len(block) + 1, block


def read_conllu(path: str) -> Iterator[tuple[int, DependencyTree | NoParse]]:
    """Yields each block of a CoNLL-U file, read by :func:`parse_conllu`, with the number of its first line."""
    for line, block in conllu_blocks(read_lines(path)):
        yield line, parse_conllu(block, path=path, line=line)


def parse_conllu(block: list[str], *, path: str, line: int) -> DependencyTree | NoParse:
    """Reads one CoNLL-U block, whose first line is line `line` of `path`.

    Multi-word tokens (``3-4 im``) count as the one surface token that the text has; its head is that of
    the word in it that is nearest to the root, which keeps the result a tree. Empty nodes (``5.1``)
    belong to the enhanced graph and are not part of the tree.

    Words are numbered through the whole block, also where a comment says that it holds several sentences.

    Returns :class:`NoParse` where a comment says that there is no parse. Raises :class:`InputError` for a line
    without ten columns, word numbers out of order, numbers in other than ASCII's digits, a head out of range, a cycle,
    or other than one root a sentence.
    """
    forms: list[str] = []
    heads: list[int] = []
    lines: list[int] = []
    spans: list[tuple[int, int, str]] = []  # multi-word tokens: first word, last word, form
    rows: list[list[str]] = []
    no_parse = None
    sentences = 1
    for number, text in enumerate(block, start=line):
        if text.startswith("#"):
            if stated := _STATEMENT.match(text):
                key, value = stated[1], stated[2].strip()
                if key == "no_parse":
                    try:
                        no_parse = NoParse(value or "not_stated")
                    except ValueError as error:
                        raise InputError(path, number, str(error)) from None
                elif _NUMBER.fullmatch(value) and int(value):
                    sentences = int(value)
                else:
                    raise InputError(path, number, f"expected a number of sentences, found {shown(value)}")
            continue
        columns = text.split("\t", 10)
        if len(columns) != 10:
            raise InputError(path, number, f"expected 10 tab-separated columns, found {text.count(chr(9)) + 1}")
        identifier, form, head = columns[0], columns[1], columns[_HEAD]
        if _EMPTY_NODE.fullmatch(identifier):
            continue
        if not form:
            raise InputError(path, number, "expected the form of a word, found none")
        if "-" in identifier:
            first, _, last = identifier.partition("-")
            numbers = _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last)
            if not (numbers and len(forms) < int(first) < int(last)):
                raise InputError(
                    path,
                    number,
                    f"expected a rising range of words after word {len(forms)}, found {shown(identifier)}",
                )
            spans.append((int(first), int(last), form))
            continue
        if identifier != str(len(forms) + 1):
            raise InputError(path, number, f"expected word number {len(forms) + 1}, found {shown(identifier)}")
        if not _NUMBER.fullmatch(head):
            raise InputError(path, number, f"expected the number of a head, found {shown(head)}")
        forms.append(form)
        heads.append(int(head))
        lines.append(number)
        rows.append(columns)
    if no_parse:
        return no_parse
    _check_roots(heads, sentences, path=path, lines=lines)
    depths = _depths(heads, path=path, lines=lines)
    if sentences > 1 and len(sentence_sizes(heads)) != sentences:
        raise InputError(
            path, line, f"expected heads that stay within the {sentences} sentences, found some that do not"
        )
    depth = max(depths, default=0)
    if not spans:
        return DependencyTree(forms, heads, rows, sentences, depth=depth)
    tokens, groups = _group(forms, spans, path=path, line=line)
    # A token's head is the token of its shallowest word's head. That head is shallower than any word of
    # the token, so it lies outside the token and depths fall strictly on the way up: no cycle can arise.
    head_words = [min(group, key=lambda word: depths[word]) for group in groups]
    columns_of_tokens = [
        rows[word] if len(group) == 1 else _without_lemma(rows[word])
        for word, group in zip(head_words, groups, strict=True)
    ]
    token_of = [0] * (len(forms) + 1)
    for number, group in enumerate(groups, start=1):
        for word in group:
            token_of[word + 1] = number
    return DependencyTree(
        tokens,
        [token_of[heads[word]] for word in head_words],
        columns_of_tokens,
        sentences,
        multiword=len(spans),
        depth=depth,
        head_words=head_words,
    )


def _without_lemma(columns: list[str]) -> list[str]:
    return [*columns[:_LEMMA], "_", *columns[_LEMMA + 1 :]]


def format_conllu(tree: DependencyTree | NoParse) -> str:
    """A CoNLL-U block, as :func:`parse_conllu` reads it, with the empty line that closes it."""
    if isinstance(tree, NoParse):
        return f"# no_parse = {tree.reason}\n\n"
    lines = [f"# sentences = {tree.sentences}"] if tree.sentences != 1 else []
    rows = tree.columns or [["_"] * 10] * len(tree.tokens)
    for i, (token, head, row) in enumerate(zip(tree.tokens, tree.heads, rows, strict=True), start=1):
        form = " ".join(token.split())
        lines.append("\t".join([str(i), form, *row[_LEMMA:_HEAD], str(head), row[_DEPREL], "_", "_"]))
    return "\n".join([*(lines or ["#"]), "", ""])


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


def sentence_sizes(heads: Sequence[int]) -> list[int]:
    """How many words each sentence of a line has: a new one starts where the root above the words changes."""
    if not heads:
        return []
    roots: list[int] = [-1] * len(heads)
    for number in range(len(heads)):
        path_up = []
        word = number
        while roots[word] < 0 and heads[word]:
            path_up.append(word)
            word = heads[word] - 1
        root = word if roots[word] < 0 else roots[word]
        for below in (*path_up, word):
            roots[below] = root
    starts = [i for i, root in enumerate(roots) if not i or root != roots[i - 1]]
    return [end - start for start, end in zip(starts, [*starts[1:], len(roots)], strict=True)]


def depth(heads: list[int]) -> int:
    """The greatest number of words on the way from a root down."""
    return max(_depths(heads, path="", lines=[0] * len(heads)), default=0)


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


def _group(
    forms: list[str], spans: list[tuple[int, int, str]], *, path: str, line: int
) -> tuple[list[str], list[range]]:
    """The surface tokens, and the words (from 0) that each is made of."""
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
                    f"expected words {word} to {last} of {shown(span[2])}, found only {len(forms)} words",
                )
            tokens.append(span[2])
            groups.append(range(word - 1, last))
            span = next(rest, None)
            word = last + 1
        else:
            tokens.append(forms[word - 1])
            groups.append(range(word - 1, word))
            word += 1
    if span:
        raise InputError(path, line, f"expected multi-word tokens that do not overlap, found {shown(span[2])}")
    return tokens, groups


def merge_leaves(tree: Tree, tokens: Sequence[str], leaf_of: Mapping[int, int]) -> Tree:
    """The tree over surface tokens instead of words.

    Args:
        tree: over words.
        tokens: the surface tokens.
        leaf_of: for each word (from 0) that stays, the token that stands there. The other words go, and so do
            the constituents in which nothing is left.
    """
    words = 0
    root = Tree(tree.label, [])
    stack = [(root, iter(tree.children))]
    while stack:
        node, children = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            if stack and node.children:
                stack[-1][0].children.append(node)
        elif isinstance(child, str):
            if words in leaf_of:
                node.children.append(tokens[leaf_of[words]])
            words += 1
        else:
            stack.append((Tree(child.label, []), iter(child.children)))
    return root
