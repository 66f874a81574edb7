"""Models of fairseq that read the parse of their input: translation, classification, ranking and masked LM.

Importing this package, or giving it to a fairseq command as ``--user-dir fairseq_syntax``, registers the tasks of
:mod:`fairseq_syntax.tasks`, the architectures of :mod:`fairseq_syntax.models.architectures` and the criterions of
:mod:`fairseq_syntax.criterions`.
"""

import os

from fairseq_syntax import compat
from fairseq_syntax.compat import remarks
from syntax_data import __version__

with remarks.left_out():
    import fairseq

# fairseq finds an installed --user-dir as <its own folder>/../fairseq_syntax and compares that string
# with __path__ when the package is already imported; without this entry it would refuse it.
_as_fairseq_spells_it = os.path.join(os.path.dirname(fairseq.__file__), "..", "fairseq_syntax")
if os.path.isdir(_as_fairseq_spells_it) and os.path.samefile(_as_fairseq_spells_it, __path__[0]):
    __path__.append(_as_fairseq_spells_it)

from fairseq_syntax import checkpoints, criterions, models, tasks  # noqa: E402

compat.install()
checkpoints.install()

__all__ = ["__version__", "criterions", "models", "tasks"]
