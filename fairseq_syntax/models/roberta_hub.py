"""Python interface of a trained RoBERTa with syntax: fairseq's, with features beside tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from fairseq.models.roberta import RobertaHubInterface
from torch import Tensor

from fairseq_syntax.modules.syntax_batch import SyntaxBatch


class SyntaxRobertaHubInterface(RobertaHubInterface):
    """fairseq's interface, whose heads read what they read in training, and whose encoder gets features.

    Tokens and features are of a task's batch, or of :func:`fairseq_syntax.data.composition.compose`, ``(n,)`` or
    ``(batch, n)``. Models that need features raise :class:`ValueError` without them, as in fairseq's other methods,
    which know tokens alone.
    """

    def extract_features(
        self,
        tokens: Tensor,
        return_all_hiddens: bool = False,
        src_syntax: Mapping[str, Tensor] | None = None,
    ) -> Any:
        """Return the encoder's output, ``(batch, n, embed_dim)``; or the states of all layers, in this shape.

        Raises:
            ValueError: features are missing, or there are more tokens than the model has positions.
        """
        x, extra = self.model(
            **self._batch(tokens, src_syntax), features_only=True, return_all_hiddens=return_all_hiddens
        )
        return [state.transpose(0, 1) for state in extra["inner_states"]] if return_all_hiddens else x

    def predict(
        self,
        head: str,
        tokens: Tensor,
        return_logits: bool = False,
        src_syntax: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return log-probabilities, or logits, of a classification head, ``(batch, classes)``.

        Raises:
            ValueError: see :meth:`extract_features`.
        """
        logits: Tensor = self.model(**self._batch(tokens, src_syntax), classification_head_name=head)[0]
        return logits if return_logits else F.log_softmax(logits, dim=-1)

    def _batch(self, tokens: Tensor, src_syntax: Mapping[str, Tensor] | None) -> dict[str, Any]:
        tokens = tokens.unsqueeze(0) if tokens.dim() == 1 else tokens
        if tokens.shape[1] > (most := self.model.max_positions()):
            raise ValueError(f"expected at most {most} tokens, found {tokens.shape[1]}")
        syntax = None
        if src_syntax is not None:
            shaped = {name: feature.view_as(tokens) for name, feature in src_syntax.items() if feature.numel()}
            syntax = SyntaxBatch(shaped).to(self.device)
        return {"src_tokens": tokens.to(self.device), "src_syntax": syntax}
