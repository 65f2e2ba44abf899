"""TOKIO time series in HDF5, as pytokio writes them from LMT and collectd: targets, their fullness, metadata servers,
burst-buffer devices. Not here: their counters' origin (`lmt`, `collectd`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.errors import CorruptInputError, MissingDependencyError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import DEVICE, METADATA, TARGET, TableSpec, build_table_batch, build_table_word_column
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.sources.base import Item

if TYPE_CHECKING:
    import h5py

MAGIC = b"\x89HDF\r\n\x1a\n"
_READ = ("readbytes", "readrates")
_WRITTEN = ("writebytes", "writerates")
_OPERATIONS = {
    "opens": "open",
    "closes": "close",
    "getattrs": "getattr",
    "getxattrs": "getxattr",
    "setattrs": "setattr",
    "setxattrs": "setxattr",
    "links": "link",
    "unlinks": "unlink",
    "mkdirs": "mkdir",
    "rmdirs": "rmdir",
    "mknods": "mknod",
    "renames": "rename",
    "statfss": "statfs",
}
_NOT_KEPT = ("dataservers", "mdservers", "failover")
_UNITS = {"bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_CELLS = 1 << 18
"""Values of a data set read at once."""
Floats = NDArray[np.float64]


class TokioSource:
    """`Source` of pytokio's HDF5 files. A value of minus zero is one that was never measured."""

    name = "tokio"

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether the content is HDF5 (no other source reads any)."""
        return head.startswith(MAGIC)

    def read(self, path: Path) -> Iterator[Item]:
        """`target`, `device` and `metadata` rows, dated by the end of their interval. Raises CorruptInputError,
        MissingDependencyError."""
        opened = _module()
        where = str(path)
        try:
            with opened.File(path, "r") as file:
                groups = [name for name in ("datatargets", "mdtargets", "fullness") if name in file]
                if not groups:
                    raise CorruptInputError(
                        "an HDF5 file without time series of targets",
                        where=where,
                        remedy="give a file written by pytokio",
                    )
                for name in groups:
                    yield from _group(file[name], name, where)
                for name in _NOT_KEPT:
                    if name in file:
                        yield Missing(
                            kind="not_kept",
                            what=f"processor and memory load ({name})",
                            why="no record table holds it",
                            where=where,
                        )
        except (OSError, KeyError, RuntimeError, ValueError) as fault:
            raise CorruptInputError(
                f"HDF5 cannot read it ({fault})", where=where, remedy="copy it again when its writer has finished"
            ) from fault


def _module() -> Any:
    try:
        import h5py
    except ImportError as fault:
        raise MissingDependencyError("HDF5 archives need h5py", remedy="pip install 'fairlead[archives]'") from fault
    return h5py


def _group(group: h5py.Group, name: str, where: str) -> Iterator[Item]:
    stamps = np.asarray(group["timestamps"][:], np.int64)
    if len(stamps) < 2 or (np.diff(stamps) <= 0).any():
        raise CorruptInputError(f"the times of {name} do not increase", where=where, remedy="write the file again")
    interval_s = int(np.median(np.diff(stamps)))
    if name == "mdtargets":
        yield from _operations(group, stamps, interval_s)
        return
    sets = _traffic(group) if name == "datatargets" else _fullness(group)
    if not sets:
        yield Missing(kind="not_kept", what=f"the data sets of {name}", why="none is of a known name", where=where)
        return
    labels = _labels(next(iter(sets.values()))[0])
    step = max(1, _CELLS // max(len(labels), 1))
    for start in range(0, len(stamps), step):
        columns = {
            column: _whole(np.asarray(data[start : start + step], np.float64), _factor(data, per_s, interval_s))
            for column, (data, per_s) in sets.items()
        }
        rows = _rows(columns, labels, stamps[start : start + step], interval_s, _spec(labels, name))
        if rows.num_rows:
            yield rows


def _traffic(group: h5py.Group) -> dict[str, tuple[h5py.Dataset, bool]]:
    """Data sets by column, and whether they hold bytes per second. pytokio labels `readbytes` bytes/sec as well, though
    it holds the bytes of one interval: the name is right."""
    found = {}
    for column, names in (("read_bytes", _READ), ("write_bytes", _WRITTEN)):
        for name in names:
            if name in group:
                found[column] = (group[name], name.endswith("rates"))
                break
    return found


def _fullness(group: h5py.Group) -> dict[str, tuple[h5py.Dataset, bool]]:
    names = {"used_bytes": "bytes", "capacity_bytes": "bytestotal", "inodes_used": "inodes", "inodes": "inodestotal"}
    return {column: (group[name], False) for column, name in names.items() if name in group}


def _factor(data: h5py.Dataset, per_s: bool, interval_s: int) -> float:
    units = data.attrs.get("units", b"")
    word = (units.decode() if isinstance(units, bytes) else str(units)).lower().partition("/")[0]
    return _UNITS.get(word, 1) * (interval_s if per_s else 1)


def _labels(data: h5py.Dataset) -> list[str]:
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in data.attrs["columns"]]


def _whole(values: Floats, factor: float) -> pa.Array:
    """A table of values, flat by row, as whole numbers; null where nothing was measured."""
    flat = values.ravel()
    missing = ~np.isfinite(flat) | ((flat == 0) & np.signbit(flat))
    return pa.array(np.rint(np.where(missing, 0, flat) * factor).astype(np.int64), mask=missing)


def _spec(labels: list[str], name: str) -> TableSpec:
    """`bb1:nvme0n1` is a device of a node, anything else a storage target."""
    return DEVICE if name == "datatargets" and all(":" in label for label in labels) else TARGET


def _rows(
    columns: dict[str, pa.Array], labels: list[str], stamps: NDArray[np.int64], interval_s: int, spec: TableSpec
) -> pa.RecordBatch:
    """Rows of the cells of which at least one column is known."""
    known = np.zeros(len(stamps) * len(labels), bool)
    for column in columns.values():
        known |= column.is_valid().to_numpy(zero_copy_only=False)
    at = np.flatnonzero(known)
    gauge = "used_bytes" in columns or "capacity_bytes" in columns
    ends = stamps if gauge else stamps + interval_s
    out: dict[str, object] = {name: column.take(pa.array(at)) for name, column in columns.items()}
    out["ts_ns"] = np.repeat(ends, len(labels))[at] * NS_PER_S
    if not gauge:
        out["interval_ns"] = np.full(len(at), interval_s * NS_PER_S)
    cells = at % max(len(labels), 1)
    if spec is DEVICE:
        nodes, devices = zip(*(label.split(":", 1) for label in labels), strict=True)
        out |= {"node": _named(nodes, cells), "device": _named(devices, cells)}
    else:
        out |= {"target": _named(labels, cells), "source": build_table_word_column("tokio", len(at))}
    return build_table_batch(spec, out)


def _named(labels: Any, cells: NDArray[np.int64]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(cells.astype(np.int32)), pa.array(list(labels), pa.string()))


def _operations(group: h5py.Group, stamps: NDArray[np.int64], interval_s: int) -> Iterator[Item]:
    """Counts of operations by metadata server; intervals without one have no row."""
    for name, op in _OPERATIONS.items():
        if name not in group:
            continue
        data = group[name]
        counts = np.asarray(data[:], np.float64)
        at = np.flatnonzero((counts.ravel() > 0) & np.isfinite(counts.ravel()))
        labels = _labels(data)
        if not len(at):
            continue
        yield build_table_batch(
            METADATA,
            {
                "ts_ns": (np.repeat(stamps, len(labels))[at] + interval_s) * NS_PER_S,
                "interval_ns": np.full(len(at), interval_s * NS_PER_S),
                "server": _named(labels, at % len(labels)),
                "op": build_table_word_column(op, len(at)),
                "count": np.rint(counts.ravel()[at]).astype(np.int64),
                "source": build_table_word_column("tokio", len(at)),
            },
        )
