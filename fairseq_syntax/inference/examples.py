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
from fairseq_syntax.inference.hub import SentenceTooLong, one_line_each
from fairseq_syntax.inference.reader import SourceReader


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


class ExampleReader:
    """Reads the sentences of an example.

    Args:
        reader: of sentences.
        encode: splits a sentence into subwords.
        dictionary: fairseq's.
        places: of the sentences, in the order of an example's tokens.
    """

    def __init__(self, reader: SourceReader, encode: Callable[[str], str], dictionary: Any, places: Sequence[Place]):
        self.reader = reader
        self.encode = encode
        self.dictionary = dictionary
        self.places = places

    def read(self, sentences: Sequence[str], *, longest: int, truncate: bool) -> Example:
        """Parse sentences and return their example, of at most `longest` tokens.

        Raises:
            TypeError: a sentence is no string.
            ValueError: it has a line break inside; or there are more or fewer sentences than an example has.
            SentenceTooLong: the example is longer, unless `truncate`.
        """
        lines = one_line_each(sentences)
        if len(lines) != len(self.places):
            raise ValueError(f"expected {len(self.places)} sentences, as the model's examples have, found {len(lines)}")
        self.reader.restart()  # messages count the sentences of this call
        batch = self.reader.read(lines, [self.encode(line) for line in lines], self.dictionary)
        segments, parts = [], []
        for place in self.places:
            before = [] if place.before is None else [place.before]
            tokens = batch.tokens[place.sentence]
            features = {name: rows[place.sentence] for name, rows in batch.features.items()}
            segments.append(Segment(features, len(tokens), before=len(before), most=place.most))
            parts.append(torch.cat([torch.tensor(before, dtype=torch.long), tokens])[: place.most])
        joined = torch.cat(parts)
        if len(joined) > longest and not truncate:
            raise SentenceTooLong(
                f"expected an example of at most {longest} tokens with <s> and </s>, found {len(joined)} "
                "(truncate=True cuts it)"
            )
        joined = joined[:longest]
        return Example(joined, compose(segments, len(joined)), batch.without_parse)


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
