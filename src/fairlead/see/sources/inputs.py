"""From paths to jobs: detect each file by its content, gather the files of one job, read them as one stream.

A file that cannot be read is reported with its error; the others are still read.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pyarrow as pa

from fairlead.core.errors import (
    CorruptInputError,
    FairleadError,
    InputError,
    PluginError,
    SourceDefectError,
    UnknownFormatError,
)
from fairlead.core.extensions import Guarded
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.see.sources.base import HEAD_BYTES, Item, JoinableSource, Origin, SeriesSource, Source
from fairlead.see.sources.registered_sources import list_registered_sources, load_registered_source

_GZIP_MAGIC = b"\x1f\x8b"
_TRACE_NAMES = (".darshan", ".pfw", ".pfw.gz")
"""Endings of names by which a file in a folder is missed when it cannot be read. They never decide what is read."""


@dataclass(frozen=True)
class InputFile:
    """One recognised file. `named` is True when it was given itself and not found in a folder."""

    path: Path
    source: Source
    named: bool


@dataclass(frozen=True)
class Failure:
    """A file that could not be used, and why."""

    path: Path
    error: FairleadError


@dataclass
class JobInput:
    """The files of one job (or of one folder, for formats that do not number jobs)."""

    source: Source
    files: list[Path] = field(default_factory=list)


def set_source_time_zone(source: Source, zone: str | None) -> Source:
    """Return the source, with local times taken as of `zone` where it has any."""
    return cast("Source", source.replace_fields(time_zone=zone)) if zone and isinstance(source, Guarded) else source


def read_input_head(path: Path) -> bytes:
    """The first bytes of a file, gunzipped if it is gzip. Raises InputError when it is no file or cannot be opened."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind != stat.S_IFREG:
            raise _special(path, kind)
        with path.open("rb") as stream:
            raw = stream.read(HEAD_BYTES * 4)
    except OSError as fault:
        raise explain_unreadable_input(path, fault) from fault
    if raw[:2] != _GZIP_MAGIC:
        return raw[:HEAD_BYTES]
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(raw, HEAD_BYTES)
    except zlib.error as fault:
        raise CorruptInputError(
            f"its gzip data is broken ({fault})", where=str(path), remedy="copy it again from where it was written"
        ) from fault


def _special(path: Path, kind: int) -> InputError:
    """What can be named like a file but not read like one: reading a pipe may wait for ever, a device never end."""
    what = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}.get(kind, "a device")
    remedy = (
        "write its content to a file and give that file" if kind == stat.S_IFIFO else "give a file or a folder of files"
    )
    return InputError(f"this is {what}, not a file", where=str(path), remedy=remedy)


def explain_unreadable_input(path: Path, fault: OSError) -> InputError:
    """The error of a file that the system would not let be read, with what to do about it."""
    what = fault.strerror or str(fault)
    remedy = {
        errno.ENOENT: "check the spelling",
        errno.ENOTDIR: "check the spelling: a part of the path is not a directory",
        errno.ENAMETOOLONG: "check the spelling",
        errno.ELOOP: "the links form a loop: give the file itself",
        errno.EACCES: "ask its owner for read permission, or run as a user who may read it",
        errno.EPERM: "ask its owner for read permission, or run as a user who may read it",
    }.get(fault.errno or 0, "check the file system it is on, or copy it and give the copy")
    return InputError(what[:1].lower() + what[1:], where=str(path), remedy=remedy)


def name_input_content(path: Path, source: Source) -> str:
    """Name of a file's content: `darshan:` and blake2b-16 of its bytes. Neither its path nor the version of fairlead
    is part of it, so neither a copy nor an upgrade counts a trace twice. Raises InputError."""
    try:
        with path.open("rb") as stream:
            return f"{source.name}:{hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()}"
    except OSError as fault:
        raise explain_unreadable_input(path, fault) from fault


def detect_input_source(path: Path) -> Source:
    """The source that accepts a file's content. A source that fails to look is passed over. Raises UnknownFormatError,
    InputError; SourceDefectError when no other source knows the file either."""
    head = read_input_head(path)
    if not head:
        raise CorruptInputError("the file is empty", where=str(path), remedy="check whether its writer finished")
    defect: SourceDefectError | None = None
    for name in list_registered_sources():
        try:
            candidate = load_registered_source(name)
            if candidate.accepts(head, path):
                return candidate
        except SourceDefectError as fault:
            defect = fault
        except PluginError as fault:
            defect = SourceDefectError(f"{fault.what}; the file is left out", where=str(path), remedy=fault.remedy)
    if defect is not None:
        raise defect
    raise UnknownFormatError(
        "not a known trace format",
        where=str(path),
        remedy=f"formats read: {', '.join(list_registered_sources())}; see the reference page of each source",
    )


def discover_input_files(paths: Sequence[Path]) -> tuple[list[InputFile], list[Failure]]:
    """Recognised files under `paths` in a stable order, and those that could not be used.

    In a folder, files of no known format, empty ones and such of broken gzip data are passed over in silence, unless
    their name says that a trace was meant. A folder that cannot be listed or holds no trace at all is a failure.
    """
    found: list[InputFile] = []
    failures: list[Failure] = []
    for path in paths:
        if not _is_folder(path):
            _try(path, found, failures, named=True)
            continue
        before, failed = len(found), len(failures)
        for file in _walk(path, failures):
            _try(file, found, failures, named=False)
        if len(found) == before and len(failures) == failed:
            failures.append(
                Failure(
                    path,
                    InputError(
                        "the directory holds no known trace",
                        where=str(path),
                        remedy=f"formats read: {', '.join(list_registered_sources())}",
                    ),
                )
            )
    return _distinct(found), failures


def _try(path: Path, found: list[InputFile], failures: list[Failure], *, named: bool) -> None:
    try:
        found.append(InputFile(path, detect_input_source(path), named))
    except (UnknownFormatError, CorruptInputError) as error:
        if named or path.name.endswith(_TRACE_NAMES):
            failures.append(Failure(path, error))
    except SourceDefectError as error:  # in a folder once: it may be unable to look at any file
        if named or all(failure.error.what != error.what for failure in failures):
            failures.append(Failure(path, error))
    except FairleadError as error:
        failures.append(Failure(path, error))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:  # said when it is opened
        return False


def _walk(folder: Path, failures: list[Failure]) -> Iterator[Path]:
    """Regular files below a folder, hidden ones left out, sorted; links to folders are not followed. Folders that
    cannot be listed are failures."""
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                listed = sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries if e.name[0] != ".")
        except OSError as fault:
            failures.append(Failure(place, explain_unreadable_input(place, fault)))
            continue
        yield from (place / name for name, inner in listed if not inner and _may_be_read(place / name))
        waiting += [place / name for name, inner in reversed(listed) if inner]


def _may_be_read(path: Path) -> bool:
    """Whether it is a regular file, or one that cannot even be looked at (which is said when it is opened)."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as fault:
        return fault.errno not in (errno.ENOENT, errno.ELOOP)  # a link that leads nowhere


def _distinct(files: list[InputFile]) -> list[InputFile]:
    seen: dict[Path, InputFile] = {}
    for file in files:
        seen.setdefault(file.path.resolve(), file)
    return list(seen.values())


def group_input_files(files: Iterable[InputFile]) -> list[JobInput]:
    """Gather files into jobs: by the job a file names, else by folder; and in time, as job numbers are reused and a
    folder may hold traces of many runs (`Origin`)."""
    groups: dict[tuple[str, ...], list[tuple[InputFile, Origin]]] = {}
    for file in files:
        origin = _origin(file)
        place = ("job", origin.key) if origin.key is not None else ("folder", str(file.path.parent))
        groups.setdefault((file.source.name, *place), []).append((file, origin))
    return [job for members in groups.values() for job in _runs(members)]


def _origin(file: InputFile) -> Origin:
    if not isinstance(file.source, JoinableSource):
        return Origin(None, 0, None, 0)
    try:
        return file.source.find_origin(file.path, read_input_head(file.path))
    except FairleadError:
        return Origin(f"file {file.path}", None, None, 0)


def _runs(members: list[tuple[InputFile, Origin]]) -> list[JobInput]:
    """Split files of one job number or folder where a run ended long before the next began. Undated ones go with the
    others when there is but one run."""
    source = members[0][0].source
    dated = sorted((m for m in members if m[1].start_ns is not None), key=lambda m: m[1].start_ns or 0)
    undated = [m for m in members if m[1].start_ns is None]
    runs: list[JobInput] = []
    until = 0
    for file, origin in dated:
        start = origin.start_ns or 0
        if not runs or start - until > origin.apart_ns:
            runs.append(JobInput(source))
            until = start
        runs[-1].files.append(file.path)
        until = max(until, origin.end_ns or start)
    if undated and len(runs) <= 1:
        runs = runs or [JobInput(source)]
        runs[0].files += [file.path for file, _ in undated]
    else:
        runs += [JobInput(source, [file.path]) for file, _ in undated]
    order = {file.path: place for place, (file, _) in enumerate(members)}
    for run in runs:
        run.files.sort(key=lambda path: order[path])
    return sorted(runs, key=lambda run: order[run.files[0]])


def read_job_inputs(job: JobInput, failures: list[Failure]) -> Iterator[Item]:
    """The items of all files of a job as one stream; files that fail are added to `failures`.

    Logs that number their ranks from 0 each: those of one job that ran at the same time are set side by side, those
    that ran one after the other (steps of a batch job) keep their numbers. Copies of a file count once.
    """
    files, copies = _without_copies(job.files)
    for first, copy in copies:
        why = f"its content is the same as {first} and counts once"
        yield Missing(kind="copy", what="a copy among the inputs", why=why, where=str(copy))
    if isinstance(job.source, SeriesSource) and len(files) > 1:
        yield from _together(job.source.read_series, files, failures)
        return
    beside = assign_input_ranks(job.source, files)
    for path in files:
        base = beside.get(path, 0)
        try:
            for item in job.source.read(path):
                if base and isinstance(item, Job):
                    yield msgspec.structs.replace(item, processes=base + max(item.processes or 1, 1))
                elif isinstance(item, pa.RecordBatch):
                    yield shift_input_ranks(item, base)
                else:
                    yield _placed(item, path) if isinstance(item, Missing) else item
        except FairleadError as error:
            failures.append(Failure(path, error))
        except OSError as fault:
            failures.append(Failure(path, explain_unreadable_input(path, fault)))


def _together(
    series: Callable[[Iterable[Path]], Iterator[Item]], files: list[Path], failures: list[Failure]
) -> Iterator[Item]:
    """Files that carry on from one another (a node's days), read as one."""
    try:
        yield from series(files)
    except FairleadError as error:
        failures.append(Failure(files[0], error))
    except OSError as fault:
        failures.append(Failure(files[0], explain_unreadable_input(files[0], fault)))


def assign_input_ranks(source: Source, files: Sequence[Path]) -> dict[Path, int]:
    """The first rank of each file of a job whose files number their ranks from 0: above those of all files that ran at
    the same time. Empty where there is nothing to do; files that cannot be read are left out."""
    if len(files) < 2 or not (isinstance(source, JoinableSource) and source.ranks_per_log):
        return {}
    placed: list[tuple[float, float, int]] = []
    first: dict[Path, int] = {}
    for path in files:
        try:
            job = next((item for item in source.read(path) if isinstance(item, Job)), None)
        except (FairleadError, OSError):
            continue
        if job is None:
            continue
        start = -math.inf if job.start_ns is None else job.start_ns
        end = math.inf if job.end_ns is None else max(job.end_ns, start)
        first[path] = max((above for begun, over, above in placed if begun < end and start < over), default=0)
        placed.append((start, end, first[path] + max(job.processes or 1, 1)))
    return first


def _without_copies(files: Sequence[Path]) -> tuple[list[Path], list[tuple[Path, Path]]]:
    """Files of different content, and (first, copy) of the others. Only files of one size are looked into."""
    sizes: dict[int, list[Path]] = {}
    for path in files:
        with suppress(OSError):  # said when it is read
            sizes.setdefault(path.stat().st_size, []).append(path)
    copies: dict[Path, Path] = {}
    for alike in sizes.values():
        first_of: dict[bytes, Path] = {}
        for path in alike if len(alike) > 1 else ():
            with suppress(OSError), path.open("rb") as stream:
                first = first_of.setdefault(hashlib.file_digest(stream, "blake2b").digest(), path)
                if first is not path:
                    copies[path] = first
    return [f for f in files if f not in copies], [(first, copy) for copy, first in copies.items()]


def _placed(item: Missing, path: Path) -> Missing:
    return item if item.where else msgspec.structs.replace(item, where=str(path))


def shift_input_ranks(batch: pa.RecordBatch, base: int) -> pa.RecordBatch:
    """The batch with `base` added to its ranks; -1 (all ranks) stays."""
    if base == 0 or "rank" not in batch.schema.names:
        return batch
    at = batch.schema.get_field_index("rank")
    ranks = batch.column(at).to_numpy(zero_copy_only=False)
    moved = np.where(ranks >= 0, ranks + base, ranks).astype(np.int32)
    return batch.set_column(at, batch.schema.field(at), pa.array(moved, pa.int32()))
