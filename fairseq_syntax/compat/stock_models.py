"""Stock models beside ours in one ensemble.

What is wrong: fairseq hands all of ``net_input`` to each model of an ensemble and to its encoder. A stock model has no
parameter ``src_syntax``, and raises a TypeError.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/sequence_generator.py (``EnsembleModel.forward_encoder``,
and through it ``FairseqEncoder.forward_non_torchscript``) and
https://github.com/facebookresearch/fairseq/blob/main/fairseq/sequence_scorer.py (``model(**net_input)``)

The repair: generators and scorers get views of such models (:class:`StockModel`). The models themselves stay as they
are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn


class StockModel(nn.Module):
    """A model, or its encoder, that takes ``src_syntax`` and leaves it out."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model: Any = model

    def forward(self, *args: Any, src_syntax: Any = None, **kwargs: Any) -> Any:
        """As the model's."""
        return self.model(*args, **kwargs)

    def forward_torchscript(self, net_input: Mapping[str, Any]) -> Any:
        """As the encoder's, which generation calls."""
        return self.model.forward_torchscript({k: v for k, v in net_input.items() if k != "src_syntax"})

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            found = getattr(super().__getattr__("model"), name)
            return StockModel(found) if name == "encoder" else found
