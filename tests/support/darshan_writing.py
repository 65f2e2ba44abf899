"""Writes Darshan logs of any format version, byte order and compression, for tests of the reader."""

from __future__ import annotations

import bz2
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = 6567223
SLOTS_341 = (
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
    "FUTURE",
)
SLOTS_321 = tuple(name for name in SLOTS_341 if name != "PNETCDF_VAR")
SLOTS_310 = tuple(name for name in SLOTS_321 if name != "H5D")
START_S, START_NS = 1_500_000_000, 123_456_789
PACKERS = {0: zlib.compress, 1: bz2.compress, 2: bytes}


@dataclass
class Module:
    """Content of a module's region; `streams` are packed one by one, as processes of a job do."""

    version: int
    streams: list[bytes]
    partial: bool = False


@dataclass
class Log:
    """What to write."""

    version: str = "3.41"
    order: str = "<"
    compression: int = 0
    processes: int = 2
    start: tuple[int, int] = (START_S, START_NS)
    end: tuple[int, int] = (START_S + 10, START_NS)
    metadata: str = "lib_ver=3.5.0\nh=a=1;b=2\n"
    executable: str = "./app -x 1"
    mounts: tuple[tuple[str, str], ...] = (("lustre", "/scratch"), ("ext4", "/"))
    names: dict[int, str] = field(default_factory=lambda: {1: "/scratch/a", 2: "/home/b", 3: "<STDOUT>"})
    modules: dict[str, Module] = field(default_factory=dict)

    def pack(self) -> bytes:
        """The bytes of the log."""
        fine = self.version >= "3.41"
        slots, flags = (64, "7xQ") if fine else (16, "3xI")
        names_of = SLOTS_341 if fine else SLOTS_321 if self.version >= "3.20" else SLOTS_310
        header = struct.Struct(f"{self.order}8sqB{flags}QQ{2 * slots}Q{slots}I")
        squeeze = PACKERS[self.compression]
        body = squeeze(self._job(fine))
        names = squeeze(self._names()) if self.names else b""
        names_map = (header.size + len(body), len(names)) if names else (0, 0)
        body += names
        regions, versions, partial = [0] * (2 * slots), [0] * slots, 0
        for name, module in self.modules.items():
            slot = names_of.index(name)
            data = b"".join(squeeze(stream) for stream in module.streams)
            regions[2 * slot : 2 * slot + 2] = [header.size + len(body), len(data)]
            versions[slot] = module.version
            partial |= module.partial << slot
            body += data
        head = header.pack(self.version.encode(), MAGIC, self.compression, partial, *names_map, *regions, *versions)
        return head + body

    def _job(self, fine: bool) -> bytes:
        times = (*self.start, *self.end) if fine else (self.start[0], self.end[0])
        fixed = struct.pack(f"{self.order}{3 + len(times)}q", 1000, *times, self.processes, 4711)
        mounts = "".join(f"\n{kind}\t{path}" for kind, path in self.mounts)
        return fixed + self.metadata.encode().ljust(1024, b"\0") + f"{self.executable}{mounts}".encode() + b"\0"

    def _names(self) -> bytes:
        if self.version >= "3.10":
            return b"".join(
                struct.pack(f"{self.order}Q", key) + name.encode() + b"\0" for key, name in self.names.items()
            )
        packed = ((key, name.encode()) for key, name in self.names.items())
        return b"".join(struct.pack(f"{self.order}QI", key, len(raw)) + raw for key, raw in packed)

    def write(self, folder: Path) -> Path:
        """A file of the log."""
        path = folder / "written.darshan"
        path.write_bytes(self.pack())
        return path


def trace(order: str, words: int, key: int, rank: int, host: str, writes: list, reads: list) -> bytes:
    """A DXT record; a segment is (offset, length, start s, end s)."""
    head = struct.pack(f"{order}Qqq64sqq", key, rank, 0, host.encode(), len(writes), len(reads))
    tail = b"\xaa" * 8 if words == 5 else b""
    return head + b"".join(struct.pack(f"{order}qqdd", *segment) + tail for segment in (*writes, *reads))


def heat(order: str, key: int, rank: int, width: float, writes: list[int], reads: list[int]) -> bytes:
    """A HEATMAP record."""
    return struct.pack(f"{order}Qqdq16x{2 * len(writes)}q", key, rank, width, len(writes), *writes, *reads)


def counted(
    order: str, key: int, rank: int, counters: list[int], floats: list[float], file: int | None = None
) -> bytes:
    """A record of a counter module."""
    ids = (key, rank) if file is None else (key, rank, file)
    return struct.pack(
        f"{order}Qq{'' if file is None else 'Q'}{len(counters)}q{len(floats)}d", *ids, *counters, *floats
    )
