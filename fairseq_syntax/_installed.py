"""Whether both packages are there, and of one place: a checkout of this one beside an installed copy of the other would
be two versions at once."""

from __future__ import annotations

import logging
import os

try:
    import syntax_data
except ModuleNotFoundError as error:
    if error.name != "syntax_data":
        raise
    raise ImportError("fairseq_syntax needs syntax_data, which is not installed: pip install .") from None

logger = logging.getLogger(__name__)


def warn_of_mixture(ours: str, other: str = syntax_data.__path__[0]) -> None:
    """Warns where `ours`, this package's folder, lies in a checkout, and `other`, syntax_data's, is not its."""
    beside = os.path.join(os.path.dirname(os.path.realpath(ours)), "preprocess", "syntax_data")
    if os.path.isdir(beside) and not os.path.samefile(beside, other):
        logger.warning(
            "fairseq_syntax comes from %s, and syntax_data from %s: expected both of one place "
            "(pip install . installs both; run commands outside the checkout)", ours, other
        )  # fmt: skip
