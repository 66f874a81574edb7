"""The path through the dependency tree, learned."""

from __future__ import annotations

from torch import Tensor, nn

from fairseq_syntax.modules.biases.base import Buckets, SyntaxBias, register_syntax_bias
from fairseq_syntax.modules.biases.table import BiasTable
from fairseq_syntax.modules.dependency import ancestors, common_ancestors

#: Steps up and steps down are told apart to here.
_MOST_STEPS = 4

#: Of each side, one for each number of steps up and down.
_PATHS = (_MOST_STEPS + 1) ** 2

_SELF, _NO_PATH = 2 * _PATHS, 2 * _PATHS + 1

#: How many numbers a head has.
TREE_PATHS = _NO_PATH + 1


@register_syntax_bias("tree_path")
class TreePath(SyntaxBias):
    """A learned bias by the path from word to word in the dependency tree, and its side.

    Every guided layer has a table. The path is how many steps lead up from i's word to the lowest common ancestor, and
    how many down from there to j's; Graphormer (Ying et al. 2021, §3.1.2) has one for the length of a path.
    """

    features = ("word", "head")

    def bias(self, *features: Tensor, **labels: Tensor) -> Buckets:
        word, head = features
        return path_buckets(word, head)

    def build_layer_module(self, *, heads: int, head_dim: int, embed_dim: int) -> nn.Module:
        return BiasTable(heads=heads, buckets=TREE_PATHS)


def path_buckets(word: Tensor, head: Tensor) -> Buckets:
    """The buckets of steps up, steps down and side.

    The lowest common ancestor lies as many steps below the root as two words have ancestors in common, themselves
    included, less one: so one matrix product finds all of them.

    Args:
        word: index of each position's word, ``(batch, n)``.
        head: 0 or 1 + index of the head's word, ``(batch, n)``; see :mod:`syntax_data.features`. Steps over words
            that were cut off, or have no subword, do not count.

    Returns:
        ``(batch, n, n)``; rows are queries. Of u steps up and v down, both 4 for 4 and more, 5u + v for a j to the
        left, 25 + 5u + v to the right; so subwords of one word have 0 and 25. 50 is the position itself, 51 no path:
        ``</s>`` to all others and back, and another sentence of the line.

    Raises:
        ValueError: the heads of a sentence lead into a cycle; see :func:`~fairseq_syntax.modules.dependency.ancestors`.
    """
    common = common_ancestors(ancestors(word, head))
    of_itself = common.diagonal(dim1=1, dim2=2)
    up = (of_itself.unsqueeze(2) - common).clamp_(max=_MOST_STEPS)
    down = (of_itself.unsqueeze(1) - common).clamp_(max=_MOST_STEPS)
    to_the_right = common.new_ones(common.shape[1:]).triu(1)
    path = up * (_MOST_STEPS + 1) + down + _PATHS * to_the_right
    path.masked_fill_(common == 0, _NO_PATH)
    path.diagonal(dim1=1, dim2=2).fill_(_SELF)
    return Buckets(path)
