"""Labels of features by number, in a model and in the data that it is used on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fairseq_syntax.modules.syntax_batch import SyntaxBatch


class LabelVocabulary:
    """Labels that a model knows, by number; batches may number them in another order.

    Attributes:
        labels: of each feature, in the order of the model's numbers, from 0.
    """

    def __init__(self, labels: Mapping[str, Sequence[str]]):
        self.labels = {name: tuple(known) for name, known in labels.items()}
        self._numbers: dict[str, Tensor] = {}  # of the model, by those of batches

    def set_order(self, labels: Mapping[str, Sequence[str]]) -> None:
        """Set the order of labels in batches to come; features without any have the model's."""
        self._numbers = {}
        for name, known in self.labels.items():
            order = tuple(labels.get(name, known))
            if order != known:
                numbers = {label: number for number, label in enumerate(known)}
                self._numbers[name] = torch.tensor([numbers.get(label, len(known)) for label in order])

    def renumber(self, features: SyntaxBatch) -> SyntaxBatch:
        """Return features with the model's numbers; a label that it does not know has the next one after them."""
        found = SyntaxBatch(features)
        for name in self._numbers.keys() & features.keys():
            values = features[name]
            numbers = self._numbers[name] = self._numbers[name].to(values.device)
            found[name] = torch.where(values < 0, values, numbers[values.clamp(min=0)])
        return found
