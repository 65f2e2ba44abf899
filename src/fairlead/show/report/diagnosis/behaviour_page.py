"""The single-file page of how jobs behave: modes, sizes of requests, rates, who moved most, how busy the machine was.

Made of the answer `--json` prints; no script, nothing fetched. Not here: the parts (`html_parts`), drawing (`charts`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.core.model import unit_formats
from fairlead.explain.questions.answers import LayerDay
from fairlead.explain.questions.answers_behaviour import Behaviour, RankLine
from fairlead.explain.questions.span import HOUR_NS
from fairlead.show.report.diagnosis import charts, html_parts
from fairlead.show.report.diagnosis.html_parts import Cell, build_html_box, escape_html_text
from fairlead.show.report.diagnosis.svg import Axis, format_svg_value

MODE_COLOUR = {"N-N": "read", "N-M": "good", "N-1": "slow", "1-1": "meta", None: "unknown"}
_LAYER_COLOUR = ("read", "write", "meta", "mixed", "good", "slow")
_MOST_ROWS = 300
"""Forwarders a heat map draws at most; the busiest are taken."""


def build_behaviour_page(answer: Behaviour) -> str:
    """Statistics of a population of jobs, or of one user's or program's."""
    body = html_parts.build_html_head(
        "behaviour", "info", build_behaviour_headline(answer), list_behaviour_facts(answer)
    )
    body += build_html_box("In figures", _figures(answer))
    body += build_html_box(
        "How jobs do their I/O", _draw_modes(answer) + _build_modes_table(answer) if answer.modes else ""
    )
    body += build_html_box(
        "Rates and sizes of requests",
        _draw_scatter_of_jobs(answer) + _build_requests_table(answer) if answer.points else "",
    )
    body += build_html_box("Volume by size of job", _draw_core_hours(answer) if _any_volume(answer) else "")
    body += build_html_box("Shared files: what N-1 gets", _draw_n_to_one(answer) if answer.n_to_one else "")
    body += build_html_box("Runs", _draw_runs(answer) if answer.user or answer.program or answer.project else "")
    body += build_html_box("Who moved most", "" if answer.user else _build_ranking_table(answer.users, "user"))
    body += build_html_box("Which programs", _build_ranking_table(answer.programs, "program"))
    body += build_html_box("Abnormal jobs", _build_causes_table(answer))
    body += build_html_box("Volume by day and layer", _draw_layers(answer.layers) if answer.layers else "")
    body += build_html_box("How busy targets are", _draw_targets(answer) if answer.targets else "")
    body += build_html_box("Forwarders by hour", _draw_forwarders(answer) if answer.forwarders else "")
    body += build_html_box("Not known", html_parts.build_html_list(answer.missing))
    return html_parts.build_html_page(build_behaviour_headline(answer), body)


def build_behaviour_headline(answer: Behaviour) -> str:
    """Whose jobs, how many."""
    who = [
        f"{name} {value}"
        for name, value in (("user", answer.user), ("program", answer.program), ("project", answer.project))
        if value
    ]
    count = f"{answer.jobs:,} job{'' if answer.jobs == 1 else 's'}"
    return f"{count} of {', '.join(who)}" if who else f"{count}{' of yours' if answer.hidden else ''}"


def list_behaviour_facts(answer: Behaviour) -> list[str]:
    """When, and how many did I/O worth the name."""
    span = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    if answer.nontrivial_share is None:
        return [span, "of no job is it known what it moved"]
    share = f"{answer.nontrivial:,} of {answer.known:,} with known volumes moved more than 200 MB"
    return [span, f"{share} ({unit_formats.format_percent(answer.nontrivial_share)})"]


def _figures(answer: Behaviour) -> str:
    all_causes = next((one for one in answer.causes if one.cause == "all"), None)
    figures = [
        ("jobs", f"{answer.jobs:,}"),
        ("non-trivial I/O", unit_formats.format_percent(answer.nontrivial_share)),
        ("read", unit_formats.format_bytes(answer.read_bytes)),
        ("written", unit_formats.format_bytes(answer.write_bytes)),
        ("abnormal", unit_formats.format_percent(all_causes.share) if all_causes else unit_formats.ABSENT),
    ]
    if answer.metadata_above_75_percent is not None:
        figures.append(("MDS above 75 %", unit_formats.format_percent(answer.metadata_above_75_percent)))
    rows = (
        f'<div><dt>{escape_html_text(name)}</dt><dd class="big">{escape_html_text(value)}</dd></div>'
        for name, value in figures
    )
    return f'<dl class="figures">{"".join(rows)}</dl>'


def _picture(svg: str) -> str:
    return f'<div class="picture">{svg}</div>'


def _draw_modes(answer: Behaviour) -> str:
    """Mean volumes by I/O mode."""
    groups: dict[str, dict[str, float | None]] = {
        f"{one.mode or 'unknown'} ({one.jobs:,})": {"read": one.mean_read_bytes, "written": one.mean_write_bytes}
        for one in answer.modes
        if one.jobs
    }
    colours = {"read": "read", "written": "write"}
    return _picture(
        charts.draw_bar_chart(groups, title="Mean volume of a job by I/O mode", kind="bytes", colours=colours)
    )


def _build_modes_table(answer: Behaviour) -> str:
    """Jobs by I/O mode."""
    rows: list[list[Cell]] = [
        [
            escape_html_text(one.mode or "unknown"),
            f"{one.jobs:,}",
            escape_html_text(unit_formats.format_percent(one.share)),
            escape_html_text(unit_formats.format_bytes(one.mean_read_bytes)),
            escape_html_text(unit_formats.format_bytes(one.mean_write_bytes)),
        ]
        for one in answer.modes
    ]
    return html_parts.build_html_table(["mode", ">jobs", ">share", ">mean read", ">mean written"], rows)


def _draw_scatter_of_jobs(answer: Behaviour) -> str:
    """Bandwidth over operations a second, by mode, with lines of equal request size."""
    groups = []
    for mode, colour in MODE_COLOUR.items():
        mine = [one for one in answer.points if one.mode == mode or (mode is None and one.mode not in MODE_COLOUR)]
        if mine:
            names = [
                f"job {one.job_id}, {one.program or 'unknown program'}: requests of "
                f"{unit_formats.format_bytes(one.request_bytes)}"
                for one in mine
            ]
            groups.append(
                charts.Points(
                    mode or "unknown",
                    [one.iops for one in mine],
                    [one.bandwidth_bytes_per_s for one in mine],
                    colour,
                    names,
                )
            )
    left_out = answer.points_of - len(answer.points)
    desc = f"{left_out} of {answer.points_of} jobs left out, evenly." if left_out else ""
    return _picture(
        charts.draw_scatter_chart(groups, title="Bandwidth over operations a second, a dot a job", desc=desc)
    )


def _build_requests_table(answer: Behaviour) -> str:
    """Shares of jobs and operations below sizes of requests."""
    rows: list[list[Cell]] = [
        [
            escape_html_text(f"below {unit_formats.format_bytes(one.below_bytes)}"),
            f"{one.jobs:,}",
            escape_html_text(unit_formats.format_percent(one.job_share)),
            escape_html_text(unit_formats.format_percent(one.ops_share)),
        ]
        for one in answer.requests
    ]
    return html_parts.build_html_table(["mean request", ">jobs", ">of jobs", ">of operations"], rows)


def _any_volume(answer: Behaviour) -> bool:
    return any(one.mean_read_bytes or one.mean_write_bytes for one in answer.core_hours)


def _draw_core_hours(answer: Behaviour) -> str:
    """Mean volume by class of core-hours."""
    groups: dict[str, dict[str, float | None]] = {
        f"{one.core_hours or 'unknown'} ({one.jobs:,})": {"read": one.mean_read_bytes, "written": one.mean_write_bytes}
        for one in answer.core_hours
        if one.jobs
    }
    colours = {"read": "read", "written": "write"}
    return _picture(
        charts.draw_bar_chart(groups, title="Mean volume of a job by core-hours", kind="bytes", colours=colours)
    )


def _draw_n_to_one(answer: Behaviour) -> str:
    """Bandwidth of N-1 jobs over N."""
    groups = []
    for way, colour in (("read", "read"), ("write", "write")):
        mine = [one for one in answer.n_to_one if one.way == way]
        if mine:
            names = [f"{one.jobs:,} jobs of {one.processes:,} processes or more" for one in mine]
            groups.append(
                charts.Points(
                    f"{way}, median",
                    [float(one.processes) for one in mine],
                    [one.median_bytes_per_s for one in mine],
                    colour,
                    names,
                )
            )
    return _picture(
        charts.draw_scatter_chart(
            groups,
            title="Median bandwidth of N-1 jobs by processes",
            x=Axis("processes", "count", log=True),
            request_sizes=(),
            height=240,
        )
    )


def _draw_runs(answer: Behaviour) -> str:
    """Bandwidth of each run, in the order they began."""
    runs = [one for one in answer.runs if one.start_ns is not None]
    groups = [
        charts.Points(
            name,
            [float(one.start_ns or 0) for one in runs],
            [getattr(one, field) for one in runs],
            colour,
            [f"job {one.job_id}: {unit_formats.format_bandwidth(getattr(one, field))}" for one in runs],
        )
        for name, field, colour in (
            ("read", "read_bandwidth_bytes_per_s", "read"),
            ("written", "write_bandwidth_bytes_per_s", "write"),
        )
    ]
    return (
        _picture(
            charts.draw_scatter_chart(
                groups,
                title="What each run got",
                x=Axis(kind="time"),
                y=Axis("bandwidth", "bandwidth", low=0.0),
                height=240,
            )
        )
        if runs
        else ""
    )


def _build_ranking_table(rows: Sequence[RankLine], word: str) -> str:
    """Who moved most, with the trend."""
    cells: list[list[Cell]] = [
        [
            escape_html_text(one.name or "unknown"),
            f"{one.jobs:,}",
            escape_html_text(unit_formats.format_bytes(one.bytes)),
            escape_html_text(unit_formats.format_percent(one.share)),
            escape_html_text(format_behaviour_trend(one)),
            escape_html_text(unit_formats.format_count(one.metadata_ops)),
        ]
        for one in rows
    ]
    return html_parts.build_html_table([word, ">jobs", ">moved", ">share", ">trend", ">metadata ops"], cells)


def format_behaviour_trend(one: RankLine) -> str:
    """`1.4x` what was moved in the equally long time before; `new` where that was nothing."""
    if one.trend is not None:
        return f"{unit_formats.format_ratio(one.trend)}x"
    return "new" if one.earlier_bytes == 0 and one.bytes else unit_formats.ABSENT


def _build_causes_table(answer: Behaviour) -> str:
    """Abnormal jobs by cause."""
    rows: list[list[Cell]] = [
        [
            escape_html_text(one.cause.replace("_", " ")),
            f"{one.jobs:,}",
            escape_html_text(unit_formats.format_percent(one.share)),
            escape_html_text(unit_formats.format_percent(one.of_abnormal)),
            escape_html_text(unit_formats.format_duration(one.lost_s)),
        ]
        for one in answer.causes
    ]
    return html_parts.build_html_table(["cause", ">jobs", ">of non-trivial", ">of abnormal", ">time lost"], rows)


def _draw_layers(days: Sequence[LayerDay]) -> str:
    """Bytes read and written a day, a line a layer; a day a layer tells nothing of is a gap."""
    names = list(dict.fromkeys(one.day for one in days))
    layers = list(dict.fromkeys(one.layer for one in days))
    pictures = []
    for way in ("read", "write"):
        told = {(one.day, one.layer): getattr(one.sums, f"{way}_bytes") for one in days}
        groups = {
            day: {layer: told.get((day, layer)) for layer in layers if (day, layer) in told} for day in names[-7:]
        }
        colours = {layer: _LAYER_COLOUR[k % len(_LAYER_COLOUR)] for k, layer in enumerate(layers)}
        word = "read" if way == "read" else "written"
        kept = {day: {k: v for k, v in row.items() if v is not None} for day, row in groups.items()}
        if any(kept.values()):
            title = f"Bytes {word} a day, by layer"
            picture = charts.draw_bar_chart(kept, title=title, kind="bytes", colours=colours)
            pictures.append(f"<h3>{title}</h3>{_picture(picture)}")
    last = f"The last 7 of {len(names)} days. " if len(names) > 7 else ""
    note = f'<p class="quiet">{last}Layers tell of the same bytes.</p>'
    return note + "".join(pictures)


def _draw_targets(answer: Behaviour) -> str:
    """The distribution of utilisation of targets."""
    if answer.targets is None:
        return ""
    busy = answer.targets
    series = charts.Series("targets", busy.utilisation, list(busy.share))
    text = (
        f"{unit_formats.format_percent(busy.below_1_percent)} of the time below 1 %, "
        f"{unit_formats.format_percent(busy.below_5_percent)} below 5 % of "
        f"{unit_formats.format_bandwidth(busy.peak_bytes_per_s)} ({busy.peak_basis}); {busy.components:,} targets"
    )
    picture = charts.draw_cdf_chart([series], title="How busy targets are", x=Axis("share of the peak", "share"))
    return f'<p class="quiet">{escape_html_text(text)}</p>{_picture(picture)}'


def _draw_forwarders(answer: Behaviour) -> str:
    """The busiest minute of each hour of each forwarder."""
    if answer.forwarders is None:
        return ""
    heat = answer.forwarders
    rows = heat.rows
    if len(rows) > _MOST_ROWS:
        busiest = sorted(rows, key=lambda row: (-sum(share or 0.0 for share in row.peak_share), row.id))[:_MOST_ROWS]
        rows = sorted(busiest, key=lambda row: row.id)
    hours = [format_svg_value(heat.from_ns + k * HOUR_NS, "time", span=12 * HOUR_NS) for k in range(heat.columns)]
    picture = charts.draw_heat_map_chart(
        [row.id for row in rows],
        hours,
        [row.peak_share for row in rows],
        title="Forwarders: the busiest minute of each hour as a share of the peak",
    )
    left = f" The {len(rows)} busiest of {len(heat.rows)}." if len(rows) < len(heat.rows) else ""
    peak = unit_formats.format_bandwidth(heat.peak_bytes_per_s)
    note = escape_html_text(f"Of {peak} ({heat.peak_basis}), hours in UTC.{left}")
    return f'<p class="quiet">{note}</p>{_picture(picture)}'
