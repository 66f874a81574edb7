"""Gates, masks, biases and attention of sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fairseq_syntax.models.syntax_model import SyntaxModel
from fairseq_syntax.modules.biases import AttentionBias
from fairseq_syntax.modules.trace import SyntaxTrace

CONTENTS = ("gates", "masks", "biases", "attention")


def analyse(model: Any, batch: Mapping[str, Any], contents: Sequence[str] = CONTENTS) -> dict[str, torch.Tensor]:
    """Return gates, masks, biases and attention of a batch, batch first, with padding.

    Args:
        model: a :class:`~fairseq_syntax.models.syntax_model.SyntaxModel`.
        contents: the wanted ones of :data:`CONTENTS`. A model without gates has no gates, one without tables of learned
            biases no biases, and one with a learned mask no masks.

    Raises:
        ValueError: the model is another one; or masks are wanted, and one is no matrix.
    """
    if not isinstance(model, SyntaxModel):
        raise ValueError(f"expected a model with a syntax encoder, found a {type(model).__name__}")
    net_input = {name: batch["net_input"].get(name) for name in ("src_tokens", "src_lengths", "src_syntax")}
    asked = [name for name in ("gates", "attention") if name in contents and (name != "gates" or model.gates)]
    found = {}
    if asked:
        trace = SyntaxTrace(asked)
        with torch.no_grad():
            model.syntax_encoder(**net_input, trace=trace)
        found = {name: trace.stacked(name) for name in asked}
    tables = model.learned_biases
    if not {"masks", "biases"}.isdisjoint(contents):
        masks = model.syntax_encoder.bias_builder(net_input["src_syntax"], net_input["src_tokens"])
        if "masks" in contents and masks.biases and all(isinstance(expert, AttentionBias) for expert in masks.biases):
            found["masks"] = masks.masks
        if "biases" in contents and tables:
            with torch.no_grad():
                layers = [attention.learned_biases(masks) for attention in model.syntax_attentions.values()]
            found["biases"] = torch.stack([torch.stack([of[name] for name in tables], 1) for of in layers], 1)
    return {name: found[name] for name in CONTENTS if name in found}


def by_sentence(
    model: Any, batch: Mapping[str, Any], *, pad: int, contents: Sequence[str] = CONTENTS
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yield each sentence's number and float32 arrays of :func:`analyse`, unpadded.

    - ``gates``: layers × masks × heads, where the model has gates;
    - ``masks``: masks × n × n, where all layers share them; rows are queries; of ``parent`` the factor of scores;
    - ``biases``: layers × tables × heads × n × n, where biases are learned, tables as the model's ``learned_biases``;
    - ``attention``: layers × heads × n × n.
    """
    real = batch["net_input"]["src_tokens"].ne(pad).cpu().numpy()
    arrays = {name: found.float().cpu().numpy() for name, found in analyse(model, batch, contents).items()}
    for row, number in enumerate(batch["id"].tolist()):
        at = real[row]
        yield number, {name: a[row] if name == "gates" else a[row][..., at, :][..., at] for name, a in arrays.items()}
