"""`fairlead whatif`: a site's own past under other policies and capacities. Simulated; checked against what was
measured. Not here: the replay (`questions.whatif`), published workloads (`simulate`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.ask import print_asked_answer
from fairlead.cli.options import add_limit_option, add_site_option, html_option, json_option, lake_option
from fairlead.cli.printing import is_printing_quiet
from fairlead.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from fairlead.explain.questions.answers_whatif import ChangedCost, Scenario, Sides, WhatIf


@click.command()
@click.option(
    "--since",
    default="",
    metavar="TIME",
    help="Jobs that began at or after this time: 2026-10-01, or an age (30d). Default: 30d.",
)
@click.option("--until", default="", metavar="TIME", help="Jobs that began before this time. Default: now.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="A policy to replay: dfra, aiot, static-map, joint, or ALLOCATION+PLACEMENT such as tcpu+greedy-clairvoyant. "
    "Repeatable.",
)
@click.option(
    "--layer",
    type=click.Choice(["forwarders", "targets", "both"]),
    default=None,
    help="Where policies decide; the other layer stays as it was. Default: forwarders, where there are any.",
)
@click.option(
    "--forwarders",
    type=click.IntRange(1, 100_000),
    default=None,
    metavar="N",
    help="Assume this number of forwarders.",
)
@click.option(
    "--osts",
    type=click.IntRange(1, 100_000),
    default=None,
    metavar="N",
    help="Assume this number of storage targets.",
)
@click.option(
    "--price",
    type=click.FloatRange(min=0),
    default=None,
    metavar="PER_CORE_HOUR",
    help="What a core-hour costs, in any currency.",
)
@add_site_option("The site's description, for what a forwarder and a target can do.")
@add_limit_option("How many winners and losers to list.", 10)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31),
    default=0,
    show_default=True,
    help="Seed for randomised policies and for unknown places of jobs.",
)
@lake_option
@html_option
@json_option
def whatif(
    since: str,
    until: str,
    policies: tuple[str, ...],
    layer: str | None,
    forwarders: int | None,
    osts: int | None,
    price: float | None,
    site_file: Path | None,
    limit: int,
    seed: int,
    root: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Replay the site's own past under other policies, or with other numbers of forwarders and OSTs.

    Simulated: shows what I/O would have cost, who wins and who loses, and how well a replay of the actual
    configuration, and of a change of the map, matches the measurements.
    """
    from fairlead.core import clock
    from fairlead.decide.whatif.whatif_evaluation import WhatIfRequest
    from fairlead.decide.whatif.whatif_evaluation import evaluate_whatif as answered
    from fairlead.explain.questions.lake_queries import Sight
    from fairlead.explain.questions.span import parse_span
    from fairlead.show.report.whatif.whatif_page import build_whatif_page
    from fairlead.store.lake import Lake
    from fairlead.store.lake_folder import find_default_lake_folder

    if price is not None and not price < float("inf"):
        raise UsageError(
            "the price is not a number", where="--price", remedy="give the price of a core-hour, such as 0.04"
        )
    age = bool(since) and since[0].isdigit() and since[-1].isalpha() and since.isalnum()
    span = parse_span(
        now_ns=clock.now_ns(), default="30d", last=since if age else "", from_="" if age else since, to=until
    )
    asked = WhatIfRequest(
        policies=policies,
        forwarders=forwarders,
        targets=osts,
        layer=layer or "",
        price_per_core_hour=price,
        limit=limit,
        seed=seed,
    )
    peaks = {}
    if site_file is not None:
        from fairlead.explain.diagnosing.site_file import read_site_file_facts

        facts = read_site_file_facts(str(site_file))
        peaks = dict(facts.peaks) if facts is not None else {}
    lake = Lake.open(root or find_default_lake_folder())
    answer = answered(lake, span, Sight(), asked, peaks=peaks, telling=_telling())
    print_asked_answer(answer, _render_whatif, build_whatif_page, html, as_json=as_json)


def _telling() -> Callable[[str], None] | None:
    """Says which replay runs, on a terminal only."""
    if is_printing_quiet() or not sys.stderr.isatty():
        return None
    return lambda text: click.echo(f"  {text} ...", err=True)


def _render_whatif(answer: WhatIf, width: int) -> list[RenderableType]:
    """The answer, part by part."""
    from rich.text import Text

    from fairlead.core.safe_text import escape_text
    from fairlead.show.report.whatif.whatif_page import (
        BASES,
        HOW,
        format_whatif_dropped,
        format_whatif_held_out,
        format_whatif_jobs,
        format_whatif_trust,
    )

    parts: list[RenderableType] = [Text(escape_text(answer.headline), style="bold")]
    parts += [
        Text(escape_text(line), style="dim") for line in (format_whatif_jobs(answer), format_whatif_trust(answer), HOW)
    ]
    parts += [Text(""), _scenarios(answer, width), Text("")]
    if answer.best is not None:
        best = answer.scenarios[answer.best]
        for side in best.sides:
            parts += _sides(side, best, width)
    if answer.held_out is not None:
        parts += [Text(format_whatif_held_out(answer.held_out)), Text("")]
    from fairlead.core.model import unit_formats

    known = ", ".join(
        f"{BASES[one.basis][0]} {unit_formats.format_percent(one.job_share)} of jobs "
        f"({unit_formats.format_percent(one.volume_share)} of bytes)"
        for one in answer.confidence
        if one.jobs
    )
    parts.append(Text(f"curves are based on: {known}"))
    if answer.dropped:
        parts.append(Text("\nLeft out", style="bold yellow"))
        parts += [Text(escape_text(f"  {format_whatif_dropped(one)}")) for one in answer.dropped]
    if answer.missing:
        parts.append(Text("\nNot known", style="bold yellow"))
        parts += [Text(f"  {escape_text(text)}") for text in answer.missing]
    return parts


def _scenarios(answer: WhatIf, width: int) -> RenderableType:
    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.cli.pictures import draw_bar_picture
    from fairlead.core.model import unit_formats
    from fairlead.show.report.whatif.whatif_page import (
        format_whatif_core_hours,
        format_whatif_share,
        format_whatif_slowdown,
    )

    most = max(one.io_core_hours for one in answer.scenarios) or 1.0
    money = [Column("worth", lambda one: "" if one.saved_money is None else f"{one.saved_money:,.2f}", right=True)]
    columns = [
        Column("simulated", lambda one: one.name),
        Column("", lambda one: draw_bar_picture(one.io_core_hours / most, 16), spare=3),
        Column("core-hours in I/O", lambda one: format_whatif_core_hours(one.io_core_hours), right=True),
        Column("saved", lambda one: format_whatif_core_hours(one.saved_core_hours), right=True),
        Column("share", lambda one: format_whatif_share(one.saved_share), right=True),
        *(money if answer.price_per_core_hour is not None else []),
        Column("mean slowdown", lambda one: format_whatif_slowdown(one.mean_slowdown), right=True, spare=1),
        Column("p90", lambda one: format_whatif_slowdown(one.p90_slowdown), right=True, spare=1),
        Column(
            "busiest forwarder", lambda one: unit_formats.format_percent(one.busiest_forwarder), right=True, spare=2
        ),
    ]
    return fit_answer_table(columns, answer.scenarios, width)


def _sides(side: Sides, best: Scenario, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table, format_answer_word
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text
    from fairlead.show.report.whatif.whatif_page import format_whatif_core_hours

    title = (
        f"{side.kind}s with {best.name}: {side.won or 0:,} win, {side.lost or 0:,} lose, {side.same or 0:,} as before"
    )
    rows: Sequence[ChangedCost] = [*side.winners[:5], *reversed(side.losers[:5])]
    if not rows:
        return [Text(escape_text(title)), Text("")]
    columns = [
        Column(side.kind, lambda one: one.name),
        *([Column("user", lambda one: format_answer_word(one.user), spare=2)] if side.kind != "user" else []),
        *([Column("jobs", lambda one: f"{one.jobs:,}", right=True, spare=1)] if side.kind != "job" else []),
        Column("saved", lambda one: format_whatif_core_hours(one.saved_core_hours), right=True),
        Column("before", lambda one: format_whatif_core_hours(one.before_core_hours), right=True, spare=1),
        Column(
            "in I/O",
            lambda one: f"{unit_formats.format_duration(one.before_s)} → {unit_formats.format_duration(one.after_s)}",
            right=True,
            spare=2,
        ),
    ]
    return [Text(escape_text(title), style="bold"), fit_answer_table(columns, rows, width), Text("")]
