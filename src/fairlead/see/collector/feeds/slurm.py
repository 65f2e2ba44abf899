"""One cluster's jobs: hooks tell at once, `squeue` what runs, `sacct` what ended; a job is told when it changed.

Not here: the forms of Slurm's output (`sources.slurm`), which rows are news (`job_changes`).
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from fairlead.core import clock
from fairlead.core.errors import InputError, LakeError, MissingDependencyError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import JOBS, find_table_spec
from fairlead.see.collector.feed import Sink
from fairlead.see.collector.feeds.batch_numbering import Telling
from fairlead.see.collector.feeds.commands import run_feed_command
from fairlead.see.collector.feeds.file_arrivals import Arrivals
from fairlead.see.collector.feeds.job_changes import JobChanges
from fairlead.see.collector.feeds.settings import Slurm
from fairlead.see.sources.slurm import SlurmSource
from fairlead.see.sources.slurm.hooks import Call, HookJob, build_hook_jobs, group_hook_calls, parse_hook_call

COLUMNS = (
    "JobID",
    "JobIDRaw",
    "Cluster",
    "JobName",
    "User",
    "Account",
    "Partition",
    "Submit",
    "Start",
    "End",
    "State",
    "AllocNodes",
    "AllocCPUS",
    "NTasks",
    "NodeList",
)
_SOONEST_S = 1.0
"""Between two questions to Slurm that hooks gave rise to."""
_MOST_HOOKS = 10_000
"""Hook files read at one look."""
_LONGEST_HOOK = 1 << 16
_STEP_S = 0.5
_TRIES = 6
"""How often accounting is asked early for the end of a job, each time after twice the pause (1 s at first)."""
_DAMAGE = ("truncated", "unreadable_lines", "unreadable_records")


class SlurmFeed:
    """A `Feed`. Times are asked for as epoch seconds, so no time zone matters."""

    def __init__(self, settings: Slurm, state: str = "") -> None:
        self.settings = settings
        self.name = f"slurm:{settings.cluster}" if settings.cluster else "slurm"
        self._changes = JobChanges(settings.cluster)
        self._memory = Path(state) / f"{self.name.replace('/', '_').replace(':', '-')}.json" if state else None
        self._telling = Telling(self.name, clock.now_ns())
        self._asked_ns = self._recalled()
        self._due_squeue = self._due_sacct = 0.0
        self._asked_squeue = self._asked_sacct = -_SOONEST_S
        self._hooked = 0.0
        """When hooks told something last."""
        self._ending: dict[tuple[str | None, str], int] = {}
        """Runs that have ended, of which accounting did not say so yet: how often it is still asked early."""
        self._waiting: dict[tuple[str | None, str], HookJob] = {}
        """Jobs a hook told of that Slurm has not yet."""
        self._spent: list[Path] = []
        self._stuck: set[Path] = set()
        """Hook files that were told but cannot be removed."""
        self._faults: dict[str, tuple[str, str]] = {}

    def run(self, sink: Sink, stop: threading.Event) -> None:
        """Asks and tells until `stop`."""
        hooks = Path(self.settings.hooks) if self.settings.hooks else None
        if hooks is not None:
            with suppress(OSError):  # said when it is read
                hooks.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fairlead-slurm-") as folder:
            if hooks is None:
                while not stop.is_set():
                    self.look(sink, stop, Path(folder))
                    stop.wait(_STEP_S)
                return
            with Arrivals(str(hooks)) as arrivals:
                while not stop.is_set():
                    self.look(sink, stop, Path(folder))
                    arrivals.wait(_STEP_S, stop)

    def look(self, sink: Sink, stop: threading.Event, folder: Path) -> None:
        """Reads hooks, asks what is due, tells what changed; LakeError is health and tried again."""
        try:
            self._telling.settle(sink)
            self._read_hooks()
            if self.settings.squeue and clock.monotonic_s() >= self._due_squeue:
                self._asked_squeue = clock.monotonic_s()
                self._due_squeue = self._asked_squeue + self.settings.squeue_s
                self._ask_squeue(sink, stop, folder)
            if self.settings.sacct and clock.monotonic_s() >= self._due_sacct:
                self._asked_sacct = clock.monotonic_s()
                self._due_sacct = self._asked_sacct + self.settings.sacct_s
                self._ask_sacct(sink, stop, folder)
            self._tell_waiting(sink)
        except LakeError as fault:
            sink.report_health(self.name, "failing", f"the lake accepts nothing: {fault.what}")
            stop.wait(_SOONEST_S)
            return
        except InputError as fault:
            sink.report_health(self.name, "failing", fault.what)
            return
        if stop.is_set():
            return
        state, text = next(iter(self._faults.values()), ("ok", f"{self._changes.running_count} jobs run"))
        sink.report_health(self.name, state, text)

    def _soon(self, asked: float) -> float:
        """When Slurm may be asked again: hooks of many jobs give rise to one question a second."""
        return max(clock.monotonic_s(), asked + _SOONEST_S)

    def _ask_squeue(self, sink: Sink, stop: threading.Event, folder: Path) -> None:
        before = self._changes.list_runs()
        running: set[tuple[str | None, str]] = set()
        command = [*self.settings.squeue, "--json", *(["--all"] if self.settings.all_users else [])]
        for rows in self._answer("squeue", command, folder, stop):
            for cluster, job_id, end in zip(
                *(rows[n].to_pylist() for n in ("cluster", "job_id", "end_ns")), strict=True
            ):
                if end is None:
                    running.add((self.settings.cluster or cluster, job_id))
            self._tell(sink, rows)
        if "squeue" not in self._faults:
            self._look_for_ends(before - running)

    def _ask_sacct(self, sink: Sink, stop: threading.Event, folder: Path) -> None:
        now_ns = clock.now_ns()
        back_s = self.settings.back_s
        if self._asked_ns is not None:
            back_s = max((now_ns - self._asked_ns) / 1e9, 0) + self.settings.overlap_s
        command = [
            *self.settings.sacct,
            "--parsable2",
            "--duplicates",
            f"--format={','.join(COLUMNS)}",
            f"--starttime=now-{int(back_s) + 1}",
            *(["--allusers"] if self.settings.all_users else []),
        ]
        for rows in self._answer("sacct", command, folder, stop):
            self._tell(sink, rows)
        if "sacct" not in self._faults:
            self._asked_ns = now_ns
            self._remember()
        self._ending = {
            key: left - 1 for key, left in self._ending.items() if left and key in self._changes.list_runs()
        }
        if self._ending:
            pause = 2.0 ** (_TRIES - max(self._ending.values()))
            self._due_sacct = min(self._due_sacct, clock.monotonic_s() + pause)

    def _look_for_ends(self, keys: set[tuple[str | None, str]]) -> None:
        """These jobs have ended: accounting knows how, now or a little later."""
        new = {key: _TRIES for key in keys if key not in self._ending}
        self._ending |= new
        if new:
            self._due_sacct = min(self._due_sacct, self._soon(self._asked_sacct))

    def _answer(self, what: str, command: list[str], folder: Path, stop: threading.Event) -> list[pa.RecordBatch]:
        """Rows of `jobs` in a command's answer; a fault is kept as the feed's health."""
        try:
            path = run_feed_command(
                command, folder, stop, timeout_s=self.settings.timeout_s, environment={"SLURM_TIME_FORMAT": "%s"}
            )
        except (InputError, MissingDependencyError) as fault:
            state = "missing" if isinstance(fault, MissingDependencyError) else "failing"
            self._faults[what] = (state, f"{what}: {fault.what}")
            return []
        self._faults.pop(what, None)
        try:
            if path.stat().st_size == 0:
                return []
            items = list(SlurmSource(time_zone="UTC").read(path))
        except InputError as fault:
            self._faults[what] = ("failing", f"{what}: {fault.what}")
            return []
        finally:
            path.unlink(missing_ok=True)
        damage = [item for item in items if isinstance(item, Missing) and item.kind in _DAMAGE]
        if damage:
            self._faults[what] = ("failing", f"{what}: {damage[0]}")
        return [item for item in items if isinstance(item, pa.RecordBatch) and find_table_spec(item.schema) is JOBS]

    def _tell(self, sink: Sink, rows: pa.RecordBatch) -> None:
        """Stores what is news."""
        news = self._changes.select_changed(rows)
        if news.num_rows:
            self._telling.send(sink, [news])
            sink.report_health(self.name, "ok", rows=news.num_rows)

    def _read_hooks(self) -> None:
        """Takes in what hooks wrote. A beginning makes `squeue` due, an end `sacct`."""
        if not self.settings.hooks:
            return
        calls: list[Call] = []
        strange = unread = 0
        try:
            names = sorted(p for p in Path(self.settings.hooks).glob("[!.]*.hook") if p not in self._stuck)
        except OSError as fault:
            self._faults["hooks"] = ("missing", f"hooks: {fault.strerror}")
            return
        for path in names[:_MOST_HOOKS]:
            try:
                with path.open("rb") as file:
                    text = file.read(_LONGEST_HOOK).decode("utf-8", "replace")
            except FileNotFoundError:
                continue
            except OSError:
                unread += 1
                continue
            found = [parse_hook_call(line) for line in text.splitlines()]
            strange += found.count(None)
            calls += [call for call in found if call is not None]
            if path not in self._spent:
                self._spent.append(path)
        if not self._stuck:
            self._faults.pop("hooks", None)
        if strange or unread:
            text = f"{unread} files cannot be read" if unread else f"{strange} lines are not from a fairlead hook"
            self._faults["hooks"] = ("failing", f"hooks: {text}")
        new = {(self.settings.cluster or job.cluster, job.job_id): job for job in group_hook_calls(calls)}
        if {key for key, job in new.items() if job.end_ns is None} - self._waiting.keys():
            self._hooked = clock.monotonic_s()
            self._due_squeue = min(self._due_squeue, self._soon(self._asked_squeue))
        self._waiting = new
        self._look_for_ends({key for key, job in new.items() if job.end_ns is not None})

    def _tell_waiting(self, sink: Sink) -> None:
        """Jobs that only hooks told of: Slurm was asked and does not know them, or is not asked at all."""
        if not self._spent or (self.settings.squeue and self._asked_squeue < self._hooked):
            return
        told = []
        for (cluster, job_id), job in self._waiting.items():
            begins = job.end_ns is None and not self._changes.is_running(cluster, job_id)
            ends = job.end_ns is not None and not self.settings.sacct
            if job.start_ns is not None and (begins or ends):
                told.append(job)
                if not job.exact:
                    self._changes.guess(job.cluster, job_id, job.start_ns)
        if told:
            self._tell(sink, build_hook_jobs(told))
        self._waiting.clear()
        for path in self._spent:
            try:
                path.unlink(missing_ok=True)
            except OSError as fault:
                self._faults["hooks"] = ("failing", f"hooks: {path.name} cannot be removed: {fault.strerror}")
                self._stuck.add(path)
        self._spent.clear()

    def _recalled(self) -> int | None:
        """When accounting was last asked, from before a restart."""
        if self._memory is None:
            return None
        try:
            asked: int = msgspec.json.decode(self._memory.read_bytes(), type=dict[str, int])["asked_ns"]
        except (OSError, msgspec.MsgspecError, KeyError):
            return None
        return asked

    def _remember(self) -> None:
        if self._memory is None:
            return
        beside = self._memory.with_suffix(".tmp")
        try:
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(msgspec.json.encode({"asked_ns": self._asked_ns}))
            beside.replace(self._memory)
        except OSError as fault:
            self._faults["state"] = ("failing", f"its state cannot be saved: {fault.strerror}")
