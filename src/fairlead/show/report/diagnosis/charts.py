"""Pictures as accessible `<svg>` text: lines, heat maps, bars, distributions, scatter and lanes. Pure functions.

Every picture has a title and a description, follows the page's colours (light and dark) and holds no script. What is
not known is left open or hatched, never drawn as zero. Not here: the page around them, axes and colours (`svg`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from fairlead.show.report.diagnosis import svg
from fairlead.show.report.diagnosis.svg import (
    Axis,
    Kind,
    Scale,
    draw_svg_label,
    escape_svg_text,
    format_svg_value,
    get_svg_colour,
    shorten_svg_middle,
    to_svg,
)

__all__ = [
    "Axis",
    "Lane",
    "Points",
    "Series",
    "Stretch",
    "draw_bar_chart",
    "draw_cdf_chart",
    "draw_gantt_chart",
    "draw_heat_map_chart",
    "draw_line_chart",
    "draw_scatter_chart",
]

LEVELS: tuple[tuple[str, float, str, float], ...] = (
    ("idle", 0.1, "usual", 0.25),
    ("low", 0.5, "read", 0.45),
    ("mid", 0.9, "write", 0.8),
    ("high", math.inf, "slow", 1.0),
)
"""Levels of a heat map: name, the share of the peak it ends below (Beacon, TOS 2023, section 7), colour, opacity."""
REQUEST_SIZES = (1 << 10, 64 << 10, 1 << 20, 16 << 20)
"""Sizes of requests whose lines a scatter of bandwidth over operations a second shows, bytes."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 74.0, 14.0, 30.0, 40.0
_MOST_POINTS = 4000
NO_DATA = "no data"


@dataclass(frozen=True)
class Series:
    """One line: values `y` (None: not known, a gap) over `x`, equally many. `colour`: a name of `svg.COLOURS`."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str = "read"
    dashed: bool = False


@dataclass(frozen=True)
class Stretch:
    """From where to where along x something was, with its name and colour. `text` is shown when pointed at."""

    start: float
    stop: float
    name: str = ""
    colour: str = "slow"
    text: str = ""


@dataclass(frozen=True)
class Lane:
    """A lane of a Gantt chart: its name and what lies in it."""

    name: str
    stretches: Sequence[Stretch]


@dataclass(frozen=True)
class Points:
    """Dots of one colour at (x, y); a dot either of whose values is None is not drawn, and counted as missing.
    `names`, when given, are shown when pointed at."""

    name: str
    x: Sequence[float | None]
    y: Sequence[float | None]
    colour: str = "read"
    names: Sequence[str] = ()


def draw_line_chart(
    series: Sequence[Series],
    *,
    title: str,
    desc: str = "",
    x: Axis | None = None,
    y: Axis | None = None,
    highlights: Sequence[Stretch] = (),
    width: float = 720,
    height: float = 220,
) -> str:
    """Lines over time (or another x). A None in `y` is a gap; a value between two gaps is a dot."""
    x, y = x or Axis(kind="time"), y or Axis(kind="bandwidth")
    across, up = _plane(
        [v for s in series for v in s.x] + [v for h in highlights for v in (h.start, h.stop)],
        [v for s in series for v in s.y],
        x,
        y,
        width,
        height,
    )
    parts = [_highlight(one, across, up) for one in highlights]
    parts.append(svg.draw_svg_frame(across, up))
    parts += [_line(one, across, up) for one in series]
    if not any(_known(v) for s in series for v in s.y):
        parts.append(_nothing(across, up))
    names = [(s.name, s.colour) for s in series if s.name] + [(h.name, h.colour) for h in highlights if h.name]
    parts.append(svg.draw_svg_legend(list(dict.fromkeys(names)), _LEFT + 90, 14, width - _LEFT - 100))
    return svg.build_svg_drawing(width, height, title, desc or _told(series, y.kind), "".join(parts))


def draw_heat_map_chart(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    title: str,
    desc: str = "",
    levels: Sequence[tuple[str, float, str, float]] | None = LEVELS,
    kind: Kind = "share",
    width: float = 720,
) -> str:
    """One cell a row and column: `values[row][column]`, None hatched. With `levels`, shares of the peak in its colours;
    without, a ramp from the least to the largest value."""
    cell_h = 16.0 if len(rows) <= 24 else max(3.0, 384.0 / len(rows))
    left = min(170.0, 24 + 6.4 * max((len(shorten_svg_middle(name, 22)) for name in rows), default=0))
    across = (width - left - _RIGHT) / max(1, len(columns))
    height = _TOP + cell_h * len(rows) + 36
    flat = [v for row in values for v in row if v is not None and math.isfinite(v)]
    top = max(flat, default=0.0) or 1.0
    hatch = (
        "h"
        + blake2b(
            f"{title}\0{rows}\0{columns}\0{values}".encode("utf-8", "backslashreplace"), digest_size=5
        ).hexdigest()
    )
    parts = ['<g shape-rendering="crispEdges">']
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            fill, opacity, said = _heat(value, levels, top, hatch)
            told = f"{rows[i]}, {columns[j]}: {format_svg_value(value, kind) if _known(value) else NO_DATA}{said}"
            parts.append(
                f'<rect x="{to_svg(left + j * across)}" y="{to_svg(_TOP + i * cell_h)}"'
                f' width="{to_svg(across)}" '
                f'height="{to_svg(cell_h)}" fill="{fill}"'
                f' fill-opacity="{to_svg(opacity)}" stroke="{get_svg_colour("card")}" '
                f'stroke-width="0.5"><title>{escape_svg_text(told)}</title></rect>'
            )
    parts.append("</g>")
    if cell_h >= 9:
        for i, name in enumerate(rows):
            parts.append(
                draw_svg_label(left - 6, _TOP + i * cell_h + cell_h / 2 + 4, shorten_svg_middle(name, 22), anchor="end")
            )
    step = max(1, math.ceil(len(columns) * 52 / max(1.0, width - left)))
    foot = _TOP + cell_h * len(rows) + 15
    parts += [
        draw_svg_label(left + j * across, foot, shorten_svg_middle(columns[j], 12))
        for j in range(0, len(columns), step)
    ]
    if levels is not None:
        keys = [(f"{name} <{below:.0%}" if below < math.inf else name, shade) for name, below, shade, _ in levels]
        parts.append(svg.draw_svg_legend([*keys, (NO_DATA, "unknown")], left, 16, width - left))
    if not rows or not columns:
        parts.append(draw_svg_label(width / 2, _TOP + 14, NO_DATA, anchor="middle"))
    unknown = sum(1 for row in values for v in row if not _known(v))
    desc = desc or f"{len(rows)} rows by {len(columns)} columns, {unknown} cells without data."
    return svg.build_svg_drawing(width, height, title, desc, "".join(parts), definitions=_hatch(hatch))


def draw_bar_chart(
    groups: Mapping[str, Mapping[str, float | None]],
    *,
    title: str,
    desc: str = "",
    kind: Kind = "bandwidth",
    colours: Mapping[str, str] | None = None,
    width: float = 720,
) -> str:
    """Bars side by side: by group (a job, a class) one bar a name (before/after, read/write), from zero. None is said
    in words, not drawn. `colours` by name of a bar."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    shades = {name: (colours or {}).get(name, _ORDER[k % len(_ORDER)]) for k, name in enumerate(names)}
    left = min(220.0, 24 + 6.4 * max((len(shorten_svg_middle(name, 30)) for name in groups), default=0))
    thick, gap = 14.0, 12.0
    height = _TOP + sum(thick * max(1, len(group)) + gap for group in groups.values()) + 8
    known = [v for group in groups.values() for v in group.values() if _known(v)]
    across = svg.build_svg_scale(known, Axis(kind=kind, low=0.0), left, width - 100)
    parts, at, said = [svg.draw_svg_legend(list(shades.items()), left, 16, width - left)], _TOP, []
    for group, bar in groups.items():
        parts.append(
            draw_svg_label(
                left - 6, at + thick * max(1, len(bar)) / 2 + 4, shorten_svg_middle(group, 30), anchor="end", fill="ink"
            )
        )
        for name, value in bar.items():
            text = format_svg_value(value, kind) if _known(value) else NO_DATA
            said.append(f"{group}, {name}: {text}")
            if value is not None and _known(value):
                stop = across.place_value(value)
                parts.append(
                    f'<rect x="{to_svg(left)}" y="{to_svg(at)}"'
                    f' width="{to_svg(max(0.5, stop - left))}" '
                    f'height="{to_svg(thick - 2)}" rx="2"'
                    f' fill="{get_svg_colour(shades[name])}"><title>{escape_svg_text(said[-1])}'
                    "</title></rect>"
                )
            else:
                stop = left
            parts.append(draw_svg_label(stop + 5, at + thick - 4, text, fill="ink" if _known(value) else "faint"))
            at += thick
        at += gap + (0 if bar else thick)
    if not groups:
        parts.append(draw_svg_label(width / 2, _TOP + 4, NO_DATA, anchor="middle"))
    return svg.build_svg_drawing(
        width, height + (0 if groups else 16), title, desc or "; ".join(said[:40]), "".join(parts)
    )


def draw_cdf_chart(
    curves: Sequence[Series],
    *,
    title: str,
    desc: str = "",
    x: Axis | None = None,
    marks: Sequence[tuple[float, str]] = (),
    width: float = 720,
    height: float = 240,
) -> str:
    """Cumulated shares (`y` from 0 to 1) over `x`, in steps. `marks`: values of x with a name, as dashed lines."""
    across, up = _plane(
        [v for s in curves for v in s.x] + [at for at, _ in marks],
        [],
        x or Axis(kind="share"),
        Axis(kind="share", low=0.0, high=1.0, label="share at or below"),
        width,
        height,
    )
    parts = [svg.draw_svg_frame(across, up)]
    for at, name in marks:
        where = across.place_value(at)
        parts.append(
            f'<path d="M{to_svg(where)} {to_svg(up.start)}V{to_svg(up.stop)}"'
            f' stroke="{get_svg_colour("faint")}" '
            f'stroke-dasharray="3 3"/>{draw_svg_label(where + 4, up.stop + 10, name, fill="faint")}'
        )
    parts += [_line(one, across, up, steps=True) for one in curves]
    if not any(_known(v) for s in curves for v in s.y):
        parts.append(_nothing(across, up))
    names = [(s.name, s.colour) for s in curves if s.name]
    parts.append(svg.draw_svg_legend(names, _LEFT + 130, 14, width - _LEFT - 140))
    return svg.build_svg_drawing(width, height, title, desc or _told(curves, "share"), "".join(parts))


def draw_scatter_chart(
    points: Sequence[Points],
    *,
    title: str,
    desc: str = "",
    x: Axis | None = None,
    y: Axis | None = None,
    request_sizes: Sequence[int] = REQUEST_SIZES,
    width: float = 720,
    height: float = 380,
) -> str:
    """Dots on logarithmic axes, by default bandwidth over operations a second; where that is so (y is a bandwidth and x
    a count), a line for each request size: on it lie jobs whose requests are that large. Of more than 4,000 dots every
    n-th is drawn, and the description says so."""
    x = x or Axis("operations per second", "count", log=True)
    y = y or Axis("bandwidth", "bandwidth", log=True)
    across, up = _plane([v for p in points for v in p.x], [v for p in points for v in p.y], x, y, width, height)
    parts = [svg.draw_svg_frame(across, up)]
    if x.log and y.log and (x.kind, y.kind) == ("count", "bandwidth"):
        parts += [_size_line(size, across, up) for size in request_sizes]
    known = sum(1 for p in points for a, b in zip(p.x, p.y, strict=True) if _placed(a, b, x, y))
    every = max(1, math.ceil(known / _MOST_POINTS))
    drawn = 0
    for one in points:
        dots, drawn = _dots(one, across, up, every, drawn)
        parts.append(f'<g fill="{get_svg_colour(one.colour)}" fill-opacity="0.62">{dots}</g>')
    if not known:
        parts.append(_nothing(across, up))
    parts.append(
        svg.draw_svg_legend([(p.name, p.colour) for p in points if p.name], _LEFT + 90, 14, width - _LEFT - 100)
    )
    missing = sum(len(p.x) for p in points) - known
    more = [f"{known} points."] + [f"{missing} more cannot be placed."] * bool(missing)
    more += [f"One in {every} is drawn."] * (every > 1)
    return svg.build_svg_drawing(width, height, title, " ".join([*([desc] if desc else []), *more]), "".join(parts))


def draw_gantt_chart(
    lanes: Sequence[Lane],
    *,
    title: str,
    desc: str = "",
    x: Axis | None = None,
    highlight: Stretch | None = None,
    width: float = 720,
) -> str:
    """Lanes of jobs with their phases over time; `highlight` is a span marked across all lanes."""
    left = min(190.0, 24 + 6.4 * max((len(shorten_svg_middle(lane.name, 26)) for lane in lanes), default=0))
    height_of, bottom = 22.0, 38.0
    height = _TOP + height_of * max(1, len(lanes)) + bottom
    ends = [v for lane in lanes for one in lane.stretches for v in (one.start, one.stop)]
    ends += [highlight.start, highlight.stop] if highlight is not None else []
    across = svg.build_svg_scale(ends, x or Axis(kind="time"), left, width - _RIGHT)
    foot = _TOP + height_of * max(1, len(lanes))
    plane = Scale(Axis(), 0.0, 1.0, foot, _TOP)
    parts = [] if highlight is None else [_highlight(highlight, across, plane)]
    for k, lane in enumerate(lanes):
        at = _TOP + k * height_of
        parts.append(
            f'<path d="M{to_svg(left)}'
            f' {to_svg(at + height_of)}H{to_svg(width - _RIGHT)}"'
            f' stroke="{get_svg_colour("grid")}"/>'
        )
        parts.append(
            draw_svg_label(
                left - 6, at + height_of / 2 + 4, shorten_svg_middle(lane.name, 26), anchor="end", fill="ink"
            )
        )
        for one in lane.stretches:
            start, stop = across.place_value(one.start), across.place_value(one.stop)
            told = one.text or f"{lane.name}: {one.name}"
            parts.append(
                f'<rect x="{to_svg(start)}" y="{to_svg(at + 4)}"'
                f' width="{to_svg(max(1.0, stop - start))}" '
                f'height="{to_svg(height_of - 8)}" rx="2"'
                f' fill="{get_svg_colour(one.colour)}"><title>{escape_svg_text(told)}</title>'
                "</rect>"
            )
    parts.append(svg.draw_svg_x_axis(across, foot))
    if not ends:
        parts.append(draw_svg_label((left + width) / 2, _TOP + 14, NO_DATA, anchor="middle"))
    names = [(s.name, s.colour) for lane in lanes for s in lane.stretches if s.name]
    names += [(highlight.name, highlight.colour)] if highlight is not None and highlight.name else []
    parts.append(svg.draw_svg_legend(list(dict.fromkeys(names)), left, 16, width - left))
    told = f"{len(lanes)} lanes, {sum(len(lane.stretches) for lane in lanes)} phases."
    return svg.build_svg_drawing(width, height, title, desc or told, "".join(parts))


_ORDER = ("read", "write", "meta", "mixed", "good", "slow")


def _hatch(name: str) -> str:
    """How a cell without data is filled."""
    return (
        f'<defs><pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="6" height="6" fill="{get_svg_colour("card")}"/><path d="M0 0v6" '
        f'stroke="{get_svg_colour("unknown")}" stroke-width="2"/></pattern></defs>'
    )


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _placed(a: float | None, b: float | None, x: Axis, y: Axis) -> bool:
    """Whether a dot has a place: both values are known, and above zero on a logarithmic axis."""
    return all(v is not None and math.isfinite(v) and (v > 0 or not axis.log) for v, axis in ((a, x), (b, y)))


def _plane(
    xs: Sequence[float | None], ys: Sequence[float | None], x: Axis, y: Axis, width: float, height: float
) -> tuple[Scale, Scale]:
    across = svg.build_svg_scale(xs, x, _LEFT, width - _RIGHT)
    return across, svg.build_svg_scale(ys, y, height - _BOTTOM, _TOP, zero=True)


def _line(one: Series, across: Scale, up: Scale, *, steps: bool = False) -> str:
    """The runs of known values as paths; a run of one value as a dot."""
    parts: list[str] = []
    run: list[tuple[float, float]] = []
    lowest = 0.0 if up.axis.log else -math.inf

    def close() -> None:
        if len(run) == 1:
            parts.append(
                f'<circle cx="{to_svg(run[0][0])}" cy="{to_svg(run[0][1])}"'
                f' r="1.8" fill="{get_svg_colour(one.colour)}"/>'
            )
        elif run:
            ways = [f"M{to_svg(run[0][0])} {to_svg(run[0][1])}"]
            for (_, before), (a, b) in pairwise(run):
                ways.append(f"H{to_svg(a)}V{to_svg(b)}" if steps and b != before else f"L{to_svg(a)} {to_svg(b)}")
            dash = ' stroke-dasharray="5 4"' if one.dashed else ""
            path = "".join(ways)
            parts.append(
                f'<path d="{path}" fill="none" stroke="{get_svg_colour(one.colour)}" stroke-width="1.6" '
                f'stroke-linejoin="round"{dash}/>'
            )
        run.clear()

    for at, value in zip(one.x, one.y, strict=True):
        if value is None or not math.isfinite(value) or value <= lowest or not math.isfinite(at):
            close()
        else:
            run.append((across.place_value(at), up.place_value(value)))
    close()
    return f"<g><title>{escape_svg_text(one.name)}</title>{''.join(parts)}</g>" if parts else ""


def _highlight(one: Stretch, across: Scale, up: Scale) -> str:
    start, stop = across.place_value(one.start), across.place_value(one.stop)
    told = one.text or one.name
    return (
        f'<rect x="{to_svg(start)}" y="{to_svg(up.stop)}"'
        f' width="{to_svg(max(1.0, stop - start))}" '
        f'height="{to_svg(up.start - up.stop)}" fill="{get_svg_colour(one.colour)}" fill-opacity="0.18">'
        f"<title>{escape_svg_text(told)}</title></rect>"
    )


def _nothing(across: Scale, up: Scale) -> str:
    return draw_svg_label(
        (across.start + across.stop) / 2, (up.start + up.stop) / 2, NO_DATA, anchor="middle", fill="faint"
    )


def _told(series: Sequence[Series], kind: Kind) -> str:
    """A description in words: of each line its least and largest value and how much is not known."""
    said = []
    for one in series:
        known = [v for v in one.y if v is not None and math.isfinite(v)]
        if not known:
            said.append(f"{one.name}: {NO_DATA}.")
            continue
        gaps = len(one.y) - len(known)
        tail = f", {gaps} of {len(one.y)} values not known" if gaps else ""
        said.append(f"{one.name}: {format_svg_value(min(known), kind)} to {format_svg_value(max(known), kind)}{tail}.")
    return " ".join(said) or f"{NO_DATA}."


def _heat(
    value: float | None, levels: Sequence[tuple[str, float, str, float]] | None, top: float, hatch: str
) -> tuple[str, float, str]:
    """Fill, opacity and what is said of a cell."""
    if value is None or not math.isfinite(value):
        return f"url(#{hatch})", 1.0, ""
    if levels is None:
        return get_svg_colour("accent"), 0.05 + 0.95 * max(0.0, min(1.0, value / top)), ""
    name, _, shade, opacity = next(one for one in levels if value < one[1] or one is levels[-1])
    return get_svg_colour(shade), opacity, f" ({name})"


def _size_line(size: int, across: Scale, up: Scale) -> str:
    """The line on which a request is `size` bytes: bandwidth = size x operations a second."""
    low = max(across.low, up.low / size)
    high = min(across.high, up.high / size)
    if low >= high:
        return ""
    a, b = ((across.place_value(x), up.place_value(x * size)) for x in (low, high))
    return (
        f'<path d="M{to_svg(a[0])} {to_svg(a[1])}L{to_svg(b[0])}'
        f' {to_svg(b[1])}" stroke="{get_svg_colour("faint")}" '
        f'stroke-dasharray="4'
        f' 4"/>{draw_svg_label(b[0] - 12, b[1] + 11, format_svg_value(size, "bytes"), anchor="end", fill="faint")}'
    )


def _dots(one: Points, across: Scale, up: Scale, every: int, drawn: int) -> tuple[str, int]:
    parts = []
    for k, (a, b) in enumerate(zip(one.x, one.y, strict=True)):
        if a is None or b is None or not _placed(a, b, across.axis, up.axis):
            continue
        drawn += 1
        if drawn % every:
            continue
        said = f"<title>{escape_svg_text(one.names[k])}</title>" if k < len(one.names) else ""
        dot = f'cx="{to_svg(across.place_value(a))}" cy="{to_svg(up.place_value(b))}" r="2.6"'
        parts.append(f"<circle {dot}>{said}</circle>" if said else f"<circle {dot}/>")
    return "".join(parts), drawn
