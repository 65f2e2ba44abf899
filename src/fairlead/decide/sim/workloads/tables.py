"""Job tables with I/O totals, as Darshan gives them (CSV, one record an executable's run; Summit's of 2021 among them).

What a table does not hold is assumed by stated rules. Not here: opening files, logs (`fairlead.see.sources.darshan`).
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from fairlead.core.errors import InputError
from fairlead.core.model.site import Site
from fairlead.decide.sim.replay.jobs import Jobs
from fairlead.decide.sim.workloads import sunway
from fairlead.decide.sim.workloads.import_result import (
    LONGEST_RUN_S,
    MOST_NUMBER,
    ImportResult,
    build_empty_import_error,
    unpack_import_text,
)
from fairlead.decide.sim.workloads.io_rules import F64, I64, SHARED_FILE_STRIPES, TRIVIAL, Season
from fairlead.decide.sim.workloads.profiles import BEHAVIOURS

NEEDED = ("start_time", "end_time", "nprocs", "POSIX_BYTES_READ", "POSIX_BYTES_WRITTEN")
"""Columns there must be. Times are seconds since 1970, processes a number, volumes bytes."""
OPTIONAL = (
    "app",
    "STDIO_BYTES_READ",
    "STDIO_BYTES_WRITTEN",
    "POSIX_READS",
    "POSIX_WRITES",
    "POSIX_OPENS",
    "POSIX_STATS",
    "POSIX_F_READ_TIME",
    "POSIX_F_WRITE_TIME",
)
"""Columns that are used where they are. MPI-IO's bytes are in POSIX's already."""
WRITE_PHASES = 4
"""Equal parts in which a job writes, after it read (ours)."""
USUAL_REQUEST = 1 << 20
MOST_RATE = 1e14
"""Bytes, or opens and stats, a second of a run beyond which a row is broken."""


@dataclass(frozen=True)
class _Row:
    start: float
    run: float
    processes: float
    read: float
    written: float
    requests: float
    names: float
    io_s: float
    program: str
    line: int


def read_workload_job_table(
    data: bytes,
    machine: Site,
    *,
    processes_per_node: int = 42,
    write_phases: int = WRITE_PHASES,
    where: str = "table",
) -> ImportResult:
    """The records of a table, plain or gzip, as jobs of `machine`. Rows that are no record are dropped and counted.
    Raises InputError where a column is missing, naming it, or where no job is left.

    `processes_per_node`: Summit has 42 cores for them. A job reads first, then writes in `write_phases` equal parts,
    and computes before each the same. Processes reach what the record's own seconds of I/O say (no more than it ran),
    at most what their nodes can; metadata is opens and stats, done once in the beginning.
    """
    rows, total, dropped = _rows(unpack_import_text(data, where), where)
    if not rows:
        raise build_empty_import_error(total, dropped, where)
    rows.sort(key=lambda row: (row.start, row.line))
    nodes = np.ceil(_column(rows, "processes") / processes_per_node).astype(np.int64)
    if (nodes > machine.nodes).any():
        dropped["larger than the machine"] = int((nodes > machine.nodes).sum())
        rows = [row for row, size in zip(rows, nodes, strict=True) if size <= machine.nodes]
        nodes = nodes[nodes <= machine.nodes]
        if not rows:
            raise build_empty_import_error(total, dropped, where)
    season = _season(rows, nodes, machine, write_phases)
    assumed = (
        f"{processes_per_node} processes to a node",
        f"a job reads first and writes in {write_phases} equal parts: the table holds totals",
        "the nodes of a job are contiguous, starting where the last job left off",
        "records of one application at one size are runs of one program",
    )
    return ImportResult(
        season=season, lines=tuple(row.line for row in rows), rows=total, dropped=dropped, assumed=assumed
    )


def _rows(text: str, where: str) -> tuple[list[_Row], int, dict[str, int]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
    except csv.Error as error:
        raise InputError(
            f"not a table of comma-separated values ({error})", where=where, remedy="a CSV file"
        ) from error
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise InputError(
            f"column {', '.join(missing)} is missing; columns found: {', '.join(header[:30]) or 'none'}",
            where=where,
            remedy=f"a header with {', '.join(NEEDED)}",
        )
    place = {name: header.index(name) for name in (*NEEDED, *OPTIONAL) if name in header}
    rows: list[_Row] = []
    dropped: Counter[str] = Counter()
    total = 0
    while True:
        try:
            parts = next(reader)
        except StopIteration:
            return rows, total, dict(dropped)
        except csv.Error:
            total += 1
            dropped["not comma-separated values"] += 1
            continue
        if not parts:
            continue
        total += 1
        if len(parts) != len(header):
            dropped["with a different number of columns"] += 1
            continue
        row = _row({name: parts[at] for name, at in place.items()}, reader.line_num)
        if isinstance(row, str):
            dropped[row] += 1
        else:
            rows.append(row)


def _row(cells: dict[str, str], line: int) -> _Row | str:
    """The record, or why it is none. An empty cell is not known."""
    program = cells.pop("app", "")
    try:
        known = {name: float(text) for name, text in cells.items() if text.strip()}
    except ValueError:
        return "with something that is not a number"
    if not all(math.isfinite(value) and value >= 0 for value in known.values()):
        return "with impossible numbers"
    for name in ("start_time", "end_time", "nprocs"):
        if name not in known:
            return f"without {name}"
    processes = known["nprocs"]
    run = known["end_time"] - known["start_time"]
    if run < 0 or processes < 1:
        return "that end before they begin" if run < 0 else "without processes"
    if max(known["end_time"], processes) > MOST_NUMBER:
        return "with impossible numbers"
    if run > LONGEST_RUN_S:
        return "longer than a year"
    volumes = [
        [known[f"{api}_BYTES_{op}"] for api in ("POSIX", "STDIO") if f"{api}_BYTES_{op}" in known]
        for op in ("READ", "WRITTEN")
    ]
    if not volumes[0] and not volumes[1]:
        return "without volumes"

    def whole(*names: str) -> float:
        return sum(known.get(name, 0.0) for name in names)

    moved, names = sum(volumes[0]) + sum(volumes[1]), whole("POSIX_OPENS", "POSIX_STATS")
    if max(moved, names) > MOST_RATE * max(run, 1.0):
        return "with impossible numbers"
    io_s = whole("POSIX_F_READ_TIME", "POSIX_F_WRITE_TIME") / processes
    return _Row(
        start=known["start_time"],
        run=run,
        processes=processes,
        read=sum(volumes[0]),
        written=sum(volumes[1]),
        requests=whole("POSIX_READS", "POSIX_WRITES"),
        names=names,
        io_s=min(io_s, run),
        program=program,
        line=line,
    )


def _column(rows: list[_Row], name: str) -> F64:
    return np.array([getattr(row, name) for row in rows])


def _season(rows: list[_Row], nodes: I64, machine: Site, write_phases: int) -> Season:
    j = len(rows)
    read_bytes, written = _column(rows, "read"), _column(rows, "written")
    volume, processes, run_s = read_bytes + written, _column(rows, "processes").astype(np.int64), _column(rows, "run")
    requests, io_s, start = _column(rows, "requests"), _column(rows, "io_s"), _column(rows, "start")
    most = np.minimum(nodes * machine.client_bandwidth, processes * machine.process_bandwidth)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where((io_s > 0) & (volume > 0), np.minimum(volume / io_s, most), most)
        request = np.where(requests > 0, volume / requests, float(USUAL_REQUEST))
    request = np.clip(request, 1.0, 1 << 30)
    workers = request / (request / machine.worker_bandwidth + machine.request_s) * machine.workers
    forwarder = np.maximum(np.max(1.0 / machine.forwarders.bandwidth, initial=0.0), 1.0 / workers)
    target = np.full(j, 1.0 / float(machine.targets.bandwidth[0]))
    # Metadata, reading, then writing in parts; what is nothing of a kind is no phase.
    kinds = np.stack([_column(rows, "names"), read_bytes, *([written / write_phases] * write_phases)], axis=1)
    is_phase = kinds > 0
    is_phase[:, 1] |= ~is_phase.any(axis=1)
    counts = is_phase.sum(axis=1)
    job, place = np.nonzero(is_phase)
    amounts = kinds[job, place]
    slack = np.maximum(run_s - volume / np.minimum(rate, 1.0 / forwarder), 0.1 * run_s) / (counts + 0.5)
    sizes = [f"{row.program}\0{size}" for row, size in zip(rows, nodes.tolist(), strict=True)]
    program = np.unique(np.array(sizes), return_inverse=True)[1].reshape(-1)
    behind = np.cumsum(nodes) - nodes
    mode = np.where(volume > sunway.TRIVIAL_BYTES, np.where(processes > 1, 0, 3), TRIVIAL)
    flat = rate * np.maximum(forwarder, target) <= 1.0
    jobs = Jobs(
        start_s=start - start[0],
        first_phase=np.concatenate([[0], np.cumsum(counts)]),
        compute_s=slack[job],
        volume=np.where(place > 0, amounts, 0.0),
        operations=np.where(place == 0, amounts, 0.0),
        tail_s=0.5 * slack,
        nodes=nodes,
        cores=processes.astype(np.float64),
        first_node=np.minimum(behind % machine.nodes, machine.nodes - nodes),
        client_rate=rate,
        forwarder_cost=forwarder,
        target_cost=target,
        most_targets=np.where(processes > 1, np.maximum(processes, SHARED_FILE_STRIPES), 1),
        behaviour=np.where(flat, BEHAVIOURS.index("neutral"), BEHAVIOURS.index("ascent")),
        basis=np.zeros(j, np.int64),
    )
    return Season(
        jobs=jobs,
        machine=machine,
        span_s=float((start + run_s).max() - start[0]),
        mode=mode,
        program=program,
        processes=processes,
        io_processes=processes,
        request=request.astype(np.int64),
        read=read_bytes,
        written=written,
        core_hours=processes * run_s / 3600.0,
    )
