"""Comparison of two strings that may be the same text, written differently.

A parser and a translation model rarely read a sentence in the same form. Between the two, case, white space,
escapes, quotation marks, dashes and compatibility characters may differ; the rest, :func:`fold`, may not.

CoreNLP before 4.0 wrote some characters in the ASCII of the Penn Treebank: a dash as ``--``, ½ as ``1\\/2``, £ as
``#``, € as ``$``, ¢ as ``cents``. Each is folded to this form. One dash and several in a row are therefore
the same, since — and - are; so are these currencies.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import accumulate, compress, groupby, pairwise

_ENTITIES = {
    "&amp;": "&",
    "&apos;": "'",
    "&quot;": '"',
    "&lt;": "<",
    "&gt;": ">",
    "&bar;": "|",
    "&#124;": "|",
    "&#91;": "[",
    "&#93;": "]",
}
_MOSES = re.compile("|".join([*_ENTITIES, r"(?<!\S)@-@(?!\S)"]))

_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_BRACKET = re.compile("|".join(_BRACKETS))

# Characters that are folded to others, beside the compatibility mappings of Unicode.
_SAME = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛‹›ʼ`′", "'"),
        **dict.fromkeys('"“”„‟«»', "''"),  # as often as PTB's `` and ''
        **dict.fromkeys("‐‑‒–—―⸺⸻−", "-"),
        **dict.fromkeys("⁄∕", "/"),  # the former in the decomposition of ½
        "£": "#",
        **dict.fromkeys("€¤₠₹", "$"),
        "¢": "cents",
        "ı": "i",
        **dict.fromkeys("▁\ufffd"),  # white space to sentencepiece
    }
)
_SEQUENCES = {
    **_BRACKETS,
    **{name.lower(): bracket for name, bracket in _BRACKETS.items()},
    "\\/": "/",
    "\\*": "*",
    "@-@": "-",
    **dict.fromkeys(["i\u0307", "I\u0307", "İ"], "i"),
    "´": "'",
}
# Text that had escapes, and was escaped again, has them twice.
_SEQUENCE = re.compile(
    "|".join([r"&(?:amp;)*(apos|quot|lt|gt|bar|#124|#91|#93);", r"&(?:amp;)+", *map(re.escape, _SEQUENCES)])
)


def unescape_moses(text: str) -> tuple[str, list[int]]:
    """Undo the escapes of the Moses tokenizer: ``&apos;``, ``@-@`` between spaces …

    Returns the text and `starts`: character i of it begins at ``starts[i]`` of the original, whose length is
    ``starts[len(text)]``.
    """
    parts: list[str] = []
    starts: list[int] = []
    end = 0
    for match in _MOSES.finditer(text):
        parts += [text[end : match.start()], _ENTITIES.get(match.group(), "-")]
        starts += range(end, match.start() + 1)
        end = match.end()
    starts += range(end, len(text) + 1)
    return "".join([*parts, text[end:]]), starts


def escape_brackets(word: str) -> str:
    """Round brackets as the Penn Treebank writes them, for a word in a bracketed tree."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def unescape_brackets(word: str) -> str:
    """Undo :func:`escape_brackets`, for brackets of all kinds."""
    return _BRACKET.sub(lambda match: _BRACKETS[match.group()], word) if "-" in word else word


def fold(text: str, *, every_dash: bool = False) -> tuple[str, list[int]]:
    """The form in which texts are compared.

    Without white space and invisible characters, without case, decomposed (NFKD), with the escapes of Moses and of the
    Penn Treebank undone, with plain quotation marks, and with one plain dash for several in a row (:func:`one_dash`),
    unless `every_dash` is to stay.

    Returns the folded text and, for each character of `text`, where its folded form starts, or that of the next
    character if it has none; last, the folded text's length.
    """
    bare = "".join(text.split())  # escapes are found across white space, which differs between texts
    folded, offsets = _fold_bare(bare)
    if not every_dash:
        folded, offsets = one_dash(folded, offsets)
    if len(bare) == len(text):
        return folded, offsets
    following = iter(offsets)
    place = next(following)
    offsets_with_space = []
    for character in text:
        offsets_with_space.append(place)
        if not character.isspace():
            place = next(following)
    return folded, [*offsets_with_space, place]


def _fold_bare(text: str) -> tuple[str, list[int]]:
    folded: list[str] = []
    offsets: list[int] = []
    place = 0

    def plain(start: int, end: int) -> None:
        nonlocal place
        for character in text[start:end]:
            offsets.append(place)
            if what := _FOLDED[character]:
                folded.append(what)
                place += len(what)

    end = 0
    for match in _SEQUENCE.finditer(text):
        plain(end, match.start())
        what = _FOLDED[_ENTITIES[f"&{match[1]};"] if match[1] else _SEQUENCES.get(match.group(), "&")]
        offsets += [place] * len(match.group())
        folded.append(what)
        place += len(what)
        end = match.end()
    plain(end, len(text))
    return "".join(folded), [*offsets, place]


def without_accents(text: str) -> str:
    """Return a string decomposed (NFD), without combining marks, as BERT's uncased models read it."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def one_dash(folded: str, offsets: list[int], starts: Iterable[int] = ()) -> tuple[str, list[int]]:
    """Replace several dashes in a row by one, at which all of them start.

    Args:
        offsets: as :func:`fold` returns them.
        starts: offsets in `folded` at which words start: dashes of different words stay apart.
    """
    if "--" not in folded:
        return folded, offsets
    kept = [not (character == "-" == before) for before, character in pairwise(f" {folded}")]
    for start in starts:
        if start < len(kept):
            kept[start] = True
    begins = [end - 1 for end in accumulate(kept)]
    return "".join(compress(folded, kept)), [*map([*begins, sum(kept)].__getitem__, offsets)]


def same_folded(a: str, b: str) -> bool:
    """Compare folded texts, in any order of the marks above and below a letter.

    An apostrophe is an acute accent, which ´ is after sentencepiece's NFKC.
    """
    return a == b or (len(a) == len(b) and marks_in_order(a) == marks_in_order(b))


def marks_in_order(folded: str) -> str:
    """A folded text with the marks of each letter in Unicode's canonical order, and acute accents for apostrophes.

    As NFD would have it, which takes the square of their number.
    """
    runs = groupby(folded.replace("'", "\u0301"), key=lambda character: unicodedata.combining(character) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining) if marks else run) for marks, run in runs)


class _Folded(dict[str, str]):
    """The folded form of each single character."""

    def __missing__(self, character: str) -> str:
        compatible = unicodedata.normalize("NFKD", character).translate(_SAME)
        folded = unicodedata.normalize("NFKD", compatible.casefold()).translate(_SAME)
        self[character] = "".join(c for c in folded if not _is_invisible(c))
        return self[character]


def _is_invisible(character: str) -> bool:
    return (
        character.isspace()
        or unicodedata.category(character) in ("Cc", "Cf")
        or "\ufe00" <= character <= "\ufe0f"  # variation selectors
    )


_FOLDED = _Folded()
