"""What a run shows while it is at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from syntax_experiments import progress
from syntax_experiments.plan import Artefact


def make(*artefacts: Artefact) -> None:
    for artefact in artefacts:
        Path(artefact.path).mkdir(parents=True)
        Path(artefact.path, "made.json").touch()


@pytest.mark.parametrize("active", [True, False])
def test_a_log_has_a_line_for_each_step_that_is_done(tmp_path, monkeypatch, capsys, active):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "_SECONDS", 0.01)
    one, never, other = (Artefact("runs", {"n": n}, label=f"step {n}") for n in range(3))
    with progress.Progress([one, never, other], active=active):
        make(one, other)
    assert capsys.readouterr().err == ("1 of 3 steps: step 0\n2 of 3 steps: step 2\n" if active else "")
