"""What-if runs that pages ask for: a queue, one run at a time, answers kept on disk across restarts.

A run that was under way when the server ended is told as broken off; one that waited still waits. Not here: the replay
(`worker`), HTTP (`routes`), files (`run_files`).
"""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairlead.core import clock
from fairlead.core.errors import FairleadError, UsageError
from fairlead.decide.whatif.whatif_request import check_whatif_request, format_whatif_command
from fairlead.explain.questions.answers_whatif_runs import WhatIfAsked, WhatIfProgress, WhatIfRun, WhatIfRuns
from fairlead.run.config import Config
from fairlead.run.whatif.run_files import RunFolder
from fairlead.run.whatif.settings import WhatIfSettings
from fairlead.run.whatif.worker import Task, WorkerLine

_LOOK_S = 0.2
_LONGEST_LINE = 1 << 20
_MODULE = "fairlead.run.whatif.worker"
log = logging.getLogger("fairlead.whatif")
replace = msgspec.structs.replace


class CrowdedError(Exception):
    """No room for another run: everybody's or this person's share of the queue is taken."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What is replayed: the lake in `root`, with the site file `site` (empty: none); `memory` for queries."""

    root: Path
    site: str = ""
    memory: str = "1GB"


class Runs:
    """All runs of a server. Safe to use from many threads. `start` takes up work, `close` ends it."""

    def __init__(
        self,
        folder: Path,
        place: Place,
        settings: WhatIfSettings,
        *,
        now_ns: Callable[[], int] = clock.now_ns,
        module: str = _MODULE,
    ) -> None:
        """`folder`: where runs and answers are kept. Raises LakeError when it cannot be used."""
        self._place, self._settings, self._now_ns, self._module = place, settings, now_ns, module
        self._kept = RunFolder(folder)
        self._turn = threading.Condition()
        self._all: dict[str, WhatIfRun] = {}
        self._queue: deque[str] = deque()
        self._working: str | None = None
        self._dropped = False
        """What is under way is to end: somebody took it back."""
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="what if", daemon=True)
        for run in sorted(self._kept.iterate_runs(), key=lambda one: (one.asked_ns, one.id)):
            if run.state == "running":
                run = self._over(
                    run,
                    "failed",
                    error="interrupted: the server stopped while it was running",
                    remedy="run it again",
                )
                self._kept.write(run)
            self._all[run.id] = run
            if run.state == "queued":
                self._queue.append(run.id)

    def start(self) -> None:
        """Begins to work on what waits."""
        self._thread.start()

    def close(self) -> None:
        """Ends; a run under way is broken off, one that waits is found again by the next start."""
        with self._turn:
            self._closing = True
            self._turn.notify_all()
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def ask(self, owner: str, asked: WhatIfAsked) -> WhatIfRun:
        """Puts a run into the queue. Raises UsageError for what cannot be asked, CrowdedError, LakeError."""
        now = self._now_ns()
        span, _ = check_whatif_request(asked, now)
        run = WhatIfRun(
            id=secrets.token_hex(8),
            owner=owner,
            state="queued",
            asked=asked,
            from_ns=span.from_ns,
            to_ns=span.to_ns,
            asked_ns=now,
            command=format_whatif_command(asked, span, lake=str(self._place.root), site=self._place.site),
        )
        with self._turn:
            mine = [one for one in self._all.values() if one.owner == owner and one.state in ("queued", "running")]
            if len(mine) >= self._settings.user_at_once:
                raise CrowdedError(f"{len(mine)} of your runs are already queued or running")
            if len(self._queue) >= self._settings.waiting:
                raise CrowdedError(f"{len(self._queue)} runs are already queued")
            self._kept.write(run)
            self._all[run.id] = run
            self._queue.append(run.id)
            self._turn.notify_all()
            return self._shown(run)

    def list_runs(self, owner: str | None) -> WhatIfRuns:
        """Those of somebody, or of all (None), latest first."""
        with self._turn:
            found = [self._shown(one) for one in self._all.values() if owner is None or one.owner == owner]
        found.sort(key=lambda one: (-one.asked_ns, one.id))
        return WhatIfRuns(runs=found, kept=self._settings.kept)

    def page(self, name: str, owner: str | None) -> dict[str, Any]:
        """One run with its answer as it is kept (JSON). Raises UsageError where there is none (or not for `owner`)."""
        run = self._found(name, owner)
        answer = self._kept.answer(name) if run.state == "done" else None
        return {
            "schema": "fairlead.whatif-run/1",
            "run": run,
            "answer": msgspec.Raw(answer) if answer is not None else None,
        }

    def drop(self, name: str, owner: str | None) -> WhatIfRun:
        """Takes a run back: one that waits or is under way is cancelled, one that is over is forgotten. Raises
        UsageError where there is none."""
        self._found(name, owner)
        with self._turn:
            run = self._all[name]
            if run.state == "queued":
                self._queue.remove(name)
                run = self._all[name] = self._over(run, "cancelled")
                self._kept.write(run)
            elif run.state == "running":
                self._dropped = True
                self._turn.notify_all()
                self._turn.wait_for(lambda: self._all[name].state != "running", timeout=10.0)
                run = self._all[name]
            else:
                self._kept.remove(name)
                del self._all[name]
            return run

    def _found(self, name: str, owner: str | None) -> WhatIfRun:
        with self._turn:
            run = self._all.get(name)
            if run is None or (owner is not None and run.owner != owner):
                raise UsageError("you have no such run", remedy="GET /api/v1/whatif lists them")
            return self._shown(run)

    def _shown(self, run: WhatIfRun) -> WhatIfRun:
        if run.state != "queued":
            return run
        return replace(run, before=self._queue.index(run.id) + (self._working is not None))

    def _over(self, run: WhatIfRun, state: Any, **more: Any) -> WhatIfRun:
        return replace(run, state=state, ended_ns=self._now_ns(), progress=None, **more)

    def _work(self) -> None:
        """The thread: one run after the other. It starts the processes itself, as they end with it."""
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._closing or bool(self._queue))
                if self._closing:
                    return
                name = self._queue.popleft()
                self._working, self._dropped = name, False
                begun = WhatIfProgress(step="starting", text="starting", share=0.0)
                run = replace(self._all[name], state="running", started_ns=self._now_ns(), progress=begun)
                self._all[name] = run
            try:
                self._kept.write(run)
                done = self._run(run)
            except (FairleadError, OSError) as fault:
                log.warning("what if %s: %s", name, fault)
                done = self._over(run, "failed", error="it cannot be stored or started", remedy="see the server's log")
            except Exception:
                log.exception("what if %s ended by a bug in fairlead", name)
                done = self._over(run, "failed", error="a bug in fairlead", remedy="see the server's log")
            with self._turn:
                if not self._closing:
                    self._finish(done)
                self._working = None
                self._turn.notify_all()

    def _finish(self, done: WhatIfRun) -> None:
        try:
            self._kept.write(done)
            self._all[done.id] = done
            over = [one for one in self._all.values() if one.state not in ("queued", "running")]
            over.sort(key=lambda one: (one.ended_ns or 0, one.id))
            for one in over[: max(len(over) - self._settings.kept, 0)]:
                self._kept.remove(one.id)
                del self._all[one.id]
        except FairleadError as fault:
            log.warning("what if %s: %s", done.id, fault)
            self._all[done.id] = self._over(done, "failed", error="it cannot be stored", remedy="see the server's log")

    def _run(self, run: WhatIfRun) -> WhatIfRun:
        """Runs it to its end, whatever that is."""
        task = Task(
            root=str(self._place.root),
            memory=self._place.memory,
            site=self._place.site,
            asked=run.asked,
            from_ns=run.from_ns,
            to_ns=run.to_ns,
            answer=str(self._kept.answer_file(run.id)),
            parent=os.getpid(),
        )
        process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            assert process.stdin is not None  # noqa: S101  (asked for above)
            with process.stdin as pipe:
                pipe.write(msgspec.json.encode(task))
            said, why = self._listen(run, process)
        except BrokenPipeError:
            said, why = None, None
        finally:
            process.kill()
            code = process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._dropped:
            return self._over(run, "cancelled")
        if why is not None:
            return self._over(run, "failed", error=why[0], remedy=why[1])
        if said is None or (said.error is None and self._kept.answer(run.id) is None):
            log.error("what if %s: its process ended with %d without output", run.id, code)
            return self._over(run, "failed", error="its process ended by a bug", remedy="see the server's log")
        if said.error is not None:
            return self._over(run, "failed", error=said.error, remedy=said.remedy)
        return self._over(run, "done", headline=said.headline, jobs=said.jobs)

    def _listen(
        self, run: WhatIfRun, process: subprocess.Popen[bytes]
    ) -> tuple[WorkerLine | None, tuple[str, str] | None]:
        """The last word of the process, and why it was ended, where it was."""
        assert process.stdout is not None  # noqa: S101  (asked for in `_run`)
        until_s = clock.monotonic_s() + self._settings.time_s
        held, last = b"", None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if selector.select(_LOOK_S):
                    data = os.read(process.stdout.fileno(), 65536)
                    if not data:
                        return last, None
                    *lines, held = (held + data)[-_LONGEST_LINE:].split(b"\n")
                    for line in lines:
                        last = self._heard(run.id, line) or last
                if self._closing or self._dropped:
                    return None, None
                if clock.monotonic_s() > until_s:
                    return None, (f"it took longer than {self._settings.time_s:g} s (whatif.time_s)", "ask about less")
                if _resident_bytes(process.pid) > self._settings.memory_bytes:
                    most = f"{self._settings.memory_bytes / (1 << 20):,.0f} MiB"
                    return None, (f"it needed more than {most} of memory (whatif.memory_bytes)", "ask about less time")

    def _heard(self, name: str, line: bytes) -> WorkerLine | None:
        """One line of the process: how far it is, or (returned) its last word."""
        try:
            said = msgspec.json.decode(line, type=WorkerLine)
        except msgspec.DecodeError:
            return None
        if said.progress is None:
            return said
        with self._turn:
            self._all[name] = replace(self._all[name], progress=said.progress)
        return None


def build_whatif_queue(config: Config) -> Runs | None:
    """The runs of a server with these (resolved) settings, not begun yet; None where there are to be none. Raises
    LakeError."""
    if not config.whatif.on:
        return None
    server = config.server
    place = Place(root=Path(server.lake), site=server.site, memory=server.memory)
    return Runs(Path(server.state) / "whatif", place, config.whatif)


def _resident_bytes(process: int) -> int:
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):  # it has just ended
        return 0
