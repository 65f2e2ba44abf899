"""What another way of doing the same I/O gave on this site: "your N-N runs at this scale get 4.1 times as much".

Pure. From rows of PHASE only, with how many runs it rests on and how sure it is; silent where there are too few. Not
here: when to advise it (`analysis.advice`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.analysis.history.category import compute_category_scale
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column, read_job_code_columns

F64 = NDArray[np.float64]
LEAST_RUNS = 3
MOST_RUNS = 300
"""Of more runs on a side the latest count."""
SURE = 1.96
VOLUME_OCTAVES = 3.0
Choice = str | tuple[float, float]
"""A mode by its word; request bytes or number of targets from the first figure up to below the second."""
ALIKE = (("user", "program", "scale"), ("program", "scale"), ("user", "scale"), ("scale",))
"""Among which runs is looked, in this order, until there are enough both ways."""


@dataclass(frozen=True)
class Gain:
    """`ratio` of rates: with the other way to with this one. `low`, `high`: it lies there in 95 of 100 cases.
    `runs_now`, `runs_then`: runs on each side; `among`: what they have in common."""

    ratio: float
    low: float
    high: float
    runs_now: int
    runs_then: int
    among: tuple[str, ...]

    @property
    def sure(self) -> bool:
        """Whether chance alone does not explain it."""
        return self.low > 1.0


def estimate_expected_gain(
    history: pa.Table, row: Mapping[str, object], what: str, now: Choice, then: Choice
) -> Gain | None:
    """How much faster phases like `row` (values of PHASE by name) are that do `what` (`mode`, `request_bytes`,
    `targets`: how many) as in `then` than as in `now`.

    Only phases of the same kind on the same cluster and of a volume within `VOLUME_OCTAVES` count; a run counts once.
    None where fewer than `LEAST_RUNS` runs did it one way. Raises ValueError for another `what`.
    """
    if what not in ("mode", "request_bytes", "targets"):
        raise ValueError(f"no gain is known from {what}")
    if not history.num_rows:
        return None
    rate = read_float_column(history, "rate_per_s")
    usable = (rate > 0) & np.isfinite(rate) & _same(history, row, "kind") & _same(history, row, "cluster")
    amount = "metadata_ops" if row.get("kind") == "metadata" else "bytes"
    volume = row.get(amount)
    if isinstance(volume, int | float) and volume > 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            usable &= np.abs(np.log2(read_float_column(history, amount) / volume)) <= VOLUME_OCTAVES
    sides = [usable & _chosen(history, what, choice) for choice in (now, then)]
    job, start = read_job_code_columns(history), read_integer_column(history, "start_ns")
    for among in ALIKE:
        alike = np.ones(history.num_rows, np.bool_)
        for name in among:
            alike &= _same(history, row, name)
        rates = [_runs(rate, job, start, np.flatnonzero(side & alike)) for side in sides]
        if min(len(one) for one in rates) >= LEAST_RUNS:
            ratio, low, high = estimate_gain_shift(rates[0], rates[1])
            return Gain(2.0**ratio, 2.0**low, 2.0**high, len(rates[0]), len(rates[1]), among)
    return None


def _same(history: pa.Table, row: Mapping[str, object], name: str) -> NDArray[np.bool_]:
    """Rows alike in `name`; none where it is not known of `row`, except the cluster, which may be the only one."""
    if name == "scale":
        nodes = row.get("nodes_count")
        if not isinstance(nodes, int) or nodes < 1:
            return np.zeros(history.num_rows, np.bool_)
        return np.asarray(
            compute_category_scale(read_float_column(history, "nodes_count"))
            == compute_category_scale(np.array([float(nodes)]))[0]
        )
    value = row.get(name)
    column = history[name].cast(pa.string())
    if value is None:
        return np.asarray(column.is_null()) if name == "cluster" else np.zeros(history.num_rows, np.bool_)
    return np.asarray(pc.equal(column, str(value)).fill_null(False))


def _chosen(history: pa.Table, what: str, choice: Choice) -> NDArray[np.bool_]:
    if isinstance(choice, str):
        return np.asarray(pc.equal(history[what].cast(pa.string()), choice).fill_null(False))
    if what == "targets":
        lengths = pc.list_value_length(history["targets"])
        values = np.asarray(lengths.cast(pa.float64()).fill_null(np.nan).to_numpy(), np.float64)
    else:
        values = read_float_column(history, what)
    return np.asarray((values >= choice[0]) & (values < choice[1]))


def _runs(rate: F64, job: NDArray[np.int64], start: NDArray[np.int64], rows: NDArray[np.intp]) -> F64:
    """log2 of the median rate of each run, of the latest runs."""
    if not len(rows):
        return np.zeros(0)
    runs, at = np.unique(job[rows], return_inverse=True)
    latest = np.full(len(runs), np.iinfo(np.int64).min)
    np.maximum.at(latest, at, start[rows])
    kept = np.lexsort((runs, -latest))[:MOST_RUNS]
    return np.array([float(np.median(np.log2(rate[rows[at == one]]))) for one in kept.tolist()])


def estimate_gain_shift(now: F64, then: F64) -> tuple[float, float, float]:
    """How far `then` lies above `now` (Hodges and Lehmann, 1963) and the interval the rank test leaves at 95 %."""
    apart = np.sort((then[:, None] - now[None, :]).reshape(-1))
    n, m = len(now), len(then)
    reach = SURE * math.sqrt(n * m * (n + m + 1) / 12)
    edge = max(int(n * m / 2 - reach), 0)
    return float(np.median(apart)), float(apart[edge]), float(apart[-1 - edge])
