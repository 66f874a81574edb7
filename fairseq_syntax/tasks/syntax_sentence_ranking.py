"""Choice among sentences that follow a context, with their parses."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from fairseq.data import (
    ConcatSentencesDataset,
    FairseqDataset,
    NestedDictionaryDataset,
    PrependTokenDataset,
    RightPadDataset,
    TruncateDataset,
    data_utils,
)
from fairseq.data.shorten_dataset import maybe_shorten_dataset
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.sentence_prediction import SHORTEN_METHOD_CHOICES
from fairseq.tasks.sentence_ranking import SentenceRankingTask
from omegaconf import II, MISSING, OmegaConf

from fairseq_syntax.data.examples import innermost
from fairseq_syntax.inference.examples import Place
from fairseq_syntax.tasks.example_task import ExampleTask, ExampleTaskConfig


@dataclass
class StockRankingConfig(FairseqDataclass):
    """fairseq's options of ``sentence_ranking``, which has no such class."""

    data: str = field(default=MISSING, metadata={"help": "folder with input0 (the context), input1 … and label"})
    num_classes: int = field(default=-1, metadata={"help": "number of sentences to choose from"})
    init_token: Optional[int] = field(
        default=None, metadata={"help": "number of the token at the beginning of each example"}
    )
    separator_token: Optional[int] = field(
        default=None, metadata={"help": "number of the token before an example's second segment"}
    )
    no_shuffle: bool = field(default=False, metadata={"help": "keep the order of the examples"})
    shorten_method: SHORTEN_METHOD_CHOICES = field(
        default="none", metadata={"help": "how to shorten examples that exceed --max-positions"}
    )
    shorten_data_split_list: str = field(
        default="", metadata={"help": "splits to shorten, with commas between (default: all)"}
    )
    max_option_length: Optional[int] = field(
        default=None, metadata={"help": "cut each sentence to choose from to this number of tokens"}
    )
    max_positions: int = field(default=512, metadata={"help": "number of tokens of an example at most"})
    seed: int = II("common.seed")
    dataset_impl: Optional[str] = II("dataset.dataset_impl")


@dataclass
class SyntaxSentenceRankingConfig(ExampleTaskConfig, StockRankingConfig):
    """fairseq's options of the task, and ours."""

    context_first: bool = field(
        default=False,
        metadata={"help": "put the context before the sentence to choose, as SG-Net"},
    )


@register_task("syntax_sentence_ranking", dataclass=SyntaxSentenceRankingConfig)
class SyntaxSentenceRankingTask(ExampleTask, SentenceRankingTask):
    """fairseq's ``sentence_ranking``, whose batches also have the models' features.

    Those of option k are in ``net_input{k}``, k from 1.
    """

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the options of the configuration; fairseq's task adds its own."""
        FairseqTask.add_args.__func__(cls, parser)

    @classmethod
    def setup_task(cls, cfg: SyntaxSentenceRankingConfig, **kwargs: Any) -> "SyntaxSentenceRankingTask":
        """As fairseq's, which makes a task of its own class.

        Raises:
            ValueError: ``--num-classes`` is not the number of sentences to choose from.
        """
        if cfg.num_classes < 1:
            raise ValueError("--num-classes: expected the number of sentences to choose from, found none")
        if os.path.isdir(more := os.path.join(cfg.data, f"input{cfg.num_classes + 1}")):
            raise ValueError(f"--num-classes: expected the number of sentences to choose from, found also {more}")
        cls.prepare_process(cfg)
        return cls(cfg, cls.load_dictionary(cfg, os.path.join(cfg.data, "input0", "dict.txt")))

    @property
    def folders(self) -> Sequence[str]:
        """``input0``, the context, and one of each option."""
        return [f"input{k}" for k in range(1 + self.cfg.num_classes)]

    @property
    def example_places(self) -> Sequence[Place]:
        """The places of the context and one option."""
        cfg = self.cfg
        first, second = (0, 1) if cfg.context_first else (1, 0)
        most = [None, cfg.max_option_length]
        return [Place(first, cfg.init_token, most[first]), Place(second, cfg.separator_token, most[second])]

    def build_criterion(self, cfg: Any, *more: Any) -> Any:
        """As fairseq's, whose ``sentence_ranking`` has its options' defaults under fairseq-hydra-train, too."""
        if OmegaConf.is_config(cfg) and cfg._name == "sentence_ranking":
            head, classes = "sentence_classification_head", self.cfg.num_classes
            defaults = {"ranking_head_name": head, "save_predictions": None, "num_classes": classes}
            cfg = OmegaConf.merge(defaults, cfg)
        return super().build_criterion(cfg, *more)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split, with the features that the models built so far need.

        Raises:
            InputError: see :meth:`load_lines`; or a line of ``label/SPLIT.label`` is no option.
            ValueError: options are not possible with features, or with ``--context-first``.
        """
        cfg = self.cfg
        context, *options = self.load_lines(split, combine=combine)
        choices = {str(k) for k in range(cfg.num_classes)}
        self.check_labels(
            split,
            len(context.lengths),
            f"an option from 0 to {cfg.num_classes - 1}",
            lambda line: line.strip() in choices,
        )
        with self.truncating():
            super().load_dataset(split, combine=combine, **kwargs)
            nested = innermost(self.datasets[split], NestedDictionaryDataset)
            if cfg.context_first:
                for k in range(1, 1 + cfg.num_classes):
                    tokens = self._after_context(k, split, combine=combine)
                    nested.defn[f"net_input{k}.src_tokens"] = RightPadDataset(tokens, self.dictionary.pad())
        if self.syntax_features:
            for k, option in enumerate(options, start=1):
                option = replace(option, most=cfg.max_option_length)
                texts = [context, option] if cfg.context_first else [option, context]
                self.add_features(nested, f"net_input{k}", texts)
        self.datasets[split] = self.in_batches(self.datasets[split])

    def _after_context(self, k: int, split: str, *, combine: bool) -> FairseqDataset:
        """Return the tokens of examples whose option k follows the context; they are as many as in fairseq's order."""
        cfg, segments = self.cfg, []
        if cfg.init_token is None or cfg.separator_token is None:
            raise ValueError("--context-first: expected --init-token and --separator-token beside it")
        for name, token in (("input0", cfg.init_token), (f"input{k}", cfg.separator_token)):
            path = os.path.join(cfg.data, name, split)
            tokens = data_utils.load_indexed_dataset(path, self.dictionary, cfg.dataset_impl, combine=combine)
            segments.append(PrependTokenDataset(tokens, token))
        if cfg.max_option_length is not None:
            segments[1] = TruncateDataset(segments[1], cfg.max_option_length)
        return maybe_shorten_dataset(
            ConcatSentencesDataset(*segments),
            split, cfg.shorten_data_split_list, cfg.shorten_method, cfg.max_positions, cfg.seed,
        )  # fmt: skip
