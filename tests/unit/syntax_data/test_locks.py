"""Locks: what is at the place of one, and what becomes of it while others wait."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from syntax_data.errors import InputError
from syntax_data.io.locks import locked


def take(path: Path, seconds: float = 0) -> None:
    with locked(str(path), seconds=seconds, expected="to be alone"):
        pass


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(tmp_path, there):
    mine = tmp_path / "mine"
    if there:
        mine.write_text("secret")
        mine.chmod(0o600)
    (tmp_path / "lock").symlink_to(mine)
    with pytest.raises(InputError, match=r"lock: expected a file to be locked, found a link"):
        take(tmp_path / "lock")
    assert mine.exists() == there
    if there:
        assert mine.stat().st_mode & 0o777 == 0o600


def test_whose_lock_is_new_lets_everybody_have_it_and_no_other_changes(tmp_path):
    before = os.umask(0o077)
    try:
        take(tmp_path / "new")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o640)
    take(tmp_path / "old")
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o640


def holder(path: Path, change: threading.Event, changed: threading.Event, how: str) -> None:
    with locked(str(path), seconds=0, expected="to be first"):
        change.set()
        time.sleep(0.3)  # the other waits by now
        if how == "deleted":
            path.unlink()
        else:
            path.parent.rename(path.parent.with_name("away"))
    changed.set()


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_a_lock_that_goes_while_another_waits(tmp_path, how):
    folder = tmp_path / "folder"
    folder.mkdir()
    change, changed = threading.Event(), threading.Event()
    thread = threading.Thread(target=holder, args=(folder / "lock", change, changed, how))
    thread.start()
    assert change.wait(10)
    begin = time.monotonic()
    if how == "deleted":
        take(folder / "lock", 20)
        assert (folder / "lock").exists()
    else:
        with pytest.raises(InputError, match="expected a folder for this lock, found none"):
            take(folder / "lock", 20)
    assert changed.wait(10)
    assert time.monotonic() - begin < 10
    thread.join()
