"""Examples of new text: parsed sentences, joined as lines of a data-bin are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.inference.hub import SentenceTooLong
from fairseq_syntax.inference.parsed_batch import ParsedBatch


@dataclass(frozen=True)
class Place:
    """Place of a sentence in an example.

    Attributes:
        sentence: which of the given ones, from 0.
        before: token that is put before it; ``None``: none.
        most: number of tokens to keep of both; ``None``: all.
    """

    sentence: int
    before: int | None
    most: int | None = None


@dataclass(frozen=True)
class Example:
    """An example as a model reads it.

    Attributes:
        tokens: ``(n,)``.
        features: ``(n,)`` each, or ``(0,)`` without the parse; and ``special``.
        without_parse: numbers of sentences without a parse, by the reason.
    """

    tokens: Tensor
    features: Mapping[str, Tensor]
    without_parse: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.tokens)


def join_sentences(sentences: ParsedBatch, places: Sequence[Place], *, longest: int, truncate: bool) -> Example:
    """Return the example of some sentences, of at most `longest` tokens.

    Args:
        places: of the sentences, in the order of an example's tokens.

    Raises:
        ValueError: there are more or fewer sentences than places.
        SentenceTooLong: the example is longer, unless `truncate`.
    """
    if len(sentences) != len(places):
        raise ValueError(f"expected {len(places)} sentences, as the model's examples have, found {len(sentences)}")
    segments, parts = [], []
    for place in places:
        before = [] if place.before is None else [place.before]
        tokens = sentences.tokens[place.sentence]
        features = {name: rows[place.sentence] for name, rows in sentences.features.items()}
        segments.append(Segment(features, len(tokens), before=len(before), most=place.most))
        parts.append(torch.cat([torch.tensor(before, dtype=torch.long), tokens])[: place.most])
    joined = torch.cat(parts)
    if len(joined) > longest and not truncate:
        raise SentenceTooLong(
            f"expected an example of at most {longest} tokens with <s> and </s>, found {len(joined)} "
            "(truncate=True cuts it)"
        )
    joined = joined[:longest]
    return Example(joined, compose(segments, len(joined)), sentences.without_parse)


def encoder(bpe: Any, markers: Collection[str] = ()) -> Callable[[str], str]:
    """Return the function that splits a line, but for markers, into subwords.

    Args:
        bpe: fairseq's; ``None``: lines are split already.
    """
    if bpe is None:
        return str
    encode: Callable[[str], str] = bpe.encode
    if not markers:
        return encode
    pattern = re.compile(f"({'|'.join(map(re.escape, sorted(markers)))})")

    def between_markers(line: str) -> str:
        # Spaces before a piece are part of its subwords (GPT-2's), those behind it are not.
        pieces = [piece.rstrip() for piece in pattern.split(line)]
        return " ".join(piece if piece in markers else encode(piece) for piece in pieces if piece)

    return between_markers
