"""How busy metadata servers are, as a distribution (Beacon: Yang et al., ACM TOS 2023, section 7).

Rollup rows in, a small table out. Not here: jobs (`job_population`), reading a lake.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.table_columns import read_float_column

MINUTE_NS = 60 * NS_PER_S
EDGES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_VALUES = ("read_bytes", "write_bytes", "metadata_ops")


def _sum_minutes(rollup: pa.Table, kind: str, layer: str) -> pa.Table:
    """`id`, `ts_ns` and sums of components of a kind, of the whole (not of parts by job)."""
    chosen = (
        (pc.field("interval_ns") == MINUTE_NS)
        & (pc.field("kind") == kind)
        & (pc.field("layer") == layer)
        & pc.field("job_id").is_null()
    )
    rows = rollup.filter(chosen)
    flat = pa.table({"id": rows["id"].cast(pa.string()), **{n: rows[n] for n in ("ts_ns", *_VALUES)}})
    found = flat.group_by(["id", "ts_ns"]).aggregate([(name, "sum") for name in _VALUES])
    return found.rename_columns(["id", "ts_ns", *_VALUES]).sort_by([("id", "ascending"), ("ts_ns", "ascending")])


def compute_metadata_load(
    rollup: pa.Table, peak_ops_per_s: float, *, watched: int | None = None, edges: Sequence[float] = EDGES
) -> pa.Table:
    """Share of server-minutes at or below each share of the peak (`edges`): `utilisation`, `share`, `share_above` (the
    rest; both null without any minute), `minutes`. At the published site, 26.8 % of the minutes were above 75 %.

    `watched`: server-minutes that were monitored; those without rows count as idle. None: only minutes with rows count,
    which makes servers look busier than they are.
    """
    rate = (
        read_float_column(_sum_minutes(rollup, "mds", "metadata"), "metadata_ops")
        / (MINUTE_NS / NS_PER_S)
        / peak_ops_per_s
    )
    rate = rate[~np.isnan(rate)]
    idle = max(0, (watched or 0) - len(rate))
    known = len(rate) + idle
    below = [float(((rate <= edge).sum() + idle) / known) if known else None for edge in edges]
    return pa.table(
        {
            "utilisation": pa.array(list(edges), pa.float64()),
            "share": pa.array(below, pa.float64()),
            "share_above": pa.array([None if one is None else 1.0 - one for one in below], pa.float64()),
            "minutes": pa.array([known] * len(edges), pa.int64()),
        }
    )
