"""A report on the terminal: grade, what to change in order of cost, small charts. Plain text in a pipe.

Text from inputs (names of files, programs, users) is made inert here, once, before anything is laid out.
"""

from __future__ import annotations

import codecs
import sys
from dataclasses import replace

import msgspec
import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from fairlead.cli.piped_console import PipedConsole
from fairlead.cli.terminal_tables import (
    GRADE_STYLE,
    render_terminal_comparison,
    render_terminal_overview,
    shorten_terminal_program,
)
from fairlead.core.model import unit_formats
from fairlead.core.model.finding import Finding
from fairlead.core.safe_text import escape_text_within
from fairlead.explain.analysis.timeline import Timeline, group_timeline_bins
from fairlead.explain.analysis.verdict import Verdict
from fairlead.explain.rules.condition import Condition, compile_condition
from fairlead.explain.rules.rule import Rule
from fairlead.explain.rules.rule_engine import build_rule_namespace, format_rule_metric
from fairlead.show.report.report_builder import Report, Setup, compare_reports

SEVERITY_STYLE = {"critical": "bold red", "high": "red", "warning": "yellow", "info": "cyan", "ok": "green"}
READ, WRITE, META = "dodger_blue1", "dark_orange", "medium_purple1"
MODE_WORDS = {
    "N-N": "a file per process",
    "N-M": "processes share files",
    "N-1": "one file for all processes",
    "1-1": "one process does it",
}
SIZE_RANGES = (
    "up to 100 B",
    "100 B to 1 KiB",
    "1 to 10 KiB",
    "10 to 100 KiB",
    "100 KiB to 1 MiB",
    "1 to 4 MiB",
    "4 to 10 MiB",
    "10 to 100 MiB",
    "100 MiB to 1 GiB",
    "over 1 GiB",
)
_BARS = " ▁▂▃▄▅▆▇█"
TOP = 3
MANY = 3
"""More jobs than this are shown as a line each, and only their verdicts are kept."""
_LEGEND = 46
"""Columns beside a chart: its name and its legend."""
_PLAIN = dict(zip(map(ord, "▁▂▃▄▅▆▇█→·≈•—–…×µ≤≥"), "..::-=+#>-~*--~xu<>", strict=True))
"""What stands for a sign in a terminal whose encoding lacks it, one column for one."""


class Screen:
    """Standard output for people. `explain` names a rule to show instead of reports."""

    def __init__(self, setup: Setup, *, everything: bool, explain: str | None) -> None:
        codecs.register_error("fairlead.plain", _plain_signs)
        stream = sys.stdout
        if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
            stream.reconfigure(errors="fairlead.plain")
        self._console = PipedConsole(highlight=False, soft_wrap=False)
        self._everything = everything
        self._rule = None if explain is None else setup.rules[explain]
        self._introduced = False

    def show(self, reports: list[Report], *, compared: bool) -> None:
        """Whole reports; with `compared` of two runs, and what changed between them."""
        reports = [replace(one, verdict=_inert(one.verdict)) for one in reports]
        for one in reports:
            if self._rule is not None:
                self._explain(self._rule, one)
            else:
                self._console.print(_render_full(one, everything=self._everything, width=self._console.width))
        if compared and self._rule is None:
            self._console.print(_side_by_side(*reports))

    def show_passing(self, one: Report) -> None:
        """One of many, of which only the verdict is kept: a rule is explained while all of it is there."""
        if self._rule is not None:
            self._explain(self._rule, replace(one, verdict=_inert(one.verdict)))

    def _explain(self, rule: Rule, one: Report) -> None:
        if not self._introduced:
            self._console.print(_introduce_rule(rule))
            self._introduced = True
        self._console.print(_explain_rule(rule, one))

    def show_many(self, verdicts: list[Verdict]) -> None:
        """A line per job."""
        if self._rule is None:
            self._console.print(render_terminal_overview([_inert(v) for v in verdicts], self._console.width))


def _inert(verdict: Verdict) -> Verdict:
    """All text on one line and harmless; advice alone stays as the rules have it, with the lines of its code."""
    safe = escape_text_within(verdict)
    pairs = zip(safe.findings, verdict.findings, strict=True)
    findings = [msgspec.structs.replace(new, advice=old.advice) for new, old in pairs]
    return msgspec.structs.replace(safe, findings=findings)


def _plain_signs(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace"), error.end


def _side_by_side(before: Report, after: Report) -> RenderableType:
    return render_terminal_comparison(compare_reports(before, after))


# -- one job -----------------------------------------------------------------------------------------------------------


def _render_full(report: Report, *, everything: bool, width: int) -> RenderableType:
    """The whole report of one job."""
    verdict = report.verdict
    bad = [f for f in verdict.findings if f.severity not in ("ok", "info")]
    good = [f for f in verdict.findings if f.severity in ("ok", "info")]
    parts: list[RenderableType] = [_head(verdict), _figures(verdict)]
    parts += _charts(report, min(64, max(12, width - _LEGEND)))
    limit = len(bad) if everything else TOP
    if bad:
        parts.append(Text(f"\nWhat to change{', most expensive first' if len(bad) > 1 else ''}", style="bold"))
        parts += [_finding(n, f, verdict.job.run_time_s) for n, f in enumerate(bad[:limit], 1)]
    else:
        parts.append(Text("\nNothing to change was found.", style="bold green"))
    if len(bad) > limit:
        parts.append(Text(f"\n{len(bad) - limit} more, shown with --all", style="dim"))
        parts.append(_points([Text.assemble((f.title, "dim")) for f in bad[limit:]]))
    if everything and good:
        parts.append(Text("\nAlso seen", style="bold"))
        parts.append(_points([Text(f.title, style=SEVERITY_STYLE[f.severity]) for f in good]))
    parts += _unknown(verdict, everything=everything)
    return Group(*parts, Text(""))


def _plural(count: int, word: str, ending: str = "s") -> str:
    return f"{count:,} {word}{ending if count != 1 else ''}"


def _points(lines: list[Text]) -> RenderableType:
    """Lines with a bullet each, wrapped beside it."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        table.add_row(Text("  •"), line)
    return table


def _indented(content: RenderableType, columns: int, first: str = "") -> RenderableType:
    """`content` wrapped `columns` from the left; `first` stands before its first line."""
    table = Table.grid()
    table.add_column(width=columns)
    table.add_column(overflow="fold")
    table.add_row(Text(first, style="green"), content)
    return table


def _head(verdict: Verdict) -> RenderableType:
    job = verdict.job
    nodes = len(job.nodes) if isinstance(job.nodes, list) else job.nodes
    about = f"{shorten_terminal_program(verdict)} · job {job.id} · {_plural(job.processes, 'process', 'es')}"
    about += f" on {_plural(nodes, 'node')}" if nodes else ""
    about += (
        f" · ran {unit_formats.format_duration(job.run_time_s)}"
        if job.run_time_s is not None
        else " · run time unknown"
    )
    about += f" · started {unit_formats.format_time(job.start_ns)}" if job.start_ns is not None else ""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    lines = (Text(verdict.headline, style="bold"), Text(about), Text(verdict.grade_reason, style="dim"))
    table.add_row(Text(f" {verdict.grade or '?'} ", style=GRADE_STYLE[verdict.grade]), Group(*lines))
    return Panel(table, border_style="dim", padding=(0, 1))


def _figures(verdict: Verdict) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for d, style in (("read", READ), ("write", WRITE)):
        table.add_row(Text(d, style=style), Group(*_direction(verdict, d)))
    metrics = verdict.metrics
    rate = metrics["metadata_ops_per_s"]
    text = f"{_plural(verdict.totals.metadata_ops, 'operation')} on {_plural(int(metrics['files'] or 0), 'file')}"
    text += f", {format_rule_metric('metadata_ops_per_s', rate)} during I/O" if rate else ""
    table.add_row(Text("metadata", style=META), Text(text))
    return table


def _direction(verdict: Verdict, d: str) -> list[Text]:
    metrics = verdict.metrics
    if not metrics[f"{d}_ops"]:
        return [Text("nothing")]
    nbytes = format_rule_metric(f"{d}_bytes", metrics[f"{d}_bytes"])
    amount = f"{nbytes} in {_plural(int(metrics[f'{d}_ops'] or 0), 'request')}"
    amount += f" of {format_rule_metric(f'{d}_mean_request_bytes', metrics[f'{d}_mean_request_bytes'])}"
    amount += " on average" if metrics[f"{d}_ops"] != 1 else ""
    rate = metrics[f"{d}_bandwidth_bytes_per_s"]
    amount += f", at {format_rule_metric(f'{d}_bandwidth_bytes_per_s', rate)}" if rate else ""
    mode = getattr(verdict.io_mode, d)
    above = getattr(verdict.io_mode_mpiio, d) if verdict.io_mode_mpiio else mode
    how = [f"{MODE_WORDS[mode]} ({mode})"] if mode in MODE_WORDS else []
    how += [f"through MPI-IO: {MODE_WORDS.get(above, 'nothing')} ({above})"] if above != mode else []
    how += [str(metrics[f"{d}_pattern"])] if metrics[f"{d}_pattern"] else []
    phases = metrics[f"{d}_phases"]
    how.append("phases unknown" if phases is None else _plural(int(phases), "phase"))
    return [Text(amount), Text(" · ".join(how))]


# -- charts ------------------------------------------------------------------------------------------------------------


def _draw_spark(values: np.ndarray, width: int) -> str:
    """A row of eighth blocks, one per group of bins; zero is blank and anything above it at least one eighth."""
    if not len(values):
        return ""
    binned = group_timeline_bins(np.asarray(values, float), max(1, -(-len(values) // width)))
    top = binned.max()
    if top <= 0:
        return " " * len(binned)
    steps = np.where(binned > 0, np.maximum(1, np.ceil(binned / top * 8)), 0).astype(int)
    return "".join(_BARS[s] for s in steps)


def _charts(report: Report, width: int) -> list[RenderableType]:
    table = Table(box=None, padding=(0, 1), show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    if report.profile.timeline is not None:
        _over_time(table, report, report.profile.timeline, width)
    _sizes(table, report, width)
    spent = report.profile.times.per_rank_s
    if spent is not None and report.profile.view.processes > 1 and spent.any():
        row = _draw_spark(spent, width)
        slowest = f"slowest {unit_formats.format_duration(float(spent.max()))}"
        table.add_row(Text("I/O time by rank", style=META), Text(row, style=META), Text(slowest, style="dim"))
        table.add_row("", _axis("0", f"{len(spent) - 1:,}", len(row)), Text("rank", style="dim"))
    return [Text(""), table] if table.row_count else []


def _over_time(table: Table, report: Report, timeline: Timeline, width: int) -> None:
    columns = 0
    for d, series, style in (("read", timeline.fine_read, READ), ("write", timeline.fine_write, WRITE)):
        if series.any():
            row = _draw_spark(series, width)
            columns = len(row)
            peak = (
                f"peak {format_rule_metric('read_peak_bytes_per_s', report.profile.metrics[f'{d}_peak_bytes_per_s'])}"
            )
            table.add_row(Text(f"{d} over time", style=style), Text(row, style=style), Text(peak, style="dim"))
    if columns:
        start = report.verdict.job.start_ns
        first = timeline.fine_origin_ns - (timeline.fine_origin_ns if start is None else start)
        last = first + timeline.fine_bin_ns * len(timeline.fine_read)
        ends = (unit_formats.format_duration(max(first, 0) / 1e9), unit_formats.format_duration(last / 1e9))
        table.add_row("", _axis(*ends, columns), Text("since the start" if start is not None else "", style="dim"))


def _sizes(table: Table, report: Report, width: int) -> None:
    counters = report.profile.view.counters
    columns = 0
    for d, style in (("read", READ), ("write", WRITE)):
        sizes = counters.read_lists(f"{d}_sizes", 10)[counters.lowest].sum(axis=0)
        if sizes.sum() > 0:
            most = int(np.argmax(sizes))
            row = "".join(c * max(1, min(3, width // 10)) for c in _draw_spark(sizes, 10))
            columns = len(row)
            share = f"{unit_formats.format_percent(sizes[most] / sizes.sum())} {SIZE_RANGES[most]}"
            table.add_row(Text(f"{d} sizes", style=style), Text(row, style=style), Text(share, style="dim"))
    if columns:
        table.add_row("", _axis("1 B", "1 GiB", columns), Text("per request", style="dim"))


def _axis(left: str, right: str, columns: int) -> Text:
    """The ends of a chart's axis, under its ends; side by side where the chart is too narrow."""
    space = columns - len(left) - len(right)
    return Text(left + (" " * space if space > 0 else " to ") + right, style="dim")


# -- findings ----------------------------------------------------------------------------------------------------------


def _finding(number: int, finding: Finding, run_time_s: float | None) -> RenderableType:
    facts = Text.assemble((finding.severity, SEVERITY_STYLE[finding.severity]))
    if finding.cost_s is not None and finding.cost_s > 0:
        facts.append(f" · costs about {unit_formats.format_duration(finding.cost_s)}", style="bold")
        if run_time_s:
            facts.append(f" of {unit_formats.format_duration(run_time_s)}", style="dim")
    facts.append(f" · {finding.rule}", style="dim")
    parts: list[RenderableType] = [Text(finding.title, style="bold"), facts]
    parts += [Text(e.text) for e in finding.evidence]
    files = next((e.files for e in finding.evidence if e.files), [])
    if files:
        more = f" and {len(files) - 2} more" if len(files) > 2 else ""
        parts.append(Text(f"in {', '.join(files[:2])}{more}", style="dim", overflow="fold"))
    for advice in finding.advice:
        parts.append(_indented(Text(advice.text), 2, "→"))
        if advice.code:
            code = Syntax(
                advice.code.strip(),
                advice.language or "text",
                theme="ansi_dark",
                background_color="default",
                word_wrap=True,
            )
            parts.append(_indented(code, 4))
    table = Table.grid()
    table.add_column(width=4, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(f"{number:>2}.", style="bold"), Group(*parts))
    return Group(Text(""), table)


def _unknown(verdict: Verdict, *, everything: bool) -> list[RenderableType]:
    if not verdict.missing and not (everything and verdict.undecided):
        return []
    lines = []
    for item in verdict.missing:
        line = Text.assemble((item.what, "bold"), f": {item.why}")
        if item.remedy:
            line.append(f"\nto know it: {item.remedy}", style="dim")
        lines.append(line)
    if everything and verdict.undecided:
        names = ", ".join(sorted(u.rule for u in verdict.undecided))
        lines.append(Text(f"{len(verdict.undecided)} rules could not be decided: {names}", style="dim"))
    return [Text("\nWhat cannot be known from this trace", style="bold"), _points(lines)]


# -- one rule ----------------------------------------------------------------------------------------------------------


def _introduce_rule(rule: Rule) -> RenderableType:
    """What a rule is about and asks."""
    parts: list[RenderableType] = [
        Text(f"{rule.id} ({rule.category})", style="bold"),
        Text(" ".join(rule.about.split())),
        Text(f"\nIt asks: {' '.join(rule.when.split())}"),
    ]
    if rule.references:
        parts.append(Text(f"After {'; '.join(rule.references)}", style="dim"))
    return Group(*parts, Text(""))


def _explain_rule(rule: Rule, report: Report) -> RenderableType:
    """What a job answered to a rule, and what follows."""
    from fairlead.explain.analysis.costs import COSTS
    from fairlead.explain.analysis.profile import METRICS

    metrics = build_rule_namespace(report.profile)
    condition: Condition = compile_condition(rule.when)
    result = {True: "it fires", False: "it stays quiet", None: "it cannot be decided"}[condition.holds(metrics)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("metric", "this job", "meaning"):
        table.add_column(name, no_wrap=name == "this job", overflow="fold")
    for name in sorted(condition.names):
        meaning = METRICS[name][1] if name in METRICS else f"cost: {COSTS[name[5:-2]]}"
        table.add_row(Text(name), Text(format_rule_metric(name, metrics.get(name))), Text(meaning))
    verdict = report.verdict
    parts: list[RenderableType] = [
        Text(f"job {verdict.job.id} ({shorten_terminal_program(verdict)}): {result}", style="bold"),
        table,
    ]
    for finding in verdict.findings:
        if finding.rule == rule.id:
            parts.append(_finding(1, finding, verdict.job.run_time_s))
            if finding.cost_basis:
                parts.append(_indented(Text(f"its cost is of {finding.cost_basis}", style="dim"), 4))
        elif rule.id in finding.covers:
            parts.append(Text(f"\nIt is told as part of {finding.rule}: {finding.title}"))
    return Group(*parts, Text(""))
