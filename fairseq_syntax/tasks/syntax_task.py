"""The training, validation and labels of every task with a syntax model."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import nn

from fairseq_syntax.compat import bfloat16, cudnn_attention, resumption
from fairseq_syntax.compat.frozen_parameters import frozen
from fairseq_syntax.data.features import SplitFeatures, load_features, warn_of_unknown_labels
from fairseq_syntax.data.training_record import DataBins, label_vocabulary
from fairseq_syntax.inference.examples import Place
from fairseq_syntax.models.cpu_dropout import use_fast_dropout
from fairseq_syntax.models.syntax_model import syntax_of
from fairseq_syntax.tasks import validation_log
from fairseq_syntax.tasks.cpu_memory import keep_freed_memory

logger = logging.getLogger(__name__)


@dataclass
class SyntaxTaskConfig(FairseqDataclass):
    """Options of every task with a syntax model."""

    cpu_dropout: ChoiceEnum(["fast", "torch"]) = field(  # type: ignore[valid-type]
        default="fast",
        metadata={
            "help": "dropout on a CPU: from 16 random bits an entry, probabilities in multiples of 2^-16 (fast), or "
            "torch's, from 64; default: fast"
        },
    )

    cpu_memory: ChoiceEnum(["keep", "system"]) = field(  # type: ignore[valid-type]
        default="keep",
        metadata={
            "help": "in training on a CPU, keep freed memory for later, or let the system's malloc return much of it "
            "(system); default: keep"
        },
    )

    cudnn_attention: bool = field(
        default=False,
        metadata={
            "help": "let torch use cuDNN's attention, its first choice on Hopper, which torch 2.11 to 2.13 compute "
            "wrongly under some masks (default: off, for all models of the process)"
        },
    )

    matmul_precision: ChoiceEnum(["highest", "high", "medium"]) = field(  # type: ignore[valid-type]
        default="highest",
        metadata={
            "help": "of float32 products in training (high: TF32 on a GPU; medium: mixed with bfloat16 on a CPU); "
            "default: highest"
        },
    )

    tpu: bool = II("common.tpu")
    ddp_backend: str = II("distributed_training.ddp_backend")
    tensorboard_logdir: Optional[str] = II("common.tensorboard_logdir")
    train_subset: str = II("dataset.train_subset")
    valid_subset: str = II("dataset.valid_subset")


class SyntaxTask(FairseqTask):
    """Base of tasks with a syntax model, before fairseq's own task among the bases.

    Batches have the models' features in ``net_input["src_syntax"]``. A model that needs none (any stock one) gets
    fairseq's own batches.
    """

    #: A criterion with losses of predicted parses.
    criterion_of_parses: ClassVar[str]
    #: The models that it trains, for messages.
    kind_of_model: ClassVar[str]

    def __init__(self, cfg: Any, *args: Any, **kwargs: Any):
        super().__init__(cfg, *args, **kwargs)
        self.cfg = cfg  # fairseq's legacy tasks have none
        self.syntax_features: set[str] = set()
        self.label_features: set[str] = set()
        self._has_auxiliary_losses = False
        #: Features with labels in the data-bin that a model does not know: the labels there, and the model's.
        self._partly_known: list[tuple[str, Sequence[str], Sequence[str]]] = []
        self._subsets_to_validate: deque[str] = deque()

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> Any:
        cls.prepare_process(cfg)
        return super().setup_task(cfg, **kwargs)

    @staticmethod
    def prepare_process(cfg: Any) -> None:
        """Refuse ``--bf16``, and switch cuDNN's attention."""
        bfloat16.check_tpu(cfg.tpu)
        cudnn_attention.switch(cfg.cudnn_attention)

    @property
    def texts(self) -> Sequence[DataBins]:
        """The data-bins of the texts that have features."""
        raise NotImplementedError

    @property
    def example_places(self) -> Sequence[Place]:
        """Places of the sentences of new text, in the order of an example's tokens; none: it is not read so."""
        return ()

    @staticmethod
    def takes(model: type) -> bool:
        """Return if the task trains models of a class."""
        raise NotImplementedError

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> nn.Module:
        """As fairseq's, of a model that the task takes.

        Raises:
            ValueError: the architecture is of another kind of model.
        """
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
        found = ARCH_MODEL_REGISTRY.get(name)  # fairseq refuses others
        if found and not self.takes(found):
            expected = f"{self.kind_of_model}, for --task {self.cfg._name}"
            raise ValueError(f"--arch {name}: expected {expected}, found a {found.__name__}")
        model: nn.Module = super().build_model(cfg, from_checkpoint)
        if syntax := syntax_of(model):
            syntax.check_backend(self.cfg.ddp_backend)
            self.syntax_features.update(syntax.syntax_features)
            self.label_features.update(syntax.label_features)
            in_data = label_vocabulary(self.texts, syntax.feature_labels)
            syntax.set_label_vocabulary(in_data)
            for name, labels in in_data.items():
                if unknown := [label for label in labels if label not in syntax.feature_labels[name]]:
                    logger.warning("the model knows no %s %s, which the data-bin has", name, ", ".join(unknown))
                    self._partly_known.append((name, labels, syntax.feature_labels[name]))
        if self.cfg.cpu_dropout == "fast":
            use_fast_dropout(model)
        return model

    def label_vocabulary(self, feature: str) -> Sequence[str]:
        """Return the labels that a feature numbers in batches, from number 0.

        Raises:
            ValueError: the data-bin has no such feature.
        """
        return label_vocabulary(self.texts, [feature], needed=True)[feature]

    def build_criterion(self, cfg: Any, *more: Any) -> Any:
        """As fairseq's; batches then have the features of its auxiliary losses."""
        criterion = super().build_criterion(cfg, *more)
        self._has_auxiliary_losses = getattr(criterion, "has_auxiliary_losses", False)
        if self.label_features and not self._has_auxiliary_losses:
            logger.warning(
                "the model can learn to predict parses, but this criterion has no loss for that: it trains without "
                "supervision. --criterion %s has one",
                self.criterion_of_parses,
            )
        elif self._has_auxiliary_losses and not self.label_features:
            logger.warning(
                "the criterion has losses of predicted parses, but the model predicts none: it trains without these. "
                "--parent-prediction and --distance-prediction predict them"
            )
        return criterion

    def load_features(self, text: DataBins, split: str, **kwargs: Any) -> SplitFeatures:
        """Load features of the models and auxiliary losses, which only training needs.

        Args:
            **kwargs: of :func:`fairseq_syntax.data.features.load_features`.
        """
        features = load_features(text, split, self.syntax_features, **kwargs)
        if self._has_auxiliary_losses:
            try:
                more = self.label_features - self.syntax_features
                features = {**features, **load_features(text, split, more, **kwargs)}
            except FileNotFoundError:
                if split == self.cfg.train_subset:
                    raise
                logger.info("%s: predictions of parses are not scored, since there are no parses", split)
        return features

    def warn_of_unknown_labels(self, split: str, features: SplitFeatures) -> None:
        """Warns of labels in a split that a model does not know, and counts their subwords."""
        for name, labels, known in self._partly_known:
            warn_of_unknown_labels(split, name, features[name], labels, known)

    def get_batch_iterator(self, dataset: Any, *args: Any, epoch: int = 1, **kwargs: Any) -> Any:
        """As fairseq's; a resumed run goes on with the batches it had."""
        return resumption.batches_of_first_epoch(
            super().get_batch_iterator, self.dataset_to_epoch_iter, dataset, *args, epoch=epoch, **kwargs
        )

    def begin_epoch(self, epoch: int, model: Any) -> None:
        super().begin_epoch(epoch, model)
        if self.cfg.cpu_memory == "keep" and next(model.parameters()).device.type == "cpu":
            keep_freed_memory()
        torch.set_float32_matmul_precision(str(self.cfg.matmul_precision))
        if syntax := syntax_of(model):
            syntax.begin_epoch(epoch)

    def train_step(
        self, sample: dict[str, Any], model: Any, criterion: Any, *args: Any, ignore_grad: bool = False, **kwargs: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """As fairseq's; a dummy batch (`ignore_grad`) changes nothing in the model."""
        if self.cfg.matmul_precision == "medium":  # which torch heeds on few CPUs
            criterion = torch.autocast("cpu", torch.bfloat16)(criterion)
        syntax = syntax_of(model)
        with syntax.pass_of_step(counts=not ignore_grad) if syntax else nullcontext():
            result: tuple[Any, Any, dict[str, Any]] = super().train_step(
                sample, model, criterion, *args, ignore_grad=ignore_grad, **kwargs
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
        if (syntax := syntax_of(model)) is None:
            return super().valid_step(sample, model, criterion)
        inputs = {name: part for name, part in sample.items() if name.startswith("net_input")}  # of ranking, several
        traces = {name: trace for name in inputs if (trace := syntax.validation_trace()) is not None}
        traced = {name: {**inputs[name], "trace": trace} for name, trace in traces.items()}
        loss, sample_size, logging_output = super().valid_step({**sample, **traced}, model, criterion)
        for trace in traces.values():
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


def _loss_scale(optimizer: Any) -> float:
    """Return the factor of losses under ``--amp``; 1 without."""
    return optimizer.scaler.get_scale() if isinstance(optimizer, AMPOptimizer) else 1.0
