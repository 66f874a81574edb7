"""The states of a trained model's encoder, of sentences and of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq import utils
from torch import nn
from tqdm import tqdm

from fairseq_syntax.models.syntax_model import syntax_of
from syntax_experiments.probing.sentences import Sentence


@dataclass(frozen=True)
class States:
    """States of S sentences with W words together, by layer, in float32."""

    sentences: dict[int, np.ndarray]  # means over real positions, ``</s>`` included, ``(S, d)``
    words: dict[int, np.ndarray]  # means over each word's subwords, the words of all sentences in a row, ``(W, d)``


def encoder_layers(model: nn.Module) -> int:
    """Return the number of a Transformer encoder's layers; else :class:`ValueError`."""
    layers = getattr(getattr(model, "encoder", None), "layers", None)
    if layers is None:
        raise ValueError(f"expected a model with a Transformer encoder, found a {type(model).__name__}")
    return len(layers)


def states_of(
    model: nn.Module, dataset: Any, sentences: Sequence[Sentence], *, layers: Sequence[int], pad: int, batch_size: int
) -> States:
    """Return the states of sentences, encoded in batches of similar lengths.

    Args:
        dataset: the split, as the model's task loads it.
        layers: 0 for the embeddings with positions, k for the output of layer k. That of the last one is what the
            decoder sees, after the encoder's last layer norm if it has one.
        pad: the padding symbol's number.
    """
    encoder: Any = model.encoder
    last, device = encoder_layers(model), next(model.parameters()).device
    syntax = syntax_of(model)
    names = ["src_tokens", "src_lengths", *(["src_syntax"] if syntax and syntax.syntax_features else [])]
    of_sentences: dict[int, list[Any]] = {k: [None] * len(sentences) for k in layers}
    of_words: dict[int, list[Any]] = {k: [None] * len(sentences) for k in layers}
    by_length = np.argsort([len(s.word_of) for s in sentences], kind="stable")
    for start in tqdm(range(0, len(by_length), batch_size), desc="encoding", unit=" batches", disable=None):
        index = {sentences[i].number: i for i in by_length[start : start + batch_size].tolist()}
        batch = dataset.collater([dataset[number] for number in index])
        batch = utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
        real = batch["net_input"]["src_tokens"].ne(pad)
        with torch.no_grad():
            out = encoder(**{name: batch["net_input"][name] for name in names}, return_all_hiddens=True)
        for k in layers:
            of_batch = (out["encoder_out"][0] if k == last else out["encoder_states"][k]).transpose(0, 1)
            for row, number in enumerate(batch["id"].tolist()):
                states = of_batch[row][real[row]].float().cpu().numpy()  # (n, d)
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
