"""The single-file page of `fairlead whatif`: the answer first, then before and after, who wins, how far to trust it.

It holds no script and fetches nothing. Not here: the drawings (`drawings`), the command line.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.core.model import unit_formats
from fairlead.explain.questions.answers_whatif import ChangedCost, Check, DroppedLine, HeldOut, Sides, WhatIf
from fairlead.show.report.diagnosis import html_parts
from fairlead.show.report.diagnosis.html_parts import Cell, build_html_box, escape_html_text
from fairlead.show.report.whatif.drawings import draw_before_and_after, draw_measured_and_replayed

BASES = {
    "own": ("own runs", "the program's own runs show what it reaches"),
    "class": ("alike runs", "runs with the same mode and requests stand for it"),
    "machine": ("machine defaults", "no similar run was seen: typical rates of a node and a forwarder"),
}


def build_whatif_page(answer: WhatIf) -> str:
    """The answer as a page."""
    style = "ok" if answer.best is not None and (answer.scenarios[answer.best].saved_share or 0) > 0.005 else "info"
    span = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    body = html_parts.build_html_head(
        "simulated", style, answer.headline, [span, format_whatif_jobs(answer), format_whatif_trust(answer)]
    )
    body += build_html_box("Before and after", _picture(draw_before_and_after(answer.scenarios)) + _scenarios(answer))
    body += build_html_box("How far to trust this", _checks(answer))
    for number in _shown(answer):
        one = answer.scenarios[number]
        body += build_html_box(f"Who wins and who loses with {one.name}", "".join(_sides(side) for side in one.sides))
    body += build_html_box("What the curves rest on", _confidence(answer))
    body += build_html_box("What was left out", _dropped(answer))
    body += build_html_box("The machine replayed", _layers(answer))
    body += build_html_box("Not known", html_parts.build_html_list(answer.missing))
    body += f'<p class="quiet">{escape_html_text(HOW)}</p>'
    return html_parts.build_html_page(answer.headline, body)


SHOWN = 2
"""Of so many scenarios winners and losers are shown; `--json` has all."""
HOW = (
    "Simulated: every job begins when it did and computes as long as it did; its I/O goes at the rate its program "
    "reaches alone and shares what it crosses. Waiting of others in the batch queue does not change."
)


def format_whatif_jobs(answer: WhatIf) -> str:
    """What was replayed, in one line."""
    line = f"{answer.jobs:,} jobs with I/O replayed, {answer.core_hours:,.0f} core-hours"
    line += f"; {answer.quiet_jobs:,} without any" if answer.quiet_jobs else ""
    line += f"; {answer.running_jobs:,} not over yet" if answer.running_jobs else ""
    left = sum(one.count for one in answer.dropped if one.of == "jobs")
    return line + (f"; {left:,} left out" if left else "")


def format_whatif_trust(answer: WhatIf) -> str:
    """What the checks say, in one line."""
    check = answer.checks[0] if answer.checks else None
    if check is None or check.error_p50 is None or check.total_error is None:
        return "not checked: nothing measured could be compared"
    line = (
        f"replay of what was active: {format_whatif_share(check.total_error)}"
        f" core-hours in I/O against what was measured"
    )
    line += f", half of the jobs within {unit_formats.format_percent(check.error_p50)}"
    held = answer.held_out
    if held is not None and held.check.total_error is not None:
        line += f"; a change of the map foreseen within {unit_formats.format_percent(abs(held.check.total_error))}"
    return line


def format_whatif_share(share: float | None) -> str:
    """`+8 %`, `-3 %`; a dash where not known."""
    if share is None:
        return unit_formats.ABSENT
    return f"{'+' if share >= 0 else '-'}{unit_formats.format_percent(abs(share))}"


def format_whatif_core_hours(value: float | None) -> str:
    """Core-hours."""
    if value is None:
        return unit_formats.ABSENT
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 1 else f"{value:.2f}"


def _shown(answer: WhatIf) -> list[int]:
    """Whose winners and losers are shown: the best first."""
    order = sorted(range(1, len(answer.scenarios)), key=lambda i: -(answer.scenarios[i].saved_core_hours or 0.0))
    return order[:SHOWN]


def _scenarios(answer: WhatIf) -> str:
    money = answer.price_per_core_hour is not None
    headings = [
        "",
        ">forwarders",
        ">OSTs",
        ">lost to I/O",
        ">of it avoidable",
        ">saved",
        ">share",
        *([">money"] if money else []),
        ">mean slowdown",
        ">p90",
        ">busiest forwarder",
    ]
    rows: list[list[Cell]] = []
    for one in answer.scenarios:
        worth = [escape_html_text("—" if one.saved_money is None else f"{one.saved_money:,.2f}")] if money else []
        rows.append(
            [
                escape_html_text(one.name),
                escape_html_text(one.forwarders or unit_formats.ABSENT),
                escape_html_text(one.targets),
                escape_html_text(format_whatif_core_hours(one.io_core_hours)),
                escape_html_text(format_whatif_core_hours(one.avoidable_core_hours)),
                escape_html_text(format_whatif_core_hours(one.saved_core_hours)),
                escape_html_text(format_whatif_share(one.saved_share)),
                *worth,
                escape_html_text(format_whatif_slowdown(one.mean_slowdown)),
                escape_html_text(format_whatif_slowdown(one.p90_slowdown)),
                escape_html_text(unit_formats.format_percent(one.busiest_forwarder)),
            ]
        )
    note = (
        "Core-hours that cores wait while I/O goes on; avoidable: beyond what each job needs alone with the best grant."
    )
    return (
        html_parts.build_html_table(headings, rows, this=answer.best) + f'<p class="quiet">{escape_html_text(note)}</p>'
    )


def format_whatif_slowdown(value: float | None) -> str:
    """`1.57`."""
    return unit_formats.ABSENT if value is None else f"{value:.2f}"


def _sides(side: Sides) -> str:
    count = ""
    if side.won is not None:
        count = f"{side.won:,} win, {side.lost or 0:,} lose, {side.same or 0:,} stay within 5 %"
    title = {"job": "Jobs", "user": "Users", "program": "Programs"}.get(side.kind, side.kind)
    inner = f'<h3>{escape_html_text(title)}</h3><p class="quiet">{escape_html_text(count)}</p>'
    return inner + _moved("wins", side.kind, side.winners) + _moved("loses", side.kind, side.losers)


def _moved(word: str, kind: str, rows: Sequence[ChangedCost]) -> str:
    lines: list[list[Cell]] = [
        [
            escape_html_text(word),
            escape_html_text(one.name),
            escape_html_text(one.user or ""),
            escape_html_text(f"{one.jobs:,}"),
            escape_html_text(format_whatif_core_hours(one.before_core_hours)),
            escape_html_text(format_whatif_core_hours(one.after_core_hours)),
            escape_html_text(format_whatif_core_hours(one.saved_core_hours)),
            escape_html_text(
                f"{unit_formats.format_duration(one.before_s)} → {unit_formats.format_duration(one.after_s)}"
            ),
        ]
        for one in rows
    ]
    headings = ["", kind, "user" if kind != "user" else "", ">jobs", ">before", ">after", ">saved", ">time in I/O"]
    return html_parts.build_html_table(headings, lines)


def _checks(answer: WhatIf) -> str:
    rows: list[list[Cell]] = [_check("what was active, replayed", one) for one in answer.checks]
    held = answer.held_out
    if held is not None:
        rows.append(_check("a change of the map, foreseen", held.check))
    inner = _picture(draw_measured_and_replayed(answer))
    inner += html_parts.build_html_table(
        [
            "",
            ">jobs compared",
            ">measured",
            ">replayed",
            ">error of the sum",
            ">bias of a job",
            ">error p50",
            ">p90",
            ">run time p50",
        ],
        rows,
    )
    return inner + (f"<p>{escape_html_text(format_whatif_held_out(held))}</p>" if held is not None else "")


def _picture(drawn: str) -> str:
    """A drawing that a narrow screen can move sideways."""
    return f'<div class="picture">{drawn}</div>' if drawn else ""


def _check(name: str, one: Check) -> list[Cell]:
    return [
        escape_html_text(name),
        escape_html_text(f"{one.compared:,} of {one.jobs:,}"),
        escape_html_text(format_whatif_core_hours(one.measured_core_hours)),
        escape_html_text(format_whatif_core_hours(one.replayed_core_hours)),
        escape_html_text(format_whatif_share(one.total_error)),
        escape_html_text(format_whatif_share(None if one.bias is None else one.bias - 1.0)),
        escape_html_text(unit_formats.format_percent(one.error_p50)),
        escape_html_text(unit_formats.format_percent(one.error_p90)),
        escape_html_text(unit_formats.format_percent(one.run_time_error_p50)),
    ]


def format_whatif_held_out(held: HeldOut) -> str:
    """What was foreseen, in words."""
    one = held.check
    return (
        f"At {unit_formats.format_time(held.at_ns)} {held.nodes_changed:,} of {held.nodes:,} nodes got another "
        f"forwarder. From the {held.learnt:,} jobs before it alone, {format_whatif_core_hours(one.replayed_core_hours)}"
        f" core-hours in I/O were predicted for the {one.jobs:,} jobs after it; "
        f"{format_whatif_core_hours(one.measured_core_hours)} were"
        f" measured. Under the old "
        f"map it would have been {format_whatif_core_hours(held.as_before_core_hours)}."
    )


def _confidence(answer: WhatIf) -> str:
    rows: list[list[Cell]] = [
        [
            escape_html_text(BASES.get(one.basis, (one.basis, ""))[0]),
            escape_html_text(f"{one.jobs:,}"),
            escape_html_text(unit_formats.format_percent(one.job_share)),
            escape_html_text(unit_formats.format_percent(one.volume_share)),
            escape_html_text(BASES.get(one.basis, ("", ""))[1]),
        ]
        for one in answer.confidence
    ]
    return html_parts.build_html_table(["basis", ">jobs", ">of jobs", ">of bytes", ""], rows)


def _dropped(answer: WhatIf) -> str:
    return html_parts.build_html_list(
        [format_whatif_dropped(one) for one in answer.dropped] or ["nothing: every row could be used"]
    )


def format_whatif_dropped(one: DroppedLine) -> str:
    """What was left out and why."""
    return f"{one.count:,} {one.of.removesuffix('s') if one.count == 1 else one.of}: {one.why}"


def _layers(answer: WhatIf) -> str:
    rows: list[list[Cell]] = []
    for one in answer.layers:
        rate = (
            unit_formats.format_bandwidth(one.peak)
            if one.unit == "bytes/s"
            else f"{unit_formats.format_count(one.peak)}/s"
        )
        rows.append(
            [
                escape_html_text(one.kind),
                escape_html_text(f"{one.count:,}"),
                escape_html_text(rate),
                escape_html_text(one.basis),
            ]
        )
    return html_parts.build_html_table(["layer", ">components", ">one can do", "known because"], rows)
