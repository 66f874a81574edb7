"""The Transformer with syntax in its encoder, put together from its parts."""

# No postponed annotations here: fairseq reads types at run time.

import argparse
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks import TASK_REGISTRY
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder import SyntaxTransformerEncoder
from fairseq_syntax.models.decoder import FeatureKeyDecoder, SyntaxDecoder, TreeHmmDecoder
from fairseq_syntax.models.syntax_model import SyntaxModel
from fairseq_syntax.models.transformer_options import SyntaxTransformerConfig, add_arguments
from fairseq_syntax.modules.trace import SyntaxTrace

logger = logging.getLogger(__name__)


@register_model("gated_syntax_transformer")
class SyntaxTransformerModel(SyntaxModel, TransformerModelBase):
    """Transformer with the source sentence's parse in its encoder (Hou 2024).

    Registered without a dataclass: fairseq's registration of subclasses of ``TransformerConfig`` ignores their
    options, so the command line is written here and read back by the configuration's ``from_namespace``.
    """

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "SyntaxTransformerModel":
        cfg = cls.settled_options(args, task)
        model = super().build_model(cfg, task)
        for side in ("encoder", "decoder"):
            if cfg.syntax.decoder.absolute_positions not in ("both", side):
                getattr(model, side).embed_positions = None
        model.args = args  # as of fairseq's legacy models, for code that asks them for their options
        return model

    @classmethod
    def build_encoder(
        cls, cfg: SyntaxTransformerConfig, src_dict: Any, embed_tokens: nn.Embedding
    ) -> SyntaxTransformerEncoder:
        options = cfg.syntax.embeddings
        if options.names:
            embed_dim = cfg.encoder.embed_dim
            if options.merge == "concatenate":
                embed_tokens = cls.build_embedding(cfg, src_dict, embed_dim - options.dim)
                nn.init.normal_(embed_tokens.weight, std=embed_dim**-0.5)  # as if features were part of it
                nn.init.zeros_(embed_tokens.weight[embed_tokens.padding_idx])
            embed_tokens = options.join(embed_tokens, embed_dim)
        return SyntaxTransformerEncoder(cfg, src_dict, embed_tokens, cfg.syntax)

    @classmethod
    def build_decoder(cls, cfg: SyntaxTransformerConfig, tgt_dict: Any, embed_tokens: nn.Embedding) -> nn.Module:
        if cfg.syntax.embeddings.keys:
            return FeatureKeyDecoder(cfg, tgt_dict, embed_tokens)
        if cfg.syntax.decoder.tree_hmm:
            return TreeHmmDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)
        if cfg.syntax.decoder.position_bias:
            return SyntaxDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)
        return super().build_decoder(cfg, tgt_dict, embed_tokens)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        src_syntax: Mapping[str, Tensor] | None = None,
        return_all_hiddens: bool = True,
        trace: SyntaxTrace | None = None,
        predictions: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's Transformer, with the source's features for the encoder.

        Args:
            src_syntax: features, a :class:`~fairseq_syntax.modules.syntax_batch.SyntaxBatch` or a dict.
            trace: is filled by the encoder's syntax layers.
            predictions: adds ``syntax_predictions`` to the second of what is returned, for auxiliary losses: see
                :meth:`SyntaxTransformerEncoder.forward`.
            **kwargs: for the decoder.
        """
        encoder_out = self.encoder(
            src_tokens,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            src_syntax=src_syntax,
            trace=trace,
            predictions=predictions,
        )
        x, extra = self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            **kwargs,
        )
        if "syntax_predictions" in encoder_out:
            extra = {**extra, "syntax_predictions": encoder_out["syntax_predictions"]}
        return x, extra

    def extract_features(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        src_syntax: Mapping[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As :meth:`forward`, before the projection to the dictionary."""
        return self(src_tokens, src_lengths, prev_output_tokens, src_syntax, features_only=True, **kwargs)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str = ".",
        **kwargs: Any,
    ) -> Any:
        """Loads a trained model to translate raw text with.

        Args:
            model_name_or_path: folder of checkpoints.
            checkpoint_file: its name there; several, with ``:`` between them, are an ensemble.
            data_name_or_path: folder of the dictionaries and the features' signature, that is a data-bin.
            **kwargs: options that replace the checkpoint's, such as ``bpe="subword_nmt"``, ``bpe_codes=...``,
                ``parser``, ``parser_models``; ``tokenizer="moses"`` is by default of the model's languages.

        Raises:
            InputError: there is no such folder, checkpoint or data-bin, or it is of other languages.
            TypeError: nothing has such an option.
            ValueError: there is no such tokenizer or bpe.

        Returns:
            a :class:`~fairseq_syntax.inference.hub.SyntaxHubInterface`.
        """
        task = TASK_REGISTRY["syntax_translation"]  # by name: tasks import models
        return task.from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)

    def make_generation_fast_(
        self, *, retain_dropout_modules: str | Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        """As fairseq's. A name in `retain_dropout_modules` means the class of that name, with or without fairseq's
        ``Base``, and its subclasses: ``TransformerEncoderLayer`` means all layers of the encoder."""
        if retain_dropout_modules is not None:
            if isinstance(retain_dropout_modules, str):  # as fairseq's command line hands it on
                retain_dropout_modules = re.findall(r"\w+", retain_dropout_modules)
            kinds = {type(module) for module in self.modules()}
            found = {name: {kind for kind in kinds if name in _names(kind)} for name in retain_dropout_modules}
            for name in (name for name, matching in found.items() if not matching):
                logger.warning("--retain-dropout-modules: the model has no module %s", name)
            matching = set().union(*found.values())
            called = {kind.__name__ for kind in matching} | {kind.__name__.removesuffix("Base") for kind in matching}
            kwargs["retain_dropout_modules"] = sorted(called)
        super().make_generation_fast_(**kwargs)


def _names(kind: type) -> set[str]:
    """Return the names of a class and of its bases, with and without ``Base``."""
    names = {base.__name__ for base in kind.__mro__}
    return names | {name.removesuffix("Base") for name in names}
