"""Canaries: a tiny timed read and write on a target, a create, stat and unlink at a metadata server. Off by default.

Rows of `target` and `metadata` with the source `canary`; their `interval_ns` is the time the try took, and no sum of
ordinary load counts them. One look tries one folder, in turn, so that there is never more than one try at a time and a
site's targets see a request a minute between them. A folder that hangs is left alone until its try comes back.
"""

import mmap
import os
import re
import stat
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Event, Probe, ProbeResult, Reading

SOURCE = "canary"
MARKER = ".fairlead-canary"
"""A file of this name says that a folder is for canaries; without it nothing is written there."""
SMALLEST, LARGEST = 4 << 10, 16 << 20
"""Bytes of a try, at least and at most."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
_TARGET_KEYS = ("target", "source", "client")
_METADATA_KEYS = ("op", "target", "source", "client")
_NOBODY: Tuple[Tuple[str, Optional[str]], ...] = (("server", None),)
"""The node that tries is the client, not the server."""


class Place(NamedTuple):
    """A folder and what lies behind it: a storage target or a metadata server."""

    name: str
    folder: str
    metadata: bool


class Try(NamedTuple):
    """What one try took: nanoseconds by kind of operation (write, read; create, getattr, unlink)."""

    place: Place
    took_ns: Dict[str, int]


class _Running:
    """A try in its thread."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.done = threading.Event()
        self.took: Optional[Try] = None
        self.fault: Optional[BaseException] = None


def parse_canary_places(targets: Sequence[str], mds: Sequence[str]) -> List[Place]:
    """Words `NAME=FOLDER` as places. Raises ValueError."""
    found = []
    for words, metadata in ((targets, False), (mds, True)):
        for word in words:
            name, equals, folder = word.partition("=")
            if not name or not equals or not folder.startswith("/") or ".." in folder.split("/"):
                raise ValueError("give NAME=/FOLDER, not {!r}".format(word))
            found.append(Place(name, folder, metadata))
    if len({(place.name, place.metadata) for place in found}) < len(found):
        raise ValueError("a name is given twice")
    return found


def parse_canary_size(text: str) -> int:
    """`64K`, `1M` as bytes, a whole number of pages. Raises ValueError."""
    unit = text[-1:].upper() if text[-1:].isalpha() else ""
    if unit not in _UNITS:
        raise ValueError("give a size such as 64K or 1M")
    size = int(text[: len(text) - len(unit)]) * _UNITS[unit]
    if not SMALLEST <= size <= LARGEST or size % SMALLEST:
        raise ValueError("give a multiple of 4K from 4K to 16M")
    return size


def open_canary_folder(path: str) -> int:
    """A descriptor of a folder that is the canary's own: no link, of this user, writable by nobody else, with the
    marker in it. Raises OSError, which says what is wrong."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        wrong = _wrong(folder, path)
    except BaseException:
        os.close(folder)
        raise
    if wrong:
        os.close(folder)
        raise PermissionError(wrong)
    return folder


def _wrong(folder: int, path: str) -> str:
    """Why nothing may be written to a folder; empty when it may."""
    state = os.fstat(folder)
    if state.st_uid != os.geteuid() or state.st_mode & 0o022:
        return "{}: not owned by the agent: chown it, chmod 700".format(path)
    try:
        marker = os.stat(MARKER, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return "{0}: not a directory for canaries: touch {0}/{1}".format(path, MARKER)
    if not stat.S_ISREG(marker.st_mode) or marker.st_uid != os.geteuid():
        return "{}/{}: not owned by the agent".format(path, MARKER)
    return ""


def clear_canary_leftover(folder: int, name: str) -> None:
    """Removes what a try that was killed left behind. Raises PermissionError for anything that is not its own file."""
    try:
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_nlink != 1:
        raise PermissionError("{}: something else has the canary's name".format(name))
    os.unlink(name, dir_fd=folder)


def _create(folder: int, name: str, flags: int) -> int:
    flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=folder)


def _time_data(folder: int, name: str, data: mmap.mmap) -> Dict[str, int]:
    """Writes and reads a new file of this name, and removes it. Past the page cache where the file system lets one;
    else what is written is timed until it is stable, and reading, which would be of memory, is not. Raises OSError."""
    direct = getattr(os, "O_DIRECT", 0)
    try:
        file = _create(folder, name, os.O_RDWR | direct)
    except OSError:
        # Some file systems make the file before they refuse O_DIRECT.
        clear_canary_leftover(folder, name)
        direct = 0
        file = _create(folder, name, os.O_RDWR)
    took: Dict[str, int] = {}
    try:
        try:
            took["write"] = _written(file, data, stable=not direct)
        except OSError:
            if not direct:
                raise
            os.close(file)
            file, direct = -1, 0
            clear_canary_leftover(folder, name)
            file = _create(folder, name, os.O_RDWR)
            took["write"] = _written(file, data, stable=True)
        if direct:
            took["read"] = _read_back(file, len(data))
    finally:
        if file >= 0:
            os.close(file)
        clear_canary_leftover(folder, name)
    return took


def _written(file: int, data: mmap.mmap, *, stable: bool) -> int:
    began = time.perf_counter()
    if os.write(file, data) != len(data):
        raise OSError("the canary was written in part")
    if stable:
        os.fsync(file)
    return _since(began)


def _read_back(file: int, size: int) -> int:
    os.lseek(file, 0, os.SEEK_SET)
    with mmap.mmap(-1, size) as room, open(file, "rb", buffering=0, closefd=False) as raw:
        began = time.perf_counter()
        many = raw.readinto(room)
        took = _since(began)
    if many != size:
        raise OSError("the canary was read in part")
    return took


def _time_metadata(folder: int, name: str) -> Dict[str, int]:
    """Creates, looks at and removes a new empty file. Raises OSError."""
    took: Dict[str, int] = {}
    began = time.perf_counter()
    os.close(_create(folder, name, os.O_WRONLY))
    took["create"] = _since(began)
    try:
        began = time.perf_counter()
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        took["getattr"] = _since(began)
        began = time.perf_counter()
        os.unlink(name, dir_fd=folder)
        took["unlink"] = _since(began)
    finally:
        clear_canary_leftover(folder, name)
    return took


def _since(began: float) -> int:
    return max(int((time.perf_counter() - began) * 1e9), 1)


class Canary(Probe):
    """`target` and `metadata` rows of tries. Options: `targets`, `mds` (words NAME=/FOLDER), `bytes` (1M)."""

    name = "canary"
    period_s = 60.0
    timeout_s = 20.0

    def __init__(
        self,
        root: str = "/",
        node: str = "",
        targets: Sequence[str] = (),
        mds: Sequence[str] = (),
        bytes: str = "1M",  # noqa: A002
    ) -> None:
        super().__init__(root, node)
        self.size = parse_canary_size(bytes)
        self.places = parse_canary_places(targets, mds)
        self._data: Optional[mmap.mmap] = None
        self._next = 0
        self._hung: Dict[Place, _Running] = {}
        self._file = "canary-" + re.sub(r"[^A-Za-z0-9._-]", "_", node or "node")[:100]

    def read(self, now_ns: int) -> ProbeResult:
        """One try, of the next folder that does not hang. Raises AbsentError where none is given, OSError."""
        if not self.places:
            raise AbsentError("no folder for canaries: [probe canary] targets = NAME=/FOLDER")
        events = self._came_back(now_ns)
        place = self._turn()
        if place is None:
            return ProbeResult([], events)
        running = _Running(place)
        threading.Thread(target=self._work, args=(running,), name="canary", daemon=True).start()
        # Shorter than the probe's own time, so that one folder that hangs does not make the others late.
        if not running.done.wait(self.timeout_s / 2):
            self._hung[place] = running
            text = "no response within {:g} s from {}".format(self.timeout_s / 2, place.folder)
            return ProbeResult([], [*events, Event(now_ns, place.name, "canary_hung", text)])
        if running.fault is not None:
            raise OSError("{}: {}".format(place.name, running.fault))
        return ProbeResult(self._readings(running.took), events)

    def _turn(self) -> Optional[Place]:
        for _ in self.places:
            place = self.places[self._next % len(self.places)]
            self._next += 1
            if place not in self._hung:
                return place
        return None

    def _came_back(self, now_ns: int) -> List[Event]:
        events = []
        for place, running in list(self._hung.items()):
            if running.done.is_set():
                del self._hung[place]
                events.append(Event(now_ns, place.name, "canary_back", "{} responds again".format(place.folder)))
        return events

    def _work(self, running: _Running) -> None:
        try:
            running.took = Try(running.place, self._tried(running.place))
        except Exception as fault:  # noqa: BLE001  (told by the thread that waits)
            running.fault = fault
        running.done.set()

    def _tried(self, place: Place) -> Dict[str, int]:
        folder = open_canary_folder(os.path.join(self.root, place.folder.lstrip("/")))
        try:
            clear_canary_leftover(folder, self._file)
            if place.metadata:
                return _time_metadata(folder, self._file)
            if self._data is None:
                # Nothing that a server could compress, at a page's border as O_DIRECT wants it.
                self._data = mmap.mmap(-1, self.size)
                self._data.write(os.urandom(self.size))
            return _time_data(folder, self._file, self._data)
        finally:
            os.close(folder)

    def _readings(self, took: Optional[Try]) -> List[Reading]:
        if took is None:
            return []
        who = took.place.name
        if took.place.metadata:
            rows: Dict[Any, Sequence[Any]] = {(op, who, SOURCE, self.node): [1, ns] for op, ns in took.took_ns.items()}
            return [Reading("metadata", _METADATA_KEYS, (), ("count", "interval_ns"), rows, constant=_NOBODY)]
        return [
            Reading(
                "target",
                _TARGET_KEYS,
                (),
                (way + "_rpcs", way + "_bytes", "interval_ns"),
                {(who, SOURCE, self.node): [1, self.size, ns]},
                constant=_NOBODY,
            )
            for way, ns in sorted(took.took_ns.items())
        ]
