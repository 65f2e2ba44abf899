"""Record layouts of the counter modules, per module and version, as names in order and as NumPy dtypes.

Old versions lack counters: they are left out here, so that their columns are null and never zero or -1.
Not here: what column a counter becomes (`counters`), and the modules of variable record size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fairlead.core.model.tables import SIZE_BINS

Names = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A record is: id and rank, `file_record` says whether the id of its file follows, 64-bit counters, doubles.

    Names are lower case, without the module's prefix and the `F_` of floating-point counters.
    """

    counters: Names
    floats: Names
    file_record: bool = False

    def build_dtype(self, order: str) -> np.dtype[np.void]:
        """The record as written on a machine of this byte order (`<` or `>`)."""
        file_record = [("file_record", f"{order}u8")] if self.file_record else []
        return np.dtype(
            [
                ("id", f"{order}u8"),
                ("rank", f"{order}i8"),
                *file_record,
                ("counters", f"{order}i8", (len(self.counters),)),
                ("floats", f"{order}f8", (len(self.floats),)),
            ]
        )


def _sizes(infix: str) -> Names:
    bins = [bin_name.lower() for bin_name in SIZE_BINS]
    return tuple(f"size_{way}_{infix}{name}" for way in ("read", "write") for name in bins)


def _four(word: str, suffix: str) -> Names:
    return tuple(f"{word}{k}_{suffix}" for k in range(1, 5))


def _hyperslabs() -> Names:
    """Access size, then length and stride in five dimensions, for the four most frequent accesses."""
    dimensions = [f"{kind}_d{d}" for kind in ("length", "stride") for d in range(1, 6)]
    return tuple(f"access{k}_{part}" for k in range(1, 5) for part in ("access", *dimensions))


def _stamps(words: str, edge: str) -> Names:
    return tuple(f"{word}_{edge}_timestamp" for word in words.split())


def _without(names: Names, *absent: str) -> Names:
    return tuple(name for name in names if name not in absent)


_LATE_STAMPS = ("close_start_timestamp", "open_end_timestamp")
_RANKS = ("fastest_rank", "fastest_rank_bytes", "slowest_rank", "slowest_rank_bytes")
_RANK_FLOATS = ("fastest_rank_time", "slowest_rank_time", "variance_rank_time", "variance_rank_bytes")
_FLOATS = (
    *_stamps("open read write close", "start"),
    *_stamps("open read write close", "end"),
    "read_time",
    "write_time",
    "meta_time",
    "max_read_time",
    "max_write_time",
    *_RANK_FLOATS,
)

_POSIX_4 = (
    "opens",
    "filenos",
    "dups",
    "reads",
    "writes",
    "seeks",
    "stats",
    "mmaps",
    "fsyncs",
    "fdsyncs",
    "rename_sources",
    "rename_targets",
    "renamed_from",
    "mode",
    "bytes_read",
    "bytes_written",
    "max_byte_read",
    "max_byte_written",
    "consec_reads",
    "consec_writes",
    "seq_reads",
    "seq_writes",
    "rw_switches",
    "mem_not_aligned",
    "mem_alignment",
    "file_not_aligned",
    "file_alignment",
    "max_read_time_size",
    "max_write_time_size",
    *_sizes(""),
    *_four("stride", "stride"),
    *_four("stride", "count"),
    *_four("access", "access"),
    *_four("access", "count"),
    *_RANKS,
)
_POSIX_3 = _without(_POSIX_4, "filenos", "dups", "rename_sources", "rename_targets", "renamed_from")
_STREAM_COUNTERS = ("fopens", "freads", "fwrites", "fseeks")
"""Counters of C streams that version 1 of POSIX kept among its own."""
_POSIX_1 = (*_POSIX_3[:6], *_STREAM_COUNTERS, *_POSIX_3[6:])

_MPIIO = (
    "indep_opens",
    "coll_opens",
    "indep_reads",
    "indep_writes",
    "coll_reads",
    "coll_writes",
    "split_reads",
    "split_writes",
    "nb_reads",
    "nb_writes",
    "syncs",
    "hints",
    "views",
    "mode",
    "bytes_read",
    "bytes_written",
    "rw_switches",
    "max_read_time_size",
    "max_write_time_size",
    *_sizes("agg_"),
    *_four("access", "access"),
    *_four("access", "count"),
    *_RANKS,
)

_STDIO_2 = (
    "opens",
    "fdopens",
    "reads",
    "writes",
    "seeks",
    "flushes",
    "bytes_written",
    "bytes_read",
    "max_byte_read",
    "max_byte_written",
    *_RANKS,
)
_STDIO_FLOATS = (
    "meta_time",
    "write_time",
    "read_time",
    *_stamps("open close write read", "start"),
    *_stamps("open close write read", "end"),
    *_RANK_FLOATS,
)

_H5F_FLOATS = (*_stamps("open close", "start"), *_stamps("open close", "end"), "meta_time")
_H5D = (
    "opens",
    "reads",
    "writes",
    "flushes",
    "bytes_read",
    "bytes_written",
    "rw_switches",
    "regular_hyperslab_selects",
    "irregular_hyperslab_selects",
    "point_selects",
    "max_read_time_size",
    "max_write_time_size",
    *_sizes("agg_"),
    *_hyperslabs(),
    *_four("access", "count"),
    "dataspace_ndims",
    "dataspace_npoints",
    "datatype_size",
    *(f"chunk_size_d{d}" for d in range(1, 6)),
    "use_mpiio_collective",
    "use_deprecated",
    *_RANKS,
)

_NC_FILE_3 = (
    "creates",
    "opens",
    "redefs",
    "indep_waits",
    "coll_waits",
    "syncs",
    "bytes_read",
    "bytes_written",
    "wait_failures",
)
_NC_FILE_FLOATS = (*_stamps("open close wait", "start"), *_stamps("open close wait", "end"), "meta_time", "wait_time")
_NC_FILE_FLOATS_2 = (*_stamps("open close", "start"), *_stamps("open close", "end"))
_KINDS = ("var", "var1", "vara", "vars", "varm", "varn")
_NC_VAR = (
    "opens",
    "indep_reads",
    "indep_writes",
    "coll_reads",
    "coll_writes",
    "nb_reads",
    "nb_writes",
    "bytes_read",
    "bytes_written",
    "rw_switches",
    *(f"{call}_{kind}" for call in ("put", "get") for kind in (*_KINDS, "vard")),
    *(f"{call}_{kind}" for call in ("iput", "iget", "bput") for kind in _KINDS),
    "max_read_time_size",
    "max_write_time_size",
    *_sizes("agg_"),
    *_hyperslabs(),
    *_four("access", "count"),
    "ndims",
    "npoints",
    "datatype_size",
    "is_record_var",
    *_RANKS,
)


@cache
def load_darshan_layouts() -> dict[str, dict[int, Layout]]:
    """Layouts by module and record version."""
    early = _without(_FLOATS, *_LATE_STAMPS)
    return {
        "POSIX": {
            1: Layout(_POSIX_1, early),
            2: Layout(_POSIX_3, early),
            3: Layout(_POSIX_3, _FLOATS),
            4: Layout(_POSIX_4, _FLOATS),
        },
        "MPI-IO": {1: Layout(_MPIIO, early), 2: Layout(_MPIIO, early), 3: Layout(_MPIIO, _FLOATS)},
        "STDIO": {1: Layout(_without(_STDIO_2, "fdopens"), _STDIO_FLOATS), 2: Layout(_STDIO_2, _STDIO_FLOATS)},
        "H5F": {
            1: Layout(("opens",), ("open_start_timestamp", "close_end_timestamp")),
            2: Layout(("opens",), _without(_H5F_FLOATS, "meta_time")),
            3: Layout(("opens", "flushes", "use_mpiio"), _H5F_FLOATS),
        },
        "H5D": {1: Layout(_H5D, _FLOATS), 2: Layout(_H5D, _FLOATS, file_record=True)},
        "PNETCDF_FILE": {
            1: Layout(("indep_opens", "coll_opens"), ("open_start_timestamp", "close_end_timestamp")),
            2: Layout(("indep_opens", "coll_opens"), _NC_FILE_FLOATS_2),
            3: Layout(_NC_FILE_3, _NC_FILE_FLOATS),
        },
        "PNETCDF_VAR": {1: Layout(_NC_VAR, _FLOATS, file_record=True)},
    }
