"""YAML read into dataclasses: every key is known, and what is wrong is told with its file and line."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from syntax_data.errors import InputError, short_repr

#: The package's recipes.
RECIPES = Path(__file__).resolve().parent / "recipes"


def recipe_path(name: str) -> str:
    """The path of a YAML file, or that of the package's recipe of that name."""
    return name if name.endswith((".yaml", ".yml")) else str(RECIPES / f"{name}.yaml")


def recipe_names() -> list[str]:
    """The names of the package's recipes."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def read_node(path: str) -> MappingNode:
    """The YAML document in the file `path`: a mapping, with those that its ``extends`` names under it.

    Under ``extends`` stands another file, relative to this one, or the name of a recipe of the package. Keys of this
    file replace the other's; mappings are merged; ``~`` takes a key away.

    Raises:
        InputError: there is no such file, it is no YAML, or no mapping.
    """
    try:
        with open(path, encoding="utf-8") as file:
            loader = yaml.SafeLoader(file)
            try:
                node = loader.get_single_node()
            finally:
                loader.dispose()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, None, f"expected a YAML file, found: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(path, mark.line + 1 if mark else None, f"expected YAML, found: {problem}") from None
    if not isinstance(node, MappingNode):
        raise InputError(path, 1, "expected a mapping, found something else")
    items = _items(node, path)
    if "extends" not in items:
        return node
    _, base = items.pop("extends")
    below = read_node(os.path.join(os.path.dirname(path), recipe_path(_scalar(base, str, path, "extends"))))
    return _merged(below, MappingNode(node.tag, list(items.values()), node.start_mark, node.end_mark))


def _merged(below: MappingNode, above: MappingNode) -> MappingNode:
    pairs = _items(below, below.start_mark.name)
    for name, (key, value) in _items(above, above.start_mark.name).items():
        old = pairs.get(name, (None, None))[1]
        if isinstance(value, MappingNode) and isinstance(old, MappingNode):
            value = _merged(old, value)
        pairs[name] = key, value
    return MappingNode(above.tag, list(pairs.values()), above.start_mark, above.end_mark)


def _items(node: MappingNode, path: str) -> dict[str, tuple[Node, Node]]:
    """The entries of a mapping, those that it merges (``<<``) under its own."""
    found: dict[str, tuple[Node, Node]] = {}
    merged: dict[str, tuple[Node, Node]] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise _wrong(key, "a name", "something else")
        if key.tag == "tag:yaml.org,2002:merge":
            for other in value.value if isinstance(value, SequenceNode) else [value]:
                if not isinstance(other, MappingNode):
                    raise _wrong(other, "a mapping to merge", "something else")
                merged = {**_items(other, path), **merged}
            continue
        if key.value in found:
            raise _wrong(key, "each key once", f"{key.value} again")
        found[key.value] = key, value
    return {**merged, **found}


def lines_of(node: MappingNode) -> dict[str, tuple[str, int]]:
    """File and line of each key in a mapping and in those within it, by the keys that lead there, dots between them."""
    found = {}
    for name, (key, value) in _items(node, node.start_mark.name).items():
        found[name] = (key.start_mark.name, key.start_mark.line + 1)
        if isinstance(value, MappingNode):
            found |= {f"{name}.{inner}": place for inner, place in lines_of(value).items()}
    return found


def _wrong(node: Node, expected: str, found: str) -> InputError:
    return InputError(node.start_mark.name, node.start_mark.line + 1, f"expected {expected}, found {found}")


def build(kind: Any, node: Node, name: str) -> Any:
    """A value of type `kind`, a dataclass or a type of its fields, made of a YAML node.

    Raises:
        InputError: a key is unknown or missing, or a value is of another type.
    """
    path = node.start_mark.name
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, node, name)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if type(None) in arguments and _is_null(node):
            return None
        options = [a for a in arguments if a is not type(None)]
        if len(options) == 1:
            return build(options[0], node, name)
        for option in options:  # the first that fits the shape
            if _shape(option) is type(node):
                return build(option, node, name)
        raise _wrong(node, f"{name} of another form", "this")
    if origin is dict:
        if not isinstance(node, MappingNode):
            raise _wrong(node, f"{name}: a mapping", "something else")
        entries = _items(node, path)
        # An entry that is taken away.
        return {n: build(arguments[1], v, f"{name}.{n}") for n, (_, v) in entries.items() if _keeps(v, arguments[1])}
    if origin in (list, tuple):
        if not isinstance(node, SequenceNode):
            raise _wrong(node, f"{name}: a list", "something else")
        return [build(arguments[0], v, name) for v in node.value]
    if kind is Any:
        return _plain(node)
    return _scalar(node, kind, path, name)


def _keeps(node: Node, kind: Any) -> bool:
    return not _is_null(node) or kind is Any


def _shape(kind: Any) -> type[Node]:
    if dataclasses.is_dataclass(kind) or typing.get_origin(kind) is dict:
        return MappingNode
    return SequenceNode if typing.get_origin(kind) in (list, tuple) else ScalarNode


def _dataclass(kind: Any, node: Node, name: str) -> Any:
    if not isinstance(node, MappingNode):
        raise _wrong(node, f"{name}: a mapping", "something else")
    types_of = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.metadata.get("key", True)}
    values = {}
    for key, (key_node, value) in _items(node, name).items():
        if key not in fields:
            raise _wrong(key_node, f"one of {', '.join(fields)} in {name}", short_repr(key))
        if _is_null(value) and _has_default(fields[key]):
            continue
        values[key] = build(types_of[key], value, key if name == "the recipe" else f"{name}.{key}")
    for key, field in fields.items():
        if key not in values and not _has_default(field):
            raise _wrong(node, f"{key} in {name}", "none")
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(node.start_mark.name, node.start_mark.line + 1, f"{name}: {error}") from None


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _plain(node: Node) -> Any:
    """What YAML makes of a node."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _scalar(node: Node, kind: Any, path: str, name: str) -> Any:
    value = _plain(node) if isinstance(node, ScalarNode) else None
    if kind is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return node.value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise _wrong(
            node, f"{name}: {_CALLED.get(kind, kind)}", short_repr(getattr(node, "value", "a list or mapping"))
        )
    return value


_CALLED = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
