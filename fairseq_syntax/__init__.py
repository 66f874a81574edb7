"""Syntax-aware neural machine translation for fairseq.

Importing this package, or giving it to a fairseq command as ``--user-dir fairseq_syntax``, registers the
task ``syntax_translation`` and the architectures ``gated_syntax_transformer*``.
"""

import os

import fairseq

__version__ = "0.1.0"

# fairseq finds an installed --user-dir as <its own folder>/../fairseq_syntax and compares that string
# with __path__ when the package is already imported; without this entry it would refuse it.
_as_fairseq_spells_it = os.path.join(os.path.dirname(fairseq.__file__), "..", "fairseq_syntax")
if os.path.isdir(_as_fairseq_spells_it) and os.path.samefile(_as_fairseq_spells_it, __path__[0]):
    __path__.append(_as_fairseq_spells_it)

from fairseq_syntax import checkpoints, command_line, literals, loading, models, rdrop, tasks  # noqa: E402

checkpoints.allow_safe_loading()
literals.forbid_code()
loading.look_before_loading()
command_line.list_all_options_in_help()
rdrop.repeat_whole_batches()

__all__ = ["__version__", "models", "tasks"]
