"""A decoder's self-attention with a learned bias by relative position."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from fairseq_syntax.modules.biases import BiasTable, Buckets, RelativePosition


class PositionBiasAttention(MultiheadAttention):
    """softmax(q·kᵀ/√d + b[j - i])·v, with b of :class:`~fairseq_syntax.modules.biases.RelativePosition` and 0 at first.

    It takes torch's fused attention, also on a CPU. Parameters and buffers of generation have fairseq's names; the
    table is ``relative_position``.

    Args:
        scale: factor S of the table, ``--bias-table-scale``.
        others: arguments of fairseq's class.
    """

    def __init__(self, embed_dim: int, num_heads: int, *, scale: float = 1.0, **others: Any):
        super().__init__(embed_dim, num_heads, self_attention=True, **others)
        self.relative_position = BiasTable(heads=num_heads, buckets=RelativePosition.buckets)
        self.relative_position.scale = scale

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, Any] | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, None]:
        """As fairseq's, without weights; keys and values are those of `query`, ``(n, batch, embed_dim)``."""
        n, batch, _ = query.shape
        parts = (project(query) for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (part.view(n, batch, self.num_heads, -1).permute(1, 2, 0, 3) for part in parts)
        if incremental_state is not None:
            if saved := self._get_input_buffer(incremental_state):
                k, v = torch.cat([saved["prev_key"], k], dim=2), torch.cat([saved["prev_value"], v], dim=2)
            self._set_input_buffer(incremental_state, {"prev_key": k, "prev_value": v})
        j = torch.arange(k.shape[2], device=k.device, dtype=torch.int)
        mask = self.relative_position(Buckets(RelativePosition.numbers(j - j[-n:, None]).unsqueeze(0))).bias
        if attn_mask is not None:
            mask = mask + attn_mask
        if key_padding_mask is not None and incremental_state is None:  # a beam has no padding
            mask = mask.masked_fill(key_padding_mask[:, None, None], -torch.inf)
        drops = self.training or self.dropout_module.apply_during_inference
        output = F.scaled_dot_product_attention(q, k, v, mask.to(q), dropout_p=self.dropout_module.p if drops else 0.0)
        return self.out_proj(output.permute(2, 0, 1, 3).reshape(n, batch, self.embed_dim)), None
