"""Runs like this one: nearest in volume, requests, modes, phases, processes and metadata rate, whatever their name.

Pure, in columns of JOB_SUMMARY. Not here: categories by name (`category`), which were slow (`analysis.anomalies`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column

F64 = NDArray[np.float64]
RATIOS = (
    "read_bytes",
    "write_bytes",
    "read_request_bytes",
    "write_request_bytes",
    "phases",
    "processes",
    "mdops_in_phases",
    "seconds",
)
"""Compared as ratios: a factor of two is a distance of 1."""
MODES = ("read_mode", "write_mode")
OTHER_MODE = 2.0
"""Another mode is as far as a factor of four."""
LEAST_SHARED = 3
"""Runs of which fewer figures are known on both sides are not compared."""


@dataclass(frozen=True)
class SimilarRun:
    """A run like the one asked for. `row` in the table; `distance`: root mean square over what is known of both, in
    doublings; `differs`: by figure how many doublings it has more (a mode: the word), largest first; `shared` figures
    were compared."""

    row: int
    job_id: str
    start_ns: int | None
    user: str | None
    program: str | None
    distance: float
    shared: int
    differs: dict[str, float | str]

    @property
    def text(self) -> str:
        """Why it is alike, for people."""
        parts = [_told(name, value) for name, value in list(self.differs.items())[:3] if _matters(value)]
        return "alike in everything known of both" if not parts else "alike but for " + ", ".join(parts)


def _matters(value: float | str) -> bool:
    return isinstance(value, str) or abs(value) >= 0.5


def _told(name: str, value: float | str) -> str:
    plain = name.removesuffix("_bytes").replace("_", " ")
    if isinstance(value, str):
        return f"{plain} {value}"
    return f"{2.0 ** abs(value):.1f}x {'more' if value > 0 else 'less'} {plain}"


def find_similar_runs(summaries: pa.Table, row: int, most: int = 20) -> list[SimilarRun]:
    """The `most` runs of `summaries` (JOB_SUMMARY) nearest to that in `row`, other than itself, nearest first. Where
    little is known of both, the distance is larger than it looks: half a doubling is added for each unknown share."""
    total, shared = np.zeros(summaries.num_rows), np.zeros(summaries.num_rows)
    asked = 0
    apart: dict[str, F64] = {}
    for name in RATIOS:
        values = _figure(summaries, name)
        if np.isnan(values[row]):
            continue
        asked += 1
        apart[name] = values - values[row]
        known = ~np.isnan(values)
        total += np.where(known, apart[name], 0.0) ** 2
        shared += known
    for name in MODES:
        wanted = summaries[name][row].as_py()
        if wanted is None:
            continue
        asked += 1
        same = pc.equal(summaries[name], pa.scalar(wanted, summaries[name].type))
        value = np.asarray(same.cast(pa.float64()).fill_null(np.nan).to_numpy())
        total += np.where(value == 0, OTHER_MODE**2, 0.0)
        shared += ~np.isnan(value)
    enough = shared >= min(LEAST_SHARED, max(asked, 1))
    distance = np.sqrt(total / np.maximum(shared, 1)) + 0.5 * (1 - shared / max(asked, 1))
    distance[~enough] = np.inf
    distance[_of_run(summaries, row)] = np.inf
    return [_alike(summaries, at, distance, shared, apart, row) for at in _nearest(summaries, distance, most)]


def _of_run(summaries: pa.Table, row: int) -> NDArray[np.bool_]:
    """Rows that tell of the same run."""
    own = np.ones(summaries.num_rows, np.bool_)
    for name in ("job_id", "cluster", "start_ns"):
        column, value = summaries[name], summaries[name][row]
        match = pc.equal(column, value).fill_null(False) if value.is_valid else column.is_null()
        own &= np.asarray(match)
    return own


def _figure(summaries: pa.Table, name: str) -> F64:
    """log2 of a figure, NaN where not known. None moved is 1, as far below one byte as it can be told."""
    if name == "seconds":
        start, end = read_integer_column(summaries, "start_ns", -1), read_integer_column(summaries, "end_ns", -1)
        values = np.where((start >= 0) & (end > start), (end - start) / 1e9, np.nan)
    elif name.endswith("request_bytes"):
        way = name.partition("_")[0]
        moved, operations = read_float_column(summaries, f"{way}_bytes"), read_float_column(summaries, f"{way}_ops")
        values = np.where(operations > 0, moved / np.maximum(operations, 1.0), np.nan)
    else:
        values = read_float_column(summaries, name)
    return np.asarray(np.log2(np.maximum(values, 1.0)))


def _nearest(summaries: pa.Table, distance: F64, most: int) -> list[int]:
    reachable = int(np.isfinite(distance).sum())
    count = min(most, reachable)
    if count <= 0:
        return []
    bound = np.partition(distance, count - 1)[count - 1]
    near = np.flatnonzero(distance <= bound)
    ids = summaries["job_id"].take(pa.array(near)).to_pylist()
    starts = read_integer_column(summaries.take(pa.array(near)), "start_ns", -1)
    order = sorted(range(len(near)), key=lambda i: (distance[near[i]], -int(starts[i]), str(ids[i])))
    return [int(near[i]) for i in order[:count]]


def _alike(summaries: pa.Table, at: int, distance: F64, shared: F64, apart: dict[str, F64], row: int) -> SimilarRun:
    differs: dict[str, float | str] = {
        name: float(values[at]) for name, values in apart.items() if not np.isnan(values[at])
    }
    ordered: dict[str, float | str] = {}
    for name in MODES:
        wanted, got = summaries[name][row].as_py(), summaries[name][at].as_py()
        if wanted is not None and got is not None and wanted != got:
            ordered[name] = str(got)
    ordered |= dict(sorted(differs.items(), key=lambda item: (-abs(float(item[1])), item[0])))
    one = {name: summaries[name][at].as_py() for name in ("job_id", "start_ns", "user", "program")}
    return SimilarRun(row=at, distance=float(distance[at]), shared=int(shared[at]), differs=ordered, **one)
