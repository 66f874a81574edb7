"""YAML read into dataclasses: every key is known, and every error has its file and line."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from syntax_data.errors import InputError, one_line, short_repr

#: The package's recipes.
RECIPES = Path(__file__).resolve().parent / "recipes"
#: File and line of each key of a document, by the keys that lead there, with dots between them.
Lines = dict[str, tuple[str, int]]
#: Levels of lists and mappings that a recipe may have.
_LEVELS = 20
_TAG = "tag:yaml.org,2002:"
_SCALARS = {f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null")}
_CALLED: dict[Any, str] = {
    str: "a string", int: "an integer", float: "a number", bool: "true or false", dict: "a mapping", list: "a list",
}  # fmt: skip


class _Loader(yaml.SafeLoader):
    """A loader to which dates are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def recipe_path(name: str) -> str:
    """Return the path of a YAML file, or of the package's recipe of that name."""
    return name if name.endswith((".yaml", ".yml")) else str(RECIPES / f"{name}.yaml")


def recipe_names() -> list[str]:
    """Return the names of the package's recipes."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def read_mapping(path: str, above: tuple[str, ...] = ()) -> tuple[dict[str, Any], Lines]:
    """Return the mapping in a YAML file, merged with what it extends, and the lines of its keys.

    ``extends`` names another file, relative to this one, or a recipe of the package. Keys of this file replace the
    other's, mappings are merged, and ``~`` takes a key away.

    Args:
        above: files that extend this one.

    Raises:
        InputError: no file, no YAML, no mapping, a file that extends itself, or a value that is not plain.
    """
    lines: Lines = {"": (path, 1)}
    try:
        with open(path, encoding="utf-8") as file:
            loader = _Loader(file)
            try:
                node = loader.get_single_node()
            except RecursionError:
                message = f"expected at most {_LEVELS} levels of lists and mappings, found more"
                raise InputError(path, loader.line + 1, message) from None
            finally:
                loader.dispose()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, None, f"expected a YAML file, found: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(path, mark.line + 1 if mark else None, f"expected YAML, found: {problem}") from None
    if not isinstance(node, MappingNode):
        raise InputError(path, 1, "expected a mapping of a recipe's keys, found something else")
    found = _plain(node, "", lines)
    if (base := found.pop("extends", None)) is None:
        return found, lines
    if not isinstance(base, str):
        raise InputError(*lines["extends"], f"extends: expected a file or a recipe's name, found {short_repr(base)}")
    base = os.path.join(os.path.dirname(path), recipe_path(base))
    if os.path.realpath(base) in {os.path.realpath(file) for file in (path, *above)}:
        raise InputError(*lines["extends"], f"extends: expected another file, found {base}, which extends this one")
    below, lines_below = read_mapping(base, (path, *above))
    return _merged(below, found), lines_below | lines


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {name for name in below.keys() & above.keys() if isinstance(below[name], dict)}
    return below | {
        name: _merged(below[name], value) if name in both and isinstance(value, dict) else value
        for name, value in above.items()
    }


def _plain(node: Node, key: str, lines: Lines, levels: int = _LEVELS) -> Any:
    """The value of a node, of strings, numbers, booleans, null, lists and mappings; notes the lines of keys."""
    if not levels:  # or a mapping that contains itself
        raise _wrong(node, f"at most {_LEVELS} levels of lists and mappings", "more")
    if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
        return [_plain(one, key, lines, levels - 1) for one in node.value]
    if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
        return _mapping(node, key, lines, levels)
    if isinstance(node, ScalarNode) and node.tag in _SCALARS:
        try:
            return _Loader("").construct_object(node)
        except (ValueError, yaml.YAMLError) as error:
            raise _wrong(node, "a number", f"{short_repr(node.value)}: {one_line(error)}") from None
    raise _wrong(node, "a string, a number, true, false, a list or a mapping", f"the tag {node.tag}")


def _mapping(node: MappingNode, key: str, lines: Lines, levels: int) -> dict[str, Any]:
    """A mapping; what it merges (``<<``) is below its own keys."""
    found: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    own: Lines = {}
    for name, value in node.value:
        if not isinstance(name, ScalarNode):
            raise _wrong(name, "a name", "a list or mapping")
        if name.tag == f"{_TAG}merge":
            for other in value.value if isinstance(value, SequenceNode) else [value]:
                if not isinstance(other, MappingNode):
                    raise _wrong(other, "a mapping to merge", "something else")
                merged = _plain(other, key, lines, levels - 1) | merged
            continue
        if name.value in found:
            raise _wrong(name, "each key once", f"{name.value} again")
        at = f"{key}.{name.value}".lstrip(".")
        own[at] = name.start_mark.name, name.start_mark.line + 1
        found[name.value] = _plain(value, at, own, levels - 1)
    lines |= own
    return merged | found


def _wrong(node: Node, expected: str, found: str) -> InputError:
    return InputError(node.start_mark.name, node.start_mark.line + 1, f"expected {expected}, found {found}")


def place(lines: Lines, key: str) -> tuple[str, int]:
    """Return file and line of a key, or of the nearest one above it that there is."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines[key]


def build(kind: Any, value: Any, lines: Lines, key: str = "") -> Any:
    """Return a value of type `kind`, a dataclass or a type of its fields, from a value of YAML.

    Raises:
        InputError: a key is unknown or missing, or a value is of another type.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):  # of a type and None
        return None if value is None else build(arguments[0], value, lines, key)
    if kind is float and type(value) is int and abs(value) < 1e300:
        return float(value)
    plain = dict if dataclasses.is_dataclass(kind) else origin or kind
    if plain is not Any and type(value) is not plain:
        message = f"expected {key or 'the recipe'}: {_CALLED[plain]}, found {short_repr(value)}"
        raise InputError(*place(lines, key), message)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, lines, key)
    if plain is dict:
        kept = {n: v for n, v in value.items() if v is not None or arguments[1] is Any}  # ~ takes an entry away
        return {n: build(arguments[1], v, lines, f"{key}.{n}") for n, v in kept.items()}
    return [build(arguments[0], v, lines, key) for v in value] if plain is list else value


def _dataclass(kind: Any, value: dict[str, Any], lines: Lines, key: str) -> Any:
    name = key or "the recipe"
    hints = typing.get_type_hints(kind)
    fields = {one.name: one for one in dataclasses.fields(kind) if one.metadata.get("key", True)}
    optional = {n for n, f in fields.items() if (f.default, f.default_factory) != (dataclasses.MISSING,) * 2}
    values = {}
    for field, of in value.items():
        at = f"{key}.{field}".lstrip(".")
        if field not in fields:
            raise InputError(*place(lines, at), f"expected one of {', '.join(fields)} in {name}, found {field!r}")
        if of is not None or field not in optional:
            values[field] = build(hints[field], of, lines, at)
    if missing := [field for field in fields if field not in values and field not in optional]:
        raise InputError(*place(lines, key), f"expected {missing[0]} in {name}, found none")
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(*place(lines, key), f"{name}: {error}") from None
