"""Which word each subword belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairseq_syntax.trees import unescape_brackets


class AlignmentError(ValueError):
    """The subwords and the parser's tokens are not the same text."""


def subword_nmt_words(subwords: Sequence[str]) -> tuple[list[str], list[int]]:
    """Joins the subwords of subword-nmt, where ``@@`` ends every subword but the last of its word.

    Returns the m words and, for each of the n subwords, the index of its word (0 to m - 1). Raises
    :class:`AlignmentError` where the line ends inside a word.
    """
    words: list[str] = []
    word_of: list[int] = []
    open_word = ""
    for subword in subwords:
        word_of.append(len(words))
        if subword.endswith("@@"):
            open_word += subword[:-2]
        else:
            words.append(open_word + subword)
            open_word = ""
    if open_word or (len(word_of) > 0 and word_of[-1] == len(words)):
        raise AlignmentError(f"expected the line's last subword to end a word, found {subwords[-1]!r}")
    return words, word_of


SUBWORDS: dict[str, Callable[[Sequence[str]], tuple[list[str], list[int]]]] = {
    "subword_nmt": subword_nmt_words,
}


def check_same_words(words: Sequence[str], tokens: Sequence[str]) -> None:
    """Raises :class:`AlignmentError` unless a parse's tokens are the text's words.

    Both are shown from the first difference on. Brackets may be written as the Penn Treebank does.
    """
    if len(words) == len(tokens) and all(
        a == b or unescape_brackets(a) == unescape_brackets(b) for a, b in zip(words, tokens, strict=True)
    ):
        return
    first = next(
        (
            i
            for i, (a, b) in enumerate(zip(words, tokens, strict=False))
            if unescape_brackets(a) != unescape_brackets(b)
        ),
        min(len(words), len(tokens)),
    )

    def rest(items: Sequence[str]) -> str:
        shown = " ".join(map(repr, items[first : first + 8]))
        return (shown or "nothing") + " …" * (len(items) > first + 8)

    raise AlignmentError(
        f"expected the {len(words)} words of the text, found {len(tokens)} tokens in the parse; they "
        f"differ from word {first + 1} on: the text has {rest(words)}, the parse {rest(tokens)}"
    )
