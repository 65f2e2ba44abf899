"""The text of `mmperfmon query` (IBM Storage Scale, GPFS): a legend of series, then tables of their values by time.

Not here: running the command, what a series becomes. Python 3.6, standard library only.
"""

import re
from calendar import timegm
from time import strptime
from typing import Iterable, Iterator, List, NamedTuple, Optional, Tuple

_LEGEND = re.compile(r"\s*\d+:\s+(\S+(?:\|\S+)+)\s*$")
_ROW = re.compile(r"\s*\d+\s+(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d)\s+(.*)$")
_SCALES = {
    "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "KiB": 1024.0, "MiB": 1024.0 ** 2, "GiB": 1024.0 ** 3, "s": 1.0, "ms": 1e-3, "us": 1e-6, "%": 1.0,
}  # fmt: skip
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
        self._legend = []  # type: List[Tuple[str, str, Tuple[str, ...], str]]
        self._in_legend = False
        self._first = 0
        self._columns = 0

    def values(self, lines: Iterable[str]) -> Iterator[Value]:
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
    found = []  # type: List[Optional[float]]
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
