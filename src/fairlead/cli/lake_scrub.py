"""`fairlead lake scrub`: what was checked, what is damaged, what was done about it.

Not here: the checks (`store.scrub`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from fairlead.cli.printing import print_json, print_message
from fairlead.core.errors import DamagedLakeError, LakeBusyError
from fairlead.core.model.unit_formats import format_bytes, format_count, format_time
from fairlead.store.checksums import REPAIR, parse_checksum_name

if TYPE_CHECKING:
    from fairlead.store.lake import Lake
    from fairlead.store.scrub import Pace
    from fairlead.store.scrub_ledger import Damage, Ledger

SCHEMA = "fairlead.lake.scrub/1"


def run_scrub_command(
    lake: Lake,
    shards: Sequence[str],
    *,
    rate: int,
    copy: Path | None,
    accept_loss: bool,
    wait_s: float,
    as_json: bool,
) -> None:
    """Scrubs `shards` and prints what was found. Raises DamagedLakeError, after that, when damage is left."""
    from fairlead.store import scrub, scrub_repair

    if copy is not None:
        scrub_repair.check_copy_folder(copy)
    bytes_per_s = rate or None
    told: list[dict[str, object]] = []
    left = 0
    for shard in shards:
        sealed = _seal(lake, shard, scrub.Pace(bytes_per_s))
        pace = scrub.Pace(bytes_per_s)
        ledger = scrub.check_shard(lake.place, shard, pace, again=True, progress=_progress(as_json=as_json))
        if ledger is None:
            raise LakeBusyError(
                f"a scrub of shard {shard!r} is running", where=str(lake.place.root), remedy="try again in a minute"
            )
        repaired, losses = [], []
        if copy is not None:
            repaired = [one for one in ledger.damaged.values() if scrub_repair.repair_damage(lake, one, copy)]
        rest = [one for one in ledger.damaged.values() if one not in repaired]
        if accept_loss and rest:
            losses = scrub_repair.accept_losses(lake, shard, rest, wait_s=wait_s)
        if repaired or losses:
            ledger = scrub.check_shard(lake.place, shard, pace, again=True) or ledger
        left += len(ledger.damaged)
        told.append(
            {
                "shard": shard,
                "checked_bytes": pace.read,
                "files": ledger.files,
                "bytes": ledger.bytes,
                "finished_ns": ledger.finished_ns,
                "sealed_files": sealed,
                "unverified_files": ledger.unverified_files,
                "unsealed_files": ledger.unsealed_files,
                "damaged": [msgspec.to_builtins(one) for one in ledger.damaged.values()],
                "repaired": [one.path for one in repaired],
                "lost": [
                    {
                        "path": one.damage.path,
                        "table": one.damage.table,
                        "rows": one.lost_rows,
                        "kept_rows": one.kept_rows,
                        "from_ns": one.damage.from_ns,
                        "to_ns": one.damage.to_ns,
                        "sources": one.sources,
                    }
                    for one in losses
                ],
            }
        )
        if not as_json:
            _print_shard(shard, ledger, pace.read, sealed)
            for damage in repaired:
                click.echo(f"repaired: {damage.path}")
            for loss in losses:
                who = "sources not known" if loss.sources is None else f"of {_short(loss.sources)}"
                kept = f", {format_count(loss.kept_rows)} kept" if loss.kept_rows else ""
                click.echo(f"lost: {format_count(loss.lost_rows)} rows of {_what(loss.damage)}, {who}{kept}")
    if as_json:
        print_json({"schema": SCHEMA, "shards": told})
    if left:
        raise DamagedLakeError(f"{format_count(left)} files are damaged", where=str(lake.place.root), remedy=REPAIR)


def _seal(lake: Lake, shard: str, pace: Pace) -> int:
    """Files of before checksums that got one now; those of a shard that is being written its writer sees to."""
    from fairlead.store import scrub

    try:
        if all(parse_checksum_name(file.name) for file in scrub.list_shard_files(lake.place, shard)):
            return 0
        with lake.open_writer(shard) as writer:
            return scrub.seal_old_files(lake.place, shard, writer.open_table, pace, writer.now_ns)
    except LakeBusyError:
        return 0
    except DamagedLakeError as error:
        print_message(f"files without checksums get none before this is repaired: {error.what}")
        return 0


def _progress(*, as_json: bool) -> Callable[[Ledger], None]:
    def show(ledger: Ledger) -> None:
        share = ledger.checked_bytes / ledger.bytes if ledger.bytes else 1.0
        print_message(f"{share:.0%} of {format_bytes(ledger.bytes)} checked")

    if as_json or not sys.stderr.isatty():
        return lambda _: None
    return show


def _print_shard(shard: str, ledger: Ledger, read: int, sealed: int) -> None:
    click.echo(
        f"shard {shard}: {format_count(ledger.files)} files with {format_bytes(ledger.bytes)}, "
        f"{format_bytes(read)} read now, {format_count(len(ledger.damaged))} damaged"
    )
    if sealed:
        click.echo(f"{format_count(sealed)} files of an older fairlead have checksums from now on")
    if ledger.unverified_files:
        click.echo(f"{format_count(ledger.unverified_files)} files: unverified before they got their checksums")
    if ledger.unsealed_files:
        click.echo(f"{format_count(ledger.unsealed_files)} files have no checksum yet: the server adds it")
    for damage in ledger.damaged.values():
        click.echo(f"damaged: {damage.path}: {_what(damage)}: {damage.text}")


def _what(damage: Damage) -> str:
    if damage.kind != "rows":
        return "the table's log" if damage.kind == "log" else "the write-ahead log"
    if damage.from_ns is None or damage.to_ns is None:
        return f"{damage.table}, {format_count(damage.rows)} rows"
    span = f"{format_time(damage.from_ns)} to {format_time(damage.to_ns)}"
    return f"{damage.table}, {format_count(damage.rows)} rows, {span}"


def _short(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
