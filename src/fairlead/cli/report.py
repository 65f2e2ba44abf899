"""`fairlead report`: a verdict on traces. Reads, analyses, prints; all thinking is in `analysis` and `rules`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.options import PATH
from fairlead.cli.printing import is_printing_quiet, print_message
from fairlead.cli.startup import skip_pandas_at_startup
from fairlead.core.errors import FairleadError, InputError, PartialInputError, UsageError
from fairlead.core.safe_text import escape_text

if TYPE_CHECKING:
    from fairlead.core.model.job import Job
    from fairlead.explain.analysis.verdict import Verdict
    from fairlead.see.sources.inputs import Failure, JobInput
    from fairlead.show.report.report_builder import Report, Setup

SHOWN_FAILURES = 20


@click.command()
@click.argument("traces", nargs=-1, required=True, type=PATH, metavar="TRACE...")
@click.option(
    "--html",
    type=PATH,
    metavar="FILE",
    help="Write a single-file page that works offline (several jobs: FILE-<job>.html each).",
)
@click.option("--json", "json_out", metavar="FILE", help="Write the verdict as JSON; - for standard output.")
@click.option(
    "--explain", metavar="RULE", help="Explain one rule on this job: what it checks, what it saw, what to do."
)
@click.option("--compare", type=PATH, metavar="OTHER", help="Compare with a second run: TRACE is before, OTHER after.")
@click.option(
    "--rules",
    "rules_dir",
    type=PATH,
    envvar="FAIRLEAD_RULES",
    metavar="DIR",
    help="A folder of the site's own rules; they override built-in ones of the same id.",
)
@click.option(
    "--platform",
    type=PATH,
    envvar="FAIRLEAD_PLATFORM",
    metavar="FILE",
    help="TOML description of the machine, to estimate costs from its own rates.",
)
@click.option("--all", "everything", is_flag=True, help="Also show minor findings, good news and undecided rules.")
def report(
    traces: tuple[Path, ...],
    html: Path | None,
    json_out: str | None,
    explain: str | None,
    compare: Path | None,
    rules_dir: Path | None,
    platform: Path | None,
    everything: bool,
) -> None:
    """Say whether a job's I/O is good or bad, what to change, and how.

    TRACE is a Darshan log, a DFTracer trace, or a folder of them; files of one job are taken together. Slurm
    accounting beside them fills in who ran the job.
    """
    skip_pandas_at_startup()
    from fairlead.cli import terminal
    from fairlead.show.report import report_builder as reporting

    setup = reporting.load_report_setup(rules_dir, platform)
    if explain is not None and explain not in setup.rules:
        raise UsageError(f"there is no rule {explain!r}", remedy="`fairlead rule list` lists them")
    _apart([html, None if json_out in (None, "-") else Path(json_out)], [*traces, compare, rules_dir, platform])
    run = _Run(setup, None if json_out == "-" else terminal.Screen(setup, everything=everything, explain=explain))
    before = run.find(list(traces))
    after = [] if compare is None else run.find([compare])
    if compare is not None:
        _one_of_each(before, after, compare)
    run.build(before, after, html)
    run.write_json(json_out)
    run.finish(traces)


def _apart(outputs: list[Path | None], given: list[Path | None]) -> None:
    """Refuse to write onto anything that is read, or two things into one file, before anything is read."""
    written = [path for path in outputs if path is not None]
    for path in written:
        if str(path) == "-":
            raise UsageError("--html needs a file", remedy="name one, such as report.html; --json - prints on stdout")
        for other in given:
            if other is not None and _same(path, other):
                raise UsageError("would overwrite an input", where=str(path), remedy="name another file")
    if len(written) == 2 and _same(*written):
        raise UsageError(
            "--html and --json name the same file", where=str(written[0]), remedy="use two different files"
        )


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return path.absolute() == other.absolute()


def _one_of_each(before: list[JobInput], after: list[JobInput], other: Path) -> None:
    """None at all is not an error of the call: why none could be used is among the failures."""
    if len(before) > 1:
        raise UsageError(
            f"--compare compares two runs, but {len(before)} jobs were given",
            remedy="give the traces of one job before and of one job after",
        )
    if len(after) > 1:
        raise UsageError(
            f"the --compare trace holds {len(after)} jobs", where=str(other), remedy="give the trace of one"
        )


class _Run:
    """One call: what was found, reported, written, and what went wrong on the way.

    Up to `terminal.MANY` jobs are kept whole; of more only the verdicts, so that memory does not grow with the logs
    of a month. `screen` is None when standard output is for JSON.
    """

    def __init__(self, setup: Setup, screen: object) -> None:
        from fairlead.cli import terminal

        self._setup = setup
        self._screen = screen if isinstance(screen, terminal.Screen) else None
        self._many = terminal.MANY
        self._accounts: dict[str, list[Job]] = {}
        self._failures: list[Failure] = []
        self._verdicts: list[Verdict] = []
        self._compared = False
        self._pages: list[Path] = []
        self._unwritten: FairleadError | None = None
        self._read: set[tuple[int, int]] = set()

    def find(self, paths: list[Path]) -> list[JobInput]:
        """The jobs of these inputs; what cannot be read is kept for the end, accounting is read."""
        from fairlead.see.sources import inputs
        from fairlead.show.report import report_builder as reporting

        found, failures = inputs.discover_input_files(paths)
        self._failures += failures
        accounts, traces = reporting.split_report_accounting(inputs.group_input_files(found))
        self._read |= {place for job in (*accounts, *traces) for path in job.files if (place := _inode(path))}
        for number, runs in reporting.read_report_accounting(accounts, self._failures).items():
            self._accounts.setdefault(number, []).extend(runs)
        return traces

    def build(self, before: list[JobInput], after: list[JobInput], html: Path | None) -> None:
        """Analyse all jobs, show them, write their pages."""
        from fairlead.show.report import report_builder as reporting

        progress = _Progress(before + after)
        kept: list[Report] | None = []
        try:
            for job in before + after:
                one = reporting.build_report(job, self._setup, self._accounts, self._failures, progress)
                if one is None:
                    continue
                self._verdicts.append(one.verdict)
                passing = [one] if kept is None else []
                if kept is not None:
                    kept.append(one)
                    if len(kept) > self._many:
                        passing, kept = kept, None
                for each in passing:
                    self._pass(each, html)
        finally:
            progress.close()
        if kept is None:
            if self._screen is not None:
                self._screen.show_many(self._verdicts)
            return
        self._compared = bool(after) and len(kept) == 2
        self._write_pages(kept, html)
        if self._screen is not None:
            self._screen.show(kept, compared=self._compared)

    def _pass(self, one: Report, html: Path | None) -> None:
        """What needs a whole report, before only its verdict is kept."""
        from fairlead.show.report import report_builder as reporting

        if self._screen is not None:
            self._screen.show_passing(one)
        if html is not None and self._unwritten is None:
            self._save(self._page_name(html, one), reporting.build_report_page(one).encode(), page=True)

    def _write_pages(self, reports: list[Report], html: Path | None) -> None:
        from fairlead.show.report import report_builder as reporting

        if html is None:
            return
        if self._compared:
            self._save(html, reporting.build_report_page(*reports).encode(), page=True)
            return
        for one in reports:
            name = html if len(reports) == 1 else self._page_name(html, one)
            self._save(name, reporting.build_report_page(one).encode(), page=True)

    def _page_name(self, html: Path, one: Report) -> Path:
        """`html` with the job in it, and a number where two jobs would share a name."""
        suffix = html.suffix or ".html"
        name = html.with_name(f"{html.stem}-{one.slug}{suffix}")
        count = 1
        while name in self._pages:
            count += 1
            name = html.with_name(f"{html.stem}-{one.slug}-{count}{suffix}")
        return name

    def write_json(self, out: str | None) -> None:
        """The verdicts as JSON, unless there are none."""
        from fairlead.show.report import report_builder as reporting

        if out is None or not self._verdicts:
            return
        first, last = self._verdicts[0], self._verdicts[-1]
        text = (
            reporting.serialise_reports([first], last)
            if self._compared
            else reporting.serialise_reports(self._verdicts)
        )
        if out == "-":
            click.echo(text)
        else:
            self._save(Path(out), text + b"\n", page=False)

    def _save(self, path: Path, content: bytes, *, page: bool) -> None:
        """Write a file; that it cannot be written is said at the end, after what could be shown."""
        if _inode(path) in self._read:
            self._unwritten = UsageError("would overwrite an input", where=str(path), remedy="name another file")
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_report_file(path, content)
        except OSError as fault:
            what = (fault.strerror or str(fault)).lower()
            self._unwritten = UsageError(f"cannot be written: {what}", where=str(path), remedy="name another file")
            return
        if page:
            self._pages.append(path)

    def finish(self, given: tuple[Path, ...]) -> None:
        """Failures last, so that they are seen; the exit code says whether all, some or none could be read."""
        for path in self._pages:
            print_message(f"page: {escape_text(str(path))}")
        failures, error = self._failures, self._unwritten or self._outcome(given)
        if error is None:
            return
        if not failures or failures[0].error is error:
            raise error
        for failure in failures[:SHOWN_FAILURES]:
            click.echo(click.style("error: ", fg="red", bold=True) + str(failure.error), err=True)
        if len(failures) > SHOWN_FAILURES:
            click.echo(f"... and {len(failures) - SHOWN_FAILURES:,} more", err=True)
        raise error

    def _outcome(self, given: tuple[Path, ...]) -> FairleadError | None:
        failures = self._failures
        if not failures:
            return (
                None
                if self._verdicts
                else InputError(
                    "no I/O trace among the inputs",
                    where=str(given[0]) if len(given) == 1 else None,
                    remedy="give a Darshan or DFTracer trace; accounting alone is not enough",
                )
            )
        if len(failures) == 1 and not self._verdicts:
            return failures[0].error
        kind: type[FairleadError] = PartialInputError if self._verdicts else InputError
        count = "1 input is broken or" if len(failures) == 1 else f"{len(failures):,} inputs are broken or"
        remedy = "everything else is reported above" if self._verdicts else "see the errors above"
        return kind(f"{count} could not be used", remedy=remedy)


class _Progress:
    """A bar on a terminal for input worth waiting for (64 MiB and more); silent otherwise."""

    def __init__(self, jobs: list[JobInput]) -> None:
        self._bar = None
        self._rows = 0
        if not sys.stderr.isatty() or is_printing_quiet():
            return
        if len(jobs) > 200 or sum(_size(path) for job in jobs for path in job.files) >= 64 << 20:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rows]}"),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("jobs" if len(jobs) > 1 else "reading", total=len(jobs), rows="")
            self._bar.start()

    def note_rows(self, count: int) -> None:
        """`count` more records were read."""
        self._rows += count
        if self._bar is not None:
            self._bar.update(self._task, rows=f"{self._rows:,} records")

    def note_job(self) -> None:
        """One more job is analysed."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()


def _inode(path: Path) -> tuple[int, int] | None:
    """What a file is, whatever it is called; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def write_report_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all; what a link points at is written, not the link replaced.

    Devices and pipes (`/dev/stdout`) are written as they are. Raises OSError.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        path.write_bytes(content)
        return
    beside = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise
