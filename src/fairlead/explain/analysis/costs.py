"""Wall-clock seconds a job lost per cause, so that findings are ordered by what they cost.

Every cost is an estimate with a stated basis, in seconds of an average process that does I/O; imbalance and serial
I/O are what the slowest process spent beyond that average. Costs overlap (a small request may also be random): they
say what mending this cause alone could win, and do not add up.

A request's needful time is its bytes at the rate the same run reached with requests above 1 MiB (at least 4 MiB of
them, at least as fast as the small ones), else at the platform's rate for one process, else at `Reference`'s; the
latter two never so high that all processes together exceed the platform's rate or the run's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.model.platform import Reference
from fairlead.explain.analysis.io_time import IoTimes
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.metric_docs import Value
from fairlead.explain.analysis.request_metrics import SMALL_BINS

_BIN_MIDDLES = np.array([50, 512, 5 << 10, 50 << 10, 512 << 10, 2 << 20, 7 << 20, 50 << 20, 512 << 20, 1 << 30], float)
_ENOUGH_LARGE_BYTES = 4 << 20

Rate = tuple[float, str]
"""Bytes per second and where that is taken from."""


@dataclass(frozen=True)
class Cost:
    """Seconds lost (None: cannot be known) and on what ground."""

    seconds: float | None
    basis: str


COSTS: dict[str, str] = {
    "small_reads": "reads of at most 1 MiB, beyond what their bytes need in large requests",
    "small_writes": "writes of at most 1 MiB, beyond what their bytes need in large requests",
    "random_reads": "reads out of order, beyond what their bytes need in sequence",
    "random_writes": "writes out of order, beyond what their bytes need in sequence",
    "shared_file_writes": "writing to files shared by processes, beyond what the bytes need",
    "small_requests": "reads and writes of at most 1 MiB, beyond what their bytes need in large requests",
    "metadata": "open, close, stat and other metadata calls",
    "long_metadata": "the process longest in metadata calls, while others wait for it",
    "imbalance": "waiting for the slowest process",
    "serial": "one process doing I/O where all could",
    "repeated_reads": "reading bytes again that had been read before",
    "repeated_writes": "writing bytes again that had been written before",
    "modify_reads": "reading data only to modify it and write it back",
    "sieved_reads": "data read below MPI-IO that the program never asked for",
    "stdio": "STDIO reads and writes, beyond what the bytes need",
    "reads": "all reads",
    "writes": "all writes",
    "io": "all I/O",
}


def compute_costs(view: JobView, times: IoTimes, metrics: dict[str, Value], reference: Reference) -> dict[str, Cost]:
    """Cost per cause of `COSTS`."""
    out: dict[str, Cost] = {
        "reads": Cost(times.read_s, "measured: mean read time of an active process"),
        "writes": Cost(times.write_s, "measured: mean write time of an active process"),
        "io": Cost(times.slowest_s, "measured: I/O time of the slowest process"),
        "metadata": Cost(times.meta_s, "measured: mean metadata time of an active process"),
        "imbalance": _imbalance(view, times),
        "long_metadata": _longest_metadata(metrics),
        "serial": _serial(view, times, metrics),
    }
    rates: dict[str, Rate] = {}
    for d in ("read", "write"):
        rates[d] = rate, ground = _estimate_needed_rate(view, d, reference, times.active, metrics)
        spent = times.read_s if d == "read" else times.write_s
        small_s, small_bytes = _small(view, d, times)
        out[f"small_{d}s"] = _beyond(small_s, small_bytes, times.active, rate, ground)
        random = metrics[f"{d}_random_share"]
        total = float(metrics[f"{d}_bytes"] or 0)
        out[f"random_{d}s"] = (
            Cost(None, "the order of offsets is unknown")
            if random is None
            else _beyond(spent * float(random), total * float(random), times.active, rate, ground)
        )
        again = metrics[f"{d}_repeated_share"]
        out[f"repeated_{d}s"] = (
            Cost(None, "which bytes were moved is unknown")
            if again is None
            else Cost(spent * min(float(again), 1.0), f"estimate: that share of the {d} time")
        )
    out["sieved_reads"] = _sieved(times, metrics)
    small = [out[f"small_{d}s"].seconds for d in ("read", "write")]
    seconds = None if None in small else sum(s for s in small if s is not None)
    out["small_requests"] = Cost(seconds, out["small_writes"].basis)
    out["shared_file_writes"] = _shared(view, times, rates["write"])
    out["modify_reads"] = _modify(view, times)
    stdio = float(metrics["stdio_time_s"] or 0), float(metrics["stdio_bytes"] or 0)
    out["stdio"] = _beyond(*stdio, times.active, *rates["write"])
    assert set(out) == set(COSTS)  # noqa: S101  (each cost has its line of documentation)
    return out


def _estimate_needed_rate(
    view: JobView, direction: str, reference: Reference, active: int, metrics: dict[str, Value]
) -> Rate:
    """Bytes per second one of `active` processes reaches with large requests, and where that is taken from."""
    kind = 0 if direction == "read" else 1
    traced = view.operations.get("POSIX")
    if traced is not None:
        nbytes, spent = traced.bytes_by_size[kind], traced.time_by_size_s[kind]
        large_bytes, large_s = float(nbytes[SMALL_BINS:].sum()), float(spent[SMALL_BINS:].sum())
        small_bytes, small_s = float(nbytes[:SMALL_BINS].sum()), float(spent[:SMALL_BINS].sum())
        small_rate = small_bytes / small_s if small_s > 0 else 0.0
        if large_bytes >= _ENOUGH_LARGE_BYTES and large_s > 0 and large_bytes / large_s >= small_rate:
            return large_bytes / large_s, f"the rate of this run's own {direction}s above 1 MiB"
    own = float(metrics[f"{direction}_bandwidth_bytes_per_s"] or 0.0)
    even = max(reference.total_bandwidth_bytes_per_s, own) / active
    if even < reference.process_bandwidth_bytes_per_s:
        return even, "an even part of what all processes together are assumed to reach"
    return reference.process_bandwidth_bytes_per_s, "an assumed rate of one process with large requests"


def _beyond(spent_s: float | None, nbytes: float, active: int, rate: float, ground: str) -> Cost:
    if spent_s is None:
        return Cost(None, "times were not recorded")
    need = nbytes / active / rate
    return Cost(max(0.0, spent_s - need), f"estimate: time spent less the bytes at {ground}")


def _small(view: JobView, direction: str, times: IoTimes) -> tuple[float | None, float]:
    """Mean seconds per active process in small requests, and their bytes. Times per size come from operations; with
    counters the time is shared out by bytes and count: half by each, as latency and transfer are not told apart."""
    kind = 0 if direction == "read" else 1
    traced = view.operations.get("POSIX")
    if traced is not None and traced.bytes_by_size[kind].sum() > 0:
        spent = float(traced.time_by_size_s[kind][:SMALL_BINS].sum()) / times.active
        return spent, float(traced.bytes_by_size[kind][:SMALL_BINS].sum())
    counters = view.counters
    rows = counters.lowest & counters.mark_known(f"{direction}_sizes")
    sizes = counters.read_lists(f"{direction}_sizes", 10)[rows].sum(axis=0).astype(float)
    total_ops = sizes.sum()
    if not total_ops:
        return 0.0, 0.0
    total_bytes = float(counters.read_ints("bytes_read" if kind == 0 else "bytes_written")[rows].sum())
    weights = sizes * _BIN_MIDDLES
    small_bytes = total_bytes * float(weights[:SMALL_BINS].sum() / weights.sum())
    part = 0.5 * float(sizes[:SMALL_BINS].sum() / total_ops) + 0.5 * (small_bytes / total_bytes if total_bytes else 1.0)
    spent = float(np.maximum(counters.read_floats(f"{direction}_time_s"), 0)[rows].sum()) / times.active
    return spent * part, small_bytes


def _imbalance(view: JobView, times: IoTimes) -> Cost:
    lost = max(0.0, times.slowest_s - times.mean_s)
    ground = "measured" if times.exact else "estimate (shared files keep only their slowest rank)"
    return Cost(lost if view.processes > 1 else 0.0, f"{ground}: slowest process less the average one")


def _longest_metadata(metrics: dict[str, Value]) -> Cost:
    longest = metrics["meta_time_max_s"]
    if longest is None:
        return Cost(None, "times were not recorded")
    return Cost(float(longest), "measured: metadata time of that process (a lower bound where files are shared)")


def _serial(view: JobView, times: IoTimes, metrics: dict[str, Value]) -> Cost:
    active = metrics["io_processes"]
    if active is None:
        return Cost(None, "which processes moved bytes is unknown")
    if active != 1 or view.processes == 1:
        return Cost(0.0, "more than one process does I/O, or the job has one")
    return Cost(times.slowest_s * (1 - 1 / min(view.processes, 16)), "estimate: spread over at most 16 processes")


def _shared(view: JobView, times: IoTimes, rate: Rate) -> Cost:
    counters = view.counters
    rows = counters.select_rows("POSIX") & counters.shared & (counters.read_ints("bytes_written") > 0)
    if not rows.any() and not view.counters_recorded:
        files, first, users = np.unique(
            counters.file_id[counters.select_rows("POSIX")], return_index=True, return_counts=True
        )
        del first
        rows = (
            counters.select_rows("POSIX")
            & np.isin(counters.file_id, files[users > 1])
            & (counters.read_ints("bytes_written") > 0)
        )
    spent = float(np.maximum(counters.read_floats("write_time_s"), 0)[rows].sum()) / times.active
    nbytes = float(counters.read_ints("bytes_written")[rows].sum())
    return _beyond(spent, nbytes, times.active, *rate)


def _sieved(times: IoTimes, metrics: dict[str, Value]) -> Cost:
    sieved, read = metrics["sieved_read_bytes"], metrics["read_bytes"]
    if sieved is None:
        return Cost(None, "what reaches the file system below MPI-IO is unknown")
    return Cost(times.read_s * float(sieved) / float(read) if read else 0.0, "estimate: that share of the read time")


def _modify(view: JobView, times: IoTimes) -> Cost:
    traced = view.operations.get("POSIX")
    if traced is None:
        return Cost(None, "needs an operation trace")
    return Cost(traced.modify_read_time_s / times.active, "measured: time of those reads per active process")
