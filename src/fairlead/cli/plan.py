"""`fairlead plan`: what arriving jobs should get, with reasons, as text, JSON or a site's own commands; `plan check`.

Nothing is applied. Not here: how it is decided (`decide.planning`, `policies.paths`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.options import FILE, add_lake_option, add_site_option, json_option
from fairlead.cli.printing import print_json
from fairlead.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from fairlead.core.model.plan import Plan, Plans
    from fairlead.core.model.site_file import SiteFile
    from fairlead.decide.planning.expectations import Arriving
    from fairlead.store.lake import Lake

DEFAULT_POLICY = "aiot"
"""It answers with what little a lake may know: loads and health now, a job's last rate. `joint` and the published pairs
want volume and computing time of every job, and set neither stripes nor P."""
_lake_option = add_lake_option(
    "The lake to read the live state from. Default: $FAIRLEAD_LAKE, else fairlead/lake in your data folder."
)
_site_option = add_site_option("The site file: peaks, routes, counts, pools, access restrictions.")
_at_option = click.option(
    "--at", default="", metavar="TIME", help="Use the state at this time: 2026-11-21T08:00, -2h, now (default)."
)
_system_option = click.option(
    "--file-system",
    "file_system",
    default="",
    metavar="NAME",
    help="File system whose targets are planned. Default: the one with most targets.",
)


@click.group(invoke_without_command=True)
@_lake_option
@_site_option
@click.option(
    "--policy",
    default=DEFAULT_POLICY,
    show_default=True,
    metavar="NAME",
    help="aiot, dfra, static-map, joint, or a pair such as tcpu+greedy-clairvoyant.",
)
@click.option(
    "--job-file",
    "job_file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Jobs as JSON, planned in their order; - reads standard input.",
)
@click.option("--job", "job_id", default="", metavar="ID", help="One job, described by the options below.")
@click.option("--user", default="", metavar="NAME", help="Its user.")
@click.option("--program", default="", metavar="NAME", help="Its program, as in accounting.")
@click.option("--nodes", type=int, default=None, metavar="N", help="How many nodes it gets.")
@click.option("--node-list", "node_list", default="", metavar="LIST", help="Which nodes: a host list, n[001-064].")
@click.option("--cores", type=float, default=0.0, metavar="N", help="How many cores it gets.")
@click.option("--processes", type=int, default=None, metavar="N", help="How many processes it has.")
@click.option(
    "--granted",
    "granted",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="Earlier plans (--json) whose jobs may not be visible as running yet. Repeatable.",
)
@_at_option
@_system_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed for randomised policies.")
@click.option(
    "--folder",
    default="",
    metavar="DIR",
    help="For --render: where the job writes (lustre), or its mount (remap).",
)
@click.option(
    "--render",
    "form",
    type=click.Choice(["lustre", "slurm", "map", "remap"]),
    default=None,
    help="Print the plan as text for these tools. Nothing is applied.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plans as JSON.")
@click.pass_context
def plan(
    context: click.Context,
    root: Path | None,
    site_file: Path | None,
    policy: str,
    job_file: Path | None,
    job_id: str,
    user: str,
    program: str,
    nodes: int | None,
    node_list: str,
    cores: float,
    processes: int | None,
    granted: tuple[Path, ...],
    at: str,
    file_system: str,
    seed: int,
    folder: str,
    form: str | None,
    as_json: bool,
) -> None:
    """Show what arriving jobs should get: forwarders, targets, stripes, read-ahead, metadata share, hints, and why.

    From the live state in a lake, the jobs' earlier runs and a policy. Every plan is checked first; an invalid one is
    not shown, and the command fails. Nothing is applied.
    """
    if context.invoked_subcommand is not None:
        return
    if form is not None and as_json:
        raise UsageError("--render and --json exclude each other", remedy="give one of them")
    jobs = _jobs(job_file, job_id, user, program, nodes, node_list, cores, processes)
    from fairlead.core import clock
    from fairlead.decide.planning.plan_jobs import plan_jobs, require_sound_plans
    from fairlead.explain.questions.span import parse_span_moment

    now_ns = clock.now_ns()
    made = plan_jobs(
        _lake(root),
        _site(site_file),
        jobs,
        policy=policy,
        at_ns=_moment(parse_span_moment(at or "now", now_ns), now_ns),
        now_ns=now_ns,
        file_system=file_system,
        seed=seed,
        granted=_granted(granted),
    )
    plans = require_sound_plans(made)
    if form is not None:
        from fairlead.cli.printing import print_message
        from fairlead.decide.planning.render import render_plans

        click.echo(render_plans(plans, form, folder=folder), nl=False)
        print_message("shown only: nothing was applied")
        return
    if as_json:
        print_json(plans)
        return
    from fairlead.cli.pictures import build_picture_console

    console = build_picture_console()
    for part in _render_plans(plans, console.width):
        console.print(part)


@plan.command("check")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@_lake_option
@_site_option
@_at_option
@_system_option
@json_option
def check_plan(file: Path, root: Path | None, site_file: Path | None, at: str, file_system: str, as_json: bool) -> None:
    """Check plans (from --json or elsewhere) against the live state: capacity, restrictions, sick components, limits.

    Prints every fault with field, component and reason, and fails if there is any. FILE may be - for standard input.
    """
    from fairlead.core import clock
    from fairlead.core.model.plan import read_plan_document
    from fairlead.core.safe_text import escape_text
    from fairlead.decide.planning.live_site import find_live_site
    from fairlead.decide.planning.plan_jobs import build_plan_ground, build_unsound_plan_error
    from fairlead.decide.policies.paths.checker import check_path_plans as checked
    from fairlead.explain.questions.span import parse_span_moment

    plans = read_plan_document(_content(file, "FILE"), str(file))
    now_ns = clock.now_ns()
    at_ns = _moment(parse_span_moment(at or "now", now_ns), now_ns)
    systems = {one.file_system for one in plans.plans if one.file_system}
    wanted = file_system or (systems.pop() if len(systems) == 1 else "")
    state = find_live_site(_lake(root), _site(site_file), at_ns, now_ns, file_system=wanted)
    violations = checked(plans.plans, build_plan_ground(state, now_ns))
    if as_json:
        told = {
            "schema": "fairlead.plan.check/1",
            "plans": len(plans.plans),
            "state_ns": state.state_ns,
            "violations": [
                {
                    "job_id": one.job_id,
                    "field": one.field,
                    "component": one.component,
                    "reason": one.reason,
                    "rule": one.rule,
                }
                for one in violations
            ],
            "missing": list(state.missing),
        }
        print_json(told)
    else:
        for one in violations:
            click.echo(escape_text(str(one)))
        for text in state.missing:
            click.echo(f"not known: {escape_text(text)}", err=True)
    if violations:
        raise build_unsound_plan_error(violations, str(file))
    if not as_json:
        count = len(plans.plans)
        click.echo(f"{count} plan{'' if count == 1 else 's'}: sound")


def _render_plans(plans: Plans, width: int) -> list[RenderableType]:
    """The plans, part by part."""
    from rich.text import Text

    from fairlead.cli import diagnosis_rendering as shown
    from fairlead.core.model import unit_formats

    count = len(plans.plans)
    head = f"{count} plan{'' if count == 1 else 's'} by {plans.policy}, on the state of "
    parts: list[RenderableType] = [Text(head + unit_formats.format_time(plans.state_ns), style="bold")]
    for one in plans.plans:
        parts += _one(one, width)
    if plans.missing:
        parts += [shown.render_diagnosis_heading("Not known"), *shown.render_diagnosis_lines(plans.missing)]
    parts.append(Text("Shown only: nothing was applied. --json keeps it, --render writes commands.", style="dim"))
    return parts


def _one(one: Plan, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli import diagnosis_rendering as shown
    from fairlead.cli.answer_tables import Column, fit_answer_table, shorten_answer_program
    from fairlead.core.model import unit_formats
    from fairlead.core.model.node_names import fold_node_names
    from fairlead.core.safe_text import escape_text

    job = one.job
    of_whom = f", {job.user}'s {shorten_answer_program(job.program)}" if job.program else f" of {job.user}"
    whose = of_whom if job.user else ""
    title = f"Job {job.job_id}{whose}, {job.node_count:,} node{'' if job.node_count == 1 else 's'}"
    parts: list[RenderableType] = [shown.render_diagnosis_heading(escape_text(title))]
    told = one.expected
    moved = [f"reads {unit_formats.format_bytes(told.read_bytes)}"] if told.read_bytes is not None else []
    moved += [f"writes {unit_formats.format_bytes(told.write_bytes)}"] if told.write_bytes is not None else []
    moved += [told.mode] if told.mode else []
    parts.append(Text(f"  expected: {escape_text(told.basis)}" + (f": {', '.join(moved)}" if moved else "")))
    alone = ", alone" if one.isolated else ""
    pool = f" (pool {one.pool}, {'there' if one.pool_exists else 'new'})" if one.pool else ""
    default = f"the site's default{f': {fold_node_names(one.default_forwarders)}' if one.default_forwarders else ''}"
    rows = [
        ("forwarders", f"{fold_node_names(one.forwarders)}{alone}" if one.forwarders else default),
        ("targets", f"{fold_node_names(one.targets)}{pool}" if one.targets else "the site's default"),
        ("stripe count", None if one.stripe_count is None else str(one.stripe_count)),
        ("stripe size", None if one.stripe_bytes is None else unit_formats.format_bytes(one.stripe_bytes)),
        ("read-ahead", None if one.prefetch_bytes is None else unit_formats.format_bytes(one.prefetch_bytes)),
        ("metadata share P", None if one.metadata_share is None else f"{one.metadata_share:g}"),
        ("data on MDT", None if one.dom_bytes is None else unit_formats.format_bytes(one.dom_bytes)),
        ("MPI-IO hints", ", ".join(f"{key}={value}" for key, value in sorted(one.hints.items())) or None),
    ]
    columns = [Column("what", lambda r: r[0], longest=20), Column("granted", lambda r: r[1], longest=90, wraps=True)]
    parts.append(fit_answer_table(columns, [row for row in rows if row[1] is not None], width))
    if one.reasons:
        parts += [
            Text("  why:"),
            *(Text(f"    {escape_text(why.what)}: {escape_text(why.why)}") for why in one.reasons),
        ]
    parts += [Text(f"  not known: {escape_text(text)}", style="yellow") for text in one.missing]
    return parts


def _jobs(
    job_file: Path | None,
    job_id: str,
    user: str,
    program: str,
    nodes: int | None,
    node_list: str,
    cores: float,
    processes: int | None,
) -> Sequence[Arriving]:
    import msgspec

    from fairlead.decide.planning.arriving_jobs import ArrivingJob, read_arriving_jobs, resolve_arriving_nodes

    if job_file is not None:
        if job_id or user or program or nodes is not None or node_list or cores or processes is not None:
            raise UsageError("--job-file and the options of one job exclude each other", remedy="give one of them")
        return read_arriving_jobs(_content(job_file, "--job-file"), str(job_file))
    if not job_id:
        raise UsageError("no job to plan for", remedy="give --job ID with --user and --program, or --job-file FILE")
    try:
        one = msgspec.convert(
            {
                "job_id": job_id,
                "user": user,
                "program": program,
                "node_count": nodes,
                "nodes": node_list,
                "cores": cores,
                "processes": processes,
            },
            ArrivingJob,
        )
    except msgspec.ValidationError as fault:
        raise UsageError(str(fault), where="--job", remedy="see fairlead plan --help") from fault
    return [resolve_arriving_nodes(one, "--job")]


def _content(file: Path, where: str) -> bytes:
    from fairlead.core.model.plan import MOST_BYTES

    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with file.open("rb") as stream:
            return stream.read(MOST_BYTES + 1)
    except OSError as fault:
        what = f"cannot be read: {(fault.strerror or str(fault)).lower()}"
        raise InputError(what, where=str(file), remedy=f"check {where}") from fault


def _granted(files: Sequence[Path]) -> list[Plan]:
    from fairlead.core.model.plan import read_plan_document

    return [one for file in files for one in read_plan_document(_content(file, "--granted"), str(file)).plans]


def _lake(root: Path | None) -> Lake:
    from fairlead.store.lake import Lake
    from fairlead.store.lake_folder import find_default_lake_folder

    return Lake.open(root or find_default_lake_folder())


def _site(file: Path | None) -> SiteFile | None:
    if file is None:
        return None
    from fairlead.decide.planning.site_components import read_site_file

    return read_site_file(file)


def _moment(at_ns: int, now_ns: int) -> int:
    if at_ns < 0 or at_ns > now_ns:
        raise UsageError("--at must not be in the future", where="--at", remedy="write --at -2h")
    return at_ns
