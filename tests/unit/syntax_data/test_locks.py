"""Locks between processes."""

from __future__ import annotations

import errno
import fcntl
import os
import threading

import pytest

from syntax_data.errors import InputError
from syntax_data.io.locks import locked


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
