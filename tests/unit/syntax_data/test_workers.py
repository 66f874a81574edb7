"""Parallel processes, and what happens when one of them dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from forked import Forked
from syntax_data.commands.main import command
from syntax_data.errors import InputError
from syntax_data.io.workers import WorkerDied, Workers

LARGE = 10_000_000  # bytes: more than a pipe takes


def half(number: int) -> float:
    if number == 7:
        raise InputError("x", 7, "expected another number")
    return number / 2


def process_and_bytes(size: int) -> tuple[int, bytes]:
    return os.getpid(), bytes(size)


def threads(_: int) -> tuple[str | None, int]:
    return os.environ.get("OMP_NUM_THREADS"), sys.modules["torch"].get_num_threads()


def broken(after: int) -> Iterator[int]:
    yield from range(after)
    raise InputError("y", None, "expected more")


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("items", "results", "error"),
    [
        (partial(range, 7), 7, None),
        (list, 0, None),
        (partial(range, 20), 7, "x:7: expected another number"),
        (partial(broken, 5), 5, "y: expected more"),
        (partial(broken, 9), 7, "x:7: expected another number"),
    ],
)
def test_results_and_errors_come_in_order(count, items, results, error):
    found = []
    with Workers(count) as workers, nullcontext() if error is None else pytest.raises(InputError, match=error):
        for result in workers.map_ordered(half, items()):
            found.append(result)
    assert found == [half(i) for i in range(results)]


def test_maps_follow_one_another_and_idle_workers_may_die():
    with Workers(2) as workers:
        for count in (7, 0, 3):
            assert list(workers.map_ordered(half, range(count))) == [half(i) for i in range(count)]
        for process in multiprocessing.active_children():
            process.kill()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills")
def test_a_worker_that_is_killed_while_its_result_is_on_its_way():
    with Workers(2) as workers:
        results = workers.map_ordered(process_and_bytes, [0, 0, *[LARGE] * 20])
        processes = {next(results)[0], next(results)[0]}
        assert len(processes) == 2
        time.sleep(0.2)  # now they wait with a part of a result written
        os.kill(processes.pop(), signal.SIGKILL)
        with pytest.raises(WorkerDied, match=r"a worker process died \(by SIGKILL\); is there enough memory\?"):
            list(results)
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def start_with_a_signal(number: int) -> None:
    os.register_at_fork(after_in_parent=lambda: signal.raise_signal(number))
    with command("x"), Workers(2):
        print("it went on")


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="not forked")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_comes_when_a_worker_starts_is_not_lost(tmp_path, number, status):
    process = Forked(partial(start_with_a_signal, number), tmp_path / "log")
    assert process.end() == status
    assert process.said.startswith("\nx: ")


class Unsendable(Exception):
    def __reduce__(self):
        raise TypeError("not to be sent")


def not_to_be_sent(how: str) -> object:
    if how == "raised":
        raise Unsendable("the reason")
    return Unsendable("the result")


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [("raised", RuntimeError, "Unsendable: the reason"), ("returned", TypeError, "not to be sent")],
)
def test_what_cannot_be_sent_is_an_error_that_says_so(how, error, message):
    with pytest.raises(error, match=message) as found, Workers(2) as workers:
        list(workers.map_ordered(not_to_be_sent, [how]))
    assert not isinstance(found.value, WorkerDied)


@pytest.mark.parametrize(
    ("setting", "count", "expected"), [(None, 2, "3"), (None, 4, "1"), (None, 9, "1"), ("5", 2, "5")]
)
def test_workers_share_the_cores(setting, count, expected, monkeypatch):
    torch = pytest.importorskip("torch")  # which was loaded before
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    with Workers(count, share_cores=True) as workers:
        assert set(workers.map_ordered(threads, range(2 * count))) == {(expected, int(expected))}
    with Workers(count) as workers:
        assert set(workers.map_ordered(threads, range(2 * count))) == {(setting, before)}
    assert os.environ.get("OMP_NUM_THREADS") == setting
    assert torch.get_num_threads() == before
