"""Where things lie in a checkout."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
EXAMPLES = ROOT / "examples"
GOLDEN = TESTS / "data/golden"
