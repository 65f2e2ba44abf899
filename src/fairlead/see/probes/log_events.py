"""What a node's log says of storage: evictions, reconnections, RAID rebuilds, failing disks; and maintenance windows.

Rows of `events`. Which line means what is the table `MEANINGS`; a line that means nothing here is passed over.
"""

import os
import re
import time
from calendar import timegm
from typing import List, NamedTuple, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Event, Probe, ProbeResult
from fairlead.see.probes.commands import read_probe_command_output

LOGS = ("var/log/messages", "var/log/syslog", "var/log/kern.log")
"""The first that can be read is followed."""
MAINTENANCE = "etc/fairlead/maintenance"
"""Lines `FROM TO COMPONENT TEXT` (times as 2026-11-22T08:00, with an offset or Z; TO may be `-`). If the file may be
executed, it is run and what it prints is read."""
MAX_READ = 4 << 20
"""Bytes of a log read at once: more is left for the next look."""
MAX_EVENTS = 500
"""Events of one look; what is beyond is counted in one event `log_flood`."""


class Meaning(NamedTuple):
    """A pattern, the kind of event it is, and its component: a format of the pattern's groups and {node}."""

    kind: str
    pattern: "re.Pattern[str]"
    component: str


def _meaning(kind: str, pattern: str, component: str) -> Meaning:
    return Meaning(kind, re.compile(pattern), component)


_TARGET = r"(?P<target>[\w.]+-(?:OST|MDT)[0-9a-f]{4})"
MEANINGS: Tuple[Meaning, ...] = (
    _meaning("evicted", _TARGET + r"\S*: This client was evicted by", "{target}"),
    _meaning(
        "client_evicted",
        _TARGET + r": (?:evicting client at|haven't heard from client .* evicting|.*callback timer expired.* evict)",
        "{target}",
    ),
    _meaning("disconnected", r"Connection to " + _TARGET + r" \(at [^)]*\) was lost", "{target}"),
    _meaning("reconnected", _TARGET + r"\S*: Connection restored to", "{target}"),
    _meaning("client_reconnected", _TARGET + r": Client \S+ (?:\(at [^)]*\) )?reconnecting", "{target}"),
    _meaning("recovery_begun", _TARGET + r": (?:in recovery|Will be in recovery)", "{target}"),
    _meaning("recovery_ended", _TARGET + r": [Rr]ecovery over after", "{target}"),
    _meaning("slow_storage", _TARGET + r": slow (?:\w+ )+\d+s", "{target}"),
    _meaning("thread_hung", r"(?:Service thread|task) \S+ (?:was inactive for|blocked for more than) \d", "{node}"),
    _meaning("server_bug", r"LBUG|LustreError: .*ASSERTION", "{node}"),
    _meaning("raid_rebuild", r"md: (?:recovery|reshape|resync) of RAID array (?P<array>md\w+)", "{node}:{array}"),
    _meaning("raid_rebuilt", r"md: (?P<array>md\w+): (?:recovery|reshape|resync) done", "{node}:{array}"),
    _meaning("raid_check", r"md: (?:data-check|requested-resync) of RAID array (?P<array>md\w+)", "{node}:{array}"),
    _meaning("disk_failed", r"md/raid\S*: ?(?P<array>md\w+)?:? Disk failure on (?P<disk>\w+)", "{node}:{disk}"),
    _meaning(
        "disk_smart",
        r"smartd\S*: Device: /dev/(?P<disk>[\w/-]+).*(?:FAILED|pending|offline uncorrectable|prefail)",
        "{node}:{disk}",
    ),
    _meaning("disk_error", r"(?:blk_update_request: )?(?:critical \w+|I/O) error, dev (?P<disk>\w+)", "{node}:{disk}"),
    _meaning("disk_timeout", r"nvme (?P<disk>nvme\d+): I/O \d+ .*timeout", "{node}:{disk}"),
    _meaning("disk_timeout", r"(?P<disk>ata\d+(?:\.\d+)?): (?:failed command|hard resetting link)", "{node}:{disk}"),
    _meaning("fs_error", r"(?:EXT4|LDISKFS)-fs error \(device (?P<disk>[\w-]+)\)", "{node}:{disk}"),
    _meaning("fs_error", r"XFS \((?P<disk>[\w-]+)\): .*(?:error|orrupt|shut)", "{node}:{disk}"),
    _meaning("out_of_memory", r"Out of memory: Kill(?:ed)? process|oom-kill:", "{node}"),
    _meaning("brick_disconnected", r"disconnected from (?P<brick>[\w.-]+-client-\d+)", "{brick}"),
)
"""After the messages of Lustre, md, smartd, the block layer, ext4, XFS and GlusterFS."""
BEGIN_OF_END = {"raid_rebuilt": "raid_rebuild", "recovery_ended": "recovery_begun", "reconnected": "disconnected"}
"""Kinds that say that something of another kind, at the same component, has ended."""

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d\d:?\d\d)?(?=\s|\Z)"
)
_SYSLOG = re.compile(r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+(\d{1,2}) (\d\d):(\d\d):(\d\d) ")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_DAY_NS = 86400 * 10**9


def _parse_iso_time(text: str) -> Optional[int]:
    """Epoch ns of a time at the beginning of `text`; one without an offset is local. None when there is none."""
    found = _ISO.match(text)
    if found is None:
        return None
    year, month, day, hour, minute = (int(found.group(n)) for n in range(1, 6))
    second = int(found.group(6) or 0)
    fraction = int((found.group(7) or "0").ljust(9, "0"))
    offset = found.group(8)
    fields = (year, month, day, hour, minute, second, 0, 0, -1)
    try:
        whole = int(time.mktime(fields)) if offset is None else timegm(fields) - _offset_s(offset)
    except (ValueError, OverflowError):
        return None
    return whole * 10**9 + fraction


def _offset_s(text: str) -> int:
    if text == "Z":
        return 0
    seconds = int(text[1:3]) * 3600 + int(text[-2:]) * 60
    return -seconds if text[0] == "-" else seconds


def find_log_line_time(line: str, now_ns: int) -> int:
    """When a line of a log was written: its own time, `now_ns` when it has none or one that cannot be. A time without a
    year is of the last twelve months."""
    when = _parse_iso_time(line)
    if when is None:
        found = _SYSLOG.match(line)
        if found is None:
            return now_ns
        month = _MONTHS.index(found.group(1)) // 3 + 1
        day, hour, minute, second = (int(found.group(n)) for n in range(2, 6))
        year = time.localtime(now_ns // 10**9).tm_year
        try:
            when = int(time.mktime((year, month, day, hour, minute, second, 0, 0, -1))) * 10**9
            if when > now_ns + _DAY_NS:
                when = int(time.mktime((year - 1, month, day, hour, minute, second, 0, 0, -1))) * 10**9
        except (ValueError, OverflowError):
            return now_ns
    return when if when <= now_ns + _DAY_NS else now_ns


def find_log_events(lines: Sequence[str], node: str, now_ns: int) -> List[Event]:
    """What lines of a log mean, at most `MAX_EVENTS` and one more that counts the rest."""
    found: List[Event] = []
    beyond = 0
    for line in lines:
        for meaning in MEANINGS:
            match = meaning.pattern.search(line)
            if match is None:
                continue
            if len(found) >= MAX_EVENTS:
                beyond += 1
                break
            names = {name: value or "?" for name, value in match.groupdict().items()}
            component = meaning.component.format(node=node, **names)
            found.append(Event(find_log_line_time(line, now_ns), component, meaning.kind, line.strip()[:500]))
            break
    if beyond:
        found.append(Event(now_ns, node, "log_flood", "{} more events in one reading of the log".format(beyond)))
    return found


def _close_events(events: Sequence[Event], open_since: "dict[Tuple[str, str], Event]") -> List[Event]:
    """`events`, and those begun earlier that they end, told again with their end. Remembers in `open_since`."""
    out = list(events)
    for event in events:
        begun = BEGIN_OF_END.get(event.kind)
        if event.kind in BEGIN_OF_END.values():
            open_since[(event.kind, event.component)] = event
        elif begun is not None:
            before = open_since.pop((begun, event.component), None)
            if before is not None:
                out.append(before._replace(end_ns=event.ts_ns))
    return out


def parse_maintenance_events(text: str) -> Tuple[List[Event], int, str]:
    """Windows in a maintenance file, lines not understood, and one of these. `#` begins a comment."""
    found: List[Event] = []
    unknown, example = 0, ""
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if not line:
            continue
        words = line.split(None, 3)
        begin = _parse_iso_time(words[0])
        end = _parse_iso_time(words[1]) if len(words) > 2 and words[1] != "-" else None
        if begin is None or len(words) < 3 or (end is None and words[1] != "-"):
            unknown += 1
            example = example or line[:80]
            continue
        found.append(Event(begin, words[2], "maintenance", words[3] if len(words) > 3 else "maintenance", end))
    return found, unknown, example


class LogEvents(Probe):
    """`events` from the node's log as it grows (rotation is followed) and from the maintenance file."""

    name = "events"
    period_s = 5.0

    def __init__(self, root: str = "/", node: str = "") -> None:
        super().__init__(root, node)
        self._inode = 0
        self._offset = -1
        self._rest = b""
        self._open: "dict[Tuple[str, str], Event]" = {}
        self._told: "set[Event]" = set()

    def read(self, now_ns: int) -> ProbeResult:
        """Raises AbsentError where there is neither a log that may be read nor a maintenance file, OSError."""
        path = next((p for p in (os.path.join(self.root, log) for log in LOGS) if os.access(p, os.R_OK)), None)
        windows = os.path.join(self.root, MAINTENANCE)
        if path is None and not os.path.exists(windows):
            raise AbsentError("no readable log ({}) and no /{}".format(", ".join(LOGS), MAINTENANCE))
        events: List[Event] = []
        if path is not None:
            events += _close_events(find_log_events(self._grown(path), self.node, now_ns), self._open)
        if os.path.exists(windows):
            planned, _, _ = parse_maintenance_events(self._windows(windows))
            events += [event for event in planned if event not in self._told]
            self._told = set(planned)
        return ProbeResult([], events)

    def _windows(self, path: str) -> str:
        if os.access(path, os.X_OK):
            return read_probe_command_output([path], self.timeout_s).decode("utf-8", "replace")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_READ)

    def _grown(self, path: str) -> List[str]:
        """Whole lines that came since the last look; none at the first, which only notes where the log ends."""
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if self._offset < 0:
                self._inode, self._offset = status.st_ino, status.st_size
                return []
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset, self._rest = status.st_ino, 0, b""
            file.seek(self._offset)
            data = self._rest + file.read(MAX_READ)
            self._offset = file.tell()
        whole, newline, self._rest = data.rpartition(b"\n")
        self._rest = self._rest[-65536:]
        return whole.decode("utf-8", "replace").splitlines() if newline else []
