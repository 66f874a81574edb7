"""Translation of a source sentence together with its parse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairseq import utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from fairseq_syntax.data.feature_files import load_features
from fairseq_syntax.data.syntax_language_pair_dataset import SyntaxLanguagePairDataset
from fairseq_syntax.modules.freezing import frozen


@dataclass
class SyntaxTranslationConfig(TranslationConfig):
    """fairseq's translation options; which features are read follows from the model."""


@register_task("syntax_translation", dataclass=SyntaxTranslationConfig)
class SyntaxTranslationTask(TranslationTask):
    """fairseq's translation task, whose batches also hold the features that the task's models need.

    They are in ``net_input["src_syntax"]``. A model that needs none (any stock one) gets fairseq's own batches.
    """

    def __init__(self, cfg: SyntaxTranslationConfig, src_dict: Any, tgt_dict: Any):
        super().__init__(cfg, src_dict, tgt_dict)
        self.syntax_features: set[str] = set()

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> nn.Module:
        model = super().build_model(cfg, from_checkpoint)
        features = getattr(model, "syntax_features", ())
        self.syntax_features.update(features)
        if not features and hasattr(model, "encoder"):  # may meet syntax models in an ensemble
            model.encoder.forward = partial(_without_syntax, model.encoder.forward)
        return model

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split and, for all sentences of it, the features that the models built so far need."""
        with self._no_bucketing():
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        paths = utils.split_paths(self.cfg.data)
        if split != self.cfg.train_subset:
            paths = paths[:1]
        features = load_features(
            paths[(epoch - 1) % len(paths)],
            split,
            self.cfg.source_lang,
            self.cfg.target_lang,
            names=sorted(self.syntax_features),
            combine=combine,
            dataset_impl=self.cfg.dataset_impl,
            upsample_primary=self.cfg.upsample_primary,
        )
        self.datasets[split] = SyntaxLanguagePairDataset.from_pairs(
            self.datasets[split],
            syntax=features,
            truncated=self.cfg.truncate_source,
            num_buckets=self.cfg.num_batch_buckets,
        )

    @contextmanager
    def _no_bucketing(self) -> Iterator[None]:
        # fairseq's dataset cannot bucket under numpy 2; ours does it afterwards.
        num_buckets = self.cfg.num_batch_buckets
        self.cfg.num_batch_buckets = 0
        try:
            yield
        finally:
            self.cfg.num_batch_buckets = num_buckets

    def can_reuse_epoch_itr(self, dataset: Any) -> bool:
        """No: an epoch's batches then depend on its number alone, not on the epoch in which this process started,
        and a resumed run sees the batches that it would have seen."""
        return False

    def begin_epoch(self, epoch: int, model: Any) -> None:
        super().begin_epoch(epoch, model)
        if hasattr(model, "set_epoch"):
            model.set_epoch(epoch)

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Steps, leaving the parameters that the model holds frozen exactly as they are."""
        parameters = model.frozen_parameters() if hasattr(model, "frozen_parameters") else []
        with frozen(parameters, optimizer):
            super().optimizer_step(optimizer, model, update_num)


def _without_syntax(forward: Any, *args: Any, src_syntax: Any = None, **kwargs: Any) -> Any:
    return forward(*args, **kwargs)
