"""Finished runs as one file: what they translated and what they took, so that a table can be made without training.

A run is found again by its key, that is by all that it depends on; the models themselves are not packed.
"""

from __future__ import annotations

import lzma
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write
from syntax_experiments.plan import Plan, existing

_KINDS = ("runs", "scores", "measurements", "comparisons")


def pack(plan: Plan, path: Path) -> None:
    """Packs the plan's runs that are finished, with their scores, measurements and comparisons, as a ``.tar.xz``."""
    wanted = [a for a in plan.artefacts if a.kind in _KINDS]
    there = sorted(existing(wanted, "."))
    with atomic_write(str(path)) as part, tarfile.open(part, "w:xz") as file:
        # Texts of one kind side by side are packed best.
        for name in sorted((p for folder in there for p in Path(folder).iterdir() if p.name != "log"), key=_order):
            file.add(name, filter=_anonymous)
    print(f"{path}: {_count_runs(there)} runs of {len(plan.runs)}, {os.path.getsize(path) / 1e6:.2f} MB")


def unpack(plan: Plan, path: Path) -> None:
    """Takes in those of the packed runs that the plan has and that are not there.

    Raises:
        InputError: it is no such file.
    """
    wanted = {a.path for a in plan.artefacts if a.kind in _KINDS}
    taken = set()
    try:
        with tarfile.open(path, "r:xz") as file:
            packed = file.getmembers()
            members = [m for m in packed if os.path.dirname(m.name) in wanted]
            made = [m for m in members if os.path.basename(m.name) == "made.json"]
            new = {os.path.dirname(m.name) for m in made} - existing(plan.artefacts, ".")
            # The file by which one sees that an artefact is there comes last.
            for member in sorted(members, key=lambda m: os.path.basename(m.name) == "made.json"):
                if os.path.dirname(member.name) in new:
                    _extract(file, member)
                    taken.add(os.path.dirname(member.name))
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        raise InputError(str(path), None, f"expected runs that were packed, found: {error}") from error
    runs, all_runs = (_count_runs(names) for names in (taken, {os.path.dirname(m.name) for m in packed}))
    others = "" if runs == all_runs else "; the others are here, or of another text, other parses or options"
    print(f"{path}: took in {runs} runs of {all_runs}{others}")


def _extract(file: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """Writes a packed file to its place, with its time, by which Snakemake knows that it is not out of date.

    Python 3.11.4 is the first whose own `extract` can be told to take files alone.
    """
    content = file.extractfile(member) if member.isreg() else None
    if content is None:
        raise tarfile.TarError(f"{member.name}, which is no file")
    path = Path(member.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.read())
    os.utime(path, (member.mtime, member.mtime))


def _count_runs(names: Iterable[str]) -> int:
    return sum(name.startswith("runs/") for name in names)


def _order(path: Path) -> tuple[str, str, str]:
    return path.suffix, path.name, str(path)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
