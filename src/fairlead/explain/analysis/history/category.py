"""Categories of phases: which others a phase may be compared with, from the most alike to the most general.

Pure, in columns. Runs of one user's program on as many nodes are the natural category (Beacon, TOS 2023, section 5);
where it has too few, the next rung of the ladder takes its place or lends it strength (`analysis.anomalies.expected`).
Not here: what a category is like (`run_profiles`), which runs are alike in figures (`similar`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.explain.analysis.table_columns import combine_column_codes, read_code_column, read_float_column

I64 = NDArray[np.int64]
NONE = -1
"""No category: a name the rung asks for is not known."""


@dataclass(frozen=True)
class Rung:
    """A way to group phases. Two are of one category when all `fields` (see `code_category_fields`) are equal. A phase
    with an unknown field of `needed` has no category; in other fields unknown is a value like any other."""

    name: str
    fields: tuple[str, ...]
    needed: tuple[str, ...] = ()


LADDER: tuple[Rung, ...] = (
    Rung(
        "the same phase of the program",
        ("place", "user", "program", "scale", "kind", "mode", "request", "volume", "first"),
        ("user", "program", "scale"),
    ),
    Rung(
        "user, program and nodes, similar requests",
        ("place", "user", "program", "scale", "kind", "mode", "request"),
        ("user", "program", "scale"),
    ),
    Rung("user, program and nodes", ("place", "user", "program", "scale", "kind"), ("user", "program", "scale")),
    Rung("program and nodes", ("place", "program", "scale", "kind"), ("program", "scale")),
    Rung("program", ("place", "program", "kind"), ("program",)),
    Rung("user, similar I/O", ("place", "user", "kind", "mode", "request", "processes"), ("user",)),
    Rung("alike I/O", ("place", "kind", "mode", "request", "volume", "processes")),
)
"""From the most alike to the most general. `place` is cluster and file system, `scale` nodes rounded to a power of two,
`first` whether it is the first phase of its kind in its job; `request`, `volume` and `processes` are classes."""


def code_category_fields(phases: pa.Table) -> dict[str, I64]:
    """Integer codes of the fields of PHASE rows, each of shape (P,); NONE is null. Codes of names hold within one call
    only: concatenate tables that are to be compared."""
    kind = read_code_column(phases, "kind")
    words = phases["kind"].cast(pa.string())
    metadata = pc.equal(words, "metadata").fill_null(False).to_numpy(zero_copy_only=False)
    volume = np.where(metadata, read_float_column(phases, "metadata_ops"), read_float_column(phases, "bytes"))
    processes = read_float_column(phases, "processes")
    processes = np.where(np.isnan(processes), read_float_column(phases, "nodes_count"), processes)
    number = read_float_column(phases, "number")
    return {
        "place": read_code_column(phases, "cluster") * (1 << 20) + read_code_column(phases, "fs") + 1,
        "user": read_code_column(phases, "user"),
        "program": read_code_column(phases, "program"),
        "scale": compute_category_scale(read_float_column(phases, "nodes_count")),
        "kind": kind,
        "mode": read_code_column(phases, "mode"),
        "request": _classify_octaves(read_float_column(phases, "request_bytes"), 2.0),
        "volume": _classify_octaves(volume, 3.0),
        "processes": _classify_octaves(processes, 2.0),
        "first": np.where(number > 0, 1, 0).astype(np.int64),
    }


def compute_categories(phases: pa.Table) -> I64:
    """The category of every phase on every rung: shape (rungs, P), codes from 0 in each rung, NONE where it has none.
    Codes hold within one call."""
    fields = code_category_fields(phases)
    found = np.full((len(LADDER), phases.num_rows), NONE, np.int64)
    for index, rung in enumerate(LADDER):
        found[index] = combine_category_fields(
            [fields[name] for name in rung.fields], [fields[name] for name in rung.needed]
        )
    return found


def combine_category_fields(fields: list[I64], needed: list[I64]) -> I64:
    """One code for each combination of fields, NONE where one of `needed` is."""
    key = combine_column_codes(fields)
    for field in needed:
        key = np.where(field == NONE, NONE, key)
    return key


def compute_category_scale(nodes: NDArray[np.float64]) -> I64:
    """Nodes rounded (in logarithm) to a power of two; NONE where not known or below 1."""
    known = nodes >= 1
    return np.where(known, np.exp2(np.rint(np.log2(np.where(known, nodes, 1.0)))), NONE).astype(np.int64)


def _classify_octaves(values: NDArray[np.float64], wide: float) -> I64:
    """Classes `wide` doublings wide; NONE where not known or not above 0."""
    known = values > 0
    logs = np.log2(np.where(known & np.isfinite(values), values, 1.0))
    return np.where(known, np.maximum(np.floor(logs / wide), 0), NONE).astype(np.int64)
