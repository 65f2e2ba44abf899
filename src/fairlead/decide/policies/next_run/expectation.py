"""From rows of past runs to what is expected of a job: its own category first, then what is nearest to it.

Ladder: runs of the same user's program on as many nodes that behave as the next is predicted to; the same program on
another number of nodes, scaled; runs on as many nodes by anybody; nothing. Pure. Not here: reading rows (`questions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.decide.policies.next_run.behaviours import classify_run_behaviours, compute_behaviour_figures
from fairlead.decide.policies.next_run.contract import Category, Predictor
from fairlead.decide.policies.next_run.ngram import NGram
from fairlead.decide.policies.paths.contract import UNKNOWN_MODE, ExpectedJob
from fairlead.explain.analysis.history.category import compute_category_scale

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
NS = 1e9
LATEST = 10
"""Of the runs an expectation rests on, the latest count."""
TAUGHT = 500
"""An own predictor is taught so many of the latest runs of the category."""
REACHED = 0.75
"""What a job reaches alone: this quantile of the bandwidths it had, since others only ever slow it down."""
NUMBERS = (
    "start_ns",
    "end_ns",
    "nodes_count",
    "cores",
    "processes",
    "io_processes",
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "metadata_ops",
    "read_bandwidth_bytes_per_s",
    "write_bandwidth_bytes_per_s",
    "iops",
    "mdops_in_phases",
    "files",
    "phases",
    "made_ns",
)
WORDS = ("job_id", "user", "program", "read_mode", "write_mode")
LISTS = ("forwarders", "targets")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is known of a job when it arrives. `start_ns`: only runs that ended by then count (None: all)."""

    job_id: str
    user: str = ""
    program: str = ""
    node_count: int = 1
    node_ids: tuple[int, ...] = ()
    cores: float = 0.0
    processes: int | None = None
    start_ns: int | None = None

    @property
    def category(self) -> Category:
        """User, program, nodes rounded to a power of two."""
        return self.user, self.program, int(compute_category_scale(np.array([float(self.node_count)]))[0])


@dataclass(frozen=True)
class Past:
    """R past runs as columns, in the order they ended. `numbers` by name (R,), NaN not known; `words`; `granted`: how
    many forwarders and targets each had, NaN not known."""

    numbers: Mapping[str, F64]
    words: Mapping[str, list[str]]
    granted: Mapping[str, F64]
    _behaviours: dict[Category, tuple[I64, I64]] = field(default_factory=dict, compare=False)

    @staticmethod
    def from_rows(runs: pa.Table) -> Past:
        """From rows of JOB_SUMMARY, or of any table with some of its columns (see NUMBERS, WORDS, LISTS). Of rows that
        tell of one run that made last counts; runs whose end is not known do not."""
        here = set(runs.column_names)
        numbers = {name: _floats(runs, name, name in here) for name in NUMBERS}
        words = {name: _words(runs, name, name in here) for name in WORDS}
        granted = {name: _lengths(runs, name, name in here) for name in LISTS}
        latest: dict[tuple[str, float], int] = {}
        for at in np.argsort(np.nan_to_num(numbers["made_ns"]), kind="stable").tolist():
            if not np.isnan(numbers["end_ns"][at]):
                key = (words["job_id"][at], float(numbers["start_ns"][at])) if words["job_id"][at] else ("", float(at))
                latest[key] = at
        rows = np.array(sorted(latest.values(), key=lambda at: (numbers["end_ns"][at], at)), np.int64)
        return Past(
            {name: values[rows] for name, values in numbers.items()},
            {name: [values[at] for at in rows.tolist()] for name, values in words.items()},
            {name: values[rows] for name, values in granted.items()},
        )

    def __len__(self) -> int:
        """R."""
        return len(self.words["job_id"])

    @cached_property
    def scale(self) -> I64:
        """(R,) nodes rounded to a power of two."""
        return np.asarray(compute_category_scale(self.numbers["nodes_count"]), np.int64)

    @cached_property
    def by_program(self) -> dict[tuple[str, str], I64]:
        """Rows of each (user, program), as they ended; those without a name in none."""
        found: dict[tuple[str, str], list[int]] = {}
        for at, key in enumerate(zip(self.words["user"], self.words["program"], strict=True)):
            if key[0] and key[1]:
                found.setdefault(key, []).append(at)
        return {key: np.array(rows, np.int64) for key, rows in found.items()}

    @cached_property
    def figures(self) -> F64:
        """(R, 4) see `behaviours.compute_behaviour_figures`."""
        get = self.numbers
        return compute_behaviour_figures(get["read_bytes"], get["write_bytes"], get["metadata_ops"], get["phases"])

    @cached_property
    def io_s(self) -> F64:
        """(R,) seconds of I/O: bytes over the mean bandwidth of phases, reading and writing; NaN where not known."""
        total = np.zeros(len(self))
        for way in ("read", "write"):
            moved, rate = self.numbers[f"{way}_bytes"], self.numbers[f"{way}_bandwidth_bytes_per_s"]
            with np.errstate(divide="ignore", invalid="ignore"):
                total += np.where(moved > 0, np.where(rate > 0, moved / rate, np.nan), 0.0)
        volume = np.nan_to_num(self.numbers["read_bytes"]) + np.nan_to_num(self.numbers["write_bytes"])
        return np.where(volume > 0, total, np.nan)

    @cached_property
    def by_scale(self) -> dict[int, I64]:
        """Rows of each number of nodes rounded to a power of two."""
        return {int(one): np.flatnonzero(self.scale == one).astype(np.int64) for one in np.unique(self.scale)}

    def classify_category(self, category: Category) -> tuple[I64, I64]:
        """Rows of a category as they ended, and their behaviours. Numbers never change as runs are added, so the first
        of them are what was known at any earlier time."""
        if category not in self._behaviours:
            mine = self.by_program.get(category[:2], np.zeros(0, np.int64))
            rows = mine[self.scale[mine] == category[2]]
            ended = np.arange(len(rows), dtype=np.float64)
            self._behaviours[category] = (
                rows,
                classify_run_behaviours([category] * len(rows), self.figures[rows], ended),
            )
        return self._behaviours[category]


def build_next_run_expectation(runs: pa.Table | Past, job: Job, predictor: Predictor | None = None) -> ExpectedJob:
    """What to expect of `job`. `predictor`: one that has observed the behaviours of these runs as they ended; without
    one an `NGram` is taught those of the job's own category. Build `Past.from_rows(runs)` once for many jobs."""
    past = runs if isinstance(runs, Past) else Past.from_rows(runs)
    known = len(past)
    if job.start_ns is not None:
        known = int(np.searchsorted(past.numbers["end_ns"], job.start_ns, side="right"))
    facts = ExpectedJob(
        job_id=job.job_id,
        user=job.user,
        program=job.program,
        node_count=job.node_count,
        node_ids=job.node_ids,
        cores=job.cores,
        processes=job.processes,
    )
    mine = past.by_program.get((job.user, job.program), np.zeros(0, np.int64))
    mine = mine[mine < known]
    category = job.category
    own, behaviours = past.classify_category(category)
    own = own[own < known]
    if len(own):
        return _own(past, own, behaviours[: len(own)], job, facts, predictor)
    if len(mine):
        return _scaled(past, mine, job, facts)
    alike = past.by_scale.get(category[2], np.zeros(0, np.int64))
    alike = alike[alike < known][-LATEST * 10 :]
    if not len(alike):
        return facts
    basis = f"never seen; as {len(alike)} runs of others on about {category[2]} nodes"
    return _filled(past, alike, facts, 0, basis)


def _own(
    past: Past, own: I64, behaviours: I64, job: Job, facts: ExpectedJob, predictor: Predictor | None
) -> ExpectedJob:
    category = job.category
    if predictor is None:
        predictor = NGram()
        predictor.observe(category, behaviours[-TAUGHT:].tolist())
    answer = predictor.predict(category)
    rows = own if answer.behaviour is None else own[behaviours == answer.behaviour]
    told = f"behaviour {answer.behaviour}, {answer.basis}"
    if not len(rows):
        rows, told = own[-1:], "the last run"
    used = min(len(rows), LATEST)
    basis = f"{used} of {len(own)} runs on about {category[2]} nodes ({told}){_age(past, rows, job)}"
    return _filled(past, rows[-LATEST:], facts, len(own), basis)


def _scaled(past: Past, mine: I64, job: Job, facts: ExpectedJob) -> ExpectedJob:
    """From the runs on the nearest number of nodes. Volumes grow with the nodes as they did between the scales that
    were seen; with one scale seen in proportion, and not at all where one process does the I/O."""
    nodes = past.numbers["nodes_count"][mine]
    mine, nodes = mine[nodes >= 1], nodes[nodes >= 1]
    if not len(mine):
        return facts
    apart = np.abs(np.log2(nodes / max(job.node_count, 1)))
    near = mine[past.scale[mine] == past.scale[mine[int(np.argmin(apart))]]][-LATEST:]
    from_nodes = float(np.median(past.numbers["nodes_count"][near]))
    volume = np.nan_to_num(past.numbers["read_bytes"][mine]) + np.nan_to_num(past.numbers["write_bytes"][mine])
    usable = volume > 0
    if len(np.unique(past.scale[mine[usable]])) > 1:
        slope = float(np.clip(np.polyfit(np.log2(nodes[usable]), np.log2(volume[usable]), 1)[0], 0.0, 1.0))
        how = f"growing as nodes^{slope:.2f}, as seen"
    else:
        slope = 0.0 if _mode(past, near) == "1-1" else 1.0
        how = "the same, one process does the I/O" if slope == 0 else "in proportion to nodes"
    wider = job.node_count / from_nodes
    basis = f"{len(near)} runs on about {from_nodes:.0f} nodes, {how}{_age(past, near, job)}"
    return _filled(past, near, facts, len(mine), basis, volume=wider**slope, wider=wider)


def _filled(
    past: Past, rows: I64, facts: ExpectedJob, runs: int, basis: str, *, volume: float = 1.0, wider: float = 1.0
) -> ExpectedJob:
    """Medians of `rows`. Bytes times `volume`; what each node or process adds times `wider`, where more than one do."""
    get = {name: values[rows] for name, values in past.numbers.items()}
    moved = np.nan_to_num(get["read_bytes"]) + np.nan_to_num(get["write_bytes"])
    operations = np.nan_to_num(get["read_ops"]) + np.nan_to_num(get["write_ops"])
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(moved > 0, moved / past.io_s[rows], np.nan)
        request = np.where(operations > 0, moved / operations, np.nan)
        each = np.where((get["files"] > 0) & (moved > 0), moved / get["files"], np.nan)
    mode = _mode(past, rows)
    wide = 1.0 if mode == "1-1" else wider
    more_files = wide if mode in ("N-N", "N-M") else 1.0
    seconds = (get["end_ns"] - get["start_ns"]) / NS - past.io_s[rows]
    files, file_bytes = _median(get["files"], more_files), _median(each, volume / more_files)
    layers = ("forwarders", "targets")
    curves = [_curve(past, rows, rate, layer) if wider == 1.0 else () for layer in layers]
    return replace(
        facts,
        mode=mode,
        read_bytes=_median(get["read_bytes"], volume),
        runs_known=runs,
        basis=basis,
        write_bytes=_median(get["write_bytes"], volume),
        io_processes=_whole(_median(get["io_processes"], wide)),
        processes=facts.processes or _whole(_median(get["processes"], wider)),
        compute_s=_median(np.maximum(seconds, 0.0), 1.0),
        iops=_median(get["iops"], wide),
        mdops=_median(get["mdops_in_phases"], wide),
        bandwidth_bytes_per_s=_reached(rate, more_files),
        request_bytes=_median(request, 1.0),
        files=None if files is None else round(files),
        file_bytes=file_bytes,
        offset_difference_bytes=file_bytes if mode == "N-1" else None,
        forwarder_curve=curves[0],
        target_curve=curves[1],
    )


def _mode(past: Past, rows: I64) -> str:
    """How the runs share files: by the way that moves more bytes, the word most of them have."""
    ways = {way: np.nansum(past.numbers[f"{way}_bytes"][rows]) for way in ("write", "read")}
    for way in sorted(ways, key=lambda one: -ways[one]):
        told = [word for at in rows.tolist() if (word := past.words[f"{way}_mode"][at])]
        if told:
            return str(max(sorted(set(told)), key=told.count))
    return UNKNOWN_MODE


def _curve(past: Past, rows: I64, rate: F64, layer: str) -> tuple[tuple[int, float], ...]:
    """Bytes/s by how many it had; only where it was seen with different numbers, since one point is no curve."""
    had = past.granted[layer][rows]
    usable = (had > 0) & (rate > 0) & np.isfinite(rate)
    counts = np.unique(had[usable])
    if len(counts) < 2:
        return ()
    points = ((int(count), _reached(rate[usable & (had == count)], 1.0)) for count in counts)
    return tuple((count, reached) for count, reached in points if reached is not None)


def _median(values: F64, factor: float) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) * factor if len(known) else None


def _reached(values: F64, factor: float) -> float | None:
    known = values[np.isfinite(values) & (values > 0)]
    return float(np.quantile(known, REACHED)) * factor if len(known) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else max(round(value), 1)


def _age(past: Past, rows: I64, job: Job) -> str:
    if job.start_ns is None:
        return ""
    days = (job.start_ns - float(past.numbers["end_ns"][rows[-1]])) / NS / 86_400
    return f", the last {days:.1f} days ago"


def _floats(table: pa.Table, name: str, here: bool) -> F64:
    if not here:
        return np.full(table.num_rows, np.nan)
    values = np.array(table[name].cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(), np.float64)
    # What cannot be (a counter that ran backwards) is not known; it is not taken for 0.
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def _words(table: pa.Table, name: str, here: bool) -> list[str]:
    return [word or "" for word in table[name].cast(pa.string()).to_pylist()] if here else [""] * table.num_rows


def _lengths(table: pa.Table, name: str, here: bool) -> F64:
    if not here:
        return np.full(table.num_rows, np.nan)
    import pyarrow.compute as pc

    return np.array(pc.list_value_length(table[name]).cast(pa.float64()).fill_null(np.nan).to_numpy(), np.float64)
