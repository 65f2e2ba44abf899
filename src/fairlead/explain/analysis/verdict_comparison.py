"""Two runs of one program side by side: what became better, what worse, which findings went and came."""

from __future__ import annotations

import msgspec

from fairlead.core.model.unit_formats import format_duration, format_ratio
from fairlead.explain.analysis.verdict import Verdict

NOTABLE = 0.05
"""Changes below 5 % are within what repeated runs scatter by, and are called neither better nor worse."""

_ROWS = (
    ("run time", "run_time_s", "s", False),
    ("I/O time (slowest process)", "io_time_s", "s", False),
    ("I/O share of the run", "io_time_share", "share", False),
    ("read time", "read_time_s", "s", False),
    ("write time", "write_time_s", "s", False),
    ("metadata time", "meta_time_s", "s", False),
    ("read bandwidth", "read_bandwidth_bytes_per_s", "bytes/s", True),
    ("write bandwidth", "write_bandwidth_bytes_per_s", "bytes/s", True),
    ("bytes read", "read_bytes", "bytes", None),
    ("bytes written", "write_bytes", "bytes", None),
    ("reads", "read_ops", "count", None),
    ("writes", "write_ops", "count", None),
    ("mean read", "read_mean_request_bytes", "bytes", None),
    ("mean write", "write_mean_request_bytes", "bytes", None),
    ("metadata operations", "metadata_ops", "count", None),
    ("files", "files", "count", None),
    ("processes", "processes", "count", None),
    ("processes doing I/O", "io_processes", "count", None),
)


class Row(msgspec.Struct, frozen=True):
    """One figure of both runs. `ratio` is after / before; `better` None where it is no question of better."""

    name: str
    before: float | int | None
    after: float | int | None
    unit: str
    ratio: float | None
    better: bool | None


class FindingChange(msgspec.Struct, frozen=True):
    """Titles of findings by what became of them (good news left out)."""

    gone: list[str]
    new: list[str]
    kept: list[str]


class Comparison(msgspec.Struct, frozen=True):
    """Two runs, `labels` naming them; `verdict` is one sentence."""

    labels: list[str]
    verdict: str
    rows: list[Row]
    findings: FindingChange
    modes: dict[str, list[str]]
    grades: list[str | None]


def compare_verdicts(before: Verdict, after: Verdict) -> Comparison:
    """Hold `after` against `before`."""
    rows = [_row(before, after, *spec) for spec in _ROWS]
    old = {f.rule: f.title for f in before.findings if f.severity not in ("ok", "info")}
    new = {f.rule: f.title for f in after.findings if f.severity not in ("ok", "info")}
    change = FindingChange(
        gone=[t for r, t in old.items() if r not in new],
        new=[t for r, t in new.items() if r not in old],
        kept=[t for r, t in new.items() if r in old],
    )
    modes = {d: [getattr(before.io_mode, d), getattr(after.io_mode, d)] for d in ("read", "write")}
    return Comparison(["before", "after"], _sentence(rows, change), rows, change, modes, [before.grade, after.grade])


def _row(before: Verdict, after: Verdict, name: str, metric: str, unit: str, more_is_better: bool | None) -> Row:
    a, b = before.metrics.get(metric), after.metrics.get(metric)
    old = a if isinstance(a, int | float) else None
    new = b if isinstance(b, int | float) else None
    ratio = new / old if old and new is not None else None
    better = None
    if more_is_better is not None and ratio is not None and abs(ratio - 1) >= NOTABLE:
        better = (ratio > 1) is more_is_better
    return Row(name, old, new, unit, ratio, better)


def _sentence(rows: list[Row], change: FindingChange) -> str:
    io = next(r for r in rows if r.name.startswith("I/O time"))
    if io.before is None or io.after is None or io.ratio is None:
        text = "The I/O times cannot be compared"
    elif abs(io.ratio - 1) < NOTABLE:
        text = f"The I/O takes as long as before ({format_duration(io.after)})"
    elif io.after == 0:
        text = f"The I/O no longer takes measurable time (before: {format_duration(io.before)})"
    else:
        factor, word = (1 / io.ratio, "faster") if io.ratio < 1 else (io.ratio, "slower")
        text = f"The I/O is {factor:.2g} times {word}: {format_duration(io.before)} → {format_duration(io.after)}"
    counts = [f"{len(items)} {word}" for items, word in ((change.gone, "mended"), (change.new, "new")) if items]
    text += _moved(rows)
    return text + (f"; findings: {', '.join(counts)}." if counts else ".")


def _moved(rows: list[Row]) -> str:
    """What must be known to read the times: whether both runs moved the same bytes."""
    totals = [sum(getattr(r, run) or 0 for r in rows if r.name.startswith("bytes ")) for run in ("before", "after")]
    if not all(totals) or abs(totals[1] / totals[0] - 1) < NOTABLE:
        return ""
    return f", but it moves {format_ratio(totals[1] / totals[0])} times the bytes"
