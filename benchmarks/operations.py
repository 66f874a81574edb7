"""Operations and waits of a model on its device, counted and not timed: fairseq's own `transformer` and ours.

    python benchmarks/operations.py [--layers 6] [--papers | --parts] [--device gpu]

Small operations cost a GPU their launch, at any size; and reading a number from it waits for all operations that
were asked for before. Both can be counted without a GPU:

- operations: what torch dispatches below autograd, without views and allocations (they launch nothing);
- waits: reading a number from the device, asking which entries are not zero, or copying numbers of Python's to it;
- kept: bytes that the forward pass keeps for the backward pass, parameters and what the batch holds not among them,
  each storage once; of these the n×n ones, which grow with the square of the sentence's length.

A training step is an update in float32: forward and backward pass, the gradient's norm, Adam. The encoder is in
evaluation. A decoding step is the mean of 8 of beam search.

All is counted on a CPU. For what a GPU is asked, torch's fused attention, with a mask and dropout, is one operation
forwards and one backwards, as its kernel is there, and so is dropout; on a CPU attention is nine operations and more
forwards, dropout three. Our modules take their operations for a GPU: one projection for queries, keys and values, for
instance, and no question how deep trees are. `--syntax-attention-impl auto` is
`shared` on a CPU for such short sentences, on a GPU `sdpa` where no dropout acts on a sum of several, else `reference`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, library
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_syntax.compat import foreach_adam
from fairseq_syntax.modules import numerics
from fairseq_syntax.testing import CopiesOfDevice
from random_models import PAPERS, PARTS, SYSTEMS, Size, System, be_quiet, random_batch

#: They launch nothing: memory is taken, or a tensor viewed.
NOT_LAUNCHED = {
    "aten::_reshape_alias", "aten::_unsafe_view", "aten::detach", "aten::empty", "aten::empty_like",
    "aten::empty_strided", "aten::lift_fresh", "aten::new_empty", "aten::new_empty_strided", "aten::promote_types",
}  # fmt: skip

#: Operations that return to the host only with their result.
WAITS = {"aten::_local_scalar_dense", "aten::equal", "aten::masked_select", "aten::nonzero", "aten::_unique2"}

#: By how many lists of tensors an operation on lists takes, how many tensors of each a GPU gets by one launch.
TENSORS_OF_LISTS = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}

#: A length that is no other size of a batch or model.
N = 23
_STEPS = 8


@dataclass(frozen=True)
class Counts:
    """Numbers of one system."""

    training: int
    training_waits: int
    kept: int
    kept_n_by_n: int
    encoder: int
    encoder_waits: int
    decoding_step: float


class Launches(TorchDispatchMode):
    """Counts operations and waits while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self._waits = 0
        self._copies = CopiesOfDevice()

    @property
    def waits(self) -> int:
        return self._waits + self._copies.count

    def __enter__(self) -> Launches:
        self._copies.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._copies.__exit__(*exception)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        if name in WAITS:
            self._waits += 1
        elif name.startswith("aten::_foreach"):
            lists = [tensors for tensors in args if isinstance(tensors, (list, tuple))]
            self.operations += -(-len(lists[0]) // TENSORS_OF_LISTS[len(lists)])
        elif not func.is_view and name not in NOT_LAUNCHED:
            self.operations += 1
        return func(*args, **(kwargs or {}))


class Kept:
    """Counts what is kept for the backward pass while it is entered."""

    def __init__(self, model: torch.nn.Module, sample: Mapping[str, Any]):
        self._there = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers()]}
        self._there |= {t.untyped_storage().data_ptr() for t in _tensors(sample)}
        self._kept: dict[int, list[Tensor]] = {}  # held, so that no storage takes the place of another
        self._hooks = saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def _pack(self, tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in self._there:
            self._kept.setdefault(place, []).append(tensor)
        return tensor

    def __enter__(self) -> Kept:
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._hooks.__exit__(*exception)

    def bytes(self, *, n_by_n: bool) -> int:
        return sum(
            views[0].untyped_storage().nbytes()
            for views in self._kept.values()
            if not n_by_n or any(view.shape[-2:] == (N, N) for view in views)
        )


_attention_of_torch = F.scaled_dot_product_attention
_FORWARDS = "(Tensor q, Tensor k, Tensor v, Tensor? mask) -> Tensor[]"
_BACKWARDS = "(Tensor gradient, Tensor[] inputs) -> Tensor[]"


@library.custom_op("operations::attention", mutates_args=(), schema=_FORWARDS)
def _forwards(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> list[Tensor]:
    output = _attention_of_torch(q, k, v, attn_mask=mask)
    in_memory = output.transpose(1, 2).contiguous()  # the kernel's is (batch, queries, heads, d)
    return [in_memory.transpose(1, 2), q.new_empty(q.shape[:3])]  # and its normalisers


@library.custom_op("operations::attention_backward", mutates_args=(), schema=_BACKWARDS)
def _backwards(gradient: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    # Numbers of no meaning: what is counted does not depend on them.
    return [torch.zeros_like(x) for x in inputs]


class FusedAttention(torch.autograd.Function):
    """One operation forwards and one backwards, which keep what a GPU's kernel keeps: no n×n tensor but the mask."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        output, normalisers = _forwards(q, k, v, mask)
        ctx.save_for_backward(q, k, v, mask, output, normalisers)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, _, _ = ctx.saved_tensors
        if not ctx.needs_input_grad[3]:
            return *_backwards(gradient, inputs[:3]), None
        return tuple(_backwards(gradient, inputs))


@contextmanager
def device(name: str) -> Iterator[None]:
    """Inside the block torch's fused attention and dropout, and what our modules ask, are a `gpu`'s or a `cpu`'s."""
    if name == "cpu":
        yield
        return

    def attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
        return FusedAttention.apply(q, k, v, attn_mask)

    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return torch.native_dropout(x, p, training)[0]

    with (
        patch.multiple(F, scaled_dot_product_attention=attention, dropout=dropout),
        patch.object(numerics, "is_asynchronous", lambda device: True),
        patch.object(foreach_adam, "ON_A_CPU", foreach_adam.ELSEWHERE),
    ):
        yield


def _tensors(of: Any) -> list[Tensor]:
    if isinstance(of, Tensor):
        return [of]
    return [tensor for value in of.values() for tensor in _tensors(value)] if isinstance(of, Mapping) else []


def launches(function: Callable[[], Any]) -> Launches:
    """Operations and waits of a call, when it is called a second time."""
    function()
    with Launches() as counted:
        function()
    return counted


def count(chosen: str, layers: int) -> Counts:
    """Numbers of a system of N layers."""
    system = System(chosen, Size(32, 64, 4, layers), cpu=True, dropout="torch")
    batch = random_batch(Random(1), [N] * 6 + [N - 2] * 6)
    sample = system.sample(batch, labels=True)
    model, criterion = system.model, system.trainer.criterion

    training = launches(lambda: system.train(batch))
    with Kept(model, sample) as kept:
        criterion(model, sample)
    encoder = launches(lambda: system.evaluate(batch))
    decoding = [launches(lambda steps=steps: _decode(system, batch, steps)) for steps in (_STEPS, 2 * _STEPS)]
    return Counts(
        training=training.operations,
        training_waits=training.waits,
        kept=kept.bytes(n_by_n=False),
        kept_n_by_n=kept.bytes(n_by_n=True),
        encoder=encoder.operations,
        encoder_waits=encoder.waits,
        decoding_step=(decoding[1].operations - decoding[0].operations) / _STEPS,
    )


def _decode(system: System, batch: Mapping[str, Any], steps: int) -> None:
    system.generator.max_len_b = system.generator.min_len = steps
    system.generate(batch)


#: By device, the implementations that our systems are counted with.
IMPLEMENTATIONS = {
    "gpu": {
        "": "--syntax-attention-impl sdpa",  # what auto is there
        ", dropout on experts": "--syntax-attention-impl sdpa --syntax-attention-dropout-on experts",
    },
    "cpu": {"": "--syntax-attention-impl auto", ", reference": "--syntax-attention-impl reference"},
}


def with_implementations(chosen: Mapping[str, str], name_of_device: str) -> dict[str, str]:
    """Each system once an implementation of attention, with stock's dropout and no more."""
    found = {}
    for name, of in chosen.items():
        if name == "transformer":
            found[name] = of
        else:
            found |= {
                name + way: f"{of} --syntax-dropout 0 {how}" for way, how in IMPLEMENTATIONS[name_of_device].items()
            }
    return found


def table(counted: Mapping[str, Counts]) -> str:
    """Markdown: numbers, bytes as MB, and their ratios to those of the first system."""
    titles = {
        "training": "training step", "training_waits": "its waits", "kept": "kept, MB", "kept_n_by_n": "kept n×n, MB",
        "encoder": "encoder", "encoder_waits": "its waits", "decoding_step": "decoding step",
    }  # fmt: skip
    lines = [f"| | {' | '.join(titles.values())} |", "| --- " * (len(titles) + 1) + "|"]
    first = next(iter(counted.values()))
    for system, counts in counted.items():
        cells = []
        for name in titles:
            value, of_first = getattr(counts, name), getattr(first, name)
            number = f"{value / 1e6:.1f}" if name.startswith("kept") else f"{value:,.0f}"
            cells.append(number if counts is first else f"{number} ({value / of_first:.2f})")
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6, help="of the encoder, and as many of the decoder (default: 6)")
    families = parser.add_mutually_exclusive_group()
    families.add_argument("--papers", action="store_true", help="the systems of the other papers")
    families.add_argument("--parts", action="store_true", help="positions, word boundaries, trees, each use of labels")
    parser.add_argument(
        "--device", choices=IMPLEMENTATIONS, default="gpu", help="what it is asked (default: %(default)s)"
    )
    args = parser.parse_args()
    be_quiet()
    chosen = with_implementations(PAPERS if args.papers else PARTS if args.parts else SYSTEMS, args.device)
    with tempfile.TemporaryDirectory() as folder, device(args.device):
        os.chdir(folder)
        print(table({name: count(of, args.layers) for name, of in chosen.items()}))


if __name__ == "__main__":
    main()
