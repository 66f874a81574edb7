"""The states of a trained model's encoder, of sentences and of their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from fairseq_syntax.models.syntax_model import syntax_of
from fairseq_syntax.modules.biases import UNKNOWN
from syntax_experiments.probing.sentences import Sentence


@dataclass(frozen=True)
class States:
    """States of S sentences with W words together, by layer, in float32.

    Attributes:
        sentences: the mean over each sentence's real positions, ``</s>`` included: ``(S, d)`` a layer.
        words: the mean over each word's subwords, the words of all sentences in a row: ``(W, d)`` a layer.
    """

    sentences: dict[int, np.ndarray]
    words: dict[int, np.ndarray]

    def followed_by(self, other: States) -> States:
        """These, and those of other sentences after them."""
        return States(
            {k: np.concatenate([found, other.sentences[k]]) for k, found in self.sentences.items()},
            {k: np.concatenate([found, other.words[k]]) for k, found in self.words.items()},
        )


def encoder_layers(model: nn.Module) -> int:
    """How many layers the encoder has.

    Raises:
        ValueError: it is no Transformer encoder.
    """
    layers = getattr(getattr(model, "encoder", None), "layers", None)
    if layers is None:
        raise ValueError(f"expected a model with a Transformer encoder, found a {type(model).__name__}")
    return len(layers)


def encode(model: nn.Module, net_input: Mapping[str, Any], layers: Sequence[int]) -> dict[int, Tensor]:
    """The encoder's states of a batch, ``(batch, n, d)`` a layer, padding included.

    Args:
        net_input: of a batch; its features go to a model that needs some.
        layers: 0 for the embeddings with positions, k for the output of layer k. That of the last one is what the
            decoder sees, after the encoder's last layer norm if it has one.
    """
    last = encoder_layers(model)
    inputs = {"src_tokens": net_input["src_tokens"], "src_lengths": net_input["src_lengths"]}
    if (syntax := syntax_of(model)) and syntax.syntax_features:
        inputs["src_syntax"] = net_input["src_syntax"]
    encoder: Any = model.encoder
    with torch.no_grad():
        out = encoder(**inputs, return_all_hiddens=True)
    found = {k: out["encoder_out"][0] if k == last else out["encoder_states"][k] for k in layers}
    return {k: states.transpose(0, 1) for k, states in found.items()}


def states_of(
    model: nn.Module,
    dataset: Any,
    sentences: Sequence[Sentence],
    *,
    layers: Sequence[int],
    pad: int,
    batch_size: int,
    words: bool,
    orders: Sequence[np.ndarray | None] | None = None,
    progress: str = "",
) -> States:
    """The states of sentences, in their order, encoded in batches of like lengths.

    Args:
        dataset: the split, as the model's task loads it.
        pad: the padding symbol's number.
        words: whether those of words are wanted too.
        orders: for each sentence the order in which its n - 1 subwords are encoded; ``None``: their own. If this is
            given, no sentence has a parse, whether its order changes or not: a model that has seen the parse of the
            right order could tell the wrong one by it.
        progress: what is done, for the progress bar.
    """
    device = next(model.parameters()).device
    of_sentences: dict[int, list[Any]] = {k: [None] * len(sentences) for k in layers}
    of_words: dict[int, list[Any]] = {k: [None] * len(sentences) for k in layers}
    by_length = np.argsort([len(s.word_of) for s in sentences], kind="stable")
    batches = [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
    for at in tqdm(batches, desc=progress, unit=" batches", disable=None):
        place = {sentences[i].number: i for i in at.tolist()}
        batch = dataset.collater([dataset[number] for number in place])
        net_input = batch["net_input"]
        rows = [place[number] for number in batch["id"].tolist()]
        real = net_input["src_tokens"].ne(pad)
        if orders is not None:
            net_input = _reordered(net_input, real, [orders[i] for i in rows])
        for k, found in encode(model, _on(device, net_input), layers).items():
            for row, i in enumerate(rows):
                states = found[row][real[row].to(device)].float().cpu().numpy()  # (n, d)
                of_sentences[k][i] = states.mean(axis=0)
                if words:
                    of_words[k][i] = means_of_words(states[:-1], sentences[i].word_of)
    return States(
        {k: np.stack(found) for k, found in of_sentences.items()},
        {k: np.concatenate(found) for k, found in of_words.items()} if words else {},
    )


def means_of_words(states: np.ndarray, word_of: np.ndarray) -> np.ndarray:
    """The mean of each word's subwords: from ``(n - 1, d)`` to ``(m, d)``."""
    starts = np.flatnonzero(np.diff(word_of, prepend=-1))
    counts = np.diff(starts, append=len(word_of))
    found: np.ndarray = np.add.reduceat(states, starts, axis=0) / counts[:, None]
    return found


def _reordered(net_input: Mapping[str, Any], real: Tensor, orders: Sequence[np.ndarray | None]) -> dict[str, Any]:
    tokens = net_input["src_tokens"].clone()
    for row, order in enumerate(orders):
        if order is not None:
            own = tokens[row][real[row]]
            tokens[row, real[row]] = own[torch.from_numpy(np.append(order, len(order)))]
    changed = {**net_input, "src_tokens": tokens}
    if "src_syntax" in changed:
        changed["src_syntax"] = {k: torch.full_like(v, UNKNOWN) for k, v in changed["src_syntax"].items()}
    return changed


def _on(device: torch.device, found: Any) -> Any:
    if isinstance(found, Mapping):
        return {key: _on(device, value) for key, value in found.items()}
    return found.to(device) if isinstance(found, Tensor) else found
