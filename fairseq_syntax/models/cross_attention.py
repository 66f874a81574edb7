"""Cross-attention that walks the source's dependency tree."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder import PADDING
from fairseq_syntax.modules.biases import Buckets, WalkTable
from fairseq_syntax.modules.numerics import at_least_float32, padding_bias


class TreeCrossAttention(MultiheadAttention):
    """fairseq's cross-attention, whose first heads walk from the word that was just translated to the next one.

    A walking head has no query of the decoder's state. Its weights A are of walks from P, the word that the last output
    token was translated from, which it finds by the embeddings e of that token and the one before:

        P_t = softmax(Q (e_t + W e_{t-1}) Kᵀ / √d),  A_t = softmax(Σ_i P_ti · T_h[r(i, j)] + w_h · H_j)

    r(i, j) is the walk, T the table of :class:`~fairseq_syntax.modules.biases.TreeWalk`, 0 at first, H the encoder's
    output. A sentence without a parse has w_h · H_j alone. All that the head knows is in the source and in two tokens:
    nothing depends on the length of the sentence, or how deep it is.

    Parameters have fairseq's names, and ``walk_table`` (T) and ``walk_scores`` (w).

    Args:
        walking_heads: their number.
        **kwargs: arguments of :class:`~fairseq.modules.MultiheadAttention`.
    """

    def __init__(self, *args: Any, walking_heads: int, **kwargs: Any):
        super().__init__(*args, encoder_decoder_attention=True, **kwargs)
        self.walking_heads = walking_heads
        self.walk_table = WalkTable(heads=walking_heads)
        self.walk_scores = nn.Linear(self.kdim, walking_heads, bias=False)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, Any] | None = None,
        need_weights: bool = True,
        need_head_weights: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            query: the decoder's states, ``(m, batch, embed_dim)``, for the heads that do not walk.
            key: H, and then e_t + W e_{t-1} of each token, ``(n + m, batch, embed_dim)``.
            value: unused; values are of H.
            key_padding_mask: r, ``(batch, n, n)``, :data:`PADDING` in columns of padding.
            incremental_state: keeps what depends on the source alone.

        Returns:
            ``(m, batch, embed_dim)``; and, if asked for, weights, ``(heads, batch, m, n)`` or their mean over heads,
            ``(batch, m, n)``.
        """
        assert key_padding_mask is not None
        n, walking = key_padding_mask.shape[2], self.walking_heads
        kept: dict[str, Any] = self._get_input_buffer(incremental_state)
        source = kept or self._of_source(key[:n], key_padding_mask)
        self._set_input_buffer(incremental_state, source)
        q = self._heads(self.q_proj(key[n:]))[:, :walking]
        if walking < self.num_heads:
            q = torch.cat([q, self._heads(self.q_proj(query))[:, walking:]], dim=1)
        scores = at_least_float32(self.scaling * q @ source["prev_key"].mT) + source["padding"]
        walks = scores[:, :walking].softmax(dim=3) @ source["walks"] + source["walk_scores"]
        weights = torch.cat([walks, scores[:, walking:]], dim=1).softmax(dim=3)
        x = self.dropout_module(weights.to(q.dtype)) @ source["prev_value"]
        x = self.out_proj(x.permute(2, 0, 1, 3).flatten(2))
        if need_head_weights:
            return x, weights.transpose(0, 1)
        return x, weights.mean(dim=1) if need_weights else None

    def _of_source(self, states: Tensor, walks: Tensor) -> dict[str, Tensor]:
        """Return what depends on the source alone, with a first dimension of the batch, which beams reorder."""
        padding = padding_bias(walks[:, 0] == PADDING, at_least_float32(states[:0]).dtype)[:, None, None]
        bias = self.walk_table(Buckets(walks.clamp(min=PADDING + 1))).bias
        scores = at_least_float32(self.walk_scores(states)).permute(1, 2, 0).unsqueeze(2)
        return {
            "prev_key": self._heads(self.k_proj(states)),
            "prev_value": self._heads(self.v_proj(states)),
            "padding": padding,
            "walks": bias,
            "walk_scores": scores + padding,
        }

    def _heads(self, x: Tensor) -> Tensor:
        """Split ``(length, batch, embed_dim)`` into ``(batch, heads, length, head_dim)``."""
        return x.unflatten(2, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)


class WindowAttention(MultiheadAttention):
    """fairseq's self-attention of a decoder, which in generation forgets all but the last tokens.

    In a whole pass the decoder's mask does the same.

    Args:
        window: the number of tokens that are left, the query's own included.
        **kwargs: arguments of :class:`~fairseq.modules.MultiheadAttention`.
    """

    def __init__(self, *args: Any, window: int, **kwargs: Any):
        super().__init__(*args, self_attention=True, **kwargs)
        self.window = window

    def forward(self, query: Tensor, *args: Any, key_padding_mask: Tensor | None = None, **kwargs: Any) -> Any:
        """As fairseq's, but padding after a token is not masked, so that no row of a window is all masked.

        Tokens do not see what is after them anyway.
        """
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask & (~key_padding_mask).cumsum(dim=1).eq(0)
        return super().forward(query, *args, key_padding_mask=key_padding_mask, **kwargs)

    def _set_input_buffer(self, incremental_state: Any, buffer: dict[str, Tensor | None]) -> Any:
        kept = self.window - 1
        if not kept:
            return incremental_state
        last = {
            name: x if x is None else x[..., -kept:, :] if x.dim() > 2 else x[:, -kept:] for name, x in buffer.items()
        }
        return super()._set_input_buffer(incremental_state, last)
