"""Check of a data-bin before a task reads anything from it."""

from __future__ import annotations

import os

from fairseq import utils
from fairseq.data import data_utils

from syntax_data.errors import InputError


def check_dictionaries(paths: str, source_lang: str | None, target_lang: str | None) -> None:
    """Raises :class:`InputError` if the first of the data-bins is not there, or has no dictionaries of the languages.

    Args:
        paths: data-bins, with ``:`` between them.
        source_lang, target_lang: ``None``: as the data-bin's files are called.
    """
    data = utils.split_paths(paths)[0]
    if not os.path.isdir(data):
        raise InputError(data, None, "expected a data-bin, found no folder")
    languages = source_lang, target_lang
    if None in languages:
        languages = data_utils.infer_language_pair(data)
    if None in languages:
        raise InputError(data, None, "expected a data-bin (or --source-lang and --target-lang), found no binary files")
    for language in languages:
        path = os.path.join(data, f"dict.{language}.txt")
        if not os.path.isfile(path):
            there = sorted(name for name in os.listdir(data) if name.startswith("dict.") and name.endswith(".txt"))
            found = f"no file, but {', '.join(there)}" if there else "no file"
            raise InputError(path, None, f"expected the dictionary of {language}, found {found}")
