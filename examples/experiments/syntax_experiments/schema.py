"""YAML as dataclasses: every key is known, and errors have file and line."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from syntax_data.errors import InputError, describe_path, one_line, short_repr

#: The package's recipes.
RECIPES = Path(__file__).resolve().parent / "recipes"
#: File and line of each key of a document, by the keys that lead there, with dots between them.
Lines = dict[str, tuple[str, int]]
_TAG = "tag:yaml.org,2002:"
#: What JSON has.
_PLAIN = {f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")}
_CALLED: dict[Any, str] = {
    str: "a string", int: "an integer", float: "a number", bool: "true or false", dict: "a mapping", list: "a list",
}  # fmt: skip


def recipe_path(name: str) -> str:
    """Return the path of a YAML file, or of the package's recipe of that name."""
    return name if name.endswith((".yaml", ".yml")) else str(RECIPES / f"{name}.yaml")


def recipe_names() -> list[str]:
    """Return the names of the package's recipes."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def read_mapping(path: str, above: tuple[str, ...] = ()) -> tuple[dict[str, Any], Lines]:
    """Return the mapping in a YAML file and what it extends, and its keys' lines; `above` are files that extend it.

    ``extends`` names another file, relative to this one, or a recipe of the package. Keys of this file replace the
    other's, mappings are merged, and ``~`` takes a key away.

    Raises:
        InputError: no file, no YAML, no mapping, a file that extends itself, or a value that JSON lacks.
    """
    found, lines = _load(path)
    if (base := found.pop("extends", None)) is None:
        return found, lines
    if not isinstance(base, str):
        raise InputError(*lines["extends"], f"extends: expected a file or a recipe's name, found {short_repr(base)}")
    base = os.path.join(os.path.dirname(path), recipe_path(base))
    if os.path.realpath(base) in {os.path.realpath(file) for file in (path, *above)}:
        raise InputError(*lines["extends"], f"extends: expected another file, found {base}, which extends this one")
    if not os.path.isfile(base):
        raise InputError(*lines["extends"], f"extends: expected a file, found {describe_path(base)} at {base}")
    below, lines_below = read_mapping(base, (path, *above))
    return _merged(below, found), lines_below | lines


def _load(path: str) -> tuple[dict[str, Any], Lines]:
    lines: Lines = {"": (path, 1)}
    try:
        with open(path, encoding="utf-8") as file:
            loader = yaml.SafeLoader(file)
            node = loader.get_single_node()
            if not isinstance(node, MappingNode):
                raise InputError(path, 1, "expected a mapping of a recipe's keys, found something else")
            _note_lines(node, "", lines)
            return loader.construct_document(node), lines
    except InputError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(path, mark.line + 1 if mark else None, f"expected YAML, found: {problem}") from None
    except RecursionError:
        raise InputError(path, None, "expected fewer levels of lists and mappings") from None
    except (OSError, ValueError) as error:
        raise InputError(path, None, f"expected a YAML file, found: {one_line(error)}") from None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = below | above
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            merged[name] = _merged(below[name], above[name])
    return merged


def _note_lines(node: Node, key: str, lines: Lines) -> None:
    """Note the line of each key, make it a string, and refuse one that is there twice, and tags that JSON lacks."""
    place = node.start_mark.name, node.start_mark.line + 1
    if node.tag == f"{_TAG}timestamp":
        node.tag = f"{_TAG}str"
    if node.tag not in _PLAIN:
        raise InputError(*place, f"expected strings, numbers, lists and mappings, found the tag {node.tag!r}")
    if isinstance(node, SequenceNode):
        for one in node.value:
            _note_lines(one, key, lines)
    if not isinstance(node, MappingNode):
        return
    names = set()
    merged_first = sorted(node.value, key=lambda pair: pair[0].tag != f"{_TAG}merge")  # its own keys replace them
    for name, value in merged_first:
        place = name.start_mark.name, name.start_mark.line + 1
        if name.tag == f"{_TAG}merge":
            _note_lines(value, key, lines)
            continue
        if not isinstance(name, ScalarNode) or name.value in names:
            raise InputError(*place, f"expected each key once, and as a name, found {short_repr(name.value)}")
        names.add(name.value)
        name.tag = f"{_TAG}str"
        at = f"{key}.{name.value}".lstrip(".")
        lines[at] = place
        _note_lines(value, at, lines)


def place(lines: Lines, key: str) -> tuple[str, int]:
    """Return file and line of a key, or of the nearest one above it that there is."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines[key]


def build(kind: Any, value: Any, lines: Lines, key: str = "") -> Any:
    """Return a value of type `kind`, maybe a dataclass, from a value of YAML.

    Raises:
        InputError: a key is unknown or missing, or a value is of another type.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):  # of a type and None
        return None if value is None else build(arguments[0], value, lines, key)
    if origin is typing.Literal:
        if value not in arguments:
            expected = f"expected one of {', '.join(arguments)}"
            raise InputError(*place(lines, key), f"{key}: {expected}, found {short_repr(value)}")
        return value
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
