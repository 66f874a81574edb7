"""Attention by a mixture of experts: implementations, and the choice of one."""

from __future__ import annotations

import torch

from fairseq_syntax.modules.attention.interface import DROPOUT_ON, AttentionImplementation, ExpertMixture
from fairseq_syntax.modules.attention.reference import ReferenceAttention, scores
from fairseq_syntax.modules.attention.sdpa import SDPAttention
from fairseq_syntax.modules.attention.shared import SharedAttention, takes_groups

__all__ = ["CHOICES", "DROPOUT_ON", "IMPLEMENTATIONS", "ExpertMixture", "ReferenceAttention", "choose", "scores"]

IMPLEMENTATIONS: dict[str, AttentionImplementation] = {
    "reference": ReferenceAttention(),
    "shared": SharedAttention(),
    "sdpa": SDPAttention(),
}

#: The values of ``--syntax-attention-impl``.
CHOICES = ("auto", *IMPLEMENTATIONS)

#: On a CPU, fused attention is faster from about this sentence length, unless sentences are computed in groups.
_LONG = 128


def choose(name: str, mixture: ExpertMixture, *, length: int, device: torch.device) -> AttentionImplementation:
    """Return the implementation to compute a mixture by: the first that supports it.

    Args:
        name: one of :data:`CHOICES`, which is tried first. ``auto``: on a GPU ``sdpa``; on a CPU ``shared``, and before
            it ``sdpa`` where sentences are long, no dropout acts and ``shared`` takes no groups of sentences. Last is
            ``reference``, which supports all, and is first for values of pairs: faster on a CPU; a GPU was not tried.
        length: the sentences' length n.
    """
    names = [name]
    if name == "auto" and mixture.has_values:
        names = []
    elif name == "auto" and device.type == "cuda":
        names = ["sdpa"]
    elif name == "auto":
        long = length >= _LONG and mixture.dropout is None and mixture.syntax_dropout is None
        names = ["sdpa", "shared"] if long else ["shared"]
        if long and takes_groups(mixture, device):
            names = ["shared", "sdpa"]
    candidates = [IMPLEMENTATIONS[candidate] for candidate in (*names, "reference")]
    return next(candidate for candidate in candidates if candidate.supports(mixture))
