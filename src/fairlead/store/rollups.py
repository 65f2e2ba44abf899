"""Rollups: raw records of one segment as partial sums by second, minute and hour of every component and job.

What a page reads instead of raw rows. Pure: tables in, one table out; the lake calls it once a segment. Not here:
reading rollups (`fairlead.explain.questions`), what a layer's bytes mean for a job (`job_summary`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.histogram_bins import OCTAVES_NS, compute_bin_middles_ns
from fairlead.core.model.operation_words import DATA_WORDS
from fairlead.core.model.tables import PART_SOURCES, ROLLUP
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.store import rollup_cells as rc
from fairlead.store.rollup_cells import I64, Amounts, Cells, Flags, Names

INTERVALS_S = (1, 60, 3600)
UPPER_INTERFACES = ("APP", "MPI-IO", "HDF5", "H5F", "H5D", "PNETCDF", "PNETCDF_FILE", "PNETCDF_VAR")
"""Interfaces whose bytes the one below them counts again: their rows are left out of sums."""
MOUNT_INTERFACES = ("fuse", "lwfs")
"""Interfaces of a forwarding mount: requests that reached it. A tracer inside the processes (Darshan, DFTracer) tells
of the same calls at another height, so a mount's are a layer of their own (`mount` beside `client`) and the two are
never added. Who asks for one figure takes the mount's: it was there for every process, and when the job ran."""
CLIENT, MOUNT = "client", "mount"
NO_METADATA = (*DATA_WORDS, "closedir", "fcntl")
"""Words of `ops` that no metadata server hears of. Unlike in a report, which counts as Darshan does, a close counts: it
is a request, and the layers below count it."""
CLIENT_PARTS = ("osc", "mdc", "rpc_stats")
"""Sources of `pfs_client` that tell of a mount's bytes once more, target by target: a layer of their own (`osc`), as
segments do not know whether another one holds the whole (`llite`)."""
CLIENT_SUMS = ("lmv",)
"""Sources of `pfs_client` that add up what others of the same node tell (`mdc`): left out of sums."""
OWN_SPACE = ("statvfs",)
"""Sources of `target` that tell of room on file systems a node has for itself: devices, no targets."""
NO_OPERATIONS = frozenset(
    (
        "samedir_rename",
        "crossdir_rename",
        "parallel_rename_dir",
        "parallel_rename_file",
        "read",
        "write",
        "read_bytes",
        "write_bytes",
    )
)
"""Words of `metadata` that split up another word (Lustre's kinds of rename) or are no metadata operations."""
_OTHER, _READ, _WRITE, _METADATA = range(4)
_MOST_BYTES = 1 << 62
_TIMES = (("read_busy_ns", "read_ops"), ("write_busy_ns", "write_ops"), ("metadata_busy_ns", "metadata_ops"))
"""Sums of times, with the requests they are of."""
_SUMS = (
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "metadata_ops",
    "busy_ns",
    "read_busy_ns",
    "write_busy_ns",
    "metadata_busy_ns",
    "timed_ops",
    "wait_ns",
    "waits",
    "cache_hit",
    "cache_miss",
    "samples",
)
_LARGEST = ("queue_len_max", "used_bytes_max", "capacity_bytes")


_CLUSTER = "cluster"


@dataclass(frozen=True)
class _Plan:
    """One kind of rows a source gives: whose sum, as which layer, split by which further names."""

    kind: str
    layer: str
    id: str
    job: str | None = None
    fs: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What its rows are told apart by. The cluster goes with the job it is of."""
        whose = (self.id, self.job, _CLUSTER if self.job is not None or self.kind == "job" else None, self.fs)
        return tuple(name for name in whose if name is not None)


def derive_rollups(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """`{"rollup": rows}` of the record tables given by name, or nothing when they hold no such rows.

    Rows are partial sums (schema ROLLUP) at each of `INTERVALS_S`. Every amount is spread over the seconds its row
    covers, in proportion to time, and adds up to the raw amount exactly, at every interval; `samples` counts raw
    rows. A row of an interval table covers the `interval_ns` before its `ts_ns`; without an interval it lies in the
    second of `ts_ns`. `op_groups` count as the operations they hold: give operations either grouped or not.
    """
    made: list[pa.Table] = []
    for name, sums_of in _SOURCES.items():
        table = tables.get(name)
        if table is not None and table.num_rows:
            for cells, plans in sums_of(table):
                for plan in plans:
                    made += _rows(cells, plan)
    if not made:
        return {}
    return {"rollup": pa.concat_tables(made).unify_dictionaries()}


def _rows(cells: Cells, plan: _Plan) -> Iterator[pa.Table]:
    wanted = plan.names
    there = cells.names[plan.id].codes >= 0
    if plan.job is not None:
        there &= cells.names[plan.job].codes >= 0
    if not there.all():
        cells = cells.select_rows(there)
    if not len(cells.second):
        return
    for interval_s in INTERVALS_S:
        cells = cells.group_by(wanted, interval_s)
        yield _table(cells, plan, interval_s)


def _table(cells: Cells, plan: _Plan, interval_s: int) -> pa.Table:
    rows = len(cells.second)
    arrays: list[pa.Array] = []
    named = {"id": plan.id, "job_id": plan.job, "fs": plan.fs}
    if _CLUSTER in plan.names:
        named[_CLUSTER] = _CLUSTER
    for field in ROLLUP.schema:
        column = cells.sums.get(field.name) or cells.largest.get(field.name)
        if field.name == "ts_ns":
            arrays.append(pa.array(cells.second * NS_PER_S))
        elif field.name == "interval_ns":
            arrays.append(pa.array(np.full(rows, interval_s * NS_PER_S)))
        elif field.name in ("kind", "layer"):
            word = pa.array([getattr(plan, field.name)], pa.string())
            arrays.append(pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), word))
        elif (name := named.get(field.name)) is not None:
            held = cells.names[name]
            codes = pa.array(held.codes.astype(np.int32), mask=held.codes < 0)
            arrays.append(pa.DictionaryArray.from_arrays(codes, held.words.cast(pa.string())))
        elif column is None:
            arrays.append(pa.nulls(rows, field.type))
        else:
            arrays.append(pa.array(column.values, mask=None if column.known is None else ~column.known))
    return pa.Table.from_arrays(arrays, schema=ROLLUP.schema)


_Sums = Iterator[tuple[Cells, Sequence[_Plan]]]


# -- operations -------------------------------------------------------------------------------------------------------


def _client_plans(layer: str) -> tuple[_Plan, ...]:
    return (
        _Plan("job", layer, "job_id", None, "fs"),
        _Plan("node", layer, "node", None, "fs"),
        _Plan("node", layer, "node", "job_id", "fs"),
    )


def _op_groups(groups: pa.Table) -> _Sums:
    from fairlead.core.compression.node_groups import split_node_groups

    yield from _ops(split_node_groups(groups))


def _ops(ops: pa.Table) -> _Sums:
    interface = rc.read_cell_names(ops["interface"])
    words = interface.words.to_pylist()
    upper, mount = np.isin(words, UPPER_INTERFACES), np.isin(words, MOUNT_INTERFACES)
    for layer, chosen in ((CLIENT, ~upper & ~mount), (MOUNT, mount)):
        if chosen.all():
            yield from _of_layer(ops, layer)
        elif chosen.any():
            yield from _of_layer(ops.filter(pa.array(chosen[interface.codes])), layer)


def _of_layer(ops: pa.Table, layer: str) -> _Sums:
    if not ops.num_rows:
        return
    kind = _kinds(rc.read_cell_names(ops["op"]))
    count = ops["count"].to_numpy()
    size = rc.read_cell_amounts(ops["size"])
    data = (kind == _READ) | (kind == _WRITE)
    size = _believable(size, count)
    moved = np.where(data, size.values * count, 0)
    unsized = None if size.known is None else data & ~size.known
    start, end = ops["start_ns"].to_numpy(), ops["end_ns"].to_numpy()
    ones = np.ones(len(kind), np.int64)
    row, second, (count, moved, busy, samples) = rc.spread_over_cells(
        start, end, (count, moved, ops["busy_ns"].to_numpy(), ones)
    )
    keys = {name: rc.read_cell_names(ops[name]) for name in ("node", "job_id", "fs")}
    keys[_CLUSTER] = _words(ops, _CLUSTER)
    if row is not None:
        keys = {name: column.select_rows(row) for name, column in keys.items()}
        kind, unsized = kind[row], None if unsized is None else unsized[row]
    groups, one = rc.group_cell_rows([second, *(column.codes for column in keys.values())])
    amounts = {"count": count, "moved": moved, "busy_ns": busy, "samples": samples}
    named = {name: column.select_rows(one) for name, column in keys.items()}
    yield _op_cells(second[one], named, groups, kind, unsized, amounts), _client_plans(layer)


def _believable(size: Amounts, count: I64) -> Amounts:
    """Sizes that are negative, or move more bytes than 63 bits can tell, are not known."""
    if int(size.values.min()) >= 0 and int(size.values.max()) * int(count.max()) < _MOST_BYTES:
        return size
    sound = (size.values >= 0) & (size.values.astype(np.float64) * count < _MOST_BYTES)
    known = sound if size.known is None else sound & size.known
    return Amounts(np.where(known, size.values, 0), known)


def _op_cells(
    second: I64, names: dict[str, Names], groups: I64, kind: I64, unsized: Flags | None, amounts: dict[str, I64]
) -> Cells:
    """Operations and bytes by class in one pass each: four sums lie side by side."""
    cells = len(second)
    classed = groups * 4 + kind
    counts, moved = np.zeros(cells * 4, np.int64), np.zeros(cells * 4, np.int64)
    np.add.at(counts, classed, amounts["count"])
    np.add.at(moved, classed, amounts["moved"])
    by_count, by_bytes = counts.reshape(cells, 4), moved.reshape(cells, 4)
    known: list[Flags | None] = [None] * 4
    if unsized is not None and unsized.any():
        # Unknown only where operations of the class are there and none of them tells its size.
        without, told = np.zeros(cells * 4, np.bool_), np.zeros(cells * 4, np.bool_)
        without[classed[unsized]] = True
        told[classed[~unsized]] = True
        known = list((told | ~without).reshape(cells, 4).T)
    sums = {
        "read_bytes": Amounts(by_bytes[:, _READ].copy(), known[_READ]),
        "write_bytes": Amounts(by_bytes[:, _WRITE].copy(), known[_WRITE]),
        "read_ops": Amounts(by_count[:, _READ].copy()),
        "write_ops": Amounts(by_count[:, _WRITE].copy()),
        "metadata_ops": Amounts(by_count[:, _METADATA].copy()),
        **_op_times(groups, classed, cells, amounts),
        "samples": rc.add_cell_groups(Amounts(amounts["samples"]), groups, cells),
    }
    return Cells(second, names, sums, {}, apart=True)


def _op_times(groups: I64, classed: I64, cells: int, amounts: dict[str, I64]) -> dict[str, Amounts]:
    """Times of operations by class. A run of operations that took no time at all was not timed (traces of counters)."""
    busy = np.zeros(cells * 4, np.int64)
    np.add.at(busy, classed, amounts["busy_ns"])
    by_busy = busy.reshape(cells, 4)
    timed = rc.add_cell_groups(Amounts(np.where(amounts["busy_ns"] > 0, amounts["count"], 0)), groups, cells)
    known = timed.values > 0
    return {
        "busy_ns": Amounts(by_busy.sum(axis=1)),
        "read_busy_ns": Amounts(by_busy[:, _READ].copy(), known),
        "write_busy_ns": Amounts(by_busy[:, _WRITE].copy(), known),
        "metadata_busy_ns": Amounts(by_busy[:, _METADATA].copy(), known),
        "timed_ops": Amounts(timed.values, known),
    }


def _kinds(op: Names) -> I64:
    """Class of each operation."""
    of_word = [
        _READ if word == "read" else _WRITE if word == "write" else _OTHER if word in NO_METADATA else _METADATA
        for word in op.words.to_pylist()
    ]
    return np.asarray(np.array(of_word, np.int64)[op.codes])


# -- tables of intervals ----------------------------------------------------------------------------------------------


def _of_intervals(table: pa.Table, names: Mapping[str, Names], columns: Mapping[str, Amounts]) -> Cells:
    """Rows of an interval table as cells: `columns` are sums, but for those named in `_LARGEST`."""
    end = table["ts_ns"].to_numpy()
    interval = np.maximum(pc.fill_null(table["interval_ns"], 0).to_numpy(), 0)
    start = end - np.where(interval > rc.LONGEST_NS, 0, interval)
    columns = {name: rc.drop_impossible_cells(column) for name, column in columns.items()}
    sums = {**columns, "samples": Amounts(np.ones(len(end), np.int64))}
    tops = {name: sums.pop(name) for name in _LARGEST if name in sums}
    row, second, parts = rc.spread_over_cells(start, end, [column.values for column in sums.values()])

    def placed(known: Flags | None) -> Flags | None:
        return known if row is None or known is None else known[row]

    spread = {n: Amounts(v, placed(c.known)) for (n, c), v in zip(sums.items(), parts, strict=True)}
    if row is not None:
        names = {name: column.select_rows(row) for name, column in names.items()}
        tops = {name: Amounts(column.values[row], placed(column.known)) for name, column in tops.items()}
    return Cells(second, names, spread, tops).group_by(list(names))


def _column(table: pa.Table, *names: str) -> Amounts:
    """The first of these columns that is known, row by row; unknown throughout where the table has none."""
    there = [table[name] for name in names if name in table.schema.names]
    if not there:
        return Amounts(np.zeros(table.num_rows, np.int64), np.zeros(table.num_rows, np.bool_))
    return rc.read_cell_amounts(there[0] if len(there) == 1 else pc.coalesce(*there))


def _words(table: pa.Table, name: str) -> Names:
    if name in table.schema.names:
        return rc.read_cell_names(table[name])
    return Names(np.full(table.num_rows, -1, np.int64), pa.array([], pa.string()))


def _job(table: pa.Table) -> dict[str, Names]:
    return {"job_id": _words(table, "job_id"), _CLUSTER: _words(table, _CLUSTER)}


def _from(table: pa.Table, sources: Sequence[str]) -> Flags:
    """Rows of one of these sources."""
    source = _words(table, "source")
    listed = np.append(np.isin(source.words.to_pylist(), sources), False)
    return np.asarray(listed[source.codes])


def _traffic(table: pa.Table) -> dict[str, Amounts]:
    return {
        "read_bytes": _column(table, "read_bytes"),
        "write_bytes": _column(table, "write_bytes"),
        "read_ops": _column(table, "read_ops", "read_rpcs"),
        "write_ops": _column(table, "write_ops", "write_rpcs"),
        "metadata_ops": _column(table, "metadata_ops"),
    }


def _forwarder(table: pa.Table) -> _Sums:
    """Rows are of one class of one job; those of class `all` tell the queue's length only."""
    op_class = rc.read_cell_names(table["op_class"])
    words = op_class.words.to_pylist()
    is_read, is_write, is_metadata = (
        np.array([word == name for word in words], np.bool_)[op_class.codes] for name in ("read", "write", "metadata")
    )
    requests, moved = _column(table, "requests"), _column(table, "bytes")

    def only(amount: Amounts, rows: Flags) -> Amounts:
        """Zero in rows of other classes: a class without a row had no requests. Unknown in rows of no class."""
        told = is_read | is_write | is_metadata
        told = told if amount.known is None else told & (amount.known | ~rows)
        return Amounts(np.where(rows & told, amount.values, 0), told)

    (wait, waits), (service, timed) = (_timed(table, name) for name in ("wait_ns_histogram", "service_ns_histogram"))
    columns = {
        "read_bytes": only(moved, is_read),
        "write_bytes": only(moved, is_write),
        "read_ops": only(requests, is_read),
        "write_ops": only(requests, is_write),
        "metadata_ops": only(requests, is_metadata),
        "busy_ns": service,
        "read_busy_ns": only(service, is_read),
        "write_busy_ns": only(service, is_write),
        "metadata_busy_ns": only(service, is_metadata),
        "timed_ops": timed,
        "wait_ns": wait,
        "waits": waits,
        "queue_len_max": _column(table, "queue_len_max"),
    }
    names = {"node": rc.read_cell_names(table["node"]), **_job(table)}
    yield (
        _of_intervals(table, names, columns),
        (
            _Plan("forwarder", "forwarder", "node"),
            _Plan("forwarder", "forwarder", "node", "job_id"),
            _Plan("job", "forwarder", "job_id"),
        ),
    )


def _timed(table: pa.Table, name: str) -> tuple[Amounts, Amounts]:
    """Time taken and how many took it, of histograms in powers of two (others are not known here)."""
    column = table[name].combine_chunks()
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    known = lengths == len(OCTAVES_NS) - 1
    values = pc.fill_null(column.filter(pa.array(known)).flatten(), 0).to_numpy(zero_copy_only=False)
    histograms = values.reshape(-1, len(OCTAVES_NS) - 1)
    total, count = np.zeros(table.num_rows, np.int64), np.zeros(table.num_rows, np.int64)
    total[known] = np.rint(histograms @ compute_bin_middles_ns(OCTAVES_NS))
    count[known] = histograms.sum(axis=1)
    return Amounts(total, known), Amounts(count, known)


def _pfs_client(table: pa.Table) -> _Sums:
    table = table.filter(pa.array(~_from(table, CLIENT_SUMS)))
    part = _from(table, CLIENT_PARTS)
    for layer, rows in (("pfs_client", ~part), ("osc", part)):
        if rows.any():
            yield _client_cells(table.filter(pa.array(rows))), _client_plans(layer)


def _client_cells(table: pa.Table) -> Cells:
    columns = {
        **_traffic(table),
        **_times(table),
        "wait_ns": _column(table, "wait_ns"),
        "cache_hit": _column(table, "cache_hit"),
        "cache_miss": _column(table, "cache_miss"),
    }
    names = {"node": rc.read_cell_names(table["node"]), "fs": _words(table, "fs"), **_job(table)}
    return _of_intervals(table, names, columns)


def _target(table: pa.Table) -> _Sums:
    own = _from(table, OWN_SPACE)
    if own.any():
        rows = table.filter(pa.array(own))
        yield (
            _of_intervals(rows, {"device": rc.read_cell_names(rows["target"])}, _room(rows)),
            (_Plan("device", "device", "device"),),
        )
        table = table.filter(pa.array(~own))
    whole = _Plan("target", "target", "target")
    by_job = (_Plan("target", "target", "target", "job_id"), _Plan("job", "target", "job_id"))
    for rows, plans in _whole_and_by_job(table, whole, by_job):
        columns = {**_traffic(rows), **_room(rows), **_times(rows, _timed(rows, "service_ns_histogram"))}
        names = {"target": rc.read_cell_names(rows["target"]), **_job(rows)}
        yield _of_intervals(rows, names, columns), plans


def _metadata(table: pa.Table) -> _Sums:
    op = rc.read_cell_names(table["op"])
    counted = ~np.isin(op.words.to_pylist(), list(NO_OPERATIONS))[op.codes]
    whole = _Plan("mds", "metadata", "mds")
    by_job = (_Plan("mds", "metadata", "mds", "job_id"), _Plan("job", "metadata", "job_id"))
    for rows, plans in _whole_and_by_job(table.filter(pa.array(counted)), whole, by_job):
        names = {
            "mds": rc.prefer_left_cells(_words(rows, "target"), _words(rows, "server")),
            **_job(rows),
        }
        count, busy = _column(rows, "count"), _column(rows, "busy_ns")
        columns = {
            "metadata_ops": count,
            "busy_ns": busy,
            "metadata_busy_ns": busy,
            "timed_ops": Amounts(np.where(_flags(busy), count.values, 0), busy.known),
        }
        yield _of_intervals(rows, names, columns), plans


def _times(table: pa.Table, histogram: tuple[Amounts, Amounts] | None = None) -> dict[str, Amounts]:
    """Times of requests by kind and in all, and how many requests these are of. Rows that tell no kind's time are taken
    from `histogram` (time, requests), where it is given."""
    traffic = _traffic(table)
    kinds = {name: _column(table, name) for name, _ in _TIMES}
    busy, timed = np.zeros(table.num_rows, np.int64), np.zeros(table.num_rows, np.int64)
    known = np.zeros(table.num_rows, np.bool_)
    for name, ops in _TIMES:
        told = _flags(kinds[name]) & _flags(traffic[ops])
        busy += np.where(told, kinds[name].values, 0)
        timed += np.where(told, traffic[ops].values, 0)
        known |= told
    if histogram is not None:
        other = ~known & _flags(histogram[0])
        busy, timed = (np.where(other, one.values, sums) for one, sums in zip(histogram, (busy, timed), strict=True))
        known |= other
    return {**kinds, "busy_ns": Amounts(busy, known), "timed_ops": Amounts(timed, known)}


def _flags(amount: Amounts) -> Flags:
    return np.ones(len(amount.values), np.bool_) if amount.known is None else amount.known


def _whole_and_by_job(
    table: pa.Table, whole: _Plan, by_job: Sequence[_Plan]
) -> Iterator[tuple[pa.Table, Sequence[_Plan]]]:
    """Rows that add up to the component, and rows of sources that split it by job; other parts are left out."""
    part = _from(table, PART_SOURCES)
    for rows, plans in ((~part, (whole, *by_job)), (_from(table, ("job_stats",)), by_job)):
        if rows.any():
            yield table.filter(pa.array(rows)), plans


def _port(table: pa.Table) -> _Sums:
    columns = {
        "read_bytes": _column(table, "rx_bytes"),
        "write_bytes": _column(table, "tx_bytes"),
        "read_ops": _column(table, "rx_packets"),
        "write_ops": _column(table, "tx_packets"),
        "waits": _column(table, "waits"),
    }
    names = {"port": rc.join_cell_names(rc.read_cell_names(table["switch"]), rc.read_cell_names(table["port"]), "/")}
    yield _of_intervals(table, names, columns), (_Plan("port", "port", "port"),)


def _room(table: pa.Table) -> dict[str, Amounts]:
    return {"used_bytes_max": _column(table, "used_bytes"), "capacity_bytes": _column(table, "capacity_bytes")}


def _device(table: pa.Table) -> _Sums:
    part = _words(table, "job_id").codes >= 0
    by_job = (_Plan("device", "device", "device", "job_id"), _Plan("job", "device", "job_id"))
    for chosen, plans in ((~part, (_Plan("device", "device", "device"),)), (part, by_job)):
        if not chosen.any():
            continue
        rows = table if chosen.all() else table.filter(pa.array(chosen))
        columns = {
            **_traffic(rows),
            "busy_ns": _column(rows, "busy_ns"),
            "wait_ns": _column(rows, "queue_ns"),
            **_room(rows),
        }
        device = rc.join_cell_names(rc.read_cell_names(rows["node"]), rc.read_cell_names(rows["device"]), "/")
        yield _of_intervals(rows, {"device": device, **_job(rows)}, columns), plans


_SOURCES = {
    "ops": _ops,
    "op_groups": _op_groups,
    "forwarder": _forwarder,
    "pfs_client": _pfs_client,
    "target": _target,
    "metadata": _metadata,
    "port": _port,
    "device": _device,
}
