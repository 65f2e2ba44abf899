"""The container of a Darshan log: header, region map, job record with executable and mount table.

Log format versions 3.00 to 3.41 (Darshan 3.0 to 3.5), either byte order. Not here: names and module records.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from fairlead.core.errors import CorruptInputError, InputError, UnknownFormatError, UnsupportedVersionError
from fairlead.see.sources.darshan.records import MOST_PROCESSES
from fairlead.see.sources.darshan.regions import DamagedRegionError, LogFile, read_region_blocks

MAGIC = 6567223
NEWEST = (3, 41)

MODULES = (
    "NULL",
    "POSIX",
    "MPI-IO",
    "H5F",
    "H5D",
    "PNETCDF_FILE",
    "PNETCDF_VAR",
    "BG/Q",
    "LUSTRE",
    "STDIO",
    "DXT_POSIX",
    "DXT_MPIIO",
    "MDHIM",
    "APXC",
    "APMPI",
    "HEATMAP",
    "DFS",
    "DAOS",
)
"""Modules by number in the newest format; H5D came with 3.20, PNETCDF_VAR with 3.41, which moved those behind."""

_HEADER_MIN = 24
_JOB_LIMIT = 1 << 20
_METADATA_BYTES = 1024
_LAST_START_S = 5_000_000_000
_REFETCH = "fetch the log again from where it was written; the log of a killed job may be incomplete"


@dataclass(frozen=True)
class ModuleInfo:
    """A module's region: offset and compressed size in bytes, record version, and whether records are missing."""

    name: str
    version: int
    partial: bool
    compressed_bytes: int
    offset: int


@dataclass(frozen=True)
class Header:
    """What the first bytes say. `order` is `<` or `>`; `names` is (offset, length) of the name region."""

    version: tuple[int, int]
    order: str
    compression: int
    names: tuple[int, int]
    modules: tuple[ModuleInfo, ...]
    job: tuple[int, int]


@dataclass(frozen=True)
class JobRecord:
    """The job as recorded. Times are epoch ns, None when the log holds no usable one.

    Before 3.41 the end is a whole second; it counts as the end of that second, so that it never precedes the last
    operation (libdarshan adds the same second to the run time).
    """

    job_id: str
    uid: int
    processes: int | None
    start_ns: int | None
    end_ns: int | None
    executable: str
    mounts: tuple[tuple[str, str], ...]
    metadata: dict[str, str]


def is_darshan_container(head: bytes) -> bool:
    """Whether content beginning with `head` carries Darshan's magic number, in either byte order."""
    return len(head) >= 16 and (
        struct.unpack_from("<q", head, 8)[0] == MAGIC or struct.unpack_from(">q", head, 8)[0] == MAGIC
    )


def read_container_header(log: LogFile) -> Header:
    """Parse the header. Raises UnknownFormatError, UnsupportedVersionError or CorruptInputError."""
    head = log.read(0, _HEADER_MIN)
    if not is_darshan_container(head):
        raise _unrecognised(head, log.where)
    order = "<" if struct.unpack_from("<q", head, 8)[0] == MAGIC else ">"
    version = _version(head[:8], log.where)
    wide = version >= (3, 41)
    slots = 64 if wide else 16
    fields = struct.Struct(f"{order}8sqB{'7xQ' if wide else '3xI'}QQ{2 * slots}Q{slots}I")
    raw = log.read(0, fields.size)
    if len(raw) < fields.size:
        raise CorruptInputError("the log ends within its header", where=log.where, remedy=_REFETCH)
    _, _, compression, partial, names_offset, names_length, *rest = fields.unpack(raw)
    if compression > 2:
        raise CorruptInputError(f"unknown compression {compression}", where=log.where, remedy=_REFETCH)
    modules = _modules(version, partial, rest[: 2 * slots], rest[2 * slots :])
    # The job record lies before everything else; the names follow it, unless there are none.
    starts = [names_offset] if fields.size < names_offset <= log.size else [module.offset for module in modules]
    ends = [offset for offset in starts if fields.size < offset <= log.size]
    return Header(
        version=version,
        order=order,
        compression=compression,
        names=(names_offset, names_length),
        modules=modules,
        job=(fields.size, min(ends, default=log.size) - fields.size),
    )


def _unrecognised(head: bytes, where: str) -> InputError:
    if not head:
        return CorruptInputError("the file is empty", where=where, remedy=_REFETCH)
    if head.startswith(b"\x1f\x8b"):
        return UnknownFormatError("compressed with gzip as a whole", where=where, remedy="gunzip it first")
    what = "not a Darshan log: its magic number is missing"
    return UnknownFormatError(what, where=where, remedy="check what wrote this file")


def _version(text: bytes, where: str) -> tuple[int, int]:
    found = re.match(rb"(\d+)\.(\d+)", text)
    if found is None:
        raise CorruptInputError("the version in the header is not readable", where=where, remedy=_REFETCH)
    version = (int(found[1]), int(found[2]))
    if version > NEWEST:
        raise UnsupportedVersionError(
            f"log format {version[0]}.{version[1]:02d} is newer than 3.41, the newest fairlead reads",
            where=where,
            remedy="update fairlead",
        )
    if version < (3, 0):
        raise UnsupportedVersionError(
            f"log format {version[0]}.{version[1]:02d} is older than 3.00, the oldest fairlead reads",
            where=where,
            remedy="convert it with the darshan-convert of a Darshan 2 to 3 release",
        )
    return version


def _modules(version: tuple[int, int], partial: int, regions: list[int], versions: list[int]) -> tuple[ModuleInfo, ...]:
    later = {"H5D"} if version < (3, 20) else set()
    later |= {"PNETCDF_VAR"} if version < (3, 41) else set()
    names = [name for name in MODULES if name not in later]
    return tuple(
        ModuleInfo(
            name=names[slot] if slot < len(names) else f"module {slot}",
            version=record_version,
            partial=bool(partial >> slot & 1),
            compressed_bytes=regions[2 * slot + 1],
            offset=regions[2 * slot],
        )
        for slot, record_version in enumerate(versions)
        if regions[2 * slot + 1]
    )


def read_container_job(log: LogFile, header: Header) -> JobRecord:
    """Parse the job record. Raises CorruptInputError when it cannot be read: without it no time can be placed."""
    raw = b""
    try:
        for block in read_region_blocks(log, *header.job, header.compression, _JOB_LIMIT):
            raw += block
    except DamagedRegionError as error:
        raise CorruptInputError(f"its job record {error}", where=log.where, remedy=_REFETCH) from error
    fine = header.version >= (3, 41)
    fields = struct.Struct(f"{header.order}{'7q' if fine else '5q'}")
    if len(raw) < fields.size + _METADATA_BYTES:
        raise CorruptInputError("its job record is incomplete", where=log.where, remedy=_REFETCH)
    values = fields.unpack_from(raw)
    uid, start_s, start_rest, end_s, end_rest, processes, job_id = (
        values if fine else (values[0], values[1], 0, values[2], 1_000_000_000, values[3], values[4])
    )
    tail = fields.size + _METADATA_BYTES
    executable, *mounts = _text(raw[tail:]).split("\n")
    return JobRecord(
        job_id=str(job_id),
        uid=uid,
        processes=processes if 0 < processes <= MOST_PROCESSES else None,
        start_ns=_epoch_ns(start_s, start_rest),
        end_ns=_epoch_ns(end_s, end_rest),
        executable=executable,
        mounts=_mounts(mounts),
        metadata=_metadata(_text(raw[fields.size : tail])),
    )


def _text(raw: bytes) -> str:
    """Up to the first zero byte; bytes that are no UTF-8 are kept apart as escapes."""
    return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _epoch_ns(seconds: int, rest_ns: int) -> int | None:
    if not (0 < seconds < _LAST_START_S and 0 <= rest_ns <= 1_000_000_000):
        return None
    return seconds * 1_000_000_000 + rest_ns


def _mounts(lines: list[str]) -> tuple[tuple[str, str], ...]:
    """(mount point, file system type), the longest mount point first; a command line may have lines of its own."""
    pairs = [line.partition("\t")[::2] for line in lines]
    good = [(path.partition("\t")[0], kind) for kind, path in pairs if kind and path.startswith("/")]
    return tuple(sorted(good, key=lambda mount: (-len(mount[0]), mount[0])))


def _metadata(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.split("\n"))
    return {key: value for key, equals, value in pairs if equals}
