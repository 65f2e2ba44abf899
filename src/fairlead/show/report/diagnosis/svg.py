"""What drawings share: text made harmless, axes with round ticks, colours of the pages, the `<svg>` element itself.

Colours are variables of the pages' style sheets with the light colour as fall-back, so that the same drawing follows
a page's dark mode and stands alone as a file. Not here: the drawings (`charts`).
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Literal

from fairlead.core.model.unit_formats import (
    NS_PER_S,
    format_bandwidth,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_ratio,
)
from fairlead.core.safe_text import escape_text

Kind = Literal["number", "count", "bytes", "bandwidth", "share", "seconds", "time"]
COLOURS = {
    "read": "#2374bf",
    "write": "#e0801a",
    "meta": "#8b7fb8",
    "mixed": "#5d7f8c",
    "compute": "#d5dbe3",
    "slow": "#c2402b",
    "usual": "#9fb1c4",
    "unknown": "#c4c9d0",
    "good": "#1a7f5a",
    "bad": "#b3361f",
    "accent": "#1f5fa8",
    "ink": "#1a2230",
    "muted": "#596474",
    "faint": "#8c96a4",
    "grid": "#edf0f4",
    "axis": "#c9d0d9",
    "card": "#ffffff",
    "line": "#e0e4ea",
}
"""Names of colours (variables of `report.css`) and what they are on light ground."""
DARK = {
    "read": "#55a3e8",
    "write": "#f0a048",
    "meta": "#a79bd4",
    "mixed": "#86a9b5",
    "compute": "#37424f",
    "slow": "#f0705a",
    "usual": "#52677d",
    "unknown": "#4a525d",
    "good": "#4cc38f",
    "bad": "#f0705a",
    "accent": "#7db4ee",
    "ink": "#e5e9ef",
    "muted": "#9ba7b6",
    "faint": "#6d7988",
    "grid": "#222a34",
    "axis": "#3a4552",
    "card": "#171d25",
    "line": "#29323d",
}
"""The same on dark ground."""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
_STEPS_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
    172800,
    604800,
    1209600,
    2592000,
    7776000,
    31536000,
)


@dataclass(frozen=True)
class Axis:
    """One axis: what it says, what its numbers are (`time`: epoch ns, UTC; `share`: 0 to 1; `seconds`: a duration),
    its ends (None: those of the data) and whether it is logarithmic."""

    label: str = ""
    kind: Kind = "number"
    log: bool = False
    low: float | None = None
    high: float | None = None


def get_svg_colour(name: str) -> str:
    """A colour by its name as a value of a presentation attribute. Raises KeyError for a name that is none."""
    return f"var(--{name}, {COLOURS[name]})"


def escape_svg_text(value: object) -> str:
    """Text from anywhere as text of the drawing: one line, no control characters, markup escaped."""
    return html.escape(escape_text(str(value)))


def shorten_svg_middle(value: object, letters: int) -> str:
    """At most `letters` letters, the middle left out; not escaped yet."""
    text = escape_text(str(value))
    if len(text) <= letters:
        return text
    head = (letters - 1) // 2
    return f"{text[:head]}…{text[len(text) - (letters - 1 - head) :]}"


def to_svg(value: float) -> str:
    """A coordinate, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def format_svg_value(value: float | None, kind: Kind, *, span: float = 0.0) -> str:
    """A value as people write it; a dash when it is not known. `span`: of a time axis, ns."""
    if value is None or not math.isfinite(value):
        return "—"
    if kind == "time":
        return _moment(value, span)
    shown = {
        "number": format_ratio,
        "count": format_count,
        "bytes": format_bytes,
        "bandwidth": format_bandwidth,
        "share": format_percent,
        "seconds": format_duration,
    }
    return shown[kind](value)


def _moment(ns: float, span: float) -> str:
    form = "%H:%M:%S" if span < 1800 * NS_PER_S else "%H:%M" if span < 86_400 * NS_PER_S else "%m-%d %H:%M"
    if span >= 14 * 86_400 * NS_PER_S:
        form = "%Y-%m-%d"
    try:
        return datetime.fromtimestamp(ns / NS_PER_S, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return "—"


@dataclass(frozen=True)
class Scale:
    """Values of an axis between `low` and `high` on the stretch of pixels from `start` to `stop`."""

    axis: Axis
    low: float
    high: float
    start: float
    stop: float
    bare: bool = False
    """Nothing is known of this axis: it has no ticks."""

    def place_value(self, value: float) -> float:
        """Where a value lies; what lies beyond the ends is held at them."""
        if self.axis.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.stop - self.start)

    def list_ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values and their text."""
        if self.bare:
            return []
        span = self.high - self.low
        return [(at, format_svg_value(at, self.axis.kind, span=span)) for at in self._round(most)]

    def _round(self, most: int) -> list[float]:
        if self.axis.log:
            binary = self.axis.kind in ("bytes", "bandwidth")
            first, last = (math.log(end, 2 if binary else 10) for end in (self.low, self.high))
            wanted = max(1, math.ceil((last - first) / most))
            every = next((s for s in (1, 2, 5, 10, 20) if s >= wanted), 40) if binary else wanted
            powers = range(math.ceil(first / every - 1e-9), math.floor(last / every + 1e-9) + 1)
            return [(2.0 if binary else 10.0) ** (k * every) for k in powers] or [self.low, self.high]
        step = _step(self.high - self.low, self.axis.kind, most)
        first_tick = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first_tick, math.floor(self.high / step + 1e-9) + 1)]


def _step(span: float, kind: Kind, most: int) -> float:
    if kind in ("time", "seconds"):
        unit = NS_PER_S if kind == "time" else 1
        if span / unit >= most:
            return float(next((s for s in _STEPS_S if span / unit / s <= most), _STEPS_S[-1] * 10)) * unit
    scale = 1.0
    if kind in ("bytes", "bandwidth"):
        scale = 1024.0 ** max(0, int(math.log(span, 1024))) if span >= 1 else 1.0
    rough = span / scale / most
    power = 10.0 ** math.floor(math.log10(rough))
    return scale * next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))


def build_svg_scale(
    values: Iterable[float | None], axis: Axis, start: float, stop: float, *, zero: bool = False
) -> Scale:
    """A scale that holds all known values (and zero, where `zero`); values that are not finite do not count, and on a
    logarithmic axis those that are not above zero."""
    known = [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not axis.log)]
    low: float = axis.low if axis.low is not None else min(known, default=0.1 if axis.log else 0.0)
    high: float = axis.high if axis.high is not None else max(known, default=1.0)
    if axis.log:
        low = low if low > 0 else 1e-9
        high = high if high > low else low * 10
        # Room at the ends that are not given, or the outermost dots lie on the frame.
        room = float((high / low) ** 0.05)
        low = low / room if axis.low is None else low
        high = high * room if axis.high is None else high
    else:
        low = min(low, 0.0) if zero and axis.low is None else low
        high = high if high > low else low + (abs(low) * 0.1 or 1.0)
    bare = not known and (axis.low is None or axis.high is None)
    return Scale(axis, float(low), float(high), start, stop, bare)


def draw_svg_label(
    x: float, y: float, text: object, *, anchor: str = "start", size: float = 11, fill: str = "muted"
) -> str:
    """One line of text; `text` is escaped here."""
    return (
        f'<text x="{to_svg(x)}" y="{to_svg(y)}"'
        f' text-anchor="{anchor}" font-size="{to_svg(size)}" '
        f'fill="{get_svg_colour(fill)}">{escape_svg_text(text)}</text>'
    )


def draw_svg_frame(x: Scale, y: Scale) -> str:
    """Grid, ticks and names of both axes. `y` runs upwards: its `start` is the lower edge."""
    parts = []
    for value, text in y.list_ticks(5):
        at = to_svg(y.place_value(value))
        parts.append(f'<path d="M{to_svg(x.start)} {at}H{to_svg(x.stop)}" stroke="{get_svg_colour("grid")}"/>')
        parts.append(draw_svg_label(x.start - 6, y.place_value(value) + 4, text, anchor="end"))
    parts.append(draw_svg_x_axis(x, y.start))
    if y.axis.label:
        parts.append(draw_svg_label(4, y.stop - 14, y.axis.label, fill="faint"))
    return "".join(parts)


def draw_svg_x_axis(x: Scale, at: float) -> str:
    """The axis of x alone, `at` pixels down: line, ticks, name."""
    parts = [(f'<path d="M{to_svg(x.start)} {to_svg(at)}H{to_svg(x.stop)}" stroke="{get_svg_colour("axis")}"/>')]
    for value, text in x.list_ticks(max(2, int((x.stop - x.start) / 90))):
        parts.append(f'<path d="M{to_svg(x.place_value(value))} {to_svg(at)}v4" stroke="{get_svg_colour("axis")}"/>')
        parts.append(
            draw_svg_label(
                x.place_value(value), at + 16, text, anchor="end" if x.place_value(value) > x.stop - 16 else "middle"
            )
        )
    if x.axis.label:
        parts.append(draw_svg_label(x.stop, at + 31, x.axis.label, anchor="end", fill="faint"))
    return "".join(parts)


def draw_svg_legend(names: Sequence[tuple[str, str]], x: float, y: float, width: float) -> str:
    """Names beside patches of their colours, on one line as far as they fit. Items are (name, colour)."""
    parts, at = [], x
    for name, shade in names:
        shown = shorten_svg_middle(name, 32)
        if at + 20 + 6.2 * len(shown) > x + width and at > x:
            break
        parts.append(
            f'<rect x="{to_svg(at)}" y="{to_svg(y - 9)}" width="10" height="10" rx="2" fill="{get_svg_colour(shade)}"/>'
        )
        parts.append(draw_svg_label(at + 14, y, shown))
        at += 30 + 6.2 * len(shown)
    return "".join(parts)


def build_svg_drawing(width: float, height: float, title: str, desc: str, body: str, *, definitions: str = "") -> str:
    """The whole `<svg>`: named and described for those who cannot see it. Ids come from what is drawn."""
    mark = blake2b(f"{title}\0{desc}\0{body}".encode("utf-8", "backslashreplace"), digest_size=5).hexdigest()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" aria-labelledby="t{mark} d{mark}" '
        f'viewBox="0 0 {to_svg(width)} {to_svg(height)}" width="100%" font-family="{_FONT}" '
        f'shape-rendering="geometricPrecision"><title id="t{mark}">{escape_svg_text(title)}</title>'
        f'<desc id="d{mark}">{escape_svg_text(desc)}</desc>{definitions}{body}</svg>'
    )


def build_svg_file(svg: str) -> str:
    """A drawing as a file of its own: with ground, and with the colours of light and dark surroundings."""
    light = "".join(f"--{name}:{value};" for name, value in COLOURS.items())
    dark = "".join(f"--{name}:{value};" for name, value in DARK.items())
    style = f"<style>svg{{{light}background:var(--card)}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    head, closed, rest = svg.partition(">")
    return f"{head}{closed}{style}{rest}\n"
