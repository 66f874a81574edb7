"""Commands that steps of an experiment run, and the locks that they hold."""

from __future__ import annotations

import subprocess

import pytest

from syntax_data.errors import InputError
from syntax_experiments import make


def test_a_lock_is_held_by_a_command_that_outlives_the_process(tmp_path):
    lock = tmp_path / "lock"
    with make.locked(lock) as held:
        assert held is True
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
        with make.locked(lock, wait=False) as second:
            assert second is False
    with make.locked(lock, wait=False) as second:
        assert second is False
    child.communicate()
    with make.locked(lock, wait=False) as again:
        assert again is True


def test_a_command_that_fails_shows_the_end_of_its_log(tmp_path):
    log = tmp_path / "log"
    make.run("python", "-c", "print('fine')", log=log, stdout=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "fine\n"
    failing = "import sys; print(*range(99), sep=chr(10)); sys.exit('x' * 999)"
    with pytest.raises(InputError, match=r"python failed with exit status 1:\n(\d+\n){14}x{300} …$"):
        make.run("python", "-c", failing, log=log)
    assert log.read_text().startswith("$ python -c")
    with pytest.raises(InputError, match="no-such-command: expected this command, found none"):
        make.run("no-such-command", log=log)
