"""fairseq's Transformer encoder, with a place for syntax in the attention of its layers."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from fairseq_syntax.models.encoder_layer import SyntaxEncoderLayer
from fairseq_syntax.nn.masks import BatchMasks, MaskBuilder, position_buckets
from fairseq_syntax.nn.trace import SyntaxTrace


class SyntaxTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with syntax in the self-attention of the chosen layers.

    The batch's masks are built once, on the device of its features, and shared by all layers.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, **kwargs: Any):
        self._numbers = itertools.count(1)  # of the layers, in the order in which super() builds them
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        del self._numbers
        self.mask_builder = MaskBuilder(cfg.masks, position=position_buckets if cfg.position_bias else None)
        self.guided_numbers = cfg.syntax_layer_numbers

    def __prepare_scriptable__(self) -> nn.Module:  # torch.jit.script calls it of a module and all within
        raise NotImplementedError(
            "TorchScript cannot express how an encoder layer gets the syntax features of a batch: "
            "use torch.compile of the encoder, or the model as it is"
        )

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        if next(self._numbers) not in cfg.syntax_layer_numbers:
            return super().build_encoder_layer(cfg)
        layer: nn.Module = SyntaxEncoderLayer(cfg, return_fc=self.return_fc)
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    @property
    def guided_layers(self) -> dict[int, SyntaxEncoderLayer]:
        """The layers that syntax enters, by their number from 1; without what fairseq may have wrapped them in."""
        layers = self.layers  # by index: under layer drop, iterating draws random numbers
        modules = ((i + 1, module) for i in range(len(layers)) for module in layers[i].modules())
        return {number: module for number, module in modules if isinstance(module, SyntaxEncoderLayer)}

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        src_syntax: Mapping[str, Tensor] | None = None,
        trace: SyntaxTrace | None = None,
    ) -> dict[str, list[Tensor]]:
        """As fairseq's encoder, on ``(batch, n)`` tokens, guided by `src_syntax`.

        Args:
            src_syntax: the features of the masks, each ``(batch, n)``; see :mod:`fairseq_syntax.nn.masks`.
                ``None`` will do where no mask needs any.
            trace: is filled with what the guided layers do.

        Raises:
            ValueError: a feature is missing.
        """
        masks = self.mask_builder(src_syntax, src_tokens)
        layers = _LayersOfOnePass(self.layers, self.guided_numbers, syntax=masks, trace=trace)
        return super(SyntaxTransformerEncoder, self._with(layers)).forward(
            src_tokens, src_lengths, return_all_hiddens, token_embeddings
        )

    def _with(self, layers: _LayersOfOnePass) -> SyntaxTransformerEncoder:
        """This encoder, the same in all but its layers, for one forward pass.

        fairseq's forward pass calls ``layer(x, encoder_padding_mask=…)`` for each of ``self.layers``, and has no
        argument for more. This is where the masks get past it: not over attributes or hooks of the modules, which the
        passes of several threads would share, but in another list of layers. Nothing of the encoder is copied or
        changed.
        """
        encoder = object.__new__(type(self))
        encoder.__dict__.update(self.__dict__, layers=layers)
        return encoder


class _LayersOfOnePass:
    """What fairseq's forward pass iterates over: the encoder's layers, the guided ones with their further arguments."""

    def __init__(
        self, layers: nn.ModuleList, guided: Collection[int], *, syntax: BatchMasks, trace: SyntaxTrace | None
    ):
        self.layers = layers
        self.guided = guided
        self.syntax = syntax
        self.trace = trace

    def __iter__(self) -> Iterator[Any]:
        numbers = {id(self.layers[i]): i + 1 for i in range(len(self.layers))}
        for layer in self.layers:  # under layer drop, some of them
            number = numbers[id(layer)]
            yield _Guided(layer, number, self) if number in self.guided else layer


class _Guided:
    """A guided layer as fairseq calls it."""

    def __init__(self, layer: nn.Module, number: int, of_pass: _LayersOfOnePass):
        self.layer = layer
        self.number = number
        self.of_pass = of_pass

    def __call__(self, x: Tensor, encoder_padding_mask: Tensor | None) -> Any:
        syntax, trace = self.of_pass.syntax, self.of_pass.trace
        if trace is None:
            return self.layer(x, encoder_padding_mask, syntax=syntax)
        x, fc_result, *seen = self.layer(x, encoder_padding_mask, syntax=syntax, contents=trace.contents)
        trace.add(self.number, seen)
        return x if fc_result is None else (x, fc_result)
