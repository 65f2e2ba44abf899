"""The drop folder: a file that appears there is read, whatever format of fairlead's sources it is, and put away.

Not here: how it is read (`file_import`). A file is first in the lake and then put away: killed in between, the next run
finds it known.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from fairlead.core import clock
from fairlead.core.errors import ConfigError, FairleadError, InputError, LakeError
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.collector.feed import Sink
from fairlead.see.collector.feeds.file_arrivals import Arrivals
from fairlead.see.collector.feeds.file_import import CollectorStop, ImportedFile, import_file
from fairlead.see.collector.feeds.settings import Drop
from fairlead.see.sources.inputs import detect_input_source, set_source_time_zone

TAKEN, REFUSED, WHY = "taken", "refused", ".why"
_UNFINISHED = (".part", ".tmp", ".partial", ".filepart", WHY)


class DropFeed:
    """A `Feed`. Names that begin with a dot or end as unfinished ones do are left alone; so are links."""

    def __init__(self, settings: Drop) -> None:
        self.settings = settings
        self.name = f"drop:{settings.folder}"
        self._folder = Path(settings.folder)
        self._told: set[str] = set()
        """Names the kernel said to be whole."""
        self._failing: dict[str, str] = {}

    def run(self, sink: Sink, stop: threading.Event) -> None:
        """Takes what arrives until `stop`. Raises ConfigError when the folder cannot be made."""
        try:
            for folder in (self._folder / REFUSED, *((self._folder / TAKEN,) if self.settings.after == "keep" else ())):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise ConfigError(
                f"the drop folder cannot be used: {fault.strerror}",
                where=self.settings.folder,
                remedy="create it, writable by the collector's user",
            ) from fault
        with Arrivals(self.settings.folder) as arrivals:
            while not stop.is_set():
                self.look(sink, stop)
                self._told |= arrivals.wait(self.settings.period_s, stop)

    def look(self, sink: Sink, stop: threading.Event) -> None:
        """Takes every file that is whole now, the oldest first."""
        taken = rows = 0
        self._failing.clear()
        for path in self._whole():
            if stop.is_set():
                return
            try:
                found = self._take(sink, path, stop)
            except CollectorStop:
                return
            except LakeError as fault:
                sink.report_health(self.name, "failing", f"the lake accepts nothing: {fault.what}")
                return
            if found is not None:
                taken += 1
                rows += found.rows
        state = "failing" if self._failing else "ok"
        sink.report_health(self.name, state, next(iter(self._failing.values()), f"{taken} files ingested"), rows=rows)

    def _whole(self) -> list[Path]:
        """Files that nobody writes any more: told so by the kernel, or unchanged for a while."""
        now_ns = clock.now_ns()
        found: list[tuple[int, str]] = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED):
                        continue
                    with suppress(OSError):
                        if entry.is_file(follow_symlinks=False):
                            changed_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                            rested = abs(now_ns - changed_ns) >= self.settings.settle_s * NS_PER_S
                            if rested or entry.name in self._told:
                                found.append((changed_ns, entry.name))
        except OSError as fault:
            self._failing["."] = f"the folder cannot be listed: {fault.strerror}"
        self._told &= {name for _, name in found}
        return [self._folder / name for _, name in sorted(found)]

    def _take(self, sink: Sink, path: Path, stop: threading.Event) -> ImportedFile | None:
        """Reads one file and puts it away; None when it could not be taken."""
        try:
            source = set_source_time_zone(detect_input_source(path), self.settings.time_zone)
            found = import_file(sink, source, path, stop)
        except InputError as fault:
            if isinstance(fault.__cause__, OSError) or "changed while" in fault.what:
                # Perhaps only for now: it stays.
                self._failing[path.name] = f"{path.name}: {fault.what}"
            else:
                self._refuse(sink, path, fault)
            return None
        self._put_away(path)
        return found

    def _put_away(self, path: Path) -> None:
        self._told.discard(path.name)
        try:
            if self.settings.after == "delete":
                path.unlink()
            else:
                _must_be_own(self._folder / TAKEN)
                path.replace(_free(self._folder / TAKEN / path.name))
        except OSError as fault:
            self._failing[path.name] = f"{path.name} is ingested but cannot be moved away: {fault.strerror}"

    def _refuse(self, sink: Sink, path: Path, fault: FairleadError) -> None:
        self._told.discard(path.name)
        target = _free(self._folder / REFUSED / path.name)
        try:
            _must_be_own(target.parent)
            target.with_name(target.name + WHY).write_text(f"{fault}\n", encoding="utf-8")
            path.replace(target)
            self._forget_refused()
        except OSError as error:
            self._failing[path.name] = f"{path.name} cannot be read or moved: {error.strerror}"
            return
        sink.record_event(f"input:{path.name}", "refused", fault.what)

    def _forget_refused(self) -> None:
        """Removes the oldest refused files beyond the cap."""
        files = [path for path in (self._folder / REFUSED).iterdir() if path.suffix != WHY and path.is_file()]
        if len(files) <= self.settings.kept_refused:
            return
        files.sort(key=lambda path: path.stat().st_mtime_ns)
        for path in files[: len(files) - self.settings.kept_refused]:
            path.unlink(missing_ok=True)
            path.with_name(path.name + WHY).unlink(missing_ok=True)


def _must_be_own(folder: Path) -> None:
    """Who may write in the drop folder may have put a link in the place of ours. Raises OSError."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, f"{folder.name}/ is not the collector's own directory")


def _free(path: Path) -> Path:
    """The path, or one beside it that no file has."""
    number = 0
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free
