"""Answers to questions, which are spans of passages, with the parses of both."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.data import Dictionary, data_utils
from fairseq.tasks import register_task
from omegaconf import MISSING, OmegaConf, open_dict
from torch import nn

from fairseq_syntax.data.passage_windows import Layout, PassageWindows, Text
from fairseq_syntax.modules.span_head import add_span_head
from fairseq_syntax.tasks.example_task import ExampleTask
from fairseq_syntax.tasks.syntax_task import SyntaxTaskConfig
from syntax_data.errors import InputError
from syntax_data.squad.read import read_examples

#: Labels of windows under ``--criterion sentence_prediction``.
LABELS = ("answerable", "impossible")


@dataclass
class SyntaxSpanPredictionConfig(SyntaxTaskConfig):
    """Windows of passages, and what the criterion predicts of them."""

    data: str = field(default=MISSING, metadata={"help": "folder with passage/, question/ and SPLIT.examples.jsonl"})
    window: int = field(
        default=384, metadata={"help": "tokens of a question and a window of its passage, at most --max-positions"}
    )
    stride: int = field(default=128, metadata={"help": "subwords from a window's start to the next one's"})
    max_question: int = field(default=64, metadata={"help": "first subwords of a question to keep"})
    passage_first: bool = field(
        default=False, metadata={"help": "<s> passage </s> </s> question </s>, as SG-Net (default: the question first)"}
    )
    max_positions: int = field(default=512, metadata={"help": "positions that the model has embeddings for"})

    # None for a criterion without such a field, which setup_task refuses; II("…") would be an error before that.
    criterion_name: Optional[str] = "${oc.select:criterion._name,null}"
    classification_head_name: Optional[str] = "${oc.select:criterion.classification_head_name,null}"


@register_task("syntax_span_prediction", dataclass=SyntaxSpanPredictionConfig)
class SyntaxSpanPredictionTask(ExampleTask):
    """Spans of passages that answer questions (SQuAD 2.0).

    The data is that of ``fairseq-syntax-squad prepare``. An example is a window of a passage with its question. Its
    features are cut from the whole passage's, so that attention biases are sub-matrices of the passage's. Under
    ``--criterion sentence_prediction`` windows are answerable or impossible, and the model is a verifier (Zhang et al.
    2021, §3.4.1).
    """

    lines_correspond = False

    def __init__(self, cfg: SyntaxSpanPredictionConfig):
        super().__init__(cfg)
        self.dictionary = Dictionary.load(os.path.join(cfg.data, "passage", "dict.txt"))
        self.dictionary.add_symbol("<mask>")  # as fairseq's tasks of RoBERTa have it
        self.layout = Layout(cfg.window, cfg.stride, cfg.max_question, cfg.passage_first)
        self.label_dictionary = Dictionary()
        for label in LABELS:
            self.label_dictionary.add_symbol(label)

    @classmethod
    def setup_task(cls, cfg: SyntaxSpanPredictionConfig, **kwargs: Any) -> Any:
        """Return the task.

        Raises:
            ValueError: the criterion is no loss of spans or of a verifier; or windows are longer than
                ``--max-positions``, or have no room for a passage.
        """
        if cfg.criterion_name not in ("span_prediction", "sentence_prediction"):
            raise ValueError(
                "--criterion: expected span_prediction, or sentence_prediction for a verifier, found "
                f"{cfg.criterion_name or 'another'}"
            )
        if cfg.window > cfg.max_positions:
            raise ValueError(f"--window: expected at most --max-positions {cfg.max_positions}, found {cfg.window}")
        return super().setup_task(cfg)  # fairseq's own tasks leave the rest out, too

    @property
    def folders(self) -> Sequence[str]:
        return ["passage", "question"] if self.cfg.passage_first else ["question", "passage"]

    @property
    def predicts_spans(self) -> bool:
        """Examples have spans, and not only labels."""
        return bool(self.cfg.criterion_name == "span_prediction")

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> nn.Module:
        """As fairseq's, with the head that the criterion needs."""
        with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
            cfg.max_positions = self.cfg.max_positions
            if not self.predicts_spans:
                cfg.label_names = " ".join(LABELS)
        model = super().build_model(cfg, from_checkpoint)
        if self.predicts_spans:
            add_span_head(model, self.cfg.classification_head_name)
        else:
            model.register_classification_head(  # type: ignore[operator]
                self.cfg.classification_head_name, num_classes=len(LABELS)
            )
        return model

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split, with the features that the models built so far need.

        Raises:
            FileNotFoundError: SPLIT.examples.jsonl, tokens or features are missing.
            InputError: examples are not of these texts; features are not, see :meth:`load_lines`; or a part SPLIT1
                would be left out.
        """
        parts = [f"{self._prefix(name, split)}1.idx" for name in self.folders]
        if combine and (more := next(filter(os.path.exists, parts), None)):
            raise InputError(
                more, None, f"expected all examples in {split}, found another part of it: prepare them as one"
            )
        path = os.path.join(self.cfg.data, f"{split}.examples.jsonl")
        examples = read_examples(path)
        lines = self.load_lines(split)
        texts = {
            name: Text(data_utils.load_indexed_dataset(self._prefix(name, split), self.dictionary), of_text.features)
            for name, of_text in zip(self.folders, lines, strict=True)
        }
        try:
            self.datasets[split] = PassageWindows(
                examples,
                questions=texts["question"],
                passages=texts["passage"],
                layout=self.layout,
                dictionary=self.dictionary,
                labels=not self.predicts_spans,
            )
        except ValueError as error:
            raise InputError(path, None, str(error)) from None

    def _prefix(self, folder: str, split: str) -> str:
        return os.path.join(self.cfg.data, folder, split)

    def max_positions(self) -> int:
        return int(self.cfg.max_positions)

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        return self.dictionary
