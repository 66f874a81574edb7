"""Files from the network, resumed if cut off, checked by size and hash."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from syntax_data.errors import InputError
from syntax_experiments.make import Step
from syntax_experiments.recipe import Download

_CHUNK = 1 << 20


def download(step: Step) -> None:
    """Fetch the file, under its own name, from the first address that has it.

    Raises:
        InputError: no address has it, or only another file, which is deleted.
    """
    asked = Download(**step.local["download"])
    target = step.folder / asked.file_name
    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in [] if target.exists() else [asked.url, *asked.mirrors]:
        try:
            _fetch(url, part)
        except OSError as error:
            failures.append(InputError(url, None, f"expected a download, found: {error}. The next run goes on with it"))
            continue
        if wrong := _wrong(part, asked):
            part.unlink()
            failures.append(InputError(url, None, f"{wrong}; it is deleted"))
            continue
        os.replace(part, target)
        break
    if not target.exists():
        raise failures[0] if len(failures) == 1 else InputError(asked.url, None, "; ".join(map(str, failures)))
    if not (asked.sha256 or asked.md5):
        print(f"{asked.url}: no hash is known to check it by; its sha256 is {_hash(target, 'sha256')}")


def _wrong(part: Path, asked: Download) -> str | None:
    """The error of a file whose size or hash differs."""
    if asked.size is not None and (size := part.stat().st_size) != asked.size:
        return f"expected {asked.size} bytes, found {size}"
    for kind, expected in (("sha256", asked.sha256), ("md5", asked.md5)):
        if expected and (found := _hash(part, kind)) != expected:
            return f"expected the {kind} {expected}, found {found}"
    return None


def _fetch(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is missing
            return
        raise
    with answer:
        resumed = have > 0 and getattr(answer, "status", 0) == 206
        size = answer.headers.get("Content-Length")
        total = int(size) + (have if resumed else 0) if size else None
        start = have if resumed else 0
        bar = tqdm(desc=part.stem, total=total, initial=start, unit="B", unit_scale=True, disable=None)
        with open(part, "ab" if resumed else "wb") as file, bar:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
        if total is not None and part.stat().st_size < total:
            raise OSError(f"the connection ended after {part.stat().st_size} of {total} bytes")


def _hash(path: Path, kind: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
