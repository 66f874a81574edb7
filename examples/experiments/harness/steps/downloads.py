"""Files from the network: resumed where they were cut off, checked by their hash."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tqdm import tqdm

from harness.make import Step
from harness.recipe import Download
from syntax_preprocess.errors import InputError

_CHUNK = 1 << 20


def download(step: Step) -> None:
    """Fetches ``url`` into the folder, under its own name.

    Raises:
        InputError: it cannot be had, or is another file than the recipe's hash says.
    """
    asked = Download(**step.settings)
    url = asked.url
    target = step.folder / file_name(url)
    part = target.with_name(f"{target.name}.part")
    if not target.exists():
        try:
            _fetch(url, part)
        except OSError as error:
            raise InputError(url, None, f"expected a download, found: {error}. The next run goes on with it") from error
        for kind, expected in (("sha256", asked.sha256), ("md5", asked.md5)):
            if expected and (found := _hash(part, kind)) != expected:
                part.unlink()
                raise InputError(url, None, f"expected the {kind} {expected}, found {found}; it is deleted")
        os.replace(part, target)
    if not (asked.sha256 or asked.md5):
        print(f"{url}: no hash is known to check it by; its sha256 is {_hash(target, 'sha256')}")


def file_name(url: str) -> str:
    """What a downloaded file is called."""
    return os.path.basename(urlsplit(url).path)


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
        bar = tqdm(desc=file_name(url), total=total, initial=start, unit="B", unit_scale=True, disable=None)
        with open(part, "ab" if resumed else "wb") as file, bar:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
        if total is not None and part.stat().st_size < total:
            raise OSError(f"the connection ended after {part.stat().st_size} of {total} bytes")


def _hash(path: Path, kind: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
