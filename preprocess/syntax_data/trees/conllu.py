"""CoNLL-U, read and written; CoNLL-09 and CoNLL-U Plus, read.

An entry is lines up to an empty one, and has several sentences if ``# sentences = N`` is in it. Without a parse it is
comments with ``# no_parse = REASON`` among them; if the text has no words, other comments.

The form of a token of white space (spaCy has one for the second of two spaces) is blank or empty. Such a token stays in
the tree, and no subword belongs to it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from syntax_data.errors import BadParse, InputError, short_repr
from syntax_data.trees.columns import CONLLU_COLUMNS, Columns
from syntax_data.trees.tree import DependencyTree, NoParse, depths, sentence_sizes

_STATEMENT = re.compile(r"#\s*(no_parse|sentences|global\.columns)\s*=(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_EMPTY_NODE = re.compile(r"[0-9]+\.[0-9]+")
_LEMMA, _HEAD, _DEPREL, _MISC = 2, 6, 7, 9  # columns


def conllu_entries(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield each entry: the number of its first line, and its lines."""
    entry: list[str] = []
    number = 0
    for number, line in lines:
        if line.strip(" \t\x0b\x0c"):
            entry.append(line)
        elif entry:
            yield number - len(entry), entry
            entry = []
    if entry:
        yield number - len(entry) + 1, entry


def is_comment(entry: list[str]) -> bool:
    """True for an entry with neither words nor a statement that there is no parse."""
    for line in entry:
        stated = _STATEMENT.match(line)
        if not line.startswith("#") or (stated and stated[1] == "no_parse"):
            return False
    return True


def generator_comment(lines: Iterable[tuple[int, str]]) -> str | None:
    """The value of ``# generator =`` in a CoNLL-U file's first entry."""
    _, entry = next(conllu_entries(lines), (0, []))
    for line in entry:
        key, _, value = line.lstrip("# ").partition("=")
        if line.startswith("#") and key.strip() == "generator":
            return value.strip()
    return None


def parse_conllu(
    entry: list[str], *, path: str, line: int, columns: Columns = CONLLU_COLUMNS
) -> DependencyTree | NoParse:
    """Read one entry, whose first line is line `line` of `path`, of CoNLL-U or of rows with other `columns`.

    Multi-word tokens (``3-4 im``) count as the one surface token that the text has; its head is that of the word in it
    that is nearest to the root, which keeps the result a tree. Of text that has these words instead, the tree is in
    ``words``. Empty nodes (``5.1``) are not part of the tree. Words are numbered through the whole entry, also of
    several sentences.

    Returns :class:`NoParse` for ``# no_parse``. Raises :class:`BadParse` for a line without the columns (an empty one
    may follow), word numbers out of order, numbers in other than ASCII's digits, a head out of range, a cycle, or other
    than one root a sentence.
    """
    forms: list[str] = []
    heads: list[int] = []
    lines: list[int] = []
    spans: list[tuple[int, int, str]] = []  # multi-word tokens: first word, last word, form
    rows: list[list[str]] = []
    no_parse = None
    sentences = 1
    number = line

    def bad(message: str, reason: str) -> BadParse:
        return BadParse(path, number, message, reason)

    for number, text in enumerate(entry, start=line):
        if text.startswith("#"):
            if stated := _STATEMENT.match(text):
                key, value = stated[1], stated[2].strip()
                if key == "no_parse":
                    try:
                        no_parse = NoParse(value or "not_stated")
                    except ValueError as error:
                        raise bad(str(error), "comment") from None
                elif key == "global.columns":
                    if tuple(value.split()) != columns.names:
                        message = f"expected {columns.format}, found CoNLL-U Plus with the columns {short_repr(value)}"
                        advice = f"{' '.join(columns.names)} are expected; --parser conllup reads CoNLL-U Plus"
                        raise InputError(path, number, f"{message}: {advice}")  # the whole file's, no bad parse
                elif _NUMBER.fullmatch(value) and int(value):
                    sentences = int(value)
                else:
                    raise bad(f"expected a number of sentences, found {short_repr(value)}", "comment")
            continue
        try:
            row = columns.read(text)
        except ValueError as error:
            raise bad(str(error), "columns") from None
        identifier, form, head = row[0], row[1], row[_HEAD]
        if _EMPTY_NODE.fullmatch(identifier):
            continue
        if "-" in identifier:
            first, _, last = identifier.partition("-")
            numbers = _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last)
            if not (numbers and len(forms) < int(first) < int(last)):
                message = f"expected a rising range of words after word {len(forms)}, found {short_repr(identifier)}"
                raise bad(message, "word_numbers")
            if not form.strip():
                raise bad("expected the form of a token of several words, found none", "no_form")
            spans.append((int(first), int(last), form))
            continue
        if identifier != str(len(forms) + 1):
            raise bad(f"expected word number {len(forms) + 1}, found {short_repr(identifier)}", "word_numbers")
        if not _NUMBER.fullmatch(head):
            found = f"{short_repr(head)} in the column {columns.source('HEAD')}"
            raise bad(f"expected the number of a head, found {found}", "no_head")
        forms.append(form)
        heads.append(int(head))
        lines.append(number)
        rows.append(row)
    if no_parse:
        return no_parse
    _check_roots(heads, sentences, path=path, lines=lines)
    depth_of = depths(heads, path=path, lines=lines)
    if sentences > 1 and len(sentence_sizes(heads)) != sentences:
        message = f"expected heads that stay within the {sentences} sentences, found some that do not"
        raise BadParse(path, line, message, "sentences")
    depth = max(depth_of, default=0)
    if not spans:
        return DependencyTree(forms, heads, rows, sentences, depth=depth)
    tokens, groups = _group(forms, spans, path=path, line=line)
    # A token's head is the token of its shallowest word's head. That head is shallower than any word of
    # the token, so it is outside the token and depths fall strictly on the way up: no cycle can arise.
    head_words = [min(group, key=lambda word: depth_of[word]) for group in groups]
    columns_of_tokens = [rows[word] for word in head_words]
    for token, group in enumerate(groups):
        if len(group) > 1:
            row = columns_of_tokens[token]
            columns_of_tokens[token] = [*row[:_LEMMA], "_", *row[_LEMMA + 1 :]]
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
        words=DependencyTree(forms, heads, rows, sentences, depth=depth),
    )


def words_in_conllu(entry: list[str], columns: Columns = CONLLU_COLUMNS) -> list[str]:
    """Return the surface tokens of an entry, perhaps broken, as far as it can be read."""
    tokens = []
    end = 0  # the last word of the multi-word tokens so far
    for text in entry:
        identifier, form = columns.words(text)
        if _NUMBER.fullmatch(last := identifier.rpartition("-")[2]) and int(last) > end and form:
            tokens.append(form)
            if last != identifier:
                end = int(last)
    return tokens


#: An entry of CoNLL-U Plus: the columns of its file, or what is wrong with the file's first line; and its lines.
PlusEntry = tuple[Columns | ValueError, list[str]]


def conllup_entries(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, PlusEntry]]:
    """Yield each entry of a CoNLL-U Plus file, as :func:`conllu_entries` does."""
    lines = iter(lines)
    number, first = next(lines, (1, ""))
    columns: Columns | ValueError
    try:
        columns = Columns.of_conllu_plus(first)
    except ValueError as error:
        columns = error
    for line, entry in conllu_entries(itertools.chain([(number, first)], lines)):
        yield line, (columns, entry)


def parse_conllup(entry: PlusEntry, *, path: str, line: int) -> DependencyTree | NoParse:
    """Read one entry of CoNLL-U Plus, as :func:`parse_conllu` does.

    Raises :class:`InputError` unless the file's first line names its columns.
    """
    columns, lines = entry
    if isinstance(columns, ValueError):
        raise InputError(path, 1, str(columns))
    return parse_conllu(lines, path=path, line=line, columns=columns)


def words_in_conllup(entry: PlusEntry) -> list[str]:
    """As :func:`words_in_conllu`."""
    columns, lines = entry
    return [] if isinstance(columns, ValueError) else words_in_conllu(lines, columns)


def format_conllu(tree: DependencyTree | NoParse) -> str:
    """A CoNLL-U entry, as :func:`parse_conllu` reads it, with its empty line."""
    if isinstance(tree, NoParse):
        return f"# no_parse = {tree.reason}\n\n"
    lines = [f"# sentences = {tree.sentences}"] if tree.sentences != 1 else []
    rows = tree.columns or [["_"] * 10] * len(tree.tokens)
    for i, (token, head, row) in enumerate(zip(tree.tokens, tree.heads, rows, strict=True), start=1):
        form = " ".join(token.split()) or " "
        lines.append("\t".join([str(i), form, *row[_LEMMA:_HEAD], str(head), row[_DEPREL], "_", row[_MISC]]))
    return "\n".join([*(lines or ["#"]), "", ""])


def _check_roots(heads: list[int], sentences: int, *, path: str, lines: list[int]) -> None:
    roots = [line for head, line in zip(heads, lines, strict=True) if head == 0]
    due = "one root" if sentences == 1 else f"{sentences} roots, one a sentence"
    if len(roots) > sentences:
        message = f"expected {due}, found another one; a line of several sentences has a comment '# sentences = N'"
        raise BadParse(path, roots[sentences], message, "several_roots")
    if sentences > 1 and len(roots) < sentences and heads:
        raise BadParse(path, lines[-1], f"expected {due}, found {len(roots)}", "sentences")


def _group(
    forms: list[str], spans: list[tuple[int, int, str]], *, path: str, line: int
) -> tuple[list[str], list[range]]:
    """The surface tokens, and the words (from 0) of each."""
    tokens: list[str] = []
    groups: list[range] = []
    word = 0
    for first, last, form in spans:
        if first <= word:
            message = f"expected multi-word tokens that do not overlap, found {short_repr(form)}"
            raise BadParse(path, line, message, "word_numbers")
        if last > len(forms):
            message = f"expected words {first} to {last} of {short_repr(form)}, found only {len(forms)} words"
            raise BadParse(path, line, message, "word_numbers")
        tokens += [*forms[word : first - 1], form]
        groups += [*(range(i, i + 1) for i in range(word, first - 1)), range(first - 1, last)]
        word = last
    groups += [range(i, i + 1) for i in range(word, len(forms))]
    return [*tokens, *forms[word:]], groups
