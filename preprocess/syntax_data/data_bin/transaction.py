"""How the files of some splits come into a data-bin: all of them at the end, or none, wherever a run is killed."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from syntax_data.data_bin.places import TokenFiles
from syntax_data.data_bin.signature import Signature, describe_files
from syntax_data.errors import InputError
from syntax_data.features import FEATURES, MOST_LABELS
from syntax_data.io.locks import locked
from syntax_data.io.workers import signals_afterwards


def make_folder(path: str) -> None:
    """Makes a data-bin, if there is none. Raises :class:`InputError` where nothing can be written."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InputError(
            path, None, f"expected a folder to write to, found none, nor can it be made: {error.strerror}"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(path, None, "expected a folder to write to, found that this is not allowed")


@contextmanager
def hidden_files(files: TokenFiles) -> Iterator[TokenFiles]:
    """Where to write what :func:`move_into_place` will move; nobody else writes this split meanwhile."""
    hidden = os.path.join(files.data, f".syntax.{files.pair[0]}-{files.pair[1]}.{files.lang}.{files.split}")
    alone = f"to be the only one that binarizes {files.split}"
    with locked(f"{hidden}.lock", seconds=0, expected=alone), _temporary_folder(f"{hidden}.tmp") as folder:
        yield files.inside(folder)


@contextmanager
def _temporary_folder(path: str) -> Iterator[str]:
    """A folder that is empty, whatever a run that was killed has left in it, and is deleted in the end."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    os.mkdir(path)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def read_signature(path: str) -> Signature:
    """The signature in a data-bin; an empty one where there is none."""
    return Signature.read(path) if os.path.exists(path) else Signature()


def move_into_place(made: Signature, hidden: Sequence[TokenFiles], target: str) -> None:
    """Adds the files of some splits, and their signature, to a data-bin that other runs may be adding to.

    Args:
        made: the signature of these splits, which does not know their files yet.
        hidden: the splits as :func:`hidden_files` gave them.
        target: path of the data-bin's signature.
    """
    files = {split.split: split.of_features(made.splits[split.split].features) for split in hidden}
    with locked(
        f"{os.path.dirname(target)}/.{os.path.basename(target).removesuffix('.json')}.lock",
        seconds=600,
        expected="other runs to have moved their files into place by now",
    ):
        signature = read_signature(target)
        paths = list(itertools.chain.from_iterable(files.values()))
        temporary = os.path.dirname(paths[0])
        others = {name: split for name, split in signature.splits.items() if name not in made.splits}
        # As long as other splits have them, labels keep their numbers.
        labels = _add_labels(made.labels, signature.labels if others else {}, paths, target)
        for split, of_split in files.items():
            made.splits[split].files = describe_files(of_split)
        # The signature says which files hold. It lets go of the old ones before they are replaced, so that it
        # never vouches for a mixture, wherever this is killed.
        with signals_afterwards():
            if others.keys() != signature.splits.keys():
                _replace(Signature(others, signature.labels), target, temporary)
            for path in paths:
                os.replace(path, os.path.join(os.path.dirname(target), os.path.basename(path)))
            _replace(Signature({**others, **made.splits}, labels), target, temporary)


def _add_labels(
    new: Mapping[str, list[str]], known: Mapping[str, list[str]], paths: Sequence[str], target: str
) -> dict[str, list[str]]:
    """The labels `known`, and those of the `new` ones that are not, by feature; renumbers those in files `paths`."""
    labels = {}
    for feature, found in new.items():
        labels[feature] = list(dict.fromkeys([*known.get(feature, []), *found]))
        if len(labels[feature]) > MOST_LABELS + 1:
            raise InputError(
                target,
                None,
                f"{feature}: expected at most {MOST_LABELS} different labels in all splits, found "
                f"{len(labels[feature]) - 1} with those of this run (--features without {feature} leaves it out)",
            )
        numbers = np.array([labels[feature].index(label) for label in found], FEATURES[feature].dtype)
        if (numbers != np.arange(len(numbers))).any():
            for path in paths:
                if path.endswith(f".{feature}.bin"):
                    _renumber_file(path, numbers)
    return labels


def _renumber_file(path: str, numbers: np.ndarray) -> None:
    values = np.memmap(path, numbers.dtype, "r+")
    for start in range(0, len(values), 1 << 20):
        some = values[start : start + (1 << 20)]
        some[:] = numbers[some]
    values.flush()


def _replace(signature: Signature, target: str, temporary: str) -> None:
    path = os.path.join(temporary, "signature")
    signature.write(path)
    os.replace(path, target)
