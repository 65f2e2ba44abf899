"""A report on the terminal: grade, what to change in order of cost, small charts. Plain text in a pipe."""

from __future__ import annotations

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from fairlead.analysis.charts import SIZE_LABELS
from fairlead.analysis.timeline import coarser
from fairlead.analysis.verdict import Verdict
from fairlead.model import units
from fairlead.model.finding import Finding
from fairlead.reporting import Report, Setup, comparison
from fairlead.rules.condition import Condition, compiled
from fairlead.rules.engine import namespace, shown
from fairlead.rules.rule import Rule

GRADE_STYLE = {"A": "bold white on green4", "B": "bold white on dark_green", "C": "bold black on gold3",
               "D": "bold white on dark_orange3", "F": "bold white on red3", None: "bold white on grey37"}  # fmt: skip
SEVERITY_STYLE = {"critical": "bold red", "high": "red", "warning": "yellow", "info": "cyan", "ok": "green"}
READ, WRITE, META = "dodger_blue1", "dark_orange", "medium_purple1"
_BARS = " ▁▂▃▄▅▆▇█"
TOP = 3
MANY = 3
_LEGEND = 38
"""Columns beside a chart: its name and its legend."""


def show(reports: list[Report], after: Report | None, setup: Setup, *, everything: bool, explain: str | None) -> None:
    """Print reports on stdout: whole ones for up to three jobs, else a line each."""
    console = Console(highlight=False, soft_wrap=False)
    if explain is not None:
        for report in reports:
            console.print(explained(setup.rules[explain], report))
        return
    if len(reports) > MANY:
        console.print(overview(reports))
        return
    for report in reports:
        console.print(full(report, everything=everything, width=console.width))
    if after is not None:
        console.print(full(after, everything=everything, width=console.width))
        console.print(compared(reports[0], after))


# -- one job -----------------------------------------------------------------------------------------------------------


def full(report: Report, *, everything: bool, width: int) -> RenderableType:
    """The whole report of one job."""
    verdict = report.verdict
    bad = [f for f in verdict.findings if f.severity not in ("ok", "info")]
    good = [f for f in verdict.findings if f.severity in ("ok", "info")]
    parts: list[RenderableType] = [_head(verdict), _figures(verdict)]
    parts += _charts(report, min(64, max(16, width - _LEGEND)))
    limit = len(bad) if everything else TOP
    if bad:
        parts.append(Text(f"\nWhat to change{', dearest first' if len(bad) > 1 else ''}", style="bold"))
        parts += [_finding(n, f, verdict.job.run_time_s) for n, f in enumerate(bad[:limit], 1)]
    else:
        parts.append(Text("\nNothing to change was found.", style="bold green"))
    if len(bad) > limit:
        rest = Text(f"\n  {len(bad) - limit} more: ", style="dim")
        rest.append("; ".join(f.title for f in bad[limit:]) + "  (--all shows them)")
        parts.append(rest)
    if everything and good:
        parts.append(Text("\nAlso seen", style="bold"))
        parts += [Text(f"  • {f.title}", style=SEVERITY_STYLE[f.severity]) for f in good]
    parts += _unknown(verdict, everything=everything)
    return Group(*parts, Text(""))


def _plural(count: int, word: str, ending: str = "s") -> str:
    return f"{count:,} {word}{ending if count != 1 else ''}"


def _head(verdict: Verdict) -> RenderableType:
    job = verdict.job
    line = Text.assemble((f" {verdict.grade or '?'} ", GRADE_STYLE[verdict.grade]), "  ", (verdict.headline, "bold"))
    program = (job.program or "unknown program").split(" ")[0].rsplit("/", 1)[-1]
    nodes = len(job.nodes) if isinstance(job.nodes, list) else job.nodes
    about = f"{program} · job {job.id} · {_plural(job.processes, 'process', 'es')}"
    about += f" on {_plural(nodes, 'node')}" if nodes else ""
    about += f" · {units.format_duration(job.run_time_s)} · started {units.format_time(job.start_ns)}"
    reason = Text(verdict.grade_reason, style="dim")
    return Panel(Group(line, Text(about), reason), border_style="dim", padding=(0, 1))


def _figures(verdict: Verdict) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for d, style in (("read", READ), ("write", WRITE)):
        table.add_row(Text(d, style=style), _direction(verdict, d))
    metrics = verdict.metrics
    rate = metrics["metadata_ops_per_s"]
    table.add_row(
        Text("metadata", style=META),
        f"{shown('metadata_ops', metrics['metadata_ops'])} operations on {_plural(int(metrics['files'] or 0), 'file')}"
        + (f", {shown('metadata_ops_per_s', rate)} during I/O" if rate is not None else ""),
    )
    return table


def _direction(verdict: Verdict, d: str) -> str:
    metrics = verdict.metrics
    if not metrics[f"{d}_ops"]:
        return "nothing"
    names = (f"{d}_bytes", f"{d}_ops", f"{d}_mean_request_bytes")
    nbytes, ops, mean = (shown(n, metrics[n]) for n in names)
    parts = [f"{nbytes} in {ops} requests of {mean}"]
    rate = metrics[f"{d}_bandwidth_bytes_per_s"]
    if rate is not None:
        parts[0] += f", {shown(f'{d}_bandwidth_bytes_per_s', rate)}"
    above = verdict.io_mode_mpiio
    mode = getattr(verdict.io_mode, d)
    parts.append(f"{mode} (MPI-IO: {getattr(above, d)})" if above and getattr(above, d) != mode else mode)
    if metrics[f"{d}_pattern"]:
        parts.append(str(metrics[f"{d}_pattern"]))
    phases = metrics[f"{d}_phases"]
    parts.append("phases unknown" if phases is None else _plural(int(phases), "phase"))
    return " · ".join(parts)


def spark(values: np.ndarray, width: int) -> str:
    """A row of eighth blocks, one per group of bins; zero is blank and anything above it at least one eighth."""
    if not len(values):
        return ""
    binned = coarser(np.asarray(values, float), max(1, -(-len(values) // width)))
    top = binned.max()
    if top <= 0:
        return " " * len(binned)
    steps = np.where(binned > 0, np.maximum(1, np.ceil(binned / top * 8)), 0).astype(int)
    return "".join(_BARS[s] for s in steps)


def _charts(report: Report, width: int) -> list[RenderableType]:
    parts: list[RenderableType] = []
    timeline = report.profile.timeline
    table = Table(box=None, padding=(0, 1), show_header=False)
    if timeline is not None:
        for d, series, style in (("read", timeline.fine_read, READ), ("write", timeline.fine_write, WRITE)):
            if series.any():
                peak = report.profile.metrics[f"{d}_peak_bytes_per_s"]
                table.add_row(
                    Text(f" {d} over time", style=style), Text(spark(series, width), style=style),
                    Text(f"peak {shown('read_peak_bytes_per_s', peak)}", style="dim"),
                )  # fmt: skip
    counters = report.profile.view.counters
    rows = counters.lowest
    for d, style in (("read", READ), ("write", WRITE)):
        sizes = counters.lists(f"{d}_sizes", 10)[rows].sum(axis=0)
        if sizes.sum():
            most = int(np.argmax(sizes))
            table.add_row(
                Text(f" {d} sizes", style=style), Text("".join(c * 3 for c in spark(sizes, 10)), style=style),
                Text(f"{units.format_percent(sizes[most] / sizes.sum())} {SIZE_LABELS[most]}", style="dim"),
            )  # fmt: skip
    spent = report.profile.times.per_rank_s
    if spent is not None and report.profile.view.processes > 1 and spent.any():
        table.add_row(
            Text(" time by rank", style=META), Text(spark(spent, width), style=META),
            Text(f"slowest {units.format_duration(float(spent.max()))}", style="dim"),
        )  # fmt: skip
    if table.row_count:
        parts += [Text(""), table]
    return parts


def _finding(number: int, finding: Finding, run_time_s: float | None) -> RenderableType:
    style = SEVERITY_STYLE[finding.severity]
    title = Text.assemble((f" {number}. ", "bold"), (finding.title, "bold"), ("  "), (finding.severity, style))
    if finding.cost_s is not None and finding.cost_s > 0:
        title.append(f"  ≈ {units.format_duration(finding.cost_s)}", style="bold")
        if run_time_s:
            title.append(f" of {units.format_duration(run_time_s)}", style="dim")
    parts: list[RenderableType] = [title]
    parts += [Padding(Text(e.text), (0, 0, 0, 4)) for e in finding.evidence]
    files = next((e.files for e in finding.evidence if e.files), [])
    if files:
        more = f" and {len(files) - 2} more" if len(files) > 2 else ""
        parts.append(Padding(Text(f"in {', '.join(files[:2])}{more}", style="dim"), (0, 0, 0, 4)))
    for advice in finding.advice:
        parts.append(Padding(Text.assemble(("→ ", "green"), advice.text), (0, 0, 0, 4)))
        if advice.code:
            code = Syntax(advice.code.strip(), advice.language or "text", theme="ansi_dark", background_color="default",
                          word_wrap=True)  # fmt: skip
            parts.append(Padding(code, (0, 0, 0, 8)))
    return Group(Text(""), *parts)


def _unknown(verdict: Verdict, *, everything: bool) -> list[RenderableType]:
    if not verdict.missing and not (everything and verdict.undecided):
        return []
    parts: list[RenderableType] = [Text("\nWhat cannot be known from this trace", style="bold")]
    for item in verdict.missing:
        parts.append(Text.assemble("  • ", (item.what, "bold"), f": {item.why}"))
        if item.remedy:
            parts.append(Text(f"    {item.remedy}", style="dim"))
    if everything and verdict.undecided:
        names = ", ".join(sorted(u.rule for u in verdict.undecided))
        parts.append(Text(f"  • {len(verdict.undecided)} rules could not be decided: {names}", style="dim"))
    return parts


# -- several jobs ------------------------------------------------------------------------------------------------------


def overview(reports: list[Report]) -> RenderableType:
    """A line per job, worst first."""
    table = Table(title=f"{len(reports)} jobs", title_justify="left", header_style="dim")
    for name in ("", "job", "program", "processes", "run time", "I/O time", "read", "written", "modes r/w"):
        table.add_column(name, no_wrap=name in ("", "job"))
    table.add_column("first to mend", ratio=1)
    for report in sorted(reports, key=lambda r: (-(r.verdict.lost_s or 0), r.verdict.job.id)):
        verdict = report.verdict
        bad = [f for f in verdict.findings if f.severity not in ("ok", "info")]
        table.add_row(
            Text(f" {verdict.grade or '?'} ", style=GRADE_STYLE[verdict.grade]), escape(verdict.job.id),
            escape((verdict.job.program or units.ABSENT).split(" ")[0].rsplit("/", 1)[-1]),
            str(verdict.job.processes), units.format_duration(verdict.job.run_time_s),
            shown("io_time_s", verdict.metrics["io_time_s"]), units.format_bytes(verdict.totals.read_bytes),
            units.format_bytes(verdict.totals.write_bytes), f"{verdict.io_mode.read} {verdict.io_mode.write}",
            escape(bad[0].title) if bad else "",
        )  # fmt: skip
    return Group(table, Text("Give one of them alone for its full report, or --html FILE for a page each.", style="dim"))


def compared(before: Report, after: Report) -> RenderableType:
    """Two runs side by side."""
    result = comparison(before, after)
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("", "before", "after", "after / before"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("grade", *(Text(f" {g or '?'} ", style=GRADE_STYLE[g]) for g in result.grades), "")
    for d, pair in result.modes.items():
        table.add_row(f"{d} mode", *pair, "")
    metric_of = {"s": "run_time_s", "share": "io_time_share", "bytes": "total_bytes", "count": "files",
                 "bytes/s": "read_bandwidth_bytes_per_s"}  # fmt: skip
    for row in result.rows:
        style = {True: "green", False: "red", None: ""}[row.better]
        ratio = units.ABSENT if row.ratio is None else f"{row.ratio:.2f}"
        name = metric_of[row.unit]
        old, new = (units.ABSENT if v is None else shown(name, v) for v in (row.before, row.after))
        table.add_row(row.name, old, new, Text(ratio, style=style))
    parts: list[RenderableType] = [Panel(Text(result.verdict, style="bold"), border_style="dim"), table]
    for word, titles, style in (("mended", result.findings.gone, "green"), ("new", result.findings.new, "red"),
                                ("still there", result.findings.kept, "yellow")):  # fmt: skip
        parts += [Text(f"  {word}: {title}", style=style) for title in titles]
    return Group(*parts, Text(""))


# -- one rule ----------------------------------------------------------------------------------------------------------


def explained(rule: Rule, report: Report) -> RenderableType:
    """What a rule asks, what this job answered, and what follows."""
    metrics = namespace(report.profile)
    condition: Condition = compiled(rule.when)
    holds = condition.holds(metrics)
    result = {True: "it fires", False: "it stays quiet", None: "it cannot be decided"}[
        holds
    ]
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("metric", "this job", "meaning"):
        table.add_column(name)
    from fairlead.analysis.costs import COSTS
    from fairlead.analysis.profile import METRICS

    for name in sorted(condition.names):
        meaning = METRICS[name][1] if name in METRICS else f"cost: {COSTS[name[5:-2]]}"
        table.add_row(name, shown(name, metrics.get(name)), meaning)
    parts: list[RenderableType] = [
        Text(f"{rule.id}  ({rule.category}) on job {report.verdict.job.id}: {result}", style="bold"),
        Text(" ".join(rule.about.split())), Text(f"\nasks: {' '.join(rule.when.split())}\n"), table,
    ]  # fmt: skip
    for finding in report.verdict.findings:
        if finding.rule == rule.id:
            parts.append(_finding(1, finding, report.verdict.job.run_time_s))
            if finding.cost_basis:
                parts.append(Text(f"    cost: {finding.cost_basis}", style="dim"))
    if rule.references:
        parts.append(Text(f"\nafter: {'; '.join(rule.references)}", style="dim"))
    return Group(*parts)
