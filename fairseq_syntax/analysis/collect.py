"""What the syntax-guided attention of a model does with sentences: gates, masks and attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from fairseq_syntax.nn.calls import one_thread, outputs_of

CONTENTS = ("gates", "masks", "attention")


def analyse(model: Any, batch: Mapping[str, Any], contents: Sequence[str] = CONTENTS) -> dict[str, torch.Tensor]:
    """Gates, masks and attention of a batch, by these names, the batch being the first axis; padding included.

    Args:
        model: a :class:`~fairseq_syntax.models.gated_syntax_transformer.GatedSyntaxTransformerModel`.
        contents: which of :data:`CONTENTS` are wanted; a model whose masks are not mixed by gates has none.

    Raises:
        ValueError: the model is another one.
    """
    if not hasattr(model, "guided"):
        raise ValueError(f"expected a gated_syntax_transformer, found a {type(model).__name__}")
    gates = list(model.gates.values()) if "gates" in contents else []
    guided = list(model.guided.values()) if "attention" in contents else []
    net_input = {name: batch["net_input"][name] for name in ("src_tokens", "src_lengths", "src_syntax")}
    with one_thread, ExitStack() as stack:
        for attention in guided:  # fused attention has no A to show
            stack.callback(setattr, attention, "implementation", attention.implementation)
            attention.implementation = "plain"
        outputs = stack.enter_context(outputs_of([*gates, *(attention.dropout_module for attention in guided)]))
        stack.enter_context(torch.no_grad())
        model.encoder(**net_input)
    found = {}
    if gates:
        found["gates"] = torch.stack([outputs[gate][0] for gate in gates], dim=1)
    if "masks" in contents:
        found["masks"] = model.encoder.masks(net_input["src_syntax"]).masks
    if guided:
        found["attention"] = torch.stack([outputs[attention.dropout_module][0] for attention in guided], dim=1)
    return found


def by_sentence(
    model: Any, batch: Mapping[str, Any], *, pad: int, contents: Sequence[str] = CONTENTS
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """For each sentence of a batch its number and the arrays of :func:`analyse`, without padding, in float32:

    - ``gates``: layers × masks × heads, where the model has gates;
    - ``masks``: masks × n × n; rows are queries;
    - ``attention``: layers × heads × n × n.
    """
    real = batch["net_input"]["src_tokens"].ne(pad).cpu().numpy()
    arrays = {name: found.float().cpu().numpy() for name, found in analyse(model, batch, contents).items()}
    for row, number in enumerate(batch["id"].tolist()):
        at = real[row]
        yield number, {name: a[row] if name == "gates" else a[row][..., at, :][..., at] for name, a in arrays.items()}
