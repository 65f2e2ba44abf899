"""Processes of the demo under its control: they end with it, whatever ends it, each with all it started.

Not here: what is started (`stage`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.core.errors import ForwardingError

_PR_SET_PDEATHSIG = 1
_LAST_LINES = 8


class Child:
    """One process in a group of its own, its output in files."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.name = name
        self.process = process
        self._out = out
        self._err = err

    @property
    def running(self) -> bool:
        """Whether it still runs. It is not reaped, so that its group cannot become another's."""
        if self.process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def read_output(self) -> str:
        """What it has written to stdout."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    def read_errors(self) -> str:
        """What it has written to stderr."""
        return self._err.read_text(encoding="utf-8", errors="replace")

    def build_death_error(self, doing: str) -> ForwardingError:
        """The error of a child that ended too early."""
        last = "; ".join(line for line in self.read_errors().splitlines()[-_LAST_LINES:] if line.strip())
        self.reap()
        return ForwardingError(
            f"{self.name} ended with {self.process.returncode} while {doing}: {last or 'it said nothing'}",
            where=str(self._err),
            remedy="run it again with --keep DIR and look at its log there",
        )

    def wait_for(self, text: str, timeout_s: float) -> None:
        """Waits until a line on its stderr begins with `text`. ForwardingError when it ends or takes too long."""
        end = monotonic_s() + timeout_s
        while not any(line.startswith(text) for line in self.read_errors().splitlines()):
            if not self.running:
                raise self.build_death_error("starting")
            if monotonic_s() > end:
                raise ForwardingError(f"{self.name} was not ready after {timeout_s:.0f} s", where=str(self._err))
            sleep_s(0.02)

    def wait_for_end(self, timeout_s: float) -> bool:
        """Waits for its end at most that long."""
        end = monotonic_s() + timeout_s
        while self.running:
            if monotonic_s() > end:
                return False
            sleep_s(0.01)
        return True

    def signal(self, number: int) -> None:
        """Sends a signal to it and all it started, unless it has been reaped."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def reap(self) -> int:
        """Its exit code, after it has ended; what it started and left behind is killed first."""
        self.signal(signal.SIGKILL)
        return self.process.wait()


class Children:
    """All processes of one run. A context: at its end none is left."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._all: list[Child] = []
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._parent = os.getpid()

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_all()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        dies_by: int = signal.SIGKILL,
    ) -> Child:
        """Starts a process that gets `dies_by` when this one dies."""
        out, err = self._logs / f"{name}.out", self._logs / f"{name}.err"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                preexec_fn=lambda: self._bind(dies_by),
            )
        child = Child(name, process, out, err)
        self._all.append(child)
        return child

    def _bind(self, number: int) -> None:
        """In the child: ends with its parent, also when that is gone already."""
        self._libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != self._parent:
            os._exit(1)

    def end_all(self, timeout_s: float = 8.0) -> None:
        """Ends them, the youngest first: jobs before mounts, mounts before forwarders."""
        for child in reversed(self._all):
            self.end(child, timeout_s)
        self._all.clear()

    def end(self, child: Child, timeout_s: float = 8.0) -> None:
        """Asks one to end, then makes it."""
        if child.running:
            child.signal(signal.SIGTERM)
            child.wait_for_end(timeout_s)
        child.reap()
