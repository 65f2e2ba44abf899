"""The record tables as the lake keeps them: what makes rows the same, by what they are sorted, how columns are stored.

Not here: which day a row belongs to (`days_and_tiers`), files (`part_files`), commits (`delta_table`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.errors import LakeError
from fairlead.core.model.tables import TABLES, TableSpec

DAY = "day"
"""Partition column: the UTC day of a row's time, null when neither the row nor its input has a time."""
DAY_NS = 86_400_000_000_000
MAX_DAYS = 10_000
"""An input whose rows lie on more days than this (27 years) has a broken clock, not a long story."""

BATCHES = TableSpec(
    "_batches",
    2,
    pa.schema(
        [
            pa.field("stream", pa.string(), nullable=False),
            pa.field("seq", pa.int64(), nullable=False),
            pa.field("key", pa.int64(), nullable=False),
            pa.field("taken_ns", pa.int64(), nullable=False),
            pa.field("source", pa.string()),
            pa.field("path", pa.string()),
            pa.field("rows", pa.int64(), nullable=False),
            pa.field("first_seq", pa.int64()),
            pa.field("batches", pa.int64()),
        ],
        metadata={b"fairlead.table": b"_batches", b"fairlead.schema_version": b"2"},
    ),
    "taken_ns",
    ("key",),
)
"""What the lake has taken in: numbers `first_seq` to `seq` of a stream, all of them (`batches` many). `key` is
blake2b-8 of `stream`. A null `first_seq` (lakes before ranges) says: everything up to `seq`. `source` is `wire` for
what nodes send: only that is ever forgotten."""
WIRE = "wire"

SPECS: dict[str, TableSpec] = {**TABLES, BATCHES.name: BATCHES}

_SORT = {"ops": ("job_id", "node", "start_ns")}
"""A trace is ingested whole, so its job comes first: a job's page then touches few row groups. Rows without a job
(the raw side) lie by node and start, last."""

PASSING = ", ".join(
    f"'{state}'"
    for state in ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "COMPLETING", "RESIZING")
)
"""Slurm's states of a job that has not come to its last one: an account with the same end and a last state counts."""

IDENTITY = {
    "files": (("file_id", "fs", "path"), "first_seen_ns ASC NULLS LAST"),
    "jobs": (
        ("cluster", "job_id", "start_ns"),
        f"end_ns DESC NULLS LAST, upper(state) IN ({PASSING}), state, name, program",
    ),
    "job_summary": (("cluster", "job_id", "start_ns"), "made_ns DESC"),
    "phase": (("cluster", "job_id", "job_start_ns", "kind", "number"), "analysis_version DESC, made_ns DESC"),
    "profile": (("cluster", "user", "program", "scale"), "analysis_version DESC, made_ns DESC"),
    "finding": (("id",), "analysis_version DESC, made_ns DESC"),
    "incident": (("id",), "analysis_version DESC, made_ns DESC"),
    "mapping": (("kind", "a", "b", "from_ns"), "to_ns DESC NULLS LAST"),
}
"""Tables whose rows are facts about a thing that several inputs may tell: what makes it the same thing, and which
telling wins. `files`: the earliest sight of a path. `jobs`: the account with the latest end. `mapping`: the one that
knows when it ended."""

WITHDRAWABLE = frozenset(("job_summary", "phase"))
"""Tables whose rows are not shown once one of their key says that it is withdrawn. (Findings are, to be told of.)"""


def find_stored_table_spec(batch: pa.RecordBatch | pa.Table) -> TableSpec:
    """The table a batch says it belongs to. Raises LakeError when it says none or one that is unknown."""
    name = (batch.schema.metadata or {}).get(b"fairlead.table", b"").decode()
    if name not in SPECS:
        raise LakeError(f"rows of an unknown table {name!r}", remedy="upgrade fairlead")
    return SPECS[name]


def list_stored_table_key(spec: TableSpec) -> tuple[str, ...]:
    """Columns rows are sorted by inside a day; nulls last."""
    return _SORT.get(spec.name, spec.sort_by)


def flatten_stored_table_type(kind: pa.DataType) -> pa.DataType:
    """The type a column is stored with: dictionaries are a matter of memory, on disk they are strings."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def build_stored_schema(spec: TableSpec) -> pa.Schema:
    """Columns of the Delta table. All nullable, so that any may be missing from an older file."""
    columns = [pa.field(f.name, flatten_stored_table_type(f.type)) for f in spec.schema]
    return pa.schema([*columns, pa.field(DAY, pa.date32())])


def conform_stored_table(table: pa.Table, spec: TableSpec, *, strict: bool) -> pa.Table:
    """`table` with exactly the columns of `spec`: lacking ones are null. A column `spec` does not know is refused
    when `strict` (it would be lost), else left out. Raises LakeError."""
    if table.schema.equals(spec.schema):
        return table
    unknown = [name for name in table.schema.names if name not in spec.schema.names]
    if strict and unknown:
        raise LakeError(
            f"{spec.name} has no column {unknown[0]!r}", remedy="these rows are of a newer fairlead: upgrade this one"
        )
    columns = [_column(table, wanted, spec) for wanted in spec.schema]
    return pa.Table.from_arrays(columns, schema=spec.schema)


def _column(table: pa.Table, wanted: pa.Field, spec: TableSpec) -> pa.ChunkedArray | pa.Array:
    if wanted.name not in table.schema.names:
        return pa.nulls(table.num_rows, wanted.type)
    column = table.column(wanted.name)
    if column.type == wanted.type:
        return column
    try:
        if pa.types.is_dictionary(wanted.type) and not pa.types.is_dictionary(column.type):
            return column.cast(wanted.type.value_type).dictionary_encode().cast(wanted.type)
        return column.cast(wanted.type)
    except pa.ArrowInvalid as error:
        raise LakeError(f"{spec.name}.{wanted.name} cannot hold {column.type}: {error}") from error


def find_stored_table_time(table: pa.Table | pa.RecordBatch, spec: TableSpec) -> int | None:
    """The earliest known time of its rows in epoch nanoseconds, None when they have none."""
    if spec.time_column is None:
        return None
    value = pc.min(table.column(spec.time_column)).as_py()
    return None if value is None else int(value)


SERIES = frozenset(
    (
        "ops",
        "op_groups",
        "heatmap",
        "forwarder",
        "pfs_client",
        "target",
        "metadata",
        "port",
        "device",
        "health",
        "rollup",
    )
)
"""Tables whose rows tell of the moment they are dated with. Rows of the others hold on (a job, a mapping, an event), so
a question about a time may need ones dated before it."""
OF_JOBS = frozenset(("jobs", "job_summary", "phase", "finding"))
"""Tables whose rows tell of jobs, one or a few of each. Dated with a begin, which a later telling moves by less than a
day."""
REACH_NS = {"op_groups": 1_000_000_000}
"""How far beyond its own time a row of a series may tell of others: members of a group begin in the same second."""
OPS_STORED = "ops_stored"
"""What `ops` is without the rows that lie in `op_groups`."""

TIERS = {"rollup": "interval_ns"}
"""Tables whose rows of different intervals are kept for different times: they never share a file."""
