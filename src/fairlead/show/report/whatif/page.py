"""The single-file page of `fairlead whatif`: the answer first, then before and after, who wins, how far to trust it.

It holds no script and fetches nothing. Not here: the drawings (`drawings`), the command line.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.core.model import units
from fairlead.explain.questions.answers_whatif import ChangedCost, Check, DroppedLine, HeldOut, Sides, WhatIf
from fairlead.show.report.diagnosis import parts
from fairlead.show.report.diagnosis.parts import Cell, box, said
from fairlead.show.report.whatif.drawings import before_and_after, measured_and_replayed

BASES = {
    "own": ("own runs", "the program's own runs show what it reaches"),
    "class": ("alike runs", "runs with the same mode and requests stand for it"),
    "machine": ("machine defaults", "nothing alike was seen: what a node and a forwarder usually do"),
}


def whatif_page(answer: WhatIf) -> str:
    """The answer as a page."""
    style = "ok" if answer.best is not None and (answer.scenarios[answer.best].saved_share or 0) > 0.005 else "info"
    span = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    body = parts.head("simulated", style, answer.headline, [span, of_jobs(answer), trust_line(answer)])
    body += box("Before and after", _picture(before_and_after(answer.scenarios)) + _scenarios(answer))
    body += box("How far to trust this", _checks(answer))
    for number in _shown(answer):
        one = answer.scenarios[number]
        body += box(f"Who wins and who loses with {one.name}", "".join(_sides(side) for side in one.sides))
    body += box("What the curves rest on", _confidence(answer))
    body += box("What was left out", _dropped(answer))
    body += box("The machine replayed", _layers(answer))
    body += box("Not known", parts.listed(answer.missing))
    body += f'<p class="quiet">{said(HOW)}</p>'
    return parts.page(answer.headline, body)


SHOWN = 2
"""Of so many scenarios winners and losers are shown; `--json` has all."""
HOW = (
    "Simulated: every job begins when it did and computes as long as it did; its I/O goes at the rate its program "
    "reaches alone and shares what it crosses. Waiting of others in the batch queue does not change."
)


def of_jobs(answer: WhatIf) -> str:
    """What was replayed, in one line."""
    line = f"{answer.jobs:,} jobs with I/O replayed, {answer.core_hours:,.0f} core-hours"
    line += f"; {answer.quiet_jobs:,} without any" if answer.quiet_jobs else ""
    line += f"; {answer.running_jobs:,} not over yet" if answer.running_jobs else ""
    left = sum(one.count for one in answer.dropped if one.of == "jobs")
    return line + (f"; {left:,} left out" if left else "")


def trust_line(answer: WhatIf) -> str:
    """What the checks say, in one line."""
    check = answer.checks[0] if answer.checks else None
    if check is None or check.error_p50 is None or check.total_error is None:
        return "not checked: nothing measured could be compared"
    line = f"replay of what was active: {signed(check.total_error)} core-hours in I/O against what was measured"
    line += f", half of the jobs within {units.format_percent(check.error_p50)}"
    held = answer.held_out
    if held is not None and held.check.total_error is not None:
        line += f"; a change of the map foreseen within {units.format_percent(abs(held.check.total_error))}"
    return line


def signed(share: float | None) -> str:
    """`+8 %`, `-3 %`; a dash where not known."""
    if share is None:
        return units.ABSENT
    return f"{'+' if share >= 0 else '-'}{units.format_percent(abs(share))}"


def hours(value: float | None) -> str:
    """Core-hours."""
    if value is None:
        return units.ABSENT
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
        worth = [said("—" if one.saved_money is None else f"{one.saved_money:,.2f}")] if money else []
        rows.append(
            [
                said(one.name),
                said(one.forwarders or units.ABSENT),
                said(one.targets),
                said(hours(one.io_core_hours)),
                said(hours(one.avoidable_core_hours)),
                said(hours(one.saved_core_hours)),
                said(signed(one.saved_share)),
                *worth,
                said(slowdown(one.mean_slowdown)),
                said(slowdown(one.p90_slowdown)),
                said(units.format_percent(one.busiest_forwarder)),
            ]
        )
    note = (
        "Core-hours that cores wait while I/O goes on; avoidable: beyond what each job needs alone with the best grant."
    )
    return parts.table(headings, rows, this=answer.best) + f'<p class="quiet">{said(note)}</p>'


def slowdown(value: float | None) -> str:
    """`1.57`."""
    return units.ABSENT if value is None else f"{value:.2f}"


def _sides(side: Sides) -> str:
    count = ""
    if side.won is not None:
        count = f"{side.won:,} win, {side.lost or 0:,} lose, {side.same or 0:,} stay within 5 %"
    title = {"job": "Jobs", "user": "Users", "program": "Programs"}.get(side.kind, side.kind)
    inner = f'<h3>{said(title)}</h3><p class="quiet">{said(count)}</p>'
    return inner + _moved("wins", side.kind, side.winners) + _moved("loses", side.kind, side.losers)


def _moved(word: str, kind: str, rows: Sequence[ChangedCost]) -> str:
    lines: list[list[Cell]] = [
        [
            said(word),
            said(one.name),
            said(one.user or ""),
            said(f"{one.jobs:,}"),
            said(hours(one.before_core_hours)),
            said(hours(one.after_core_hours)),
            said(hours(one.saved_core_hours)),
            said(f"{units.format_duration(one.before_s)} → {units.format_duration(one.after_s)}"),
        ]
        for one in rows
    ]
    headings = ["", kind, "user" if kind != "user" else "", ">jobs", ">before", ">after", ">saved", ">time in I/O"]
    return parts.table(headings, lines)


def _checks(answer: WhatIf) -> str:
    rows: list[list[Cell]] = [_check("what was active, replayed", one) for one in answer.checks]
    held = answer.held_out
    if held is not None:
        rows.append(_check("a change of the map, foreseen", held.check))
    inner = _picture(measured_and_replayed(answer))
    inner += parts.table(
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
    return inner + (f"<p>{said(held_line(held))}</p>" if held is not None else "")


def _picture(drawn: str) -> str:
    """A drawing that a narrow screen can move sideways."""
    return f'<div class="picture">{drawn}</div>' if drawn else ""


def _check(name: str, one: Check) -> list[Cell]:
    return [
        said(name),
        said(f"{one.compared:,} of {one.jobs:,}"),
        said(hours(one.measured_core_hours)),
        said(hours(one.replayed_core_hours)),
        said(signed(one.total_error)),
        said(signed(None if one.bias is None else one.bias - 1.0)),
        said(units.format_percent(one.error_p50)),
        said(units.format_percent(one.error_p90)),
        said(units.format_percent(one.run_time_error_p50)),
    ]


def held_line(held: HeldOut) -> str:
    """What was foreseen, in words."""
    one = held.check
    return (
        f"At {units.format_time(held.at_ns)} {held.nodes_changed:,} of {held.nodes:,} nodes got another forwarder. "
        f"From the {held.learnt:,} jobs before it alone, {hours(one.replayed_core_hours)} core-hours in I/O were "
        f"foreseen for the {one.jobs:,} jobs after it; {hours(one.measured_core_hours)} were measured. Under the old "
        f"map it would have been {hours(held.as_before_core_hours)}."
    )


def _confidence(answer: WhatIf) -> str:
    rows: list[list[Cell]] = [
        [
            said(BASES.get(one.basis, (one.basis, ""))[0]),
            said(f"{one.jobs:,}"),
            said(units.format_percent(one.job_share)),
            said(units.format_percent(one.volume_share)),
            said(BASES.get(one.basis, ("", ""))[1]),
        ]
        for one in answer.confidence
    ]
    return parts.table(["basis", ">jobs", ">of jobs", ">of bytes", ""], rows)


def _dropped(answer: WhatIf) -> str:
    return parts.listed([dropped_line(one) for one in answer.dropped] or ["nothing: every row could be used"])


def dropped_line(one: DroppedLine) -> str:
    """What was left out and why."""
    return f"{one.count:,} {one.of.removesuffix('s') if one.count == 1 else one.of}: {one.why}"


def _layers(answer: WhatIf) -> str:
    rows: list[list[Cell]] = []
    for one in answer.layers:
        rate = units.format_bandwidth(one.peak) if one.unit == "bytes/s" else f"{units.format_count(one.peak)}/s"
        rows.append([said(one.kind), said(f"{one.count:,}"), said(rate), said(one.basis)])
    return parts.table(["layer", ">components", ">one can do", "known because"], rows)
