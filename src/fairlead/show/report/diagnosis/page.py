"""The single-file pages of diagnosis: findings, one of them explained, one job, the health of components.

Each is made of the answer that `--json` prints, holds no script and fetches nothing. Not here: the parts (`parts`),
the command line.
"""

from __future__ import annotations

from fairlead.core.model import units
from fairlead.explain.questions.answers_diagnosis import ComponentHealth, Explanation, Findings, RunsOfProgram, Why
from fairlead.show.report.diagnosis import parts
from fairlead.show.report.diagnosis.parts import Cell, box, said

VERDICTS = {
    "slowed": ("slowed by others", "high"),
    "slow": ("slow, cause unknown", "warning"),
    "changed": ("asked for something else", "warning"),
    "usual": ("as usual", "ok"),
    "unknown": ("unknown", "info"),
    "running": ("still running", "info"),
}
STATES = {"sick": "high", "dead": "critical", "healthy": "ok", "idle": "info", "unknown": "info"}


def findings_page(answer: Findings) -> str:
    """What was found in a span."""
    span = f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"
    count = f"{answer.total:,} finding{'' if answer.total == 1 else 's'}"
    more = [span, *([older_line(answer.older)] if answer.older else [])]
    worst = answer.findings[0].finding.severity if answer.findings else "ok"
    body = parts.head(worst if answer.findings else "nothing found", worst, count, more)
    body += box("Findings", parts.findings_table(answer.findings))
    for one in answer.findings[:50]:
        finding = one.finding
        inner = (
            f'<p class="quiet">{said(parts.when(finding.from_ns, finding.to_ns))}, <code>{said(finding.id)}</code></p>'
        )
        inner += parts.evidence(finding.evidence)
        inner += f"<h3>What to do</h3>{parts.advice(finding.advice)}" if finding.advice else ""
        body += box(finding.title, inner)
    body += box("Not known", parts.listed(answer.missing))
    return parts.page(count, body)


def older_line(count: int) -> str:
    """What is said of findings that are left out."""
    return (
        f"{count:,} finding{'' if count == 1 else 's'} of an older analysis left out; "
        "fairlead history diagnose makes them again"
    )


def explanation_page(answer: Explanation) -> str:
    """One finding: the chain of evidence and its pictures."""
    finding = answer.told.finding
    facts = [
        parts.when(finding.from_ns, finding.to_ns),
        f"{finding.confidence:.0%} sure"
        + (f", cost {units.format_duration(finding.cost_s)}" if finding.cost_s else ""),
        "withdrawn: a later look did not bear it out" if answer.withdrawn else "",
    ]
    body = parts.head(finding.severity, finding.severity, finding.title, facts)
    body += box("Evidence", parts.evidence(finding.evidence))
    body += box("Over time", parts.courses(answer.courses))
    body += box("What is usual", "".join(parts.usual(one) for one in answer.usual))
    body += box("Incidents", parts.incidents_table(answer.incidents, answer.made_ns))
    body += box("What to do", parts.advice(finding.advice))
    body += box("What was missing", parts.listed([*finding.missing, *answer.missing]))
    body += box("Also found", parts.findings_table(answer.related))
    made = f"rule {finding.rule}, analysis {answer.analysis_version}"
    body += f'<p class="tag">finding <code>{said(finding.id)}</code>, {said(made)}</p>'
    return parts.page(finding.title, body)


def why_page(answer: Why) -> str:
    """One job: what it got, what it usually gets, who took the difference, what to do."""
    word, style = VERDICTS.get(answer.verdict, (answer.verdict, "info"))
    job = answer.job
    facts = [
        " · ".join(part for part in (job.user, job.project, job.program) if part),
        parts.when(job.start_ns, job.end_ns),
    ]
    body = parts.head(word, style, answer.headline, facts)
    took = sum(line.seconds for line in answer.phases) if answer.phases else None
    figures = [
        ("I/O took", units.format_duration(took)),
        ("usually takes", units.format_duration(answer.expected_s)),
        ("lost", parts.lost(answer.lost_s)),
    ]
    body += box(
        "What it got",
        '<dl class="figures">'
        + "".join(f'<div><dt>{said(name)}</dt><dd class="big">{said(value)}</dd></div>' for name, value in figures)
        + "</dl>"
        + _phases(answer),
    )
    rows: list[list[Cell]] = [
        [
            said(one.who),
            said(one.what),
            said(units.format_duration(one.seconds)),
            said(units.format_percent(one.confidence)),
            f"<code>{said(one.finding)}</code>",
        ]
        for one in answer.taken
    ]
    body += box("Who or what took the difference", parts.table(["who", "what", ">time", ">sure", "finding"], rows))
    rows = [
        [
            said(one.who or "another job"),
            said(units.format_duration(one.seconds)),
            said(units.format_percent(one.confidence)),
            f"<code>{said(one.finding or units.ABSENT)}</code>",
        ]
        for one in answer.hurt
    ]
    body += box("Whom it hurt", parts.table(["whom", ">time", ">sure", "finding"], rows))
    for told in answer.findings[:5]:
        body += box(parts.known_by(told, answer.headline), parts.evidence(told.finding.evidence))
    body += box("Over time", parts.courses(answer.courses))
    body += box("What it usually gets", "".join(parts.usual(one) for one in answer.usual))
    body += box("Runs of its program", f"<p>{said(runs_line(answer.runs))}</p>" if answer.runs is not None else "")
    body += box("Runs like this one", _alike(answer))
    body += box("What to do", parts.advice(answer.advice))
    body += box("Not known", parts.listed(answer.missing))
    return parts.page(answer.headline, body)


def runs_line(runs: RunsOfProgram) -> str:
    """A profile in one line."""
    nodes = "" if runs.scale is None else f" on about {runs.scale} node{'' if runs.scale == 1 else 's'}"
    line = f"{units.format_count(runs.runs)} run{'' if runs.runs == 1 else 's'}{nodes}, half of them within "
    line += units.format_duration(runs.seconds_p50)
    for one in runs.kinds:
        amount = units.format_count if one.kind == "metadata" else units.format_bytes
        line += f"; {one.kind} {amount(one.amount_p50)} at {parts.rate(one.rate_p50, one.kind)}"
        line += f", {one.mode}" if one.mode else ""
    return line


def _alike(answer: Why) -> str:
    rows: list[list[Cell]] = [
        [
            said(one.job_id or "another job"),
            said(" ".join(part for part in (one.user, one.program) if part)),
            said(units.format_time(one.start_ns)),
            said(units.format_duration(one.seconds)),
            said(one.how),
        ]
        for one in answer.alike
    ]
    return parts.table(["job", "who", "began", ">took", "how"], rows)


def _phases(answer: Why) -> str:
    rows: list[list[Cell]] = [
        [
            said(f"{line.kind} {line.number + 1}"),
            said(units.format_time(line.start_ns)),
            said(units.format_duration(line.seconds)),
            said(units.format_count(line.amount) if line.kind == "metadata" else units.format_bytes(line.amount)),
            said(parts.rate(line.rate_per_s, line.kind)),
            said(units.format_duration(line.expected_s)),
            said(parts.lost(line.lost_s)),
            said(line.mode or units.ABSENT),
        ]
        for line in answer.phases[:100]
    ]
    return parts.table(["phase", "began", ">took", ">amount", ">rate", ">usually takes", ">lost", "mode"], rows)


def health_page(answer: ComponentHealth) -> str:
    """The components: layers, sick ones, incidents, how long they last."""
    sick = [one for one in answer.components if one.state in ("sick", "dead")]
    title = (
        f"{len(sick):,} sick component{'' if len(sick) == 1 else 's'}" if sick else "No component is known to be sick"
    )
    facts = [f"{units.format_time(answer.from_ns)} to {units.format_time(answer.to_ns)}"]
    body = parts.head("sick" if sick else "nothing found", "high" if sick else "ok", title, facts)
    names = ("healthy", "sick", "dead", "idle", "unknown")
    body += box(
        "Layers",
        parts.table(
            ["layer", ">components", *(f">{name}" for name in names)],
            [
                [said(one.layer), f"{one.components:,}", *(f"{one.states.get(name, 0):,}" for name in names)]
                for one in answer.layers
            ],
        ),
    )
    body += box(
        "Components",
        parts.table(
            ["component", "state", ">share of peak", ">measured", "since", "why"],
            [
                [
                    said(f"{one.layer} {one.component}"),
                    f'<span class="verdict-word word-{STATES.get(one.state, "info")}">{said(one.state)}</span>',
                    said(units.format_percent(one.share_of_peak)),
                    said(parts.rate(one.measured, _kind(one.layer))),
                    said(units.format_time(one.since_ns)),
                    said(one.why),
                ]
                for one in answer.components[:500]
            ],
        ),
    )
    body += box("Over time", parts.courses(answer.courses))
    body += box("Open incidents", parts.incidents_table(answer.open, answer.to_ns))
    body += box("Past incidents", parts.incidents_table(answer.past, answer.to_ns))
    if answer.durations:
        classes = answer.durations[0].classes
        body += box(
            "How long incidents last",
            parts.table(
                ["layer", *(f">{name}" for name in classes)],
                [[said(one.layer), *(f"{count:,}" for count in one.counts)] for one in answer.durations],
            ),
        )
    body += box("Findings", parts.findings_table(answer.findings))
    body += box("Not known", parts.listed(answer.missing))
    return parts.page(title, body)


def _kind(layer: str) -> str:
    return "metadata" if layer == "mds" else "write"
