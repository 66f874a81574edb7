"""The states of a trained model's encoder, of sentences and of their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq import utils
from torch import Tensor, nn
from tqdm import tqdm

from fairseq_syntax.models.syntax_model import syntax_of
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


def encoder_layers(model: nn.Module) -> int:
    """Return the number of the encoder's layers; raises :class:`ValueError` if it is no Transformer encoder."""
    layers = getattr(getattr(model, "encoder", None), "layers", None)
    if layers is None:
        raise ValueError(f"expected a model with a Transformer encoder, found a {type(model).__name__}")
    return len(layers)


def encode(model: nn.Module, net_input: Mapping[str, Any], layers: Sequence[int]) -> dict[int, Tensor]:
    """Return the encoder's states of a batch, ``(batch, n, d)`` a layer, padding included.

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
    model: nn.Module, dataset: Any, sentences: Sequence[Sentence], *, layers: Sequence[int], pad: int, batch_size: int
) -> States:
    """Return the states of sentences, in their order, encoded in batches of like lengths.

    Args:
        dataset: the split, as the model's task loads it.
        pad: the padding symbol's number.
    """
    device = next(model.parameters()).device
    of_sentences: dict[int, list[Any]] = {k: [None] * len(sentences) for k in layers}
    of_words: dict[int, list[Any]] = {k: [None] * len(sentences) for k in layers}
    by_length = np.argsort([len(s.word_of) for s in sentences], kind="stable")
    batches = [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
    for at in tqdm(batches, desc="encoding", unit=" batches", disable=None):
        index = {sentences[i].number: i for i in at.tolist()}
        batch = dataset.collater([dataset[number] for number in index])
        batch = utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
        real = batch["net_input"]["src_tokens"].ne(pad)
        for k, found in encode(model, batch["net_input"], layers).items():
            for row, number in enumerate(batch["id"].tolist()):
                states = found[row][real[row]].float().cpu().numpy()  # (n, d)
                of_sentences[k][index[number]] = states.mean(axis=0)
                of_words[k][index[number]] = means_of_words(states[:-1], sentences[index[number]].word_of)
    return States(
        {k: np.stack(found) for k, found in of_sentences.items()},
        {k: np.concatenate(found) for k, found in of_words.items()},
    )


def means_of_words(states: np.ndarray, word_of: np.ndarray) -> np.ndarray:
    """Return the mean of each word's subwords: from ``(n - 1, d)`` to ``(m, d)``."""
    starts = np.flatnonzero(np.diff(word_of, prepend=-1))
    counts = np.diff(starts, append=len(word_of))
    found: np.ndarray = np.add.reduceat(states, starts, axis=0) / counts[:, None]
    return found
