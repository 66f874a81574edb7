"""Subwords of the training text that are drawn in each epoch.

BPE-dropout (Provilkov et al. 2020): merges are left out at random. Subword regularisation (Kudo 2018): a unigram
model's segmentations are drawn, in proportion to the power α of their probabilities.
"""

from __future__ import annotations

import copy
import io
import logging
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, suppress
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
import torch
from fairseq.data import Dictionary, FairseqDataset
from subword_nmt.apply_bpe import BPE
from torch import Tensor

from fairseq_syntax.data.pair_wrapper import PairWrapper
from syntax_data.errors import InputError, describe_path
from syntax_data.text.symbols import SymbolPattern

logger = logging.getLogger(__name__)

#: The key of an example's item that says in which stored source subword each drawn one begins, ``(n,)``.
FIRST_IN = "source_first_in"

NO_SYMBOLS = SymbolPattern(None)

#: How many sentences are split again without a draw, to see if the model is that of the data-bin.
_CHECKED = 1000


class SubwordModel(ABC):
    """A model that splits words into subwords."""

    @staticmethod
    def read(path: str) -> SubwordModel:
        """The model in a file: sentencepiece's, or merges of subword-nmt.

        Raises :class:`InputError` if it is neither.
        """
        if not os.path.isfile(path):
            raise InputError(path, None, f"expected a model of subwords, found {describe_path(path)}")
        for kind in (SentencepieceSampler, SubwordNmtSampler):
            with suppress(RuntimeError, UnicodeDecodeError, SystemExit):
                return kind(path)
        raise InputError(path, None, "expected a model of sentencepiece or merges of subword-nmt, found neither")

    @abstractmethod
    def words(self, subwords: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Group the subwords of a line by word."""

    @abstractmethod
    def split(self, word: tuple[str, ...], rate: float = 0.0) -> tuple[str, ...]:
        """Split a word again.

        Args:
            word: its subwords.
            rate: the probability that a merge is left out; α of a unigram model; 0: nothing is drawn.
        """

    @abstractmethod
    def text(self, subword: str) -> str:
        """A subword without a mark at its end; those of a word join to the same text, however it is split."""

    @abstractmethod
    def seeded(self, seed: int) -> AbstractContextManager[None]:
        """Inside the block, draws of this thread follow from `seed` alone."""


class SubwordNmtSampler(SubwordModel):
    """Merges of subword-nmt; ``@@`` ends subwords inside of a word."""

    def __init__(self, path: str):
        with open(path, encoding="utf-8") as codes, redirect_stderr(io.StringIO()):
            self._plain = BPE(codes)
        self._plain.segment_tokens(["ab"])  # of another version it raises NotImplementedError
        self._drawing = copy.copy(self._plain)
        self._drawing.cache = {}  # draws are written into it, too

    def words(self, subwords: Sequence[str]) -> Iterator[tuple[str, ...]]:
        begin = 0
        for end, subword in enumerate(subwords, start=1):
            if not subword.endswith("@@") or end == len(subwords):
                yield tuple(subwords[begin:end])
                begin = end

    def split(self, word: tuple[str, ...], rate: float = 0.0) -> tuple[str, ...]:
        text = "".join(map(self.text, word))
        return tuple((self._drawing if rate else self._plain).segment_tokens([text], rate))

    def text(self, subword: str) -> str:
        return subword.removesuffix("@@")

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        state = random.getstate()  # of the generator that subword-nmt draws from
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


class SentencepieceSampler(SubwordModel):
    """A model of sentencepiece; ``▁`` begins a word."""

    def __init__(self, path: str):
        self._model = sentencepiece.SentencePieceProcessor(model_file=path)

    def words(self, subwords: Sequence[str]) -> Iterator[tuple[str, ...]]:
        begin = 0
        for end in range(1, len(subwords) + 1):
            if end == len(subwords) or subwords[end].startswith("▁"):
                yield tuple(subwords[begin:end])
                begin = end

    def split(self, word: tuple[str, ...], rate: float = 0.0) -> tuple[str, ...]:
        text = "".join(word).removeprefix("▁")
        return tuple(self._model.encode(text, out_type=str, enable_sampling=rate > 0, alpha=rate, nbest_size=-1))

    def text(self, subword: str) -> str:
        return subword

    def seeded(self, seed: int) -> AbstractContextManager[None]:
        sentencepiece.set_random_generator_seed(seed)
        return nullcontext()


class Drawn(NamedTuple):
    """A line's subwords with ``</s>``, ``(n,)``, and the stored subword in which each begins, ``(n,)``."""

    tokens: Tensor
    first_in: np.ndarray


class SubwordSampler:
    """Drawer of the subwords of lines in a data-bin.

    A word stays as it is stored where it has a symbol, where the model would not split it so without a draw (unknown
    words), or where the dictionary lacks a subword that was drawn.

    Args:
        model: which split the text that fairseq-preprocess read.
        rate: see :meth:`SubwordModel.split`.
        symbols: the symbols of the text, such as tags of languages.
    """

    def __init__(self, model: SubwordModel, dictionary: Dictionary, rate: float, symbols: SymbolPattern = NO_SYMBOLS):
        self.model = model
        self.dictionary = dictionary
        self.rate = rate
        self.symbols = symbols
        self._known: dict[tuple[str, ...], bool] = {}

    def draw(self, tokens: Tensor, seed: int) -> Drawn:
        """Draw the subwords of a line, stored as `tokens`, ``(n,)``, which end in ``</s>``."""
        stored = [self.dictionary[i] for i in tokens[:-1].tolist()]
        drawn: list[str] = []
        first_in: list[int] = []
        begin = 0
        with self.model.seeded(seed):
            for word in self.model.words(stored):
                split = self._draw(word)
                drawn += split
                first_in += range(begin, begin + len(word)) if split == word else self._first_in(word, split, begin)
                begin += len(word)
        numbers = [*(self.dictionary.index(subword) for subword in drawn), int(tokens[-1])]
        return Drawn(torch.tensor(numbers), np.array([*first_in, begin]))

    def check(self, path: str, lines: Any) -> None:
        """Log how many words of the first lines can be drawn; warn of a model or dictionary that leaves many out.

        Args:
            path: of the model.
            lines: token ids of a side of the data-bin.

        Raises:
            InputError: the model splits most words in another way than the data-bin has them.
        """
        lines = [lines[i].tolist() for i in range(min(_CHECKED, len(lines)))]
        words = [w for line in lines for w in self.model.words([self.dictionary[i] for i in line[:-1]])]
        known = [word for word in words if self._is_known(word)]
        found = f"{len(known)} of {len(words)} words of the first {len(lines)} lines"
        if len(known) < len(words) / 2:
            expected = "expected the model, with the settings, that split the data-bin's text"
            raise InputError(path, None, f"{expected}, found one that splits {found} so")
        with self.model.seeded(0):
            drawn = [split for word in known if (split := self.model.split(word, self.rate)) != word]
        kept = sum(not self._has(split) for split in drawn)
        log = logger.warning if len(known) < 0.95 * len(words) or kept > len(drawn) / 10 else logger.info
        log("%s splits %s as the data-bin does; others stay", path, found)
        log("of %d words drawn otherwise %d have subwords that the dictionary lacks, and stay", len(drawn), kept)

    def _draw(self, word: tuple[str, ...]) -> tuple[str, ...]:
        if not self._is_known(word):
            return word
        split = self.model.split(word, self.rate)
        return split if self._has(split) else word

    def _is_known(self, word: tuple[str, ...]) -> bool:
        """Return true if the model splits a word as it is stored, and it has no symbol."""
        if word not in self._known:
            text = "".join(map(self.model.text, word))
            self._known[word] = self.symbols.without(text) == text and self.model.split(word) == word
        return self._known[word]

    def _has(self, split: tuple[str, ...]) -> bool:
        return all(subword in self.dictionary for subword in split)

    def _first_in(self, word: tuple[str, ...], split: tuple[str, ...], begin: int) -> list[int]:
        """The stored subword, counted from `begin`, in which each subword of `split` begins."""
        here, there = ([0, *accumulate(len(self.model.text(s)) for s in of[:-1])] for of in (word, split))
        return (np.searchsorted(here, there, side="right") - 1 + begin).tolist()


class SampledPairs(PairWrapper):
    """Sentence pairs whose subwords are drawn in each epoch, the same in a resumed run.

    Batches are made by the stored lengths. A line whose draw is longer than the model reads stays as stored.

    Args:
        pairs: a :class:`~fairseq.data.LanguagePairDataset`.
        source, target: of the sides; ``None``: it stays.
        seed: of all draws.
        longest: the most subwords with ``</s>`` of source and target.
    """

    def __init__(
        self,
        pairs: FairseqDataset,
        source: SubwordSampler | None,
        target: SubwordSampler | None,
        *,
        seed: int,
        longest: tuple[int, int],
    ):
        super().__init__(pairs)
        self.samplers = {"source": source, "target": target}
        self.longest = dict(zip(self.samplers, longest, strict=True))
        self.seed = seed
        self._epoch = torch.ones((), dtype=torch.long).share_memory_()  # with workers, which outlive an epoch

    def __getitem__(self, index: int) -> dict[str, Any]:
        example: dict[str, Any] = dict(self.dataset[index])
        for number, (side, sampler) in enumerate(self.samplers.items()):
            if sampler is None:
                continue
            seed = int(np.random.SeedSequence([self.seed, int(self._epoch), index, number]).generate_state(1)[0])
            drawn = sampler.draw(example[side], seed)
            if len(drawn.tokens) <= self.longest[side]:
                example[side] = drawn.tokens
                if side == "source":
                    example[FIRST_IN] = drawn.first_in
        return example

    def set_epoch(self, epoch: int) -> None:
        """Draw those of another epoch from now on."""
        super().set_epoch(epoch)
        self._epoch.fill_(epoch)
