"""Several jobs on the terminal: a line each, or two runs side by side. Not here: the report of one job (`terminal`)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fairlead.core.model import unit_formats
from fairlead.explain.analysis.verdict import Verdict
from fairlead.explain.analysis.verdict_comparison import Comparison

GRADE_STYLE = {
    "A": "bold white on green4",
    "B": "bold white on dark_green",
    "C": "bold black on gold3",
    "D": "bold white on dark_orange3",
    "F": "bold white on red3",
    None: "bold white on grey37",
}

_COLUMNS: tuple[tuple[str, Callable[[Verdict], str]], ...] = (
    ("lost", lambda v: unit_formats.format_duration(v.lost_s)),
    ("run time", lambda v: unit_formats.format_duration(v.job.run_time_s)),
    ("processes", lambda v: f"{v.job.processes:,}"),
    ("read", lambda v: unit_formats.format_bytes(v.totals.read_bytes)),
    ("written", lambda v: unit_formats.format_bytes(v.totals.write_bytes)),
    ("read mode", lambda v: v.io_mode.read),
    ("write mode", lambda v: v.io_mode.write),
)
"""What a line may say of a job, the most telling first; what does not fit the width is left out."""
_JOB, _PROGRAM, _MEND = 16, 16, 36
"""Columns at most for a job's number and program, and at least for what to mend."""


def shorten_terminal_program(verdict: Verdict) -> str:
    """The program's name without its folder and arguments."""
    return (verdict.job.program or "").strip().split(" ")[0].rsplit("/", 1)[-1] or "unknown program"


def render_terminal_overview(verdicts: list[Verdict], width: int) -> RenderableType:
    """A line per job, the one that lost most time first; never wrapped."""
    rows = sorted(verdicts, key=lambda v: (-(v.lost_s or 0.0), v.job.id))
    programs = _column("program", [shorten_terminal_program(v) for v in rows], _PROGRAM)
    columns = [_column("job", [v.job.id for v in rows], _JOB), programs]
    left = width - 5 - sum(len(column[0]) + 2 for column in columns) - _MEND
    for place, (name, show) in enumerate(_COLUMNS):
        column = _column(name, [show(v) for v in rows], 0)
        left -= len(column[0]) + 2
        if left < 0 and place:  # the first orders the rows and always stays
            break
        columns.append(column)
    columns.append(["fix first", *(_first_to_mend(v) for v in rows)])
    heading, *lines = (_cut("  ".join(cells).rstrip(), width - 5) for cells in zip(*columns, strict=True))
    counts = Counter(v.grade or "?" for v in rows)
    grades = ", ".join(f"{counts[g]:,} × {g}" for g in "FDCBA?" if counts[g])
    title = Text(f"{len(rows):,} jobs, most time lost first: {grades}", style="bold")
    table = [
        Text.assemble((f" {verdict.grade or '?'} ", GRADE_STYLE[verdict.grade]), f"  {line}")
        for verdict, line in zip(rows, lines, strict=True)
    ]
    hint = f"The whole report of the first: fairlead report {shlex.quote(rows[0].inputs[0])}"
    return Group(
        title, Text(f"     {heading}", style="dim"), *table, Text(hint, style="dim", overflow="ignore", no_wrap=True)
    )


def _column(name: str, cells: list[str], most: int) -> list[str]:
    """A heading and cells of one width: text to the left, cut at `most` columns; figures (`most` 0) to the right."""
    widest = max(len(name), *map(len, cells))
    if not most:
        return [cell.rjust(widest) for cell in (name, *cells)]
    widest = min(widest, most)
    return [_cut(cell, widest).ljust(widest) for cell in (name, *cells)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def _first_to_mend(verdict: Verdict) -> str:
    return next((f.title for f in verdict.findings if f.severity not in ("ok", "info")), "")


def render_terminal_comparison(result: Comparison) -> RenderableType:
    """Two runs side by side."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "before", "after", "after / before"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("grade", *(Text(f" {g or '?'} ", style=GRADE_STYLE[g]) for g in result.grades), "")
    for d, pair in result.modes.items():
        table.add_row(f"{d} mode", *map(Text, pair), "")
    formats: dict[str, Callable[[float | None], str]] = {
        "s": unit_formats.format_duration,
        "share": unit_formats.format_percent,
        "bytes": unit_formats.format_bytes,
        "bytes/s": unit_formats.format_bandwidth,
        "count": unit_formats.format_count,
    }
    for row in result.rows:
        style = {True: "green", False: "red", None: ""}[row.better]
        ratio = unit_formats.format_ratio(row.ratio)
        table.add_row(row.name, formats[row.unit](row.before), formats[row.unit](row.after), Text(ratio, style=style))
    parts: list[RenderableType] = [Panel(Text(result.verdict, style="bold"), border_style="dim"), table]
    for word, titles, style in (
        ("mended", result.findings.gone, "green"),
        ("new", result.findings.new, "red"),
        ("still there", result.findings.kept, "yellow"),
    ):
        parts += [Text(f"{word}: {title}", style=style) for title in titles]
    return Group(*parts, Text(""))
