"""Text as the subwords of a BERT (WordPiece), as fairseq's ``--bpe bert`` writes them, which needs transformers.

    python -m syntax_experiments.corpora.wordpiece --vocab bert-base-uncased/vocab.txt train.input0 valid.input0

writes train.input0.bpe and valid.input0.bpe. A word that the vocabulary does not have in parts is ``[UNK]``.
"""

from __future__ import annotations

import argparse
import unicodedata
from collections.abc import Iterator

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write
from syntax_data.text.lines import read_lines

#: BERT's symbols, by fairseq's.
SPECIAL = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
#: First and last characters of the blocks in which every character is a word.
IDEOGRAPHS = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
]  # fmt: skip
LONGEST = 100  # characters; longer words are [UNK]


def read_vocabulary(path: str) -> dict[str, int]:
    """Return the number of each symbol in BERT's vocab.txt.

    Raises:
        InputError: a symbol is there twice, or a special one is not there.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        symbols = [line.rstrip("\r\n") for line in file]
    numbers: dict[str, int] = {}
    for number, symbol in enumerate(symbols):
        if symbol in numbers or symbol in SPECIAL or not symbol.strip():
            raise InputError(path, number + 1, f"expected a symbol of BERT, each once, found {symbol!r}")
        numbers[symbol] = number
    for symbol in SPECIAL.values():
        if symbol not in numbers:
            raise InputError(path, None, f"expected {symbol} in the vocabulary of a BERT, found none")
    return numbers


def words(line: str, *, cased: bool) -> Iterator[str]:
    """Yield the words, punctuation marks and ideographs of a line, normalised as BERT's."""
    cleaned = "".join(map(_clean, line))
    for word in cleaned.split():
        if not cased:
            word = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
        yield from "".join(f" {c} " if _is_punctuation(c) else c for c in word).split()


def _clean(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if character == "\ufffd" or category.startswith("C"):
        return ""
    return f" {character} " if any(first <= ord(character) <= last for first, last in IDEOGRAPHS) else character


def _is_punctuation(character: str) -> bool:
    in_ascii = "!" <= character <= "~" and not character.isalnum()
    return in_ascii or unicodedata.category(character).startswith("P")


def pieces(word: str, vocabulary: dict[str, int]) -> list[str]:
    """Return the subwords of a word: each is the longest that the vocabulary has."""
    found: list[str] = []
    begin = 0
    while begin < len(word) <= LONGEST:
        ends = (end for end in range(len(word), begin, -1) if f"{'##' * (begin > 0)}{word[begin:end]}" in vocabulary)
        if (end := next(ends, None)) is None:
            return [SPECIAL["<unk>"]]
        found.append(f"{'##' * (begin > 0)}{word[begin:end]}")
        begin = end
    return found or [SPECIAL["<unk>"]]


def encode(line: str, vocabulary: dict[str, int], *, cased: bool, markers: frozenset[str] = frozenset()) -> str:
    """Return the subwords of a line; markers, between spaces, stay as they are."""
    found: list[str] = []
    for part in line.split(" "):
        if part in markers:
            found.append(part)
        else:
            found += [piece for word in words(part, cased=cased) for piece in pieces(word, vocabulary)]
    return " ".join(found)


def encode_files(args: argparse.Namespace) -> None:
    """Write FILE.bpe for each file."""
    vocabulary = read_vocabulary(args.vocab)
    markers = frozenset(filter(None, args.markers.split(",")))
    for marker in markers:
        if marker not in vocabulary:
            raise ValueError(f"--markers: expected symbols of {args.vocab}, found {marker!r}")
    for path in args.files:
        with atomic_write(f"{path}.bpe") as temporary, open(temporary, "w", encoding="utf-8") as file:
            for _, line in read_lines(path):
                file.write(encode(line, vocabulary, cased=args.cased, markers=markers) + "\n")


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("wordpiece.py", __doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="text, one example a line")
    parser.add_argument("--vocab", required=True, metavar="FILE", help="BERT's vocab.txt")
    parser.add_argument("--cased", action="store_true", help="for a cased BERT: keep capitals and accents")
    parser.add_argument("--markers", default="", metavar="A,B", help="symbols of the vocabulary that stay whole")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Encode files; broken input ends the command with a message and exit status 1."""
    run("wordpiece.py", get_parser, encode_files, argv)


if __name__ == "__main__":
    main()
