"""Jobs from a CSV that a site writes: read again when it changes, each job told when it is new or changed.

Not here: Slurm's own forms, which need no mapping of columns (`slurm`, `drop_folder`).
"""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core import clock
from fairlead.core.errors import ConfigError, InputError
from fairlead.see.collector.feed import Sink
from fairlead.see.collector.feeds.batch_numbering import Telling
from fairlead.see.collector.feeds.file_import import read_import_stamp
from fairlead.see.collector.feeds.job_changes import JobChanges
from fairlead.see.collector.feeds.settings import JobTable
from fairlead.see.sources.local_time import check_local_time_zone
from fairlead.see.sources.node_lists import NodeListError, NodeLists, build_node_list_batches
from fairlead.see.sources.slurm.fields import (
    Reading,
    clear_none_fields,
    parse_number_fields,
    parse_state_field,
    parse_time_fields,
    settle_fields_by_state,
)
from fairlead.see.sources.slurm.hostlist import expand_hostlist

_TIMES = {"submit": "submit_ns", "start": "start_ns", "end": "end_ns"}
_COUNTS = ("nodes_count", "cores", "processes")
_TEXTS = ("cluster", "name", "user", "project", "program", "partition")
COLUMNS = ("job_id", *_TIMES, *_COUNTS, *_TEXTS, "nodes", "state")


class JobTableFeed:
    """A `Feed`. Raises ConfigError for a mapping that names no such column of ours, or none for the job's number."""

    def __init__(self, settings: JobTable) -> None:
        strange = sorted(set(settings.columns) - set(COLUMNS))
        if strange or "job_id" not in settings.columns:
            raise ConfigError(
                f"no column {strange[0]!r} of jobs" if strange else "no column for `job_id`",
                where="feeds.job_table.columns",
                remedy=f"columns: {', '.join(COLUMNS)}",
            )
        if settings.time_zone is not None:
            check_local_time_zone(settings.time_zone)
        self.settings = settings
        self.name = f"job_table:{settings.path}"
        self._changes = JobChanges(settings.cluster)
        self._telling = Telling(self.name, clock.now_ns())
        self._read: tuple[int, int, int] | None = None

    def run(self, sink: Sink, stop: threading.Event) -> None:
        """Reads the file when it changes, until `stop`."""
        while not stop.is_set():
            self.look(sink)
            stop.wait(self.settings.period_s)

    def look(self, sink: Sink) -> None:
        """Tells what is new in the file. Raises LakeError."""
        path = Path(self.settings.path)
        self._telling.settle(sink)
        try:
            found = read_import_stamp(path)
            if found == self._read:
                sink.report_health(self.name, "ok")
                return
            reading = Reading(self.settings.time_zone)
            strange, told = self._tell(sink, path, reading)
        except InputError as fault:
            missing = isinstance(fault.__cause__, FileNotFoundError)
            sink.report_health(self.name, "missing" if missing else "failing", fault.what)
            return
        self._read = found
        text = f"{strange} rows without a job number" if strange else ""
        if reading.unreadable_times:
            text = f"{reading.unreadable_times} times have an unknown format"
        sink.report_health(self.name, "ok", text, rows=told, unknown_lines=strange)

    def _tell(self, sink: Sink, path: Path, reading: Reading) -> tuple[int, int]:
        table = _table(path, self.settings)
        numbered = pc.and_(table["job_id"].is_valid(), pc.not_equal(pc.utf8_trim_whitespace(table["job_id"]), ""))
        rows = table.filter(numbered)
        told = 0
        for batch in _batches(rows, self.settings, reading):
            news = self._changes.select_changed(batch)
            if news.num_rows:
                self._telling.send(sink, [news])
                told += news.num_rows
        return table.num_rows - rows.num_rows, told


def _table(path: Path, settings: JobTable) -> pa.Table:
    """The mapped columns as text, by our names."""
    from pyarrow import csv

    wanted = list(dict.fromkeys(settings.columns.values()))
    try:
        read = csv.read_csv(
            path,
            parse_options=csv.ParseOptions(delimiter=settings.separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
                quoted_strings_can_be_null=True,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeError) as fault:
        raise InputError(
            f"not the table described in the settings ({str(fault).partition(chr(10))[0]})",
            where=str(path),
            remedy="check `separator` and `columns` of the feed",
        ) from fault
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), where=str(path), remedy="check the path") from fault
    return pa.table({ours: read.column(theirs).combine_chunks() for ours, theirs in settings.columns.items()})


def _batches(rows: pa.Table, settings: JobTable, reading: Reading) -> list[pa.RecordBatch]:
    given = {name: _array(rows.column(name)) for name in rows.column_names}
    out: dict[str, pa.Array] = {"job_id": pc.utf8_trim_whitespace(given["job_id"])}
    out |= {ours: parse_time_fields(_iso(given[name]), reading) for name, ours in _TIMES.items() if name in given}
    out |= {name: parse_number_fields(given[name]) for name in _COUNTS if name in given}
    out |= {name: clear_none_fields(given[name]) for name in _TEXTS if name in given}
    states = given.get("state", pa.nulls(rows.num_rows, pa.string()))
    out["state"] = pa.array([parse_state_field(text) if text else None for text in states.to_pylist()], pa.string())
    columns: dict[str, object] = dict(settle_fields_by_state(out, out["state"]))
    if "cluster" in columns:
        columns["cluster"] = out["cluster"].dictionary_encode()
    lists = given["nodes"].to_pylist() if "nodes" in given else [None] * rows.num_rows
    nodes = NodeLists(lambda text: _names(text, settings.nodes_separator))
    return list(
        build_node_list_batches(columns, lists, nodes, count_nodes="nodes" in given and "nodes_count" not in given)
    )


def _iso(column: pa.Array) -> pa.Array:
    """Times with a blank between date and time as ISO writes them."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"^(\d{4}-\d\d-\d\d) ", r"\1T")


def _names(text: str, separator: str) -> list[str]:
    if not separator:
        return expand_hostlist(text.strip())
    names = [name.strip() for name in text.split(separator)]
    if not all(names):
        raise NodeListError("an empty name")
    return names


def _array(column: pa.ChunkedArray) -> pa.Array:
    flat = column.combine_chunks()
    return flat if isinstance(flat, pa.Array) else pa.concat_arrays(flat.chunks)
