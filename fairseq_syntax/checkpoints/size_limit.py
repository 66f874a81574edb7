"""A checkpoint's model is about as large as its weights.

What is wrong: fairseq builds the model that a checkpoint records before it looks at its weights. A small file may
record a model of a billion layers or positions, which takes all memory, or never ends.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/checkpoint_utils.py (``load_model_ensemble_and_task``)

The repair: :class:`SizeLimit` adds up the sizes of tensors before they are built, and stops far above the weights'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from syntax_data.errors import InputError

#: A model's tensors, with those that are needed while it is built, may be this many times its weights, and this many
#: numbers more: tables that are computed are not in a checkpoint, such as the sinusoids of 100,000 positions.
_TIMES, _MORE = 4, 1 << 28
#: Each tensor counts as this many numbers more, for the time that it takes.
_EACH = 1 << 14


class SizeLimit(TorchDispatchMode):
    """Inside the block, the tensors that are built are limited, after a call of :meth:`of`."""

    def __init__(self, parts: int = 1) -> None:
        super().__init__()
        self._parts = parts  # of which a checkpoint is one
        self._left: int | None = None
        self._path = ""

    def of(self, path: str, state: Mapping[str, Any]) -> None:
        """Limit what is built from now on by the weights of the checkpoint at a path, which has this content."""
        sizes = {}
        for weight in state["model"].values():  # several may be parts of one storage
            storage = weight.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes() // weight.element_size()
        self._left = self._parts * _TIMES * sum(size + _EACH for size in sizes.values()) + _MORE
        self._path = path

    def lift(self) -> None:
        """Limit nothing from now on."""
        self._left = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._left is not None and not all(made.alias_info for made in func._schema.returns):
            self._left -= sum(made.numel() + _EACH for made in _on_meta(func, args, kwargs))
            if self._left < 0:
                raise InputError(
                    self._path, None, "expected options of a model that is as large as its weights, found those of a "
                    "larger one; --model-overrides gives others, such as \"{'max_source_positions': 1024}\""
                )  # fmt: skip
        return func(*args, **kwargs)


def _on_meta(func: Any, args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that an operation would return, without their numbers; none if torch cannot compute their shapes."""
    args, kwargs = tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    if any(argument.name == "device" for argument in func._schema.arguments):
        kwargs = {**kwargs, "device": torch.device("meta")}
    try:
        made = func(*args, **kwargs)
    except Exception:  # of many kinds; the operation itself raises its own
        return []
    return [tensor for tensor in tree_leaves(made) if isinstance(tensor, Tensor)]
