"""Groups of operations (`op_groups`) as rows of `ops`, in SQL: what `compression.node_groups.split_node_groups` does,
for queries.

Not here: how groups are made (`compression.node_groups`), when they are (`flush`).
"""

from __future__ import annotations

from fairlead.core.model.tables import OP_GROUPS
from fairlead.store.stored_tables import DAY


def select_op_groups(groups: str = OP_GROUPS.name) -> str:
    """A SELECT with the columns of `ops` and `day`, in their order: every row of every group."""
    start = f"start_ns + {_member('starts_ns')}"
    length = _member("lengths_ns")
    named = (
        "CASE WHEN node_codes IS NULL OR len(node_codes) = 0 THEN nodes[k * len(nodes) // members + 1] "
        f"ELSE nodes[{_member('node_codes')} + 1] END"
    )
    return (
        f"SELECT {start} AS start_ns, {start} + {length} AS end_ns, {length} - {_member('busies_ns')} AS busy_ns, "  # noqa: S608 (our own names)
        f"{named} AS node, job_id, {_member('ranks')}::INTEGER AS rank, interface, fs, op, "
        f'{_member("file_ids")} AS file_id, {_member("handles")} AS handle, {_member("offsets")} AS "offset", '
        f"size, coalesce({_member('strides')}, stride) AS stride, count, "
        f"NULL::BIGINT[] AS gaps_ns, NULL::BIGINT[] AS durations_ns, cluster, {DAY} "
        f"FROM (SELECT *, unnest(range(members)) AS k FROM {groups})"
    )


def _member(column: str) -> str:
    """The value of member `k`: of all, of each, or climbing evenly (modulo 2**64)."""
    first, step = f"{column}[1]::HUGEINT", f"{column}[2]::HUGEINT"
    half = "9223372036854775808::HUGEINT"
    whole = "18446744073709551616::HUGEINT"
    climbed = f"({first} + k * {step} + {half})"
    wrapped = f"((({climbed} % {whole}) + {whole}) % {whole} - {half})::BIGINT"
    return (
        f"(CASE WHEN {column} IS NULL OR len({column}) = 0 THEN NULL WHEN len({column}) = 1 THEN {column}[1] "
        f"WHEN len({column}) = members THEN {column}[k + 1] ELSE {wrapped} END)"
    )
