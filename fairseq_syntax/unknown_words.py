"""What ``--replace-unk`` needs to know: which source token each target token looks at most.

fairseq 0.12 asks its generator for that, which does not say, and turns the attention off that says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn


def keep_attention(models: Iterable[nn.Module]) -> None:
    """Makes the models' decoders give their attention on the source during generation."""
    for model in models:
        for module in model.modules():
            if isinstance(module, TransformerDecoderLayerBase):
                module.need_attn = True


def align(hypotheses: list[list[dict[str, Any]]], src_tokens: Tensor, pad: int) -> None:
    """Sets the ``alignment`` of hypotheses with attention to the source token, from 0, of each target token.

    Args:
        hypotheses: of each sentence of a batch, as fairseq's generator returns them.
        src_tokens: the batch, ``(batch, n)``, padded on the left or on the right.
    """
    for tokens, found in zip(src_tokens, hypotheses, strict=True):
        first = int(tokens.ne(pad).int().argmax())
        for hypothesis in found:
            if hypothesis["attention"].numel():
                hypothesis["alignment"] = hypothesis["attention"].argmax(dim=0).cpu() - first
