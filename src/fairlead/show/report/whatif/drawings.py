"""The drawings of the what-if page: bars of core-hours before and after, and measured against replayed."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.explain.questions.answers_whatif import Scenario, WhatIf
from fairlead.show.report.diagnosis.svg import (
    Axis,
    build_svg_drawing,
    build_svg_scale,
    draw_svg_label,
    draw_svg_x_axis,
    escape_svg_text,
    get_svg_colour,
    shorten_svg_middle,
    to_svg,
)

_Row = tuple[str, Sequence[tuple[float, str]], str]
"""A name, pieces of a bar with their colours, and what is written behind it."""
_WIDTH, _LEFT, _RIGHT, _ROW = 760.0, 250.0, 90.0, 34.0


def draw_before_and_after(scenarios: Sequence[Scenario]) -> str:
    """A bar a scenario: what jobs need alone, and beyond it what a better policy could avoid."""
    rows: list[_Row] = [
        (
            one.name,
            [(one.io_core_hours - one.avoidable_core_hours, "usual"), (one.avoidable_core_hours, "slow")],
            f"{_hours(one.io_core_hours)}",
        )
        for one in scenarios
    ]
    names = [("needed alone", "usual"), ("contention and grants", "slow")]
    desc = "; ".join(f"{one.name}: {_hours(one.io_core_hours)} core-hours" for one in scenarios)
    return _bars(rows, names, "Core-hours in I/O under each policy", desc)


def draw_measured_and_replayed(answer: WhatIf) -> str:
    """Measured core-hours in I/O beside replayed ones, for each check."""
    rows: list[_Row] = []
    for one in answer.checks:
        rows.append(("measured", [(one.measured_core_hours, "good")], _hours(one.measured_core_hours)))
        rows.append(("replayed", [(one.replayed_core_hours, "accent")], _hours(one.replayed_core_hours)))
    held = answer.held_out
    if held is not None:
        check, before = held.check, held.as_before_core_hours
        rows.append(
            ("after the change: measured", [(check.measured_core_hours, "good")], _hours(check.measured_core_hours))
        )
        rows.append(("foreseen", [(check.replayed_core_hours, "accent")], _hours(check.replayed_core_hours)))
        rows.append(("had nothing changed", [(before, "usual")], _hours(before)))
    if not rows:
        return ""
    desc = "; ".join(f"{name}: {text} core-hours" for name, _, text in rows)
    return _bars(rows, [("measured", "good"), ("replayed", "accent")], "Measured and replayed core-hours in I/O", desc)


def _bars(rows: Sequence[_Row], names: Sequence[tuple[str, str]], title: str, desc: str) -> str:
    across = build_svg_scale(
        [sum(value for value, _ in pieces) for _, pieces, _ in rows],
        Axis("core-hours", "count"),
        _LEFT,
        _WIDTH - _RIGHT,
        zero=True,
    )
    body, top = [], 30.0
    at = _LEFT
    for name, shade in names:
        body.append(f'<rect x="{to_svg(at)}" y="5" width="10" height="10" rx="2" fill="{get_svg_colour(shade)}"/>')
        body.append(draw_svg_label(at + 14, 14, name))
        at += 30 + 6.6 * len(name)
    for i, (name, pieces, text) in enumerate(rows):
        y, x = top + i * _ROW, across.start
        body.append(draw_svg_label(_LEFT - 10, y + 16, shorten_svg_middle(name, 33), anchor="end", fill="ink", size=12))
        for value, shade in pieces:
            wide = across.place_value(max(value, 0.0)) - across.start
            body.append(
                f'<rect x="{to_svg(x)}" y="{to_svg(y + 3)}"'
                f' width="{to_svg(wide)}" height="20" rx="2" '
                f'fill="{get_svg_colour(shade)}"><title>{escape_svg_text(name)}:'
                f" {escape_svg_text(_hours(value))}</title></rect>"
            )
            x += wide
        body.append(draw_svg_label(x + 6, y + 17, text, fill="ink", size=12))
    bottom = top + len(rows) * _ROW + 4
    body.append(draw_svg_x_axis(across, bottom))
    return build_svg_drawing(_WIDTH, bottom + 38, title, desc, "".join(body))


def _hours(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 1 else f"{value:.2f}"
