"""BERT's wordpieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syntax_data.text.alignment import Subwords
from syntax_data.text.folding import without_accents
from syntax_data.text.subwords.kind import MarkedSubwords

UNKNOWN = "[UNK]"


class Wordpiece(MarkedSubwords):
    """Subwords of BERT: ``##`` begins each but the first of its word.

    ``[UNK]`` is one word of unknown text. Accents, which BERT's uncased models have not, are left out.
    """

    marks = "## at the start of all but a word's first"

    def split(self, token: str) -> tuple[bool, str, bool]:
        continued = token.startswith("##") and len(token) > 2
        return continued, without_accents(token[2:] if continued else token), False

    def read(self, tokens: Sequence[str]) -> Subwords:
        found = super().read(tokens)
        # An accent alone that continues a word is a part of its last character.
        continues = (i and found.word_of[i] == found.word_of[i - 1] for i in range(len(tokens)))
        inside = frozenset(
            i for i, (piece, c) in enumerate(zip(found.pieces, continues, strict=True)) if c and not piece
        )
        unknown = frozenset(i for i, token in enumerate(tokens) if token == UNKNOWN)
        return replace(found, inside=inside, unknown=unknown, accents=False)
