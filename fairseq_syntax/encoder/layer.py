"""A Transformer encoder layer whose self-attention is guided by syntax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions
from fairseq_syntax.modules.biases import BatchBiases
from fairseq_syntax.modules.gate_norm import RunningStatistics


@dataclass(frozen=True)
class SharedPadding:
    """A batch's padding as an object, which activation checkpointing leaves alone.

    Of a tensor it makes another one for each layer's second run. Biases, which are kept for as long as the padding is
    the same tensor, would be built again in each layer.

    Attributes:
        mask: true at padding, ``(batch, n)``; ``None`` where there is none.
    """

    mask: Tensor | None


class SyntaxEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer with :class:`SyntaxAttention` in the place of its self-attention.

    fairseq's ``forward`` calls the attention with fixed arguments, and has no method between; so the two sublayers
    stand here once more, in our words. A test holds them equal to fairseq's.
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
        encoder_padding_mask: Tensor | SharedPadding | None,
        attn_mask: Tensor | None = None,
        *,
        syntax: BatchBiases,
        statistics: RunningStatistics | None = None,
        contents: Sequence[str] = (),
    ) -> Any:
        """As fairseq's layer, with the batch's masks.

        Args:
            x: ``(n, batch, embed_dim)``.
            encoder_padding_mask: true at padding, ``(batch, n)``; ``None`` where there is none; or a
                :class:`SharedPadding`.
            syntax: the batch's masks. It holds no tensor with a gradient: activation checkpointing would lose it here.
            statistics: of the gates in this pass; ``None``: the gate moves its own.
            contents: what a :class:`~fairseq_syntax.modules.trace.SyntaxTrace` asks for.

        Returns:
            ``(n, batch, embed_dim)``; with ``return_fc`` the feed-forward network's output after it. If `contents` are
            asked for, these two (the second perhaps ``None``) and each of `contents`, as a flat tuple: activation
            checkpointing keeps the gradients of what a layer returns, and of nothing else.
        """
        seen: Sequence[Tensor | None] = ()
        given = encoder_padding_mask
        padding = given.mask if isinstance(given, SharedPadding) else given

        def attend(x: Tensor) -> Tensor:
            nonlocal seen
            output, _, *seen = self.self_attn(
                x, x, x, key_padding_mask=padding, need_weights=False, attn_mask=attn_mask, syntax=syntax,
                statistics=statistics, contents=contents,
            )  # fmt: skip
            return output

        fc_result: Tensor | None = None

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
