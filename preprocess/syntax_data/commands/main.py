"""Beginning and end of all commands, with one line for each error."""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from syntax_data.io.workers import WorkerDied


class _Terminated(BaseException):
    """A SIGTERM."""


class UsageError(Exception):
    """Options that exclude each other."""


def command_line(name: str, description: str | None) -> ArgumentParser:
    """Return an empty command line; its `description` is printed as it is."""
    return ArgumentParser(
        prog=name, description=description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False
    )


def positive(text: str) -> int:
    """Return a count of a command line; the type of an option."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"expected a number from 1, found {text[:20]!r}")
    return int(text)


def run(
    name: str,
    get_parser: Callable[[], ArgumentParser],
    work: Callable[[Namespace], None],
    argv: Sequence[str] | None,
    *,
    advice: str = "",
    errors: tuple[type[Exception], ...] = (),
) -> None:
    """Run a command, and end the process as :func:`command` does.

    Args:
        get_parser: returns the command line.
        work: takes the parsed arguments. :class:`UsageError` ends the process as argparse does: usage, message, exit
            status 2.
        argv: the arguments; ``None``: those of the process.
    """
    with command(name, advice=advice, errors=errors):
        parser = get_parser()
        try:
            work(parser.parse_args(argv))
        except UsageError as error:
            parser.error(str(error))


def _error_text(error: Exception) -> str:
    """Return the message of an exception; of a file, its name and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.filename2 is None:
        return f"{error.filename or repr(error.filename)}: {error.strerror}"
    return str(error)


@contextmanager
def command(name: str, *, advice: str = "", errors: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """End the process with one line on stderr if this block fails.

    The line begins with the command's `name`. The exit status is 1 for broken input, files that cannot be read or
    written, too little memory, a worker that died, and the exceptions `errors`; 130 for Ctrl-C and 143 for SIGTERM,
    where `advice` ends the line. Any other exception is a fault of the program, and passes.
    """
    _open_missing_streams()
    failures: tuple[type[Exception], ...] = (ValueError, OSError, WorkerDied, *errors)
    before = None
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except failures as error:
        sys.exit(f"{name}: error: {_error_text(error)}")
    except MemoryError as error:
        sys.exit(f"{name}: error: {str(error) or 'there is not enough memory'}")
    except KeyboardInterrupt:
        print(f"\n{name}: stopped{advice}", file=sys.stderr)
        sys.exit(130)
    except _Terminated:
        print(f"\n{name}: terminated{advice}", file=sys.stderr)
        sys.exit(143)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _open_missing_streams() -> None:
    """Open the null device as each of stdin, stdout and stderr that is closed.

    Without them, the next file that is opened gets the free descriptor, and the output of libraries and other processes
    goes into that file. And Python has ``None`` where libraries expect a stream.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 (stays open)
            setattr(sys, name, stream)


def _terminate(*_: Any) -> None:
    raise _Terminated
