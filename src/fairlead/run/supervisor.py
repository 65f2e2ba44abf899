"""The parent of the server's processes: starts them, watches their pulse, starts them again, ends them together.

Its only own work is to listen and to tell; it holds the sockets, so that a child that is started again loses no
connection that waits. Not here: what the children do (`child_process`), settings (`config`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from fairlead.core import clock
from fairlead.core.errors import ServerError
from fairlead.core.safe_text import escape_text
from fairlead.run.child_process import Task
from fairlead.run.config import Config
from fairlead.run.restart_backoff import Restarts
from fairlead.run.systemd_notify import Notifier
from fairlead.see.collector.serving import Bound

ENDING_S = 8.5
"""A child that has not ended so long after SIGTERM is killed."""
SILENT_S = 60.0
"""A child that served and has been silent for so long hangs: it is killed and started again."""
_LOOK_S = 0.2
WATCHED = ("collector", "api")
"""Children whose pulse comes from the loop that does their work."""

log = logging.getLogger("fairlead.server")


@dataclass(slots=True)
class _Child:
    name: str
    sockets: Sequence[Bound]
    restarts: Restarts = field(default_factory=Restarts)
    process: subprocess.Popen[bytes] | None = None
    pulse: int = -1
    began_s: float = 0.0
    beat_s: float = 0.0
    ready: bool = False
    was_ready: bool = False
    reason: str = ""
    again_s: float | None = None
    """When it is to be started; None: it runs, or is not to."""
    text: bytes = b""
    exchanged: bool = False
    """It was asked to end, so that it begins with other settings."""


class Supervisor:
    """The children of one server. `sockets` by child's name; a child without work to do is left out of it."""

    def __init__(
        self,
        config: Config,
        sockets: Mapping[str, Sequence[Bound]],
        notifier: Notifier,
        *,
        on_ready: Callable[[], None] = lambda: None,
        reload: Callable[[], Config | None] = lambda: None,
    ) -> None:
        self._config = config
        self._notifier = notifier
        self._on_ready = on_ready
        self._reload = reload
        self._children = [_Child(name, held) for name, held in sockets.items()]
        self._selector = selectors.DefaultSelector()
        self._ending = False
        self._hup = False
        self._told_ready = False

    def run(self) -> None:
        """Until SIGTERM or SIGINT. Raises ServerError when the collector cannot begin at all."""
        before = {
            signal.SIGTERM: signal.signal(signal.SIGTERM, self._end),
            signal.SIGINT: signal.signal(signal.SIGINT, self._end),
            signal.SIGHUP: signal.signal(signal.SIGHUP, self._ask_reload),
        }
        try:
            for child in self._children:
                self._start(child)
            next_s = 0.0
            while not self._ending:
                self._look()
                if self._hup:
                    self._hup = False
                    self._renew()
                if self._notifier.watchdog_s is not None and clock.monotonic_s() >= next_s:
                    self._notifier.tell("WATCHDOG=1")
                    next_s = clock.monotonic_s() + self._notifier.watchdog_s / 3
        finally:
            self._notifier.tell("STOPPING=1")
            self._end_all()
            for number, was in before.items():
                signal.signal(number, was)

    def _end(self, *_: object) -> None:
        self._ending = True

    def _ask_reload(self, *_: object) -> None:
        self._hup = True

    def _look(self) -> None:
        """Waits a moment for what children say, then sees to each."""
        for key, _ in self._selector.select(_LOOK_S):
            self._hear(key.data)
        for child in self._children:
            self._see_to(child)
        if not self._told_ready and any(child.ready for child in self._children if child.name == "collector"):
            self._told_ready = True  # the others' connections wait in their sockets
            self._notifier.tell("READY=1", "STATUS=serving")
            self._on_ready()

    def _hear(self, child: _Child) -> None:
        try:
            data = os.read(child.pulse, 65536)
        except BlockingIOError:
            return
        if not data:
            self._deaf(child)
            return
        child.beat_s = clock.monotonic_s()
        *lines, child.text = (child.text + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").partition(" ")
            if word == "ready":
                child.ready = child.was_ready = True
            elif word == "error":
                child.reason = rest

    def _see_to(self, child: _Child) -> None:
        now_s = clock.monotonic_s()
        if child.process is None:
            if child.again_s is not None and now_s >= child.again_s:
                self._start(child)
            return
        code = child.process.poll()
        if code is not None:
            if child.pulse >= 0:
                self._hear(child)
            self._ended(child, code)
        elif child.ready and child.name in WATCHED and now_s - child.beat_s > SILENT_S:
            log.error("%s has shown no sign of life for %.0f s: it is killed", child.name, now_s - child.beat_s)
            child.reason = f"no sign of life for {SILENT_S:.0f} s"
            child.process.kill()

    def _ended(self, child: _Child, code: int) -> None:
        ran_s = clock.monotonic_s() - child.began_s
        self._deaf(child)
        child.process, child.ready = None, False
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        why = f"{how}{f': {child.reason}' if child.reason else ''}"
        if child.name == "collector" and not child.was_ready and code > 0:
            raise ServerError(f"the collector cannot start: {child.reason or how}", remedy="see the lines above")
        if child.exchanged:
            child.exchanged, child.again_s = False, clock.monotonic_s()
            return
        pause_s = child.restarts.pause_s(ran_s, code)
        child.again_s = clock.monotonic_s() + pause_s
        log.error("%s", escape_text(f"{child.name} ended after {ran_s:.1f} s ({why}); restarting in {pause_s:.1f} s"))
        self._notifier.tell(escape_text(f"STATUS={child.name} ended ({why}); restarting"))

    def _start(self, child: _Child) -> None:
        ours, theirs = os.pipe()
        sockets = [(sock.fileno(), tls) for sock, tls in child.sockets]
        task = Task(name=child.name, config=self._config, sockets=sockets, pulse=theirs, parent=os.getpid())
        try:
            child.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead.run.child_process"],
                stdin=subprocess.PIPE,
                pass_fds=[*(number for number, _ in sockets), theirs],
                start_new_session=True,
                env={"MALLOC_ARENA_MAX": "2", **os.environ},  # threads that come and go keep less
            )
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        child.pulse, child.text, child.reason, child.again_s = ours, b"", "", None
        child.began_s = child.beat_s = clock.monotonic_s()
        self._selector.register(ours, selectors.EVENT_READ, child)
        assert child.process.stdin is not None  # noqa: S101  (asked for above)
        with contextlib.suppress(BrokenPipeError), child.process.stdin as pipe:
            pipe.write(msgspec.json.encode(task))
        log.info("%s started: process %d", child.name, child.process.pid)

    def _deaf(self, child: _Child) -> None:
        if child.pulse >= 0:
            self._selector.unregister(child.pulse)
            os.close(child.pulse)
            child.pulse = -1

    def _renew(self) -> None:
        """SIGHUP: tokens and certificates are read again at once; with other settings the children are exchanged."""
        self._notifier.tell("RELOADING=1", f"MONOTONIC_USEC={clock.monotonic_ns() // 1000}")
        config = self._reload()
        if config is None or config == self._config:
            for child in self._children:
                if child.process is not None and child.ready:
                    child.process.send_signal(signal.SIGHUP)
        else:
            log.info("new settings: restarting processes one after the other")
            self._config = config
            for child in self._children:
                if child.process is not None:
                    child.exchanged = True
                    child.process.send_signal(signal.SIGTERM)
        self._notifier.tell("READY=1", "STATUS=serving")

    def _end_all(self) -> None:
        running = [child for child in self._children if child.process is not None]
        for child in running:
            child.process.terminate()  # type: ignore[union-attr]
        until_s = clock.monotonic_s() + ENDING_S
        for child in running:
            process = child.process
            assert process is not None  # noqa: S101  (chosen above)
            try:
                process.wait(max(0.1, until_s - clock.monotonic_s()))
            except subprocess.TimeoutExpired:
                log.warning("%s did not end in time and is killed: acknowledged batches are in the log", child.name)
                process.kill()
                process.wait()
            self._deaf(child)
