"""What the syntax-guided attention of a model does with sentences: gates, masks and attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fairseq_syntax.modules.calls import outputs_of

CONTENTS = ("gates", "masks", "attention")


def analyse(model: Any, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Gates, masks and attention of a batch, by these names, the batch being the first axis; padding included.

    Args:
        model: a :class:`~fairseq_syntax.models.gated_syntax_transformer.GatedSyntaxTransformerModel`.
    """
    guided = list(model.guided.values())
    for attention in guided:
        attention.implementation = "plain"  # fused attention has no A to show
    net_input = {name: batch["net_input"][name] for name in ("src_tokens", "src_lengths", "src_syntax")}
    with torch.no_grad(), outputs_of([*model.gates.values(), *(a.dropout_module for a in guided)]) as outputs:
        model.encoder(**net_input)
    found = {
        "masks": model.encoder.masks(net_input["src_syntax"]).masks,
        "attention": torch.stack([outputs[attention.dropout_module][0] for attention in guided], dim=1),
    }
    if model.gates:
        found["gates"] = torch.stack([outputs[gate][0] for gate in model.gates.values()], dim=1)
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
    found = analyse(model, batch)
    arrays = {name: found[name].float().cpu().numpy() for name in contents if name in found}
    for row, number in enumerate(batch["id"].tolist()):
        at = real[row]
        yield number, {name: a[row] if name == "gates" else a[row][..., at, :][..., at] for name, a in arrays.items()}
