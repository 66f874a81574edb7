"""Tasks whose examples join lines of several texts, each in its own folder."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

import filecmp
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Optional

from fairseq.data import Dictionary, FairseqDataset, NestedDictionaryDataset, SortDataset

from fairseq_syntax.compat.last_batch import AllExamples
from fairseq_syntax.data.examples import ExampleFeatures, Lines, Renumbered
from fairseq_syntax.data.features import SplitFeatures, line_lengths
from fairseq_syntax.data.training_record import DataBins, label_vocabulary
from fairseq_syntax.inference.recorded_parser import OF_FILES
from fairseq_syntax.tasks.syntax_task import SyntaxTask, SyntaxTaskConfig
from syntax_data.data_bin.signature import Signature, SplitSignature
from syntax_data.errors import InputError, short_repr
from syntax_data.features import FEATURES


@dataclass
class ExampleTaskConfig(SyntaxTaskConfig):
    """Options of tasks whose examples join lines of several texts."""

    truncate_to: Optional[int] = field(
        default=None,
        metadata={
            "help": "cut examples, and their features, to N tokens; at most --max-positions, for which the model has "
            "embeddings (default: as --shorten-method says)"
        },
    )
    batch_by_length: bool = field(
        default=False,
        metadata={"help": "batches of examples of like lengths, with little padding (default: of any)"},
    )


class ExampleTask(SyntaxTask):
    """Base of tasks whose examples join lines of several texts.

    These are for example ``input0`` and ``input1``. Features are composed as tokens are
    (:mod:`fairseq_syntax.data.composition`). Labels of parses, which each folder numbers for itself, are numbered by
    name.
    """

    criterion_of_parses = "masked_lm_with_syntax, which pre-trains,"
    kind_of_model = "a model with classification heads, such as tree_bias_roberta"
    #: Line i of each text makes example i.
    lines_correspond: ClassVar[bool] = True
    dictionary: Dictionary

    @staticmethod
    def takes(model: type) -> bool:
        return hasattr(model, "register_classification_head")

    @property
    def folders(self) -> Sequence[str]:
        """Names of the texts' folders, in the order of an example's tokens."""
        raise NotImplementedError

    @property
    def texts(self) -> Sequence[DataBins]:
        return [DataBins((os.path.join(self.cfg.data, name),)) for name in self.folders]

    def load_lines(self, split: str, *, combine: bool = False) -> list[Lines]:
        """Load the lines of each text: lengths, and the features that models need.

        Raises:
            FileNotFoundError: an input lacks the split, or features.
            InputError: features are not those of the tokens; or texts differ in their dictionaries, in the number of
                lines, or in settings or parser of their features.
        """
        texts = self.texts
        for text in texts[1:]:
            _check_dictionary(text, texts[0])
        lengths = [line_lengths(text, split, combine=combine) for text in texts]
        for text, found in zip(texts, lengths, strict=True):
            if self.lines_correspond and len(found) != len(lengths[0]):
                message = f"expected {len(lengths[0])} lines, as {texts[0].folders[0]} has, found {len(found)}"
                raise InputError(os.path.join(text.folders[0], split), None, message)
        features = [self.load_features(text, split, combine=combine) for text in texts]
        if features[0]:
            for text in texts[1:]:
                _check_agreement(text, texts[0], split, combine=combine)
            features = [self._by_name(text, rows) for text, rows in zip(texts, features, strict=True)]
            for rows in features:
                self.warn_of_unknown_labels(split, rows)
        return [Lines(rows, of_text) for rows, of_text in zip(features, lengths, strict=True)]

    def in_batches(self, dataset: FairseqDataset) -> FairseqDataset:
        """Return a split's examples in the order that makes its batches, none left out."""
        if self.cfg.batch_by_length:
            lengths = [dataset.num_tokens(i) for i in range(len(dataset))]
            dataset = SortDataset(dataset, [dataset.ordered_indices().argsort(), lengths])
        return AllExamples(dataset)

    def _by_name(self, text: DataBins, features: SplitFeatures) -> SplitFeatures:
        """Number the labels of an input's features as those of all inputs."""
        names = [name for name in features if FEATURES[name].labels == ()]
        found, common = label_vocabulary([text], names), label_vocabulary(self.texts, names)
        tables = {name: [common[name].index(label) for label in found[name]] for name in names}
        return {name: Renumbered(rows, tables[name]) if name in names else rows for name, rows in features.items()}

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """As the base's.

        Raises:
            InputError: a split has no labels to train or validate on.
        """
        super().begin_epoch(epoch, model)
        self._check_labelled()

    def valid_step(self, sample: dict[str, Any], model: Any, criterion: Any) -> tuple[Any, Any, dict[str, Any]]:
        """As the base's, also in fairseq-validate, which begins no epoch."""
        if "target" not in sample:
            self._check_labelled()
        return super().valid_step(sample, model, criterion)

    def _check_labelled(self) -> None:
        """Raise :class:`InputError` for a loaded split without labels."""
        for split, dataset in self.datasets.items():
            if len(dataset) and "target" not in dataset[0]:
                message = f"expected labels for training and validation, found none in {split} "
                message += "(fairseq-preprocess writes classes; numbers are lines of a file SPLIT.label)"
                raise InputError(os.path.join(self.cfg.data, "label"), None, message)

    def check_labels(self, split: str, lines: int, expected: str, is_valid: Callable[[str], bool]) -> None:
        """Check the lines of the text file ``label/SPLIT.label``, if there is one.

        Raises:
            InputError: a line is not as `expected`; or there are not as many as `lines` of text.
        """
        path = os.path.join(self.cfg.data, "label", f"{split}.label")
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            labels = file.read().splitlines()
        for number, label in enumerate(labels, start=1):
            if not is_valid(label):
                raise InputError(path, number, f"expected {expected}, found {short_repr(label)}")
        if len(labels) != lines:
            raise InputError(path, None, f"expected {lines} lines, as the texts have, found {len(labels)}")

    def add_features(self, nested: NestedDictionaryDataset, key: str, texts: Sequence[Lines]) -> None:
        """Add features of examples to the part of batches under a key, such as ``net_input``.

        Args:
            texts: in the order of an example's tokens.

        Raises:
            ValueError: tokens before a line are others than ``<s>`` and ``</s>``, for which features take them, or
                lines are cropped.
        """
        symbols, before = self.dictionary, (self.cfg.init_token, self.cfg.separator_token)
        options = ("--init-token", before[0], symbols.bos()), ("--separator-token", before[1], symbols.eos())
        for option, found, expected in options:
            if found not in (None, expected):
                raise ValueError(
                    f"{option}: expected {expected}, which is {symbols[expected]}, as features take it for; found "
                    f"{found}, which is {symbols[found] if 0 <= found < len(symbols) else 'no symbol'}"
                )
        if self.cfg.shorten_method == "random_crop":
            raise ValueError("--shorten-method: expected none or truncate, which cut features, too; found random_crop")
        texts = [replace(lines, before=int(token is not None)) for lines, token in zip(texts, before, strict=False)]
        nested.defn[f"{key}.src_syntax"] = ExampleFeatures(texts, nested.defn[f"{key}.src_tokens"].sizes)

    @contextmanager
    def truncating(self) -> Iterator[None]:
        """Context in which fairseq cuts examples at ``--truncate-to``.

        Raises:
            ValueError: it is no length of an example.
        """
        cfg, length = self.cfg, self.cfg.truncate_to
        given = cfg.max_positions, cfg.shorten_method
        if length is not None:
            if not 1 <= length <= cfg.max_positions:
                raise ValueError(
                    f"--truncate-to: expected from 1 to --max-positions {cfg.max_positions}, found {length}"
                )
            cfg.max_positions, cfg.shorten_method = length, "truncate"
        try:
            yield
        finally:
            cfg.max_positions, cfg.shorten_method = given


def _check_dictionary(text: DataBins, first: DataBins) -> None:
    """Raise :class:`InputError` if an input has a dictionary other than the first, by which it is read."""
    path, expected = (os.path.join(of_text.folders[0], "dict.txt") for of_text in (text, first))
    if not os.path.exists(path) or filecmp.cmp(path, expected, shallow=False):
        return
    if Dictionary.load(path) != Dictionary.load(expected):
        raise InputError(path, None, f"expected the symbols of {expected}, found others: give both the same --srcdict")


def _check_agreement(text: DataBins, first: DataBins, split: str, *, combine: bool) -> None:
    """Raise :class:`InputError` if the features of a split were not made as those of the first text."""
    parts = (of_text.parts(of_text.folders[0], split, combine=combine) for of_text in (text, first))
    for files, of_first in zip(*parts, strict=True):
        signed, expected = (Signature.read(some.signature).splits[some.split] for some in (files, of_first))
        for what, ours, theirs in (
            ("settings", signed.settings, expected.settings),
            ("parser", _parsers(signed), _parsers(expected)),
        ):
            for name in sorted(ours.keys() | theirs.keys()):
                if ours.get(name) != theirs.get(name):
                    raise InputError(
                        files.signature, None,
                        f"expected for {files.split} the {what} of {of_first.signature}, {name}: {theirs.get(name)}, "
                        f"found {ours.get(name)}; binarize all texts of a task with the same options and parser",
                    )  # fmt: skip


def _parsers(signed: SplitSignature) -> dict[str, dict[str, Any]]:
    """Return the parsers of a split by kind of parse, without what is of its files."""
    return {
        kind: {key: value for key, value in record.items() if key not in OF_FILES}
        for kind, record in signed.parser.items()
    }
