"""The text of `mmperfmon query` (IBM Storage Scale, GPFS): a legend of series, then tables of their values by time; and
a probe that asks for it.

Not here: the archives of such text (`sources.gpfs`). Python 3.6, standard library only.
"""

import re
from calendar import timegm
from time import strptime
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Key, Probe, ProbeResult, Reading
from fairlead.see.probes.commands import read_probe_command_output

_LEGEND = re.compile(r"\s*\d+:\s+(\S+(?:\|\S+)+)\s*$")
_ROW = re.compile(r"\s*\d+\s+(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d)\s+(.*)$")
_SCALES = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "%": 1.0,
}
"""mmperfmon scales what it prints by powers of ten unless told otherwise."""


class Value(NamedTuple):
    """One value of one series in one bucket; None: mmperfmon had none (`null`)."""

    host: str
    sensor: str
    """`GPFSFilesystem`, `GPFSNSDDisk`, `Network`, ..."""
    names: Tuple[str, ...]
    """What the sensor counts: (cluster, file system), (disk,), (interface,), ..."""
    metric: str
    local_s: int
    """The bucket's local time, as if it were UTC, in seconds since 1970."""
    value: Optional[float]


class Parser:
    """Reads the output of one or more queries. `unknown` counts lines that were not understood."""

    def __init__(self) -> None:
        self.unknown = 0
        self.unknown_example = ""
        self._legend: List[Tuple[str, str, Tuple[str, ...], str]] = []
        self._in_legend = False
        self._first = 0
        self._columns = 0

    def parse_values(self, lines: Iterable[str]) -> Iterator[Value]:
        """The values of all tables, row by row."""
        for line in lines:
            text = line.strip()
            if not text:
                continue
            if text == "Legend:":
                self._legend, self._in_legend, self._first, self._columns = [], True, 0, 0
                continue
            series = _LEGEND.match(line) if self._in_legend else None
            if series is not None:
                self._add(series.group(1), line)
            elif text.startswith("Row ") and "Timestamp" in text:
                # A table is as wide as the terminal; the next one carries on where it ended.
                self._in_legend = False
                self._first += self._columns
                self._columns = len(text.split()) - 2
            else:
                for value in self._row(line):
                    yield value

    def _add(self, text: str, line: str) -> None:
        parts = text.split("|")
        if len(parts) < 3:
            self._strange(line)
            return
        self._legend.append((parts[0], parts[1], tuple(parts[2:-1]), parts[-1]))

    def _row(self, line: str) -> List[Value]:
        match = _ROW.match(line)
        numbers = _numbers(match.group(2)) if match is not None else None
        series = self._legend[self._first : self._first + self._columns]
        if match is None or numbers is None or len(numbers) != self._columns or len(series) != self._columns:
            self._strange(line)
            return []
        try:
            local_s = timegm(strptime(match.group(1), "%Y-%m-%d-%H:%M:%S"))
        except ValueError:
            self._strange(line)
            return []
        return [
            Value(host, sensor, names, metric, local_s, number)
            for (host, sensor, names, metric), number in zip(series, numbers)
        ]

    def _strange(self, line: str) -> None:
        self.unknown += 1
        self.unknown_example = self.unknown_example or line.strip()[:120]


def _numbers(text: str) -> Optional[List[Optional[float]]]:
    """Numbers of a row, each perhaps followed by its unit; None when it holds anything else."""
    found: List[Optional[float]] = []
    for token in text.split():
        if token in ("null", "-"):
            found.append(None)
            continue
        if token in _SCALES:
            if not found or found[-1] is None:
                return None
            found[-1] = round(found[-1] * _SCALES[token], 6)
            continue
        try:
            found.append(float(token))
        except ValueError:
            return None
    return found


_METRICS = {
    "GPFSFilesystem": ("gpfs_fs_bytes_read", "gpfs_fs_bytes_written", "gpfs_fs_read_ops", "gpfs_fs_write_ops"),
    "GPFSNSDDisk": (
        "gpfs_nsdds_bytes_read",
        "gpfs_nsdds_bytes_written",
        "gpfs_nsdds_read_ops",
        "gpfs_nsdds_write_ops",
    ),
}
_BUCKET_S = 10
_BUCKETS = 18
"""Three minutes: a look that comes late or fails once loses nothing."""


class Performance(Probe):
    """File systems as nodes use them (`pfs_client`) and NSD disks (`target`) of a whole cluster, asked of `mmperfmon`
    on one node. It tells what happened in each bucket; the probe adds the buckets up, so each counts once. `command` is
    asked with the metrics of one sensor and the buckets' number and size after it."""

    name = "gpfs"
    period_s = 60.0
    timeout_s = 45.0

    def __init__(self, root: str = "/", node: str = "", command: Sequence[str] = ("mmperfmon", "query")) -> None:
        super().__init__(root, node)
        self._command = list(command)
        self._totals: Dict[Tuple[str, str, str, str], int] = {}
        self._newest: Dict[Tuple[str, str, str, str], int] = {}

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where there is no mmperfmon or it knows no such sensor, OSError."""
        parser = Parser()
        for metrics in _METRICS.values():
            ask = [*self._command, ",".join(metrics), "--raw", "-b", str(_BUCKET_S), "-n", str(_BUCKETS)]
            text = read_probe_command_output(ask, self.timeout_s).decode("utf-8", "replace")
            self._add(list(parser.parse_values(text.splitlines())))
        if not self._totals:
            raise AbsentError("mmperfmon reports no file system and no NSD disk")
        return ProbeResult([self._reading(sensor, parser) for sensor in _METRICS])

    def _add(self, values: List[Value]) -> None:
        """Counts buckets that are over and were not counted before. The newest one may still fill."""
        fills = max((value.local_s for value in values), default=0)
        first: Dict[Tuple[str, str, str, str], int] = {}
        for value in sorted(values, key=lambda value: value.local_s):
            if value.sensor not in _METRICS or not value.names or value.local_s >= fills:
                continue
            series = (value.sensor, value.host, value.names[-1], value.metric)
            newest = self._newest.get(series)
            if newest is None:
                first[series] = value.local_s
                self._totals.setdefault(series, 0)
            elif value.local_s > newest:
                self._totals[series] += int(value.value or 0)
                self._newest[series] = value.local_s
        self._newest.update(first)

    def _reading(self, sensor: str, parser: Parser) -> Reading:
        metrics = _METRICS[sensor]
        rows: Dict[Key, List[Any]] = {}
        for (of, host, name, metric), total in self._totals.items():
            if of == sensor and metric in metrics:
                rows.setdefault((host, name, "gpfs"), [None] * len(metrics))[metrics.index(metric)] = total
        unknown, example = (parser.unknown, parser.unknown_example) if sensor == "GPFSFilesystem" else (0, "")
        if sensor == "GPFSFilesystem":
            keys, counters = ("node", "fs", "source"), ("read_bytes", "write_bytes", "read_ops", "write_ops")
            return Reading("pfs_client", keys, counters, (), dict(rows), unknown=unknown, unknown_example=example)
        keys, counters = ("server", "target", "source"), ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs")
        return Reading("target", keys, counters, (), dict(rows))
