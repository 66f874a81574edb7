"""fairseq's Transformer encoder, with the places where syntax enters it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import reduce
from typing import Any

import torch
from fairseq import utils
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from fairseq_syntax.encoder.layer import SyntaxEncoderLayer
from fairseq_syntax.encoder.one_pass import LayersOfOnePass, Mixture
from fairseq_syntax.modules.biases import BiasBuilder, check_features, position_buckets
from fairseq_syntax.modules.embedding import InfusedEmbedding
from fairseq_syntax.modules.fusion import Fusion
from fairseq_syntax.modules.gate_norm import GateBatchNorm, RunningStatistics, StepStatistics
from fairseq_syntax.modules.heads import Predictor, parent_targets, predicted_parents
from fairseq_syntax.modules.numerics import at_least_float32, keep_parameters_in_graph
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.modules.tree_mixing import SIGMOID, TreeMixing


class SyntaxTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder, which syntax can enter at five places; each is empty by default.

    Embeddings (those of features beside those of tokens); what layers read (mixtures of words and their descendants);
    the self-attention of chosen layers, by masks, one of which may be a parser that is learned; and a layer on top,
    whose output joins the encoder's. The batch's masks are built once, on the device of its features, and shared by all
    layers.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, **kwargs: Any):
        self._numbers = itertools.count(1)  # of the layers, in the order in which super() builds them
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        del self._numbers
        embed_dim: int = embed_tokens.embedding_dim
        self.bias_builder = BiasBuilder(cfg.masks, position=position_buckets if cfg.position_bias else None)
        self.guided_numbers = cfg.active_layer_numbers
        self.tree_mixing: TreeMixing | None = None
        if cfg.mixing.on:
            name = cfg.mixing.activation or cfg.activation_fn
            activation = torch.sigmoid if name == SIGMOID else utils.get_activation_fn(str(name))
            self.tree_mixing = TreeMixing(
                embed_dim, layers=len(self.layers), weight=cfg.mixing.weight, activation=activation
            )
        self.top: nn.Module | None = None
        self.fusion: Fusion | None = None
        if cfg.has_top:
            self.top = self._wrapped(SyntaxEncoderLayer(cfg.of_top, return_fc=self.return_fc), cfg)
            self.fusion = Fusion(embed_dim, cfg.fused)
        self.predictor: Predictor | None = None
        if cfg.predicted.parents or cfg.predicted.distances:
            head_dim = embed_dim // cfg.encoder.attention_heads
            self.predictor = Predictor(embed_dim, head_dim, cfg.predicted)
        #: Of all gates, from the first layer on.
        self.gate_statistics = StepStatistics([m for m in self.modules() if isinstance(m, GateBatchNorm)])

    def __prepare_scriptable__(self) -> nn.Module:  # torch.jit.script calls it of a module and all within
        raise NotImplementedError(
            "TorchScript cannot express how an encoder layer gets the syntax features of a batch: "
            "use torch.compile of the encoder, or the model as it is"
        )

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        if next(self._numbers) not in cfg.active_layer_numbers:
            return super().build_encoder_layer(cfg)
        return self._wrapped(SyntaxEncoderLayer(cfg, return_fc=self.return_fc), cfg)

    @staticmethod
    def _wrapped(layer: nn.Module, cfg: Any) -> nn.Module:
        """A layer in what fairseq wraps layers in."""
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    @property
    def syntax_layers(self) -> dict[int, SyntaxEncoderLayer]:
        """The layers that masks enter, by their number from 1, the one on top being the last; without what fairseq may
        have wrapped them in."""
        layers = [self.layers[i] for i in range(len(self.layers))]  # under layer drop, iterating draws random numbers
        modules = (
            (number, module)
            for number, layer in enumerate([*layers, *([] if self.top is None else [self.top])], start=1)
            for module in layer.modules()
        )
        return {number: module for number, module in modules if isinstance(module, SyntaxEncoderLayer)}

    @property
    def traced_layers(self) -> list[int]:
        """The layers whose attention a trace keeps: the guided ones, or all, where none is guided."""
        return list(self.syntax_layers) or list(range(1, len(self.layers) + 1))

    @property
    def syntax_features(self) -> tuple[str, ...]:
        """The features that the encoder needs of any batch, each once."""
        of_embeddings = self.embed_tokens.labels if isinstance(self.embed_tokens, InfusedEmbedding) else ()
        of_mixing = ("word", "head") if self.tree_mixing is not None else ()
        return tuple(dict.fromkeys((*self.bias_builder.features, *of_embeddings, *of_mixing)))

    @property
    def label_features(self) -> tuple[str, ...]:
        """The features that its auxiliary losses need."""
        of_predictor = ("word", "head") if self.predictor is not None else ()
        return tuple(dict.fromkeys((*self.bias_builder.label_features, *of_predictor)))

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        src_syntax: Mapping[str, Tensor] | None = None,
        trace: SyntaxTrace | None = None,
        predictions: bool = False,
    ) -> dict[str, Any]:
        """As fairseq's encoder, on ``(batch, n)`` tokens, guided by `src_syntax`.

        Args:
            src_syntax: the features, each ``(batch, n)``; see :mod:`fairseq_syntax.modules.biases`. ``None`` will do
                where nothing needs any.
            trace: is filled with what the guided layers do; where there are none, with the attention of all.
            predictions: whether what is returned also has ``syntax_predictions``: by name, lists of
                :class:`~fairseq_syntax.modules.heads.Prediction`; none, if the batch lacks the features for them.

        Raises:
            ValueError: a feature is missing.
        """
        check_features(src_syntax, self.syntax_features, of="the model's encoder")
        predictions = predictions and self._has_labels(src_syntax)
        if isinstance(self.embed_tokens, InfusedEmbedding) and token_embeddings is None:
            token_embeddings = self.embed_tokens(src_tokens, src_syntax)
        mixture = None
        if self.tree_mixing is not None and src_syntax is not None:
            hides = predictions and self.training and self.predictor is not None and self.predictor.options.distances
            mixture = Mixture.of(src_syntax, self.tree_mixing, self.predictor if hides else None)
        statistics = self._moving_statistics()
        layers = LayersOfOnePass(
            self.layers,
            self.guided_numbers,
            syntax=self.bias_builder(src_syntax, src_tokens, teaches=predictions),
            statistics=statistics,
            trace=trace,
            mixture=mixture,
            predicts=predictions and bool(self.bias_builder.label_features),
            watched=trace is not None and "attention" in trace.contents and not self.syntax_layers,
        )
        out: dict[str, Any] = super(SyntaxTransformerEncoder, self._with(layers)).forward(
            src_tokens, src_lengths, return_all_hiddens, token_embeddings
        )
        (x,) = out["encoder_out"]
        if self.top is not None and self.fusion is not None:
            x = self._fuse(x, layers, src_tokens.eq(self.padding_idx))
        if predictions:
            assert src_syntax is not None
            padding = src_tokens.eq(self.padding_idx)
            targets = parent_targets(src_syntax["word"], src_syntax["head"])
            found = {"parent": [predicted_parents(s.squeeze(1), targets, padding) for s in layers.predictions]}
            if self.predictor is not None:
                hidden = None if mixture is None else mixture.hidden
                for name, more in self.predictor(x, targets, hidden, padding).items():
                    found.setdefault(name, []).extend(more)
            out["syntax_predictions"] = {name: some for name, some in found.items() if some}
        elif self.predictor is not None and self.training:
            x = keep_parameters_in_graph(x, self.predictor)
        out["encoder_out"] = [x]
        if statistics is not None:
            self.gate_statistics.end_pass(statistics)
        return out

    def _moving_statistics(self) -> RunningStatistics | None:
        """Those of the gates, if there are some, where a pass moves them: in training, if gradients are computed."""
        if not (self.training and torch.is_grad_enabled()):
            return None
        norms = self.gate_statistics.norms
        return RunningStatistics(norms, at_least_float32(norms[0].weight).dtype) if norms else None

    def _has_labels(self, src_syntax: Mapping[str, Tensor] | None) -> bool:
        """Whether there is something to predict, and the batch has what it is compared with."""
        needed = {*self.label_features}
        return bool(needed) and needed <= {*(src_syntax or {})}

    def _fuse(self, x: Tensor, layers: LayersOfOnePass, padding: Tensor) -> Tensor:
        """What the encoder's output and that of the layer on top make together, ``(n, batch, embed_dim)``."""
        assert self.top is not None
        assert self.fusion is not None
        result = layers.guided_layer(self.top, len(self.layers) + 1)(x, encoder_padding_mask=padding)
        above = result[0] if isinstance(result, tuple) else result
        parsed = layers.syntax.parsed
        # One by one: an index of several numbers would be copied to a GPU, in each pass.
        of_parses = [parsed[:, k] for k in self.bias_builder.of_parses]
        known = reduce(torch.logical_or, of_parses) if of_parses else parsed.new_ones(len(parsed))
        return self.fusion(x, above, parsed=known, padding=padding)

    def _with(self, layers: LayersOfOnePass) -> SyntaxTransformerEncoder:
        """This encoder, the same in all but its layers, for one forward pass.

        fairseq's forward pass calls ``layer(x, encoder_padding_mask=…)`` for each of ``self.layers``, and has no
        argument for more. This is where the masks get past it: not over attributes or hooks of the modules, which the
        passes of several threads would share, but in another list of layers. Nothing of the encoder is copied or
        changed.
        """
        encoder = object.__new__(type(self))
        encoder.__dict__.update(self.__dict__, layers=layers)
        return encoder
