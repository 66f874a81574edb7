"""``--replace-unk``: an unknown word is replaced by the source word with the most attention.

What is wrong: fairseq takes that word from a hypothesis's ``alignment``, which the generator leaves empty. The first
unknown word ends in an IndexError (https://github.com/facebookresearch/fairseq/issues/686). Under ``--print-alignment``
there are pairs where indices are expected (https://github.com/facebookresearch/fairseq/issues/3533), and under
``--remove-bpe`` subwords are counted on one side and words on the other.

The repair: the task fills in the alignment (:func:`align`), and refuses the options with which fairseq would still
count otherwise (:func:`are_replaced`).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


def are_replaced(options: object, post_process: str | None) -> bool:
    """Return if options of generation ask for ``--replace-unk``.

    Raises :class:`ValueError` if it would replace by the wrong words; `post_process` is ``--remove-bpe``.
    """
    asked = getattr(options, "replace_unk", None) is not None
    if asked and (post_process or getattr(options, "print_alignment", None)):
        raise ValueError(
            "--replace-unk: expected neither --remove-bpe nor --print-alignment beside it, under which fairseq "
            "counts words otherwise (fairseq-syntax-score --remove-bpe undoes subwords afterwards)"
        )
    return asked


def align(hypotheses: list[list[dict[str, Any]]], src_tokens: Tensor, pad: int) -> None:
    """Set the ``alignment`` of hypotheses: the source token of each target token.

    It counts from 0. `src_tokens` are ``(batch, n)``, padded on the left or on the right.
    """
    for tokens, found in zip(src_tokens, hypotheses, strict=True):
        first = int(tokens.ne(pad).int().argmax())
        for hypothesis in found:
            if hypothesis["attention"].numel():
                hypothesis["alignment"] = hypothesis["attention"].argmax(dim=0).cpu() - first
