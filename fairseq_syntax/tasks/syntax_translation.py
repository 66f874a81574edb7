"""Translation of a source sentence together with its parse."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask
from torch import Tensor, nn

from fairseq_syntax.compat import bfloat16, cudnn_attention, resumption, stock_models, unknown_words, upsampling
from fairseq_syntax.compat.frozen_parameters import frozen
from fairseq_syntax.data.features import SplitFeatures, load_features, warn_of_unknown_labels
from fairseq_syntax.data.syntax_pairs import SyntaxPairs
from fairseq_syntax.data.training_record import label_vocabulary
from fairseq_syntax.inference.hub import SyntaxHubInterface, from_pretrained
from fairseq_syntax.inference.new_text import NewText, NewTextDataset, refuse_options
from fairseq_syntax.inference.parsed_batch import ParsedBatch
from fairseq_syntax.models.cpu_dropout import use_fast_dropout
from fairseq_syntax.models.syntax_model import syntax_of
from fairseq_syntax.tasks import validation_log
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig

logger = logging.getLogger(__name__)


@register_task("syntax_translation", dataclass=SyntaxTranslationConfig)
class SyntaxTranslationTask(TranslationTask):
    """fairseq's translation task, whose batches also have the models' features.

    They are in ``net_input["src_syntax"]``. A model that needs none (any stock one) gets fairseq's own batches.
    """

    def __init__(self, cfg: SyntaxTranslationConfig, src_dict: Any, tgt_dict: Any):
        super().__init__(cfg, src_dict, tgt_dict)
        self.syntax_features: set[str] = set()
        self.label_features: set[str] = set()
        self._has_auxiliary_losses = False
        #: Features with labels in the data-bin that a model does not know: the labels there, and the model's.
        self._partly_known: list[tuple[str, Sequence[str], Sequence[str]]] = []
        self.new_text = NewText(cfg, src_dict, self.syntax_features)
        self._replaces_unknown_words = False
        self._subsets_to_validate: deque[str] = deque()
        #: Options about new text are allowed beside a data-bin, whose features do not depend on them.
        self.for_new_text = False

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> SyntaxHubInterface:
        """See :meth:`fairseq_syntax.models.transformer.SyntaxTransformerModel.from_pretrained`."""
        return from_pretrained(cls, *args, **kwargs)

    @classmethod
    def setup_task(cls, cfg: SyntaxTranslationConfig, **kwargs: Any) -> SyntaxTranslationTask:
        bfloat16.check_tpu(cfg.tpu)
        cudnn_attention.switch(cfg.cudnn_attention)
        task: SyntaxTranslationTask = super().setup_task(cfg, **kwargs)
        return task

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> nn.Module:
        model = super().build_model(cfg, from_checkpoint)
        if syntax := syntax_of(model):
            syntax.check_backend(self.cfg.ddp_backend)
            self.syntax_features.update(syntax.syntax_features)
            self.label_features.update(syntax.label_features)
            in_data = label_vocabulary(self.cfg, syntax.feature_labels)
            syntax.set_label_vocabulary(in_data)
            for name, labels in in_data.items():
                if unknown := [label for label in labels if label not in syntax.feature_labels[name]]:
                    logger.warning("the model knows no %s %s, which the data-bin has", name, ", ".join(unknown))
                    self._partly_known.append((name, labels, syntax.feature_labels[name]))
        if self.cfg.cpu_dropout == "fast":
            use_fast_dropout(model)
        return model

    def label_vocabulary(self, feature: str) -> Sequence[str]:
        """Return the labels that a feature numbers in the data-bin, from number 0.

        Raises:
            ValueError: the data-bin has no such feature.
        """
        return label_vocabulary(self.cfg, [feature], needed=True)[feature]

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """As fairseq's; batches then have the features of its auxiliary losses."""
        criterion = super().build_criterion(cfg, from_checkpoint)
        self._has_auxiliary_losses = getattr(criterion, "has_auxiliary_losses", False)
        if self.label_features and not self._has_auxiliary_losses:
            logger.warning(
                "the model can learn to predict parses, but this criterion has no loss for that: it trains without "
                "supervision. --criterion label_smoothed_cross_entropy_with_syntax has one"
            )
        return criterion

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split, with the features that the models built so far need.

        Raises:
            ValueError: an option is about parses of new text; or ``--upsample-primary`` is less than 1.
        """
        if not self.for_new_text:
            refuse_options(self.cfg)
        training = split == self.cfg.train_subset or split != "valid"  # which alone --combine-val loads
        with upsampling.repeating_first(self.cfg, training=training):
            # Features first: they check the tokens, which fairseq opens without a check.
            features = self._load_features(split, epoch=epoch, combine=combine)
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        for name, labels, known in self._partly_known:
            warn_of_unknown_labels(split, name, features[name], labels, known)
        self.datasets[split] = SyntaxPairs(
            self.datasets[split], features=features, dictionary=self.src_dict, truncated=self.cfg.truncate_source
        )

    def _load_features(self, split: str, **kwargs: Any) -> SplitFeatures:
        """Load features of the models and auxiliary losses, which only training needs."""
        features = load_features(self.cfg, split, self.syntax_features, **kwargs)
        if self._has_auxiliary_losses:
            try:
                more = self.label_features - self.syntax_features
                return {**features, **load_features(self.cfg, split, more, **kwargs)}
            except FileNotFoundError:
                if split == self.cfg.train_subset:
                    raise
                logger.info("%s: predictions of parses are not scored, since there are no parses", split)
        return features

    def get_batch_iterator(self, dataset: Any, *args: Any, epoch: int = 1, **kwargs: Any) -> Any:
        """As fairseq's; a resumed run goes on with the batches it had."""
        if isinstance(dataset, NewTextDataset):
            return self.new_text.batches(super().get_batch_iterator, dataset, *args, **kwargs)
        return resumption.batches_of_first_epoch(
            super().get_batch_iterator, self.dataset_to_epoch_iter, dataset, *args, epoch=epoch, **kwargs
        )

    def begin_epoch(self, epoch: int, model: Any) -> None:
        super().begin_epoch(epoch, model)
        if syntax := syntax_of(model):
            syntax.begin_epoch(epoch)

    def train_step(
        self, sample: dict[str, Any], model: Any, *args: Any, ignore_grad: bool = False, **kwargs: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """As fairseq's; a dummy batch (`ignore_grad`) changes nothing in the model."""
        syntax = syntax_of(model)
        with syntax.pass_of_step(counts=not ignore_grad) if syntax else nullcontext():
            result: tuple[Any, Any, dict[str, Any]] = super().train_step(
                sample, model, *args, ignore_grad=ignore_grad, **kwargs
            )
        return result

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Steps, leaving the parameters that the model holds frozen exactly as they are.

        Under ``--amp`` fairseq calls this for a step that overflowed, too: its scaler skips that, and halves its scale.
        """
        syntax, scale = syntax_of(model), _loss_scale(optimizer)
        with frozen(syntax.frozen_parameters() if syntax else (), optimizer):
            super().optimizer_step(optimizer, model, update_num)
        if syntax:
            syntax.end_step(stepped=_loss_scale(optimizer) >= scale)

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        super().begin_valid_epoch(epoch, model)
        self._subsets_to_validate = deque(self.cfg.valid_subset.split(","))

    def valid_step(self, sample: dict[str, Any], model: Any, criterion: Any) -> tuple[Any, Any, dict[str, Any]]:
        """As fairseq's; gates are logged beside, from the same forward pass."""
        syntax = syntax_of(model)
        if syntax is None or (trace := syntax.validation_trace()) is None:
            return super().valid_step(sample, model, criterion)
        traced = {**sample, "net_input": {**sample["net_input"], "trace": trace}}
        loss, sample_size, logging_output = super().valid_step(traced, model, criterion)
        if trace.layers:  # none, if the criterion calls the model otherwise
            validation_log.add(logging_output, *syntax.validation_sums(trace))
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs: Sequence[dict[str, Any]], criterion: Any) -> None:
        """As fairseq's; after validation also the gates, as means over the sentences."""
        super().reduce_metrics(logging_outputs, criterion)
        validation_log.reduce(logging_outputs)

    def post_validate(self, model: Any, stats: Mapping[str, Any], meters: Mapping[str, Any]) -> None:
        """Called after the validation of each subset, in order, before it is logged."""
        subset, updates = self._subsets_to_validate.popleft(), stats["num_updates"]
        means = validation_log.heads(meters)
        validation_log.to_log(means, subset=subset, updates=updates)
        validation_log.to_tensorboard(means, self.cfg.tensorboard_logdir, split=subset, step=updates)

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
        self, generator: Any, models: list[nn.Module], sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """As fairseq's; stock models in an ensemble with ours do not see the features."""
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


def _loss_scale(optimizer: Any) -> float:
    """Return the factor of losses under ``--amp``; 1 without."""
    return optimizer.scaler.get_scale() if isinstance(optimizer, AMPOptimizer) else 1.0
