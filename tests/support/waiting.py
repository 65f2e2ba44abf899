"""Waits for other processes and threads: given up when nothing moves any more, not when the machine is slow."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STALLED_S = 60.0
"""So long may everything stand still before a wait gives up."""
PATIENCE_S = 900.0
"""Where only a fixed limit can be set (a socket, the end of a process): far above what a loaded machine needs."""
_IDLE_SHARE = 0.05
"""Of one core. What runs less than this stands still: servers tick a little even when they have nothing to do."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Progress:
    """Whether this process's other threads and the processes it started still do something."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._cpu_s = _cpu_s()

    def stalled(self, stalled_s: float = STALLED_S) -> bool:
        """Whether they hardly used a CPU for so long."""
        now = time.monotonic()
        if now - self._since < stalled_s:
            return False
        before, self._cpu_s = self._cpu_s, _cpu_s()
        used = sum(abs(self._cpu_s.get(pid, 0.0) - before.get(pid, 0.0)) for pid in {*before, *self._cpu_s})
        stalled = used < _IDLE_SHARE * (now - self._since)
        self._since = now
        return stalled


def wait_until(
    condition: Callable[[], Any],
    what: str | Callable[[], str],
    *,
    process: subprocess.Popen[Any] | None = None,
    stalled_s: float = STALLED_S,
) -> Any:
    """Polls until the condition holds; its value.

    Fails the test when `process` has ended instead, or when nothing that could bring it about runs any more: neither
    another thread nor a process started from here used a CPU for `stalled_s`. `what` says what was waited for.
    """
    progress = Progress()
    pause_s = 0.002
    while not (value := condition()):
        if process is not None and process.poll() is not None and not (value := condition()):
            raise AssertionError(f"ended with {process.returncode}: {_text(what)}")
        if value:
            break
        assert not progress.stalled(stalled_s), f"nothing moves any more: {_text(what)}"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)
    return value


def _text(what: str | Callable[[], str]) -> str:
    return what if isinstance(what, str) else what()


def _cpu_s() -> dict[int, float]:
    """CPU seconds of each process below this one, and of this one without the thread that waits."""
    me = os.getpid()
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(stat.parent.name)
        parents[pid], used[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    found = {me: time.process_time() - time.thread_time()}
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor != me:
            ancestor = parents[ancestor]
        if ancestor == me and pid != me:
            found[pid] = used[pid]
    return found
