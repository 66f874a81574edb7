"""Small models and batches for unit tests."""

from __future__ import annotations

from argparse import Namespace
from random import Random
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model

import fairseq_syntax  # noqa: F401  (registers the architectures)
from fairseq_syntax.nn.masks import UNKNOWN
from random_trees import random_tree
from syntax_preprocess.features.distance import distance_feature, syntactic_distances
from syntax_preprocess.features.heads import head_feature
from syntax_preprocess.features.word import word_feature
from syntax_preprocess.trees import DependencyTree


def dictionary(size: int = 40) -> Dictionary:
    """A dictionary of s4, s5, …, after the four special symbols."""
    symbols = Dictionary()
    for i in range(len(symbols), size):
        symbols.add_symbol(f"s{i}")
    return symbols


def model(arch: str = "gated_syntax_transformer_tiny", *, seed: int = 1, **options: Any) -> Any:
    """A 32-dimensional model, by fairseq's own way from options to models."""
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
    torch.manual_seed(seed)
    symbols = dictionary()
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    return build_model(Namespace(arch=arch, **{**sizes, **options}), task)


def features(random: Random, words: int, subwords: int) -> dict[str, list[int]]:
    """Features of a random parse of a sentence of so many words, and so many subwords in all."""
    word_of = sorted([*range(words), *(random.randrange(words) for _ in range(subwords - words))])
    heads = [random.randint(1, i) if i else 0 for i in range(words)]
    return {
        "word": word_feature(word_of),
        "distance": distance_feature(word_of, syntactic_distances([random_tree(random, words)])),
        "head": head_feature(word_of, DependencyTree(["x"] * words, heads)),
    }


def batch(sentences: list[dict[str, list[int]] | int], *, left_pad: bool = True, seed: int = 1) -> dict[str, Any]:
    """A batch of random tokens under these features; a number is a sentence of that length without a parse."""
    random = Random(seed)
    lengths = [s if isinstance(s, int) else len(s["word"]) for s in sentences]
    width = max(lengths)

    def padded(values: list[int], filler: int) -> list[int]:
        filling = [filler] * (width - len(values))
        return filling + values if left_pad else values + filling

    symbols = dictionary()
    tokens = [padded([random.randrange(4, 40) for _ in range(n - 1)] + [symbols.eos()], symbols.pad()) for n in lengths]
    names = ("word", "distance", "head")
    return {
        "src_tokens": torch.tensor(tokens),
        "src_lengths": torch.tensor(lengths),
        "prev_output_tokens": torch.tensor([[symbols.eos(), 5, 6, 7]] * len(lengths)),
        "src_syntax": {
            name: torch.tensor([padded([] if isinstance(s, int) else s[name], UNKNOWN) for s in sentences])
            for name in names
        },
    }


def encode(net: Any, net_input: dict[str, Any]) -> torch.Tensor:
    """The encoder's output, (batch, n, embed_dim)."""
    inputs = {k: v for k, v in net_input.items() if k != "prev_output_tokens"}
    return net.encoder(**inputs)["encoder_out"][0].transpose(0, 1)
