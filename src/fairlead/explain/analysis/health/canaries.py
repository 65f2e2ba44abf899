"""What canaries saw: tiny timed reads, writes and metadata operations, against what is usual for them.

Pure. A canary is one request after the other: its rate says nothing of a component's peak under load, but much of
whether it is as fast as ever, also when nobody else asks. Not here: making them (`fairlead.see.probes.canary`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.component_flows import Axis, Floats
from fairlead.explain.analysis.health.class_peaks import CANARY as BASIS
from fairlead.explain.analysis.health.class_peaks import Peak

CANARY = "canary"
"""The source of rows that canaries make."""
LEAST = 5
"""Tries from which is learnt what is usual."""
_REMEMBERED = ("getattr",)
"""Operations that a client may answer from memory: they tell nothing of the server."""


def compute_canary_rates(
    canaries: Mapping[str, pa.Table], kind: str, components: tuple[str, ...], axis: Axis, per: int
) -> Floats | None:
    """(components, windows): the rate of a component's canaries over what is usual, the worst of its kinds of
    operation; NaN where none was made, None without any.

    Usual is the upper quartile of a component's own tries, or the median of its class's when that is more: so one that
    was always slow is seen beside the others. A row's `interval_ns` is the time its try took.
    """
    table = _tries(canaries, kind)
    if table is None:
        return None
    place = {name: number for number, name in enumerate(components)}
    who = np.array([place.get(name, -1) for name in table["target"].cast(pa.string()).to_pylist()], np.int64)
    window = (table["ts_ns"].to_numpy() - 1 - axis.start_ns) // (axis.window_ns * per)
    seconds = table["interval_ns"].to_numpy() / NS_PER_S
    windows = axis.count // per
    out = np.full((len(components), windows), np.nan)
    for amount in _amounts(table, kind):
        rate = amount / seconds
        good = (who >= 0) & np.isfinite(rate) & (rate > 0)
        best = _usual(who, rate, good, len(components))
        inside = good & (window >= 0) & (window < windows)
        for component, w in sorted(set(zip(who[inside].tolist(), window[inside].tolist(), strict=True))):
            mine = inside & (who == component) & (window == w)
            out[component, w] = np.fmin(out[component, w], float(np.median(rate[mine])) / best[component])
    return out


def find_canary_peaks(canaries: Mapping[str, pa.Table]) -> dict[tuple[str, str], Peak]:
    """The best rate a canary saw at each target: less than its peak under load, but known when nobody else asks."""
    table = _tries(canaries, "target")
    if table is None:
        return {}
    names = table["target"].cast(pa.string()).to_pylist()
    seconds = table["interval_ns"].to_numpy() / NS_PER_S
    best: dict[tuple[str, str], float] = {}
    for amount in _amounts(table, "target"):
        for name, rate in zip(names, (amount / seconds).tolist(), strict=True):
            if rate > best.get(("target", name), 0.0):
                best[("target", name)] = rate
    return {who: Peak(bytes_per_s=rate, basis=BASIS) for who, rate in best.items()}


def _tries(canaries: Mapping[str, pa.Table], kind: str) -> pa.Table | None:
    """Rows of tries that took a time; None without any."""
    table = canaries.get({"target": "target", "mds": "metadata"}.get(kind, ""))
    if table is None or "source" not in table.schema.names:
        return None
    table = table.filter(
        pc.and_(
            pc.equal(table["source"].cast(pa.string()), CANARY), pc.greater(pc.fill_null(table["interval_ns"], 0), 0)
        )
    )
    return table if table.num_rows else None


def _amounts(table: pa.Table, kind: str) -> list[Floats]:
    """Bytes, or operations, of each row by kind of operation; NaN where a row is of another."""
    if kind == "target":
        columns = [pc.fill_null(table[name], 0).to_numpy().astype(np.float64) for name in ("read_bytes", "write_bytes")]
        return [np.where(values > 0, values, np.nan) for values in columns]
    words = np.array(table["op"].cast(pa.string()).to_pylist(), object)
    count = table["count"].to_numpy().astype(np.float64)
    return [np.where(words == word, count, np.nan) for word in sorted(set(words.tolist()) - set(_REMEMBERED))]


def _usual(who: np.ndarray, rate: Floats, good: np.ndarray, components: int) -> Floats:
    own = np.full(components, np.nan)
    for component in range(components):
        mine = rate[good & (who == component)]
        if len(mine) >= LEAST:
            own[component] = float(np.quantile(mine, 0.75))
    known = own[np.isfinite(own)]
    return np.fmax(own, float(np.median(known))) if len(known) >= 3 else own
