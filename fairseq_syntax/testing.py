"""Random sentences with parses, and a counter of copies to and from a device.

Tests and benchmarks share them: no data is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fairseq_syntax.modules.biases import UNKNOWN
from syntax_data.features import FEATURES
from syntax_data.features.dependencies import head_feature
from syntax_data.features.distance import distance_feature, syntactic_distances
from syntax_data.features.word import word_feature
from syntax_data.trees.tree import DependencyTree, Tree

#: fairseq's numbers of these symbols.
BOS, PAD, EOS = 0, 1, 2
FIRST_WORD = 4


def random_tree(random: Random, words: int) -> Tree:
    """A random tree over `words` words w0, w1, …; each node has one to five children."""

    def build(first: int, last: int) -> Tree:
        if first + 1 == last:
            node = Tree("T", [f"w{first}"])
        else:
            parts = random.randint(2, min(5, last - first))
            cuts = sorted(random.sample(range(first + 1, last), parts - 1))
            ends = zip([first, *cuts], [*cuts, last], strict=True)
            node = Tree("N", [build(a, b) for a, b in ends])
        while random.random() < 0.2:
            node = Tree("U", [node])
        return node

    return build(0, words)


def random_features(random: Random, words: int, subwords: int) -> dict[str, list[int]]:
    """``word``, ``distance`` and ``head`` of a random parse, `subwords` + 1 values each."""
    word_of = sorted([*range(words), *(random.randrange(words) for _ in range(subwords - words))])
    heads = [random.randint(1, i) if i else 0 for i in range(words)]
    return {
        "word": word_feature(word_of),
        "distance": distance_feature(word_of, syntactic_distances([random_tree(random, words)])),
        "head": head_feature(word_of, DependencyTree(["x"] * words, heads)),
    }


#: Labels of random parses.
LABELS = ("</s>", "A", "B", "C")


def random_labels(random: Random, subwords: int) -> dict[str, list[int]]:
    """Random indices of labels, `subwords` + 1 a feature; of parses into :data:`LABELS`."""
    numbers = {name: len(feature.labels or LABELS) for name, feature in FEATURES.items() if feature.labels is not None}
    return {name: [*(random.randrange(1, n) for _ in range(subwords)), 0] for name, n in numbers.items()}


def random_source(
    random: Random, sentences: Sequence[dict[str, list[int]] | int], *, vocabulary: int, left_pad: bool = True
) -> dict[str, Any]:
    """The source side of a batch's ``net_input``: random tokens under these features.

    Args:
        sentences: the features of each; a number is a sentence of that length, with ``</s>``, without a parse.
        vocabulary: number of symbols of the dictionary.
        left_pad: padding is on the left.
    """
    lengths = [s if isinstance(s, int) else len(s["word"]) for s in sentences]
    width = max(lengths)

    names = next((list(s) for s in sentences if not isinstance(s, int)), ["word", "distance", "head"])

    def padded(values: list[int], filler: int) -> list[int]:
        filling = [filler] * (width - len(values))
        return filling + values if left_pad else values + filling

    tokens = [padded([random.randrange(FIRST_WORD, vocabulary) for _ in range(n - 1)] + [EOS], PAD) for n in lengths]
    return {
        "src_tokens": torch.tensor(tokens),
        "src_lengths": torch.tensor(lengths),
        "src_syntax": {
            name: torch.tensor([padded([] if isinstance(s, int) else s[name], UNKNOWN) for s in sentences])
            for name in names
        },
    }


class CopiesOfDevice(TorchFunctionMode):
    """Counter of copies between the host's memory and a device's.

    Counted are numbers that come from Python as an index or as a new tensor, and tensors that are moved or read as a
    whole; moved ones only where the device is not the CPU itself. For a single number that is read, torch dispatches an
    operation, which can be counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.count += self._copies(function, args, kwargs or {}, result)
        return result

    @staticmethod
    def _copies(function: Any, args: Any, kwargs: Any, result: Any) -> bool:
        if function in (Tensor.tolist, Tensor.cpu, Tensor.numpy, Tensor.new_tensor):
            return True
        if function in (torch.tensor, torch.as_tensor, torch.asarray):
            return kwargs.get("device") is not None
        if function in (Tensor.__getitem__, Tensor.__setitem__):
            x, index = args[:2]
            parts = index if isinstance(index, tuple) else (index,)
            if any(isinstance(part, Tensor) and part.dim() and part.device != x.device for part in parts):
                return True
            return not all(part is None or isinstance(part, int | slice | Tensor | type(...)) for part in parts)
        if function is Tensor.copy_:
            return bool(args[0].device != args[1].device)
        return function in (Tensor.to, Tensor.type_as, Tensor.cuda) and bool(args[0].device != result.device)
