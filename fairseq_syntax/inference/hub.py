"""Translation of raw text from Python."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import tarfile
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from fairseq import file_utils, hub_utils, utils
from fairseq.data import encoders
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.constants import GENERATION_CONSTRAINTS_CHOICES
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.registry import REGISTRIES
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from fairseq_syntax.checkpoints.safe_loading import naming
from fairseq_syntax.inference.collect import CONTENTS, by_sentence
from fairseq_syntax.inference.forced_decoding import score_targets
from fairseq_syntax.inference.parsed_batch import ParsedBatch
from fairseq_syntax.inference.reader import NEW_TEXT_OPTIONS
from fairseq_syntax.inference.source_lines import ON_TOO_LONG, SourceLines, pack_phrases, split_phrases
from fairseq_syntax.models.transformer_options import add_arguments
from syntax_data.errors import InputError, describe_path, short_repr

logger = logging.getLogger(__name__)


class SentenceTooLong(ValueError):
    """A sentence is longer than the model can read."""


class SyntaxHubInterface(GeneratorHubInterface):
    """fairseq's hub interface, which also parses; one thread at a time reads text, and one translates.

    ``translate("A sentence.")`` gives a string, ``translate(["One.", "Two."])`` a list.
    """

    def __init__(self, cfg: Any, task: Any, models: Sequence[Any]):
        super().__init__(cfg, task, models)
        # Parsers are not made for several threads; and fairseq keeps the beam size in the model.
        self._reading, self._translating = threading.RLock(), threading.RLock()

    def sample(
        self,
        sentences: str | Iterable[str],
        beam: int = 1,
        verbose: bool = False,
        *,
        on_too_long: str = "error",
        **kwargs: Any,
    ) -> str | list[str]:
        """As fairseq's: the best translation of each sentence; of a blank one an empty string.

        Args:
            on_too_long: a sentence that is longer than the model can read is an ``error``
                (:class:`SentenceTooLong`), or, with ``skip``, its translation is an empty string.
            **kwargs: options of generation. With ``constraints="ordered"`` or ``"unordered"``, a sentence is followed
                by phrases that its translation must have, each after a tab.
        """
        if isinstance(sentences, str):
            return self.sample([sentences], beam, verbose, on_too_long=on_too_long, **kwargs)[0]
        if (constraints := kwargs.get("constraints")) and constraints not in [*GENERATION_CONSTRAINTS_CHOICES]:
            expected = " or ".join(map(str, GENERATION_CONSTRAINTS_CHOICES))
            raise ValueError(f"constraints: expected {expected}, with phrases after tabs, found {constraints!r}")
        source = self.read_lines(sentences, on_too_long=on_too_long, constraints=bool(constraints))
        hypotheses = self.translate_lines(source, beam, verbose, **kwargs)
        return [self.decode(found[0]["tokens"]) if found else "" for found in hypotheses]

    def translate_lines(
        self, source: SourceLines, beam: int = 5, verbose: bool = False, **kwargs: Any
    ) -> list[list[dict[str, Any]]]:
        """Return the hypotheses of each line, as :meth:`generate`; none of a line that is not translated."""
        if source.constraints is not None:
            steps = kwargs.get("inference_step_args") or {}
            kwargs["inference_step_args"] = {**steps, "packed_constraints": source.constraints}
        found: list[list[dict[str, Any]]] = [[] for _ in range(source.count)]
        hypotheses = self.generate(source.batch, beam, verbose, **kwargs)
        for place, of_line in zip(source.places, hypotheses, strict=True):
            found[place] = of_line
        return found

    def generate(self, tokenized_sentences: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """As fairseq's, of the result of :meth:`read`; refuses unknown options."""
        own = inspect.signature(super().generate).parameters.values()
        known = {option.name for option in own if option.kind != option.VAR_KEYWORD}
        for name in kwargs.keys() - known - {*self.cfg.generation, *GenerationConfig.__dataclass_fields__}:
            raise TypeError(f"{name}: there is no such option of generation")
        with self._translating:
            hypotheses: list[Any] = super().generate(tokenized_sentences, *args, **kwargs)
        return hypotheses

    def read(self, sentences: str | Iterable[str]) -> ParsedBatch | list[Tensor]:
        """Tokenise sentences, split them into subwords, and parse them if necessary.

        Each is a line as in a file: a line end may close it, and white space around it is removed. ``without_parse`` of
        the result counts sentences without a parse; for a model without syntax the result is token ids alone.

        Raises:
            TypeError: a sentence is no string.
            ValueError: a sentence has a line break inside.
            SentenceTooLong: a sentence is longer than the model can read.
        """
        batch, lengths = self._read(one_line_each(sentences))
        self._check_lengths(lengths)
        return batch

    def read_lines(
        self, sentences: Iterable[str], *, first: int = 1, on_too_long: str = "error", constraints: bool = False
    ) -> SourceLines:
        """Read sentences as :meth:`read`, for :meth:`translate_lines`, which leaves out blank ones.

        Args:
            first: number of the first sentence, for messages.
            on_too_long, constraints: see :meth:`sample`.

        Raises:
            ValueError: there is no such `on_too_long`.
        """
        if on_too_long not in ON_TOO_LONG:
            raise ValueError(f"on_too_long: expected one of {', '.join(ON_TOO_LONG)}, found {on_too_long!r}")
        lines = one_line_each(sentences)
        split = [split_phrases(line) if constraints else (line, []) for line in lines]
        batch, lengths = self._read([text for text, _ in split], first=first)
        too_long = self._check_lengths(lengths, first=first, on_too_long=on_too_long)
        places = [i for i, length in enumerate(lengths) if length > 1 and i not in too_long]  # more than </s>
        kept = batch.take(places) if isinstance(batch, ParsedBatch) else [batch[i] for i in places]
        packed = pack_phrases([split[i][1] for i in places], self.read_translations) if constraints else None
        for i, row in zip(places, packed if packed is not None else (), strict=constraints):
            if self.tgt_dict.unk() in row[1:]:  # the first is a number of phrases
                logger.warning("line %d: its phrases have subwords that the model does not know", first + i)
        return SourceLines(len(lines), places, kept, len(too_long), packed)

    def _read(self, lines: list[str], *, first: int = 1) -> tuple[ParsedBatch | list[Tensor], list[int]]:
        """Return the subwords of lines with their parses, and the subwords' numbers."""
        with self._reading:
            if self.task.syntax_features:
                self.task.new_text.reader.restart(first)  # messages count the sentences of this call
            batch, lengths = self.task.get_interactive_tokens_and_lengths(
                lines, lambda line: self.apply_bpe(self.tokenize(line))
            )
        return cast(ParsedBatch | list[Tensor], batch), lengths

    def _check_lengths(self, lengths: Sequence[int], *, first: int = 1, on_too_long: str = "error") -> set[int]:
        """Return the places of lengths that are too large, from 0, with warnings; or raise."""
        longest = min(self.max_positions[0], self.cfg.dataset.max_tokens or self.max_positions[0])
        found = {i for i, length in enumerate(lengths) if length > longest}
        for i in sorted(found):
            problem = f"expected at most {longest} subwords with </s>, found {lengths[i]}"
            if on_too_long == "error":
                raise SentenceTooLong(f"sentence {first + i}: {problem}")
            logger.warning("line %d is not translated: %s", first + i, problem)
        return found

    def score(self, batch: ParsedBatch | list[Tensor], translations: Sequence[str]) -> list[Tensor]:
        """Return log p of each subword of given translations and of ``</s>`` (forced decoding), each ``(n,)``.

        The logarithm is natural; the sum is that of the whole translation.

        Args:
            batch: source sentences, the result of :meth:`read`.
            translations: one of each, in words as the training data had before its subwords.

        Raises:
            SentenceTooLong: a translation is longer than the model can read.
            ValueError: there is another number of translations, or one has a line break inside.
        """
        if len(translations) != len(batch):
            raise ValueError(f"expected {len(batch)} translations, one of each sentence, found {len(translations)}")
        targets = list(enumerate(self.read_translations(translations)))
        with self._translating:
            dataset = self.task.build_dataset_for_inference(batch, [len(ids) for ids in batch])
            limits = {"max_tokens": self.cfg.dataset.max_tokens, "max_sentences": self.cfg.dataset.batch_size}
            return score_targets(self.task, self.models, dataset, targets, **limits)

    def read_translations(self, translations: Sequence[str]) -> list[Tensor]:
        """Tokenise given translations, and split them into subwords; return their ids, ``</s>`` the last.

        Raises:
            SentenceTooLong: a translation is longer than the model can read.
            ValueError: one has a line break inside.
        """
        cfg = copy.deepcopy(self.cfg.tokenizer)
        if "source_lang" in (cfg or {}):
            with open_dict(cfg):
                cfg.source_lang = self.task.cfg.target_lang
        tokenizer, most = encoders.build_tokenizer(cfg), self.max_positions[1]
        found = []
        for n, line in enumerate(one_line_each(translations), start=1):
            with self._reading:
                subwords = self.apply_bpe(tokenizer.encode(line) if tokenizer else line)
            found.append(self.tgt_dict.encode_line(subwords, add_if_not_exist=False).long())
            if len(found[-1]) > most:
                raise SentenceTooLong(
                    f"translation {n}: expected at most {most} subwords with </s>, found {len(found[-1])}"
                )
        return found

    def analyse(
        self, batch: ParsedBatch | list[Tensor], contents: Sequence[str] = CONTENTS
    ) -> list[dict[str, np.ndarray]]:
        """Return arrays of each sentence as :func:`.by_sentence`, of the first model."""
        with self._translating:
            dataset = self.task.build_dataset_for_inference(batch, [len(ids) for ids in batch])
            sample = dataset.collater([dataset[i] for i in range(len(batch))])
            sample = utils.apply_to_sample(lambda tensor: tensor.to(self.device), sample)
            found = dict(by_sentence(self.models[0], sample, pad=self.src_dict.pad(), contents=contents))
        return [found[i] for i in range(len(batch))]


def one_line_each(sentences: str | Iterable[str]) -> list[str]:
    """Return sentences as lines of a file; see :meth:`SyntaxHubInterface.read`."""
    lines = [sentences] if isinstance(sentences, str) else list(sentences)
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise TypeError(f"sentence {number}: expected a string, found {type(line).__name__}")
        if {"\r", "\n"} & set(line.removesuffix("\n").removesuffix("\r")):
            raise ValueError(f"sentence {number}: expected one line of text, found a line break in {short_repr(line)}")
    return [line.strip() for line in lines]  # as fairseq-interactive does


def from_pretrained(
    task_type: Any, model_name_or_path: str, checkpoint_file: str, data_name_or_path: str, **kwargs: Any
) -> SyntaxHubInterface:
    """See :meth:`fairseq_syntax.models.transformer.SyntaxTransformerModel.from_pretrained`."""
    purpose = "a model to translate with"
    paths, cfg, task, models = load_trained(purpose, model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)
    if not isinstance(task, task_type):
        raise InputError(
            paths, None, f"expected a model of --task syntax_translation, found one of {type(task).__name__}"
        )
    # fairseq ignores options that nothing has, but adds them to those of the model.
    of_model = ArgumentParser()
    add_arguments(of_model)
    refuse_unknown(kwargs, cfg, (*vars(of_model.parse_args([])), *NEW_TEXT_OPTIONS, "generation_args"))
    task.for_new_text = True
    _check_subwords(paths, cfg, kwargs)
    with open_dict(cfg):
        for name in ("source_lang", "target_lang"):
            if name in (cfg.tokenizer or {}) and name not in kwargs:
                cfg.tokenizer[name] = getattr(task.cfg, name)
    with naming(paths, purpose):
        return SyntaxHubInterface(cfg, task, models)


def load_trained(
    purpose: str, model_name_or_path: str, checkpoint_file: str, data_name_or_path: str, **kwargs: Any
) -> tuple[str, Any, Any, list[Any]]:
    """Load models as fairseq does; return their paths with ``:`` between, their configuration, task, and the models.

    Args:
        purpose: what is expected in the checkpoints, for messages.
        **kwargs: options that replace the checkpoint's.

    Raises:
        InputError: there is no such folder, checkpoint or data-bin, or it does not fit.
        ValueError: there is no such tokenizer or bpe.
    """
    folder = _find_folder(model_name_or_path, "a folder of checkpoints")
    paths = [os.path.join(folder, name) for name in checkpoint_file.split(os.pathsep)]
    for path in paths:
        if not os.path.isfile(path):
            raise InputError(path, None, f"expected a checkpoint, found {describe_path(path)}")
    data = os.path.join(folder, data_name_or_path) if data_name_or_path.startswith(".") else data_name_or_path
    _find_folder(data, "a data-bin")
    if "user_dir" in kwargs:  # which may have more of these
        utils.import_user_module(Namespace(user_dir=kwargs["user_dir"]))
    for kind in ("tokenizer", "bpe"):
        choices = REGISTRIES[kind]["registry"]
        if isinstance(choice := kwargs.get(kind), str) and choice not in choices:
            raise ValueError(f"{kind}: expected one of {', '.join(sorted(choices))}, found {choice!r}")
    with naming(":".join(paths), purpose):
        loaded = hub_utils.from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)
    cfg = loaded["args"]
    with open_dict(cfg):
        # fairseq prefers files of certain names beside the checkpoint to those that are given.
        for name in kwargs.keys() & set(cfg.bpe or ()):
            cfg.bpe[name] = kwargs[name]
    return ":".join(paths), cfg, loaded["task"], loaded["models"]


def refuse_unknown(options: Iterable[str], cfg: Any, known: Iterable[str]) -> None:
    """Raise :class:`TypeError` for options that neither a configuration has nor are `known`."""
    all_known = {*_names(OmegaConf.to_container(cfg)), *known, "user_dir"} - {"data"}
    for name in set(options) - all_known:
        raise TypeError(f"{name}: neither the checkpoint nor its task, tokenizer or bpe has such an option")


def _check_subwords(paths: str, cfg: Any, given: Mapping[str, Any]) -> None:
    """Have ``None`` mean no tokenizer or bpe, and refuse what fairseq would ignore, or fail on without a message."""
    for kind in ("tokenizer", "bpe"):
        recorded = getattr(cfg[kind], "_name", None)
        if kind not in given or recorded == given[kind]:
            continue
        if given[kind] is not None:  # fairseq keeps the checkpoint's
            raise ValueError(f"{kind}: expected {recorded}, as the checkpoint records, or None, found {given[kind]}")
        with open_dict(cfg):
            cfg[kind] = None
    files = {"bpe_codes", "sentencepiece_model"} & set(cfg.bpe or ())
    if missing := [name for name in files if OmegaConf.is_missing(cfg.bpe, name) or cfg.bpe[name] is None]:
        raise InputError(paths, None, f"expected {missing[0]} of its {cfg.bpe._name}, found none")


def _find_folder(path: str, expected: str) -> str:
    """Return the folder, or where fairseq unpacked the archive of this address."""
    found: str | None = None
    if not os.path.isfile(path) or tarfile.is_tarfile(path):
        found = file_utils.load_archive_file(path)
    if found is None:
        raise InputError(path, None, f"expected {expected}, found {'a file' if os.path.isfile(path) else 'nothing'}")
    return found


def _names(options: Any) -> set[str]:
    """Return the keys of a configuration and of those in it."""
    return set(options).union(*map(_names, options.values())) if isinstance(options, dict) else set()
