"""The command of examples/experiments, as a process."""

from __future__ import annotations

import os
import sys
from typing import Any

from places import EXAMPLES


def experiment(recipe: object, *options: object, **environment: str) -> dict[str, Any]:
    """Arguments of :class:`subprocess.Popen` that run a recipe.

    Args:
        environment: beside that of this process.
    """
    paths = {"PYTHONPATH": str(EXAMPLES / "experiments")}
    return {
        "args": [sys.executable, "-m", "harness", str(recipe), *map(str, options)],
        "env": {**os.environ, **environment, **paths},
        "text": True,
    }
