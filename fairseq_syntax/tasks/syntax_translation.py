"""Translation of a source sentence together with its parse."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from fairseq import utils
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II
from torch import nn
from torch.utils.data import Dataset

from fairseq_syntax.data.feature_files import load_features
from fairseq_syntax.data.syntax_language_pair_dataset import SyntaxLanguagePairDataset
from fairseq_syntax.modules.calls import outputs_of
from fairseq_syntax.modules.freezing import frozen
from fairseq_syntax.modules.gate import average_statistics


@dataclass
class SyntaxTranslationConfig(TranslationConfig):
    """fairseq's translation options; which features are read follows from the model."""

    tpu: bool = II("common.tpu")
    ddp_backend: str = II("distributed_training.ddp_backend")


@register_task("syntax_translation", dataclass=SyntaxTranslationConfig)
class SyntaxTranslationTask(TranslationTask):
    """fairseq's translation task, whose batches also hold the features that the task's models need.

    They are in ``net_input["src_syntax"]``. A model that needs none (any stock one) gets fairseq's own batches.
    """

    def __init__(self, cfg: SyntaxTranslationConfig, src_dict: Any, tgt_dict: Any):
        super().__init__(cfg, src_dict, tgt_dict)
        self.syntax_features: set[str] = set()

    @classmethod
    def setup_task(cls, cfg: SyntaxTranslationConfig, **kwargs: Any) -> "SyntaxTranslationTask":
        if cfg.tpu is True and find_spec("torch_xla") is None:  # (made in Python, a configuration says "${common.tpu}")
            raise ValueError(
                "--bf16, --memory-efficient-bf16 and --tpu make fairseq train on a TPU, for which torch_xla is not "
                "installed. For mixed precision use --amp or --fp16 (CUDA); fairseq-hydra-train's common.bf16=true "
                "trains in bfloat16 without a TPU"
            )
        task: SyntaxTranslationTask = super().setup_task(cfg, **kwargs)
        return task

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> nn.Module:
        model = super().build_model(cfg, from_checkpoint)
        if self.cfg.ddp_backend == "fully_sharded" and hasattr(model, "gates") and model.cfg.gate_warmup_epochs:
            raise ValueError(
                "--ddp-backend fully_sharded makes one parameter of all of a layer's, of which pre-warmup cannot keep "
                "the gate's still: give --gate-warmup-epochs 0, or another backend"
            )
        self.syntax_features.update(getattr(model, "syntax_features", ()))
        return model

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split and, for all sentences of it, the features that the models built so far need."""
        with self._no_bucketing():
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        paths = utils.split_paths(self.cfg.data)
        if split != self.cfg.train_subset:
            paths = paths[:1]
        if epoch == 1:  # what is wrong in a later shard shows before training starts
            for path in paths[1:]:
                self._load_features(path, split, combine)
        features = self._load_features(paths[(epoch - 1) % len(paths)], split, combine)
        self.datasets[split] = SyntaxLanguagePairDataset.from_pairs(
            self.datasets[split],
            syntax=features,
            truncated=self.cfg.truncate_source,
            num_buckets=self.cfg.num_batch_buckets,
        )

    def _load_features(self, path: str, split: str, combine: bool) -> dict[str, Dataset]:
        return load_features(
            path,
            split,
            self.cfg.source_lang,
            self.cfg.target_lang,
            dictionary=self.src_dict,
            names=sorted(self.syntax_features),
            combine=combine,
            dataset_impl=self.cfg.dataset_impl,
            upsample_primary=self.cfg.upsample_primary,
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

    def get_batch_iterator(self, dataset: Any, *args: Any, epoch: int = 1, **kwargs: Any) -> Any:
        """As fairseq's. Where fairseq keeps the batches of the epoch in which the process started (that is, unless
        options or shards renew them), they are those of epoch 1: a resumed run goes on with the batches it had."""
        if kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr"):
            return super().get_batch_iterator(dataset, *args, epoch=epoch, **kwargs)
        kept = self.dataset_to_epoch_iter.get(dataset)
        iterator = super().get_batch_iterator(dataset, *args, epoch=1, **kwargs)
        if iterator is not kept:
            iterator.epoch = epoch
        return iterator

    def begin_epoch(self, epoch: int, model: Any) -> None:
        super().begin_epoch(epoch, model)
        if hasattr(model, "set_epoch"):
            model.set_epoch(epoch)

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Steps, leaving the parameters that the model holds frozen exactly as they are."""
        parameters = model.frozen_parameters() if hasattr(model, "frozen_parameters") else []
        with frozen(parameters, optimizer):
            super().optimizer_step(optimizer, model, update_num)
        if hasattr(model, "gates"):
            average_statistics(model.gates.values())

    def valid_step(self, sample: dict[str, Any], model: Any, criterion: Any) -> tuple[Any, Any, dict[str, Any]]:
        """As fairseq's; the log also gets each gate's sum over the batch's sentences."""
        gates = getattr(model, "gates", {})
        with outputs_of(gates.values()) as outputs:
            loss, sample_size, logging_output = super().valid_step(sample, model, criterion)
        if gates:  # the first call of each; --eval-bleu makes more
            sums = torch.stack([outputs[gate][0].sum(dim=0) for gate in gates.values()])
            logging_output.update(zip(model.gate_names, sums.flatten().tolist(), strict=True))
            logging_output["gated_sentences"] = len(sample["id"])
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs: Sequence[dict[str, Any]], criterion: Any) -> None:
        """As fairseq's; after validation also each gate's mean over the sentences."""
        super().reduce_metrics(logging_outputs, criterion)
        names = [name for name in (logging_outputs[0] if logging_outputs else {}) if name.startswith("gate_")]
        sentences = sum(log.get("gated_sentences", 0) for log in logging_outputs)
        if sentences:  # none, where fairseq fills up a rank's batches with an empty one
            for name in names:
                mean = sum(log[name] for log in logging_outputs) / sentences
                metrics.log_scalar(name, mean, weight=sentences, round=3)

    def inference_step(
        self, generator: Any, models: list[nn.Module], sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """As fairseq's; stock models in an ensemble with ours do not see the features."""
        if "src_syntax" in sample["net_input"]:
            for model in models:
                if not hasattr(model, "syntax_features"):
                    _ignore_syntax(model)
        return super().inference_step(generator, models, sample, *args, **kwargs)


def _ignore_syntax(model: Any) -> None:
    """Makes a stock model, which refuses arguments that it does not know, drop ``src_syntax``."""
    for module in (model, model.encoder):  # generation calls the encoder's forward itself
        if getattr(module.forward, "func", None) is not _without_syntax:
            module.forward = partial(_without_syntax, module.forward)


def _without_syntax(forward: Any, *args: Any, src_syntax: Any = None, **kwargs: Any) -> Any:
    return forward(*args, **kwargs)
