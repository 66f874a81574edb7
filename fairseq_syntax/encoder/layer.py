"""A Transformer encoder layer whose self-attention has syntax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions
from fairseq_syntax.modules.biases import BatchBiases
from fairseq_syntax.modules.gate_norm import RunningStatistics


def wrapped(layer: nn.Module, cfg: Any) -> nn.Module:
    """Return a layer in fairseq's wrappers."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


class SyntaxEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer with :class:`SyntaxAttention` instead of its self-attention.

    fairseq's ``forward`` calls the attention with fixed arguments, so the two sublayers are written here again.
    """

    def __init__(self, cfg: Any, options: SyntaxEncoderOptions, return_fc: bool = False):
        self.options = options
        super().__init__(cfg, return_fc)

    def build_self_attention(self, embed_dim: int, cfg: Any) -> SyntaxAttention:
        return SyntaxAttention(
            embed_dim,
            self.options,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )

    def forward(
        self,
        x: Tensor,
        *differentiable: Tensor,
        syntax: BatchBiases,
        statistics: RunningStatistics | None = None,
        contents: Sequence[str] = (),
    ) -> Any:
        """As fairseq's layer, with the batch's attention biases.

        Args:
            x: ``(n, batch, embed_dim)``.
            differentiable: :attr:`BatchBiases.differentiable` of `syntax`.
            syntax, statistics, contents: see :meth:`SyntaxAttention.forward`.

        Returns:
            ``(n, batch, embed_dim)``; with ``return_fc`` the feed-forward network's output after it. With `contents`
            these two (the second perhaps ``None``) and each of `contents`, as a flat tuple, whose gradients activation
            checkpointing keeps.
        """
        syntax = syntax.with_differentiable(differentiable)
        seen: Sequence[Tensor | None] = ()
        fc_result: Tensor | None = None

        def attend(x: Tensor) -> Tensor:
            nonlocal seen
            output, *seen = self.self_attn(x, syntax, statistics=statistics, contents=contents)
            return output

        def feed_forward(x: Tensor) -> Tensor:
            nonlocal fc_result
            fc_result = self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(x))))
            return fc_result

        x = self._sublayer(x, attend, self.self_attn_layer_norm)
        x = self._sublayer(x, feed_forward, self.final_layer_norm)
        if contents:
            return x, fc_result if self.return_fc else None, *seen
        return (x, fc_result) if self.return_fc else x

    def _sublayer(self, x: Tensor, compute: Callable[[Tensor], Tensor], norm: nn.Module) -> Tensor:
        """x + dropout(compute(x)), normalised before or after."""
        if self.normalize_before:
            return self.residual_connection(self.dropout_module(compute(norm(x))), x)
        return norm(self.residual_connection(self.dropout_module(compute(x)), x))
