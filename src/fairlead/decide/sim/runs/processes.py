"""Worker processes of this machine without Dask: they end with the process that started them, however it ends.

The same protocol as `fairlead.explain.batch.workers`, which has the workers of Dask.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TypeVar

from fairlead.core.errors import ServerError
from fairlead.explain.batch.workers import LocalWorkers, Workers

P = TypeVar("P")
R = TypeVar("R")


class Processes:
    """Some processes that stay until the block of `start_processes` ends."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def run_each(self, function: Callable[..., R], pieces: Sequence[P], **fixed: object) -> Iterator[tuple[P, R]]:
        """See `Workers`. Raises ServerError when a worker was killed."""
        futures = {self._pool.submit(function, piece, **fixed): piece for piece in pieces}
        try:
            for future in as_completed(list(futures)):
                yield futures.pop(future), future.result()
        except BrokenProcessPool as death:
            raise ServerError(
                "a worker process was killed", remedy="run it again, with fewer --jobs: it continues where it stopped"
            ) from death
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def start_processes(count: int) -> Iterator[Workers]:
    """`count` worker processes while the block runs; one is this process itself."""
    if count <= 1:
        yield LocalWorkers()
        return
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        yield Processes(pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def count_processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def _end_with_parent() -> None:
    """Ends this worker as soon as the process that started it is gone: it would wait for work for ever. Ctrl-C is for
    that process alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
