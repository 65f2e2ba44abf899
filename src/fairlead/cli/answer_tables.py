"""Tables of answers that fit a terminal: columns that do not are left out, the least telling first.

Text from records is made inert here. Not here: pictures (`pictures`), which answer to show (the commands).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.cli.pictures import META, READ, WRITE, draw_axis_picture, draw_bar_picture, draw_line_picture
from fairlead.core.model import unit_formats
from fairlead.core.safe_text import escape_text
from fairlead.explain.questions.answers import (
    Bound,
    ComponentRow,
    Gap,
    JobRow,
    LatencyLine,
    OpCount,
    Share,
    Sums,
    Timeline,
)

T = TypeVar("T")
_GAP = 2
"""Columns between columns."""
_LONGEST = 28


@dataclass(frozen=True)
class Column:
    """A column: heading, what a row says, whether numbers, and how soon it may go (0 never, higher sooner)."""

    name: str
    show: Callable[[Any], str | Text]
    right: bool = False
    spare: int = 0
    longest: int = _LONGEST
    wraps: bool = False
    """Whether a long text goes on in a second line, so that it never decides which columns there is room for."""


def fit_answer_table(columns: Sequence[Column], rows: Sequence[Any], width: int) -> RenderableType:
    """The rows as a table no wider than `width`."""
    cells = [[_cell(column, row) for column in columns] for row in rows]
    wide = [max([len(c.name), *(row[k].cell_len for row in cells)]) for k, c in enumerate(columns)]
    wide = [min(wide[k], _LONGEST) if c.wraps else wide[k] for k, c in enumerate(columns)]
    chosen = list(range(len(columns)))
    while sum(wide[k] + _GAP for k in chosen) - _GAP > width:
        spare = max(chosen, key=lambda k: (columns[k].spare, k))
        if columns[spare].spare == 0:
            break
        chosen.remove(spare)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for k in chosen:
        table.add_column(
            columns[k].name,
            justify="right" if columns[k].right else "left",
            no_wrap=not columns[k].wraps,
            overflow="fold" if columns[k].wraps else "ellipsis",
        )
    for row in cells:
        table.add_row(*(row[k] for k in chosen))
    return table


def _cell(column: Column, row: Any) -> Text:
    said = column.show(row)
    text = said if isinstance(said, Text) else Text(escape_text(said))
    text.truncate(column.longest, overflow="ellipsis")
    return text


def format_answer_word(value: str | None) -> str:
    """A word, or a dash."""
    return unit_formats.ABSENT if value is None or value == "" else value


def _bytes(get: Callable[[Any], Sums], name: str) -> Callable[[Any], str]:
    return lambda row: unit_formats.format_bytes(getattr(get(row), name))


def _count(get: Callable[[Any], Sums], name: str) -> Callable[[Any], str]:
    return lambda row: unit_formats.format_count(getattr(get(row), name))


def _sums(row: Any) -> Sums:
    return row.sums  # type: ignore[no-any-return]


def list_answer_sum_columns(get: Callable[[Any], Sums] = _sums) -> list[Column]:
    """Read, written, operations."""
    return [
        Column("read", _bytes(get, "read_bytes"), right=True),
        Column("written", _bytes(get, "write_bytes"), right=True),
        Column("metadata ops", _count(get, "metadata_ops"), right=True, spare=3),
        Column("reads", _count(get, "read_ops"), right=True, spare=8),
        Column("writes", _count(get, "write_ops"), right=True, spare=8),
    ]


def build_answer_job_table(rows: Sequence[JobRow], now_ns: int, width: int) -> RenderableType:
    """A line a job."""

    def ran(row: JobRow) -> str:
        end = row.end_ns if row.end_ns is not None else now_ns if row.running else None
        return unit_formats.format_duration(
            (end - row.start_ns) / 1e9 if end is not None and row.start_ns is not None else None
        )

    def state(row: JobRow) -> Text:
        said = (
            "running"
            if row.running
            else escape_text(format_answer_word(row.state)).lower()
            if row.accounted
            else "not accounted"
        )
        return Text(said, style="green" if row.running else "" if said in ("completed", "running") else "yellow")

    columns = [
        Column("job", lambda r: r.job_id, longest=20),
        Column("user", lambda r: format_answer_word(r.user), spare=2, longest=14),
        Column("program", lambda r: shorten_answer_program(r.program, r.name), spare=1, longest=20),
        Column("state", state, spare=2, longest=14),
        Column("nodes", lambda r: unit_formats.format_count(r.nodes_count), right=True, spare=4),
        Column("started", lambda r: unit_formats.format_time(r.start_ns).removesuffix(" UTC"), spare=5),
        Column("ran", ran, right=True, spare=3),
        *list_answer_sum_columns(),
        Column("project", lambda r: format_answer_word(r.project), spare=6, longest=14),
        Column("partition", lambda r: format_answer_word(r.partition), spare=9, longest=12),
        Column("counted at", lambda r: format_answer_word(r.layer), spare=7),
    ]
    if any(row.bound is not None for row in rows):
        columns.append(Column("within", lambda r: format_answer_bound(r.bound), spare=4))
    return fit_answer_table(columns, rows, width)


def format_answer_bound(bound: Bound | None) -> str:
    """How far figures may be off, and why; empty where they were counted by job."""
    if bound is None:
        return ""
    if bound.share is not None and bound.share < 0.0005:
        return "alone on its nodes"
    why = "shared node" if bound.shared else "next job at once"
    if bound.share is None:
        return f"up to {unit_formats.format_bytes(bound.high.bytes)}, {why}"
    return f"± {unit_formats.format_percent(bound.share)}, {why}"


def shorten_answer_program(program: str | None, name: str | None = None) -> str:
    """A program without its folder and arguments, else the job's name."""
    text = (program or name or "").strip()
    return format_answer_word(text.split(" ")[0].rsplit("/", 1)[-1])


def build_answer_share_table(rows: Sequence[Share], width: int, heading: str = "job") -> RenderableType:
    """Parts of a whole."""
    columns = [
        Column("kind", lambda r: r.kind, spare=3 if heading != "component" else 0),
        Column(heading, lambda r: r.id, longest=24),
        *(
            [
                Column("user", lambda r: format_answer_word(r.user), spare=1, longest=14),
                Column("program", lambda r: shorten_answer_program(r.program), spare=2, longest=18),
            ]
            if heading == "job"
            else []
        ),
        *list_answer_sum_columns(),
        Column("share", lambda r: "mapped" if r.mapped else unit_formats.format_percent(r.share), right=True, spare=1),
        Column("", lambda r: draw_bar_picture(r.share, 12, READ) if not r.mapped else Text(), spare=4),
    ]
    return fit_answer_table(columns[1:] if heading == "job" else columns, rows, width)


def build_answer_component_table(
    rows: Sequence[ComponentRow], seconds: float, width: int, heading: str
) -> RenderableType:
    """Load and space of components; bars are of the busiest."""
    most = max((row.sums.bytes or 0 for row in rows), default=0)
    columns = [
        Column(heading, lambda r: r.id, longest=24),
        Column("read", lambda r: format_answer_rate(r.sums.read_bytes, seconds), right=True),
        Column("written", lambda r: format_answer_rate(r.sums.write_bytes, seconds), right=True),
        Column("load", lambda r: draw_bar_picture((r.sums.bytes or 0) / most if most else 0.0, 14, WRITE), spare=2),
        Column("peak", lambda r: unit_formats.format_bandwidth(r.peak_bytes_per_s), right=True, spare=4),
        Column("busy", lambda r: unit_formats.format_percent(r.busy_share), right=True, spare=5),
        Column("used", lambda r: unit_formats.format_bytes(r.used_bytes), right=True, spare=3),
        Column("full", lambda r: _full(r.fullness), right=True, spare=1),
        Column("grown", lambda r: _signed(r.grown_bytes), right=True, spare=2),
    ]
    if any(row.sums.metadata_ops is not None for row in rows):
        columns.append(
            Column("metadata ops", lambda r: unit_formats.format_count(r.sums.metadata_ops), right=True, spare=7)
        )
    return fit_answer_table(columns, rows, width)


def format_answer_rate(value: int | None, seconds: float) -> str:
    """Bytes over a time as bandwidth."""
    return unit_formats.format_bandwidth(None if value is None else value / seconds)


def _full(share: float | None) -> Text:
    style = "" if share is None or share < 0.8 else "yellow" if share < 0.9 else "bold red"
    return Text(unit_formats.format_percent(share), style=style)


def _signed(value: int | None) -> str:
    text = unit_formats.format_bytes(value)
    return f"+{text}" if value is not None and value > 0 else text


def build_answer_op_table(rows: Sequence[OpCount], heading: str, width: int, *, owner: bool = False) -> RenderableType:
    """Metadata operations by name, with bars."""
    columns = [
        Column(heading, lambda r: r.name, longest=30),
        *(
            [
                Column("user", lambda r: format_answer_word(r.user), spare=1, longest=14),
                Column("program", lambda r: shorten_answer_program(r.program), spare=2, longest=18),
            ]
            if owner
            else []
        ),
        Column("ops/s", lambda r: unit_formats.format_count(round(r.per_s, 1)), right=True),
        Column("share", lambda r: unit_formats.format_percent(r.share), right=True, spare=1),
        Column("", lambda r: draw_bar_picture(r.share, 20 if width >= 100 else 12, META), spare=3),
        Column("ops", lambda r: unit_formats.format_count(r.count), right=True, spare=4),
    ]
    if any(row.mean_ns is not None for row in rows):
        mean = Column(
            "mean",
            lambda r: unit_formats.format_duration(None if r.mean_ns is None else r.mean_ns / 1e9),
            right=True,
            spare=2,
        )
        columns.append(mean)
    return fit_answer_table(columns, rows, width)


def render_answer_latencies(rows: Sequence[LatencyLine], width: int) -> list[RenderableType]:
    """How long requests took, by layer and kind; or that nothing counted it."""
    if not rows:
        return [Text("\ntimes of requests: unknown (nothing here counts them)", style="dim")]

    def told(ns: float | None) -> str:
        return unit_formats.format_duration(None if ns is None else ns / 1e9)

    columns = [
        Column("layer", lambda r: r.layer),
        Column("requests", lambda r: r.kind),
        Column("mean", lambda r: told(r.mean_ns), right=True),
        Column("of", lambda r: unit_formats.format_count(r.requests), right=True),
    ]
    if any(row.p50_ns is not None for row in rows):
        columns += [
            Column("p50", lambda r: told(r.p50_ns), right=True, spare=1),
            Column("p95", lambda r: told(r.p95_ns), right=True, spare=1),
            Column("p99", lambda r: told(r.p99_ns), right=True, spare=1),
        ]
    return [Text("\nTimes of requests", style="bold"), fit_answer_table(columns, rows, width)]


def draw_answer_timeline(drawn: Timeline, width: int, *, layers: Sequence[str] | None = None) -> RenderableType:
    """Each layer's reads, writes and metadata operations over time, one line each, all byte lines to one scale."""
    shown = [s for s in drawn.series if layers is None or s.layer in layers]
    labels = 24
    columns = max(10, width - labels - 14)
    moving = [v for s in shown for line_ in (s.read_bytes_per_s, s.write_bytes_per_s) for v in line_ if v is not None]
    top = max(moving, default=0.0)
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=labels, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="crop")
    table.add_column(no_wrap=True, justify="right")
    each = max(1, columns // max(1, drawn.points))
    drawn_any = False
    for series in shown:
        for name, values, style, form in (
            ("read", series.read_bytes_per_s, READ, unit_formats.format_bandwidth),
            ("write", series.write_bytes_per_s, WRITE, unit_formats.format_bandwidth),
            ("operations", series.metadata_ops_per_s, META, _per_s),
        ):
            known = [v for v in values if v is not None]
            if not known or (not any(known) and name != "write"):
                continue
            label = f"{series.layer} {name}" + (" (estimate)" if series.estimated else "")
            values = [value for value in values for _ in range(each)]
            picture = draw_line_picture(values, columns, top=top if name != "operations" else None, style=style)
            table.add_row(Text(label), picture, Text(f"{form(max(known))}", style="dim"))
            drawn_any = True
    if not drawn_any:
        return Text("no data in this time", style="yellow")
    end_ns = drawn.from_ns + drawn.points * drawn.step_ns
    table.add_row(
        Text(""),
        draw_axis_picture(drawn.from_ns, end_ns, min(columns, drawn.points * each)),
        Text("highest", style="dim"),
    )
    return table


def _per_s(value: float) -> str:
    return f"{unit_formats.format_count(round(value, 1))}/s"


def list_answer_gaps(gaps: Sequence[Gap], most: int = 8) -> list[Text]:
    """What was silent, since when."""
    lines = [
        Text.assemble(
            (escape_text(gap.source), "bold"),
            f" no data from {unit_formats.format_time(gap.from_ns)} ",
            "until now" if gap.to_ns is None else f"to {unit_formats.format_time(gap.to_ns)}",
            (f": {escape_text(gap.why)}" if gap.why else ""),
        )
        for gap in gaps[:most]
    ]
    if len(gaps) > most:
        lines.append(Text(f"and {len(gaps) - most} more", style="dim"))
    return lines
