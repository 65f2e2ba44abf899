"""Lines over the load with their bands, one panel a number of applications, as accessible `<svg>` text. Pure functions.

Colours, axes and text are those of `fairlead.show.report.diagnosis.svg`. Not here: the page around them (`page`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fairlead.decide.sim.experiments.results import FigureData, Panel
from fairlead.decide.sim.experiments.summary import Course, Point
from fairlead.show.report.diagnosis import svg
from fairlead.show.report.diagnosis.charts import Lane, Stretch, draw_bar_chart, draw_gantt_chart
from fairlead.show.report.diagnosis.svg import (
    Axis,
    Scale,
    draw_svg_label,
    escape_svg_text,
    format_svg_value,
    get_svg_colour,
    to_svg,
)

COLOURS = ("read", "write", "good", "slow", "meta", "mixed", "ink", "faint")
"""Of lines, in order."""
DASHES = ("", "7 4", "2 3", "9 3 2 3")
"""Of lines: one more each time colours begin anew, and for the second kind of information."""
MARKS = ("circle", "square", "up", "diamond", "down", "cross")
"""At points, so that lines are told apart without colours."""
_LEFT, _RIGHT, _BOTTOM, _TOP, _GAP = 62.0, 14.0, 44.0, 26.0, 54.0
_WIDE, _NARROW, _HIGH = 660.0, 272.0, 290.0
_LEGEND = 18.0
_LOG_TICKS = tuple(m * 10.0**e for e in range(-3, 7) for m in (1, 2, 3, 5))
_DECADE = 4.0
"""From this ratio of the highest to the lowest on slowdowns are drawn on a logarithmic scale."""
LANES = 40
"""No more applications are drawn as lanes."""


def draw_picture(drawn: FigureData, *, title: str = "") -> str:
    """A picture of an experiment: panels side by side under one legend, y from the same scale."""
    name = f"{title}: {drawn.title}" if title else drawn.title
    if drawn.kind == "best-counts":
        groups = {
            curves: {"direct" if n == 0 else f"{n} resource{'s' * (n > 1)}": float(many) for n, many in row.items()}
            for curves, row in drawn.counts.items()
        }
        return draw_bar_chart(groups, title=name, kind="count", colours={"direct": "faint"})
    return _panels(drawn, name) if has_picture_title(drawn) else _single(drawn, name)


def has_picture_title(drawn: FigureData) -> bool:
    """Whether the picture shows its title itself."""
    return any(len(line.points) > 1 for panel in drawn.panels for line in panel.lines)


def _at(point: Point) -> float:
    """Where a point lies across: one without a load is the only one of its line."""
    return 0.0 if point.load_sys is None else point.load_sys


def _kind(drawn: FigureData) -> svg.Kind:
    return "share" if drawn.measure in ("idle", "spread", "occupancy_mean", "fairness") else "number"


def _single(drawn: FigureData, name: str) -> str:
    """Of one point a bar a line."""
    groups: dict[str, dict[str, float | None]] = {}
    for panel in drawn.panels:
        for text, line in zip(panel.labels, panel.lines, strict=True):
            said = text if len(drawn.panels) == 1 else f"{text}, {panel.applications} {panel.of}"
            groups[said] = {drawn.axis: line.points[0].mean if line.points else None}
    return draw_bar_chart(groups, title=name, kind=_kind(drawn))


def _panels(drawn: FigureData, name: str) -> str:
    wide = _WIDE if len(drawn.panels) == 1 else _NARROW
    width = _LEFT + len(drawn.panels) * wide + (len(drawn.panels) - 1) * _GAP + _RIGHT
    labels = drawn.panels[0].labels if drawn.panels else []
    legend, rows = _legend(labels, _styles(drawn.panels[0]) if drawn.panels else [], width)
    top = _TOP + (rows + 1) * _LEGEND + 12
    points = [p for panel in drawn.panels for line in panel.lines for p in line.points]
    known = [v for p in points for v in (p.mean, p.low, p.high) if v is not None]
    log = drawn.measure.startswith(("slowdown", "stretch", "granted"))
    log = log and bool(known) and 0 < _DECADE * min(known) < max(known)
    kind = _kind(drawn)
    across_axis, up_axis = Axis("load(π_sys)", low=0.0), Axis(drawn.axis, kind, log=log)
    highest = max((_at(p) for p in points), default=1.0)
    parts, said = [draw_svg_label(_LEFT, 13, drawn.title, size=13, fill="ink"), legend], []
    for place, panel in enumerate(drawn.panels):
        left = _LEFT + place * (wide + _GAP)
        across = svg.build_svg_scale([0.0, highest], across_axis, left, left + wide)
        up = svg.build_svg_scale(known, up_axis, top + _HIGH, top, zero=not log)
        parts.append(_frame(across, up))
        parts.append(draw_svg_label(left, top - 8, f"{panel.applications} {panel.of}: {drawn.axis}", fill="ink"))
        styles = _styles(panel)
        parts += [_band(line, shade, across, up) for line, (shade, *_) in zip(panel.lines, styles, strict=True)]
        parts += [
            _line(line, text, style, across, up)
            for line, text, style in zip(panel.lines, panel.labels, styles, strict=True)
        ]
        said.append(_said(panel, drawn, kind))
        if not known:
            parts.append(draw_svg_label(left + wide / 2, top + _HIGH / 2, "no data", anchor="middle", fill="faint"))
    desc = "Simulated. Lines: means over sets; bands: 10th to 90th percentile. " + " ".join(said)
    return svg.build_svg_drawing(width, top + _HIGH + _BOTTOM, name, desc, "".join(parts))


def _styles(panel: Panel) -> list[tuple[str, str, str]]:
    """Colour, dash and mark of each line: one colour a policy, dashed where it was told less."""
    policies = list(dict.fromkeys(line.policy for line in panel.lines))
    told = list(dict.fromkeys(line.information for line in panel.lines))
    out = []
    for line in panel.lines:
        at, less = policies.index(line.policy), told.index(line.information)
        dash = DASHES[(at // len(COLOURS) + less) % len(DASHES)]
        out.append((COLOURS[at % len(COLOURS)], dash, MARKS[at % len(MARKS)]))
    return out


def _frame(across: Scale, up: Scale) -> str:
    parts = []
    for value, text in _ticks(up):
        at = to_svg(up.place_value(value))
        parts.append(
            f'<path d="M{to_svg(across.start)} {at}H{to_svg(across.stop)}" stroke="{get_svg_colour("grid")}"/>'
        )
        parts.append(draw_svg_label(across.start - 6, up.place_value(value) + 4, text, anchor="end"))
    return "".join([*parts, svg.draw_svg_x_axis(across, up.start)])


def _ticks(up: Scale) -> list[tuple[float, str]]:
    if not up.axis.log:
        return up.list_ticks(6)
    return [(value, f"{value:g}") for value in _LOG_TICKS if up.low * 0.999 <= value <= up.high * 1.001]


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Stretches of points that are known: a gap in the data is a gap in the line."""
    run: list[Point] = []
    for one in points:
        if one.mean is None:
            if run:
                yield run
            run = []
        else:
            run.append(one)
    if run:
        yield run


def _band(line: Course, shade: str, across: Scale, up: Scale) -> str:
    parts = []
    for run in _runs(line.points):
        upper = [(across.place_value(_at(p)), up.place_value(p.high)) for p in run if p.high is not None]
        lower = [(across.place_value(_at(p)), up.place_value(p.low)) for p in reversed(run) if p.low is not None]
        if len(upper) < 2:
            continue
        path = "L".join(f"{to_svg(a)} {to_svg(b)}" for a, b in [*upper, *lower])
        parts.append(f'<path d="M{path}Z" fill="{get_svg_colour(shade)}" fill-opacity="0.09"/>')
    return "".join(parts)


def _line(line: Course, text: str, style: tuple[str, str, str], across: Scale, up: Scale) -> str:
    shade, dash, mark = style
    parts = []
    for run in _runs(line.points):
        at = [(across.place_value(_at(p)), up.place_value(p.mean)) for p in run if p.mean is not None]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        path = "L".join(f"{to_svg(a)} {to_svg(b)}" for a, b in at)
        parts.append(
            f'<path d="M{path}" fill="none" stroke="{get_svg_colour(shade)}" stroke-width="1.8" '
            f'stroke-linejoin="round"{dashed}/>'
        )
        for point, (a, b) in zip(run, at, strict=True):
            band = "" if point.low is None or point.high is None else f" ({point.low:.3g} to {point.high:.3g})"
            told = f"{text}, load {_at(point):.2f}: {point.mean:.3g}{band}, {point.sets} sets"
            parts.append(f"<g><title>{escape_svg_text(told)}</title>{_mark(mark, a, b, shade)}</g>")
    return f"<g>{''.join(parts)}</g>" if parts else ""


def _mark(mark: str, x: float, y: float, shade: str) -> str:
    paths = {
        "square": "M-2.6 -2.6h5.2v5.2h-5.2z",
        "up": "M0 -3.4L3.2 2.4H-3.2z",
        "down": "M0 3.4L3.2 -2.4H-3.2z",
        "diamond": "M0 -3.6L3.2 0L0 3.6L-3.2 0z",
    }
    place = f'transform="translate({to_svg(x)} {to_svg(y)})"'
    if mark == "circle":
        return f'<circle cx="{to_svg(x)}" cy="{to_svg(y)}" r="2.7" fill="{get_svg_colour(shade)}"/>'
    if mark == "cross":
        stroke = f'stroke="{get_svg_colour(shade)}" stroke-width="1.6"'
        return f'<path {place} d="M-2.7 -2.7L2.7 2.7M-2.7 2.7L2.7 -2.7" {stroke}/>'
    return f'<path {place} d="{paths[mark]}" fill="{get_svg_colour(shade)}"/>'


def _legend(labels: Sequence[str], styles: Sequence[tuple[str, str, str]], width: float) -> tuple[str, int]:
    """Names beside a piece of their line, in as many rows as they need."""
    parts, at, row = [], _LEFT, 0
    for text, (shade, dash, mark) in zip(labels, styles, strict=True):
        long = 44 + 6.6 * len(text)
        if at + long > width - _RIGHT and at > _LEFT:
            at, row = _LEFT, row + 1
        y = 14 + (row + 1) * _LEGEND
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(
            f'<path d="M{to_svg(at)} {to_svg(y - 4)}h24"'
            f' stroke="{get_svg_colour(shade)}" stroke-width="1.8"{dashed}/>'
            f"{_mark(mark, at + 12, y - 4, shade)}{draw_svg_label(at + 29, y, text, fill='ink')}"
        )
        at += long
    return "".join(parts), row + 1 if labels else 0


def _said(panel: Panel, drawn: FigureData, kind: svg.Kind) -> str:
    """A panel in words: each line at its first and last load."""
    said = []
    for text, line in zip(panel.labels, panel.lines, strict=True):
        known = [p for p in line.points if p.mean is not None]
        if not known:
            said.append(f"{text} no data")
            continue
        first, last = known[0], known[-1]
        ends = [f"{format_svg_value(p.mean, kind)} at load {_at(p):.2f}" for p in (first, last)]
        said.append(f"{text} {ends[0]}" + (f", {ends[1]}" if last is not first else ""))
    return f"{panel.applications} {panel.of}, {drawn.axis}: {'; '.join(said)}."


def draw_run_picture(
    names: Sequence[str], rows: Sequence[tuple[int, float, float, float]], until_s: float, *, title: str
) -> str:
    """A small run as lanes: by application its I/O from begin to end. `rows`: application, begin, end, seconds it takes
    alone; what contention adds has another colour."""
    lanes: list[list[Stretch]] = [[] for _ in names]
    for application, begin, end, alone in rows:
        if begin >= until_s or math.isnan(end):
            continue
        quiet, stop = min(begin + alone, until_s, end), min(end, until_s)
        told = f"{names[application]}: I/O from {begin:,.0f} s for {end - begin:,.0f} s, alone {alone:,.0f} s"
        lanes[application].append(Stretch(begin, quiet, "alone on what it is granted", "read", told))
        if stop > quiet + 1e-9:
            lanes[application].append(Stretch(quiet, stop, "waiting for others", "slow", told))
    drawn = [Lane(name, tuple(stretches)) for name, stretches in zip(names, lanes, strict=True)]
    return draw_gantt_chart(drawn, title=title, x=Axis("simulated time", "seconds", low=0.0, high=until_s))
