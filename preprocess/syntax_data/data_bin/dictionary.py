"""fairseq's dictionaries, ``dict.LANG.txt``, read without fairseq."""

from __future__ import annotations

from syntax_data.errors import InputError, short_repr
from syntax_data.text.lines import read_lines

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # before those of the file
EOS, UNKNOWN = 2, 3
_OVERWRITE = " #fairseq:overwrite"


def read_dictionary(path: str) -> dict[str, int]:
    """The id of each symbol of a dictionary: lines of a symbol, a space and its count.

    A symbol may come again, with a new id, on a line that ends in ``#fairseq:overwrite``. Raises :class:`InputError`
    for anything else.
    """
    ids = {symbol: number for number, symbol in enumerate(_SPECIAL)}
    for number, line in read_lines(path):
        entry = line.rstrip()
        symbol, space, count = entry.removesuffix(_OVERWRITE).rpartition(" ")
        try:
            int(count if space else "")
        except ValueError:
            raise InputError(path, number, f"expected a symbol and its count, found {short_repr(entry)}") from None
        if symbol in ids and not entry.endswith(_OVERWRITE):
            raise InputError(path, number, f"expected each symbol once, found {short_repr(symbol)} again")
        ids[symbol] = len(_SPECIAL) + number - 1
    return ids
