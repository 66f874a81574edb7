"""Cross-attention that walks the tree, for depth: a ``--user-dir``.

Tried and not chosen (docs/results.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

import fairseq_syntax  # noqa: F401  (the task and the models)
from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.models.decoder import SyntaxDecoder, SyntaxDecoderLayer
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.modules.attention import scores
from fairseq_syntax.modules.biases import Buckets, TreePath
from fairseq_syntax.modules.syntax_batch import SyntaxBatch

#: Paths from token to token, in the encoder's output.
_PATHS = "paths"


@register_model("tree_walk")
class TreeWalkModel(SyntaxTransformerModel):
    """The syntax Transformer whose decoder has :class:`WalkingAttention`."""

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Any, embed_tokens: nn.Embedding) -> TreeWalkEncoder:
        return TreeWalkEncoder(cfg, src_dict, embed_tokens, cfg.syntax)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> TreeWalkDecoder:
        return TreeWalkDecoder(cfg, tgt_dict, embed_tokens)


for size in ("", "_tiny"):
    register_model_architecture("tree_walk", f"tree_walk_transformer{size}")(
        ARCH_CONFIG_REGISTRY[f"tree_bias_transformer{size}"]
    )


class TreeWalkEncoder(SyntaxTransformerEncoder):
    """An encoder that gives the decoder the paths between the source's tokens."""

    def forward(self, src_tokens: Tensor, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """As without; the output has ``paths``, numbers of :class:`TreePath`, ``(batch, n, n)``."""
        features = SyntaxBatch.of(kwargs["src_syntax"])
        paths = TreePath().bias(features["word"], features["head"]).numbers
        return {**super().forward(src_tokens, **kwargs), _PATHS: [paths]}

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """As without, with the paths."""
        paths = [x.index_select(0, new_order) for x in encoder_out[_PATHS]]
        return {**super().reorder_encoder_out(encoder_out, new_order), _PATHS: paths}


@dataclass
class Walk:
    """What the layers of one pass share.

    Attributes:
        paths: see :class:`TreeWalkEncoder`.
        below: A of the layer below, the mean of its heads, ``(batch, m, n)``; ``None`` in the first layer.
    """

    paths: Tensor
    below: Tensor | None = None


class WalkingAttention(MultiheadAttention):
    """Cross-attention of which each step depends on where the layer below was a step before.

    Its scores are x_tj = q_t·k_j/√d + Σ_i A'_{t-1,i}·T_h[path(i, j)], with A' of the layer below, through which no
    gradient flows, and a table T of each head, 0 at first. The first layer has none; the first step has q·k alone.
    """

    def __init__(self, embed_dim: int, num_heads: int, **others: Any):
        super().__init__(embed_dim, num_heads, encoder_decoder_attention=True, **others)
        self.table: nn.Module | None = TreePath().build_layer_module(
            heads=num_heads, head_dim=self.head_dim, embed_dim=embed_dim
        )
        self.walk: Walk | None = None

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, Any] | None = None,
        need_head_weights: bool = False,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        """As fairseq's, of ``(m, batch, embed_dim)`` and ``(n, batch, embed_dim)``."""
        assert self.walk is not None
        assert key is not None
        parts = zip((self.q_proj, self.k_proj, self.v_proj), (query, key, key), strict=True)
        q, k, v = (f(x).unflatten(2, (self.num_heads, -1)).permute(1, 2, 0, 3) for f, x in parts)
        x = scores(q, k)
        if self.table is not None and (before := self._step_before(incremental_state)) is not None:
            x = x + torch.einsum("bmi,bhij->bhmj", before, self.table(Buckets(self.walk.paths)).bias)
        if key_padding_mask is not None:
            x = x.masked_fill(key_padding_mask[:, None, None].bool(), -torch.inf)
        attention = x.softmax(dim=3)
        self.walk.below = attention.mean(dim=1).detach()
        output = (self.dropout_module(attention) @ v).permute(2, 0, 1, 3).flatten(2)
        return self.out_proj(output), attention.transpose(0, 1) if need_head_weights else self.walk.below

    def _step_before(self, incremental_state: dict[str, Any] | None) -> Tensor | None:
        """A' of the step before each, ``(batch, m, n)``, 0 in the first."""
        assert self.walk is not None
        below = self.walk.below
        assert below is not None
        if incremental_state is None:
            return F.pad(below, (0, 0, 1, -1))
        saved = self.get_incremental_state(incremental_state, "below")
        self.set_incremental_state(incremental_state, "below", {"attention": below})
        return None if saved is None else saved["attention"]

    def reorder_incremental_state(self, incremental_state: dict[str, Any] | None, new_order: Tensor) -> Any:
        """Reorder hypotheses."""
        if incremental_state and (saved := self.get_incremental_state(incremental_state, "below")) is not None:
            reordered = {"attention": saved["attention"].index_select(0, new_order)}
            self.set_incremental_state(incremental_state, "below", reordered)
        return incremental_state


class TreeWalkLayer(SyntaxDecoderLayer):
    """A layer with :class:`WalkingAttention`."""

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        dims = {"kdim": cfg.encoder.embed_dim, "vdim": cfg.encoder.embed_dim}
        return WalkingAttention(embed_dim, cfg.decoder.attention_heads, dropout=cfg.attention_dropout, **dims)


class TreeWalkDecoder(SyntaxDecoder):
    """fairseq's decoder of such layers."""

    layer_type: ClassVar[type[SyntaxDecoderLayer]] = TreeWalkLayer

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding):
        super().__init__(cfg, dictionary, embed_tokens)
        self.layers[0].encoder_attn.table = None

    def extract_features(self, prev_output_tokens: Tensor, encoder_out: Any, *args: Any, **kwargs: Any) -> Any:
        """As fairseq's; `encoder_out` is that of :class:`TreeWalkEncoder`."""
        walk = Walk(*encoder_out[_PATHS])
        for layer in self.layers:
            layer.encoder_attn.walk = walk
        return super().extract_features(prev_output_tokens, encoder_out, *args, **kwargs)
