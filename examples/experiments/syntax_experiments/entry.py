"""fairseq-syntax-experiment as pip installs it, maybe without its extra."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Runs the command line."""
    if missing := [name for name in ("scipy", "snakemake", "yaml") if find_spec(name) is None]:
        sys.exit(
            f"fairseq-syntax-experiment: error: {', '.join(missing)} not installed: "
            "pip install 'fairseq-syntax[experiments]'"
        )
    from syntax_experiments.__main__ import main

    main()
