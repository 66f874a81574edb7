"""Where things lie in a checkout."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
EXAMPLES = ROOT / "examples"
EXPERIMENTS = EXAMPLES / "experiments/syntax_experiments"
GOLDEN = TESTS / "data/golden"
