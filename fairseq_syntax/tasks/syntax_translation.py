"""Translation of a source sentence together with its parse."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fairseq.data import LanguagePairDataset
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask
from torch import Tensor, nn

from fairseq_syntax.compat import stock_models, unknown_words, upsampling
from fairseq_syntax.data.features import SplitFeatures
from fairseq_syntax.data.subword_sampling import SampledPairs, SubwordModel, SubwordSampler
from fairseq_syntax.data.syntax_pairs import SyntaxPairs
from fairseq_syntax.data.training_record import DataBins
from fairseq_syntax.inference.hub import SyntaxHubInterface, from_pretrained
from fairseq_syntax.inference.new_text import NewText, NewTextDataset, refuse_options
from fairseq_syntax.inference.parsed_batch import ParsedBatch
from fairseq_syntax.inference.source_lines import constraints_of
from fairseq_syntax.models.syntax_model import syntax_of
from fairseq_syntax.tasks.syntax_task import SyntaxTask
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig
from syntax_data.text.symbols import symbol_pattern

logger = logging.getLogger(__name__)


@register_task("syntax_translation", dataclass=SyntaxTranslationConfig)
class SyntaxTranslationTask(SyntaxTask, TranslationTask):
    """fairseq's translation task, whose batches also have the models' features."""

    criterion_of_parses = "label_smoothed_cross_entropy_with_syntax"
    kind_of_model = "an encoder-decoder, such as tree_bias_transformer"

    def __init__(self, cfg: SyntaxTranslationConfig, src_dict: Any, tgt_dict: Any):
        super().__init__(cfg, src_dict, tgt_dict)
        self.new_text = NewText(cfg, src_dict, self.syntax_features)
        self._replaces_unknown_words = False
        #: Options about new text are allowed beside a data-bin, whose features do not depend on them.
        self.for_new_text = False

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> SyntaxHubInterface:
        """See :meth:`fairseq_syntax.models.transformer.SyntaxTransformerModel.from_pretrained`."""
        return from_pretrained(cls, *args, **kwargs)

    @staticmethod
    def takes(model: type) -> bool:
        return issubclass(model, FairseqEncoderDecoderModel)

    @property
    def texts(self) -> Sequence[DataBins]:
        """The data-bins of the source side."""
        return [DataBins.of_translation(self.cfg)]

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split, with the features that the models built so far need.

        Raises:
            ValueError: an option is about parses of new text; ``--upsample-primary`` is less than 1; or features are
                needed, and ``--dataset-impl`` is another format than ``mmap``.
        """
        if not self.for_new_text:
            refuse_options(self.cfg)
        training = split == self.cfg.train_subset or split != "valid"  # which alone --combine-val loads
        with upsampling.repeating_first(self.cfg, training=training):
            # Features first: they check the tokens, which fairseq opens without a check.
            features = self._load_features(split, epoch=epoch, combine=combine)
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        self.warn_of_unknown_labels(split, features)
        pairs = self.datasets[split]
        if split == self.cfg.train_subset and any(self._sampling_rates):
            pairs = self._sample_subwords(pairs)
        self.datasets[split] = SyntaxPairs(
            pairs, features=features, dictionary=self.src_dict, truncated=self.cfg.truncate_source
        )

    @property
    def _sampling_rates(self) -> tuple[float, float]:
        """Of the source's and the target's subwords."""
        rates = self.cfg.source_subword_sampling, self.cfg.target_subword_sampling
        for side, rate in zip(("source", "target"), rates, strict=True):
            if not 0 <= rate <= 1:
                raise ValueError(f"--{side}-subword-sampling: expected a number from 0 to 1, found {rate}")
        if self.cfg.subword_model and not any(rates):
            logger.warning("--subword-model is not used: both rates of subword sampling are 0")
        return rates

    def _sample_subwords(self, pairs: LanguagePairDataset) -> SampledPairs:
        """The pairs, whose subwords are drawn."""
        cfg = self.cfg
        paths = (cfg.subword_model or "").split(",")
        if not (all(paths) and len(paths) <= 2):
            expected = "expected --subword-model FILE or SOURCE,TARGET beside it"
            raise ValueError(f"subword sampling: {expected}, found {cfg.subword_model}")
        if cfg.load_alignments or cfg.num_batch_buckets or cfg.train_subset in cfg.valid_subset.split(","):
            raise ValueError(
                "subword sampling: expected no --load-alignments, no --num-batch-buckets, and a --valid-subset without "
                f"{cfg.train_subset}, as subwords are known only when they are drawn"
            )
        _, recorded = self.texts[0].recorded_split()
        symbols = symbol_pattern(recorded.settings.get("symbols", "") if recorded else "")
        samplers: list[SubwordSampler | None] = [None, None]
        sides = (self.src_dict, pairs.src, paths[0]), (self.tgt_dict, pairs.tgt, paths[-1])
        for i, (rate, (dictionary, lines, path)) in enumerate(zip(self._sampling_rates, sides, strict=True)):
            if rate:
                samplers[i] = sampler = SubwordSampler(SubwordModel.read(path), dictionary, rate, symbols)
                sampler.check(path, lines)
        longest = cfg.max_source_positions, cfg.max_target_positions
        return SampledPairs(pairs, *samplers, seed=cfg.seed, longest=longest)

    def _load_features(self, split: str, **kwargs: Any) -> SplitFeatures:
        (text,) = self.texts
        if self.syntax_features | self.label_features and self.cfg.dataset_impl not in (None, "mmap"):
            raise ValueError(
                f"--dataset-impl: expected mmap, found {self.cfg.dataset_impl}: run fairseq-preprocess without "
                "--dataset-impl"
            )
        if split != self.cfg.train_subset:
            text = replace(text, folders=text.folders[:1])
        return self.load_features(text, split, repeated=self.cfg.upsample_primary, **kwargs)

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """As fairseq's; a resumed run goes on with the batches it had, and new text is parsed on the way."""
        if isinstance(dataset, NewTextDataset):
            return self.new_text.batches(super().get_batch_iterator, dataset, *args, **kwargs)
        return super().get_batch_iterator(dataset, *args, **kwargs)

    def build_generator(self, models: list[nn.Module], args: Any, *more: Any, **kwargs: Any) -> Any:
        """As fairseq's, which fails on unknown words under ``--replace-unk``.

        Raises:
            ValueError: it would replace by the wrong words.
        """
        self._replaces_unknown_words = unknown_words.are_replaced(args, self.cfg.post_process)
        if self.syntax_features:
            models = self._all_take_syntax(models)
            self.new_text.begin()
        return super().build_generator(models, args, *more, **kwargs)

    def get_interactive_tokens_and_lengths(
        self, lines: Sequence[str], encode_fn: Callable[[str], str]
    ) -> tuple[list[Tensor] | ParsedBatch, list[int]]:
        """As fairseq's; where models need parses, a parsed batch."""
        if self.syntax_features:
            batch = self.new_text.read(lines, encode_fn)
            return batch, batch.lengths
        tokens, lengths = super().get_interactive_tokens_and_lengths(lines, encode_fn)
        return tokens, lengths

    def build_dataset_for_inference(self, src_tokens: Any, src_lengths: Any, **kwargs: Any) -> Any:
        """As fairseq's, with the features of `src_tokens`.

        Raises:
            ValueError: a model needs features, and `src_tokens` are not of :meth:`get_interactive_tokens_and_lengths`.
        """
        if not self.syntax_features:
            return super().build_dataset_for_inference(src_tokens, src_lengths, **kwargs)
        if not isinstance(src_tokens, ParsedBatch):
            raise ValueError(
                "the model needs the parses of its input, and token ids have none: give text "
                "(get_interactive_tokens_and_lengths of the task, translate of the hub interface)"
            )
        pairs = super().build_dataset_for_inference(src_tokens.tokens, src_lengths, **kwargs)
        return NewTextDataset(pairs, src_tokens, dictionary=self.src_dict)

    def inference_step(
        self,
        generator: Any,
        models: list[nn.Module],
        sample: dict[str, Any],
        *args: Any,
        packed_constraints: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """As fairseq's; stock models in an ensemble with ours do not see the features.

        Args:
            packed_constraints: those of all sentences of the dataset, a row each.
        """
        if packed_constraints is not None:
            kwargs["constraints"] = constraints_of(packed_constraints, sample)
        sample = self.new_text.queue.pop(sample)
        if "src_syntax" in sample["net_input"]:
            models = self._all_take_syntax(models)
        hypotheses = super().inference_step(generator, models, sample, *args, **kwargs)
        if self._replaces_unknown_words:
            unknown_words.align(hypotheses, sample["net_input"]["src_tokens"], self.source_dictionary.pad())
        return hypotheses

    def _all_take_syntax(self, models: Sequence[nn.Module]) -> list[nn.Module]:
        """Return these models, those without features as views that ignore them."""
        return [
            model if (syntax := syntax_of(model)) and syntax.syntax_features else stock_models.StockModel(model)
            for model in models
        ]
