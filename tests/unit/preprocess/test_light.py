"""syntax_preprocess starts quickly, and where neither torch nor fairseq is installed."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import syntax_preprocess


def test_no_module_loads_torch_or_fairseq_or_stanza():
    modules = [m.name for m in pkgutil.walk_packages(syntax_preprocess.__path__, "syntax_preprocess.")]
    assert len(modules) > 30
    program = f"import sys, {', '.join(modules)}; print(*{{'torch', 'fairseq', 'stanza'}} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
