"""Small pictures for a terminal: lines over time with gaps, bars, heat maps. Text in, rich text out; no-colour safe.

A gap (no data) is a dot, idleness a low line: they never look alike.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.text import Text

from fairlead.cli.piped_console import PipedConsole

BARS = "▁▂▃▄▅▆▇█"
GAP, IDLE = "·", "_"
READ, WRITE, META = "dodger_blue1", "dark_orange", "medium_purple1"
LEVEL_STYLE = {
    "idle": "grey50",
    "low": "white on dark_green",
    "mid": "black on gold3",
    "high": "bold white on red3",
}
LEVEL_LETTER = {"idle": "-", "low": "l", "mid": "m", "high": "H", None: GAP}
_PLAIN = dict(zip(map(ord, "▁▂▃▄▅▆▇█·→…—×≥≤±"), "..::-=+#.>.-x><~", strict=True))


def build_picture_console(*, width: int | None = None) -> Console:
    """Standard output for people. Signs that its encoding lacks become plain ones."""
    codecs.register_error("fairlead.plain", _plain)
    stream = sys.stdout
    if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
        stream.reconfigure(errors="fairlead.plain")
    return PipedConsole(highlight=False, soft_wrap=False, width=width)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace"), error.end


def shrink_picture_line(values: Sequence[float | None], columns: int) -> list[float | None]:
    """At most `columns` values: means of neighbours, None where none of them is known."""
    if len(values) <= columns:
        return list(values)
    edges = [k * len(values) // columns for k in range(columns + 1)]
    means: list[float | None] = []
    for first, last in pairwise(edges):
        known = [v for v in values[first:last] if v is not None]
        means.append(sum(known) / len(known) if known else None)
    return means


def draw_line_picture(
    values: Sequence[float | None], columns: int, *, top: float | None = None, style: str = ""
) -> Text:
    """A line of bars; `top` is the value of a full bar (the largest, by default)."""
    cells = shrink_picture_line(values, max(1, columns))
    highest = top or max((v for v in cells if v is not None), default=0.0)
    text = Text()
    run, kind = "", ""
    for value in cells:
        sign, how = _cell(value, highest, style)
        if how != kind and run:
            text.append(run, kind)
            run = ""
        run, kind = run + sign, how
    text.append(run, kind)
    return text


def _cell(value: float | None, highest: float, style: str) -> tuple[str, str]:
    if value is None:
        return GAP, "dim"
    if value <= 0 or highest <= 0:
        return IDLE, "dim"
    return BARS[min(len(BARS) - 1, int(value / highest * len(BARS)))], style


def draw_bar_picture(share: float | None, columns: int, style: str = "") -> Text:
    """A bar as long as a share from 0 to 1; a dot for what is not known."""
    if share is None:
        return Text(GAP, style="dim")
    full = round(max(0.0, min(1.0, share)) * columns)
    return Text("█" * full + ("▏" if not full and share > 0 else ""), style=style)


def draw_heat_picture(levels: Sequence[str | None], cell: int) -> Text:
    """A row of a heat map: a letter a cell, on a colour."""
    text = Text()
    for level in levels:
        letter = LEVEL_LETTER.get(level, GAP)
        text.append(letter.center(cell) if cell > 1 else letter, LEVEL_STYLE.get(level or "", "dim"))
    return text


def draw_axis_picture(from_ns: int, to_ns: int, columns: int) -> Text:
    """When a picture begins and ends, UTC."""
    from datetime import UTC, datetime

    one_day = from_ns // 86_400_000_000_000 == to_ns // 86_400_000_000_000
    form = "%H:%M:%S" if one_day or to_ns - from_ns < 6 * 3600 * 10**9 else "%m-%d %H:%M"
    first, last = (datetime.fromtimestamp(ns / 1e9, UTC).strftime(form) for ns in (from_ns, to_ns))
    room = columns - len(first) - len(last)
    return Text(f"{first}{' ' * room}{last}" if room > 0 else first, style="dim")
