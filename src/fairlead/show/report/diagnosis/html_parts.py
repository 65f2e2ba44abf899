"""Parts the pages of diagnosis are made of: boxes, tables, findings, pictures of courses and runs, as escaped HTML.

The pages hold no script at all. Not here: which parts a page has (`build_html_page`), drawing (`charts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from fairlead.core.model import unit_formats
from fairlead.core.model.finding import Advice, Evidence, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding
from fairlead.core.model.incident import Incident
from fairlead.explain.questions.answers_diagnosis import Course, Usual
from fairlead.show.report import page_file
from fairlead.show.report.diagnosis.charts import Points, Series, Stretch, draw_line_chart, draw_scatter_chart
from fairlead.show.report.diagnosis.svg import Axis, Kind, escape_svg_text

AUDIENCE = {
    "user": "for the user",
    "culprit": "for the owner of the other job",
    "site": "for the administrator",
    "developer": "for the developer",
}
ROLE_COLOUR = {
    "victim": "read",
    "culprit": "slow",
    "other": "mixed",
    "whole": "usual",
    "wait": "meta",
    "peak": "good",
    "usual": "muted",
    "read": "read",
    "write": "write",
    "metadata": "meta",
}
KIND_OF_UNIT: dict[str, Kind] = {
    "bytes/s": "bandwidth",
    "operations/s": "count",
    "s": "seconds",
    "requests": "count",
}
Cell = str | tuple[str, str]
"""Escaped HTML; with a class where it needs one."""


def build_html_page(title: str, body: str) -> str:
    """A whole page of this body (HTML that is escaped already), that fetches nothing and runs nothing."""
    style = _style()
    slots = {
        "title": f"{escape_svg_text(page_file.make_page_file_readable(title))} – fairlead",
        "style": style,
        "body": body,
        "policy": page_file.build_page_file_policy("", style),
    }
    return page_file.fill_page_file_template(_text("page.html"), slots)


@cache
def _style() -> str:
    return files("fairlead.show.report.job").joinpath("report.css").read_text("utf-8") + _text("diagnosis.css")


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def escape_html_text(value: object) -> str:
    """Text from anywhere, escaped."""
    return escape_svg_text(page_file.make_page_file_readable(str(value)))


def build_html_head(word: str, style: str, title: str, lines: Iterable[str]) -> str:
    """The top of a page: a word on a colour, the headline, facts (escaped here)."""
    facts = "".join(f'<p class="facts">{escape_html_text(line)}</p>' for line in lines if line)
    return (
        f'<header class="diag-head"><p class="brand">fairlead</p><span class="verdict-word '
        f'word-{escape_html_text(style)}">{escape_html_text(word)}</span>'
        f"<h1>{escape_html_text(title)}</h1>{facts}</header>"
    )


def build_html_box(title: str, body: str) -> str:
    """A part with a heading; nothing when there is no body."""
    return f'<section class="box"><h2>{escape_html_text(title)}</h2>{body}</section>' if body else ""


def build_html_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, this: int | None = None) -> str:
    """A table of cells that are escaped already; headings that begin with `>` are of numbers."""
    if not rows:
        return ""
    numbers = [name.startswith(">") for name in headings]
    top = "".join(
        f'<th scope="col"{_num(n)}>{escape_html_text(name.lstrip(">"))}</th>'
        for name, n in zip(headings, numbers, strict=True)
    )
    lines = []
    for at, row in enumerate(rows):
        cells = "".join(
            f"<td{_num(n)}>{cell if isinstance(cell, str) else cell[0]}</td>"
            for cell, n in zip(row, numbers, strict=True)
        )
        lines.append(f"<tr{' class=' + chr(34) + 'this' + chr(34) if at == this else ''}>{cells}</tr>")
    inner = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table class="diag">{inner}</table></div>'


def _num(right: bool) -> str:
    return ' class="num"' if right else ""


def build_html_list(texts: Iterable[str]) -> str:
    """Lines as a list, escaped here; nothing when there are none."""
    items = "".join(f"<li>{escape_html_text(text)}</li>" for text in texts)
    return f'<ul class="says">{items}</ul>' if items else ""


def build_html_evidence_table(rows: Sequence[Evidence]) -> str:
    """The chain of evidence, in its order."""
    items = "".join(f"<li>{escape_html_text(one.text)}</li>" for one in rows)
    return f'<ol class="says">{items}</ol>' if items else ""


def build_html_advice_list(rows: Sequence[Advice]) -> str:
    """What to do, for whom."""
    items = []
    for one in rows:
        code = f'<pre class="code">{_escape_code(one.code)}</pre>' if one.code else ""
        items.append(
            f"<li>{escape_html_text(one.text)} <span"
            f' class="tag">{escape_html_text(AUDIENCE.get(one.audience, one.audience))}</span>{code}</li>'
        )
    return f'<ul class="says">{"".join(items)}</ul>' if items else ""


def _escape_code(code: str | None) -> str:
    """Code line by line, escaped."""
    return "\n".join(escape_html_text(line) for line in (code or "").split("\n"))


def _format_subject(who: Subject) -> str:
    """A job or component in words."""
    return who.id if who.id.startswith("another") else f"{who.kind} {who.id}"


def format_html_span(from_ns: int | None, to_ns: int | None) -> str:
    """A stretch of time in words."""
    if from_ns is None:
        return "at an unknown time"
    end = "until now" if to_ns is None else f"to {unit_formats.format_time(to_ns)}"
    return f"{unit_formats.format_time(from_ns)} {end}"


def build_html_findings_table(rows: Sequence[StoredFinding]) -> str:
    """A line a finding."""
    return build_html_table(
        ["severity", "what", "when", ">cost", ">sure", "id"],
        [
            [
                (
                    f'<span class="verdict-word'
                    f' word-{escape_html_text(one.finding.severity)}">{escape_html_text(one.finding.severity)}</span>'
                ),
                escape_html_text(one.finding.title),
                escape_html_text(format_html_span(one.finding.from_ns, one.finding.to_ns)),
                escape_html_text(unit_formats.format_duration(one.finding.cost_s)),
                escape_html_text(unit_formats.format_percent(one.finding.confidence)),
                f"<code>{escape_html_text(one.finding.id)}</code>",
            ]
            for one in rows
        ],
    )


def build_html_incidents_table(rows: Sequence[Incident], now_ns: int) -> str:
    """One line per incident."""
    return build_html_table(
        ["component", "state", "since", ">lasted", ">share of peak", "likely cause", "kind"],
        [
            [
                escape_html_text(f"{one.layer} {one.component}"),
                escape_html_text(one.kind),
                escape_html_text(format_html_span(one.from_ns, one.to_ns)),
                escape_html_text(unit_formats.format_duration(one.compute_duration_s(now_ns))),
                escape_html_text(unit_formats.format_percent(one.share_of_peak)),
                escape_html_text(one.hint.replace("_", " ")),
                escape_html_text(one.persistence),
            ]
            for one in rows
        ],
    )


def draw_html_courses(rows: Sequence[Course]) -> str:
    """Each course as a picture, one below the other over the same time."""
    return "".join(
        f'<h3>{escape_html_text(one.title)}</h3><div class="picture">{_draw_course(one)}</div>' for one in rows
    )


def _draw_course(one: Course) -> str:
    """Lines over time with what matters marked."""
    middle = [
        one.from_ns + (k + 0.5) * one.step_ns for k in range(max((len(line.values) for line in one.lines), default=0))
    ]
    lines = [
        Series(
            line.name,
            middle[: len(line.values)],
            line.values,
            colour=ROLE_COLOUR.get(line.role, "mixed"),
            dashed=line.role in ("peak", "usual"),
        )
        for line in one.lines
    ]
    marks = [Stretch(float(low), float(high), colour="slow") for low, high in one.marked]
    low, high = float(one.from_ns), one.from_ns + len(middle) * float(one.step_ns)
    kind = KIND_OF_UNIT.get(one.unit, "number")
    return draw_line_chart(
        lines,
        title=one.title,
        x=Axis(kind="time", low=low, high=max(high, low + 1)),
        y=Axis(label=one.unit if kind == "count" else "", kind=kind, low=0.0),
        highlights=marks,
    )


def draw_html_usual(one: Usual) -> str:
    """This run among those like it: when each began, and what it got."""
    kind: Kind = "count" if one.kind == "metadata" else "bandwidth"
    groups = []
    for name, mine, colour in (("runs like it", False, "usual"), ("this run", True, "slow")):
        rows = [run for run in one.runs if run.this is mine]
        jobs = [f"job {run.job_id}" if run.job_id else "" for run in rows]
        times, rates = [float(run.start_ns) for run in rows], [run.rate_per_s for run in rows]
        groups.append(Points(name, times, rates, colour=colour, names=jobs))
    words = f"{format_html_usual_rates(one)}." if one.rate_p50 is not None else "Nothing like it is known."
    picture = draw_scatter_chart(
        groups,
        title=f"{one.kind}: this run and runs like it",
        x=Axis(kind="time"),
        y=Axis(label="operations/s" if kind == "count" else "", kind=kind, low=0.0),
    )
    return (
        f"<h3>{escape_html_text(one.kind.capitalize())}</h3><p"
        f' class="quiet">{escape_html_text(words)}</p><div class="picture">{picture}</div>'
    )


def format_html_lost_time(seconds: float | None) -> str:
    """Time lost in words: less than a thousandth of a second is none."""
    return unit_formats.format_duration(0.0 if seconds is not None and seconds < 1e-3 else seconds)


def build_html_evidence_heading(told: StoredFinding, headline: str) -> str:
    """The heading of a finding's evidence on a page with this headline, which is not said twice."""
    return "How that is known" if told.finding.title == headline else told.finding.title


def format_html_usual_rates(one: Usual) -> str:
    """What phases like it got, in words."""
    count = len(one.runs) - 1
    low, high = format_html_rate(one.rate_p25, one.kind), format_html_rate(one.rate_p75, one.kind)
    whose = f"{count} other{'' if count == 1 else 's'} ({one.like}) got"
    return f"{whose} {low}" if low == high else f"{whose} {low} to {high} (half of them)"


def format_html_rate(value: float | None, kind: str) -> str:
    """A rate of a phase of this kind in words."""
    if kind == "metadata":
        return unit_formats.ABSENT if value is None else f"{unit_formats.format_count(round(value, 1))} operations/s"
    return unit_formats.format_bandwidth(value)
