"""A file is written whole or not at all."""

from __future__ import annotations

import pytest

from fairseq_syntax.files import whole


def _stopped(target):
    with whole(str(target)) as path, open(path, "w") as file:
        print("half of the ne", file=file, flush=True)
        raise KeyboardInterrupt


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        _stopped(target)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert target.read_text() == "old"
    with whole(str(target)) as path, open(path, "w") as file:
        file.write("new")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert target.read_text() == "new"
