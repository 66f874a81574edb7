"""RoBERTa with syntax in its encoder, put together from its parts."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from fairseq.models import register_model
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.models.roberta_options import SyntaxRobertaConfig, add_arguments
from fairseq_syntax.models.syntax_model import SyntaxModel
from fairseq_syntax.modules.embedding import InfusedEmbedding
from fairseq_syntax.modules.pooling import marker_states, mean_state
from fairseq_syntax.modules.syntax_batch import SPECIAL, SyntaxBatch

logger = logging.getLogger(__name__)


class SyntaxRobertaEncoder(RobertaEncoder):
    """fairseq's encoder of RoBERTa, with a :class:`SyntaxTransformerEncoder` inside."""

    sentence_encoder: SyntaxTransformerEncoder

    def build_encoder(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> SyntaxTransformerEncoder:
        cfg = SyntaxRobertaConfig.from_namespace(args)
        if cfg.syntax.embeddings.names:
            embed_tokens = cfg.syntax.embeddings.join(embed_tokens, cfg.encoder.embed_dim)
        encoder = SyntaxTransformerEncoder(cfg, dictionary, embed_tokens, cfg.syntax)
        encoder.apply(init_bert_params)
        return encoder

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        masked_tokens: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """As fairseq's, with the arguments of :meth:`extract_features`."""
        x, extra = self.extract_features(src_tokens, return_all_hiddens, **kwargs)
        return x if features_only else self.output_layer(x, masked_tokens=masked_tokens), extra

    def extract_features(
        self,
        src_tokens: Tensor,
        return_all_hiddens: bool = False,
        src_syntax: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the encoder's output, ``(batch, n, embed_dim)``, and further results.

        Those are fairseq's ``inner_states``, and ``syntax_predictions``, if they were asked for.

        Args:
            src_syntax: the batch's features, with ``special``; may be ``None`` where the encoder needs none.
            **kwargs: ``token_embeddings``, ``trace`` and ``predictions`` of the encoder's forward; others are ignored.

        Raises:
            ValueError: a feature is missing.
        """
        syntax = SyntaxBatch.of(src_syntax)
        if needed := self.sentence_encoder.syntax_features:
            syntax.require((*needed, SPECIAL), part="the model's encoder")
        given = {name: kwargs[name] for name in ("token_embeddings", "trace", "predictions") if name in kwargs}
        out = self.sentence_encoder(src_tokens, return_all_hiddens=return_all_hiddens, src_syntax=syntax, **given)
        extra = {"inner_states": out["encoder_states"] if return_all_hiddens else None}
        if "syntax_predictions" in out:
            extra["syntax_predictions"] = out["syntax_predictions"]
        return out["encoder_out"][0].transpose(0, 1), extra


@register_model("syntax_roberta")
class SyntaxRobertaModel(SyntaxModel, RobertaModel):
    """RoBERTa with parses in its encoder, for all tasks of understanding.

    Classification heads are fairseq's; ``--pooling`` says which states they read.
    """

    config_type = SyntaxRobertaConfig
    encoder_prefix = "encoder.sentence_encoder."

    def __init__(self, args: Any, encoder: SyntaxRobertaEncoder):
        super().__init__(args, encoder)
        self.pooling = SyntaxRobertaConfig.from_namespace(args).pooling
        dictionary = encoder.dictionary
        self._specials = (dictionary.bos(), dictionary.eos(), dictionary.pad())
        self._markers = [dictionary.index(symbol) for symbol in self.pooling.markers]
        for symbol, number in zip(self.pooling.markers, self._markers, strict=True):
            if number == dictionary.unk():
                raise ValueError(f"--markers: expected symbols of the dictionary, found {symbol!r}")

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> SyntaxRobertaModel:
        with open_dict(args) if OmegaConf.is_config(args) else nullcontext():
            if getattr(args, "max_positions", None) is None:
                if getattr(args, "tokens_per_sample", None) is None:
                    args.tokens_per_sample = task.max_positions()
                args.max_positions = args.tokens_per_sample
            base_architecture(args)
            cls.settled_options(args, task)
            return cls(args, SyntaxRobertaEncoder(args, task.source_dictionary))

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """As fairseq's, with features; heads read pooled states.

        The arguments are those of :meth:`SyntaxRobertaEncoder.extract_features`. A head that ``reads_positions`` gets
        the states of all of them.
        """
        features_only = features_only or classification_head_name is not None
        x, extra = super().forward(src_tokens, features_only, return_all_hiddens, **kwargs)
        if classification_head_name is not None:
            head = self.classification_heads[classification_head_name]
            if not getattr(head, "reads_positions", False):
                x = self.pooled(x, src_tokens, kwargs.get("src_syntax"))
            x = head(x)
        return x, extra

    def pooled(self, x: Tensor, src_tokens: Tensor, src_syntax: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return states whose first one a head reads, ``(batch, n or 1, width)``.

        Args:
            x: the encoder's output, ``(batch, n, embed_dim)``.
            src_tokens: ``(batch, n)``.
            src_syntax: its ``special`` says where special tokens are; without it the tokens do.
        """
        if self.pooling.kind == "first":
            return x
        if self.pooling.kind == "markers":
            return marker_states(x, src_tokens, self._markers).unsqueeze(1)
        if src_syntax is not None and SPECIAL in src_syntax:
            subwords = src_syntax[SPECIAL] == 0
        else:
            subwords = src_tokens != self._specials[0]
            for special in self._specials[1:]:
                subwords &= src_tokens != special
        return mean_state(x, subwords).unsqueeze(1)

    def register_classification_head(
        self, name: str, num_classes: int | None = None, inner_dim: int | None = None, **kwargs: Any
    ) -> None:
        """As fairseq's, for pooled states; warns of a head that no parse can reach."""
        super().register_classification_head(name, num_classes, inner_dim, **kwargs)
        if self.pooling.width > 1:
            head = self.classification_heads[name]
            head.dense = nn.Linear(self.pooling.width * head.dense.in_features, head.dense.out_features)
        if self.pooling.kind == "first" and self._parse_enters_last:
            logger.warning(
                "--pooling first: the classification head %s reads the state of <s> alone, which no parse reaches, "
                "since parses enter the last layer alone: --pooling mean reads all words",
                name,
            )

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str = ".",
        **kwargs: Any,
    ) -> Any:
        """Load a trained model, to read new text with.

        Args:
            model_name_or_path: folder of checkpoints.
            checkpoint_file: name of the checkpoint there.
            data_name_or_path: folder of the data that it was trained on, which records parser and subwords.
            **kwargs: ``parser``, ``parser_models``, ``parser_device``, as of fairseq-interactive; ``source_lang``, the
                language that a parser is started for if the data does not record one; options that replace the
                checkpoint's; ``bpe``, by default the checkpoint's, or else that of the data's subwords, with its
                files (``gpt2_encoder_json``, ``gpt2_vocab_bpe``; ``bpe_vocab_file``).

        Raises:
            InputError: there is no such folder, checkpoint or data-bin, or it does not fit.
            TypeError: nothing has such an option.
            ValueError: there is no such bpe.

        Returns:
            a :class:`~fairseq_syntax.inference.roberta_hub.SyntaxRobertaHubInterface`.
        """
        task = TASK_REGISTRY["syntax_sentence_prediction"]  # by name: tasks import models
        return task.from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)

    @property
    def _parse_enters_last(self) -> bool:
        """Parses enter attention in the last layer, and nothing else: no state of a special token depends on them."""
        encoder = self.syntax_encoder
        elsewhere = encoder.tree_mixing is not None or isinstance(encoder.embed_tokens, InfusedEmbedding)
        mixes_positions = encoder.top is not None and encoder.options.fusion.kind == "bi-attention"
        last = len(encoder.layers) + (encoder.top is not None)
        return (
            bool(encoder.bias_builder.features)
            and [*encoder.syntax_layers] == [last]
            and not (elsewhere or mixes_positions)
        )
