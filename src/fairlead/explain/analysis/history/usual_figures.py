"""What earlier runs of the same user's program on as many nodes asked for: to tell whether a phase was slow because the
job itself asked for something else.

Pure, over PHASE. Not here: how fast they went (`anomalies.expectation`), the verdict (`analysis.interference`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairlead.explain.analysis.history.category import LADDER, NONE, code_category_fields, combine_category_fields
from fairlead.explain.analysis.table_columns import read_float_column

LEAST_RUNS = 3
"""Of fewer earlier runs nothing is called usual."""
COMMON = 0.8
"""A way of sharing files is usual when so many of the phases that tell one share them so."""
_RUNG = next(rung for rung in LADDER if rung.fields == ("place", "user", "program", "scale", "kind"))


@dataclass(frozen=True)
class UsualFigures:
    """Medians over runs: bytes of a request, metadata operations of a phase of reading or writing; how files are
    shared. None: not known, or there is no such thing as usual."""

    request_bytes: float | None = None
    metadata_ops: float | None = None
    mode: str | None = None


def compute_usual_figures(phases: pa.Table, row: int, history: pa.Table) -> UsualFigures:
    """What phases of `history` like that in `row` of `phases` asked for: those of other runs that began before it, each
    run counted once."""
    one = phases.slice(row, 1)
    both = pa.concat_tables([one, history]).unify_dictionaries()
    fields = code_category_fields(both)
    code = combine_category_fields([fields[name] for name in _RUNG.fields], [fields[name] for name in _RUNG.needed])
    if code[0] == NONE:
        return UsualFigures()
    alike = np.flatnonzero(code == code[0])
    alike = alike[both["start_ns"].to_numpy()[alike] < one["start_ns"][0].as_py()]
    runs = [(both["job_id"][int(at)].as_py(), both["job_start_ns"][int(at)].as_py()) for at in alike]
    own = (one["job_id"][0].as_py(), one["job_start_ns"][0].as_py())
    by_run: dict[object, list[int]] = {}
    for run, at in zip(runs, alike.tolist(), strict=True):
        if run != own:
            by_run.setdefault(run, []).append(at)
    if len(by_run) < LEAST_RUNS:
        return UsualFigures()
    groups = list(by_run.values())
    figures = {name: _middle(read_float_column(both, name), groups) for name in ("request_bytes", "metadata_ops")}
    modes = both["mode"].cast(pa.string())
    told = [word for group in groups for at in group if (word := modes[at].as_py()) is not None]
    word, count = Counter(sorted(told)).most_common(1)[0] if told else (None, 0)
    return UsualFigures(
        request_bytes=figures["request_bytes"],
        metadata_ops=None if one["kind"][0].as_py() == "metadata" else figures["metadata_ops"],
        mode=word if len(told) >= LEAST_RUNS and count >= COMMON * len(told) else None,
    )


def _middle(values: np.ndarray, groups: list[list[int]]) -> float | None:
    """The median over runs of the median over the phases of each; None where fewer than `LEAST_RUNS` tell it."""
    each = [float(np.median(mine[~np.isnan(mine)])) for group in groups if not np.isnan(mine := values[group]).all()]
    return float(np.median(each)) if len(each) >= LEAST_RUNS else None
