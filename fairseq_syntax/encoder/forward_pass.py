"""One forward pass through an encoder: what its layers share and return."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from fairseq_syntax.modules.attention import scores
from fairseq_syntax.modules.biases import BatchBiases
from fairseq_syntax.modules.gate_norm import RunningStatistics
from fairseq_syntax.modules.trace import SyntaxTrace


@dataclass
class ForwardPass:
    """Caller of an encoder's layers in one forward pass.

    Attributes:
        syntax: the batch's attention biases and padding.
        statistics: statistics of the gates, if the pass moves them.
        trace: is filled, if there is one.
        predicts: syntax layers are asked for predictions.
        traces_stock_layers: the attention of fairseq's own layers is traced, too.
        predictions: what syntax layers predicted, ``(batch, 1, n, n)`` each.
    """

    syntax: BatchBiases
    statistics: RunningStatistics | None
    trace: SyntaxTrace | None
    predicts: bool
    traces_stock_layers: bool
    predictions: list[Tensor] = field(default_factory=list)

    def syntax_layer(self, layer: nn.Module, number: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run a syntax layer, perhaps wrapped, on ``(n, batch, embed_dim)``.

        Returns:
            its output, in that shape; and of a layer with ``return_fc`` its feed-forward network's.
        """
        traced = () if self.trace is None else self.trace.contents
        contents = (*traced, "prediction") if self.predicts else traced
        result = layer(
            x, *self.syntax.differentiable, syntax=self.syntax, statistics=self.statistics, contents=contents
        )
        x, fc_result, *seen = result if isinstance(result, tuple) else (result, None)
        if self.predicts and (prediction := seen.pop()) is not None:
            self.predictions.append(prediction)
        if self.trace is not None:
            self.trace.add(number, seen)
        return x, fc_result

    def stock_layer(self, layer: nn.Module, number: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run one of fairseq's own layers; see :meth:`syntax_layer`."""
        if self.traces_stock_layers:
            self._trace_attention(layer, number, x)
        result = layer(x, encoder_padding_mask=self.syntax.padding)
        return result if isinstance(result, tuple) else (result, None)

    def _trace_attention(self, layer: nn.Module, number: int, x: Tensor) -> None:
        """Compute the attention of one of fairseq's layers once more, since the layer does not return it."""
        assert self.trace is not None
        inner = next(module for module in layer.modules() if isinstance(module, TransformerEncoderLayerBase))
        attention, query = inner.self_attn, inner.self_attn_layer_norm(x) if inner.normalize_before else x
        q, k = (
            projection(query).unflatten(2, (attention.num_heads, -1)).permute(1, 2, 0, 3)
            for projection in (attention.q_proj, attention.k_proj)
        )
        x, padding = scores(q, k), self.syntax.padding_bias(torch.float32)
        kept = {"attention": (x if padding is None else x + padding).softmax(dim=-1)}
        self.trace.add(number, [kept.get(name) for name in self.trace.contents])
