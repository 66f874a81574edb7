"""Scores of sentences under a masked LM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn


def pseudo_log_likelihoods(model: nn.Module, net_input: Mapping[str, Any], dictionary: Dictionary) -> Tensor:
    """Return the pseudo-log-likelihood of each line of a batch, ``(batch,)``, in natural logarithms.

    PLL(W) = Σ_t log p(w_t | W∖t) over its subwords, each masked in turn (Salazar et al. 2020, eq. 1). Features are of
    the whole line: the parser has seen the masked word.

    Args:
        net_input: the batch, of tokens that are not masked, ``(batch, n)``.
        dictionary: has ``<mask>``.
    """
    tokens: Tensor = net_input["src_tokens"]
    scored = ~torch.isin(tokens, torch.tensor([dictionary.pad(), dictionary.bos(), dictionary.eos()]).to(tokens))
    mask = dictionary.index("<mask>")
    found = torch.zeros(len(tokens), dtype=torch.float64)
    for place in scored.any(dim=0).nonzero().flatten().tolist():
        masked = torch.zeros_like(scored)
        masked[:, place] = scored[:, place]
        logits, _ = model(**{**net_input, "src_tokens": tokens.masked_fill(masked, mask)}, masked_tokens=masked)
        of_words = logits.float().log_softmax(dim=-1).gather(1, tokens[masked].unsqueeze(1)).squeeze(1)
        found[masked[:, place].cpu()] += of_words.double().cpu()
    return found
