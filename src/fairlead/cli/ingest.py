"""`fairlead ingest`: feeds files into a lake. Not here: reading, merging, storing (`fairlead.see.ingest`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.options import PATH, add_lake_option, add_wait_option
from fairlead.cli.printing import is_printing_quiet, print_json, print_message
from fairlead.core.errors import FairleadError, InputError, PartialInputError
from fairlead.store.lake_folder import find_default_lake_folder

if TYPE_CHECKING:
    from fairlead.see.ingest import Outcome
    from fairlead.store.lake import Lake
    from fairlead.store.writer import Writer

SCHEMA = "fairlead.ingest/1"


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@add_lake_option("The lake, created if missing. Default: $FAIRLEAD_LAKE, else fairlead/lake in your data folder.")
@click.option(
    "--shard",
    default="main",
    show_default=True,
    metavar="NAME",
    help="The shard to write. A shard has one writer at a time.",
)
@add_wait_option("How long to wait for another writer of the shard to finish.")
@click.option(
    "--exact-times",
    is_flag=True,
    help="Keep the times of every operation, not only first, last and busy time of a run. Takes more space.",
)
@click.option(
    "--time-zone",
    metavar="ZONE",
    help="Time zone of times without an offset (sacct, mmpmon, LMT), such as Europe/Berlin. Default: UTC, with a note.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result for every file as JSON.")
def ingest(
    paths: tuple[Path, ...],
    root: Path | None,
    shard: str,
    wait_s: float,
    exact_times: bool,
    time_zone: str | None,
    as_json: bool,
) -> None:
    """Read traces, counters and accounting into a lake.

    PATH is a file, or a folder that is searched for traces. Each file is ingested completely or not at all, and only
    once: files already in the lake are recognised by content. A file that cannot be used does not stop the others.
    """
    from fairlead.see.ingest import find_ingest_traces
    from fairlead.store.compaction import compact_tables
    from fairlead.store.lake import Lake
    from fairlead.store.rollups import derive_rollups

    jobs, failed = find_ingest_traces(paths, time_zone=time_zone)
    if not jobs:
        _finish(failed)
    lake = Lake.open(root or find_default_lake_folder(), create=True)
    with lake.open_writer(shard, wait_s=wait_s, derive=derive_rollups) as writer:
        outcomes = _take(writer, jobs, exact_times) + failed
        compact_tables(lake, writer, thorough=False, keep_hours=None)
    _print(lake, outcomes, as_json=as_json)
    _finish(outcomes)


def _take(writer: Writer, jobs: list, exact_times: bool) -> list[Outcome]:  # type: ignore[type-arg]
    from fairlead.see.ingest import ingest_jobs as take

    for path in writer.damaged:
        print_message(f"a damaged segment of the write-ahead log was set aside: {path}")
    progress = _Progress(sum(len(job.files) for job in jobs))
    outcomes = []
    try:
        for outcome in take(writer, jobs, exact_times=exact_times, progress=progress.rows):
            outcomes.append(outcome)
            progress.file_done()
    finally:
        progress.close()
    return outcomes


class _Progress:
    """A bar on a terminal; silent otherwise."""

    def __init__(self, files: int) -> None:
        self._bar = None
        self._rows = 0
        if sys.stderr.isatty() and not is_printing_quiet():
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
            self._task = self._bar.add_task("ingesting", total=files, rows="")
            self._bar.start()

    def rows(self, count: int) -> None:
        """`count` more records were read."""
        self._rows += count
        if self._bar is not None:
            self._bar.update(self._task, rows=f"{self._rows:,} records")

    def file_done(self) -> None:
        """One more file is taken in."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()


def _print(lake: Lake, outcomes: list[Outcome], *, as_json: bool) -> None:
    from fairlead.see.ingest import sum_ingested_rows

    counts = {state: sum(o.state == state for o in outcomes) for state in ("added", "known", "failed")}
    if as_json:
        document = {
            "schema": SCHEMA,
            "lake": str(lake.place.root),
            "files": counts,
            "rows": sum_ingested_rows(outcomes),
            "inputs": [_as_json(outcome) for outcome in outcomes],
        }
        print_json(document)
        return
    click.echo(f"{counts['added']:,} added, {counts['known']:,} already known, {counts['failed']:,} failed")
    operations = sum(o.operations for o in outcomes)
    for table, rows in sum_ingested_rows(outcomes).items():
        note = f"  (runs of {operations:,} operations)" if table == "ops" else ""
        click.echo(f"  {table:<14} {rows:>12,} rows{note}")
    print_message(f"lake: {lake.place.root}")


def _as_json(outcome: Outcome) -> dict[str, object]:
    error = outcome.error
    return {
        "path": str(outcome.path),
        "source": outcome.source,
        "state": outcome.state,
        "rows": outcome.rows,
        "operations": outcome.operations,
        "missing": outcome.missing,
        "error": None if error is None else {"what": error.what, "where": error.where, "remedy": error.remedy},
    }


def _finish(outcomes: list[Outcome]) -> None:
    """Failures last, so that they are seen; the exit code says whether all, some or none could be taken in."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not errors:
        return
    if len(errors) == len(outcomes) == 1:
        raise errors[0]
    for error in errors:
        click.echo(click.style("error: ", fg="red", bold=True) + str(error), err=True)
    kind: type[FairleadError] = InputError if len(errors) == len(outcomes) else PartialInputError
    rest = "; the others are in the lake" if kind is PartialInputError else ""
    raise kind(f"{len(errors)} of the inputs could not be ingested", remedy=f"see the errors above{rest}")
