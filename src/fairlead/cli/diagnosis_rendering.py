"""What the commands of diagnosis show alike: evidence, advice, courses over time, runs like one, incidents.

Not here: whole pages (the commands), tables of other answers (`answer_tables`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairlead.cli.answer_tables import Column, fit_answer_table
from fairlead.cli.pictures import META, READ, draw_axis_picture, draw_line_picture
from fairlead.core.model import unit_formats
from fairlead.core.model.finding import Advice, Evidence
from fairlead.core.model.incident import Incident
from fairlead.core.safe_text import escape_text
from fairlead.explain.questions.answers_diagnosis import Course, Usual
from fairlead.show.report.diagnosis.html_parts import (
    AUDIENCE,
    format_html_rate,
    format_html_span,
    format_html_usual_rates,
)

ROLE_STYLE = {"victim": READ, "culprit": "red3", "whole": "grey62", "wait": META, "peak": "green", "usual": "dim"}


def render_diagnosis_heading(text: str) -> Text:
    """A heading with room above."""
    return Text(f"\n{text}", style="bold")


def render_diagnosis_lines(texts: Sequence[str], sign: str = "-") -> list[RenderableType]:
    """Texts of any length, wrapped behind a sign."""
    return [_hanging(sign, Text(escape_text(text))) for text in texts]


def _hanging(sign: str, text: Text) -> RenderableType:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text(sign), text)
    return Padding(grid, (0, 0, 0, 2))


def render_diagnosis_evidence(rows: Sequence[Evidence]) -> list[RenderableType]:
    """The chain, numbered."""
    return [_hanging(f"{number}.", Text(escape_text(one.text))) for number, one in enumerate(rows, 1)]


def render_diagnosis_advice(rows: Sequence[Advice]) -> list[RenderableType]:
    """What to do, for whom."""
    parts: list[RenderableType] = []
    for one in rows:
        who = AUDIENCE.get(one.audience, one.audience)
        parts.append(_hanging("-", Text.assemble(escape_text(one.text), (f" ({who})", "dim"))))
        parts += [Text(f"      {escape_text(code)}", style="cyan") for code in (one.code or "").splitlines()]
    return parts


def render_diagnosis_courses(rows: Sequence[Course], width: int) -> list[RenderableType]:
    """Each course: its lines to one scale, the marked stretch below them, its time axis last."""
    parts: list[RenderableType] = []
    for one in rows:
        parts += [Text(f"\n{escape_text(one.title)}"), _course(one, width)]
    return parts


def _course(one: Course, width: int) -> RenderableType:
    labels, columns = 16, max(20, width - 16 - 16)
    points = max((len(drawn.values) for drawn in one.lines), default=0)
    known = [v for drawn in one.lines for v in drawn.values if v is not None]
    top = max(known, default=0.0)
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=labels, no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, overflow="crop")
    table.add_column(no_wrap=True, justify="right")
    each = max(1, columns // max(1, points))
    for drawn in one.lines:
        here = [v for v in drawn.values if v is not None]
        if drawn.role in ("peak", "usual"):
            said = (
                f"{escape_text(drawn.name)}: {_format_amount(max(here), one.unit)}"
                if here
                else f"{escape_text(drawn.name)}: not known"
            )
            table.add_row(Text(""), Text(said, style="dim"), Text(""))
            continue
        values = [v for v in drawn.values for _ in range(each)]
        table.add_row(
            Text(escape_text(drawn.name)),
            draw_line_picture(values, columns, top=top or None, style=ROLE_STYLE.get(drawn.role, "")),
            Text(_format_amount(max(here), one.unit) if here else "no data", style="dim"),
        )
    end = one.from_ns + points * one.step_ns
    wide = min(columns, points * each)
    if one.marked and points:
        table.add_row(Text("then", style="dim"), Text(_marks(one, end, wide), style="red3"), Text(""))
    table.add_row(Text(""), draw_axis_picture(one.from_ns, end, wide), Text("highest", style="dim"))
    return table


def _marks(one: Course, end: int, wide: int) -> str:
    signs = [" "] * wide
    for low, high in one.marked:
        first = max(0, min(wide - 1, int((low - one.from_ns) * wide / max(1, end - one.from_ns))))
        last = max(first, min(wide - 1, int((high - one.from_ns) * wide / max(1, end - one.from_ns))))
        signs[first : last + 1] = ["^"] * (last + 1 - first)
    return "".join(signs)


def _format_amount(value: float | None, unit: str) -> str:
    """A value of a course in its unit."""
    if value is None:
        return unit_formats.ABSENT
    if unit == "bytes/s":
        return unit_formats.format_bandwidth(value)
    if unit == "s":
        return unit_formats.format_duration(value)
    count = unit_formats.format_count(round(value, 1))
    return f"{count}/s" if unit == "operations/s" else count


def render_diagnosis_usual(rows: Sequence[Usual], width: int) -> list[RenderableType]:
    """What runs like it got, by kind of I/O, and this one."""
    parts: list[RenderableType] = []
    for one in rows:
        mine = next((run for run in one.runs if run.this), None)
        others = [run for run in one.runs if not run.this]
        if mine is None:
            continue
        if not others:
            parts.append(Text(f"  {one.kind}: no comparable run is known", style="dim"))
            continue
        said = f"  {one.kind}: {format_html_rate(mine.rate_per_s, one.kind)}; {format_html_usual_rates(one)}"
        rates = [*(run.rate_per_s for run in others), mine.rate_per_s]
        picture = (
            Text("  ")
            + draw_line_picture(rates, max(10, min(width - 20, len(rates))), style="grey62")
            + Text(" ← this run")
        )
        parts += [Text(said), picture]
    return parts


def render_diagnosis_incidents(rows: Sequence[Incident], now_ns: int, width: int) -> RenderableType:
    """One line per incident."""
    columns = [
        Column("component", lambda r: f"{r.layer} {r.component}", longest=34),
        Column("state", lambda r: r.kind),
        Column("when", lambda r: format_html_span(r.from_ns, r.to_ns).replace(" UTC", ""), longest=46, spare=1),
        Column("lasted", lambda r: unit_formats.format_duration(r.compute_duration_s(now_ns)), right=True),
        Column("of peak", lambda r: unit_formats.format_percent(r.share_of_peak), right=True, spare=2),
        Column("likely cause", lambda r: r.hint.replace("_", " "), spare=3),
        Column("kind", lambda r: r.persistence, spare=4),
    ]
    return fit_answer_table(columns, rows, width)
