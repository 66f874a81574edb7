"""Reading JSON files that state the version of their format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from fairseq_syntax.errors import InputError

T = TypeVar("T")


class EarlierVersion(InputError):
    """A file of an earlier version of its format."""


def read_versioned(
    path: str, version: int, what: str, build: Callable[[dict[str, Any]], T], *, earlier: str = "an earlier one"
) -> T:
    """What `build` makes of the content of a JSON file whose ``format_version`` is `version`.

    Raises :class:`InputError` for another version, and for whatever else is not `what`; :class:`EarlierVersion`, which
    says `earlier`, for an earlier version.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
            found = content["format_version"]
            if found == version:
                return build(content)
            is_earlier = found < version
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(path, None, f"expected {what}, found {error!r}") from None
    if is_earlier:
        raise EarlierVersion(path, None, f"expected format version {version}, found {found}, {earlier}")
    raise InputError(path, None, f"expected format version {version}, found {found}")
