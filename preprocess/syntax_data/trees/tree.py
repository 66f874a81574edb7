"""Constituency and dependency trees.

Their file formats have one *entry* for every line of the text: :data:`syntax_data.trees.formats.FORMATS`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from syntax_data.errors import BadParse, short_repr

_UPOS, _DEPREL, _MISC = 3, 7, 9  # columns of CoNLL-U

#: The name of a label of words in MISC.
WORD_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")

#: The first word and the end of a constituent.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NoParse:
    """The reason why there is no parse, on one line, without round brackets."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip() or set(self.reason) & set("()\n\r"):
            raise ValueError(f"expected a reason on one line, without round brackets, found {short_repr(self.reason)}")


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

    def walk(self) -> Iterator[tuple[Tree | str, int]]:
        """Yield all constituents, with 1 at their start and -1 at their end; words with 0."""
        stack: list[tuple[Tree | str, int]] = [(self, 1)]
        while stack:
            node, step = stack.pop()
            yield node, step
            if step > 0 and isinstance(node, Tree):
                stack.append((node, -1))
                stack += [(child, int(isinstance(child, Tree))) for child in reversed(node.children)]

    def with_leaves(self, leaves: Callable[[str], Iterable[Tree | str]]) -> Tree:
        """This tree with what a function makes of each word, from left to right; what is empty then is removed."""
        stack = [Tree("", [])]
        for node, step in self.walk():
            if isinstance(node, str):
                stack[-1].children.extend(leaves(node))
            elif step > 0:
                stack.append(Tree(node.label, []))
            else:
                done = stack.pop()
                if done.children or len(stack) == 1:
                    stack[-1].children.append(done)
        (root,) = stack[0].children
        assert isinstance(root, Tree)
        return root

    def brackets(self) -> dict[Span, str]:
        """The labels of this constituent and of all that have several words.

        Keys are the first word and the end, the outer before the inner; a unary chain has its lowest label.
        """
        found: dict[Span, str] = {}
        words = 0
        starts: list[int] = []
        for node, step in self.walk():
            if isinstance(node, str):
                words += 1
            elif step > 0:
                starts.append(words)
            elif words - (first := starts.pop()) > 1 or not starts:
                found.setdefault((first, words), node.label)
        return {span: found[span] for span in sorted(found, key=_outer_first)}

    @classmethod
    def from_brackets(cls, words: Sequence[str], labels: Mapping[Span, str]) -> Tree:
        """The tree over `words` whose :meth:`brackets` are `labels`."""
        spans = sorted(labels, key=_outer_first, reverse=True)
        stack = [(cls("", []), len(words) + 1)]
        for number, word in enumerate(words):
            while stack[-1][1] == number:
                stack.pop()
            while spans and spans[-1][0] == number:
                node = cls(labels[spans[-1]], [])
                stack[-1][0].children.append(node)
                stack.append((node, spans.pop()[1]))
            stack[-1][0].children.append(word)
        (root,) = stack[0][0].children
        assert isinstance(root, Tree)
        return root


def _outer_first(span: Span) -> Span:
    return span[0], -span[1]


@dataclass(slots=True)
class DependencyTree:
    """The dependency trees of a line.

    Attributes:
        tokens: its m surface tokens.
        heads: of each token: 0 above the root of each sentence, i for the i-th token (from 1).
        columns: of each token, the ten columns of CoNLL-U, of which LEMMA, UPOS, XPOS, FEATS, DEPREL and MISC count;
            of a multi-word token those of its head word.
        sentences, multiword: the numbers of sentences, and of tokens that have several words.
        depth: the greatest number of words on the way from a root down; 0: not known.
        head_words: of each token, the word (from 0) whose head it has; ``None``: every word is a token.
        words: the trees over words instead of tokens; ``None``: every word is a token, or its form is not known.
    """

    tokens: list[str]
    heads: list[int]
    columns: list[list[str]] = field(default_factory=list)
    sentences: int = 1
    multiword: int = 0
    depth: int = 0
    head_words: list[int] | None = None
    words: DependencyTree | None = None

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

    def misc(self, name: str) -> list[str]:
        """Each token's value of ``name=value`` in MISC, with ``_`` for white space; ``_`` where there is none."""
        found = []
        for attributes in self.labels(_MISC):
            values = (value for key, _, value in (one.partition("=") for one in attributes.split("|")) if key == name)
            found.append("_".join(next(values, "").split()) or "_")
        return found

    @classmethod
    def join(cls, trees: Sequence[DependencyTree]) -> DependencyTree:
        """The trees of consecutive sentences as one."""
        whole = cls([], [], sentences=sum(tree.sentences for tree in trees))
        for tree in trees:
            first = len(whole.tokens)
            whole.tokens += tree.tokens
            whole.heads += [head and head + first for head in tree.heads]
            whole.columns += tree.columns
        return whole

    def with_heads(
        self, heads: list[int], *, deprel: Sequence[str] | None = None, sentences: int | None = None
    ) -> DependencyTree:
        """The same tokens under other heads; what is ``None`` stays."""
        columns = self.columns
        if deprel is not None:
            rows = columns or [["_"] * 10 for _ in self.tokens]
            columns = [[*row[:_DEPREL], label, *row[_DEPREL + 1 :]] for row, label in zip(rows, deprel, strict=True)]
        depth = max(depths(heads, path="", lines=[0] * len(heads)), default=0)
        return DependencyTree(self.tokens, heads, columns, sentences or self.sentences, depth=depth)


def roots(heads: Sequence[int]) -> list[int]:
    """The root (from 0) above each word."""
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
    return roots


def sentence_sizes(heads: Sequence[int]) -> list[int]:
    """The number of words of each sentence; one starts where the words' root changes."""
    above = roots(heads)
    starts = [i for i, root in enumerate(above) if not i or root != above[i - 1]]
    return [end - start for start, end in itertools.pairwise([*starts, len(above)])]


def depths(heads: list[int], *, path: str, lines: list[int]) -> list[int]:
    """The distance of each word from its root, which is 1 for a root itself.

    Raises :class:`BadParse` for a head out of range, or a cycle, on the word's line of `path`.
    """
    for head, line in zip(heads, lines, strict=True):
        if head > len(heads):
            message = f"expected a head between 0 and {len(heads)}, found {head} (out of range)"
            raise BadParse(path, line, message, "head_out_of_range")
    found = [0] * len(heads)
    for start in range(len(heads)):
        path_up = []
        word = start
        while word >= 0 and not found[word]:
            found[word] = -1  # on the way up
            path_up.append(word)
            word = heads[word] - 1
        if word >= 0 and found[word] == -1:
            raise BadParse(path, lines[word], f"expected a tree, found a cycle through word {word + 1}", "cycle")
        depth = found[word] if word >= 0 else 0
        for below in reversed(path_up):
            depth += 1
            found[below] = depth
    return found


def _traces(tree: Tree) -> set[int]:
    """The leaves (from 0) below ``-NONE-``, traces of the Penn Treebank."""
    found = set()
    leaves = inside = 0
    for node, step in tree.walk():
        if isinstance(node, Tree):
            inside += step * (node.label == "-NONE-")
        else:
            found |= {leaves} if inside else set()
            leaves += 1
    return found


def without_traces(trees: Sequence[Tree]) -> tuple[list[Tree], int]:
    """Trees without traces and what is empty without them, and the number of traces."""
    kept: list[Tree] = []
    dropped = 0
    for tree in trees:
        traces = _traces(tree)
        dropped += len(traces)
        leaves = tree.leaves()
        rest = merge_leaves(tree, leaves, {i: i for i in range(len(leaves)) if i not in traces}) if traces else tree
        kept += [rest] * bool(rest.children)
    return kept, dropped


def trace_hint(trees: Sequence[Tree]) -> str:
    """Advice for a message about trees of another text, if they have traces."""
    if not any(map(_traces, trees)):
        return ""
    return "; traces (-NONE-) are no words: fairseq-syntax-parse --parser trees --drop-traces leaves them out"


def multiword_hint(tree: DependencyTree) -> str:
    """The rest of a message about a tree of another text, if it has multi-word tokens."""
    if tree.words is None:
        return ""
    return f"; the parse over words, {short_repr(' '.join(tree.words.tokens))}, is another text, too"


def merge_leaves(tree: Tree, tokens: Sequence[str], leaf_of: Mapping[int, int]) -> Tree:
    """The tree over surface tokens instead of words; what is empty then is removed.

    `leaf_of` has the token of each word (from 0) that stays.
    """
    numbers = itertools.count()
    return tree.with_leaves(lambda _: [tokens[leaf_of[i]]] if (i := next(numbers)) in leaf_of else [])
