"""Text columns of jobs, from any of Slurm's forms, to `jobs` batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.see.sources.node_lists import NodeLists, build_node_list_batches
from fairlead.see.sources.slurm.fields import (
    Reading,
    clear_none_fields,
    parse_number_fields,
    parse_state_field,
    parse_time_fields,
    settle_fields_by_state,
)

_NUMBERS = ("nodes_count", "cores", "processes")


def build_text_job_columns(
    columns: dict[str, pa.Array], nodes: NodeLists, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Batches from text columns by our field names; any but job_id may be absent."""
    out: dict[str, pa.Array] = {}
    for name in ("submit", "start", "end"):
        if name in columns:
            out[f"{name}_ns"] = parse_time_fields(columns[name], reading)
    for name in _NUMBERS:
        if name in columns:
            out[name] = columns[name] if pa.types.is_integer(columns[name].type) else parse_number_fields(columns[name])
    for name in ("cluster", "name", "user", "project", "partition"):
        if name in columns:
            out[name] = clear_none_fields(columns[name])
    out["job_id"] = columns["job_id"]
    yield from build_job_column_batches(out, columns.get("state"), columns.get("nodes"), nodes, reading)


def build_job_column_batches(
    columns: dict[str, pa.Array], states: pa.Array | None, lists: pa.Array | None, nodes: NodeLists, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Batches from typed columns by table names, states and node lists as text."""
    length = len(columns["job_id"])
    known = pa.nulls(length, pa.string())
    if states is not None:
        distinct = states.dictionary_encode()
        mapped = pa.array([parse_state_field(text or "") for text in distinct.dictionary.to_pylist()], pa.string())
        known = mapped.take(distinct.indices)
    columns = settle_fields_by_state(columns, known)
    columns["state"] = known
    start = columns.get("start_ns", pa.nulls(length, pa.int64()))
    keep = pa.array(_select_latest(columns.get("cluster"), columns["job_id"], start))
    out: dict[str, object] = {name: column.take(keep) for name, column in columns.items()}
    listed = clear_none_fields(lists).take(keep).to_pylist() if lists is not None else [None] * len(keep)
    reading.jobs += len(keep)
    if "cluster" in out:
        out["cluster"] = columns["cluster"].take(keep).dictionary_encode()
    yield from build_node_list_batches(out, listed, nodes)


def _select_latest(cluster: pa.Array, job_id: pa.Array, start: pa.Array) -> NDArray[np.int64]:
    """Rows to keep, in order: of rows with one key (cluster, job_id, start) the last."""
    codes = [
        np.asarray(column.dictionary_encode().indices.fill_null(-1)) if column is not None else None
        for column in (cluster, job_id)
    ]
    starts = start.fill_null(-1).to_numpy(zero_copy_only=False)
    keys = [starts, codes[1], *([codes[0]] if codes[0] is not None else [])]
    order = np.lexsort(keys)
    same = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    keep = np.ones(len(order), bool)
    keep[:-1] = ~same
    return np.sort(order[keep])


def build_text_columns(rows: Sequence[dict[str, str | None]]) -> dict[str, pa.Array]:
    """Rows of our field names as text columns."""
    names = {name for row in rows for name in row}
    return {name: pa.array([row.get(name) for row in rows], pa.string()) for name in sorted(names)}


def build_number_column(values: Sequence[int | None]) -> pa.Array:
    """Whole numbers that fit 64 bits; others are null."""
    limit = np.iinfo(np.int64).max
    return pa.array([v if v is not None and -limit <= v <= limit else None for v in values], pa.int64())
