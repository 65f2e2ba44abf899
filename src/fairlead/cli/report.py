"""`fairlead report`: a verdict on traces. Reads, analyses, prints; all thinking is in `analysis` and `rules`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.startup import leave_pandas_alone
from fairlead.cli.talk import quiet, say
from fairlead.errors import FairleadError, InputError, PartialInputError, UsageError

if TYPE_CHECKING:
    from fairlead.reporting import Report
    from fairlead.sources.inputs import Failure

SHOWN_FAILURES = 20


@click.command()
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TRACE...")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE",
              help="Write a single-file page that works offline (several jobs: FILE-<job>.html each).")
@click.option("--json", "json_out", metavar="FILE", help="Write the verdict as JSON; - for standard output.")
@click.option("--explain", metavar="RULE", help="Explain one rule on this job: what it asks, what it saw, what to do.")
@click.option("--compare", type=click.Path(path_type=Path), metavar="OTHER",
              help="Set a second run beside it: TRACE is before, OTHER after.")
@click.option("--rules", "rules_dir", type=click.Path(path_type=Path), envvar="FAIRLEAD_RULES", metavar="DIR",
              help="A folder of the site's own rules; they override built-in ones of the same id.")
@click.option("--platform", type=click.Path(path_type=Path), envvar="FAIRLEAD_PLATFORM", metavar="FILE",
              help="A TOML description of the machine, so that costs are held against its own rates.")
@click.option("--all", "everything", is_flag=True, help="Show all findings, good news and undecided rules, too.")
def report(
    traces: tuple[Path, ...], html: Path | None, json_out: str | None, explain: str | None, compare: Path | None,
    rules_dir: Path | None, platform: Path | None, everything: bool,
) -> None:  # fmt: skip
    """Say whether a job's I/O is good or bad, what to change, and how.

    TRACE is a Darshan log, a DFTracer trace, or a folder of them; files of one job are taken together. Slurm
    accounting beside them fills in who ran the job.
    """
    leave_pandas_alone()
    from fairlead import reporting
    from fairlead.cli import terminal

    setup = reporting.prepare(rules_dir, platform)
    if explain is not None and explain not in setup.rules:
        raise UsageError(f"no rule is called {explain!r}", remedy="`fairlead rules list` names them all")
    reports, failures = _reports(list(traces), setup)
    after: Report | None = None
    if compare is not None:
        if len(reports) != 1:
            raise UsageError(
                f"--compare sets two runs side by side, but {len(reports)} jobs were given",
                remedy="give the traces of one job before and of one job after",
            )
        others, failed = _reports([compare], setup)
        failures += failed
        if len(others) == 1:
            after = others[0]
        elif others:
            raise UsageError(f"--compare holds {len(others)} jobs", where=str(compare), remedy="give the trace of one")
    written = _write(reports, after, html, json_out)
    if json_out != "-":
        terminal.show(reports, after, setup, everything=everything, explain=explain)
    for path in written:
        say(f"page: {path}")
    _finish(reports, failures)


def _reports(paths: list[Path], setup: object) -> tuple[list[Report], list[Failure]]:
    from fairlead import reporting
    from fairlead.sources import inputs

    found, failures = inputs.discover(paths)
    accounts, traces = reporting.split_accounting(inputs.group(found))
    jobs = reporting.accounting(accounts, failures)
    out: list[Report] = []
    progress = _Progress(traces)
    for job in traces:
        result = reporting.build(job, setup, jobs, failures, progress)  # type: ignore[arg-type]
        if result is not None:
            out.append(result)
    progress.close()
    return out, failures


class _Progress:
    """A bar on a terminal for input worth waiting for (64 MiB and more); silent otherwise."""

    def __init__(self, jobs: list) -> None:  # type: ignore[type-arg]
        sizes = [sum(p.stat().st_size for p in job.files if p.exists()) for job in jobs]
        self._bar = None
        if (sum(sizes) >= 64 << 20 or len(jobs) > 200) and sys.stderr.isatty() and not quiet():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rows]}"),
                       TimeElapsedColumn())  # fmt: skip
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("reading", total=len(jobs), rows="")
            self._bar.start()
        self._rows = 0

    def rows(self, count: int) -> None:
        """`count` more records were read."""
        self._rows += count
        if self._bar is not None:
            self._bar.update(self._task, rows=f"{self._rows:,} records")

    def job_done(self) -> None:
        """One more job is analysed."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()


def _write(reports: list[Report], after: Report | None, html: Path | None, json_out: str | None) -> list[Path]:
    from fairlead import reporting

    written = []
    if html is not None:
        for one in reports:
            path = html if len(reports) == 1 else html.with_name(f"{html.stem}-{one.slug}{html.suffix or '.html'}")
            _save(path, reporting.page(one, after).encode())
            written.append(path)
    if json_out is not None and (reports or json_out != "-"):
        text = reporting.to_json(reports, after)
        if json_out == "-":
            click.echo(text)
        else:
            _save(Path(json_out), text + b"\n")
    return written


def _save(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as fault:
        what = (fault.strerror or str(fault)).lower()
        raise UsageError(f"cannot be written: {what}", where=str(path), remedy="name another file") from fault


def _finish(reports: list[Report], failures: list[Failure]) -> None:
    """Failures last, so that they are seen; the exit code says whether all, some or none could be read."""
    if not failures:
        if not reports:
            raise InputError("no I/O trace among the inputs", remedy="give a Darshan or DFTracer trace")
        return
    if len(failures) == 1 and not reports:
        raise failures[0].error
    for failure in failures[:SHOWN_FAILURES]:
        click.echo(click.style("error: ", fg="red", bold=True) + str(failure.error), err=True)
    if len(failures) > SHOWN_FAILURES:
        click.echo(f"... and {len(failures) - SHOWN_FAILURES} more", err=True)
    error: type[FairleadError] = PartialInputError if reports else InputError
    inputs = "1 input is broken or" if len(failures) == 1 else f"{len(failures)} inputs are broken or"
    raise error(
        f"{inputs} could not be used",
        remedy="everything else is reported above" if reports else "see the errors above",
    )
