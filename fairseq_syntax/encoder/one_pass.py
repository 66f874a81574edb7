"""The layers of an encoder in one forward pass, with what syntax does in them and before them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from fairseq_syntax.encoder.layer import SharedPadding
from fairseq_syntax.modules.attention import scores
from fairseq_syntax.modules.biases import BatchBiases
from fairseq_syntax.modules.gate_norm import RunningStatistics
from fairseq_syntax.modules.heads import HiddenDistances, Predictor, corrupt_distances
from fairseq_syntax.modules.numerics import UNKNOWN, padding_bias
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.modules.tree_mixing import TreeMixing, descendant_depths, descendant_weights


@dataclass(frozen=True)
class Mixture:
    """What a batch's trees say of the mixtures that layers read.

    Attributes:
        module: makes the mixtures.
        descendants: D̃, ``(batch, n, n)``.
        parsed: whether the sentence has a parse, ``(batch,)``.
        hidden: distances that are hidden in D̃, to be predicted.
    """

    module: TreeMixing
    descendants: Tensor
    parsed: Tensor
    hidden: HiddenDistances | None

    @classmethod
    def of(cls, syntax: Mapping[str, Tensor], module: TreeMixing, predictor: Predictor | None) -> Mixture:
        """Of a batch's features; some distances are hidden if there is something that predicts them."""
        word, head = syntax["word"], syntax["head"]
        known = (word != UNKNOWN) & (head != UNKNOWN)
        descent = descendant_depths(word, head) * (known.unsqueeze(2) & known.unsqueeze(1))
        hidden = None if predictor is None else corrupt_distances(descent, word, head, rate=predictor.options.rate)
        shown = descent if hidden is None else hidden.shown
        return cls(module, descendant_weights(shown), known.any(dim=1), hidden)

    def __call__(self, x: Tensor, layer: int) -> Tensor:
        return self.module(x, layer, descendants=self.descendants, parsed=self.parsed)


class LayersOfOnePass:
    """What fairseq's forward pass iterates over: the encoder's layers, with what syntax does in them and before them.

    Args:
        layers: the encoder's.
        guided: the numbers, from 1, of those that masks enter.
        syntax: the batch's masks.
        statistics: of the gates, if they move.
        trace: is filled, if there is one.
        mixture: makes what layers read, if something does.
        predicts: whether guided layers are asked for predictions.
        watched: whether the attention of fairseq's own layers is traced.

    Attributes:
        predictions: of the layers that ran, ``(batch, 1, n, n)`` each.
        padding: fairseq's, as the first syntax layer that ran got it; all others get the same.
    """

    def __init__(
        self,
        layers: nn.ModuleList,
        guided: Collection[int],
        *,
        syntax: BatchBiases,
        statistics: RunningStatistics | None,
        trace: SyntaxTrace | None,
        mixture: Mixture | None,
        predicts: bool,
        watched: bool,
    ):
        self.layers = layers
        self.guided = guided
        self.syntax = syntax
        self.statistics = statistics
        self.trace = trace
        self.mixture = mixture
        self.predicts = predicts
        self.watched = watched
        self.predictions: list[Tensor] = []
        self.padding: SharedPadding | None = None

    def __iter__(self) -> Iterator[Any]:
        numbers = {id(self.layers[i]): i + 1 for i in range(len(self.layers))}
        for layer in self.layers:  # under layer drop, some of them
            number = numbers[id(layer)]
            called: Any = layer
            if number in self.guided:
                called = self.guided_layer(layer, number)
            elif self.watched:
                called = partial(self._watch, layer, number)
            yield called if self.mixture is None else partial(self._after_mixture, called, number)

    def guided_layer(self, layer: nn.Module, number: int) -> Any:
        """A guided layer as fairseq calls it."""
        return partial(self._expert, layer, number)

    def _expert(self, layer: nn.Module, number: int, x: Tensor, encoder_padding_mask: Tensor | None) -> Any:
        if self.padding is None:
            self.padding = SharedPadding(encoder_padding_mask)
        asked = () if self.trace is None else self.trace.contents
        contents = (*asked, "prediction") if self.predicts else asked
        if not contents:
            return layer(x, self.padding, syntax=self.syntax, statistics=self.statistics)
        x, fc_result, *seen = layer(x, self.padding, syntax=self.syntax, statistics=self.statistics, contents=contents)
        if self.predicts and (prediction := seen.pop()) is not None:
            self.predictions.append(prediction)
        if self.trace is not None:
            self.trace.add(number, seen)
        return x if fc_result is None else (x, fc_result)

    def _watch(self, layer: nn.Module, number: int, x: Tensor, encoder_padding_mask: Tensor | None) -> Any:
        """Calls one of fairseq's layers; its attention, which it does not hand on, is computed once more."""
        assert self.trace is not None
        inner = next(module for module in layer.modules() if isinstance(module, TransformerEncoderLayerBase))
        attention, query = inner.self_attn, inner.self_attn_layer_norm(x) if inner.normalize_before else x
        q, k = (
            projection(query).unflatten(2, (attention.num_heads, -1)).flatten(1, 2).transpose(0, 1)
            for projection in (attention.q_proj, attention.k_proj)
        )
        found = scores(q * attention.scaling, k, heads=attention.num_heads)
        if encoder_padding_mask is not None:
            found = found + padding_bias(encoder_padding_mask, found.dtype)[:, None, None]
        kept = {"attention": found.softmax(dim=-1)}
        self.trace.add(number, [kept.get(name) for name in self.trace.contents])
        return layer(x, encoder_padding_mask=encoder_padding_mask)

    def _after_mixture(self, layer: Any, number: int, x: Tensor, encoder_padding_mask: Tensor | None) -> Any:
        assert self.mixture is not None
        return layer(self.mixture(x, number), encoder_padding_mask=encoder_padding_mask)
