"""`fairlead lake`: looks after a lake. Not here: the looking after (`fairlead.store`)."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import PATH, add_wait_option, json_option, lake_option
from fairlead.cli.printing import print_json, print_message
from fairlead.cli.quantities import Size
from fairlead.core.errors import UsageError
from fairlead.core.model.unit_formats import format_bytes, format_count
from fairlead.store.lake_folder import find_default_lake_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from fairlead.store.lake import Lake

_AGE = re.compile(r"(\d+)([dhw])")
_NUMBER = re.compile(r"-?[\d,.]+( [kMGTP]?i?B)?|—")
_HOURS = {"h": 1, "d": 24, "w": 168}
_HOUR_NS = 3_600_000_000_000

_shard_option = click.option(
    "--shard", "shards", multiple=True, metavar="NAME", help="Only this shard (repeatable). Default: all of them."
)
_wait_option = add_wait_option("How long to wait for another writer of a shard to finish.")


@click.group(cls=Noun)
def lake() -> None:
    """Maintain a lake: info, compact, expire, query, scrub, backup, restore."""


@lake.command("info")
@lake_option
@click.option("--columns", is_flag=True, help="Show the columns of every table instead.")
@json_option
def show_lake_info(root: Path | None, columns: bool, as_json: bool) -> None:
    """List what the lake holds: tables, rows, days, bytes, files.

    Read-only; can run beside a writer.
    """
    from fairlead.store.inventory import take_inventory

    if columns:
        _print_columns(as_json=as_json)
        return
    found = take_inventory(_open(root).place)
    if as_json:
        print_json({"schema": "fairlead.lake.info/1", **asdict(found)})
        return
    rows = [
        [
            t.table if t.known else f"{t.table} (newer)",
            t.shard,
            f"{t.rows + t.waiting_rows:,}",
            f"{t.waiting_rows:,}",
            str(t.files),
            format_bytes(t.bytes),
            _span(t.first_day, t.last_day),
        ]
        for t in found.tables
    ]
    _print_rows(["table", "shard", "rows", "waiting", "files", "size", "days"], rows)
    if len(found.sums) > 1:
        click.echo()
        sums = [
            [
                s.shard,
                f"{s.rows + s.waiting_rows:,}",
                f"{s.waiting_rows:,}",
                format_bytes(s.bytes),
                format_bytes(s.log_bytes),
            ]
            for s in found.sums
        ]
        _print_rows(["shard", "rows", "waiting", "size", "log"], sums)
    size = format_bytes(found.bytes_on_disk)
    click.echo(f"{format_count(found.batches)} inputs ingested, {size} on disk, {found.root}")
    for path in found.damaged_segments:
        print_message(f"a damaged segment of the write-ahead log was set aside: {path}")


@lake.command("compact")
@lake_option
@_shard_option
@_wait_option
@click.option(
    "--keep",
    default="7d",
    show_default=True,
    metavar="AGE",
    help="Keep merged and expired files this long for readers that still use them (12h, 7d).",
)
@json_option
def compact_lake(root: Path | None, shards: tuple[str, ...], wait_s: float, keep: str, as_json: bool) -> None:
    """Merge small files into a few sorted ones, and remove files no reader needs any more.

    Query results do not change. Can be stopped at any time and rerun.
    """
    from fairlead.store.compaction import compact_tables

    keep_hours = _hours(keep)
    opened = _open(root)
    merged = []
    for shard in _shards(opened, shards):
        with opened.open_writer(shard, wait_s=wait_s) as writer:
            merged += [{"shard": shard, **asdict(one)} for one in compact_tables(opened, writer, keep_hours=keep_hours)]
    if as_json:
        print_json({"schema": "fairlead.lake.compact/1", "tables": merged})
        return
    rows = [
        [str(one["table"]), str(one["shard"]), f"{one['files_before']} → {one['files_after']}", str(one["removed"])]
        for one in merged
    ]
    _print_rows(["table", "shard", "files", "removed"], rows)


@lake.command("expire")
@lake_option
@click.option(
    "--older-than",
    "age",
    required=True,
    metavar="AGE",
    help="Expire days that ended at least this long ago (180d, 26w).",
)
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Only this table (repeatable). Default: all.")
@_shard_option
@_wait_option
@click.option("--dry-run", is_flag=True, help="Report what would expire; change nothing.")
@json_option
def expire_lake_days(
    root: Path | None,
    age: str,
    tables: tuple[str, ...],
    shards: tuple[str, ...],
    wait_s: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Expire whole days that are older than an age.

    Rows are gone for every query at once. Their files stay for readers that still use them; `fairlead lake compact`
    removes them later. Rows without a time never expire. An expired trace that is ingested again stays expired.
    """
    from fairlead.core.clock import now_ns
    from fairlead.store import retention

    before_ns = now_ns() - _hours(age) * _HOUR_NS
    opened = _open(root)
    expired = []
    for shard in _shards(opened, shards):
        with opened.open_writer(shard, wait_s=wait_s) as writer:
            done = retention.expire_retained_days(writer, before_ns=before_ns, tables=tables or None, dry_run=dry_run)
            expired += [{"shard": shard, **asdict(one)} for one in done]
    if as_json:
        print_json({"schema": "fairlead.lake.expire/1", "dry_run": dry_run, "tables": expired})
        return
    rows = [
        [str(one["table"]), str(one["shard"]), str(one["days"]), f"{one['rows']:,}", format_bytes(one["bytes"])]
        for one in expired
    ]
    _print_rows(["table", "shard", "days", "rows", "size"], rows)
    if dry_run:
        print_message("nothing was removed (--dry-run)")


@lake.command("query")
@click.argument("sql")
@lake_option
@click.option("--csv", "as_csv", is_flag=True, help="Print the result as CSV.")
@json_option
def run_lake_query(sql: str, root: Path | None, as_csv: bool, as_json: bool) -> None:
    """Query the lake with one SELECT.

    Tables and columns are those of the record reference, plus a date column `day`: filter on it to skip other days.
    Times are nanoseconds: make_timestamp_ns(start_ns) converts them. Read-only.
    """
    result = _open(root).query(sql)
    if as_csv:
        _print_csv(result)
    elif as_json:
        print_json({"schema": "fairlead.lake.query/1", "columns": result.column_names, "rows": result.to_pylist()})
    else:
        columns = [[_cell(value) for value in column.to_pylist()] for column in result.columns]
        _print_rows(result.column_names, [list(row) for row in zip(*columns, strict=True)])


@lake.command("backup")
@click.argument("folder", type=PATH, metavar="DEST")
@lake_option
@click.option("--link", is_flag=True, help="Hard-link files that never change instead of copying them, where possible.")
@json_option
def backup_lake(folder: Path, root: Path | None, link: bool, as_json: bool) -> None:
    """Back up the lake to DEST, even while it is being written.

    Each shard is copied as of one moment, with everything acknowledged before. If DEST already holds a backup, only new
    files are copied. If killed at any point, the previous backup stays intact.
    """
    from fairlead.store import backup

    done = backup.backup_lake(_open(root).place, folder, link=link)
    if as_json:
        print_json({"schema": "fairlead.lake.backup-done/1", **asdict(done)})
        return
    new = f"{format_count(done.copied_files)} files with {format_bytes(done.copied_bytes)} of them new"
    click.echo(f"{format_count(done.files)} files with {format_bytes(done.bytes)}, {new}, in {done.folder}")


@lake.command("restore")
@click.argument("folder", type=PATH, metavar="BACKUP")
@lake_option
@json_option
def restore_lake(folder: Path, root: Path | None, as_json: bool) -> None:
    """Restore a lake from a backup into a new directory.

    Every file is checked against its checksum; a damaged backup is not restored.
    """
    from fairlead.store import backup

    done = backup.restore_lake(folder, root or find_default_lake_folder())
    if as_json:
        print_json({"schema": "fairlead.lake.restore-done/1", **asdict(done)})
        return
    click.echo(
        f"{format_count(done.files)} files with {format_bytes(done.bytes)} checked and restored to {done.folder}"
    )


@lake.command("scrub")
@lake_option
@_shard_option
@_wait_option
@click.option(
    "--rate",
    type=Size("1T"),
    default="200MiB",
    show_default=True,
    help="Read at most this much a second; 0: no limit.",
)
@click.option(
    "--from", "copy", type=PATH, metavar="COPY", help="Repair damaged files from this backup, or from another lake."
)
@click.option("--accept-loss", is_flag=True, help="Give up rows that cannot be repaired; events record what is lost.")
@json_option
def check_lake(
    root: Path | None,
    shards: tuple[str, ...],
    wait_s: float,
    rate: int,
    copy: Path | None,
    accept_loss: bool,
    as_json: bool,
) -> None:
    """Check every file of the lake against its checksum.

    Can run beside a server. If stopped, the next run goes on where it was. The server runs the same check by itself,
    slowly. Exit code 7 if something is damaged and not repaired.
    """
    from fairlead.cli.lake_scrub import run_scrub_command

    opened = _open(root)
    chosen = _shards(opened, shards)
    run_scrub_command(opened, chosen, rate=rate, copy=copy, accept_loss=accept_loss, wait_s=wait_s, as_json=as_json)


def _open(root: Path | None) -> Lake:
    from fairlead.store.lake import Lake

    return Lake.open(root or find_default_lake_folder())


def _shards(opened: Lake, chosen: tuple[str, ...]) -> list[str]:
    have = opened.place.list_shards()
    for name in chosen:
        if name not in have:
            where = str(opened.place.root)
            raise UsageError(f"there is no shard {name!r}", where=where, remedy=f"one of {', '.join(have)}")
    return list(chosen) or have


def _hours(age: str) -> int:
    match = _AGE.fullmatch(age.strip().lower())
    if match is None:
        raise UsageError(f"not an age: {age!r}", remedy="write it as 12h, 180d or 26w")
    return int(match[1]) * _HOURS[match[2]]


def _span(first: str | None, last: str | None) -> str:
    if first is None:
        return "—"
    return first if first == last else f"{first} … {last}"


def _cell(value: object) -> str:
    return "—" if value is None else str(value)


def _print_columns(*, as_json: bool) -> None:
    from fairlead.core.model.tables import TABLES
    from fairlead.store.query import find_query_type

    columns = {
        spec.name: {f.name: find_query_type(f.type) for f in spec.schema} | {"day": "DATE"} for spec in TABLES.values()
    }
    if as_json:
        print_json({"schema": "fairlead.lake.columns/1", "tables": columns})
        return
    rows = [[table, name, kind] for table, of in columns.items() for name, kind in of.items()]
    _print_rows(["table", "column", "type"], rows)


def _print_csv(result: pa.Table) -> None:
    import csv
    import sys

    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(result.column_names)
    for batch in result.to_batches(max_chunksize=10_000):
        out.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _print_rows(heads: list[str], rows: list[list[str]]) -> None:
    """Aligned columns, numbers to the right; the same in a pipe as on a terminal."""
    widths = [max(len(head), *(len(row[i]) for row in rows)) if rows else len(head) for i, head in enumerate(heads)]
    right = [bool(rows) and all(_NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(heads))]
    for row in [heads, *rows]:
        cells = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)]
        click.echo("  ".join(cells).rstrip())
