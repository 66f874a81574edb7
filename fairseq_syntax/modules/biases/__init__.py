"""Attention biases of syntax; one file a paper, which declares its options.

One polarity everywhere: a mask m is kept as its logarithm, in float32, rows being queries and columns keys. 0 is
visible, -inf is hidden, anything between is partly visible. It is added to attention scores:
softmax(x + log m) = m·exp(x) / Σ m·exp(x), the masked softmax of Hou 2024, eq. (9).

Features are integers of shape ``(batch, n)``; :data:`UNKNOWN` marks positions without any: padding, and all of a
sentence that has no parse. There a query sees everything (padding keys have a bias of their own), so no row is ever
empty, and a sentence without a parse is not masked at all.
"""

from fairseq_syntax.modules.biases.batch import BatchBiases, BiasBuilder
from fairseq_syntax.modules.biases.bias import AttentionBias, Buckets, PairValues
from fairseq_syntax.modules.biases.bias_tables import (
    BiasTable,
    RelativePosition,
    TableBias,
    TreeHeight,
    TreePath,
    WordBoundary,
    columns_of_sums,
    sum_of_tables,
)
from fairseq_syntax.modules.biases.lisa import PredictedParent
from fairseq_syntax.modules.biases.parent import ParentScaling
from fairseq_syntax.modules.biases.registry import (
    SyntaxBias,
    bias_names,
    bias_options,
    bias_type,
    register_syntax_bias,
)
from fairseq_syntax.modules.biases.sdoi import SyntacticDependencyOfInterest
from fairseq_syntax.modules.biases.sla import SyntaxAwareLocalAttention
from fairseq_syntax.modules.biases.slr import SyntacticLocalRange
from fairseq_syntax.modules.biases.tree_edge import TreeCategory, TreeEdge
from fairseq_syntax.modules.numerics import UNKNOWN

__all__ = [
    "UNKNOWN", "AttentionBias", "BatchBiases", "BiasBuilder", "BiasTable", "Buckets", "PairValues", "ParentScaling",
    "PredictedParent", "RelativePosition", "SyntacticDependencyOfInterest", "SyntacticLocalRange",
    "SyntaxAwareLocalAttention", "SyntaxBias", "TableBias", "TreeCategory", "TreeEdge", "TreeHeight", "TreePath",
    "WordBoundary", "bias_names", "bias_options", "bias_type", "columns_of_sums",
    "register_syntax_bias", "sum_of_tables",
]  # fmt: skip
