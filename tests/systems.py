"""The systems that every law must hold for, as small models, and batches with all features."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import torch

import small
from fairseq_syntax.testing import LABELS, random_features, random_labels
from syntax_data.features import FEATURES

#: Options under which a small model of each system does something everywhere.
SYSTEMS: dict[str, dict[str, Any]] = {
    "gated_syntax_transformer": {"syntax_masks": "slr,sdoi"},
    "distance_transformer": {},
    "pascal_transformer": {},
    "sla_transformer": {"sla_distance": 1},
    "sg_net_transformer": {},
    "syntax_infused_transformer": {"upos_labels": " ".join(LABELS), "feature_merge": "sum"},
    "lisa_transformer": {},
    "seprem_transformer": {"distance_prediction_rate": 0.5},
}

#: Architectures with learned biases by positions, of tokens or in trees.
OF_POSITIONS = ["relative_position_transformer", "tree_bias_transformer"]

#: Systems that need a parse to translate.
PARSED = [name for name in SYSTEMS if name != "lisa_transformer"]

#: Systems that learn to predict parses.
SUPERVISED = ["lisa_transformer", "seprem_transformer"]


def model(system: str, *, awake: bool = True, **options: Any) -> Any:
    """A small model of a system.

    Args:
        awake: parameters that begin as 0, so that nothing depends on some others, do not.
    """
    net = small.model(system, **{**SYSTEMS.get(system, {}), **options})
    generator = torch.Generator().manual_seed(5)
    for name, parameter in net.named_parameters():
        if awake and re.search(r"(scorer|parents|position_bias|experts\.[a-z_]+)\.weight$", name):
            parameter.data.normal_(generator=generator)
    return net


def all_distances_hidden(monkeypatch: Any, system: str, **options: Any) -> Any:
    """A model as :func:`model` makes it, of whose distances all are hidden: nothing is drawn."""
    monkeypatch.setattr("fairseq_syntax.modules.heads.MASK_RATE", 1.0)
    return model(system, **({"distance_prediction_rate": 1.0} if system == "seprem_transformer" else {}), **options)


def with_stock_weights(system: str, **options: Any) -> tuple[Any, Any]:
    """A stock Transformer, and a model of a system with its weights."""
    sizes = {name: value for name, value in options.items() if name.startswith(("encoder", "decoder", "dropout"))}
    stock = small.model("transformer", seed=3, **sizes)
    ours = model(system, **options)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    state = dict(stock.state_dict())
    ours.load_state_dict(state, strict=True)  # what stock lacks starts fresh
    assert all(
        torch.equal(value, before[name]) for name, value in ours.state_dict().items() if name not in stock.state_dict()
    )
    return stock, ours


def features(random: Random, words: int, subwords: int) -> dict[str, list[int]]:
    """All features of a random parse."""
    return {**random_features(random, words, subwords), **random_labels(random, subwords)}


def batch(*, left_pad: bool = True, seed: int = 7) -> dict[str, Any]:
    """Three sentences and one without a parse, which has what needs none."""
    random = Random(seed)
    sentences = [features(random, words, words + 2) for words in (1, 6, 10, 7)]
    sentences[3] |= {name: [] for name, feature in FEATURES.items() if feature.source}
    return small.batch(sentences, left_pad=left_pad)


def of_stock(net_input: dict[str, Any]) -> dict[str, Any]:
    """The same without features."""
    return {name: value for name, value in net_input.items() if name != "src_syntax"}


def loss(net: Any, net_input: dict[str, Any], *, predictions: bool = False) -> torch.Tensor:
    """A number that all outputs, and all that is predicted, have a part in."""
    logits, extra = net(**net_input, predictions=predictions)
    total = (logits.float() * torch.linspace(-1, 1, logits.shape[-1])).sum()
    for some in extra.get("syntax_predictions", {}).values():
        total = total + sum(prediction.cross_entropy().sum() for prediction in some)
    return total
