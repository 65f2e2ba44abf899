"""What a trace says as a whole: its job, and everything it leaves unsaid as `Missing`.

Not here: the events themselves (`records`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.see.sources.dftracer.blocks import End
from fairlead.see.sources.dftracer.lines import LineReport
from fairlead.see.sources.dftracer.names import Names
from fairlead.see.sources.dftracer.records import Recorder

_NO_NAME = ("DEFAULT", "")


@dataclass(frozen=True)
class TimeUnit:
    """The unit of a trace's times; `relative` when they do not count from the Unix epoch."""

    ns: int
    relative: bool = False


# Times between 2001 and 2096, by unit: each range is a thousand times the one before, so they cannot be mistaken.
_EPOCH_FROM_S, _EPOCH_TO_S = 1_000_000_000, 4_000_000_000
_UNITS_NS = (1_000_000_000, 1_000_000, 1_000, 1)


def find_dftracer_time_unit(ts: int) -> TimeUnit:
    """The unit of a trace whose first event has time `ts`.

    DFTracer writes microseconds since the epoch unless told otherwise (seconds, milliseconds, nanoseconds). Anything
    that is no date in any of these is taken as microseconds from an unknown start.
    """
    for unit_ns in _UNITS_NS:
        per_second = 1_000_000_000 // unit_ns
        if _EPOCH_FROM_S * per_second <= ts < _EPOCH_TO_S * per_second:
            return TimeUnit(unit_ns)
    return TimeUnit(1_000, relative=True)


@dataclass(frozen=True)
class Trace:
    """All that was gathered while one file was read; `lines` is how many lines it has."""

    where: str
    end: End
    report: LineReport
    names: Names
    recorder: Recorder
    unit: TimeUnit
    lines: int
    hosts: list[str]


def build_job_summary(trace: Trace) -> Job:
    """The job as far as this file tells it; times span all its events."""
    tally, unit_ns = trace.recorder.tally, trace.unit.ns
    marks = [mark.ts * unit_ns for mark in trace.report.lifecycle if 0 <= mark.ts * unit_ns < 1 << 63]
    starts = marks + ([tally.first_ns] if tally.first_ns is not None else [])
    ends = marks + ([tally.last_ns] if tally.last_ns is not None else [])
    processes = trace.recorder.processes.all
    pids = {process.pid for process in processes}
    silent = {(mark.host, mark.pid) for mark in trace.report.lifecycle if mark.pid not in pids}
    return Job(
        job_id=trace.names.job_id or "unknown",
        name=_most_common(trace, "executable"),
        program=_most_common(trace, "command"),
        start_ns=min(starts, default=None),
        end_ns=max(ends, default=None),
        nodes=trace.hosts or None,
        nodes_count=len(trace.hosts) or None,
        processes=len(processes) + len(silent) or None,
    )


def _most_common(trace: Trace, what: str) -> str | None:
    said = (trace.names.find_string(getattr(mark, what)) for mark in trace.report.lifecycle if mark.name == "start")
    counts = Counter(text for text in said if text and text not in _NO_NAME)
    return counts.most_common(1)[0][0] if counts else None


def list_summary_gaps(trace: Trace) -> Iterator[Missing]:
    """What this file does not tell, or tells in a way that had to be guessed."""
    yield from _damage(trace)
    yield from _times(trace)
    yield from _processes(trace)
    yield from _files(trace)
    yield from _sizes(trace)
    yield from _left_out(trace)


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _damage(trace: Trace) -> Iterator[Missing]:
    report, end, where = trace.report, trace.end, trace.where
    cut_line = not end.newline and report.unreadable > 0 and report.last_unreadable_line == trace.lines
    unreadable, first = report.unreadable - cut_line, report.first_unreadable_line
    if end.damage:
        yield Missing(
            kind="truncated",
            what="the end of the trace",
            where=where,
            why=f"{end.damage}; everything before it was read",
            remedy="copy the trace again from where it was written",
        )
    elif cut_line:
        yield Missing(
            kind="truncated",
            what="the end of the trace",
            where=where,
            why=f"the file ends inside line {trace.lines:,}; that event and all later ones are lost",
            remedy="copy the trace again, or let the program end normally, so that the tracer can close the file",
        )
    if unreadable:
        yield Missing(
            kind="unreadable_lines",
            what=_n(unreadable, "line"),
            where=where,
            why=f"{_n(unreadable, 'line')} cannot be read as an event, the first is line {first:,}",
            remedy="several processes may have written to one file: use one file per process",
        )
    begun = Counter(mark.pid for mark in report.lifecycle if mark.name == "start")
    ended = Counter(mark.pid for mark in report.lifecycle if mark.name == "end")
    open_ended = (begun - ended).total()
    if open_ended and not end.damage and not cut_line:
        subject = "1 process has" if open_ended == 1 else f"{open_ended:,} processes have"
        yield Missing(
            kind="unfinished",
            what="the last operations",
            where=where,
            why=f"{subject} no end record: killed, replaced by exec, or still running; events still in the tracer's "
            "memory are not in the file",
            remedy="let the program end normally",
        )


def _times(trace: Trace) -> Iterator[Missing]:
    tally, where = trace.recorder.tally, trace.where
    if trace.unit.relative and tally.operations:
        yield Missing(
            kind="relative_times",
            what="dates",
            where=where,
            why="times count from an unknown start, taken as 0 (1970); durations and order are right",
        )
    if trace.unit.ns > 1_000:
        resolution = "a second" if trace.unit.ns == _UNITS_NS[0] else "a millisecond"
        yield Missing(
            kind="coarse_times",
            what="short operations' times",
            where=where,
            why=f"times were recorded in {resolution} only: shorter operations appear to take no time",
            remedy="set DFTRACER_TIME_METRIC=US",
        )
    if tally.backwards:
        yield Missing(
            kind="clock",
            what=f"durations of {_n(tally.backwards, 'operation')}",
            where=where,
            why="they end before they start: the clock was set back while the program ran; counted with zero duration",
        )
    if tally.out_of_range:
        yield Missing(
            kind="clock",
            what=_n(tally.out_of_range, "operation"),
            where=where,
            why="their times are before 1970 or after 2262; they were left out",
        )


def _processes(trace: Trace) -> Iterator[Missing]:
    processes, where = trace.recorder.processes, trace.where
    if processes.without_rank:
        stand_in = f"; {processes.renamed:,} share a pid and were numbered instead" if processes.renamed else ""
        yield Missing(
            kind="ranks_are_pids",
            what="MPI ranks",
            where=where,
            why=f"{processes.without_rank:,} of {len(processes.all):,} processes have no rank: their process ids are "
            f"used{stand_in}",
            remedy="build DFTracer with MPI support if the program uses MPI",
        )
    if trace.recorder.tally.without_node:
        yield Missing(
            kind="nodes",
            what="on which node operations ran",
            where=where,
            why=f"{_n(trace.recorder.tally.without_node, 'operation')} name no known host",
            remedy="set DFTRACER_INC_METADATA=1",
        )


def _files(trace: Trace) -> Iterator[Missing]:
    names, tally, where = trace.names, trace.recorder.tally, trace.where
    if names.unnamed:
        yield Missing(
            kind="unknown_files",
            what=f"names of {_n(len(names.unnamed), 'file')}",
            where=where,
            why="the trace uses their hashes without their names (it was split or truncated)",
            remedy="read all files of the trace, or the trace as it was written",
        )
    if names.ambiguous_hashes:
        yield Missing(
            kind="hash_collisions",
            what="which of two files some operations meant",
            where=where,
            why=f"{names.ambiguous_hashes:,} of this DFTracer's short path hashes stand for more than one path each; "
            "the path named last before an operation was taken",
            remedy="trace with a later DFTracer, whose hashes are longer",
        )
    if tally.without_file:
        yield Missing(
            kind="unknown_files",
            what="files",
            where=where,
            why=f"{tally.without_file:,} of {tally.transfers:,} reads and writes name no file",
            remedy="set DFTRACER_INC_METADATA=1",
        )


def _sizes(trace: Trace) -> Iterator[Missing]:
    tally, where = trace.recorder.tally, trace.where
    if tally.without_size:
        yield Missing(
            kind="sizes",
            what="bytes moved",
            where=where,
            why=f"{tally.without_size:,} of {tally.transfers:,} reads and writes have no size",
            remedy="set DFTRACER_INC_METADATA=1 (sizes of MPI-IO and HDF5 calls are never in the trace)",
        )
    if tally.without_offset:
        yield Missing(
            kind="offsets",
            what="the offsets of operations",
            where=where,
            why=f"for {tally.without_offset:,} of {tally.transfers:,} reads and writes the position cannot be followed "
            "(their file was opened before tracing, for appending, or several times at once)",
        )


def _left_out(trace: Trace) -> Iterator[Missing]:
    report, where = trace.report, trace.where
    if report.aggregated:
        yield Missing(
            kind="aggregated_events",
            what=_n(report.aggregated_calls, "call"),
            where=where,
            why=f"the tracer kept only sums of them ({_n(report.aggregated, 'record')}); they are not in this report",
            remedy="trace with DFTRACER_ENABLE_AGGREGATION=0",
        )
    if report.counters:
        yield Missing(
            kind="counter_samples",
            what=_n(report.counters, "sample"),
            where=where,
            why="samples of system counters are not operations; they were skipped",
        )
    if report.other_phases:
        yield Missing(
            kind="other_events",
            what=_n(report.other_phases, "event"),
            where=where,
            why="events without a duration (marks, flows, begin/end pairs) are not operations; they were skipped",
        )
