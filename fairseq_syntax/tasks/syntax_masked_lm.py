"""Masked language modelling of sentences with their parses."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairseq import utils
from fairseq.data import NestedDictionaryDataset, TokenBlockDataset
from fairseq.models import FairseqEncoderModel
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fairseq_syntax.compat.last_batch import AllExamples
from fairseq_syntax.data.examples import BlockFeatures, Lines, innermost
from fairseq_syntax.data.features import line_lengths
from fairseq_syntax.data.training_record import DataBins
from fairseq_syntax.inference.examples import Place
from fairseq_syntax.tasks.syntax_task import SyntaxTask, SyntaxTaskConfig


@dataclass
class SyntaxMaskedLMConfig(SyntaxTaskConfig, MaskedLMConfig):
    """fairseq's options of the task, and ours."""


@register_task("syntax_masked_lm", dataclass=SyntaxMaskedLMConfig)
class SyntaxMaskedLMTask(SyntaxTask, MaskedLMTask):
    """fairseq's ``masked_lm``, whose batches also have the models' features.

    Tokens are masked, never features. fairseq may mask ``<s>`` and ``</s>``, too: features say which they are.
    """

    criterion_of_parses = "masked_lm_with_syntax"
    kind_of_model = "an encoder, such as tree_bias_roberta"

    @staticmethod
    def takes(model: type) -> bool:
        return issubclass(model, FairseqEncoderModel)

    @property
    def texts(self) -> Sequence[DataBins]:
        return [DataBins(tuple(utils.split_paths(str(self.cfg.data))))]

    @property
    def example_places(self) -> Sequence[Place]:
        return [Place(0, self.source_dictionary.bos())]

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split, with the features that the models built so far need.

        Raises:
            InputError: features are not those of the tokens.
            ValueError: ``--mask-whole-words``, which fails in fairseq; or blocks are not of whole lines, or lines are
                cropped, and models need features.
        """
        if self.cfg.mask_whole_words:
            raise ValueError("--mask-whole-words: fairseq's task fails under it (it has no 'args'): leave it out")
        (text,) = self.texts
        features = self.load_features(text, split, epoch=epoch, combine=combine)
        self.warn_of_unknown_labels(split, features)
        if features:
            self._check_blocks()
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if features:
            nested = innermost(self.datasets[split], NestedDictionaryDataset)
            tokens = nested.defn["net_input.src_tokens"]
            blocks = innermost(tokens, TokenBlockDataset)
            lines = Lines(features, line_lengths(text, split, epoch=epoch, combine=combine))
            nested.defn["net_input.src_syntax"] = BlockFeatures(lines, blocks, tokens.sizes)
        self.datasets[split] = AllExamples(self.datasets[split])

    def _check_blocks(self) -> None:
        """Raise :class:`ValueError` unless blocks are of whole lines, or of the beginnings of lines."""
        cfg = self.cfg
        if cfg.sample_break_mode in (None, "none"):
            raise ValueError(
                "--sample-break-mode: expected eos, complete or complete_doc, since the model needs features, and none "
                "cuts lines anywhere"
            )
        if cfg.shorten_method == "random_crop":
            raise ValueError("--shorten-method: expected none or truncate, which cut features, too; found random_crop")
        if cfg.d2v2_multi:
            raise ValueError("--d2v2-multi: expected without it, since the model needs features")
