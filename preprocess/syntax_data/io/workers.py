"""Worker processes that end with their parent, and whose death is an error."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from syntax_data.errors import InputError

T = TypeVar("T")
R = TypeVar("R")


def check_workers(count: int) -> None:
    """Raise :class:`ValueError` unless ``--workers`` is a sensible number."""
    most = max(64, 4 * (os.cpu_count() or 1))
    if not 1 <= count <= most:
        raise ValueError(f"--workers: expected 1 to {most}, found {count}")


class WorkerDied(RuntimeError):
    """A worker process ended by itself, most likely killed for want of memory."""


class Workers:
    """A pool of processes, which end with the block ``with``.

    Each has a pipe of its own: when one dies, its end of the pipe closes, and :class:`WorkerDied` is raised. The pools
    of :mod:`concurrent.futures` and joblib share one pipe; if a worker is killed while it sends a result, they wait for
    ever.

    Args:
        count: number of processes; with 1, this process does the work.
        share_cores: give the libraries that workers load an equal share of the cores as their threads, unless
            OMP_NUM_THREADS is set.
    """

    def __init__(self, count: int, *, share_cores: bool = False):
        self._count = count if count > 1 else 0
        self._threads = _number_of_cores() // count or 1 if share_cores else None
        self._workers: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Workers:
        try:
            for _ in range(self._count):
                self._start_one()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_one(self) -> None:
        with signals_afterwards():
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=_serve, args=(theirs, self._threads), daemon=True)
            self._workers[ours] = process
            process.start()
            theirs.close()

    def __exit__(self, *_: object) -> None:
        started = {c: process for c, process in self._workers.items() if process.pid is not None}
        for process in started.values():
            process.kill()
        for connection, process in started.items():
            process.join()
            connection.close()
        self._workers.clear()

    def map_ordered(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Like map(), at most two small items a worker ahead of what is taken.

        Errors are raised in the order of the items, one in reading them after those in the work on earlier ones. Take
        the results to the end; after an error the workers cannot be used again.
        """
        if not self._workers:
            yield from map(work, items)
            return
        items = iter(items)
        last: StopIteration | InputError | None = None
        given: dict[Connection, deque[int]] = {connection: deque() for connection in self._workers}
        done: dict[int, tuple[Any, Exception | None]] = {}
        count = 0
        for due in itertools.count():
            while due not in done:
                while last is None and count < due + 2 * self._count:
                    least = min(given, key=lambda connection: len(given[connection]))
                    if len(given[least]) == 2:  # enough to do while its result is taken
                        break
                    try:
                        item = next(items)
                    except (StopIteration, InputError) as error:
                        last = error
                        break
                    with self._alive(least):
                        least.send((work, item))
                    given[least].append(count)
                    count += 1
                if due == count:
                    if isinstance(last, InputError):
                        raise last
                    return
                ready = wait([connection for connection, numbers in given.items() if numbers])
                for connection in [connection for connection in given if connection in ready]:
                    with self._alive(connection):
                        done[given[connection].popleft()] = connection.recv()
            result, failure = done.pop(due)
            if failure is not None:
                raise failure
            yield result

    @contextmanager
    def _alive(self, connection: Connection) -> Iterator[None]:
        """Raise :class:`WorkerDied` if the other end is closed."""
        try:
            yield
        except (EOFError, OSError):
            process = self._workers[connection]
            process.join(1)
            code = process.exitcode
            how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit status {code}"
            raise WorkerDied(f"a worker process died ({how}); is there enough memory?") from None


def _serve(connection: Connection, threads: int | None) -> None:
    """Do the work that comes through a pipe."""
    if threads is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        if "torch" in sys.modules:  # which read the environment before it was forked
            sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"].partition(",")[0]))
    # Ctrl-C reaches the parent too, which ends this process. Programs started here must not inherit that it is ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    while True:
        work, item = connection.recv()
        try:
            answer = ForkingPickler.dumps((work(item), None))
        except Exception as error:
            error.add_note(traceback.format_exc())
            try:
                answer = ForkingPickler.dumps((None, error))
            except Exception:
                as_text = "".join(traceback.format_exception(error))
                answer = ForkingPickler.dumps((None, RuntimeError(f"an error that cannot be sent on: {as_text}")))
        connection.send_bytes(answer)


def end_with_parent() -> None:
    """Make this worker process end when its parent does, however the parent ends."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _number_of_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def signals_afterwards() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of steps that belong together.

    Forking is such a step too: functions of some modules run before and after it, in both processes, and Python drops
    the exceptions that end them, even a KeyboardInterrupt. A signal of the parent is not passed on to the new process.
    """
    came: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # no other one handles signals
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for missed in came:
            signal.raise_signal(missed)
