"""Client trace lines to `ops` and `files`: runs of reads and writes, opens, closes, the file behind each handle.

Beacon merges operations of one second that are contiguous and of one size (Yang et al., ACM TOS 2023, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa

from fairlead.core.model.identity import compute_file_identities
from fairlead.core.model.tables import FILES, OPS, build_table_batch, build_table_word_column
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.sources.beacon import layout as k
from fairlead.see.sources.beacon.carry_over import SeriesState
from fairlead.see.sources.beacon.compiled import compile_kernel
from fairlead.see.sources.beacon.lines import Ints, Lines, Tally
from fairlead.see.sources.beacon.scan_trace import resolve_trace_handles, scan_trace_operations
from fairlead.see.sources.local_time import convert_local_to_utc_ns

INTERFACE = "lwfs"
_SECOND_END_NS = NS_PER_S - 1
_RELIABLE_OFFSET = 1 << 31
OffsetIs = Literal["last", "first"]


def build_beacon_operations(
    lines: Lines, carried: SeriesState, tally: Tally, *, zone: str, offset_is: OffsetIs, fs: str, host: str | None
) -> Iterator[pa.RecordBatch]:
    """Batches of the operation lines of one block. `host` names the node where lines do not."""
    rows = lines.select_rows(k.OPERATION)
    if not len(rows):
        return
    table = np.zeros((len(rows), 10), np.int64)
    compile_kernel(scan_trace_operations, fast=lines.fast)(lines.view, lines.begin[rows], lines.end[rows], table)
    good = table[:, 7] > 0
    tally.count_unread(lines, rows[~good])
    rows, table = rows[good], table[good]
    if not len(rows):
        return
    tally.read += len(rows)
    tally.add("operation_durations")
    time_s, op, handle, has_handle, size, offset, count, form = (np.ascontiguousarray(table[:, c]) for c in range(8))
    start_ns = convert_local_to_utc_ns(time_s, zone)
    hosts = lines.encode_hosts(carried.hosts, rows, host)
    files = np.zeros((len(rows), 2), np.int64)
    paths = np.isin(op, (k.OPEN, k.OPEN_REQUEST))
    if paths.any():
        files[paths, 0], batch = _paths(lines, table[paths, 8], table[paths, 9], start_ns[paths], carried, fs)
        if batch is not None:
            yield batch
    carried.handles.reserve(int((op == k.OPEN).sum()))
    h = carried.handles
    unknown = compile_kernel(resolve_trace_handles, fast=lines.fast)(
        hosts, np.column_stack([handle, has_handle]), op, files, h.keys, h.values, h.used
    )
    tally.add("unknown_files", unknown + int((has_handle[op < k.OPEN] == 0).sum()))
    keep = op != k.OPEN_REQUEST
    yield _batch(
        *(c[keep] for c in (start_ns, op, handle, has_handle, size, offset, count, form, hosts, files)),
        carried=carried,
        tally=tally,
        offset_is=offset_is,
        fs=fs,
    )


def _paths(
    lines: Lines, begins: Ints, ends: Ints, first_ns: Ints, carried: SeriesState, fs: str
) -> tuple[Ints, pa.RecordBatch | None]:
    """File ids of path spans, and a `files` batch of those not given before."""
    spans = lines.encode_spans(np.ascontiguousarray(begins), np.ascontiguousarray(ends))
    texts = [raw.decode("utf-8", "surrogateescape") for raw in spans.dictionary.to_pylist()]
    ids = compute_file_identities([fs] * len(texts), texts)
    codes = spans.indices.to_numpy()
    fresh = np.flatnonzero(carried.find_new_paths(ids))
    if not len(fresh):
        return ids[codes], None
    seen = np.full(len(ids), np.iinfo(np.int64).max)
    np.minimum.at(seen, codes, first_ns)
    shown = [texts[i].encode("utf-8", "surrogateescape").decode("utf-8", "replace") for i in fresh]
    batch = build_table_batch(
        FILES,
        {
            "file_id": ids[fresh],
            "fs": [fs] * len(fresh),
            "path": shown,
            "first_seen_ns": seen[fresh],
        },
    )
    return ids[codes], batch


def _batch(
    start_ns: Ints,
    op: Ints,
    handle: Ints,
    has_handle: Ints,
    size: Ints,
    offset: Ints,
    count: Ints,
    form: Ints,
    hosts: Ints,
    files: Ints,
    *,
    carried: SeriesState,
    tally: Tally,
    offset_is: OffsetIs,
    fs: str,
) -> pa.RecordBatch:
    """`ops` rows. Where a line gives the sum of its sizes, it becomes one run of the mean, or two whose sizes differ by
    one byte: bytes and operations stay exact, single sizes are not known."""
    rows = np.arange(len(op))
    summed = (form == 2) & (op < k.OPEN)
    tally.add("request_sizes", int(summed.sum()))
    exact = (form == 1) & (op < k.OPEN)
    if summed.any():
        rest = np.where(summed, size % np.maximum(count, 1), 0)
        size = np.where(summed, size // np.maximum(count, 1), size)
        rows = np.repeat(rows, np.where(rest > 0, 2, 1))
        upper = np.zeros(len(rows), bool)
        upper[1:] = rows[1:] == rows[:-1]
        rest, size, count = rest[rows], size[rows], count[rows]
        size = size + upper
        count = np.where(upper, rest, count - rest)
        offset, exact = offset[rows], exact[rows]
    if offset_is == "last":
        offset = np.where(exact, offset - (count - 1) * size, offset)
    below = exact & (offset < 0)
    tally.add("doubtful_offsets", int(below.sum()))
    far = exact & (count > 1) & (offset + (count - 1) * size >= _RELIABLE_OFFSET)
    tally.add("offsets_past_2_gib", int(far.sum()))
    data = op[rows] < k.OPEN
    placed = exact & ~below
    start = start_ns[rows]
    known = (files[:, 1] > 0)[rows]
    length = len(rows)
    return build_table_batch(
        OPS,
        {
            "start_ns": start,
            "end_ns": start + _SECOND_END_NS,
            "busy_ns": np.zeros(length, np.int64),
            "node": carried.hosts.build_column(hosts[rows]),
            "interface": build_table_word_column(INTERFACE, length),
            "fs": build_table_word_column(fs, length),
            "op": pa.DictionaryArray.from_arrays(pa.array(op[rows].astype(np.int32)), pa.array(k.OP_WORDS)),
            "file_id": pa.array(files[rows, 0], mask=~known),
            "handle": pa.array(handle[rows], mask=has_handle[rows] == 0),
            "offset": pa.array(offset, mask=~placed),
            "size": pa.array(size, mask=~data),
            "stride": pa.array(size, mask=~placed),
            "count": count,
        },
    )
