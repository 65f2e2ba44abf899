"""Checksums of the entries of a table's log, kept beside it: the format itself has none.

A line an entry in `_log_sums`, added after the commit: an entry without a line (killed in between, or of before) counts
as unverified, never as damaged. Not here: the log (`delta_table`), the table's files (`checksums`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fairlead.store.checksums import compute_file_checksum, explain_damaged_file
from fairlead.store.lake_folder import write_lake_folder_file

NAME = "_log_sums"
_ENTRY = re.compile(r"\d{20}\.(json|checkpoint\.parquet)")
_LINE = re.compile(r"(\d{20}\.(?:json|checkpoint\.parquet)) ([0-9a-f]{32})")
_TAIL = 1 << 16
"""The end of the file that is read to open a table: some 700 entries, of which it needs the last 50."""


def add_log_checksums(folder: Path, version: int) -> None:
    """Notes the checksums of entry `version` of the log in table `folder`, and of the checkpoint of that version.
    Raises OSError."""
    log = folder / "_delta_log"
    _append(folder, [log / f"{version:020d}.json", log / f"{version:020d}.checkpoint.parquet"])


def complete_log_checksums(folder: Path) -> int:
    """Notes the checksums of entries that have none and forgets entries that are gone; returns how many of the noted
    entries were older than the newest two versions: those were unverified. Raises OSError."""
    known = read_log_checksums(folder)
    there = {path.name: path for path in list_log_entries(folder)}
    fresh = [there[name] for name in sorted(there.keys() - known.keys())]
    if known.keys() - there.keys():
        lines = "".join(f"{name} {known[name]}\n" for name in sorted(known.keys() & there.keys()))
        write_lake_folder_file(folder / NAME, lines.encode())
    _append(folder, fresh)
    newest = max((int(name[:20]) for name in there), default=0)
    return sum(int(path.name[:20]) < newest - 1 for path in fresh)


def read_log_checksums(folder: Path, *, tail: bool = False) -> dict[str, str]:
    """Checksum by name of entry, as noted; of the last entries alone with `tail`. Of lines that are torn: none."""
    try:
        with (folder / NAME).open("rb") as file:
            if tail:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            text = file.read().decode("ascii", "replace")
    except FileNotFoundError:
        return {}
    return {found[1]: found[2] for line in text.split("\n") if (found := _LINE.fullmatch(line))}


def list_log_entries(folder: Path) -> Iterator[Path]:
    """Entries and checkpoints of the log of table `folder`."""
    try:
        names = sorted(os.listdir(folder / "_delta_log"))  # noqa: PTH208  (names are all that is needed)
    except FileNotFoundError:
        return
    for name in names:
        if _ENTRY.fullmatch(name):
            yield folder / "_delta_log" / name


def check_log_to_open(folder: Path) -> None:
    """Checks the entries that opening the table in `folder` reads: the newest checkpoint and what follows it. Raises
    DamagedLakeError."""
    known = read_log_checksums(folder, tail=True)
    if not known:
        return
    log = folder / "_delta_log"
    checkpoint = find_last_checkpoint(log)
    wanted = [log / f"{checkpoint:020d}.checkpoint.parquet"] if checkpoint >= 0 else []
    last = max(int(name[:20]) for name in known)
    wanted += [log / f"{version:020d}.json" for version in range(checkpoint + 1, last + 1)]
    for path in find_damaged_entries(wanted, known):
        raise explain_damaged_file(path)


def find_damaged_entries(
    paths: Iterable[Path], known: dict[str, str], pace: Callable[[int], None] = lambda _: None
) -> Iterator[Path]:
    """Those of the entries whose content is not what was noted; one that is gone was cleaned up."""
    for path in paths:
        noted = known.get(path.name)
        try:
            if noted is not None and compute_file_checksum(path, pace) != noted:
                yield path
        except FileNotFoundError:
            continue


def find_last_checkpoint(log: Path) -> int:
    """The version of the newest checkpoint as its pointer says; -1: there is none."""
    try:
        version = json.loads((log / "_last_checkpoint").read_bytes())["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return -1
    return version if isinstance(version, int) else -1


def _append(folder: Path, paths: Iterable[Path]) -> None:
    lines = []
    for path in paths:
        try:
            lines.append(f"{path.name} {compute_file_checksum(path)}\n")
        except FileNotFoundError:
            continue
    if lines:
        with (folder / NAME).open("ab") as file:
            file.write(("\n" + "".join(lines)).encode())  # the line before may be torn
