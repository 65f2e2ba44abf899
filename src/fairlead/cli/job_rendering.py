"""One job on the terminal: what it moved, why it was slow. Not here: the commands (`job`), lists (`answer_tables`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.questions.answers import ClockShift, JobPage
    from fairlead.explain.questions.answers_diagnosis import Why


def render_job(answer: JobPage, width: int) -> list[RenderableType]:
    """Return one job, part by part."""
    from rich.text import Text

    from fairlead.cli.answer_tables import (
        build_answer_share_table,
        draw_answer_timeline,
        list_answer_gaps,
        render_answer_latencies,
    )
    from fairlead.core.safe_text import escape_text

    parts: list[RenderableType] = [_head(answer), _figures(answer), Text("")]
    parts.append(draw_answer_timeline(answer.timeline, width))
    parts += render_answer_latencies(answer.latencies, width)
    if answer.components:
        parts += [Text("\nThrough", style="bold"), build_answer_share_table(answer.components[:20], width, "component")]
        if len(answer.components) > 20:
            parts.append(Text(f"and {len(answer.components) - 20} more (--json has all)", style="dim"))
    if answer.ports:
        from fairlead.cli.system_rendering import render_system_imbalance, render_system_port_table

        parts += [Text("\nSwitch ports", style="bold"), render_system_port_table(answer.ports[:10], width)]
        if answer.port_imbalance is not None:
            parts.append(Text(render_system_imbalance(answer.port_imbalance), style="dim"))
    if answer.clocks:
        parts += [
            Text("\nClocks", style="bold yellow"),
            *(Text(f"  {line}") for line in render_job_clock_lines(answer.clocks)),
        ]
    if answer.missing or answer.gaps:
        parts.append(Text("\nNot known", style="bold yellow"))
        parts += [Text(f"  {escape_text(text)}") for text in answer.missing]
        parts += [Text("  ") + gap for gap in list_answer_gaps(answer.gaps)]
    if answer.other_runs:
        parts.append(Text(f"\n{answer.other_runs} more with this number; choose with --at or --cluster", style="dim"))
    return parts


def render_job_clock_lines(clocks: list[ClockShift]) -> list[str]:
    """Return a line for each source whose clock was corrected."""
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    lines = []
    for one in clocks[:10]:
        way = "later" if one.offset_ns > 0 else "earlier"
        off = unit_formats.format_duration(abs(one.offset_ns) / 1e9)
        lines.append(f"{escape_text(one.source)}: its clock is off; its records are shown {off} {way} than recorded")
    return [*lines, *([f"and {len(clocks) - 10} more (--json has all)"] if len(clocks) > 10 else [])]


def _head(answer: JobPage) -> RenderableType:
    from rich.text import Text

    from fairlead.cli.answer_tables import format_answer_word, shorten_answer_program
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    job = answer.job
    state = "running" if job.running else format_answer_word(job.state).lower() if job.accounted else "not accounted"
    end_ns = job.end_ns if job.end_ns is not None else answer.to_ns
    ran = unit_formats.format_duration((end_ns - job.start_ns) / 1e9) if job.start_ns is not None else "an unknown time"
    nodes = "nodes unknown" if job.nodes_count is None else f"{unit_formats.format_count(job.nodes_count)} nodes"
    about = [
        "1 node" if job.nodes_count == 1 else nodes,
        f"{unit_formats.format_count(job.processes or job.cores)} {'processes' if job.processes else 'cores'}"
        if job.processes or job.cores
        else "",
        f"ran {ran}" if not job.running else f"running for {ran}",
        f"from {unit_formats.format_time(job.start_ns)}",
    ]
    who = " · ".join(escape_text(format_answer_word(part)) for part in (job.user, job.project, job.partition) if part)
    return Text.assemble(
        (f"job {escape_text(job.job_id)}", "bold"),
        "  ",
        (escape_text(shorten_answer_program(job.program, job.name)), "bold cyan"),
        "  ",
        (escape_text(state), "green" if job.running else ""),
        f"\n{who}\n" if who else "\n",
        ", ".join(part for part in about if part),
    )


def _figures(answer: JobPage) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.answer_tables import format_answer_bound, format_answer_word
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text

    sums, summary = answer.job.sums, answer.summary
    table = Table.grid(padding=(0, 3, 0, 0))
    if summary is not None and summary.so_far and answer.job.running:
        summary = None  # the figures above are younger
    pairs = [
        ("read", unit_formats.format_bytes(sums.read_bytes)),
        ("written", unit_formats.format_bytes(sums.write_bytes)),
        ("metadata ops", unit_formats.format_count(sums.metadata_ops)),
        ("counted at", format_answer_word(answer.job.layer)),
    ]
    if answer.job.bound is not None:
        pairs.append(("within", format_answer_bound(answer.job.bound)))
    more: list[tuple[str, str]] = []
    if summary is not None:
        more = [
            ("read mode", format_answer_word(summary.read_mode)),
            ("write mode", format_answer_word(summary.write_mode)),
            ("files", unit_formats.format_count(summary.files)),
            ("phases", unit_formats.format_count(summary.phases)),
            ("peak read", unit_formats.format_bandwidth(summary.peak_read_bytes_per_s)),
            ("peak write", unit_formats.format_bandwidth(summary.peak_write_bytes_per_s)),
        ]
    for row in (pairs, [pair for pair in more if pair[1] != unit_formats.ABSENT]):
        if row:
            table.add_row(*(Text.assemble((f"{name} ", "dim"), escape_text(value)) for name, value in row))
    return table


def render_job_explanation(answer: Why, width: int) -> list[RenderableType]:
    """Return what a job got, what is usual and what made the difference, part by part."""
    from rich.text import Text

    from fairlead.cli import diagnosis_rendering as shown
    from fairlead.cli.answer_tables import Column, fit_answer_table, shorten_answer_program
    from fairlead.core.model import unit_formats
    from fairlead.core.safe_text import escape_text
    from fairlead.show.report.diagnosis.diagnosis_pages import VERDICTS, format_diagnosis_program_runs
    from fairlead.show.report.diagnosis.html_parts import (
        build_html_evidence_heading,
        format_html_lost_time,
        format_html_rate,
        format_html_span,
    )

    word, severity = VERDICTS.get(answer.verdict, (answer.verdict, "info"))
    style = {"high": "bold red", "warning": "bold yellow", "ok": "bold green"}.get(severity, "bold")
    job = answer.job
    about = " · ".join(
        escape_text(part) for part in (job.user, job.project, shorten_answer_program(job.program, job.name)) if part
    )
    parts: list[RenderableType] = [
        Text.assemble(
            (word, style),
            "  ",
            (escape_text(answer.headline), "bold"),
            f"\n{about}\n{format_html_span(job.start_ns, job.end_ns)}",
        )
    ]
    if answer.phases:
        took = unit_formats.format_duration(sum(line.seconds for line in answer.phases))
        parts.append(
            Text(
                f"\nI/O took {took}; usually {unit_formats.format_duration(answer.expected_s)}; lost"
                f" {format_html_lost_time(answer.lost_s)}"
            )
        )
        columns = [
            Column("phase", lambda r: f"{r.kind} {r.number + 1}"),
            Column("began", lambda r: unit_formats.format_time(r.start_ns).removesuffix(" UTC"), spare=3),
            Column("took", lambda r: unit_formats.format_duration(r.seconds), right=True),
            Column(
                "amount",
                lambda r: (
                    unit_formats.format_count(r.amount) if r.kind == "metadata" else unit_formats.format_bytes(r.amount)
                ),
                right=True,
                spare=2,
            ),
            Column("rate", lambda r: format_html_rate(r.rate_per_s, r.kind), right=True, spare=1),
            Column("usually", lambda r: unit_formats.format_duration(r.expected_s), right=True),
            Column("lost", lambda r: format_html_lost_time(r.lost_s), right=True),
            Column("mode", lambda r: r.mode or unit_formats.ABSENT, spare=4),
        ]
        parts.append(fit_answer_table(columns, answer.phases[:20], width))
        if len(answer.phases) > 20:
            parts.append(Text(f"and {len(answer.phases) - 20} more (--json has all)", style="dim"))
    if answer.taken:
        columns = [
            Column("who", lambda r: r.who, longest=40),
            Column("time", lambda r: unit_formats.format_duration(r.seconds), right=True),
            Column("sure", lambda r: unit_formats.format_percent(r.confidence), right=True, spare=2),
            Column("finding", lambda r: r.finding, spare=1),
        ]
        parts += [
            shown.render_diagnosis_heading("Who or what took the difference"),
            fit_answer_table(columns, answer.taken, width),
        ]
    if answer.hurt:
        columns = [
            Column("whom", lambda r: r.who or "another job", longest=40),
            Column("time", lambda r: unit_formats.format_duration(r.seconds), right=True),
            Column("sure", lambda r: unit_formats.format_percent(r.confidence), right=True, spare=2),
            Column("finding", lambda r: r.finding or unit_formats.ABSENT, spare=1),
        ]
        parts += [shown.render_diagnosis_heading("Whom it hurt"), fit_answer_table(columns, answer.hurt, width)]
    for told in answer.findings[:3]:
        parts += [
            shown.render_diagnosis_heading(escape_text(build_html_evidence_heading(told, answer.headline))),
            *shown.render_diagnosis_evidence(told.finding.evidence),
        ]
    parts += shown.render_diagnosis_courses(answer.courses, width)
    if answer.usual:
        parts += [
            shown.render_diagnosis_heading("What it usually gets"),
            *shown.render_diagnosis_usual(answer.usual, width),
        ]
    if answer.runs is not None:
        parts += [
            shown.render_diagnosis_heading("Runs of its program"),
            Text(f"  {format_diagnosis_program_runs(answer.runs)}"),
        ]
    if answer.alike:
        columns = [
            Column("job", lambda r: r.job_id or "another job"),
            Column(
                "who",
                lambda r: " ".join(part for part in (r.user, r.program) if part) or unit_formats.ABSENT,
                longest=40,
                spare=2,
            ),
            Column("began", lambda r: unit_formats.format_time(r.start_ns).removesuffix(" UTC"), spare=3),
            Column("took", lambda r: unit_formats.format_duration(r.seconds), right=True),
            Column("how", lambda r: r.how, spare=1),
        ]
        parts += [shown.render_diagnosis_heading("Runs like this one"), fit_answer_table(columns, answer.alike, width)]
    if answer.advice:
        parts += [shown.render_diagnosis_heading("What to do"), *shown.render_diagnosis_advice(answer.advice)]
    if answer.missing:
        parts += [shown.render_diagnosis_heading("Not known"), *shown.render_diagnosis_lines(answer.missing)]
    if answer.other_runs:
        parts.append(Text(f"\n{answer.other_runs} more with this number; choose with --at or --cluster", style="dim"))
    return parts
