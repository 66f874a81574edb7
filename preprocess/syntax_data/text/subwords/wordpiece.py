"""BERT's wordpieces."""

from __future__ import annotations

from collections.abc import Sequence

from syntax_data.text.alignment import Subwords
from syntax_data.text.folding import without_accents
from syntax_data.text.subwords.kind import SubwordKind

UNKNOWN = "[UNK]"


class Wordpiece(SubwordKind):
    """Subwords of BERT: ``##`` begins each but the first of its word.

    ``[UNK]`` is one word of unknown text. Accents, which BERT's uncased models have not, are left out.
    """

    marks = "## at the start of all but a word's first"

    def read(self, tokens: Sequence[str]) -> Subwords:
        pieces: list[str] = []
        words: list[list[str]] = []
        word_of: list[int] = []
        for token in tokens:
            continued = token.startswith("##") and len(token) > 2 and words
            pieces.append(without_accents(token[2:] if continued else token))
            if not continued:
                words.append([])
            words[-1].append(pieces[-1])
            word_of.append(len(words) - 1)
        # An accent alone that continues a word is a part of its last character.
        inside = frozenset(i for i, piece in enumerate(pieces) if not piece and i and word_of[i] == word_of[i - 1])
        unknown = frozenset(i for i, token in enumerate(tokens) if token == UNKNOWN)
        return Subwords(pieces, ["".join(word) for word in words], word_of, inside, unknown, accents=False)
