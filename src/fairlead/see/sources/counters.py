"""Saved counter texts as a source: an `lctl get_param` dump, or one of Lustre's stats files, read by the probes.

Not here: what the texts say (`fairlead.see.probes.lustre`), how counters become deltas (`fairlead.see.agent.deltas`).
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from fairlead.core.errors import CorruptInputError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import EVENTS, TABLES, TableSpec, build_table_batch
from fairlead.see.agent.deltas import Deltas, describe_delta_shape
from fairlead.see.probes.base import AbsentError, Event, Probe, Reading
from fairlead.see.probes.lustre import PROBES
from fairlead.see.probes.lustre.parameters import Dump
from fairlead.see.probes.lustre.stats_lines import parse_stats_times
from fairlead.see.sources.base import HEAD_BYTES, Item, Origin

_GZIP = b"\x1f\x8b"
_KINDS = (
    b"obdfilter|osd-[a-z]+|mdt|mdd|mds|mgs|ost|llite|osc|mdc|lmv|lov|osp|lod|mgc|ldlm|health_check|jobid_name|jobid_var"
)
_KIND = re.compile(r"obdfilter|osd-[a-z]+|mdt|llite")
_DUMP = re.compile(rb"^(?:" + _KINDS + rb")(?:\.[^\s=]+)?=", re.M)
_STATS = re.compile(rb"\s*snapshot_time:?\s+\d+\.\d+ \(?secs\.[nu]secs\)?\s*\n")
_TIME = re.compile(rb"^[ \t]*snapshot_time[ \t]*:?[ \t]*\d[^\n]*$", re.M)
_MANY_YEARS_NS = 10 * 366 * 86_400 * 10**9
_FIRST_YEAR_NS = 10**18
"""2001. Some versions tell since when they count by the time since the machine started: that is no date."""
_OWNERS = ("obdfilter", "mdt", "llite")
"""Devices that tell hosts apart: a target is of one server, a mount's number of one client."""


@dataclass
class _Tally:
    """What is told at the end: lines not understood, rows whose interval is not known."""

    unknown: int = 0
    example: str = ""
    undated: int = 0
    rows: int = 0


@dataclass
class _Host:
    """One host's probes and the state of its counters, over as many snapshots as there are."""

    node: str
    probes: list[Probe] = field(default_factory=list)
    states: dict[object, Deltas] = field(default_factory=dict)


class CountersSource:
    """`Source` of saved counters. One snapshot gives gauges, events, and, where the text says when counting began, the
    sums since; several of one host, in the order of their times, give what happened between them.

    A host is named after its (first) file, up to an `@` or the ending: `oss3@monday.txt` is of `oss3`.
    """

    name = "counters"
    ranks_per_log = False

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether `head` is of a dump, or of one stats file."""
        return _DUMP.search(head) is not None or _lone(head) is not None

    def serves_many(self, path: Path) -> bool:  # noqa: ARG002
        """Counters of a node are of all its jobs."""
        return True

    def find_origin(self, path: Path, head: bytes) -> Origin:  # noqa: ARG002
        """The host, told by its targets and mounts. Raises as `read`."""
        with _opened(path) as dumps:
            key = _host_of(dumps[0])
            taken = [_taken(dump, path) for dump in dumps]
        return Origin(key, min(taken), max(taken), _MANY_YEARS_NS)

    def read(self, path: Path) -> Iterator[Item]:
        """What one snapshot tells. Raises CorruptInputError where it names no counter that is known."""
        yield from self.read_series([path])

    def read_series(self, paths: Iterable[Path]) -> Iterator[Item]:
        """What snapshots of one host tell, oldest first whatever their order. Raises as `read`."""
        dated: list[tuple[int, Path, int]] = []
        for path in paths:
            with _opened(path) as dumps:
                dated += [(_taken(dump, path), path, place) for place, dump in enumerate(dumps)]
        dated.sort(key=lambda one: one[0])
        host = _Host(_node_of(dated[0][1]) if dated else "")
        tally = _Tally()
        at = 0
        while at < len(dated):
            path = dated[at][1]
            with _opened(path) as dumps:
                # Snapshots of one file that follow one another are read while it is open.
                while at < len(dated) and dated[at][1] == path:
                    taken_ns, _, place = dated[at]
                    yield from _snapshot(host, dumps[place], path, taken_ns, tally, first=at == 0)
                    at += 1
        where = str(dated[0][1]) if dated else ""
        yield from _said(tally, where, len(dated))


def _snapshot(host: _Host, dump: Dump, path: Path, at_ns: int, tally: _Tally, *, first: bool) -> Iterator[Item]:
    if not host.probes:
        told: dict[str, dict[str, Any]] = {"lustre_states": {"history": True}}
        host.probes = [kind("/", host.node, place=dump, lctl=(), **told.get(name, {})) for name, kind in PROBES.items()]
    found_any = False
    for probe in host.probes:
        cast("Any", probe).place = dump
        try:
            found = probe.read(at_ns)
        except AbsentError:
            continue
        found_any = True
        for reading in found.readings:
            tally.unknown += reading.unknown
            tally.example = tally.example or reading.unknown_example
            batch = _rows(host, reading, at_ns, tally, first=first)
            if batch is not None:
                yield batch
        if found.events:
            tally.rows += len(found.events)
            yield _events(found.events)
    if not found_any:
        raise CorruptInputError(
            "it has no counter that fairlead reads",
            where=str(path),
            remedy="save the parameters listed on the page of this source",
        )


def _rows(host: _Host, reading: Reading, at_ns: int, tally: _Tally, *, first: bool) -> pa.RecordBatch | None:
    spec = TABLES.get(reading.table)
    if spec is None or not reading.rows:
        return None
    deltas = host.states.setdefault(describe_delta_shape(reading), Deltas())
    # A clock of its own for deltas: the time a text was made at may be before that of the last.
    rows = [(row.key, list(row.values), row.interval_ns) for row in deltas.advance(reading, at_ns)]
    if first and reading.counters:
        rows = _since_start(reading, at_ns, tally)
    gauges = len(reading.gauges)
    rows = [row for row in rows if row[2] is not None or (gauges and any(v is not None for v in row[1][-gauges:]))]
    return _batch(spec, reading, rows, at_ns, tally)


def _since_start(reading: Reading, at_ns: int, tally: _Tally) -> list[tuple[Any, list[Any], int | None]]:
    """Rows of the first snapshot: sums since counting began, where that is told; else gauges alone."""
    count, epochs = len(reading.counters), reading.epochs or {}
    rows: list[tuple[Any, list[Any], int | None]] = []
    for key, values in reading.rows.items():
        begun = epochs.get(key)
        known = begun is not None and _FIRST_YEAR_NS < begun < at_ns
        if not known and any(any(v) if isinstance(v, list) else v for v in values[:count]):
            tally.undated += 1
        told = list(values[:count]) if known else [None] * count
        rows.append((key, told + list(values[count:]), at_ns - begun if known and begun is not None else None))
    return rows


def _batch(
    spec: TableSpec, reading: Reading, rows: list[tuple[Any, list[Any], int | None]], at_ns: int, tally: _Tally
) -> pa.RecordBatch | None:
    names = (*reading.counters, *reading.gauges)
    if reading.spread is not None:
        word, numbers = reading.spread[0], reading.spread[1:]
        each = len(names) // len(numbers)
        flat = [
            ((*key, names[at]), values[at::each], gap) for key, values, gap in rows for at in range(each) if values[at]
        ]
        keys: tuple[str, ...] = (*reading.keys, word)
        rows, names = flat, numbers
    else:
        keys = reading.keys
    if not rows:
        return None
    tally.rows += len(rows)
    columns: dict[str, object] = {"ts_ns": [at_ns] * len(rows), "interval_ns": [gap for _, _, gap in rows]}
    for place, name in enumerate(keys):
        columns[name] = [key[place] for key, _, _ in rows]
    for place, name in enumerate(names):
        columns[name] = [values[place] for _, values, _ in rows]
    for name, value in reading.constant:
        columns[name] = [value] * len(rows)
    return build_table_batch(spec, columns)


def _events(events: Iterable[Event]) -> pa.RecordBatch:
    listed = list(events)
    return build_table_batch(
        EVENTS,
        {
            "ts_ns": [e.ts_ns for e in listed],
            "end_ns": [e.end_ns for e in listed],
            "component": [e.component for e in listed],
            "kind": [e.kind for e in listed],
            "text": [e.text for e in listed],
        },
    )


def _said(tally: _Tally, where: str, snapshots: int) -> Iterator[Missing]:
    if tally.unknown:
        yield Missing(
            kind="unknown_lines",
            what=f"{tally.unknown} lines of counters",
            why=f"not understood: {tally.example!r}",
            remedy="upgrade fairlead, or report the line",
            where=where,
        )
    if tally.undated and snapshots < 2:
        yield Missing(
            kind="no_interval",
            what=f"how long {tally.undated} rows of counters were counted",
            why="a single snapshot of counters without start time",
            remedy="take a second snapshot later and give both",
            where=where,
        )
    elif not tally.rows:
        yield Missing(kind="no_records", what="records", why="nothing was counted", where=where)


@contextmanager
def _opened(path: Path) -> Iterator[list[Dump]]:
    """The dumps a file holds, one as a rule."""
    with path.open("rb") as raw, tempfile.TemporaryFile() as plain:
        head = raw.read(HEAD_BYTES)
        raw.seek(0)
        file: BinaryIO = raw
        if head[:2] == _GZIP:
            try:
                with gzip.GzipFile(fileobj=raw) as packed:
                    shutil.copyfileobj(packed, plain)
                    head = _head(plain)
            except (OSError, EOFError) as fault:
                why = f"its gzip data is broken ({fault})"
                raise CorruptInputError(why, where=str(path), remedy="copy it again from where it was taken") from fault
            file = plain
        lone = None if _DUMP.search(head) else _lone(head)
        if lone is not None:
            file.seek(0)
            with tempfile.TemporaryFile() as wrapped:
                wrapped.write(f"{_named(lone, path)}=\n".encode())
                shutil.copyfileobj(file, wrapped)
                yield [Dump(wrapped)]
            return
        yield Dump.read_snapshots(file)


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(HEAD_BYTES)


def _taken(dump: Dump, path: Path) -> int:
    """When a dump was taken: the latest time in it, else that of the file."""
    at, end = dump.extent
    latest = 0
    # The times of job_stats are those of each job's last request, and none is later than the text.
    while at < end:
        dump.file.seek(at)
        chunk = dump.file.read(min(1 << 20, end - at))
        if not chunk:
            break
        at += len(chunk)
        latest = max([latest, *(parse_stats_times(line).snapshot_ns or 0 for line in _TIME.findall(chunk))])
    return latest or path.stat().st_mtime_ns


def _lone(head: bytes) -> str | None:
    """The parameter a text without a name is of, by its words."""
    if re.match(rb"\s*job_stats:\s*(\n\s*-|\Z)", head):
        return "mdt.*.job_stats" if re.search(rb"^\s+(open|mkdir):\s*\{", head, re.M) else "obdfilter.*.job_stats"
    if not _STATS.match(head):
        return None
    for words, name in (
        (rb"samples \[regs\]|^(inode_permission|osc_write|opencount) ", "llite.*.stats"),
        (rb"^(hits|misses|readpage not consecutive) +\d+ samples", "llite.*.read_ahead_stats"),
        (rb"^(preprw|commitrw|destroy|statfs .*\n(.*\n)*ping) ", "obdfilter.*.stats"),
        (rb"^(samedir_rename|mknod|getxattr|mkdir|open) +\d+ samples", "mdt.*.md_stats"),
        (rb"pages per bulk r/w|disk I/O size", "osd-ldiskfs.*.brw_stats"),
    ):
        if re.search(words, head, re.M):
            return name
    return None


def _named(parameter: str, path: Path) -> str:
    """The parameter with its device. A copy of /proc keeps its names; else the device is the folder the file lies in,
    where that is a target's or a mount's name, or the file's own."""
    parts = path.resolve().parts
    for at, part in enumerate(parts[:-2]):
        if _KIND.fullmatch(part) and len(parts) - at in (3, 5):
            return ".".join(parts[at:])
    folder = parts[-2] if len(parts) > 1 else ""
    device = folder if re.fullmatch(r"[\w-]+-((OST|MDT)[0-9a-fA-F]{4}|[0-9a-f]{8,})", folder) else path.stem
    return parameter.replace("*", re.sub(r"[^\w@-]", "_", device))


def _node_of(path: Path) -> str:
    return re.sub(r"(\.(txt|log|out|dump|dat|gz))+\Z", "", path.name).partition("@")[0] or path.name


def _host_of(dump: Dump) -> str | None:
    """What tells a host's dumps from another's; None where a dump has no device of a host's own."""
    devices = sorted({".".join(name.split(".")[:2]) for name in dump.names if name.split(".")[0] in _OWNERS})
    if not devices:
        return None
    return "lustre/" + hashlib.blake2b(os.fsencode("\n".join(devices)), digest_size=8).hexdigest()
