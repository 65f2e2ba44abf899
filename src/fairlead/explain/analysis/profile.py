"""The profile of a job: everything analysis derives from its view, in one value that rules, pages and programs read."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.core.model.missing import Missing
from fairlead.core.model.phase import Phase
from fairlead.core.model.platform import Platform, Reference
from fairlead.explain.analysis.costs import Cost, compute_costs
from fairlead.explain.analysis.counters import FloatArray
from fairlead.explain.analysis.file_table import FileTable, build_file_table
from fairlead.explain.analysis.io_time import IoTimes, compute_io_times
from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.libraries import DOCS as LIBRARY_DOCS
from fairlead.explain.analysis.libraries import compute_library_metrics
from fairlead.explain.analysis.metric_docs import (
    DIRECTIONS,
    Metrics,
    Value,
    check_metric_docs,
    compute_metric_share,
    expand_metric_docs,
)
from fairlead.explain.analysis.modes import DirectionMode, compute_direction_mode
from fairlead.explain.analysis.namespace import DOCS as NAMESPACE_DOCS
from fairlead.explain.analysis.namespace import compute_namespace_metrics
from fairlead.explain.analysis.overlap import DOCS as OVERLAP_DOCS
from fairlead.explain.analysis.overlap import compute_overlap_metrics
from fairlead.explain.analysis.period import Period, find_period
from fairlead.explain.analysis.phases import find_phases
from fairlead.explain.analysis.rank_balance import DOCS as BALANCE_DOCS
from fairlead.explain.analysis.rank_balance import compute_rank_balance_metrics
from fairlead.explain.analysis.request_metrics import DOCS as REQUEST_DOCS
from fairlead.explain.analysis.request_metrics import compute_request_metrics
from fairlead.explain.analysis.target_metrics import DOCS as TARGET_DOCS
from fairlead.explain.analysis.target_metrics import compute_target_metrics
from fairlead.explain.analysis.timeline import Timeline, build_timeline, group_timeline_bins

PHASE_BIN_NS = 10_000_000
"""Phases are looked for in bins of at least 10 ms: what pauses for less is one burst (as in run-length merging)."""

NON_TRIVIAL_BYTES = 200_000_000
"""Beacon calls I/O above 200 MB non-trivial (TOS 2023, section 5)."""

_JOB_DOCS: Metrics = {
    "processes": ("count", "processes of the job"),
    "run_time_s": ("s", "wall-clock time of the job; unknown when the clock ran backwards"),
    "io_time_s": ("s", "I/O time of the process that spent most, at most the run time"),
    "io_time_mean_s": ("s", "mean I/O time of the processes that did any"),
    "io_time_share": ("share", "of the run time that the slowest process spent in I/O"),
    "{d}_time_s": ("s", "mean time an active process spent in this direction"),
    "meta_time_s": ("s", "mean time an active process spent in metadata operations"),
    "total_bytes": ("bytes", "bytes read and written"),
    "data_ops": ("count", "reads and writes"),
    "non_trivial": ("bool", "whether the job moved more than 200 MB (Beacon's limit)"),
    "{d}_mode": ("word", "I/O mode: N-N, N-M, N-1, 1-1 or none"),
    "{d}_mode_mpiio": ("word", "I/O mode at the MPI-IO layer"),
    "{d}_processes": ("count", "processes that moved bytes in this direction"),
    "{d}_bandwidth_bytes_per_s": ("bytes/s", "bytes over the seconds in which the job moved any in this direction"),
    "{d}_peak_bytes_per_s": ("bytes/s", "highest rate over 10 ms (over one bin where bins are longer)"),
    "average_iops": ("1/s", "data operations over the seconds of I/O"),
    "{d}_phases": ("count", "I/O phases found"),
    "{d}_period_s": ("s", "dominant period of the phases"),
    "{d}_period_confidence": ("share", "confidence in the period"),
    "timeline_known": ("bool", "whether the trace shows when the bytes moved"),
    "operations_known": ("bool", "whether the trace holds single operations"),
}

METRICS: Metrics = expand_metric_docs(
    _JOB_DOCS | REQUEST_DOCS | BALANCE_DOCS | NAMESPACE_DOCS | LIBRARY_DOCS | TARGET_DOCS | OVERLAP_DOCS
)
"""Every metric a rule may use: name → (unit, meaning). Costs are named `cost_<cause>_s` beside them."""


@dataclass(frozen=True)
class JobProfile:
    """What is known of a job. `metrics` holds all of `METRICS`, None where the trace cannot tell."""

    view: JobView
    times: IoTimes
    timeline: Timeline | None
    modes: dict[str, DirectionMode]
    modes_mpiio: dict[str, DirectionMode]
    phases: list[Phase]
    periods: dict[str, Period | None]
    metrics: dict[str, Value]
    costs: dict[str, Cost]
    files: FileTable
    missing: list[Missing]


def build_profile(view: JobView, platform: Platform | None = None, reference: Reference | None = None) -> JobProfile:
    """Derive the profile of a job. `platform` (a site's description) makes the costs surer."""
    reference = reference or _reference(view, platform)
    timeline, missing = build_timeline(view)
    times = compute_io_times(view)
    modes: dict[str, DirectionMode] = {d: compute_direction_mode(view, d) for d in DIRECTIONS}
    above: dict[str, DirectionMode] = {d: compute_direction_mode(view, d, ("MPI-IO",)) for d in DIRECTIONS}
    phases: list[Phase] = []
    periods: dict[str, Period | None] = {"read": None, "write": None}
    if timeline is not None:
        series, width_ns = _binned(timeline)
        for d, binned in zip(DIRECTIONS, series, strict=True):
            found = find_phases(binned, timeline.fine_origin_ns, width_ns, kind=d)
            phases += [_within(phase, view.job.start_ns, view.job.end_ns) for phase in found]
            periods[d] = find_period(binned, width_ns)
    requests = compute_request_metrics(view)
    data_ops = int(requests["read_ops"] or 0) + int(requests["write_ops"] or 0)
    metrics = (
        requests
        | compute_rank_balance_metrics(view, times)
        | compute_namespace_metrics(view, times, timeline, data_ops)
    )
    metrics |= compute_overlap_metrics(view)
    if metrics["io_processes"] is None:
        active = _io_processes(modes, view.processes)
        metrics |= {"io_processes": active, "io_processes_share": compute_metric_share(active, view.processes)}
    metrics |= compute_library_metrics(view, times.active, modes)
    metrics |= compute_target_metrics(view)
    metrics |= _job_metrics(view, times, timeline, modes, above, phases, periods, metrics)
    return JobProfile(
        view=view,
        times=times,
        timeline=timeline,
        modes=modes,
        modes_mpiio=above,
        phases=sorted(phases, key=lambda p: (p.start_ns, p.kind)),
        periods=periods,
        metrics=metrics,
        costs=compute_costs(view, times, metrics, reference),
        files=build_file_table(view),
        missing=view.missing + missing + _unknown(view),
    )


def _io_processes(modes: dict[str, DirectionMode], processes: int) -> int | None:
    """Processes that moved bytes in either direction, where those of each direction settle it."""
    known = [mode.processes for mode in modes.values()]
    if processes in known:
        return processes
    return None if None in known or 0 not in known else max(p for p in known if p is not None)


def _reference(view: JobView, platform: Platform | None) -> Reference:
    """The described rate of one process on the file system that holds most of the job's bytes, if any."""
    if platform is None or not platform.file_systems:
        return Reference()
    counters = view.counters
    moved = counters.read_ints("bytes_read") + counters.read_ints("bytes_written")
    by_mount: dict[str, int] = {}
    for file, nbytes in zip(counters.file_id[counters.lowest].tolist(), moved[counters.lowest].tolist(), strict=True):
        mount = view.file_systems.get(file, "")
        by_mount[mount] = by_mount.get(mount, 0) + nbytes
    for mount in sorted(by_mount, key=lambda m: -by_mount[m]):
        for fs in platform.file_systems:
            if fs.mount == mount and fs.process_bandwidth_bytes_per_s:
                whole = max(fs.read_bandwidth_bytes_per_s or 0.0, fs.write_bandwidth_bytes_per_s or 0.0)
                default = Reference()
                return Reference(
                    process_bandwidth_bytes_per_s=fs.process_bandwidth_bytes_per_s,
                    total_bandwidth_bytes_per_s=whole or default.total_bandwidth_bytes_per_s,
                )
    return Reference()


def _job_metrics(
    view: JobView,
    times: IoTimes,
    timeline: Timeline | None,
    modes: dict[str, DirectionMode],
    above: dict[str, DirectionMode],
    phases: list[Phase],
    periods: dict[str, Period | None],
    known: dict[str, Value],
) -> dict[str, Value]:
    run_time = view.job.run_time_s
    total = int(known["read_bytes"] or 0) + int(known["write_bytes"] or 0)
    data_ops = int(known["read_ops"] or 0) + int(known["write_ops"] or 0)
    seconds = _active_seconds(view, timeline)
    out: dict[str, Value] = {
        "processes": view.processes,
        "run_time_s": run_time,
        "io_time_s": times.slowest_s,
        "io_time_mean_s": times.mean_s,
        "io_time_share": compute_metric_share(times.slowest_s, run_time),
        "read_time_s": times.read_s,
        "write_time_s": times.write_s,
        "meta_time_s": times.meta_s,
        "total_bytes": total,
        "data_ops": data_ops,
        "non_trivial": total > NON_TRIVIAL_BYTES,
        "average_iops": compute_metric_share(data_ops, seconds["both"]),
        "timeline_known": timeline is not None,
        "operations_known": "POSIX" in view.operations,
    }
    for d in ("read", "write"):
        period = periods[d]
        out |= {
            f"{d}_mode": modes[d].mode,
            f"{d}_mode_mpiio": above[d].mode,
            f"{d}_processes": modes[d].processes,
            f"{d}_bandwidth_bytes_per_s": (average := compute_metric_share(known[f"{d}_bytes"], seconds[d])),
            f"{d}_peak_bytes_per_s": _peak(timeline, d, average),
            f"{d}_phases": sum(p.kind == d for p in phases) if timeline is not None else None,
            f"{d}_period_s": period.period_s if period else None,
            f"{d}_period_confidence": period.confidence if period else None,
        }
    return check_metric_docs(out, _JOB_DOCS, "job_metrics")


def _active_seconds(view: JobView, timeline: Timeline | None) -> dict[str, float | None]:
    """Seconds in which bytes moved, by direction and in either: bins of at least 10 ms that hold any, at most the time
    from first to last; without a timeline that time alone."""
    spans = {d: _span(view, d) for d in ("read", "write", "both")}
    if timeline is None:
        return spans
    (read, write), width_ns = _binned(timeline)
    out: dict[str, float | None] = {}
    for d, bins in (("read", read > 0), ("write", write > 0), ("both", (read + write) > 0)):
        seconds, whole = int(bins.sum()) * width_ns / 1e9, spans[d]
        out[d] = (min(seconds, whole) if whole else seconds) or None
    return out


def _within(phase: Phase, start_ns: int | None, end_ns: int | None) -> Phase:
    """The phase cut to the run: bins of a heat map may reach beyond it."""
    start = max(phase.start_ns, start_ns if start_ns is not None else phase.start_ns)
    end = min(phase.end_ns, end_ns if end_ns is not None else phase.end_ns)
    if end <= start or (start, end) == (phase.start_ns, phase.end_ns):
        return phase
    return Phase(
        kind=phase.kind,
        start_ns=start,
        end_ns=end,
        bytes=phase.bytes,
        bandwidth_bytes_per_s=phase.bytes / ((end - start) / 1e9),
        active_ns=min(phase.active_ns, end - start),
    )


def _binned(timeline: Timeline) -> tuple[tuple[FloatArray, FloatArray], int]:
    """Read and write bytes of the job in bins of at least 10 ms, and their width in ns."""
    factor = max(1, -(-PHASE_BIN_NS // timeline.fine_bin_ns))
    read, write = (group_timeline_bins(series, factor) for series in timeline.total)
    return (read, write), timeline.fine_bin_ns * factor


def _span(view: JobView, direction: str) -> float | None:
    counters = view.counters
    names = ("read", "write") if direction == "both" else (direction,)
    first, last = [], []
    for name in names:
        rows = counters.lowest & counters.mark_known(f"{name}_start_ns") & counters.mark_known(f"{name}_end_ns")
        if rows.any():
            first.append(int(counters.read_ints(f"{name}_start_ns")[rows].min()))
            last.append(int(counters.read_ints(f"{name}_end_ns")[rows].max()))
    return (max(last) - min(first)) / 1e9 if first and max(last) > min(first) else None


def _peak(timeline: Timeline | None, direction: str, average: float | None) -> float | None:
    """Highest rate of one bin; never below the average (a run may be shorter than a bin)."""
    if timeline is None:
        return None
    series, width_ns = _binned(timeline)
    peak = float(series[0 if direction == "read" else 1].max(initial=0.0)) / (width_ns / 1e9)
    return max(peak, average or 0.0) if peak > 0 else None


def _unknown(view: JobView) -> list[Missing]:
    """What this kind of input can never tell."""
    out = []
    if view.job.start_ns is not None and view.job.end_ns is not None and view.job.end_ns < view.job.start_ns:
        out.append(
            Missing(
                kind="clock",
                what="run time",
                why="the job ends before it starts: the clock ran backwards",
                remedy="compare with the scheduler's times",
            )
        )
    if "POSIX" not in view.operations and view.counters.select_rows("POSIX").any():
        out.append(
            Missing(
                kind="no_operations",
                what="repeats by the same process, read-modify-write, time per request size",
                why="the log holds counters, not single operations",
                remedy="run with DXT_ENABLE_IO_TRACE=1",
            )
        )
    return out
