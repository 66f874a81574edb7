"""JSON files with a known structure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from syntax_data.errors import InputError, one_line, short_repr

T = TypeVar("T")


def read_json(path: str, what: str, build: Callable[[Any], T]) -> T:
    """Return `build` of the content of a JSON file.

    Raises :class:`InputError` for invalid JSON, or if `build` raises, as it may where the content is not `what`.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise InputError(path, None, f"expected {what}, found no JSON: {one_line(error)}") from None
    try:
        return build(content)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:  # the last: int(1e999)
        found = f"no {one_line(error)}" if isinstance(error, KeyError) else one_line(error)
        raise InputError(path, None, f"expected {what}, found {found}") from None


def check_types(what: str, content: Any, types: Mapping[str, type]) -> None:
    """Raise :class:`ValueError` unless `content` has exactly these keys and types."""
    if not isinstance(content, dict):
        raise ValueError(f"{short_repr(content)} instead of {what}")
    for key in types:
        if key not in content:
            raise ValueError(f"no {key!r} in {what}")
    for key, value in content.items():
        if type(value) is not types.get(key):
            raise ValueError(f"{short_repr(key)}: {short_repr(value)} in {what}")


def read_versioned(
    path: str, version: int, what: str, build: Callable[[dict[str, Any]], T], *, earlier: str = "an earlier one"
) -> T:
    """Return `build` of the content of a JSON file whose ``format_version`` is `version`.

    Raises :class:`InputError` for another version, with the remark `earlier` for an earlier one, and for anything else
    that is not `what`.
    """

    def build_versioned(content: Any) -> T:
        if not isinstance(content, dict):
            raise ValueError(short_repr(content))
        found = content["format_version"]
        if type(found) is int and found == version:
            return build(content)
        remark = f", {earlier}" if type(found) is int and found < version else ""
        raise InputError(path, None, f"expected format version {version}, found {short_repr(found)}{remark}")

    return read_json(path, what, build_versioned)
