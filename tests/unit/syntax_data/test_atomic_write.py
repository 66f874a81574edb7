"""A file is written whole or not at all."""

from __future__ import annotations

import os

import pytest

from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite


def _stopped(target):
    with atomic_write(str(target)) as path, open(path, "w") as file:
        print("half of the ne", file=file, flush=True)
        raise KeyboardInterrupt


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        _stopped(target)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert target.read_text() == "old"
    with atomic_write(str(target)) as path, open(path, "w") as file:
        file.write("new")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert target.read_text() == "new"


def test_a_full_disk_is_named(tmp_path):
    full = pytest.raises(OSError, match=r"No space left on device: '.*/out'")
    with full, atomic_write(str(tmp_path / "out")), open("/dev/full", "w") as file:
        file.write("x")
    assert not os.listdir(tmp_path)


def test_an_input_is_not_overwritten_by_any_of_its_names(tmp_path, monkeypatch):
    text = tmp_path / "text"
    text.write_text("precious")
    os.symlink("text", tmp_path / "symlink")
    os.link(text, tmp_path / "hardlink")
    os.symlink(".", tmp_path / "folder")
    (tmp_path / "other").write_text("precious")
    monkeypatch.chdir(tmp_path)
    for name in ("text", "symlink", "hardlink", "folder/text", "./folder/folder/text"):
        with pytest.raises(InputError, match=f"{name}: expected another file to write to .*, found {text}"):
            refuse_to_overwrite(name, ["other", str(text)])
    refuse_to_overwrite("other", ["symlink", "missing"])
    refuse_to_overwrite("missing", ["text", "missing"])


def test_only_a_file_is_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe", "none/x"):
        refused = pytest.raises(InputError, match=r"expected (a file|the folder .*) to write to, found")
        with refused, atomic_write(str(tmp_path / name)):
            pass
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
    assert not (tmp_path / "pipe").is_file()
