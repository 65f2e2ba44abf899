"""What runs like one got: its phases beside those of the same category, on the first rung that has enough of them.

Not here: whether a phase was abnormal (columns of `phase`, made by diagnosis).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.explain.analysis.history.category import LADDER, NONE, compute_categories
from fairlead.explain.questions.answers_diagnosis import RunLike, Usual
from fairlead.explain.questions.lake_queries import Tables
from fairlead.explain.questions.past_phases import read_past_phases

ENOUGH = 2
"""Where a category has fewer others, the next more general one is looked at."""
SHOWN = 60


def compare_with_usual(lake: Tables, phases: pa.Table) -> list[Usual]:
    """For each kind of `phases` (rows of PHASE of one job) its longest one, beside the latest others like it."""
    if not phases.num_rows:
        return []
    history = read_past_phases(lake, phases)
    pool = pa.concat_tables([phases, history]).unify_dictionaries()
    codes = compute_categories(pool)
    made = []
    kinds = phases["kind"].cast(pa.string())
    for kind in sorted(set(kinds.to_pylist())):
        rows = np.flatnonzero(pc.equal(kinds, kind).to_numpy(zero_copy_only=False))
        active = phases["active_ns"].to_numpy()[rows]
        one = int(rows[int(np.argmax(active))])
        made.append(_usual(pool, codes, one, phases.num_rows, kind))
    return made


def _usual(pool: pa.Table, codes: Any, one: int, own: int, kind: str) -> Usual:
    place = np.arange(pool.num_rows)
    chosen, like = np.zeros(0, np.int64), ""
    for rung, code in zip(LADDER, codes, strict=True):
        if code[one] == NONE:
            continue
        others = np.flatnonzero((code == code[one]) & (place >= own))
        if len(others) > len(chosen):
            chosen, like = others, rung.name
        if len(chosen) >= ENOUGH:
            break
    rates = pool["rate_per_s"].cast(pa.float64()).to_numpy()[chosen] if len(chosen) else np.zeros(0)
    rates = rates[~np.isnan(rates)]
    low, middle, high = np.quantile(rates, (0.25, 0.5, 0.75)).tolist() if len(rates) else (None, None, None)
    rows = pool.take(pa.array([*chosen[-SHOWN:], one], pa.int64())).to_pylist()
    runs = [_run(row, this=at == len(rows) - 1) for at, row in enumerate(rows)]
    return Usual(kind=kind, runs=runs, rate_p25=low, rate_p50=middle, rate_p75=high, like=like)


def _run(row: Mapping[str, Any], *, this: bool) -> RunLike:
    return RunLike(
        job_id=row["job_id"],
        start_ns=row["start_ns"],
        kind=row["kind"],
        seconds=row["active_ns"] / 1e9,
        amount=row["metadata_ops"] if row["kind"] == "metadata" else row["bytes"],
        rate_per_s=row["rate_per_s"],
        nodes_count=row["nodes_count"],
        this=this,
    )
