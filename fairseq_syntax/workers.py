"""Parallel processes that never outlive the one that they work for, nor let it wait for a dead one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from fairseq_syntax.errors import InputError

T = TypeVar("T")
R = TypeVar("R")


class WorkerDied(RuntimeError):
    """A worker process ended by itself: killed, most likely, by a system that is short of memory."""


class Workers:
    """Processes that work for this one between ``with`` and its end; with a `count` of 1 it does the work itself.

    Each has a pipe of its own: when one dies, its end of the pipe closes, and :class:`WorkerDied` is raised. In the
    pool of :mod:`concurrent.futures` all share one, and if one of them is killed while its result is on its way,
    everybody waits for ever.
    """

    def __init__(self, count: int):
        self._count = count if count > 1 else 0
        self._workers: list[tuple[BaseProcess, Connection]] = []

    def __enter__(self) -> Workers:
        try:
            for _ in range(self._count):
                with _signals_afterwards():
                    ours, theirs = multiprocessing.Pipe()
                    process = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
                    process.start()
                    theirs.close()
                    self._workers.append((process, ours))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process, _connection in self._workers:
            process.kill()
        for process, connection in self._workers:
            process.join()
            connection.close()
        self._workers.clear()

    def in_order(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """map(), at most two items a worker ahead of what is taken.

        Errors come in the order of the items, too: one in reading them after those in working on the earlier ones.
        What is yielded is to be taken to the end; after an error the workers are of no more use.
        """
        if not self._workers:
            yield from map(work, items)
            return
        owing: deque[tuple[BaseProcess, Connection]] = deque()
        failure = None
        turns = cycle(self._workers)
        items = iter(items)
        while True:
            try:
                item = next(items)
            except StopIteration:
                break
            except InputError as error:
                failure = error
                break
            if len(owing) == 2 * self._count:
                yield _result(*owing.popleft())
            worker = next(turns)
            with _alive(worker[0]):
                worker[1].send((work, item))
            owing.append(worker)
        while owing:
            yield _result(*owing.popleft())
        if failure is not None:
            raise failure


def _result(process: BaseProcess, connection: Connection) -> Any:
    with _alive(process):
        result, error = connection.recv()
    if error is not None:
        raise error
    return result


@contextmanager
def _alive(process: BaseProcess) -> Iterator[None]:
    """Raises :class:`WorkerDied` when the other end of a worker's pipe is closed."""
    try:
        yield
    except (EOFError, OSError):
        process.join(1)
        code = process.exitcode
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit status {code}"
        raise WorkerDied(f"a worker process died ({how}); is there enough memory?") from None


def _serve(connection: Connection) -> None:
    """What a worker does."""
    # Ctrl-C reaches the parent too, which ends this process. A program that it has started is not to ignore it.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    while True:
        work, item = connection.recv()
        result = failure = None
        try:
            result = work(item)
        except Exception as error:
            error.add_note(traceback.format_exc())
            failure = error
        connection.send((result, failure))


def end_with_parent() -> None:
    """Makes this worker process end when the one that started it does, however that ends."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _signals_afterwards() -> Iterator[None]:
    """What stops this process stops it after this; a process that is started in it does not get what is its parent's.

    A process is not forked in one go: functions of some modules run before and after, in it and in its parent, and
    Python drops the exceptions that end them, a KeyboardInterrupt too.
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
