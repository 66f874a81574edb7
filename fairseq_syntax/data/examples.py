"""Features of examples that join lines, in fairseq's nested datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset, TokenBlockDataset
from torch import Tensor

from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.data.features import SplitFeatures
from fairseq_syntax.modules.syntax_batch import SPECIAL, SyntaxBatch


@dataclass(frozen=True)
class Lines:
    """Lines of an input, which are segments of examples.

    Attributes:
        features: of each line.
        lengths: number of tokens of each line, ``</s>`` included, ``(lines,)``.
        before: number of tokens that the task puts before a line.
        most: number of tokens to keep of all these; ``None``: all.
    """

    features: SplitFeatures
    lengths: np.ndarray
    before: int = 0
    most: int | None = None

    def segment(self, line: int, **changed: Any) -> Segment:
        """Return a line as a segment, with changed attributes."""
        features = {name: rows[line] for name, rows in self.features.items()}
        given = {"before": self.before, "most": self.most, **changed}
        return Segment(features, int(self.lengths[line]), **given)


class ExampleFeatures(FairseqDataset):
    """Features of examples, each of one line of each text.

    A batch is a :class:`SyntaxBatch`, padded on the right.

    Args:
        texts: in the order of an example's tokens.
        sizes: number of tokens of each example, which may be fewer than its lines have, ``(examples,)``.

    Raises:
        ValueError: (from items) a feature has another length than its line, or its heads form a cycle.
    """

    def __init__(self, texts: Sequence[Lines], sizes: np.ndarray):
        super().__init__()
        self.texts = texts
        self.sizes = sizes

    def segments(self, index: int) -> list[Segment]:
        """Return the segments of an example."""
        return [lines.segment(index) for lines in self.texts]

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        size = int(self.sizes[index])
        try:
            found = compose(self.segments(index), size)
        except ValueError as error:
            raise ValueError(f"example {index} (counted from 0): {error}") from None
        if len(found[SPECIAL]) != size:
            raise ValueError(
                f"example {index} (counted from 0): expected features of {size} tokens, found {len(found[SPECIAL])}"
            )
        return found

    def collater(self, samples: Sequence[Mapping[str, Tensor]]) -> SyntaxBatch:
        lengths = torch.tensor([len(sample[SPECIAL]) for sample in samples])
        return SyntaxBatch.collate(samples, torch.arange(int(lengths.max())) < lengths.unsqueeze(1))


class BlockFeatures(ExampleFeatures):
    """Features of blocks of lines, with a token before the first.

    Args:
        lines: of the text.
        blocks: of the lines' tokens, or of their first tokens.
        sizes: number of tokens of each block and the token before it, ``(blocks,)``.
    """

    def __init__(self, lines: Lines, blocks: TokenBlockDataset, sizes: np.ndarray):
        super().__init__([lines], sizes)
        self.blocks = blocks.block_to_dataset_index
        self.kept = blocks.dataset.sizes

    def segments(self, index: int) -> list[Segment]:
        first, _, last = map(int, self.blocks[index])
        before = [1] + [0] * (last - first)
        return [
            self.texts[0].segment(line, before=n, most=n + int(self.kept[line]))
            for line, n in zip(range(first, last + 1), before, strict=True)
        ]


def innermost(dataset: Any, kind: type) -> Any:
    """Return the dataset of a kind within wrappers."""
    while not isinstance(dataset, kind):
        dataset = dataset.dataset
    return dataset


class Renumbered(FairseqDataset):
    """Rows of numbers, each number replaced by that of a table."""

    def __init__(self, rows: Any, table: Sequence[int]):
        super().__init__()
        self.rows = rows
        self.table = torch.tensor(table)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return self.table[self.rows[index]]
