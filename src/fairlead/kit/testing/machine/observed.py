"""What a site that watches a play would know of it: rollups, jobs, and the rows of PHASE of every job that ended.

The records of the play go through the same derivation as in a lake (`analysis.rollups`, `analysis.history.phase_rows`),
without the store between. What a site lacks can be left out (`View`). Not here: what is true (`phase_truth`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.tables import PHASE, ROLLUP
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.history.phase_rows import build_phase_rows
from fairlead.explain.analysis.job_summary import SERIES, JobData
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.views import FULL, View, apply_play_view, sum_view_io
from fairlead.store.rollups import derive_rollups

_EDGE_KINDS = {"read": "read", "write": "write"}


@dataclass(frozen=True)
class Observed:
    """What is known of a play. `phases`: rows of PHASE of the jobs that ended; `rollup`: all loads at `interval_ns` (a
    second, or what the counters give); `jobs`, `mapping`: as recorded, one row a job in `jobs`."""

    phases: pa.Table
    rollup: pa.Table
    jobs: pa.Table
    mapping: pa.Table
    interval_ns: int


def observe_play(play: Play, view: View = FULL) -> Observed:
    """What `view` shows of the play."""
    tables = apply_play_view(play, view)
    every = derive_rollups(tables)["rollup"]
    rollup = every.filter(pc.equal(every["interval_ns"], NS_PER_S))
    if view.interval_s > 1:
        rollup = _sum_to_interval(rollup, view.interval_s)
    if view.stored:
        rollup = _spread_over_seconds(rollup)
    interval_ns = NS_PER_S if view.stored else view.interval_s * NS_PER_S
    jobs = _select_ended_jobs(tables["jobs"])
    known = _RowsByJob(rollup, tables, interval_ns)
    made_ns = play.origin_ns + play.seconds * NS_PER_S
    parts = [known.phases(job, made_ns) for job in jobs.to_pylist()]
    phases = pa.concat_tables([PHASE.schema.empty_table(), *parts]).unify_dictionaries()
    mapping = tables.get("mapping")
    empty = pa.table({}) if mapping is None else mapping
    return Observed(phases, rollup, jobs, empty, interval_ns)


def _select_ended_jobs(jobs: pa.Table) -> pa.Table:
    """The rows of jobs that ended, in order of their numbers."""
    done = jobs.filter(jobs["end_ns"].is_valid())
    return done.sort_by([("start_ns", "ascending"), ("job_id", "ascending")])


def _sum_to_interval(rollup: pa.Table, interval_s: int) -> pa.Table:
    """Rows at 1 s summed to rows at `interval_s`."""
    width = interval_s * NS_PER_S
    ts = rollup["ts_ns"].to_numpy() // width * width
    table = rollup.set_column(rollup.schema.get_field_index("ts_ns"), "ts_ns", pa.array(ts))
    keys = ["ts_ns", "kind", "layer", "id", "job_id", "cluster", "fs"]
    largest = {"queue_len_max", "used_bytes_max", "capacity_bytes"}
    rest = [name for name in ROLLUP.schema.names if name not in (*keys, "interval_ns")]
    found = table.group_by(keys).aggregate([(name, "max" if name in largest else "sum") for name in rest])
    columns = {name: found[name] for name in keys}
    columns["interval_ns"] = pa.array(np.full(found.num_rows, width))
    for name in rest:
        columns[name] = found[f"{name}_max" if name in largest else f"{name}_sum"]
    return pa.table([columns[name].cast(ROLLUP.schema.field(name).type) for name in ROLLUP.schema.names], ROLLUP.schema)


def _spread_over_seconds(rollup: pa.Table) -> pa.Table:
    """Rows at an interval as rows at 1 s with equal parts in whole numbers, as `derive_rollups` spreads raw rows; the
    sample counts in the last second."""
    width = rollup["interval_ns"].to_numpy() // NS_PER_S
    row = np.repeat(np.arange(rollup.num_rows), width)
    at = np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width)
    wide = width[row]
    gauges = {"queue_len_max", "used_bytes_max", "capacity_bytes"}
    columns = []
    for field in ROLLUP.schema:
        column = rollup[field.name].take(pa.array(row))
        if field.name == "ts_ns":
            column = pa.array(column.to_numpy() + at * NS_PER_S)
        elif field.name == "interval_ns":
            column = pa.array(np.full(len(row), NS_PER_S))
        elif field.name == "samples":
            column = pa.array(np.where(at == wide - 1, pc.fill_null(column, 0).to_numpy(), 0))
        elif pa.types.is_integer(field.type) and field.name not in gauges:
            known = pc.is_valid(column).to_numpy()
            whole = pc.fill_null(column, 0).to_numpy()
            part = whole // wide * (at + 1) + whole % wide * (at + 1) // wide
            part -= whole // wide * at + whole % wide * at // wide
            column = pa.array(part, mask=~known)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=ROLLUP.schema)


class _RowsByJob:
    """Records sorted by job, so that one job's are a slice."""

    def __init__(self, rollup: pa.Table, tables: Mapping[str, pa.Table], interval_ns: int) -> None:
        self.interval_ns = interval_ns
        own = rollup.filter(pc.equal(rollup["kind"], "job")).select(["id", "ts_ns", "layer", *SERIES])
        # Storage targets count operations that are none of metadata.
        of_target = pc.equal(own["layer"].cast(pa.string()), "target")
        names = pc.if_else(of_target, pa.scalar(None, pa.int64()), own["metadata_ops"])
        own = own.set_column(own.schema.get_field_index("metadata_ops"), "metadata_ops", names)
        self.series = _ByJob(own, "id")
        there = rollup.filter(rollup["job_id"].is_valid())
        self.served = {
            kind: _ByJob(there.filter(pc.equal(there["kind"], kind)).select(["job_id", "id"]), "job_id")
            for kind in ("forwarder", "target", "mds")
        }
        ops = tables.get("ops")
        self.edges = self.io = None
        if ops is not None and ops.num_rows:
            self.edges = _ByJob(_list_edges(ops), "job_id")
            self.io = _ByJob(sum_view_io(ops), "job_id")
        counters = tables.get("file_counters")
        self.counters = None if counters is None else _ByJob(counters, "job_id")

    def phases(self, job: Mapping[str, object], made_ns: int) -> pa.Table:
        name = str(job["job_id"])
        served = {kind: sorted(set(rows.of(name)["id"].to_pylist())) or None for kind, rows in self.served.items()}
        io = None
        if self.io is not None:
            io = self.io.of(name)
        elif self.counters is not None:
            io = self.counters.of(name)
        data = JobData(
            job=job,
            series=self.series.of(name),
            interval_ns=self.interval_ns,
            io=io if io is not None and io.num_rows else None,
            forwarders=served["forwarder"],
            targets=served["target"],
        )
        edges = None if self.edges is None else self.edges.of(name)
        return build_phase_rows(data, made_ns, edges=edges, mds=served["mds"], fs=None)


class _ByJob:
    def __init__(self, table: pa.Table, column: str) -> None:
        words = table[column].cast(pa.string()).combine_chunks()
        codes = words.dictionary_encode()
        number = codes.indices.to_numpy(zero_copy_only=False) if len(codes) else np.zeros(0, np.int64)
        order = np.argsort(number, kind="stable")
        self.table = table.drop_columns([column]).take(pa.array(order)).combine_chunks()
        names = codes.dictionary.to_pylist() if len(codes) else []
        bounds = np.searchsorted(number[order], np.arange(len(names) + 1))
        self.place = {name: (int(bounds[i]), int(bounds[i + 1])) for i, name in enumerate(names)}

    def of(self, name: str) -> pa.Table:
        """The rows of one job."""
        low, high = self.place.get(name, (0, 0))
        return self.table.slice(low, high - low)


def _list_edges(ops: pa.Table) -> pa.Table:
    """When operations of each kind went on: `job_id`, `kind`, `start_ns`, `end_ns`."""
    word = ops["op"].cast(pa.string())
    kind = pc.if_else(pc.is_in(word, pa.array(list(_EDGE_KINDS))), word, "metadata")
    return pa.table({"job_id": ops["job_id"], "kind": kind, "start_ns": ops["start_ns"], "end_ns": ops["end_ns"]})
