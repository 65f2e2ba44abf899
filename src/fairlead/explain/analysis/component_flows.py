"""Interval records of forwarders and targets as arrays: one `Flow` a component, by job and window.

Pure. Not here: what a person is told (`culprits`), which record means what (`fairlead.core.model.tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.histogram_bins import compute_bin_middles_ns
from fairlead.core.model.unit_formats import NS_PER_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_JOB = ""
"""Name of the load whose job is not known. It can be a victim, it is never accused."""
METADATA = "metadata"
_MAX_WINDOWS = 200_000


@dataclass(frozen=True)
class Axis:
    """Windows of equal length: window k is [start_ns + k * window_ns, start_ns + (k + 1) * window_ns)."""

    start_ns: int
    window_ns: int
    count: int

    @property
    def window_s(self) -> float:
        """Length of a window in seconds."""
        return self.window_ns / NS_PER_S

    def from_ns(self, first: int) -> int:
        """When a window begins."""
        return self.start_ns + first * self.window_ns

    def to_ns(self, last: int) -> int:
        """When a window ends."""
        return self.start_ns + (last + 1) * self.window_ns


@dataclass(frozen=True)
class Flow:
    """What jobs asked of one forwarder or target. Arrays have the shape (jobs, windows), seconds are sums over
    requests."""

    name: str
    axis: Axis
    jobs: tuple[str, ...]
    requests: Floats
    bytes: Floats
    metadata: Floats
    """Requests that were metadata operations."""
    wait_s: Floats
    service_s: Floats
    wait_p50_s: Floats
    wait_p90_s: Floats
    """Quantiles of the waits in a window; NaN where there was no request."""

    def find_row(self, job: str) -> int | None:
        """Index of a job, None when it asked nothing of this component."""
        return self.jobs.index(job) if job in self.jobs else None


def _middle_ns(table: pa.Table) -> pa.ChunkedArray:
    """The middle of each row's interval: a row is dated by its end."""
    return pc.subtract(table["ts_ns"], pc.divide(pc.fill_null(table["interval_ns"], 0), 2))


def build_component_flow_axis(tables: Sequence[pa.Table], window_ns: int = NS_PER_S) -> Axis | None:
    """Windows that hold every interval of `tables` (rows of `forwarder`, `target`); None without rows."""
    spans = [pc.min_max(_middle_ns(table)).as_py() for table in tables if table.num_rows]
    if not spans:
        return None
    start = min(span["min"] for span in spans) // window_ns * window_ns
    count = (max(span["max"] for span in spans) - start) // window_ns + 1
    if count > _MAX_WINDOWS:
        window_ns *= -(-count // _MAX_WINDOWS)
        count = (max(span["max"] for span in spans) - start) // window_ns + 1
    return Axis(start, window_ns, count)


def build_forwarder_flows(table: pa.Table, axis: Axis, edges_ns: Floats) -> list[Flow]:
    """One flow a forwarding node, sorted by name. `edges_ns`: bounds of the bins of the histograms, one more than
    there are bins."""
    table = table.filter(pc.is_valid(table["requests"]))  # others tell the queue's length only
    if not table.num_rows:
        return []
    classes = _words(table["op_class"])
    requests, sizes = _numbers(table, "requests"), _numbers(table, "bytes")
    wait, service = (_histograms(table[name], len(edges_ns) - 1) for name in ("wait_ns_histogram", _SERVICE))
    return _flows(table, "node", axis, edges_ns, requests, sizes, requests * (classes == METADATA), wait, service)


def build_target_flows(table: pa.Table, axis: Axis, edges_ns: Floats) -> list[Flow]:
    """One flow a storage target, sorted by name. Targets know service times only: waits are zero."""
    if not table.num_rows:
        return []
    requests = _numbers(table, "read_rpcs") + _numbers(table, "write_rpcs")
    sizes = _numbers(table, "read_bytes") + _numbers(table, "write_bytes")
    service = _histograms(table[_SERVICE], len(edges_ns) - 1)
    nothing = np.zeros_like(requests)
    return _flows(table, "target", axis, edges_ns, requests, sizes, nothing, np.zeros_like(service), service)


_SERVICE = "service_ns_histogram"


def _flows(
    table: pa.Table,
    key: str,
    axis: Axis,
    edges_ns: Floats,
    requests: Floats,
    sizes: Floats,
    metadata: Floats,
    wait: Floats,
    service: Floats,
) -> list[Flow]:
    names, jobs = _words(table[key]), _words(table["job_id"])
    window = (_middle_ns(table).to_numpy() - axis.start_ns) // axis.window_ns
    inside = (window >= 0) & (window < axis.count)
    flows = []
    for name in sorted(set(names[inside].tolist())):
        mine = inside & (names == name)
        found = tuple(sorted(set(jobs[mine].tolist())))
        cell = np.searchsorted(np.array(found, object), jobs[mine]) * axis.count + window[mine]
        shape = (len(found), axis.count)
        waits = _summed(wait[mine], cell, shape)
        flows.append(
            Flow(
                name,
                axis,
                found,
                _added(requests[mine], cell, shape),
                _added(sizes[mine], cell, shape),
                _added(metadata[mine], cell, shape),
                sum_flow_histogram_s(waits, edges_ns),
                sum_flow_histogram_s(_summed(service[mine], cell, shape), edges_ns),
                estimate_flow_quantile_s(waits, edges_ns, 0.5),
                estimate_flow_quantile_s(waits, edges_ns, 0.9),
            )
        )
    return flows


def sum_flow_histogram_s(histogram: Floats, edges_ns: Floats) -> Floats:
    """Sum of the values in histograms (last dimension: bins), in seconds."""
    total: Floats = histogram @ compute_bin_middles_ns(edges_ns) / NS_PER_S
    return total


def estimate_flow_quantile_s(histogram: Floats, edges_ns: Floats, share: float) -> Floats:
    """The value below which `share` of the counts lies, in seconds; even within a bin. NaN without counts."""
    counts = histogram.sum(axis=-1)
    wanted = counts * share
    reached = np.cumsum(histogram, axis=-1)
    at = np.minimum((reached < wanted[..., None]).sum(axis=-1), histogram.shape[-1] - 1)
    inside = np.take_along_axis(histogram, at[..., None], -1)[..., 0]
    before = np.take_along_axis(reached, at[..., None], -1)[..., 0] - inside
    part = np.divide(wanted - before, inside, out=np.zeros_like(wanted), where=inside > 0)
    value = edges_ns[at] + part * (edges_ns[at + 1] - edges_ns[at])
    return np.where(counts > 0, value / NS_PER_S, np.nan)


def _words(column: pa.ChunkedArray) -> NDArray[np.object_]:
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    return np.array(pc.fill_null(plain, NO_JOB).to_pylist(), object)


def _numbers(table: pa.Table, name: str) -> Floats:
    return pc.fill_null(table[name], 0).to_numpy().astype(np.float64)  # type: ignore[no-any-return]


def _histograms(column: pa.ChunkedArray, bins: int) -> Floats:
    """Rows × bins; an absent histogram, or one of other bins, counts nothing."""
    out = np.zeros((len(column), bins))
    for index, row in enumerate(column.to_pylist()):
        if row is not None and len(row) == bins:
            out[index] = row
    return out


def _added(values: Floats, cell: Ints, shape: tuple[int, int]) -> Floats:
    return np.bincount(cell, values, shape[0] * shape[1]).astype(np.float64).reshape(shape)


def _summed(rows: Floats, cell: Ints, shape: tuple[int, int]) -> Floats:
    out = np.zeros((shape[0] * shape[1], rows.shape[1]))
    np.add.at(out, cell, rows)
    return out.reshape(*shape, -1)
