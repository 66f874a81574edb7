"""Options declared once, as fields of a dataclass: default, help and what may be chosen.

The command line, ``--help``, the check of what fairseq-hydra-train read from a file, and the tables in the
documentation all follow from the declaration.
"""

from __future__ import annotations

import argparse
import dataclasses
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional, Union, get_args, get_origin, get_type_hints


def option(
    default: Any, *, help: str, name: str | None = None, choices: Sequence[str] | None = None, **bounds: float
) -> Any:
    """Declare a field of a dataclass that is an option.

    Args:
        default: added to the help.
        help: its effect, and its place in the paper.
        name: of the option, where it is not the field's.
        choices: valid strings.
        **bounds: bounds of a number: ``above``, ``at_least``, ``below``, ``at_most``.
    """
    if unknown := bounds.keys() - _BOUNDS:
        raise TypeError(f"expected the bounds {', '.join(_BOUNDS)}, found {', '.join(unknown)}")
    about = {"help": help, "name": name, "choices": choices, "bounds": bounds}
    return dataclasses.field(default=default, metadata=about)


@dataclasses.dataclass(frozen=True)
class Option:
    """A declared option.

    Attributes:
        key: its name in a namespace and for fairseq-hydra-train.
        field: the name of its field.
        kind: the type of its values.
        optional: ``None`` is one of them.
        default: its default.
        about: the arguments of :func:`option`.
    """

    key: str
    field: str
    kind: type
    optional: bool
    default: Any
    about: dict[str, Any]

    @property
    def flag(self) -> str:
        """Its name on a command line."""
        return "--" + self.key.replace("_", "-")

    @property
    def help(self) -> str:
        """The help, with its default."""
        default = {True: "on", False: "off"}.get(self.default, self.default) if self.kind is bool else self.default
        text: str = self.about["help"]
        shown = f"{default:g}" if isinstance(default, float) else default
        return text if self.default is None else f"{text}; default: {shown}"

    def add_to(self, parser: Any) -> None:
        """Add the option to a parser, without its default: an architecture may set another."""
        text = self.help.replace("%", "%%")
        if self.kind is bool:
            parser.add_argument(self.flag, action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(self.flag, type=self.kind, choices=self.about["choices"], help=text)

    def checked(self, value: Any) -> Any:
        """Return `value` as a plain value of the option's type.

        Raises:
            ValueError: it is invalid; names the option, what was expected and what was found.
        """
        if value is None and self.optional:
            return None
        try:
            plain = self._plain(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{self.flag}: expected {_NAMES[self.kind]}, found {value!r}") from None
        if (choices := self.about["choices"]) and plain not in choices:
            raise ValueError(f"{self.flag}: expected one of {', '.join(choices)}, found {value!r}")
        for bound, limit in self.about["bounds"].items():
            words, holds = _BOUNDS[bound]
            if not holds(plain, limit):
                raise ValueError(f"{self.flag}: expected {words} {limit}, found {value!r}")
        return plain

    def _plain(self, value: Any) -> Any:
        if self.kind is bool or isinstance(value, bool):
            if self.kind is not bool or not isinstance(value, bool):
                raise TypeError
            return value
        if self.kind is int and float(value) != int(value):
            raise ValueError
        return self.kind(value)


_BOUNDS = {
    "above": ("a number above", operator.gt),
    "at_least": ("at least", operator.ge),
    "below": ("a number below", operator.lt),
    "at_most": ("at most", operator.le),
}
_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


#: A comma-separated list of no names.
NONE = "none"


def names_in(written: str, known: Sequence[str]) -> list[str]:
    """Return the names in a comma-separated list in the order of `known`, others last."""
    if written.strip() in ("", NONE):
        return []
    names = [name.strip() for name in written.split(",")]
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


def check_names(flag: str, written: str, known: Sequence[str]) -> None:
    """Raises :class:`ValueError` unless the list has some of `known`, each once, or none."""
    names = names_in(written, known)
    if len(set(names)) < len(names) or not set(names) <= set(known):
        raise ValueError(f"{flag}: expected some of {','.join(known)}, each once, found {written!r}")


def options_of(declared: type, prefix: str = "") -> Iterator[Option]:
    """Yield the options among the fields of a dataclass, in order.

    Args:
        prefix: of the names of options without a name of their own.
    """
    types = get_type_hints(declared)
    for field in dataclasses.fields(declared):
        if "choices" not in field.metadata:  # not declared by option()
            continue
        kind = types[field.name]
        optional = get_origin(kind) in (Union, Optional) or type(None) in get_args(kind)
        (plain,) = [part for part in get_args(kind) if part is not type(None)] if optional else [kind]
        key = field.metadata["name"] or prefix + field.name
        yield Option(key, field.name, plain, optional, field.default, dict(field.metadata))


def read_options(options: Iterable[Option], values: Any) -> dict[str, Any]:
    """Return the checked values of options by their fields; of one that `values` has not, its default.

    Raises:
        ValueError: see :meth:`Option.checked`.
    """
    return {o.field: o.checked(getattr(values, o.key) if o.key in values else o.default) for o in options}
