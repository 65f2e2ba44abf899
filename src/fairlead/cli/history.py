"""`fairlead history`: work on months of a lake. Not here: the work and its workers (`explain.batch`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import (
    FILE,
    add_name_option,
    add_options,
    add_peak_option,
    add_wait_option,
    json_option,
    lake_option,
)
from fairlead.cli.printing import is_printing_quiet, print_json, print_message
from fairlead.core.model import unit_formats

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.explain.analysis.factors import Explanation
    from fairlead.explain.batch.population import Population
    from fairlead.explain.batch.workers import Workers
    from fairlead.explain.questions.answers import LayerDay
    from fairlead.explain.questions.span import Span

LONGEST_DAYS = 3660
DAYS_SHOWN = 14
"""Of a longer time days are added up on the terminal; `--json` has them all."""
_TIMES = (
    click.option(
        "--from",
        "from_",
        required=True,
        metavar="TIME",
        help="Start: 2026-11-21, 2026-11-21T08:00 (UTC or with a zone), -180d, seconds since 1970.",
    ),
    click.option("--to", default="now", metavar="TIME", help="End. Default: now."),
)
_WORKERS = (
    click.option(
        "--dask",
        "where",
        default="here",
        metavar="WHERE",
        help="Where to run: here (this process, without Dask), threads, processes (of this machine), slurm, or "
        "a scheduler's tcp://HOST:PORT. Default: here.",
    ),
    click.option(
        "--workers",
        "count",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="Number of threads, processes or Slurm jobs. Default: one per processor; slurm.jobs.",
    ),
    click.option(
        "--dask-settings",
        "file",
        type=FILE,
        metavar="FILE",
        help="What to request from Slurm: the table [slurm] of a TOML file.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Memory limit for the queries of one worker. Default: $FAIRLEAD_LAKE_MEMORY, else 2GB.",
    ),
)


@dataclass(frozen=True)
class Batch:
    """Work over a long span: the lake, the span, the workers and their memory, the form of the result."""

    lake: str
    span: Span
    now_ns: int
    where: str
    count: int | None
    file: Path | None
    memory: str | None
    as_json: bool

    @contextmanager
    def start_workers(self) -> Iterator[Workers]:
        """Start the workers, and stop them at the end. Raises ConfigError for wrong settings."""
        from fairlead.explain.batch.settings import load_batch_settings
        from fairlead.explain.batch.workers import start_workers

        settings = load_batch_settings(self.file)
        if self.where != "here":
            print_message(f"waiting for workers: {self.where}")
        with start_workers(self.where, settings, count=self.count) as found:
            yield found


def _batch_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of work over months; the command gets them as one `Batch`, its first argument."""

    @wraps(command)
    def run(
        root: Path | None,
        from_: str,
        to: str,
        where: str,
        count: int | None,
        file: Path | None,
        memory: str | None,
        as_json: bool,
        **words: Any,
    ) -> None:
        from fairlead.core import clock

        now_ns = clock.now_ns()
        span = _span(from_, to, now_ns)
        command(Batch(_lake(root), span, now_ns, where, count, file, memory, as_json), **words)

    return add_options((lake_option, *_TIMES, *_WORKERS, json_option))(run)


def _rewrite_options(what: str, shard: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options of work that writes `what` again, to a shard of its own."""
    return add_options(
        (
            click.option(
                "--shard", default=shard, show_default=True, metavar="NAME", help=f"Shard to write the {what} to."
            ),
            click.option(
                "--label",
                default="",
                metavar="WORD",
                help="Name of the run; work done under this name is not repeated. Default: the version.",
            ),
            add_wait_option("How long to wait for another run to finish."),
        )
    )


@click.group(cls=Noun)
def history() -> None:
    """Months of a lake at once: recompute job summaries and findings, describe the jobs, explain slow phases.

    The span is cut into days or hours. Workers need this version of fairlead and access to the lake under the same
    path.
    """


@history.command("summarise")
@_batch_options
@_rewrite_options("summaries", "reanalysis")
def summarise_history(batch: Batch, **words: Any) -> None:
    """Recompute the summaries of past jobs with this version.

    Covers the jobs that began in the span and have ended. Can be killed and rerun: it continues where it stopped, and
    does nothing when all is done. A summary stays as it is if its records have expired.
    """
    from fairlead.explain.batch.reanalysis import run_reanalysis

    with batch.start_workers() as workers, show_history_progress("jobs") as done:
        found = run_reanalysis(workers, batch.lake, batch.span, batch.now_ns, memory=batch.memory, done=done, **words)
    if batch.as_json:
        print_json(found)
        return
    click.echo(
        f"{found.jobs:,} summaries made, {found.kept:,} left as they were, in {found.stretches:,} parts of the span"
    )
    if found.done_before:
        print_message(f"{found.done_before:,} parts of the span were done before under the label {found.label!r}")
    if found.kept:
        print_message("summaries were left as they were because their records have expired")


@history.command("diagnose")
@_batch_options
@_rewrite_options("findings", "rediagnosis")
def diagnose_history(batch: Batch, **words: Any) -> None:
    """Recompute phases and findings of past jobs with this version.

    Covers the jobs that began in the span and have ended. Can be killed and rerun: it continues where it stopped, and
    does nothing when all is done. Findings of an older version are no longer listed for jobs examined here.
    """
    from fairlead.explain.batch.rediagnosis import run_rediagnosis

    with batch.start_workers() as workers, show_history_progress("findings") as done:
        found = run_rediagnosis(workers, batch.lake, batch.span, batch.now_ns, memory=batch.memory, done=done, **words)
    if batch.as_json:
        print_json(found)
        return
    click.echo(
        f"{found.phases:,} phases and {found.findings:,} findings of {found.jobs:,} jobs made,"
        f" {found.withdrawn:,} findings withdrawn, in {found.stretches:,} parts of the span"
    )
    if found.done_before:
        print_message(f"{found.done_before:,} parts of the span were done before under the label {found.label!r}")
    if found.kept:
        print_message(f"phases of {found.kept:,} jobs are left as they were: their records have expired")


@history.command("describe")
@_batch_options
@add_peak_option("Peak of one target. Default: the busiest minute of the span.")
def describe_history(batch: Batch, peak: float | None) -> None:
    """Describe the jobs and the load of the machine over a long span.

    Volume by core-hours, I/O modes, volume by layer and day, how busy targets are. Needs job summaries and rollups.
    """
    from fairlead.cli.ask import print_asked_answer
    from fairlead.explain.batch.population import compute_population

    with batch.start_workers() as workers, show_history_progress("population") as done:
        found = compute_population(
            workers, batch.lake, batch.span, memory=batch.memory, peak_bytes_per_s=peak, done=done
        )
    print_asked_answer(found, _shown, None, None, as_json=batch.as_json)


@history.command("explain")
@click.argument("files", nargs=-1, type=FILE, metavar="[FILE]...")
@lake_option
@click.option(
    "--from", "from_", default="-90d", show_default=True, metavar="TIME", help="Only phases from this time on."
)
@click.option("--to", default="now", metavar="TIME", help="Only phases before this time. Default: now.")
@add_name_option("--user", "Only jobs of this user.")
@add_name_option("--program", "Only runs of this program.")
@click.option(
    "--slow",
    type=click.FloatRange(0.05, 0.99),
    default=0.8,
    show_default=True,
    help="A phase below this share of the median of its kind is slow.",
)
@json_option
def explain_history(
    files: tuple[Path, ...],
    root: Path | None,
    from_: str,
    to: str,
    user: str,
    program: str,
    slow: float,
    as_json: bool,
) -> None:
    """Rank the causes of slow phases: load of others, metadata, space.

    Trained on the first 70 % of the span, evaluated on the rest. Uses the phases of the lake, or FILEs of repeated
    benchmark runs (summaries of pytokio).
    """
    from fairlead.core import clock
    from fairlead.core.errors import UsageError
    from fairlead.explain.analysis.factors import FactorLimits, rank_slow_run_factors

    limits = FactorLimits(slow=slow)
    found: dict[str, Explanation | None] = {}
    if files:
        from fairlead.see.sources.tokio_runs import read_tokio_runs

        if root is not None or user or program:
            raise UsageError("files and a lake exclude each other", remedy="give one of them")
        for file in files:
            found[str(file)] = rank_slow_run_factors(read_tokio_runs(file), limits)
    else:
        from fairlead.explain.batch.phase_runs import read_phase_runs
        from fairlead.explain.batch.span_pieces import open_piece_lake

        place = _lake(root)
        runs = read_phase_runs(
            open_piece_lake(place, None), _span(from_, to, clock.now_ns()), user=user, program=program
        )
        found[place] = None if runs is None else rank_slow_run_factors(runs, limits)
    if as_json:
        from dataclasses import asdict

        whole = {name: None if one is None else asdict(one) for name, one in found.items()}
        print_json({"schema": "fairlead.factors/1", "explained": whole})
        return
    for name, one in found.items():
        for line in _explained(name, one):
            click.echo(line)


def _explained(name: str, one: Explanation | None) -> Iterator[str]:
    from fairlead.core.safe_text import escape_text

    yield escape_text(name)
    if one is None:
        yield "  unknown: too few runs, or too few slow ones in the later part of the span"
        return
    yield f"  {one.slow:,} of {one.runs:,} later runs were slow; separated from the others in {one.auc:.0%} of pairs"
    yield f"  (by {one.baseline or 'nothing'}, which correlates best, in {one.baseline_auc:.0%})"
    for rank in one.ranked:
        yield f"  {rank.family:<22} {100 * rank.loss:+6.1f} points lost without it (± {100 * rank.spread:.1f})"


def _lake(root: Path | None) -> str:
    from fairlead.store.lake_folder import find_default_lake_folder, open_lake_folder

    # As workers on other machines have to name it.
    return str(open_lake_folder(root or find_default_lake_folder()).root)


def _span(from_: str, to: str, now_ns: int) -> Span:
    from fairlead.explain.questions.span import DAY_NS, parse_span

    return parse_span(now_ns=now_ns, default="1d", from_=from_, to=to, longest_ns=LONGEST_DAYS * DAY_NS)


@contextmanager
def show_history_progress(what: str, *, lines: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; in a pipe nothing, or with `lines` one line for each tenth."""
    if is_printing_quiet() or not sys.stderr.isatty():
        yield _build_line_progress(what) if lines and not is_printing_quiet() else None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _build_line_progress(what: str) -> Callable[[int, int], None]:
    tenths = 0

    def tell(done: int, total: int) -> None:
        nonlocal tenths
        if total and 10 * done // total > tenths:
            tenths = 10 * done // total
            print_message(f"{what}: {10 * tenths} %")

    return tell


def _shown(found: Population, width: int) -> list[RenderableType]:
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table, format_answer_word, list_answer_sum_columns

    head = (
        f"{unit_formats.format_time(found.from_ns)} to {unit_formats.format_time(found.to_ns)}: {found.jobs:,} jobs,"
        f" {found.nontrivial:,} of them moved more than 200 MB"
    )
    classes = [
        Column("core-hours", lambda r: format_answer_word(r.core_hours)),
        Column("jobs", lambda r: f"{r.jobs:,}", right=True),
        Column("read a job", lambda r: unit_formats.format_bytes(r.read_bytes_per_job), right=True),
        Column("written a job", lambda r: unit_formats.format_bytes(r.write_bytes_per_job), right=True),
        Column("read", lambda r: unit_formats.format_bytes(r.read_bytes), right=True, spare=1),
        Column("written", lambda r: unit_formats.format_bytes(r.write_bytes), right=True, spare=2),
        Column("reading, median", lambda r: _rate(r.read_bandwidth), right=True, spare=4),
        Column("writing, median", lambda r: _rate(r.write_bandwidth), right=True, spare=3),
    ]
    modes = [
        Column("direction", lambda r: r.direction),
        Column("mode", lambda r: format_answer_word(r.mode)),
        Column("jobs", lambda r: f"{r.jobs:,}", right=True),
        Column("bytes", lambda r: unit_formats.format_bytes(r.bytes), right=True),
    ]
    by_day = found.to_ns - found.from_ns <= DAYS_SHOWN * 86_400_000_000_000
    days = [Column("day", lambda r: r.day)] if by_day else []
    days += [Column("layer", lambda r: r.layer), *list_answer_sum_columns()]
    layers = found.layers if by_day else _whole(found.layers)
    return [
        Text(head, style="bold"),
        Text("\nVolume by core-hours", style="bold"),
        fit_answer_table(classes, found.classes, width),
        Text("\nI/O modes", style="bold"),
        fit_answer_table(modes, found.modes, width),
        Text(f"\nVolume by {'day and ' * by_day}layer", style="bold"),
        fit_answer_table(days, layers, width),
        Text("\nHow busy targets are", style="bold"),
        Text(_busy(found)),
    ]


def _whole(days: list[LayerDay]) -> list[LayerDay]:
    """All days of each layer as one."""
    from fairlead.explain.questions.answers import LayerDay
    from fairlead.explain.questions.rollup_sums import add_rollup_sums

    layers = dict.fromkeys(day.layer for day in days)
    return [
        LayerDay(day="", layer=name, sums=add_rollup_sums([d.sums for d in days if d.layer == name])) for name in layers
    ]


def _rate(quantiles: dict[str, float]) -> str:
    return unit_formats.format_bandwidth(quantiles["0.5"] if quantiles else None)


def _busy(found: Population) -> str:
    targets = found.targets
    if not targets.minutes:
        return "nothing is known about targets"
    shares = ", ".join(f"{float(q):.0%} of them at or below {value:.1%}" for q, value in found.target_quantiles.items())
    return (
        f"{targets.components:,} targets, {targets.minutes:,} minutes; of the peak of"
        f" {unit_formats.format_bandwidth(targets.peak_bytes_per_s)} ({targets.peak_basis}): {shares};"
        f" below 1 %: {targets.below_1_percent:.1%}, below 5 %: {targets.below_5_percent:.1%}"
    )
