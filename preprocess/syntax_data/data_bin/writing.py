"""Writing features into a data-bin: all of a run's files at its end, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from syntax_data.data_bin.paths import TokenFiles
from syntax_data.data_bin.signature import Signature, describe_files
from syntax_data.io.atomic_write import named_errors
from syntax_data.io.locks import locked
from syntax_data.io.workers import signals_afterwards


@contextmanager
def staging_folder(target: str) -> Iterator[str]:
    """Yield an empty folder for :func:`commit`, which is deleted at the end.

    The lock is an empty file, which stays: a lock that is deleted could be taken twice. Raises :class:`InputError` if
    another run is writing features to the data-bin, whose signature is `target`.
    """
    hidden = os.path.join(os.path.dirname(target), f".{os.path.basename(target).removesuffix('.json')}")
    folder = f"{hidden}.tmp"
    with locked(f"{hidden}.lock", seconds=0, expected="no other fairseq-syntax-binarize on this data-bin"):
        if os.path.isdir(folder) and not os.path.islink(folder):
            shutil.rmtree(folder)
        elif os.path.lexists(folder):
            os.unlink(folder)
        os.mkdir(folder)
        try:
            with named_errors(target):
                yield folder
        finally:
            shutil.rmtree(folder)


def commit(new: Signature, files: Sequence[TokenFiles], folder: str) -> None:
    """Move feature files from :func:`staging_folder` into a data-bin, and sign them.

    `new` is the signature with these splits, which have no files of the data-bin yet, and with its others.
    """
    target = files[0].signature
    moved = {}
    for f in files:
        split = new.splits[f.split]
        staged = {path: os.path.join(folder, os.path.basename(path)) for path in f.features(split.stored)}
        split.files |= describe_files([*f.tokens, *staged.values()])
        moved.update(staged)
    written = {f.split for f in files}
    others = {name: split for name, split in new.splits.items() if name not in written}
    # The signature drops the old files before they are replaced: it never describes a mixture, wherever this is killed.
    with signals_afterwards():
        if os.path.exists(target):
            _replace(Signature(others, new.labels), target, folder)
        for path, staged_path in moved.items():
            os.replace(staged_path, path)
        _replace(new, target, folder)


def _replace(signature: Signature, target: str, folder: str) -> None:
    path = os.path.join(folder, "signature")
    signature.write(path)
    os.replace(path, target)
