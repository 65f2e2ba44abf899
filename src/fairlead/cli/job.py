"""`fairlead job ID`: one job, what it moved at each layer, through which components. Not here: lists (`jobs`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fairlead.cli.ask import Asker, asking_options, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import ClockShift, JobPage


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--cluster", default="", metavar="NAME", help="The job of this cluster, where several use the number.")
@click.option(
    "--points",
    type=click.IntRange(10, 5000),
    default=600,
    show_default=True,
    help="How many points each series has at most.",
)
@asking_options
def job(
    job_id: str,
    cluster: str,
    points: int,
    root: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
    last: str,
    from_: str,
    to: str,
    at: str,
    as_json: bool,
) -> None:
    """Show one job: account, volumes, bandwidth of each layer over time, forwarders and targets it used.

    A dot in a picture is no data, a low line is idle. Of several runs with one number the latest is shown, or the one
    that ran at --at.
    """
    answer = Asker(root, server, token, authority).ask(
        "job", job_id, cluster=cluster, points=points, last=last, from_=from_, to=to, at=at
    )
    if as_json:
        show_json(answer)
        return
    from fairlead.cli.pictures import screen

    console = screen()
    for part in page(cast("JobPage", answer), console.width):
        console.print(part)


def page(answer: JobPage, width: int) -> list[RenderableType]:
    """The page, part by part."""
    from rich.text import Text

    from fairlead.cli.answer_tables import gap_lines, share_table, timeline_picture
    from fairlead.core.safe_text import inert

    parts: list[RenderableType] = [_head(answer), _figures(answer), Text("")]
    parts.append(timeline_picture(answer.timeline, width))
    if answer.components:
        parts += [Text("\nThrough", style="bold"), share_table(answer.components[:20], width, "component")]
        if len(answer.components) > 20:
            parts.append(Text(f"and {len(answer.components) - 20} more (--json has all)", style="dim"))
    if answer.ports:
        from fairlead.cli.beside import port_table, unevenness

        parts += [Text("\nSwitch ports", style="bold"), port_table(answer.ports[:10], width)]
        if answer.port_imbalance is not None:
            parts.append(Text(unevenness(answer.port_imbalance), style="dim"))
    if answer.clocks:
        parts += [Text("\nClocks", style="bold yellow"), *(Text(f"  {line}") for line in clock_lines(answer.clocks))]
    if answer.missing or answer.gaps:
        parts.append(Text("\nNot known", style="bold yellow"))
        parts += [Text(f"  {inert(text)}") for text in answer.missing]
        parts += [Text("  ") + gap for gap in gap_lines(answer.gaps)]
    if answer.other_runs:
        parts.append(Text(f"\n{answer.other_runs} more with this number; choose with --at or --cluster", style="dim"))
    return parts


def clock_lines(clocks: list[ClockShift]) -> list[str]:
    """What was shifted, source by source."""
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    lines = []
    for one in clocks[:10]:
        way = "later" if one.offset_ns > 0 else "earlier"
        off = units.format_duration(abs(one.offset_ns) / 1e9)
        lines.append(f"{inert(one.source)}: its clock is off; its records are shown {off} {way} than it dated them")
    return [*lines, *([f"and {len(clocks) - 10} more (--json has all)"] if len(clocks) > 10 else [])]


def _head(answer: JobPage) -> RenderableType:
    from rich.text import Text

    from fairlead.cli.answer_tables import program_of, word
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    job = answer.job
    state = "running" if job.running else word(job.state).lower() if job.accounted else "not accounted"
    end_ns = job.end_ns if job.end_ns is not None else answer.to_ns
    ran = units.format_duration((end_ns - job.start_ns) / 1e9) if job.start_ns is not None else "an unknown time"
    nodes = "nodes unknown" if job.nodes_count is None else f"{units.format_count(job.nodes_count)} nodes"
    about = [
        "1 node" if job.nodes_count == 1 else nodes,
        f"{units.format_count(job.processes or job.cores)} {'processes' if job.processes else 'cores'}"
        if job.processes or job.cores
        else "",
        f"ran {ran}" if not job.running else f"running for {ran}",
        f"from {units.format_time(job.start_ns)}",
    ]
    who = " · ".join(inert(word(part)) for part in (job.user, job.project, job.partition) if part)
    return Text.assemble(
        (f"job {inert(job.job_id)}", "bold"),
        "  ",
        (inert(program_of(job.program, job.name)), "bold cyan"),
        "  ",
        (inert(state), "green" if job.running else ""),
        f"\n{who}\n" if who else "\n",
        ", ".join(part for part in about if part),
    )


def _figures(answer: JobPage) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.answer_tables import word
    from fairlead.core.model import units
    from fairlead.core.safe_text import inert

    sums, summary = answer.job.sums, answer.summary
    table = Table.grid(padding=(0, 3, 0, 0))
    if summary is not None and summary.so_far and answer.job.running:
        summary = None  # the figures above are younger
    pairs = [
        ("read", units.format_bytes(sums.read_bytes)),
        ("written", units.format_bytes(sums.write_bytes)),
        ("metadata ops", units.format_count(sums.metadata_ops)),
        ("counted at", word(answer.job.layer)),
    ]
    more: list[tuple[str, str]] = []
    if summary is not None:
        more = [
            ("read mode", word(summary.read_mode)),
            ("write mode", word(summary.write_mode)),
            ("files", units.format_count(summary.files)),
            ("phases", units.format_count(summary.phases)),
            ("peak read", units.format_bandwidth(summary.peak_read_bytes_per_s)),
            ("peak write", units.format_bandwidth(summary.peak_write_bytes_per_s)),
        ]
    for row in (pairs, [pair for pair in more if pair[1] != units.ABSENT]):
        if row:
            table.add_row(*(Text.assemble((f"{name} ", "dim"), inert(value)) for name, value in row))
    return table
