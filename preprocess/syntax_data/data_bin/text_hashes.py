"""A hash of each sentence's subwords in their order, made of text or, fast, of the token ids of a whole corpus.

The hash of the subwords w_0 … w_{k-1} is Σ h(w_i)·P^i mod 2^64, where h is BLAKE2b of 8 bytes. For ids that is one
look-up a token in a table of h over the dictionary, and a sum: some 100 million tokens a second. It finds mistakes
(another line, another order, another word), not somebody who wants to deceive.
"""

from __future__ import annotations

import hashlib
import logging
from functools import lru_cache

import numpy as np

from syntax_data.data_bin.dictionary import Symbols
from syntax_data.data_bin.mmap import check_size, ranges
from syntax_data.data_bin.places import TokenFiles
from syntax_data.data_bin.tokens import Tokens
from syntax_data.errors import InputError

logger = logging.getLogger(__name__)

#: Type of a hash in a file.
HASH = np.dtype("<u8")
_P = 0x5851F42D4C957F2D  # odd, so that it has an inverse
_INVERSE = pow(_P, -1, 1 << 64)


@lru_cache(maxsize=1 << 16)
def word_hash(word: str) -> int:
    """h: the hash of one subword."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest(), "little")


def symbol_hashes(symbols: Symbols) -> np.ndarray:
    """h of each of a dictionary's symbols, ``(symbols,)``; 0 for ``</s>``, which so adds nothing at its end."""
    hashes = np.array(list(map(word_hash, symbols.symbols)), np.uint64)
    hashes[symbols.eos] = 0
    return hashes


def text_hashes(words: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The hashes of sentences, ``(sentences,)``.

    Args:
        words: h of all sentences' subwords in a row.
        lengths: of the sentences, some of which may be empty.
    """
    # The powers run on from sentence to sentence; each sum is then divided by the power at which it starts.
    size = 1 << len(words).bit_length()
    weighted = words * _powers(_P, size)[: len(words)]
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    hashes = np.zeros(len(lengths), np.uint64)
    filled = np.flatnonzero(lengths)  # reduceat takes an empty range for one element
    if len(filled):
        starts = starts[filled]
        hashes[filled] = np.add.reduceat(weighted, starts) * _powers(_INVERSE, size)[starts]
    return hashes


@lru_cache(maxsize=4)
def _powers(base: int, count: int) -> np.ndarray:
    """base^0 … base^(count-1) mod 2^64, not to be changed."""
    factors = np.full(count, base, np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def compare_texts(files: TokenFiles, tokens: Tokens, symbols: Symbols) -> str:
    """Compares all sentences' tokens with the text that the features were made from; logs and returns how many.

    The text of a sentence with an unknown word is not known: such a sentence is not compared, but counted.

    Args:
        files: the split.
        tokens: its tokens.
        symbols: the dictionary of their language.

    Raises:
        InputError: another number of sentences, another text in one of them, or an id that the dictionary does not
            have; names the first such sentence.
    """
    sentences = len(tokens.lengths)
    check_size(files.text_hashes, HASH.itemsize * sentences, f"for the {sentences} sentences of the tokens")
    table = symbol_hashes(symbols)
    unknown = different = number = 0
    with open(files.text_hashes, "rb") as file:
        for first, last in ranges(tokens.lengths):
            ids, lengths = tokens.between(first, last), tokens.lengths[first:last]
            _check_ids(tokens.prefix, ids, first, lengths, len(table))
            expected = np.frombuffer(file.read(HASH.itemsize * (last - first)), HASH)
            wrong = text_hashes(table[ids], lengths) != expected
            unknown_words = np.flatnonzero(ids == symbols.unk)
            not_known = np.unique(_sentences_of(unknown_words, lengths))
            wrong[not_known] = False
            unknown += len(not_known)
            if wrong.any() and not different:
                number = first + int(wrong.argmax())
            different += int(wrong.sum())
    if different:
        words = [symbols.symbols[i] for i in tokens.between(number, number + 1).tolist() if i != symbols.eos]
        raise InputError(
            files.signature,
            None,
            f"expected the features of {files.split} to be made from the text of its tokens, found another text in "
            f"sentence {number} (counted from 0; {different} of {sentences} sentences differ), whose tokens are: "
            + " ".join(words),
        )
    told = f"{sentences - unknown} of {sentences} sentences compared with the text that was parsed"
    if unknown:
        told += f", {unknown} not, since they have unknown words"
    log = logger.warning if sentences and unknown == sentences else logger.info
    log("%s: %s", files.split, told)
    return told


def _check_ids(prefix: str, ids: np.ndarray, first: int, lengths: np.ndarray, symbols: int) -> None:
    if len(ids) and not 0 <= ids.min() <= ids.max() < symbols:
        at = int(np.argmax((ids < 0) | (ids >= symbols)))
        number = first + int(_sentences_of(np.array([at]), lengths)[0])
        raise InputError(
            prefix,
            None,
            f"expected tokens from 0 to {symbols - 1}, as the dictionary has them, found {ids[at]} in sentence "
            f"{number} (counted from 0)",
        )


def _sentences_of(positions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """In which sentence each position of a row lies."""
    return np.searchsorted(np.cumsum(lengths, dtype=np.int64), positions, side="right")
