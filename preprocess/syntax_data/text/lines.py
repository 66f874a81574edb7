"""Lines of text and their tokens, counted and cut as fairseq does both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from syntax_data.errors import InputError

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


def tokenize_line(line: str) -> list[str]:
    """The tokens of a line, cut at white space like fairseq's function of this name."""
    return line.split()


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield each line of a UTF-8 file with its number, without the line end.

    Lines end at ``\\n`` or ``\\r\\n``. A carriage return anywhere else is refused: fairseq would end a
    line there, and every later line would belong to another sentence. So are a byte order mark, which
    fairseq would take for a part of the first word, and anything but UTF-8.
    """
    with open(path, "rb") as file:
        yield from decode_lines(file, path=path, first=1)


def decode_lines(lines: Iterable[bytes], *, path: str, first: int) -> Iterator[tuple[int, str]]:
    """As :func:`read_lines`, for bytes; `first` is the number of the first line."""
    for number, raw in enumerate(lines, start=first):
        if number == 1 and raw.startswith(_BOM):
            raise InputError(path, 1, "expected UTF-8 without a byte order mark, found one")
        if number == 1 and raw.startswith(_GZIP):
            raise InputError(path, None, "expected UTF-8, found a gzip file: unpack it first")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(path, number, f"expected UTF-8, found {error} (iconv converts other encodings)") from None
        line = line.removesuffix("\n").removesuffix("\r")
        if "\r" in line:
            column = line.index("\r") + 1
            message = f"expected no carriage return inside the line, found one in column {column}; fairseq would count "
            raise InputError(path, number, f"{message}two lines")
        yield number, line
