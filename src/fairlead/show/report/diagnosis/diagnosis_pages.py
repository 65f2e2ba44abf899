"""The single-file pages of diagnosis: findings, one of them explained, one job, the health of components.

Each is made of the answer that `--json` prints, holds no script and fetches nothing. Not here: its parts
(`html_parts`), the command line.
"""

from __future__ import annotations

from fairlead.core.model import unit_formats
from fairlead.explain.questions.answers_diagnosis import ComponentHealth, Explanation, Findings, RunsOfProgram, Why
from fairlead.show.report.diagnosis import html_parts
from fairlead.show.report.diagnosis.html_parts import Cell, build_html_box, escape_html_text

VERDICTS = {
    "slowed": ("slowed by others", "high"),
    "slow": ("slow, cause unknown", "warning"),
    "changed": ("asked for something else", "warning"),
    "usual": ("as usual", "ok"),
    "unknown": ("unknown", "info"),
    "running": ("still running", "info"),
}
STATES = {"sick": "high", "dead": "critical", "healthy": "ok", "idle": "info", "unknown": "info"}


def build_findings_diagnosis_page(answer: Findings) -> str:
    """What was found in a span."""
    span = f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"
    count = f"{answer.total:,} finding{'' if answer.total == 1 else 's'}"
    more = [span, *([format_older_diagnosis_findings(answer.older)] if answer.older else [])]
    worst = answer.findings[0].finding.severity if answer.findings else "ok"
    body = html_parts.build_html_head(worst if answer.findings else "nothing found", worst, count, more)
    body += build_html_box("Findings", html_parts.build_html_findings_table(answer.findings))
    for one in answer.findings[:50]:
        finding = one.finding
        inner = (
            f'<p class="quiet">{escape_html_text(html_parts.format_html_span(finding.from_ns, finding.to_ns))},'
            f" <code>{escape_html_text(finding.id)}</code></p>"
        )
        inner += html_parts.build_html_evidence_table(finding.evidence)
        inner += f"<h3>What to do</h3>{html_parts.build_html_advice_list(finding.advice)}" if finding.advice else ""
        body += build_html_box(finding.title, inner)
    body += build_html_box("Not known", html_parts.build_html_list(answer.missing))
    return html_parts.build_html_page(count, body)


def format_older_diagnosis_findings(count: int) -> str:
    """What is said of findings that are left out."""
    return (
        f"{count:,} finding{'' if count == 1 else 's'} of an older analysis left out; "
        "fairlead history diagnose makes them again"
    )


def build_finding_diagnosis_page(answer: Explanation) -> str:
    """One finding: the chain of evidence and its pictures."""
    finding = answer.told.finding
    facts = [
        html_parts.format_html_span(finding.from_ns, finding.to_ns),
        f"{finding.confidence:.0%} sure"
        + (f", cost {unit_formats.format_duration(finding.cost_s)}" if finding.cost_s else ""),
        "withdrawn: later analysis did not confirm it" if answer.withdrawn else "",
    ]
    body = html_parts.build_html_head(finding.severity, finding.severity, finding.title, facts)
    body += build_html_box("Evidence", html_parts.build_html_evidence_table(finding.evidence))
    body += build_html_box("Over time", html_parts.draw_html_courses(answer.courses))
    body += build_html_box("What is usual", "".join(html_parts.draw_html_usual(one) for one in answer.usual))
    body += build_html_box("Incidents", html_parts.build_html_incidents_table(answer.incidents, answer.made_ns))
    body += build_html_box("What to do", html_parts.build_html_advice_list(finding.advice))
    body += build_html_box("What was missing", html_parts.build_html_list([*finding.missing, *answer.missing]))
    body += build_html_box("Also found", html_parts.build_html_findings_table(answer.related))
    made = f"rule {finding.rule}, analysis {answer.analysis_version}"
    body += f'<p class="tag">finding <code>{escape_html_text(finding.id)}</code>, {escape_html_text(made)}</p>'
    return html_parts.build_html_page(finding.title, body)


def build_job_diagnosis_page(answer: Why) -> str:
    """One job: what it got, what it usually gets, who took the difference, what to do."""
    word, style = VERDICTS.get(answer.verdict, (answer.verdict, "info"))
    job = answer.job
    facts = [
        " · ".join(part for part in (job.user, job.project, job.program) if part),
        html_parts.format_html_span(job.start_ns, job.end_ns),
    ]
    body = html_parts.build_html_head(word, style, answer.headline, facts)
    took = sum(line.seconds for line in answer.phases) if answer.phases else None
    figures = [
        ("I/O took", unit_formats.format_duration(took)),
        ("usually takes", unit_formats.format_duration(answer.expected_s)),
        ("lost", html_parts.format_html_lost_time(answer.lost_s)),
    ]
    body += build_html_box(
        "What it got",
        '<dl class="figures">'
        + "".join(
            f'<div><dt>{escape_html_text(name)}</dt><dd class="big">{escape_html_text(value)}</dd></div>'
            for name, value in figures
        )
        + "</dl>"
        + _phases(answer),
    )
    rows: list[list[Cell]] = [
        [
            escape_html_text(one.who),
            escape_html_text(one.what),
            escape_html_text(unit_formats.format_duration(one.seconds)),
            escape_html_text(unit_formats.format_percent(one.confidence)),
            f"<code>{escape_html_text(one.finding)}</code>",
        ]
        for one in answer.taken
    ]
    body += build_html_box(
        "Who or what took the difference",
        html_parts.build_html_table(["who", "what", ">time", ">sure", "finding"], rows),
    )
    rows = [
        [
            escape_html_text(one.who or "another job"),
            escape_html_text(unit_formats.format_duration(one.seconds)),
            escape_html_text(unit_formats.format_percent(one.confidence)),
            f"<code>{escape_html_text(one.finding or unit_formats.ABSENT)}</code>",
        ]
        for one in answer.hurt
    ]
    body += build_html_box("Whom it hurt", html_parts.build_html_table(["whom", ">time", ">sure", "finding"], rows))
    for told in answer.findings[:5]:
        body += build_html_box(
            html_parts.build_html_evidence_heading(told, answer.headline),
            html_parts.build_html_evidence_table(told.finding.evidence),
        )
    body += build_html_box("Over time", html_parts.draw_html_courses(answer.courses))
    body += build_html_box("What it usually gets", "".join(html_parts.draw_html_usual(one) for one in answer.usual))
    body += build_html_box(
        "Runs of its program",
        f"<p>{escape_html_text(format_diagnosis_program_runs(answer.runs))}</p>" if answer.runs is not None else "",
    )
    body += build_html_box("Runs like this one", _alike(answer))
    body += build_html_box("What to do", html_parts.build_html_advice_list(answer.advice))
    body += build_html_box("Not known", html_parts.build_html_list(answer.missing))
    return html_parts.build_html_page(answer.headline, body)


def format_diagnosis_program_runs(runs: RunsOfProgram) -> str:
    """A profile in one line."""
    nodes = "" if runs.scale is None else f" on about {runs.scale} node{'' if runs.scale == 1 else 's'}"
    line = f"{unit_formats.format_count(runs.runs)} run{'' if runs.runs == 1 else 's'}{nodes}, half of them within "
    line += unit_formats.format_duration(runs.seconds_p50)
    for one in runs.kinds:
        amount = unit_formats.format_count if one.kind == "metadata" else unit_formats.format_bytes
        line += f"; {one.kind} {amount(one.amount_p50)} at {html_parts.format_html_rate(one.rate_p50, one.kind)}"
        line += f", {one.mode}" if one.mode else ""
    return line


def _alike(answer: Why) -> str:
    rows: list[list[Cell]] = [
        [
            escape_html_text(one.job_id or "another job"),
            escape_html_text(" ".join(part for part in (one.user, one.program) if part)),
            escape_html_text(unit_formats.format_time(one.start_ns)),
            escape_html_text(unit_formats.format_duration(one.seconds)),
            escape_html_text(one.how),
        ]
        for one in answer.alike
    ]
    return html_parts.build_html_table(["job", "who", "began", ">took", "how"], rows)


def _phases(answer: Why) -> str:
    rows: list[list[Cell]] = [
        [
            escape_html_text(f"{line.kind} {line.number + 1}"),
            escape_html_text(unit_formats.format_time(line.start_ns)),
            escape_html_text(unit_formats.format_duration(line.seconds)),
            escape_html_text(
                unit_formats.format_count(line.amount)
                if line.kind == "metadata"
                else unit_formats.format_bytes(line.amount)
            ),
            escape_html_text(html_parts.format_html_rate(line.rate_per_s, line.kind)),
            escape_html_text(unit_formats.format_duration(line.expected_s)),
            escape_html_text(html_parts.format_html_lost_time(line.lost_s)),
            escape_html_text(line.mode or unit_formats.ABSENT),
        ]
        for line in answer.phases[:100]
    ]
    return html_parts.build_html_table(
        ["phase", "began", ">took", ">amount", ">rate", ">usually takes", ">lost", "mode"], rows
    )


def _draw_state(state: str) -> str:
    return f'<span class="verdict-word word-{STATES.get(state, "info")}">{escape_html_text(state)}</span>'


def build_health_diagnosis_page(answer: ComponentHealth) -> str:
    """The components: layers, sick ones, incidents, how long they last."""
    sick = [one for one in answer.components if one.state in ("sick", "dead")]
    title = (
        f"{len(sick):,} sick component{'' if len(sick) == 1 else 's'}" if sick else "No component is known to be sick"
    )
    facts = [f"{unit_formats.format_time(answer.from_ns)} to {unit_formats.format_time(answer.to_ns)}"]
    body = html_parts.build_html_head("sick" if sick else "nothing found", "high" if sick else "ok", title, facts)
    names = ("healthy", "sick", "dead", "idle", "unknown")
    body += build_html_box(
        "Layers",
        html_parts.build_html_table(
            ["layer", ">components", *(f">{name}" for name in names)],
            [
                [
                    escape_html_text(one.layer),
                    f"{one.components:,}",
                    *(f"{one.states.get(name, 0):,}" for name in names),
                ]
                for one in answer.layers
            ],
        ),
    )
    body += build_html_box(
        "Components",
        html_parts.build_html_table(
            ["component", "state", ">share of peak", ">measured", "since", "why"],
            [
                [
                    escape_html_text(f"{one.layer} {one.component}"),
                    _draw_state(one.state),
                    escape_html_text(unit_formats.format_percent(one.share_of_peak)),
                    escape_html_text(html_parts.format_html_rate(one.measured, _kind(one.layer))),
                    escape_html_text(unit_formats.format_time(one.since_ns)),
                    escape_html_text(one.why),
                ]
                for one in answer.components[:500]
            ],
        ),
    )
    body += build_html_box("Over time", html_parts.draw_html_courses(answer.courses))
    body += build_html_box("Open incidents", html_parts.build_html_incidents_table(answer.open, answer.to_ns))
    body += build_html_box("Past incidents", html_parts.build_html_incidents_table(answer.past, answer.to_ns))
    if answer.durations:
        classes = answer.durations[0].classes
        body += build_html_box(
            "How long incidents last",
            html_parts.build_html_table(
                ["layer", *(f">{name}" for name in classes)],
                [[escape_html_text(one.layer), *(f"{count:,}" for count in one.counts)] for one in answer.durations],
            ),
        )
    body += build_html_box("Findings", html_parts.build_html_findings_table(answer.findings))
    body += build_html_box("Not known", html_parts.build_html_list(answer.missing))
    return html_parts.build_html_page(title, body)


def _kind(layer: str) -> str:
    return "metadata" if layer == "mds" else "write"
