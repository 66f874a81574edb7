"""Parameters of tests, of which most run nightly."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def others_nightly(values: Iterable[Any], ordinary: Container[Any]) -> list[Any]:
    """The values as parameters, tuples as several; those that are not among `ordinary` have the marker nightly."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if value in ordinary else pytest.mark.nightly,
        )
        for value in values
    ]
