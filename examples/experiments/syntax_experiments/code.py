"""What code a training runs: hashes of modules."""

from __future__ import annotations

import glob
import hashlib
import importlib.util
import os
from pathlib import Path

from syntax_data.parsers.record import file_hash


def module_hashes(folder: str | os.PathLike[str]) -> dict[str, str]:
    """The hash of each Python file below a folder, by its path from there."""
    files = sorted(glob.glob("**/*.py", root_dir=folder, recursive=True), key=Path)
    return {file: file_hash(os.path.join(folder, file)) for file in files}


def code_hash() -> str:
    """One hash of the modules of this repository's installed packages."""
    found = hashlib.sha256()
    for package in ("fairseq_syntax", "syntax_data"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for file, of_file in module_hashes(Path(spec.origin).parent).items():
            found.update(f"{package}/{file} {of_file}\n".encode())
    return found.hexdigest()[:12]
