"""Classification of sentences and pairs of them, and regression, with parses."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import logging
import math
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary, FairseqDataset, NestedDictionaryDataset, RightPadDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from omegaconf import OmegaConf, open_dict
from torch import nn

from fairseq_syntax.compat import scores_of_processes
from fairseq_syntax.data.examples import Lines, Renumbered, innermost
from fairseq_syntax.data.training_record import DataBins
from fairseq_syntax.inference import roberta_hub
from fairseq_syntax.inference.examples import Place
from fairseq_syntax.inference.roberta_hub import SyntaxRobertaHubInterface
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.tasks.example_task import ExampleTask, ExampleTaskConfig
from syntax_data.data_bin.mmap import MmapValues
from syntax_data.errors import InputError

logger = logging.getLogger(__name__)


@dataclass
class SyntaxSentencePredictionConfig(ExampleTaskConfig, SentencePredictionConfig):
    """fairseq's options of the task, and ours."""


@register_task("syntax_sentence_prediction", dataclass=SyntaxSentencePredictionConfig)
class SyntaxSentencePredictionTask(ExampleTask, SentencePredictionTask):
    """fairseq's ``sentence_prediction``, whose batches also have the models' features.

    A checkpoint records the names of its labels in the order of its outputs, as the model's option ``label_names``.
    Labels of other data, which may number them differently, are found by name; data without labels needs no dictionary
    of them.
    """

    def __init__(self, cfg: SyntaxSentencePredictionConfig, data_dictionary: Dictionary, label_dictionary: Dictionary):
        super().__init__(cfg, data_dictionary, label_dictionary)
        #: Label names by number: in the data, and as the model has them.
        self._names_in_data = [] if cfg.regression_target else _names(label_dictionary)
        self.label_names = self._names_in_data
        self._takes_label_sets = False
        #: Numbers of the symbols whose states a model's heads read.
        self._markers: dict[str, int] = {}

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """As fairseq's; an empty one of labels where there is no file."""
        if os.path.basename(os.path.dirname(filename)) == "label" and not os.path.exists(filename):
            return Dictionary()
        dictionary: Dictionary = super().load_dictionary(filename)
        return dictionary

    @property
    def folders(self) -> Sequence[str]:
        """``input0``, and ``input1`` where there is one."""
        return ["input0", "input1"][: 1 + os.path.isdir(os.path.join(self.cfg.data, "input1"))]

    @property
    def example_places(self) -> Sequence[Place]:
        before = self.cfg.init_token, self.cfg.separator_token
        return [Place(number, before[number]) for number in range(len(self.folders))]

    @staticmethod
    def from_pretrained(*args: Any, **kwargs: Any) -> SyntaxRobertaHubInterface:
        """Return the interface of a model of any task.

        See :meth:`fairseq_syntax.models.roberta.SyntaxRobertaModel.from_pretrained`.
        """
        return roberta_hub.from_pretrained(*args, **kwargs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> nn.Module:
        """As fairseq's.

        Raises:
            FileNotFoundError: neither the data nor a checkpoint has names of labels.
            ValueError: there are more labels than ``--num-classes``; or the data has a label that the checkpoint lacks.
        """
        recorded: Optional[str] = getattr(cfg, "label_names", None) if from_checkpoint else None
        if recorded and not self.cfg.regression_target:
            self._use_labels(recorded.split())
        if not (self.label_names or self.cfg.regression_target):
            raise FileNotFoundError(f"{self._label_file('dict.txt')}: expected the names of the labels, found none")
        if len(self.label_names) > self.cfg.num_classes:
            raise ValueError(
                f"--num-classes: expected at least {len(self.label_names)}, the number of labels in "
                f"{self._label_file('dict.txt')}, found {self.cfg.num_classes}"
            )
        self._warn_of_options()
        with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
            cfg.label_names = " ".join(self.label_names)
        model = super().build_model(cfg, from_checkpoint)
        pooling = getattr(model, "pooling", None)
        if pooling is not None and pooling.kind == "markers":
            self._markers = {symbol: self.dictionary.index(symbol) for symbol in pooling.markers}
        return model

    def _warn_of_options(self) -> None:
        """Warn of defaults of fairseq's that are seldom wanted, and of classes that no label has."""
        bos, eos = self.dictionary.bos(), self.dictionary.eos()
        if self.cfg.init_token is None:
            logger.warning("--init-token: no example begins with <s>, which heads read by default; give %d", bos)
        if self.cfg.separator_token is None and len(self.folders) > 1:
            logger.warning("--separator-token: only </s> is between the two sentences of an example; give %d", eos)
        if 0 < len(self.label_names) < self.cfg.num_classes:
            logger.warning("--num-classes %d: there are %d labels", self.cfg.num_classes, len(self.label_names))

    def _use_labels(self, names: list[str]) -> None:
        """Number labels as a checkpoint does."""
        if unknown := [name for name in self._names_in_data if name not in names]:
            raise ValueError(
                f"{self._label_file('dict.txt')}: expected labels of the checkpoint ({' '.join(names)}), found "
                f"{' '.join(unknown)}"
            )
        self.label_names = names
        self._label_dictionary = Dictionary()
        for name in names:
            self._label_dictionary.add_symbol(name)

    def build_criterion(self, cfg: Any, *more: Any) -> Any:
        """As fairseq's.

        Raises:
            ValueError: the criterion's scores need labels that are integers, and some are not.
        """
        criterion = super().build_criterion(cfg, *more)
        self._takes_label_sets = getattr(criterion, "takes_label_sets", False)
        no_integers = [name for name in self.label_names if not name.lstrip("-").isdecimal()]
        if getattr(criterion, "keep_pred_and_targ", False) and no_integers:
            raise ValueError(
                "--report-mcc, --report-acc-and-f1, --report-pearson-and-spearman: expected labels that are integers, "
                f"found {' '.join(no_integers)} in {self._label_file('dict.txt')}"
            )
        return criterion

    @staticmethod
    def logging_outputs_can_be_summed(criterion: Any) -> bool:
        joined: bool = SentencePredictionTask.logging_outputs_can_be_summed(criterion)
        return joined and scores_of_processes.can_be_summed(criterion)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split, with the features that the models built so far need.

        Raises:
            InputError: see :meth:`load_lines`; a line has not one label, and the criterion needs one; or an example
                lacks a marker, which may be cut off.
            ValueError: options are not possible with features.
        """
        lines = self.load_lines(split, combine=combine)
        number = len(lines[0].lengths)
        if self.cfg.regression_target:
            self.check_labels(split, number, f"{self.cfg.num_classes} numbers", self._is_regression_target)
        else:
            self._check_class_labels(split, number, combine=combine)
        with self.truncating():
            super().load_dataset(split, combine=combine, **kwargs)
        nested = innermost(self.datasets[split], NestedDictionaryDataset)
        if self._markers:
            self._check_markers(split, nested.defn["net_input.src_tokens"])
        if self.syntax_features:
            self.add_features(nested, "net_input", lines)
        if "target" in nested.defn and not self.cfg.regression_target:
            self._number_labels(nested)
        self.datasets[split] = self.in_batches(self.datasets[split])

    def _check_markers(self, split: str, tokens: FairseqDataset) -> None:
        """Raise :class:`InputError` unless each example has all markers."""
        lacking = [
            (i, symbol)
            for symbol, number in self._markers.items()
            for i in range(len(tokens))
            if number not in tokens[i].tolist()
        ]
        if lacking:
            (i, symbol), length = lacking[0], len(tokens[lacking[0][0]])
            raise InputError(
                self.cfg.data, None,
                f"expected the marker {symbol} among the {length} tokens of example {i} of {split} (counted from 0), "
                f"found none; {len(lacking)} markers are absent, or cut off",
            )  # fmt: skip

    def add_features(self, nested: NestedDictionaryDataset, key: str, texts: Sequence[Lines]) -> None:
        """As the base's; :class:`ValueError` also for options under which batches have other tokens."""
        for option in ("d2v2_multi", "add_prev_output_tokens"):
            if getattr(self.cfg, option):
                name = option.replace("_", "-")
                raise ValueError(f"--{name}: expected without it, since the model needs features")
        super().add_features(nested, key, texts)

    def _number_labels(self, nested: NestedDictionaryDataset) -> None:
        """Number labels by name, as the model does; those of a line are padded if the criterion takes several."""
        if self.label_names != self._names_in_data:
            table = [self.label_names.index(name) for name in self._names_in_data]
            nested.defn["target"] = Renumbered(nested.defn["target"], table)
        if self._takes_label_sets:
            nested.defn["target"] = RightPadDataset(nested.defn["target"], pad_idx=UNKNOWN)

    def _is_regression_target(self, line: str) -> bool:
        try:
            values = [float(value) for value in line.split()]
        except ValueError:
            return False
        return len(values) == self.cfg.num_classes and all(map(math.isfinite, values))

    def _check_class_labels(self, split: str, lines: int, *, combine: bool) -> None:
        """Raise :class:`InputError` unless each line of text has a label, or any number if the criterion takes them."""
        labels, symbols = DataBins((os.path.join(self.cfg.data, "label"),)), self.label_dictionary
        parts = list(labels.parts(labels.folders[0], split, combine=combine))
        for part in parts:
            if not self._names_in_data:
                raise InputError(part.prefix, None, f"expected the names of its labels, found no {part.dictionary}")
            tokens = MmapValues(part.prefix)
            lines -= len(tokens.lengths)
            values = tokens.between(0, len(tokens.lengths))
            unknown = np.flatnonzero((values < symbols.nspecial) & (values != symbols.eos()))
            if len(unknown):
                line = np.searchsorted(np.cumsum(tokens.lengths), unknown[0], side="right")
                message = f"expected a label of {part.dictionary}, found another one ({symbols[values[unknown[0]]]})"
                raise InputError(part.prefix, int(line) + 1, message)
            wrong = np.flatnonzero(tokens.lengths != 2)  # with </s>
            if len(wrong) and not self._takes_label_sets:
                message = f"expected one label, found {tokens.lengths[wrong[0]] - 1}; {len(wrong)} lines differ "
                message += "(--criterion multi_label_prediction takes any number of labels)"
                raise InputError(part.prefix, int(wrong[0]) + 1, message)
        if parts and lines:
            message = f"expected a label for each line of text, found {abs(lines)} {'fewer' if lines > 0 else 'more'}"
            raise InputError(parts[0].prefix, None, message)

    def _label_file(self, name: str) -> str:
        return os.path.join(self.cfg.data, "label", name)


def _names(labels: Dictionary) -> list[str]:
    """Names in a label dictionary, without special symbols and what fairseq-preprocess pads it with."""
    names = labels.symbols[labels.nspecial :]
    return [name for name in names if name != "<mask>" and not name.startswith("madeupword")]
