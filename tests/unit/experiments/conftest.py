"""The harness of examples/experiments is imported from where it lies."""

import sys

from places import EXAMPLES

sys.path.insert(0, str(EXAMPLES / "experiments"))
