"""The folder PREFIX.parts, in which the parsed batches of a plan gather:

work.json       who parses what, and how: other work is refused
0000000.json    the first batch, and so on
*.lock          locks, so that no two processes do the same
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from syntax_data.errors import InputError, short_repr
from syntax_data.io.atomic_write import atomic_write
from syntax_data.io.locks import locked
from syntax_data.io.versioned_json import read_json
from syntax_data.parsing.plan import ParsePlan, Shard, Work, folder_of
from syntax_data.trees.counts import TextCounts
from syntax_data.trees.formats import FORMATS

T = TypeVar("T")

_OF_STORE = re.compile(rf"(work|records|[0-9]{{7,}})\.json(\..*\.tmp)?|whole\.({'|'.join(FORMATS)})|.*\.lock")
_DISCARDED = r"\.[^/]*\.[0-9]+\.done"  # .HOST.PID.done


@dataclass(frozen=True)
class DoneBatch:
    """What was made of a batch.

    Attributes:
        first_line: its number in the text.
        without: line and reason of the first unit without a parse.
        written: by kind of parse, its units as they are in a file.
    """

    first_line: int
    counts: TextCounts
    without: tuple[int, str] | None
    written: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """For :meth:`from_json`."""
        return {
            "first_line": self.first_line,
            "counts": self.counts.as_dict(),
            "without": self.without,
            **self.written,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> DoneBatch:
        """What :meth:`as_json` made of one. Raises :class:`KeyError` if something is missing."""
        return cls(
            first_line=content["first_line"],
            counts=TextCounts.from_dict(content["counts"]),
            without=content["without"] and tuple(content["without"]),
            written={kind: content[kind] for kind in FORMATS if kind in content},
        )


class BatchStore:
    """The folder PREFIX.parts in which the parsed batches of a plan gather."""

    def __init__(self, plan: ParsePlan):
        self.plan = plan
        self.folder = plan.folder
        self._discarded = ""

    @contextmanager
    def open(self, work: Work | None, shard: Shard | None) -> Iterator[Work]:
        """Makes the folder, or takes what is there, and keeps others out: with a `shard` those who do the same shard or
        all, else everybody. Gives the work of which the batches in it are.

        Args:
            work: what is done; ``None``: what has been done is merged.
            shard: which share of it; ``None``: all.

        Raises:
            ValueError: another process is at it; or it was made by other work than this, which does not matter as long
                as it holds no batch, and all is to be done; or nothing is there to be merged.
        """
        path = os.path.join(self.folder, "work.json")
        if work is not None:
            os.makedirs(self.folder, exist_ok=True)
        elif not os.path.exists(path):
            raise ValueError(
                f"{self.folder}: expected the parsed batches of {self.plan.input} and their work.json, found none"
            )
        with ExitStack() as stack:
            stack.callback(self._delete_discarded)  # after the locks in it
            alone = "to be alone at it"
            everything = f"{self.folder}/all.lock"
            stack.enter_context(locked(everything, seconds=0, expected=alone, shared=shard is not None))
            if shard:
                share = f"{self.folder}/{str(shard).replace(' ', '-')}.lock"
                stack.enter_context(locked(share, seconds=0, expected=f"to be alone at {shard}"))
            if work is not None:
                with locked(f"{self.folder}/work.lock", seconds=60, expected=alone):
                    nothing_done = not shard and not any(map(self.holds, range(len(self.plan.batches))))
                    if nothing_done or not os.path.exists(path):
                        _write_hashed(asdict(work), path)
            yield self._same_work(path, work)

    def _same_work(self, path: str, work: Work | None) -> Work:
        try:
            found = _read_hashed(path, "what the batches beside it were made from", Work.from_json)
        except InputError as error:
            raise InputError(path, None, f"{error.message}; delete {self.folder} and begin anew") from None
        expected = {"settings": self.plan.settings, "text": self.plan.text} if work is None else asdict(work)
        for name, value in expected.items():
            if getattr(found, name) != value:
                raise ValueError(
                    f"{self.folder} holds batches of other work, its {name} differs: expected {value}, found "
                    f"{short_repr(getattr(found, name))}; give the options and text of its beginning, or delete it"
                )
        return found

    def path(self, batch: int) -> str:
        """Where a batch's parses are."""
        return os.path.join(self.folder, f"{batch:07d}.json")

    def holds(self, batch: int) -> bool:
        """Whether a batch has been parsed."""
        return os.path.exists(self.path(batch))

    def holds_whole(self, batch: int) -> bool:
        """Whether a batch has been parsed; says so if what is there cannot be used."""
        if not self.holds(batch):
            return False
        try:
            self.read(batch)
        except InputError as error:
            print(f"{error}; its lines are parsed again", file=sys.stderr)
            return False
        return True

    def read(self, batch: int) -> DoneBatch:
        """What was made of a batch. Raises :class:`InputError` for what was not."""
        path, lines = self.path(batch), self.plan.batches[batch]
        what = f"the parses of {lines.count} lines"
        found = _read_hashed(path, what, DoneBatch.from_json)
        if found.first_line != lines.first_line:
            places = f"from {lines.first_line} on, found those from {found.first_line} on"
            raise InputError(path, None, f"expected {what} {places}")
        return found

    def write(self, batch: int, parsed: DoneBatch) -> None:
        """Adds a batch."""
        _write_hashed(parsed.as_json(), self.path(batch))

    def missing(self) -> list[int]:
        """The batches that have not been parsed."""
        return [i for i in range(len(self.plan.batches)) if not self.holds(i)]

    def discard(self) -> None:
        """Deletes the folder, at once as far as other processes can see, in fact at the end of :meth:`open`."""
        self._discarded = f"{self.folder}.{platform.node()}.{os.getpid()}.done"
        os.rename(self.folder, self._discarded)

    def _delete_discarded(self) -> None:
        if self._discarded:
            self.sweep()

    def sweep(self) -> None:
        """Deletes what was discarded, also by a process that was killed before it could delete the last of it."""
        for doomed in glob.glob(f"{glob.escape(self.folder)}.*.done"):
            if re.fullmatch(_DISCARDED, doomed[len(self.folder) :]) and _holds_only_its_own(doomed):
                shutil.rmtree(doomed, ignore_errors=True)  # another process may be at it


def _read_hashed(path: str, what: str, build: Callable[[dict[str, Any]], T]) -> T:
    """What `build` makes of what :func:`_write_hashed` wrote. Raises :class:`InputError` for anything else."""

    def check(content: Any) -> T:
        if not isinstance(content, dict) or content.pop("sha256", None) != _hash(content):
            raise ValueError("another content than was written")
        return build(content)

    return read_json(path, what, check)


def _write_hashed(content: dict[str, Any], path: str) -> None:
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump({**content, "sha256": _hash(content)}, file, ensure_ascii=False)


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _holds_only_its_own(folder: str) -> bool:
    """Whether this is a folder, no link to one, in which there is nothing but what gathers in a :class:`BatchStore`."""
    try:
        with os.scandir(folder) as entries:
            return not os.path.islink(folder) and all(
                _OF_STORE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) for entry in entries
            )
    except OSError:  # a file, or deleted by another process
        return False


def check_folder(prefix: str, inputs: Sequence[str]) -> None:
    """Raises :class:`InputError` if the folder of a :class:`BatchStore` holds anything but what gathers there: in the
    end it is deleted with all that is in it."""
    folder = folder_of(prefix)
    found = None
    if os.path.islink(folder):
        found = "a link"
    elif os.path.isdir(folder):
        inside = (path for path in inputs if os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep))
        others = (name for name in sorted(os.listdir(folder)) if not _OF_STORE.fullmatch(name))
        if read := next(inside, None):
            found = f"{read} in it, which is read"
        elif other := next(others, None):
            found = f"{other!r} in it"
    elif os.path.exists(folder):
        found = "a file"
    if found:
        raise InputError(folder, None, f"expected a folder of its own, found {found}")
