"""fairseq's remark on tensorboardX does not come before what our commands say."""

from __future__ import annotations

import subprocess
import sys


def test_tensorboard_remark():
    def said_by(program):
        program = f"import sys; sys.modules['tensorboardX'] = None; {program}"
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr

    for command in ("dump", "average_checkpoints"):
        assert said_by(f"import fairseq_syntax.commands.{command}") == ""
    assert "tensorboardX" in said_by("import fairseq"), "upstream is mended: delete compat/tensorboard_remark.py"
