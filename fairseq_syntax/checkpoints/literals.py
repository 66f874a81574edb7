"""Configurations hold values, never code.

What is wrong: fairseq runs some options as Python (``eval``): ``--adaptive-softmax-cutoff``, ``--adam-betas``, the
layers of convolutional models. A checkpoint brings its options along, so that loading it runs code of its author,
however safely torch reads the file. Of a kind with https://github.com/facebookresearch/fairseq/issues/4869, for example
in https://github.com/facebookresearch/fairseq/blob/main/fairseq/optim/adam.py

The repair: :func:`disable_eval` reads them as literals.
"""

from __future__ import annotations

import ast
import importlib
from typing import Any

from syntax_data.errors import short_repr

#: The modules of fairseq that call ``eval`` (on options, and on lines of data).
_MODULES = (
    "criterions.ctc", "data.audio.raw_audio_dataset", "data.codedataset", "models.fconv", "models.fconv_lm",
    "models.fconv_self_att", "models.hubert.hubert", "models.lightconv_lm",
    "models.speech_to_text.s2t_wav_transformer", "models.transformer_lm", "models.wav2vec.wav2vec",
    "models.wav2vec.wav2vec2", "optim.adafactor", "optim.adam", "optim.adamax", "optim.cpu_adam", "optim.fused_lamb",
    "utils",
)  # fmt: skip

#: The most items of a sum or multiple.
_LONGEST = 10_000


def disable_eval() -> None:
    """Replace ``eval`` in fairseq by :func:`literal`: a module's own names go before Python's."""
    for name in _MODULES:
        vars(importlib.import_module(f"fairseq.{name}"))["eval"] = literal


def literal(text: object) -> Any:
    """Return the value of a literal, or of sums and multiples of lists.

    For example ``[(512, 3)] * 4 + [(512, 2)]``. Raises :class:`TypeError` for what is no string (fairseq counts on
    that), :class:`ValueError` for other strings.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected a string, found {short_repr(text)}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ValueError(
            f"expected a literal, such as 0.9 or [1, 2], found {short_repr(text)}, which is not run"
        ) from error


def _value(node: ast.expr) -> Any:
    if not isinstance(node, ast.BinOp):
        return ast.literal_eval(node)
    left, right = _value(node.left), _value(node.right)
    if isinstance(left, list):
        if isinstance(node.op, ast.Add) and isinstance(right, list) and len(left) + len(right) <= _LONGEST:
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(right, int) and len(left) * right <= _LONGEST:
            return left * right
    raise ValueError(f"expected sums and multiples of lists, of at most {_LONGEST} items")
