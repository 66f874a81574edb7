"""What ``--replace-unk`` needs to know: which source token each target token looks at most.

fairseq 0.12 takes that from its generator, which does not say.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


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
