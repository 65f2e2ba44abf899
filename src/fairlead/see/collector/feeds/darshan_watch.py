"""Watches a tree of Darshan logs that jobs write as they end: each is read once, by its content; nothing is changed.

Not here: how a log is read (`file_import`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from fairlead.core import clock
from fairlead.core.errors import InputError
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.collector.feed import Sink
from fairlead.see.collector.feeds.file_import import CollectorStop, import_file
from fairlead.see.collector.feeds.settings import DarshanWatch
from fairlead.see.sources.inputs import read_input_head
from fairlead.see.sources.registered_sources import load_registered_source

_MOST_REMEMBERED = 1 << 20
"""Logs that are known without looking into them, at most; of others the lake is asked."""
_DAY_NS = 86_400 * NS_PER_S


class DarshanFeed:
    """A `Feed`. Logs still being written (`.darshan_partial`, or changed a moment ago) are waited for."""

    def __init__(self, settings: DarshanWatch) -> None:
        self.settings = settings
        self.name = f"darshan:{settings.folder}"
        self._done: set[int] = set()
        """A key of name, size and time of each log that needs no second look."""
        self._closed: dict[str, int] = {}
        """Folders whose logs are all done, by the time they were last changed."""
        self._unreadable = 0
        self._last_fault = ""

    def run(self, sink: Sink, stop: threading.Event) -> None:
        """Takes what arrives until `stop`."""
        while not stop.is_set():
            more = self.look(sink, stop)
            if not more:
                stop.wait(self.settings.period_s)

    def look(self, sink: Sink, stop: threading.Event) -> bool:
        """Takes logs that are not in the lake yet, at most `at_once`; True when there are more."""
        if not os.path.isdir(self.settings.folder):  # noqa: PTH112
            sink.report_health(self.name, "missing", f"directory {self.settings.folder} does not exist")
            return False
        taken = rows = waiting = 0
        for path, key in self._new_logs(clock.now_ns()):
            if key is None:
                waiting += 1
                continue
            if taken >= self.settings.at_once:
                self._tell(sink, rows, waiting)
                return True
            try:
                rows += self._take(sink, path, key, stop)
            except CollectorStop:
                return False
            taken += 1
            if stop.is_set():
                return False
        self._tell(sink, rows, waiting)
        return False

    def _tell(self, sink: Sink, rows: int, waiting: int) -> None:
        text = f"{waiting} logs are still being written" if waiting else ""
        if self._unreadable:
            text = f"{self._unreadable} logs cannot be read; the latest: {self._last_fault}"
        sink.report_health(self.name, "ok", text, rows=rows)

    def _take(self, sink: Sink, path: Path, key: int, stop: threading.Event) -> int:
        """Rows of one log; LakeError is raised, so that the feed waits and comes back."""
        try:
            darshan = load_registered_source("darshan")
            if not darshan.accepts(read_input_head(path), path):
                raise InputError("not a Darshan log", where=str(path), remedy="move it away")  # noqa: TRY301
            found = import_file(sink, darshan, path, stop)
        except InputError as fault:
            if isinstance(fault.__cause__, OSError) or "changed while" in fault.what:
                return 0  # looked at again next time
            self._unreadable += 1
            self._last_fault = f"{path.name}: {fault.what}"
            self._remember(key)
            sink.record_event(f"input:{path.name}", "unreadable", fault.what)
            return 0
        self._remember(key)
        return found.rows

    def _remember(self, key: int) -> None:
        if len(self._done) >= _MOST_REMEMBERED:
            self._done.clear()
            self._closed.clear()
        self._done.add(key)

    def _new_logs(self, now_ns: int) -> Iterator[tuple[Path, int | None]]:
        """Logs that are not done, folders in the order of their names; without a key those still being written."""
        waiting = [self.settings.folder]
        while waiting:
            folder = waiting.pop()
            try:
                changed_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116
                if self._closed.get(folder) == changed_ns:
                    continue
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            inner = [entry.path for entry in listed if _is_folder(entry)]
            waiting += reversed(inner)
            pending = False
            for entry in listed:
                if not entry.name.endswith(".darshan"):
                    continue
                state = self._state(entry, now_ns)
                if state is not None:
                    pending = True
                    yield state
            if not pending and not inner and now_ns - changed_ns > 2 * _DAY_NS:
                self._closed[folder] = changed_ns

    def _state(self, entry: os.DirEntry[str], now_ns: int) -> tuple[Path, int | None] | None:
        """A log to take or to wait for; None when it is done, too old or gone."""
        try:
            found = entry.stat(follow_symlinks=False)
            regular = entry.is_file(follow_symlinks=False)
        except OSError:
            return None
        if not regular or (self.settings.days and now_ns - found.st_mtime_ns > self.settings.days * _DAY_NS):
            return None
        text = f"{entry.path}\0{found.st_ino}\0{found.st_size}\0{found.st_mtime_ns}"
        key = int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")
        if key in self._done:
            return None
        resting = abs(now_ns - found.st_mtime_ns) >= self.settings.settle_s * NS_PER_S
        return Path(entry.path), key if resting and found.st_size else None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
    except OSError:
        return False
