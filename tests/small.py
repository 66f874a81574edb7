"""Small models and batches for unit tests."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.models import build_model
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

import fairseq_syntax  # noqa: F401  (registers the architectures)
from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder_options import GateOptions, SyntaxEncoderOptions
from fairseq_syntax.modules.biases import AttentionBias, BatchBiases, SyntaxBias
from fairseq_syntax.modules.numerics import padding_bias
from fairseq_syntax.testing import random_source


def dictionary(size: int = 40) -> Dictionary:
    """A dictionary of s4, s5, …, after the four special symbols."""
    symbols = Dictionary()
    for i in range(len(symbols), size):
        symbols.add_symbol(f"s{i}")
    return symbols


class Rows(FairseqDataset):
    """Rows of numbers, as fairseq's datasets have them."""

    def __init__(self, rows: Sequence[Sequence[int]]):
        self.rows = [torch.tensor(row, dtype=torch.long) for row in rows]
        self.sizes = np.array([len(row) for row in rows])

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


def model(arch: str = "gated_syntax_transformer_tiny", *, seed: int = 1, by_hydra: bool = False, **options: Any) -> Any:
    """A 32-dimensional model, by fairseq's own ways from options, or from keys of fairseq-hydra-train, to models.

    A RoBERTa gets no options of a decoder.
    """
    sizes = {
        "encoder_embed_dim": 32,
        "encoder_ffn_embed_dim": 48,
        "encoder_attention_heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "decoder_attention_heads": 2,
        "dropout": 0.0,
        "max_source_positions": 1024,
        "max_target_positions": 1024,
    }
    if "roberta" in arch:
        sizes = {name: size for name, size in sizes.items() if name.startswith("encoder")}
        sizes |= {"max_positions": 64, "attention_dropout": 0.0, "dropout": 0.0}
    torch.manual_seed(seed)
    symbols = dictionary()
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    given = {**sizes, **options}
    return build_model(OmegaConf.create({"_name": arch, **given}) if by_hydra else Namespace(arch=arch, **given), task)


def batch(sentences: list[dict[str, list[int]] | int], *, left_pad: bool = True, seed: int = 1) -> dict[str, Any]:
    """A batch of random tokens under these features; a number is a sentence of that length without a parse."""
    source = random_source(Random(seed), sentences, vocabulary=40, left_pad=left_pad)
    return {**source, "prev_output_tokens": torch.tensor([[dictionary().eos(), 5, 6, 7]] * len(sentences))}


def alone(together: dict[str, Any], row: int, *, left_pad: bool) -> dict[str, Any]:
    """The source of one sentence of a batch, without its padding."""
    n = int(together["src_lengths"][row])
    place = slice(row, row + 1), slice(-n, None) if left_pad else slice(n)
    return {
        "src_tokens": together["src_tokens"][place],
        "src_lengths": together["src_lengths"][row : row + 1],
        "src_syntax": {name: values[place] for name, values in together["src_syntax"].items()},
    }


def attention(
    masks: Sequence[SyntaxBias],
    *,
    syntax_heads: int = 4,
    syntax_dropout: float = 0.0,
    dropout: float = 0.0,
    gate: Mapping[str, Any] | None = None,
    **options: Any,
) -> SyntaxAttention:
    """Attention of 4 heads, 16 wide, with these masks; more options are those of the encoder."""
    syntax = SyntaxEncoderOptions(
        masks="none",
        biases=tuple(masks),
        heads=syntax_heads,
        dropout=syntax_dropout,
        gate=GateOptions(**{"hidden_dim": 4, "batch_norm": False, **(gate or {})}),
        encoder_heads=4,
        **options,
    )
    return SyntaxAttention(16, syntax, dropout=dropout)


def mask_biases(log_masks: torch.Tensor, has_parse: torch.Tensor, padding: torch.Tensor | None = None) -> BatchBiases:
    """Biases of masks that all heads share, from their logarithms, (batch, masks, n, n)."""
    biases = [AttentionBias(bias=log_mask.unsqueeze(1)) for log_mask in log_masks.unbind(dim=1)]
    return BatchBiases(biases, has_parse, padding=padding)


def log_masks(biases: BatchBiases) -> torch.Tensor:
    """Logarithms of masks that all heads share, (batch, masks, n, n)."""
    return torch.cat([bias.bias for bias in biases.biases], dim=1)


def encode(net: Any, net_input: dict[str, Any]) -> torch.Tensor:
    """The encoder's output, (batch, n, embed_dim)."""
    inputs = {k: v for k, v in net_input.items() if k != "prev_output_tokens"}
    encoder = getattr(net.encoder, "sentence_encoder", net.encoder)
    return encoder(**inputs)["encoder_out"][0].transpose(0, 1)


def hides(padding: torch.Tensor) -> torch.Tensor:
    """The bias of padding, as gates get it."""
    return padding_bias(padding, torch.float32)[:, None, None]


class _OperationCounter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is not torch.ops.aten.detach.default  # a view
        return func(*args, **(kwargs or {}))


def operations(function: Callable[..., Any], *args: Any) -> int:
    """Number of torch's operations in a call of `function`, where one for a list of tensors counts once."""
    with _OperationCounter() as counter:
        function(*args)
    return counter.count
