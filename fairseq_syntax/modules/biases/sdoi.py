"""Syntactic dependency of interest: dependency trees (SG-Net)."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_syntax.modules.biases.registry import SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.dependency import ancestors, columns_of_positions, is_word_start
from fairseq_syntax.options import option


@register_syntax_bias("sdoi")
class SyntacticDependencyOfInterest(SyntaxBias):
    """A word sees itself and its ancestors in the dependency tree (SG-Net, Zhang et al., eq. 1).

    M[i, j] = 1 iff j's word is i's word or one of its ancestors. SG-Net's eq. (7) multiplies the scores by M before the
    softmax, which leaves a hidden key with score 0 and so with weight exp(0); its released code adds -10000 to them
    instead. This mask hides, as the code does. A cycle of heads raises :class:`ValueError`.
    """

    features = ("word", "head")

    subwords: str = option(
        "share",
        choices=("share", "first"),
        help="subwords under sdoi (SG-Net): share their word's row and column, or the first one is the parent of the "
        "others",
    )

    def log_mask(self, *features: Tensor) -> Tensor:
        word, head = features
        log_mask = columns_of_positions(ancestors(word, head, yes=0.0, no=-torch.inf), word)
        if self.subwords == "share":
            return log_mask
        others = ~torch.eye(word.shape[1], dtype=torch.bool, device=word.device)
        return log_mask.masked_fill_(~is_word_start(word).unsqueeze(1) & others, -torch.inf)
