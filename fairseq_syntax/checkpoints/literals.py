"""Configurations hold values, never code.

What is wrong: fairseq 0.12.2, main and fairseq-fixed 0.12.3 run some options as Python (``eval``):
``--adaptive-softmax-cutoff``, ``--adam-betas``, the layers of convolutional models. A checkpoint brings its options
along, so that loading it runs what its author likes, however safely torch reads the file. Of a kind with
https://github.com/facebookresearch/fairseq/issues/4869, for example in
https://github.com/facebookresearch/fairseq/blob/main/fairseq/optim/adam.py

The repair: :func:`disable_eval` makes literals of them.
"""

from __future__ import annotations

import ast
import importlib
import operator
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from syntax_data.errors import short_repr

#: The modules of fairseq that call ``eval`` (on options, and on lines of data).
_MODULES = (
    "criterions.ctc",
    "data.audio.raw_audio_dataset",
    "data.codedataset",
    "models.fconv",
    "models.fconv_lm",
    "models.fconv_self_att",
    "models.hubert.hubert",
    "models.lightconv_lm",
    "models.speech_to_text.s2t_wav_transformer",
    "models.transformer_lm",
    "models.wav2vec.wav2vec",
    "models.wav2vec.wav2vec2",
    "optim.adafactor",
    "optim.adam",
    "optim.adamax",
    "optim.cpu_adam",
    "optim.fused_lamb",
    "utils",
)

#: The options that they call it on.
OPTIONS = frozenset(
    {
        "adafactor_eps", "adam_betas", "adamax_betas", "adaptive_input_cutoff", "adaptive_softmax_cutoff",
        "character_filters", "conv_aggregator_layers", "conv_feature_layers", "decoder_attention", "decoder_layers",
        "decoder_xformers_att_config", "downsample", "encoder_attention", "encoder_layers",
        "encoder_xformers_att_config", "feature_encoder_spec", "gated_attention", "lamb_betas", "left_pad_source",
        "left_pad_target", "pipeline_balance", "pipeline_decoder_balance", "pipeline_decoder_devices",
        "pipeline_devices", "pipeline_encoder_balance", "pipeline_encoder_devices", "pretrained", "project_input",
        "self_attention", "wer_args", "xformers_att_config",
    }
)  # fmt: skip

_OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul}
#: So many items or characters may a sum or product have, and so many bits, if it is a number.
_LONGEST = 10_000


def disable_eval() -> None:
    """From now on, where fairseq calls ``eval``, it calls :func:`literal`: a module's own names go before Python's."""
    for name in _MODULES:
        vars(importlib.import_module(f"fairseq.{name}"))["eval"] = literal


def literal(text: object) -> Any:
    """The value of a literal, or of a sum or product of some, such as ``[(512, 3)] * 4 + [(512, 2)]``.

    Raises:
        TypeError: `text` is no string. (fairseq counts on that.)
        ValueError: it is anything else.
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
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if _size(left, right, product=isinstance(node.op, ast.Mult)) > _LONGEST:
            raise ValueError(f"expected at most {_LONGEST} items, characters or bits")
        return _OPERATORS[type(node.op)](left, right)
    return ast.literal_eval(node)


def _size(left: Any, right: Any, *, product: bool) -> int:
    """So many items, characters or bits will the sum or product of two values have, at most."""
    sequences = [value for value in (left, right) if hasattr(value, "__len__")]
    if product and sequences:
        times = left if right is sequences[0] else right
        return len(sequences[0]) * times if isinstance(times, int) else 0  # Python takes no other number
    return sum(map(len, sequences)) + sum(v.bit_length() for v in (left, right) if isinstance(v, int))


def code(configuration: object) -> Iterator[tuple[str, str]]:
    """The options in a configuration (mappings, sequences, namespaces) that fairseq would run and that are no literals,
    with their values."""
    if isinstance(configuration, Namespace):
        configuration = vars(configuration)
    if isinstance(configuration, dict):
        for name, value in configuration.items():
            if name in OPTIONS and isinstance(value, str) and not _is_literal(value):
                yield name, value
            yield from code(value)
    elif isinstance(configuration, (list, tuple)):
        for value in configuration:
            yield from code(value)


def _is_literal(text: str) -> bool:
    try:
        literal(text)
    except ValueError:
        return False
    return True
