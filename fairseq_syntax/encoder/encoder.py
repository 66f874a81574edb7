"""fairseq's Transformer encoder with syntax."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import reduce
from typing import Any

import torch
from fairseq import utils
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions
from fairseq_syntax.encoder.forward_pass import ForwardPass
from fairseq_syntax.encoder.layer import SyntaxEncoderLayer, wrapped
from fairseq_syntax.modules.biases import BiasBuilder, RelativePosition
from fairseq_syntax.modules.embedding import InfusedEmbedding
from fairseq_syntax.modules.fusion import Fusion
from fairseq_syntax.modules.gate_norm import GateBatchNorm, RunningStatistics, StepStatistics
from fairseq_syntax.modules.heads import Prediction, Predictor, parent_targets, predicted_parents
from fairseq_syntax.modules.labels import LabelVocabulary
from fairseq_syntax.modules.numerics import at_least_float32, keep_parameters_in_graph
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.modules.tree_mixing import SIGMOID, DescendantMixing, Descendants
from fairseq_syntax.modules.tree_moves import parent_positions

#: Where the encoder's output has the part of cross-attention's keys that comes from features.
FEATURE_KEYS = "feature_keys"
#: Where it has the position that each depends on, ``(batch, n)``.
PARENTS = "parents"
WORDS = "words"


class SyntaxTransformerEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with syntax at up to five places.

    Embeddings of features, beside those of tokens; mixtures of words and their descendants, as the input of layers; the
    self-attention of chosen layers, by biases that are built once a batch; a layer on top, whose output is fused with
    the encoder's; predictions of parses from its output.

    Args:
        cfg: fairseq's configuration of a Transformer.
        dictionary: of the source.
        embed_tokens: embeddings of tokens, with those of features, if there are some.
        options: of syntax.
        **kwargs: those of fairseq's encoder.
    """

    def __init__(
        self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, options: SyntaxEncoderOptions, **kwargs: Any
    ):
        self._numbers = itertools.count(1)  # of the layers, in the order in which super() builds them
        self.options = options
        self.label_vocabulary = LabelVocabulary(options.labels)
        super().__init__(cfg, dictionary, embed_tokens, **kwargs)
        del self._numbers
        embed_dim: int = embed_tokens.embedding_dim
        self.bias_builder = BiasBuilder(
            options.biases,
            position=RelativePosition() if options.position_bias else None,
            opens_special=options.special_tokens == "open",
        )
        self.syntax_layer_numbers = options.syntax_layers
        self.tree_mixing: DescendantMixing | None = None
        if options.mixing.on:
            name = options.mixing.activation or cfg.activation_fn
            activation = torch.sigmoid if name == SIGMOID else utils.get_activation_fn(str(name))
            self.tree_mixing = DescendantMixing(
                embed_dim,
                layers=len(self.layers),
                weight=None if options.mixing.plain else options.mixing.weight,
                activation=activation,
            )
        self.top: nn.Module | None = None
        self.fusion: Fusion | None = None
        if options.has_top:
            top = SyntaxEncoderLayer(cfg, options, return_fc=self.return_fc)
            # SG-Net's layer is BERT's, with any layers of the encoder.
            top.normalize_before, top.activation_fn = False, utils.get_activation_fn("gelu")
            self.top = wrapped(top, cfg)
            self.fusion = Fusion(embed_dim, options.fusion)
        if options.bias_tables_shared:
            attentions = [layer.self_attn for layer in self.syntax_layers.values()]
            for attention in attentions[1:]:
                attention.share_tables(attentions[0])
        self.predictor: Predictor | None = None
        if options.predictions.parents or options.predictions.distances:
            self.predictor = Predictor(embed_dim, embed_dim // options.encoder_heads, options.predictions)
        #: W of the keys of cross-attention, W_K (H + W t), t being the embeddings of features as layers get them.
        self.feature_keys: nn.Linear | None = None
        if options.embeddings.keys:
            assert isinstance(embed_tokens, InfusedEmbedding)
            self.feature_keys = nn.Linear(embed_tokens.feature_dim, embed_dim, bias=False)
            nn.init.zeros_(self.feature_keys.weight)
        #: Of all gates, from the first layer on.
        self.gate_statistics = StepStatistics([m for m in self.modules() if isinstance(m, GateBatchNorm)])

    def __prepare_scriptable__(self) -> nn.Module:  # torch.jit.script calls it
        raise NotImplementedError(
            "TorchScript cannot express how an encoder layer gets the syntax features of a batch: "
            "use torch.compile of the encoder, or the model as it is"
        )

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        if next(self._numbers) not in self.options.syntax_layers:
            return super().build_encoder_layer(cfg)
        return wrapped(SyntaxEncoderLayer(cfg, self.options, return_fc=self.return_fc), cfg)

    @property
    def _numbered_layers(self) -> dict[int, nn.Module]:
        """All layers by number from 1, that on top the last; layer drop leaves none out."""
        layers = dict(enumerate((self.layers[i] for i in range(len(self.layers))), start=1))
        return layers if self.top is None else {**layers, len(layers) + 1: self.top}

    @property
    def syntax_layers(self) -> dict[int, SyntaxEncoderLayer]:
        """Layers with attention biases by their number from 1, without fairseq's wrappers."""
        modules = ((number, module) for number, layer in self._numbered_layers.items() for module in layer.modules())
        return {number: module for number, module in modules if isinstance(module, SyntaxEncoderLayer)}

    @property
    def traced_layers(self) -> list[int]:
        """Layers whose attention a trace keeps: syntax layers, or all, where there are none."""
        return list(self.syntax_layers) or list(range(1, len(self.layers) + 1))

    @property
    def syntax_features(self) -> tuple[str, ...]:
        """The features that the encoder needs of any batch, each once."""
        of_embeddings = self.embed_tokens.features if isinstance(self.embed_tokens, InfusedEmbedding) else ()
        of_mixing = ("word", "head") if self.tree_mixing is not None else ()
        of_decoder = ("word", "head") if self.options.decoder.tree_hmm else ()
        return tuple(dict.fromkeys((*self.bias_builder.features, *of_embeddings, *of_mixing, *of_decoder)))

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
        """As fairseq's encoder, on ``(batch, n)`` tokens, with syntax.

        Under ``--feature-keys`` the output has ``feature_keys``, too, in the shape of ``encoder_out``; under
        ``--tree-hmm`` it has ``parents``.

        Args:
            src_syntax: the batch's features, a :class:`~fairseq_syntax.modules.syntax_batch.SyntaxBatch` or a dict;
                may be ``None`` where nothing needs any.
            trace: is filled with results of syntax layers; where there are none, with the attention of all.
            predictions: return ``syntax_predictions``, too: by name, lists of
                :class:`~fairseq_syntax.modules.heads.Prediction`; none, if the batch lacks the features for them.

        Raises:
            ValueError: a feature is missing.
        """
        features = self.label_vocabulary.renumber(SyntaxBatch.of(src_syntax))
        features.require(self.syntax_features, part="the model's encoder")
        predictions = predictions and bool(self.label_features) and {*self.label_features} <= features.keys()
        of_features: Tensor | None = None
        if isinstance(self.embed_tokens, InfusedEmbedding):
            of_features = self.embed_tokens.of_features(features)
            if token_embeddings is None:
                token_embeddings = self.embed_tokens(src_tokens, of_features)
        descendants = self._descendants(features, predictions)
        padding = src_tokens.eq(self.padding_idx)
        has_padding = bool(padding.any())  # once a pass; fairseq asks the device in each layer
        syntax = self.bias_builder(features, src_tokens, padding=padding if has_padding else None, teaches=predictions)
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)
        if has_padding:
            x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        x = x.transpose(0, 1)
        run = ForwardPass(
            syntax=syntax,
            statistics=self._pass_statistics(),
            trace=trace,
            predicts=predictions and bool(self.bias_builder.label_features),
            traces_stock_layers=trace is not None and "attention" in trace.contents and not self.syntax_layers,
        )
        states, fc_results = [x], []
        numbers = {id(layer): number for number, layer in self._numbered_layers.items()}
        for layer in self.layers:  # under layer drop, some of them
            number = numbers[id(layer)]
            if self.tree_mixing is not None and descendants is not None:
                x = self.tree_mixing(x, number, descendants)
            call = run.syntax_layer if number in self.syntax_layer_numbers else run.stock_layer
            x, fc_result = call(layer, number, x)
            states.append(x)
            fc_results.append(fc_result)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if self.top is not None:
            x = self._fuse(x, run)
        out: dict[str, Any] = {}
        if predictions:
            out["syntax_predictions"] = self._predict(x, features, run, descendants)
        elif self.predictor is not None and self.training:
            x = keep_parameters_in_graph(x, self.predictor)
        if self.feature_keys is not None and of_features is not None:
            out[FEATURE_KEYS] = [self.feature_keys(self.embed_scale * of_features).transpose(0, 1)]
        if self.options.decoder.tree_hmm:
            out[PARENTS] = [parent_positions(features["word"], features["head"], padding)]
            out[WORDS] = [features["word"]]
        if run.statistics is not None:
            self.gate_statistics.end_pass(run.statistics)
        return out | {
            "encoder_out": [x],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [embedding],
            "encoder_states": states if return_all_hiddens else [],
            "fc_results": fc_results if return_all_hiddens else [],
            "src_tokens": [],
            "src_lengths": [(~padding).sum(dim=1, keepdim=True, dtype=torch.int32)],
        }

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """As fairseq's, with the part of keys that comes from features, parents and words."""
        more = {
            name: [x.index_select(dim, new_order) for x in encoder_out[name]]
            for name, dim in ((FEATURE_KEYS, 1), (PARENTS, 0), (WORDS, 0))
            if name in encoder_out
        }
        return super().reorder_encoder_out(encoder_out, new_order) | more

    def _descendants(self, features: SyntaxBatch, predictions: bool) -> Descendants | None:
        """Descendants that layers read, if there are some; corrupted, where their distances are predicted."""
        if self.tree_mixing is None:
            return None
        options = self.options.predictions
        corrupts = options.distances and predictions and self.training
        return Descendants.of(features, corruption_rate=options.rate if corrupts else None)

    def _predict(
        self, x: Tensor, features: SyntaxBatch, run: ForwardPass, descendants: Descendants | None
    ) -> dict[str, list[Prediction]]:
        """Predictions of syntax layers and of the predictor, by name; names without any are left out."""
        targets = parent_targets(features["word"], features["head"], features.special)
        padding = run.syntax.padding
        found = {"parent": [predicted_parents(s.squeeze(1), targets, padding) for s in run.predictions]}
        if self.predictor is not None:
            corrupted = None if descendants is None else descendants.corrupted
            for name, more in self.predictor(x, targets, corrupted, padding).items():
                found.setdefault(name, []).extend(more)
        return {name: some for name, some in found.items() if some}

    def _pass_statistics(self) -> RunningStatistics | None:
        """Statistics of the gates, if there are some, where a pass moves them: in training, with gradients."""
        if not (self.training and torch.is_grad_enabled()):
            return None
        norms = self.gate_statistics.norms
        return RunningStatistics(norms, at_least_float32(norms[0].weight).dtype) if norms else None

    def _fuse(self, x: Tensor, run: ForwardPass) -> Tensor:
        """Join the encoder's output with that of the layer on top of it, ``(n, batch, embed_dim)``."""
        assert self.top is not None
        assert self.fusion is not None
        above, _ = run.syntax_layer(self.top, len(self.layers) + 1, x)
        has_parse = run.syntax.has_parse
        # One by one: an index of several numbers would be copied to a GPU, in each pass.
        columns = [has_parse[:, k] for k, mask in enumerate(self.bias_builder.masks) if mask.features]
        known = reduce(torch.logical_or, columns) if columns else has_parse.new_ones(len(has_parse))
        return self.fusion(x, above, has_parse=known, padding=run.syntax.padding)
