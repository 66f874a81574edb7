"""Syntax masks: what a batch's features say of who sees whom. One file a mask, which declares its own options.

One polarity everywhere: a mask m is kept as its logarithm, in float32, rows being queries and columns keys. 0 is
visible, -inf is hidden, anything between is partly visible. It is added to attention scores:
softmax(x + log m) = m·exp(x) / Σ m·exp(x), the masked softmax of Hou 2024, eq. (9).

Features arrive as integers of shape ``(batch, n)``; :data:`UNKNOWN` marks positions without any: padding, and all of a
sentence that has no parse. There a query sees everything (padding keys are for the attention's key-padding mask), so no
row is ever empty, and a sentence without a parse is not masked at all.
"""

from fairseq_syntax.nn.masks.base import (
    UNKNOWN,
    BatchMasks,
    Guide,
    MaskBuilder,
    SyntaxMask,
    mask_names,
    mask_options,
    mask_type,
    register_syntax_mask,
)
from fairseq_syntax.nn.masks.sdoi import SyntacticDependencyOfInterest, sdoi
from fairseq_syntax.nn.masks.slr import SyntacticLocalRange, hard_slr, soft_slr

__all__ = [
    "UNKNOWN",
    "BatchMasks",
    "Guide",
    "MaskBuilder",
    "SyntacticDependencyOfInterest",
    "SyntacticLocalRange",
    "SyntaxMask",
    "hard_slr",
    "mask_names",
    "mask_options",
    "mask_type",
    "register_syntax_mask",
    "sdoi",
    "soft_slr",
]
