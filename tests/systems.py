"""The systems that every law must hold for, as small models, and batches with all features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any

import torch

import small
from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.modules.gates import TokenGate
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.testing import FIRST_WORD, LABELS, random_features, random_labels
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

#: Architectures with learned biases by positions, of tokens, in words or in trees.
OF_POSITIONS = [
    "relative_position_transformer",
    "word_position_transformer",
    "tree_bias_transformer",
    "tree_label_transformer",
    "tree_hmm_transformer",
]

_LABELS = {f"{feature}_labels": " ".join(LABELS) for feature in ("upos", "deprel")}

#: Options of small models of architectures with labels.
LABELLED = {"tree_label_transformer": _LABELS}

#: RoBERTa with syntax, likewise.
ROBERTAS: dict[str, dict[str, Any]] = {
    "gated_syntax_roberta": {"syntax_masks": "slr,sdoi"},
    "relative_position_roberta": {},
    "tree_bias_roberta": {},
    "sla_roberta": {"sla_distance": 1},
    "sg_net_roberta": {},
    "pos_roberta": {"upos_labels": " ".join(LABELS)},
    "seprem_roberta": {"distance_prediction": True, "parent_prediction": True, "distance_prediction_rate": 0.5},
}

#: Options of embeddings of features of a word and its head, in the encoder's input and in cross-attention's keys.
SUPERTAGS: dict[str, Any] = {
    "feature_embeddings": "upos,deprel",
    "feature_merge": "sum",
    **_LABELS,
    "supertags": True,
}

#: Systems that need a parse to translate.
PARSED = [name for name in SYSTEMS if name != "lisa_transformer"]

#: Systems that learn to predict parses.
SUPERVISED = ["lisa_transformer", "seprem_transformer"]


def model(system: str, *, awake: bool = True, **options: Any) -> Any:
    """A small model of a system.

    Args:
        awake: parameters that begin as 0, so that nothing depends on some others, do not.
    """
    of_system = {**SYSTEMS, **ROBERTAS, **LABELLED}.get(system, {})
    net = small.model(system, **{**of_system, **options})
    generator = torch.Generator().manual_seed(5)
    for name, parameter in net.named_parameters():
        if awake and re.search(
            r"(scorer|parents|position_bias|relative_position|experts\.[a-z_]+|\.score|hmm\.bigram|context\.out)"
            r"\.(weight|vectors)$",
            name,
        ):
            parameter.data.normal_(generator=generator)
        elif awake and re.search(r"\.(tables|supertags|feature_keys)\.", name):
            parameter.data.normal_(std=parameter.shape[1] ** -0.5, generator=generator)
        elif awake and name.endswith("embed_tokens.feature_weight"):
            parameter.data.fill_(1.5)
        elif awake and "roberta" in system and parameter.dim() > 1:
            draw_larger(parameter, generator)
    return net


def draw_larger(parameter: torch.Tensor, generator: torch.Generator | None = None) -> None:
    """Draw a matrix of RoBERTa's larger than it begins, so that what depends on it is more than rounding."""
    padded = len(parameter) == len(small.dictionary())
    parameter.data.normal_(std=0.2, generator=generator)
    if padded:
        parameter.data[small.dictionary().pad()] = 0


def all_distances_hidden(monkeypatch: Any, system: str, **options: Any) -> Any:
    """A model as :func:`model` makes it, of whose distances all are hidden: nothing is drawn."""
    monkeypatch.setattr("fairseq_syntax.modules.heads.MASK_RATE", 1.0)
    return model(system, **({"distance_prediction_rate": 1.0} if system == "seprem_transformer" else {}), **options)


def with_stock_weights(system: str, **options: Any) -> tuple[Any, Any]:
    """A stock Transformer, or RoBERTa, and a model of a system with its weights."""
    sizes = {name: value for name, value in options.items() if name.startswith(("encoder", "decoder", "dropout"))}
    if system in ROBERTAS:
        stock = small.model("roberta", seed=3, **sizes)
        for parameter in stock.parameters():
            if parameter.dim() > 1:
                draw_larger(parameter)
    else:
        stock = small.model("transformer", seed=3, **sizes)
    ours = model(system, **options)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    state = dict(stock.state_dict())
    ours.load_state_dict(state, strict=True)  # what stock lacks starts fresh
    assert all(
        torch.equal(value, before[name]) for name, value in ours.state_dict().items() if name not in stock.state_dict()
    )
    return stock, ours


def shut_gates(net: Any) -> None:
    """Leave all of the weight to the global expert."""
    for gate in net.gates.values():
        last = gate.linear if isinstance(gate, TokenGate) else gate.fc2
        last.weight.data.zero_()
        last.bias.data.fill_(-1e4)


def no_mixture(net: Any) -> None:
    """Mix no descendants into words."""
    net.syntax_encoder.tree_mixing.weight.data.zero_()


def as_it_is(net: Any) -> None:
    """Change nothing: options alone make the model a stock one."""


def features(random: Random, words: int, subwords: int) -> dict[str, list[int]]:
    """All features of a random parse."""
    return {**random_features(random, words, subwords), **random_labels(random, subwords)}


def batch(*, left_pad: bool = True, seed: int = 7, system: str = "") -> dict[str, Any]:
    """Three sentences and one without a parse, which has what needs none; for a RoBERTa :func:`pairs` of sentences."""
    if "roberta" in system:
        return pairs(seed=seed)
    random = Random(seed)
    sentences = [features(random, words, words + 2) for words in (1, 6, 10, 7)]
    sentences[3] |= {name: [] for name, feature in FEATURES.items() if feature.source}
    return small.batch(sentences, left_pad=left_pad)


def pairs(*, seed: int = 7) -> dict[str, Any]:
    """Two pairs of sentences, one of whose second sentence has no parse, and one without any; as RoBERTa reads them."""
    random = Random(seed)
    lengths = ((1, 6), (5, 8), (5, 3), (6, 2))
    sentences = [[features(random, words, words + 2) for words in pair] for pair in lengths]
    for sentence in (sentences[2][1], *sentences[3]):
        sentence |= {name: [] for name, feature in FEATURES.items() if feature.source}
    return pairs_of(sentences, seed=seed)


def pairs_of(examples: Sequence[Sequence[dict[str, list[int]]]], *, seed: int = 7) -> dict[str, Any]:
    """A batch of ``<s> A </s> </s> B </s> …``, padded on the right; features of each sentence as in a data-bin."""
    random, symbols = Random(seed), small.dictionary()
    composed = []
    for example in examples:
        segments = [{name: torch.tensor(row).long() for name, row in segment.items()} for segment in example]
        composed.append(compose([Segment(segment, len(segment["word"]), before=1) for segment in segments]))
    special = [of["special"].tolist() for of in composed]
    rows = [[symbols.eos() if end else random.randrange(FIRST_WORD, len(symbols)) for end in row] for row in special]
    width = max(map(len, rows))
    tokens = torch.tensor([[symbols.bos(), *row[1:], *[symbols.pad()] * (width - len(row))] for row in rows])
    real = tokens != symbols.pad()
    return {"src_tokens": tokens, "src_lengths": real.sum(dim=1), "src_syntax": SyntaxBatch.collate(composed, real)}


def of_stock(net_input: dict[str, Any]) -> dict[str, Any]:
    """The same without features."""
    return {name: value for name, value in net_input.items() if name != "src_syntax"}


def loss(net: Any, net_input: dict[str, Any], *, predictions: bool = False) -> torch.Tensor:
    """A number that all outputs, and all that is predicted, have a part in."""
    logits, extra = net(**net_input, predictions=predictions)
    total = (logits.float() * torch.linspace(-1, 1, logits.shape[-1], device=logits.device)).sum()
    for some in extra.get("syntax_predictions", {}).values():
        total = total + sum(prediction.cross_entropy().sum() for prediction in some)
    return total
