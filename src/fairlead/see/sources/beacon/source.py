"""The Beacon source: detection, blocks of lines dispatched to the reader of each layer, and what is missing.

The published line formats are those of Yang et al., "End-to-end I/O monitoring on leading supercomputers", ACM TOS
2023 (and NSDI 2019), as its repositories and data set show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from fairlead.core.errors import CorruptInputError, FairleadError, InputError, UnknownFormatError, UsageError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import MAPPING, build_table_batch, build_table_word_column
from fairlead.see.sources.base import Item
from fairlead.see.sources.beacon import layout as k
from fairlead.see.sources.beacon.carry_over import SeriesState
from fairlead.see.sources.beacon.gaps import list_gaps
from fairlead.see.sources.beacon.job_records import JobForm, format_job_node_address, read_job_records
from fairlead.see.sources.beacon.lines import Lines, Tally, scan_beacon_lines
from fairlead.see.sources.beacon.metadata_ops import read_metadata_ops
from fairlead.see.sources.beacon.operations import OffsetIs, build_beacon_operations
from fairlead.see.sources.beacon.rpc_counts import Polling, read_beacon_cache_counts, read_beacon_rpc_counts
from fairlead.see.sources.beacon.server_latency import flush_server_latencies, read_server_latencies
from fairlead.see.sources.line_blocks import BLOCK_BYTES, Block, list_block_end_gaps, read_line_blocks
from fairlead.see.sources.local_time import check_local_time_zone

_SMALL_BYTES = 1 << 18
_DETECT_BYTES = 2048
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")


@dataclass(frozen=True, kw_only=True)
class BeaconSource:
    """Reads Beacon's lines of all six layers; one file may mix them.

    `time_zone`: of the times inside messages (records' `@timestamp` is UTC). `offset_is`: whether the offset of a
    merged run is that of its `last` operation (as the published compressor writes) or its `first`.
    `poll_s`: how often the Lustre pollers look; a difference belongs to the last poll before its line (None: to the
    whole gap). `file_system`: put before target names (`name-OST0012`) and into `fs`, for two file systems whose
    targets have the same numbers. `cluster`: of the jobs. `forwarders`: addresses of forwarding nodes, the k-th serving
    the k-th `nodes_per_forwarder` compute nodes (`mapping`). Raises UsageError for an unknown zone or option.
    """

    name = "beacon"

    time_zone: str = "Asia/Shanghai"
    offset_is: OffsetIs = "last"
    poll_s: float | None = 1.0
    file_system: str = ""
    cluster: str | None = None
    forwarders: Sequence[str] = ()
    nodes_per_forwarder: int = 512
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        check_local_time_zone(self.time_zone)
        if self.offset_is not in ("last", "first"):
            raise UsageError(f"offset_is is {self.offset_is!r}", remedy="use 'last' or 'first'")

    def accepts(self, head: bytes, path: Path) -> bool:
        """Whether at least half of the first whole lines are of a form Beacon writes."""
        end = head.rfind(b"\n", 0, _DETECT_BYTES) + 1 or head.find(b"\n") + 1
        if not end or b"\0" in head[:end]:
            return False
        tally = Tally()
        try:
            lines = scan_beacon_lines(Block(head[:end], 1), fast=False)
            for _ in self._tables(lines, _Reading(path), tally):
                pass
        except FairleadError:
            return False
        return tally.read > 0 and tally.read >= tally.unreadable

    def read(self, path: Path) -> Iterator[Item]:
        """Records of one file, streamed. Handles and counters start afresh: see `read_series` for files of several
        days. Raises InputError, UnknownFormatError."""
        return self._read(_Reading(path), SeriesState(), last=True)

    def read_series(self, paths: Iterable[Path]) -> Iterator[Item]:
        """Records of files that follow one another in time (a day each, in order): the file behind an open handle and
        the last value of every counter are carried from each to the next."""
        carried = SeriesState()
        given = list(paths)
        for path in given:
            yield from self._read(_Reading(path), carried, last=path is given[-1])

    def _read(self, reading: _Reading, carried: SeriesState, *, last: bool) -> Iterator[Item]:
        tally = Tally()
        reading.carried = carried
        kept = 0
        for block in read_line_blocks(reading.path, self.block_bytes):
            reading.fast = reading.fast or not block.last or len(block.data) > _SMALL_BYTES
            lines = scan_beacon_lines(block, fast=reading.fast)
            tally.add("overlong_lines", block.overlong)
            for batch in self._tables(lines, reading, tally):
                kept += batch.num_rows
                yield batch
            reading.ended = block
        held = flush_server_latencies(carried) if last else None
        if held is not None:
            kept += held.num_rows
            yield held
        if not tally.read:
            raise _nothing(reading, tally)
        for gap in (*list_block_end_gaps(reading.ended, kept=False), *list_gaps(tally, reading.jobs.nodes, kept)):
            yield _placed(gap, reading.path)

    def _tables(self, lines: Lines, reading: _Reading, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Batches of one block, layer by layer."""
        carried, host = reading.carried, reading.host
        tally.count_unread(lines, lines.select_rows(k.UNREAD))
        polling = Polling(
            zone=self.time_zone,
            poll_ns=None if self.poll_s is None else round(self.poll_s * 1e9),
            host=host,
            target=reading.path.name.split(".")[0],
            prefix=f"{self.file_system}-" if self.file_system else "",
        )
        yield from build_beacon_operations(
            lines, carried, tally, zone=self.time_zone, offset_is=self.offset_is, fs=self.file_system, host=host
        )
        yield from read_server_latencies(lines, carried, tally, zone=self.time_zone, host=host)
        yield from read_beacon_rpc_counts(lines, carried, tally, polling)
        yield from read_beacon_cache_counts(lines, carried, tally, polling)
        yield from read_metadata_ops(lines, carried, tally, polling)
        jobs = list(read_job_records(lines, reading.jobs, tally, zone=self.time_zone, cluster=self.cluster))
        if jobs and self.forwarders and not reading.mapped:
            reading.mapped = True
            yield self._mapping()
        elif jobs and not self.forwarders and not reading.mapped:
            reading.mapped = True
            tally.add("forwarder_mapping")
        yield from jobs

    def _mapping(self) -> pa.RecordBatch:
        """Which forwarding node serves which compute node: a static table, true at all times."""
        nodes = [format_job_node_address(n) for n in range(len(self.forwarders) * self.nodes_per_forwarder)]
        served = [name for name in self.forwarders for _ in range(self.nodes_per_forwarder)]
        return build_table_batch(
            MAPPING,
            {
                "from_ns": np.zeros(len(nodes), np.int64),
                "kind": build_table_word_column("node_forwarder", len(nodes)),
                "a": nodes,
                "b": served,
            },
        )


class _Reading:
    """One file being read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = path.stem if _ADDRESS.fullmatch(path.stem) else None
        self.carried = SeriesState()
        self.jobs = JobForm()
        self.fast = False
        self.mapped = False
        self.ended = Block(b"", 1)


def _nothing(reading: _Reading, tally: Tally) -> InputError:
    where = str(reading.path)
    if reading.ended.fault is not None:
        return CorruptInputError(
            f"its gzip data is broken ({reading.ended.fault})",
            where=where,
            remedy="copy it again from where it was written",
        )
    if tally.unreadable:
        return UnknownFormatError(
            "no line has a Beacon format",
            where=where,
            remedy="see the line forms in the reference page of this source",
        )
    return CorruptInputError(
        "the file has no complete line", where=where, remedy="let the writer finish; every line ends with a newline"
    )


def _placed(gap: Missing, path: Path) -> Missing:
    import msgspec

    return msgspec.structs.replace(gap, where=str(path))
