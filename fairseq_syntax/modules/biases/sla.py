"""Syntax-aware local attention: dependency trees (Li et al. 2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules.biases.registry import SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.dependency import first_subwords, tree_distances, word_starts
from fairseq_syntax.options import option


@register_syntax_bias("sla")
class SyntaxAwareLocalAttention(SyntaxBias):
    """A word sees words within a distance in the dependency tree: syntax-aware local attention (Li et al. 2021).

    M[i, j] = 1 iff T(i, j) <= m, T the number of steps from i's word to j's in the dependency tree, up and down; or,
    for the words i' before and after i's, T(i', j) <= m. At a border between two sentences of the line, one sees into
    the other by these neighbours.

    Special tokens see and are seen by all, as [CLS] and [SEP] of the authors' code. That code also shows all
    punctuation to every word, recognised by the characters of a token; this mask does not. A cycle of heads raises
    :class:`ValueError`.
    """

    features = ("word", "head")
    opens_special = True

    distance: int = option(
        3, at_least=0, help="how many steps in the dependency tree a word sees under sla (m of Li et al. 2021)"
    )
    neighbours: bool = option(
        True, help="under sla, a word also sees what the words before and after it see (Li et al. 2021)"
    )

    def log_mask(self, *features: Tensor) -> Tensor:
        word, head = features
        batch, n = word.shape
        near = visible = tree_distances(word, head) <= self.distance
        if self.neighbours:
            begin = word_starts(word, first_subwords(word))
            rows = F.pad(near, (0, 0, 0, 1))  # a word that is not there sees nothing
            for number in (word, word + 2):  # of the words before and after, counted from 1
                beside = begin.gather(1, number.clamp(min=0))
                visible = visible | rows.gather(1, beside.unsqueeze(2).expand(batch, n, n))
        return torch.zeros(batch, n, n, device=word.device).masked_fill_(~visible, -torch.inf)
