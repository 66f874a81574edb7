"""Files are written whole or not at all, by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_folder, atomic_write, refuse_to_overwrite
from syntax_data.io.locks import locked


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


def _stopped_in_folder(target):
    with atomic_folder(target) as folder:
        (Path(folder) / "half").touch()
        raise KeyboardInterrupt


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "deep/folder"
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            _stopped_in_folder(f"{target}/")
        assert [*tmp_path.glob("deep/*")] == []
    with atomic_folder(f"{target}/") as folder:
        (Path(folder) / "whole").touch()
        assert not target.exists()
    assert [*tmp_path.glob("deep/**/*")] == [target, target / "whole"]
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("deep/folder", "link"):
        with pytest.raises(InputError, match="expected the name of a new folder"), atomic_folder(str(tmp_path / name)):
            pass


def test_only_a_file_is_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe", "none/x"):
        refused = pytest.raises(InputError, match=r"expected (a file|the folder .*) to write to, found")
        with refused, atomic_write(str(tmp_path / name)):
            pass
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
    assert not (tmp_path / "pipe").is_file()


def test_the_second_is_refused_or_waits(tmp_path):
    path = str(tmp_path / "lock")
    with locked(path, seconds=0, expected="to be first"):
        message = "lock: expected to be alone, found this lock held by another process"
        with pytest.raises(InputError, match=message), locked(path, seconds=0, expected="to be alone"):
            pass
        waits = threading.Thread(target=lambda: locked(path, seconds=20, expected="to be alone").__enter__())
        waits.start()
        waits.join(0.1)
        assert waits.is_alive()
    waits.join(10)
    assert not waits.is_alive()


def test_a_lock_is_for_everybody_and_no_link_is_followed(tmp_path):
    before = os.umask(0o077)
    try:
        with locked(str(tmp_path / "new"), seconds=0, expected="to be alone"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="link"), locked(str(tmp_path / "link"), seconds=0, expected="to be alone"):
        pass
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_reported(tmp_path, monkeypatch, capsys, error):
    def no_locks(*_: object) -> None:
        raise OSError(error, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with locked(str(tmp_path / "lock"), seconds=0, expected="to be alone"):
        message = f"{tmp_path}/lock: No locks available: make sure that no other process writes the same files\n"
        assert capsys.readouterr().err == message
