"""`fairlead tree`: trees striped over storage targets. Not here: how they are stored (`steer.targets`), targets as they
were counted (`target`).
"""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import FILE, FOLDER, PATH, json_option
from fairlead.cli.printing import print_json, print_message
from fairlead.core.errors import ForwardingError, InputError, PartialInputError, UsageError
from fairlead.core.model.unit_formats import format_bandwidth, format_bytes, format_count

if TYPE_CHECKING:
    from fairlead.steer.targets.check import CheckResult
    from fairlead.steer.targets.space import TargetReport

_file = click.argument("file", type=FILE)


@click.group(cls=Noun)
def tree() -> None:
    """Trees striped over storage targets: show, check, export, set-layout, serve-metadata.

    FILE is the TOML file given to `fairlead forwarder run --export targets:FILE`.
    """


@tree.command("show")
@_file
@json_option
def show_tree(file: Path, as_json: bool) -> None:
    """Show the targets of a tree with their space, objects, rate and state.

    Reads the directories only; a forwarder may serve the tree meanwhile.
    """
    from fairlead.steer.targets.check import count_checked_objects
    from fairlead.steer.targets.config import read_config
    from fairlead.steer.targets.objects import TargetSet
    from fairlead.steer.targets.space import report_target_space

    config = read_config(file)
    store = config.metadata.store
    begun = store is not None and Path(store).exists()
    found = TargetSet(config)
    events = logging.getLogger("fairlead.forwarding.targets")
    events.addFilter(_told_by_the_table)
    try:
        reports = report_target_space(found)
    finally:
        events.removeFilter(_told_by_the_table)
    rows = []
    for row, target in zip(reports, found.by_name.values(), strict=True):
        rows.append((row, _state(row, begun=begun), 0 if row.missing else count_checked_objects(target)))
    if as_json:
        print_json({"schema": "fairlead.targets/1", "targets": [_plain(*row) for row in rows]})
        return
    _print_targets(rows)


def _told_by_the_table(_record: logging.LogRecord) -> bool:
    """A target that is not there is a row here, and no event."""
    return False


def _state(row: TargetReport, *, begun: bool) -> str:
    """`new`: an empty directory of a tree that was never served. In one that was, it is a disk that is not mounted."""
    if not row.missing:
        return "ok"
    folder = Path(row.path)
    return "new" if not begun and folder.is_dir() and not any(folder.iterdir()) else "missing"


def _plain(row: TargetReport, state: str, objects: int) -> dict[str, Any]:
    return {
        "name": row.name,
        "path": row.path,
        "pool": row.pool,
        "state": state,
        "capacity_bytes": row.capacity,
        "used_bytes": row.used,
        "objects": objects,
        "max_perf_bytes_per_s": row.max_perf,
    }


def _print_targets(rows: list[tuple[TargetReport, str, int]]) -> None:
    from rich.table import Table

    from fairlead.cli.piped_console import PipedConsole

    table = Table(box=None, pad_edge=False)
    for name in ("target", "pool", "state", "capacity", "used", "objects", "max_perf", "path"):
        justify: Literal["left", "right"] = "right" if name in ("capacity", "used", "objects", "max_perf") else "left"
        table.add_column(name, justify=justify, overflow="fold")
    for row, state, objects in rows:
        rate = "—" if row.max_perf is None else format_bandwidth(row.max_perf)
        space = (format_bytes(row.capacity), format_bytes(row.used))
        table.add_row(row.name, row.pool or "—", state, *space, format_count(objects), rate, row.path)
    PipedConsole(highlight=False, markup=False).print(table)


@tree.command("check")
@_file
@click.option("--repair", is_flag=True, help="Repair what can be repaired. No forwarder may serve the tree meanwhile.")
@json_option
def check_tree(file: Path, repair: bool, as_json: bool) -> int:
    """Compare names, inodes and objects.

    Faults: missing objects, orphaned ones (moved to the target's `lost` folder), dangling names, wrong link counts,
    missing targets. Notes are what a killed forwarder leaves: sizes and objects not recorded yet, unfinished
    truncations (oversize objects), unlinked files that were open. Exits with 8 if faults remain unrepaired.
    """
    from fairlead.steer.targets.check import check_store
    from fairlead.steer.targets.config import read_config
    from fairlead.steer.targets.objects import TargetSet
    from fairlead.steer.targets.tree import open_tree_store

    config = read_config(file)
    store = open_tree_store(config, readonly=not repair)
    try:
        found = check_store(store, TargetSet(config), repair=repair)
    finally:
        store.close()
    if as_json:
        problems = [{**asdict(problem), "fault": problem.fault} for problem in found.problems]
        document = {"schema": "fairlead.targets.check/1", "inodes": found.inodes, "objects": found.objects}
        print_json({**document, "faults": found.faults, "problems": problems})
    else:
        _print_checked(found)
    if found.faults:
        away = repair or any(problem.fault and problem.kind == "target" for problem in found.problems)
        remedy = "bring missing targets back" if away else "stop the forwarders, then: fairlead tree check --repair"
        raise ForwardingError(_counted(found.faults, "fault"), where=str(file), remedy=remedy)
    return 0


def _print_checked(found: CheckResult) -> None:
    for problem in found.problems:
        place = f" inode {problem.inode:x}" if problem.inode else ""
        target = f" on {problem.target}" if problem.target else ""
        mark = "mended" if problem.mended else "fault" if problem.fault else "note"
        click.echo(f"{mark:7}{problem.kind:11}{problem.what}{place}{target}")
    counts = _counted(found.inodes, "inode"), _counted(found.objects, "object"), _counted(found.faults, "fault")
    print_message(", ".join(counts))


@tree.command("export", short_help="Read the tree, or a part of it, back into a directory.")
@_file
@click.argument("destination", type=PATH)
@click.argument("path", default="/")
@json_option
def export_tree(file: Path, destination: Path, path: str, as_json: bool) -> None:
    """Read the tree, or PATH in it, back into the directory DESTINATION.

    Needs no forwarder. The directory must be new or empty. Keeps names, modes, times, hard links, holes and extended
    attributes; owners when run as root. Exits with 4 if some files could not be read.
    """
    from fairlead.steer.targets import export
    from fairlead.steer.targets.tree import open_tree

    opened = open_tree(str(file), readonly=True)
    try:
        done = export.export_tree(opened, str(destination), path)
    finally:
        opened.close()
    if as_json:
        print_json({"schema": "fairlead.targets.export/1", **asdict(done)})
    else:
        directories = "directory" if done.directories == 1 else "directories"
        print_message(f"{_counted(done.files, 'file')}, {done.directories:,} {directories}, {format_bytes(done.bytes)}")
    if done.failed:
        for place, reason in done.failed:
            print_message(f"not read: {place}: {reason}")
        raise PartialInputError(f"{_counted(len(done.failed), 'file')} could not be read", where=str(file))


@tree.command("set-layout", short_help="Set how new files in a directory are striped.")
@_file
@click.argument("path")
@click.argument("layout")
def set_tree_layout(file: Path, path: str, layout: str) -> None:
    """Set how new files in the directory PATH are striped: LAYOUT is like count=4,size=1M,pool=fast.

    For a tree that no forwarder serves, or one with a metadata service. In a mount:
    setfattr -n user.fairlead.layout -v LAYOUT DIR.
    """
    from fairlead.steer.fs.trees.base import ROOT
    from fairlead.steer.targets.config import build_config_striping, list_config_pools, parse_config_layout, read_config
    from fairlead.steer.targets.layouts import NAME
    from fairlead.steer.targets.tree import open_tree

    config = read_config(file)
    try:
        parse_config_layout(layout, build_config_striping(config), list_config_pools(config))
    except ValueError as error:
        raise UsageError(
            f"invalid layout: {error}", where=layout, remedy="write it like count=4,size=1M,pool=fast"
        ) from error
    opened = open_tree(str(file))
    try:
        node = ROOT
        for name in filter(None, path.split("/")):
            node = opened.lookup(node, os.fsencode(name))[0]
        opened.set_attribute(node, NAME, layout.encode(), 0)
    except FileNotFoundError as error:
        raise InputError("no such path in the tree", where=path, remedy="give a path from the tree's root") from error
    except FileExistsError as error:
        remedy = "set it on a directory or an empty file, and copy the data into a new file"
        raise UsageError("the file has data, which stays where it is", where=path, remedy=remedy) from error
    except OSError as error:
        raise UsageError(
            f"this layout does not fit: {error.strerror}", where=layout, remedy="see docs/reference/targets-layout.md"
        ) from error
    finally:
        opened.close()


@tree.command("serve-metadata")
@click.option("--store", required=True, type=FOLDER, metavar="DIR", help="Directory of the metadata, on a local disk.")
@click.option("--listen", required=True, metavar="ADDRESS", help="As of a forwarder. Port 0: any free one.")
@click.option(
    "--token-key",
    type=FILE,
    metavar="FILE",
    help="Forwarders must present a token made with this key (fairlead token). Required on a network.",
)
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Certificate for a tls: address (PEM).")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Key of the certificate (PEM).")
def serve_tree_metadata(
    store: Path, listen: str, token_key: Path | None, tls_cert: Path | None, tls_key: Path | None
) -> None:
    """Serve the metadata of a striped tree to several forwarders, until SIGTERM.

    The targets file of the forwarders then has `[metadata] service = "ADDRESS"` and, if needed, `token_file = "FILE"`
    and `ca_file = "FILE"`. The token is for any user (`fairlead token issue --any-user`). Use a separate key: whoever
    has one of its tokens can change every file's metadata.
    """
    from fairlead.core.access.tls import build_tls_server_context
    from fairlead.core.access.tokens import read_token_key
    from fairlead.steer.forwarding.forwarder.run import list_run_end_signals
    from fairlead.steer.fs.wire.address import parse_address
    from fairlead.steer.targets import service

    stopping = list_run_end_signals()
    # The threads inherit the mask, so that the signal waits for this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    try:
        key = None if token_key is None else read_token_key(token_key)
        tls = build_tls_server_context(tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
        running = service.run_metadata_service(str(store), parse_address(listen), key, tls)
        try:
            print_message(f"serving the metadata in {store} on {running.address}")
            signal.sigwait(stopping)
        finally:
            running.close()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
