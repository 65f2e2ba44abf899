"""How jobs behave, on the terminal: modes, request sizes, rates, who moved most. Not here: one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from fairlead.explain.questions.answers_behaviour import Behaviour, RankLine


def render_behaviour(answer: Behaviour, width: int) -> list[RenderableType]:
    """Return how jobs behave, part by part."""
    from rich.text import Text

    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text
    from fairlead.show.report.diagnosis.behaviour_page import build_behaviour_headline, list_behaviour_facts

    parts: list[RenderableType] = [Text(escape_text(build_behaviour_headline(answer)), style="bold")]
    parts += [Text(line, style="dim") for line in list_behaviour_facts(answer)]
    moved = (
        f"read {unit_formats.format_bytes(answer.read_bytes)}, written {unit_formats.format_bytes(answer.write_bytes)}"
    )
    parts += [Text(moved), Text("")] if answer.known else [Text("")]
    if answer.nontrivial:
        parts += [_modes(answer, width), Text("")]
    if any(one.known for one in answer.requests):
        parts += [_requests(answer, width), Text("")]
    for word, rows in (("user", answer.users), ("program", answer.programs)):
        if rows and not (word == "user" and answer.user):
            parts += [_ranking(rows, word, width), Text("")]
    if answer.causes:
        parts += [_causes(answer, width), Text("")]
    if answer.user or answer.program or answer.project:
        parts += [_runs(answer, width), Text("")] if answer.runs else []
    parts += _machine(answer, width)
    if answer.missing:
        parts.append(Text("Not known", style="bold yellow"))
        parts += [Text(f"  {escape_text(text)}") for text in answer.missing]
    return parts


def _modes(answer: Behaviour, width: int) -> RenderableType:
    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.cli.pictures import draw_bar_picture
    from fairlead.core.model import unit_formats

    rows = [one for one in answer.modes if one.jobs]
    return fit_answer_table(
        [
            Column("mode", lambda one: one.mode or "unknown"),
            Column("jobs", lambda one: f"{one.jobs:,}", right=True),
            Column("share", lambda one: unit_formats.format_percent(one.share), right=True),
            Column("", lambda one: draw_bar_picture(one.share, 20), spare=3),
            Column("mean read", lambda one: unit_formats.format_bytes(one.mean_read_bytes), right=True),
            Column("mean written", lambda one: unit_formats.format_bytes(one.mean_write_bytes), right=True),
        ],
        rows,
        width,
    )


def _requests(answer: Behaviour, width: int) -> RenderableType:
    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.cli.pictures import draw_bar_picture
    from fairlead.core.model import unit_formats

    return fit_answer_table(
        [
            Column("mean request", lambda one: f"below {unit_formats.format_bytes(one.below_bytes)}"),
            Column("jobs", lambda one: f"{one.jobs:,}", right=True),
            Column("of jobs", lambda one: unit_formats.format_percent(one.job_share), right=True),
            Column("", lambda one: draw_bar_picture(one.job_share, 20), spare=3),
            Column("of operations", lambda one: unit_formats.format_percent(one.ops_share), right=True),
        ],
        answer.requests,
        width,
    )


def _ranking(rows: Sequence[RankLine], word: str, width: int) -> RenderableType:
    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.core.model import unit_formats
    from fairlead.show.report.diagnosis.behaviour_page import format_behaviour_trend

    return fit_answer_table(
        [
            Column(word, lambda one: one.name or "unknown"),
            Column("jobs", lambda one: f"{one.jobs:,}", right=True),
            Column("moved", lambda one: unit_formats.format_bytes(one.bytes), right=True),
            Column("share", lambda one: unit_formats.format_percent(one.share), right=True),
            Column("trend", format_behaviour_trend, right=True),
            Column("metadata ops", lambda one: unit_formats.format_count(one.metadata_ops), right=True, spare=2),
            Column("core-hours", lambda one: unit_formats.format_count(one.core_hours), right=True, spare=3),
        ],
        rows,
        width,
    )


def _causes(answer: Behaviour, width: int) -> RenderableType:
    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.core.model import unit_formats

    return fit_answer_table(
        [
            Column("abnormal jobs", lambda one: one.cause.replace("_", " ")),
            Column("jobs", lambda one: f"{one.jobs:,}", right=True),
            Column("of non-trivial", lambda one: unit_formats.format_percent(one.share), right=True),
            Column("of abnormal", lambda one: unit_formats.format_percent(one.of_abnormal), right=True),
            Column("time lost", lambda one: unit_formats.format_duration(one.lost_s), right=True),
        ],
        answer.causes,
        width,
    )


def _runs(answer: Behaviour, width: int) -> RenderableType:
    from fairlead.cli.answer_tables import Column, fit_answer_table, format_answer_word
    from fairlead.core.model import unit_formats

    return fit_answer_table(
        [
            Column("run", lambda one: one.job_id),
            Column("began", lambda one: unit_formats.format_time(one.start_ns)),
            Column("took", lambda one: unit_formats.format_duration(one.seconds), right=True, spare=2),
            Column("mode", lambda one: format_answer_word(one.mode)),
            Column("read", lambda one: unit_formats.format_bytes(one.read_bytes), right=True),
            Column("written", lambda one: unit_formats.format_bytes(one.write_bytes), right=True),
            Column(
                "reads at",
                lambda one: unit_formats.format_bandwidth(one.read_bandwidth_bytes_per_s),
                right=True,
                spare=1,
            ),
            Column(
                "writes at",
                lambda one: unit_formats.format_bandwidth(one.write_bandwidth_bytes_per_s),
                right=True,
                spare=1,
            ),
        ],
        answer.runs,
        width,
    )


def _machine(answer: Behaviour, width: int) -> list[RenderableType]:
    """How busy targets, forwarders and metadata servers were."""
    from rich.text import Text

    from fairlead.cli.pictures import draw_axis_picture, draw_line_picture
    from fairlead.core.model import unit_formats

    parts: list[RenderableType] = []
    if answer.targets is not None:
        busy = answer.targets
        below = unit_formats.format_percent(busy.below_1_percent), unit_formats.format_percent(busy.below_5_percent)
        parts.append(Text(f"targets: {below[0]} of the time below 1 % of their peak, {below[1]} below 5 %"))
    if answer.metadata_above_75_percent is not None:
        share = unit_formats.format_percent(answer.metadata_above_75_percent)
        parts.append(Text(f"metadata servers: {share} of their busy minutes above 75 % of their peak"))
    if answer.forwarders is not None:
        heat = answer.forwarders
        means: list[float | None] = []
        for hour in range(heat.columns):
            known = [s for row in heat.rows if (s := row.peak_share[hour]) is not None]
            means.append(sum(known) / len(known) if known else None)
        columns = max(10, min(heat.columns, width))
        parts += [
            Text("forwarders, mean of their busiest minutes by hour:"),
            draw_line_picture(means, columns, top=1.0),
            draw_axis_picture(heat.from_ns, heat.from_ns + heat.columns * heat.step_ns, columns),
        ]
    return [*parts, Text("")] if parts else []
