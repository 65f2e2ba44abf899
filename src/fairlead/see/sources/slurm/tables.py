"""Text columns of jobs, from any of Slurm's forms, to `jobs` batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fairlead.see.sources.node_lists import NodeLists, build_job_batches
from fairlead.see.sources.slurm.fields import (
    Reading,
    clear_none_words,
    parse_times,
    parse_whole_numbers,
    select_latest,
    settle_by_state,
    state_word,
)

_NUMBERS = ("nodes_count", "cores", "processes")


def build_from_text(columns: dict[str, pa.Array], nodes: NodeLists, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Batches from text columns by our field names; any but job_id may be absent."""
    out: dict[str, pa.Array] = {}
    for name in ("submit", "start", "end"):
        if name in columns:
            out[f"{name}_ns"] = parse_times(columns[name], reading)
    for name in _NUMBERS:
        if name in columns:
            out[name] = columns[name] if pa.types.is_integer(columns[name].type) else parse_whole_numbers(columns[name])
    for name in ("cluster", "name", "user", "project", "partition"):
        if name in columns:
            out[name] = clear_none_words(columns[name])
    out["job_id"] = columns["job_id"]
    yield from build_jobs(out, columns.get("state"), columns.get("nodes"), nodes, reading)


def build_jobs(
    columns: dict[str, pa.Array], states: pa.Array | None, lists: pa.Array | None, nodes: NodeLists, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Batches from typed columns by table names, states and node lists as text."""
    length = len(columns["job_id"])
    known = pa.nulls(length, pa.string())
    if states is not None:
        distinct = states.dictionary_encode()
        mapped = pa.array([state_word(text or "") for text in distinct.dictionary.to_pylist()], pa.string())
        known = mapped.take(distinct.indices)
    columns = settle_by_state(columns, known)
    columns["state"] = known
    start = columns.get("start_ns", pa.nulls(length, pa.int64()))
    keep = pa.array(select_latest(columns.get("cluster"), columns["job_id"], start))
    out: dict[str, object] = {name: column.take(keep) for name, column in columns.items()}
    listed = clear_none_words(lists).take(keep).to_pylist() if lists is not None else [None] * len(keep)
    reading.jobs += len(keep)
    if "cluster" in out:
        out["cluster"] = columns["cluster"].take(keep).dictionary_encode()
    yield from build_job_batches(out, listed, nodes)


def build_text_columns(rows: Sequence[dict[str, str | None]]) -> dict[str, pa.Array]:
    """Rows of our field names as text columns."""
    names = {name for row in rows for name in row}
    return {name: pa.array([row.get(name) for row in rows], pa.string()) for name in sorted(names)}


def number_array(values: Sequence[int | None]) -> pa.Array:
    """Whole numbers that fit 64 bits; others are null."""
    limit = np.iinfo(np.int64).max
    return pa.array([v if v is not None and -limit <= v <= limit else None for v in values], pa.int64())
