"""A site's own past as jobs to replay: columns of runs and their bursts of I/O in, `sim.replay.Jobs` out.

Pure. Not here: what a program reaches (`history_curves`), reading the lake (`whatif.past_jobs`), the replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.decide.sim.replay.jobs import Jobs
from fairlead.decide.sim.workloads.history_curves import CurveLookup, Curves

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
METADATA = 2
"""`kind` of a burst: 0 read, 1 write, 2 metadata."""
MODES = ("N-N", "N-M", "N-1", "1-1")
MOST_NODES, MOST_CORES, MOST_RATE = 1e6, 1e4, 1e14
"""Beyond these a row is broken: nodes of a job, cores of a node, bytes (or operations) a second of a phase."""
SLACK_S = 120.0
"""Clocks of nodes and the scheduler differ: a burst may begin or end so long beside its job."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """J jobs as they were recorded, each (J,); NaN or -1 where not known. Seconds from an origin of the caller's.

    `program`: code of user and program. `mode`: place in MODES. `forwarders`, `targets`: how many served it.
    `first_node`: of its nodes, where they are in a row. `recorded`: whether any layer told of its I/O at all.
    """

    start_s: F64
    end_s: F64
    nodes: F64
    cores: F64
    io_nodes: F64
    io_processes: F64
    first_node: I64
    program: I64
    mode: I64
    forwarders: F64
    targets: F64
    recorded: Mask

    def __len__(self) -> int:
        """J."""
        return len(self.start_s)

    def select_rows(self, rows: Mask | I64) -> Runs:
        """Some of them."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Bursts:
    """B phases of I/O as they were recorded, each (B,). `job`: place in Runs, -1 of none. `active_s` of them something
    moved; `amount` bytes (metadata: operations); `request_bytes` NaN where not known."""

    job: I64
    kind: I64
    start_s: F64
    end_s: F64
    active_s: F64
    amount: F64
    request_bytes: F64

    def __len__(self) -> int:
        """B."""
        return len(self.job)

    def select_rows(self, rows: Mask | I64) -> Bursts:
        """Some of them."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Omission:
    """What is left out: how many `jobs` (or, where `of` says so, phases), and why."""

    why: str
    count: int
    of: str = "jobs"


@dataclass(frozen=True, kw_only=True)
class Sound:
    """What of a history can be used. `row` (K,): place of each kept run in what was given; `quiet`: sound jobs
    without any phase of I/O, which no policy of paths can help or hurt."""

    runs: Runs
    bursts: Bursts
    row: I64
    quiet: int
    dropped: tuple[Omission, ...]


def drop_unsound_history(runs: Runs, bursts: Bursts) -> Sound:
    """Leaves out what cannot be so, and says how much of it: a broken row costs its job, never the month.

    Raises UsageError where nothing is left, naming what is missing."""
    if not len(runs):
        raise UsageError("no job of this time that has ended is known", where="job_summary", remedy=_FEED)
    dropped: list[Omission] = []
    strange = (bursts.job < 0) | (bursts.job >= len(runs))
    if strange.any():
        dropped.append(Omission(why="phases of jobs that are not known", count=int(strange.sum()), of="phases"))
        bursts = bursts.select_rows(~strange)
    left = np.ones(len(runs), np.bool_)
    for why, bad in (*_of_runs(runs), *_of_bursts(runs, bursts)):
        new = bad & left
        if new.any():
            dropped.append(Omission(why=why, count=int(new.sum())))
            left &= ~new
    busy = np.bincount(bursts.job, minlength=len(runs)) > 0
    unknown = left & ~runs.recorded & ~busy
    if unknown.any():
        dropped.append(Omission(why="no layer recorded their I/O", count=int(unknown.sum())))
    kept = left & busy
    if not kept.any():
        told = "; ".join(f"{one.count} {one.of}: {one.why}" for one in dropped)
        what = "no I/O phase of a usable job is known in this time" + (f" ({told})" if told else "")
        raise UsageError(what, where="phase", remedy=_FEED)
    row = np.flatnonzero(kept)
    row = row[np.argsort(runs.start_s[row], kind="stable")]
    place = np.full(len(runs), -1, np.int64)
    place[row] = np.arange(len(row))
    mine = bursts.select_rows(place[bursts.job] >= 0)
    return Sound(
        runs=runs.select_rows(row),
        bursts=replace(mine, job=place[mine.job]),
        row=row,
        quiet=int((left & ~busy & runs.recorded).sum()),
        dropped=tuple(dropped),
    )


_FEED = "feed accounting and counters or traces (fairlead ingest, fairlead up) and let the analysis run; see lake info"


def _of_runs(runs: Runs) -> Sequence[tuple[str, Mask]]:
    with np.errstate(invalid="ignore", over="ignore"):
        return (
            ("start or end is not known", ~np.isfinite(runs.start_s) | ~np.isfinite(runs.end_s)),
            ("ended before they began", ~(runs.end_s > runs.start_s)),
            ("number of nodes is not known or below 1", ~(runs.nodes >= 1) | ~np.isfinite(runs.nodes)),
            ("more nodes than any machine has", runs.nodes > MOST_NODES),
            ("cores are negative, or more than nodes have", (runs.cores < 0) | (runs.cores > MOST_CORES * runs.nodes)),
        )


def _of_bursts(runs: Runs, bursts: Bursts) -> Sequence[tuple[str, Mask]]:
    job = bursts.job
    with np.errstate(invalid="ignore", over="ignore"):
        amount = ~np.isfinite(bursts.amount) | (bursts.amount < 0)
        time = ~(bursts.end_s >= bursts.start_s) | ~(bursts.active_s >= 0) | ~np.isfinite(bursts.active_s)
        absurd = bursts.amount > MOST_RATE * np.maximum(bursts.active_s, 1.0)
        outside = (bursts.start_s < runs.start_s[job] - SLACK_S) | (bursts.end_s > runs.end_s[job] + SLACK_S)

    def any_of(bad: Mask) -> Mask:
        return np.bincount(job[bad], minlength=len(runs)) > 0

    return (
        ("a phase has no amount, or a negative one", any_of(amount)),
        ("a phase ends before it begins, or its times are not known", any_of(time)),
        ("a phase moved more than anything can", any_of(absurd)),
        ("a phase lies outside its job", any_of(outside & ~time)),
    )


@dataclass(frozen=True, kw_only=True)
class Phases:
    """P phases one after the other, as a replay takes them: bursts that overlap are one. (P,) each.

    `io_s` seconds something moved; `compute_s` before it, with the pauses inside. `kind` and `request_bytes` are of
    its largest part. `first` (J + 1,): a job's phases; `tail_s` (J,) after the last.
    """

    first: I64
    job: I64
    kind: I64
    compute_s: F64
    io_s: F64
    volume: F64
    operations: F64
    request_bytes: F64
    tail_s: F64


def build_history_phases(runs: Runs, bursts: Bursts) -> Phases:
    """The bursts of sound runs as phases. Metadata beside data belongs to the data."""
    order = np.lexsort((bursts.start_s, bursts.job))
    b = bursts.select_rows(order)
    begin = np.minimum(np.maximum(b.start_s, runs.start_s[b.job]), runs.end_s[b.job])
    end = np.maximum(np.minimum(b.end_s, runs.end_s[b.job]), begin)
    # Running latest end within each job: jobs are set apart by more than the whole span.
    far = float(runs.end_s.max() - runs.start_s.min()) + 1.0
    shift = b.job * far
    latest = np.maximum.accumulate(end + shift)
    new = np.ones(len(b), np.bool_)
    new[1:] = (b.job[1:] != b.job[:-1]) | (begin[1:] + shift[1:] >= latest[:-1])
    at = np.cumsum(new) - 1
    count = int(at[-1]) + 1 if len(at) else 0
    job = b.job[new]
    start, stop = begin[new], np.full(count, -np.inf)
    np.maximum.at(stop, at, end)
    length = stop - start
    data = b.kind != METADATA
    volume = _sums(at, np.where(data, b.amount, 0.0), count)
    operations = _sums(at, np.where(data, 0.0, b.amount), count)
    active = np.minimum(_sums(at, np.where(data | (volume[at] == 0), b.active_s, 0.0), count), length)
    # The largest part of each phase tells what it is like.
    size = np.where(data == (volume[at] > 0), b.amount, -1.0)
    ranked = np.lexsort((size, at))
    main = ranked[np.append(at[ranked][1:] != at[ranked][:-1], True)] if len(at) else ranked
    before = np.zeros(count)
    same = np.zeros(count, np.bool_)
    same[1:] = job[1:] == job[:-1]
    before[1:] = stop[:-1]
    before = np.where(same, before, runs.start_s[job])
    first = np.searchsorted(job, np.arange(len(runs) + 1))
    last = np.where(first[1:] > first[:-1], stop[np.maximum(first[1:] - 1, 0)] if count else 0.0, runs.start_s)
    return Phases(
        first=first.astype(np.int64),
        job=job,
        kind=b.kind[main],
        compute_s=np.maximum(start - before, 0.0) + np.maximum(length - active, 0.0),
        io_s=active,
        volume=volume,
        operations=np.where(volume > 0, 0.0, operations),
        request_bytes=b.request_bytes[main],
        tail_s=np.maximum(runs.end_s - last, 0.0),
    )


@dataclass(frozen=True, kw_only=True)
class History:
    """Jobs to replay and what was measured of them. By job (J,): `io_s` seconds in I/O, `volume` bytes; `basis` and
    `looked` as the curves were found (`Curves.look`)."""

    jobs: Jobs
    io_s: F64
    volume: F64
    looked: CurveLookup


def build_history_jobs(runs: Runs, phases: Phases, curves: Curves) -> History:
    """Jobs in order of their start, with curves as they are known: phases go at the rate a program reaches alone, not
    at the one they had, or contention would be replayed twice."""
    looked = curves.look(runs, phases)
    count = len(runs)
    io_s, volume = _sums(phases.job, phases.io_s, count), _sums(phases.job, phases.volume, count)
    per_node = float(np.nanmedian(runs.cores / runs.nodes)) if np.isfinite(runs.cores).any() else 1.0
    cores = np.where(np.isfinite(runs.cores), runs.cores, runs.nodes * per_node)
    jobs = Jobs(
        start_s=runs.start_s,
        first_phase=phases.first,
        compute_s=phases.compute_s,
        volume=phases.volume,
        operations=phases.operations,
        tail_s=phases.tail_s,
        nodes=runs.nodes.astype(np.int64),
        cores=cores,
        first_node=runs.first_node,
        client_rate=looked.client_rate,
        forwarder_cost=looked.forwarder_cost,
        target_cost=looked.target_cost,
        most_targets=looked.most_targets,
        behaviour=looked.behaviour,
        basis=looked.basis,
        weight=looked.weight,
        phase_rate=looked.phase_rate,
        most_forwarders=looked.most_forwarders,
    )
    jobs.check()
    return History(jobs=jobs, io_s=io_s, volume=volume, looked=looked)


def _sums(at: I64, values: F64, count: int) -> F64:
    return np.bincount(at, values, count).astype(np.float64)
