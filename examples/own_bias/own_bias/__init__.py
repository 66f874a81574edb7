"""An attention bias of one's own: a word sees its head, its children and itself."""

import torch

import fairseq_syntax  # noqa: F401  (the task, the models and our biases)
from fairseq_syntax.modules.biases import SyntaxBias, register_syntax_bias
from fairseq_syntax.options import option


@register_syntax_bias("neighbours")
class Neighbours(SyntaxBias):
    """A word sees its head and its children in the dependency tree, and itself."""

    features = ("word", "head")
    siblings: bool = option(False, help="a word also sees the other children of its head")

    def log_mask(self, word, head):
        parent = head[:, :, None] == word[:, None, :] + 1  # heads count from 1
        seen = parent | parent.transpose(1, 2) | (word[:, :, None] == word[:, None, :])
        if self.siblings:
            seen |= (head[:, :, None] == head[:, None, :]) & (head[:, :, None] > 0)
        return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, -torch.inf)
