"""The symbols that token ids number: fairseq's ``dict.LANG.txt``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from syntax_data.errors import InputError, short_repr

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # come before those of the file
_OVERWRITE = "#fairseq:overwrite"


@dataclass(frozen=True)
class Symbols:
    """A dictionary.

    Attributes:
        symbols: by their number.
        eos: the number of what ends a sentence.
        unk: that of unknown words.
    """

    symbols: list[str]
    eos: int = _SPECIAL.index("</s>")
    unk: int = _SPECIAL.index("<unk>")

    @classmethod
    def read(cls, path: str) -> Symbols:
        """Reads lines of a symbol and its count; a symbol may come again, and take the place of the one before, on a
        line that says ``#fairseq:overwrite``. Raises :class:`InputError` for anything else."""
        symbols = list(_SPECIAL)
        known = set(symbols)
        with open(path, encoding="utf-8") as file:
            try:
                for number, line in enumerate(file, start=1):
                    symbol, space, count = line.rstrip().rpartition(" ")
                    overwrite = count == _OVERWRITE
                    if overwrite:
                        symbol, space, count = symbol.rpartition(" ")
                    if not space or not _is_number(count):
                        raise InputError(
                            path, number, f"expected a symbol and its count, found {short_repr(line.rstrip())}"
                        )
                    if symbol in known and not overwrite:
                        raise InputError(path, number, f"expected each symbol once, found {short_repr(symbol)} again")
                    known.add(symbol)
                    symbols.append(symbol)
            except UnicodeDecodeError as error:
                raise InputError(path, None, f"expected UTF-8, found {error}") from None
        return cls(symbols)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each symbol, the last if it has several."""
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def number(self, symbol: str) -> int:
        """The number of a symbol, or of unknown words."""
        return self.numbers.get(symbol, self.unk)


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
