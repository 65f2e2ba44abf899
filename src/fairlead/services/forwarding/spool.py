"""A folder where batches of records wait to be taken in: files appear whole or not at all, the oldest go when it fills.

Any number of writers share a spool, each with a `Spool` of its own. Standard library only. The format is `batches`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fairlead.batches.encoding import Header, encode, numbers, words
from fairlead.clock import now_ns
from fairlead.errors import ForwardingError

ENDING = ".batch"
MAX_BYTES = 1 << 30
"""Room a spool takes when nothing else is said."""
_STALE_NS = 3600 * 10**9
_LOOK_EVERY = 32
"""Files between two looks at how much the folder holds."""
EVENTS_VERSION = 1


class Spool:
    """One writer's way into a spool. Not shared between threads."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        node: str,
        writer: str,
        layer: str = "client",
        max_bytes: int = MAX_BYTES,
        sync: bool = False,
        clock: Callable[[], int] = now_ns,
    ) -> None:
        """Makes the folder if need be. `writer` says who writes (`mount:/scratch`, `forwarder:fwd0`); `sync` waits for
        the disk before a file appears. Raises ForwardingError when nothing can be written there."""
        self.folder = Path(folder)
        self.node = node
        self.writer = writer
        self.layer = layer
        self.boot_id = os.urandom(16).hex()
        """Names this run of this writer; with `seq` it names a batch for ever."""
        self.seq = 0
        self._max_bytes = max_bytes
        self._sync = sync
        self._clock = clock
        self._looked_at = 0
        self._held_bytes = 0
        self._dropped_files = 0
        self._dropped_bytes = 0
        self._lost = 0
        self._lost_why = ""
        place = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{node}-{writer}")[:80]
        self._name = f"{place}-{self.boot_id[:12]}"
        try:
            _make(self.folder)
            self._tidy()
            probe = self.folder / f".{self._name}.tmp"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as fault:
            raise ForwardingError(
                f"records cannot be written: {(fault.strerror or str(fault)).lower()}", where=str(self.folder),
                remedy="give --spool a folder that may be written, or leave it out to record nothing",
            ) from fault  # fmt: skip

    def header(
        self,
        table: str,
        version: int,
        rows: int,
        *,
        first_ns: int | None = None,
        last_ns: int | None = None,
        job: dict[str, object] | None = None,
    ) -> Header:
        """The header of the next batch of this writer."""
        self.seq += 1
        return Header(
            table=table, version=version, node=self.node, boot_id=self.boot_id, seq=self.seq, rows=rows,
            layer=self.layer, writer=self.writer, first_ns=first_ns, last_ns=last_ns, job=job,
        )  # fmt: skip

    def write(self, batches: Sequence[bytes]) -> Path | None:
        """One file of these batches. None when it could not be written: that is counted, and told by an event in the
        next file that can be; recording never stops what is recorded."""
        told = self._events()
        data = b"".join([*batches, *told])
        if not data:
            return None
        draft = self.folder / f".{self._name}.tmp"
        final = self.folder / f"{self._clock():020d}-{self._name}-{self.seq:08d}{ENDING}"
        try:
            self._make_room(len(data))
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                if self._sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            draft.rename(final)
            if self._sync:
                self._sync_folder()
        except OSError as fault:
            self._lost += len(batches)
            self._lost_why = fault.strerror or str(fault)
            with suppress(OSError):
                draft.unlink()
            return None
        if told:
            self._dropped_files = self._dropped_bytes = self._lost = 0
        self._held_bytes += len(data)
        return final

    def _sync_folder(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _make_room(self, size: int) -> None:
        """Removes the oldest files, whoever wrote them, until `size` more bytes fit."""
        self._looked_at -= 1
        if self._looked_at > 0 and self._held_bytes + size <= self._max_bytes:
            return
        self._looked_at = _LOOK_EVERY
        held: list[tuple[str, int]] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(ENDING) and entry.name[0] != ".":
                    with suppress(OSError):  # taken in or dropped by another writer
                        held.append((entry.name, entry.stat(follow_symlinks=False).st_size))
        self._held_bytes = sum(one for _, one in held)
        for name, one in sorted(held):
            if self._held_bytes + size <= self._max_bytes:
                break
            self._held_bytes -= one
            with suppress(FileNotFoundError):
                (self.folder / name).unlink()
                self._dropped_files += 1
                self._dropped_bytes += one

    def _events(self) -> list[bytes]:
        """What was lost since the last file, as a batch of `events`."""
        told = []
        if self._dropped_files:
            text = (
                f"the spool was full: its {self._dropped_files} oldest files ({self._dropped_bytes} bytes) were removed"
            )
            told.append(("spool_full", text))
        if self._lost:
            told.append(("records_lost", f"{self._lost} batches could not be written: {self._lost_why}"))
        return [self.events(told)] if told else []

    def events(self, told: Sequence[tuple[str, str]]) -> bytes:
        """A batch of `events` about this writer, now: (kind, text)."""
        now = self._clock()
        count = len(told)
        return encode(self.header("events", EVENTS_VERSION, count, first_ns=now, last_ns=now), {
            "ts_ns": numbers([now] * count), "component": words([f"{self.writer}@{self.node}"] * count),
            "kind": words([kind for kind, _ in told]), "text": words([text for _, text in told]),
        })  # fmt: skip

    def _tidy(self) -> None:
        """Removes drafts that writers killed long ago left behind."""
        now = self._clock()
        with os.scandir(self.folder) as entries:
            old = [e.name for e in entries if e.name[0] == "." and e.name.endswith(".tmp")]
        for name in old:
            with suppress(OSError):
                if now - (self.folder / name).stat().st_mtime_ns > _STALE_NS:
                    (self.folder / name).unlink()


def _make(folder: Path) -> None:
    """The folder and what is above it, for others to read at most: a forwarder's own umask is 0 while it serves."""
    for parent in reversed((folder, *folder.parents)):
        if not parent.is_dir():
            parent.mkdir(mode=0o755, exist_ok=True)
