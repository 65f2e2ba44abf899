"""Laws of the second pass on random rows: every row comes back, wherever it was kept."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.compression.node_groups import merge_node_groups, split_node_groups
from fairlead.core.model.tables import OP_GROUPS, OPS

EPOCH = 1_700_000_000_000_000_000
FAR = st.sampled_from([0, 4096, 2**63 - 1, -(2**63)])

ROW = st.fixed_dictionaries(
    {
        "start_ns": st.integers(0, 2_000_000_000),
        "length": st.sampled_from([0, 5, 5, 1_500_000_000, -3]),
        "idle": st.sampled_from([0, 0, 2, -1]),
        "node": st.sampled_from(["n1", "n2", "n3", None]),
        "job_id": st.sampled_from(["7", "7", "8", None]),
        "rank": st.sampled_from([None, 0, 1, 2, -1]),
        "interface": st.sampled_from(["POSIX", "fuse"]),
        "fs": st.sampled_from(["/s", None]),
        "op": st.sampled_from(["read", "write", "write"]),
        "file_id": st.sampled_from([None, 1, 2**63 - 1]),
        "handle": st.sampled_from([None, 3]),
        "offset": st.one_of(st.none(), FAR),
        "size": st.sampled_from([10, 10, None]),
        "stride": st.sampled_from([None, 10, -3, 2**63 - 1]),
        "count": st.sampled_from([1, 1, 4]),
        "gaps_ns": st.sampled_from([None, None, None, [1, 2]]),
    }
)


def table_of(rows: list[dict[str, object]]) -> pa.Table:
    made = []
    for row in rows:
        length, idle, start = row["length"], row["idle"], EPOCH + row["start_ns"]
        kept = {name: value for name, value in row.items() if name not in ("length", "idle")}
        made.append({**kept, "start_ns": start, "end_ns": start + length, "busy_ns": length - idle})
    return pa.Table.from_pylist(made, OPS.schema)


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(
        tuple(tuple(v) if isinstance(v, list) else v for v in row.values())
        for row in table.select(OPS.schema.names).to_pylist()
    )


def blocks(nodes: int, per_node: int, step: int) -> pa.Table:
    """Each rank of each node writes one block of a shared file in the same second."""
    rows = [
        {
            "start_ns": rank * 7 % 11,
            "length": 5 + rank % 3,
            "idle": 0,
            "node": f"n{rank // per_node}",
            "job_id": "7",
            "rank": rank,
            "interface": "POSIX",
            "fs": "/s",
            "op": "write",
            "file_id": 1,
            "handle": None,
            "offset": rank * step,
            "size": 10,
            "stride": None,
            "count": 1,
        }
        for rank in range(nodes * per_node)
    ]
    return table_of(rows)


@settings(max_examples=80, deadline=None)
@given(st.lists(ROW, max_size=40), st.booleans())
def test_every_row_comes_back(rows: list[dict[str, object]], always: bool) -> None:
    ops = table_of(rows)
    rest, groups = merge_node_groups(ops, always=always)
    assert groups.schema.equals(OP_GROUPS.schema)
    back = split_node_groups(groups)
    assert back.schema.equals(OPS.schema)
    assert counted(rest) + counted(back) == counted(ops)
    for row in groups.to_pylist():
        assert row["members"] >= 4
        assert len(set(row["nodes"])) == len(row["nodes"]) >= 2


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.sampled_from([0, 10, -4096, 2**62]), st.randoms(use_true_random=False))
def test_laws_are_written_short(nodes: int, per_node: int, step: int, random: object) -> None:
    ops = blocks(nodes, per_node, (step + 2**63) % 2**64 - 2**63 if abs(step) < 2**60 else 8)
    order = list(range(ops.num_rows))
    random.shuffle(order)  # type: ignore[attr-defined]
    rest, groups = merge_node_groups(ops.take(order), always=True)
    assert counted(rest) + counted(split_node_groups(groups)) == counted(ops)
    if nodes * per_node < 4:
        assert groups.num_rows == 0
        return
    (row,) = groups.to_pylist()
    assert row["members"] == nodes * per_node
    assert row["nodes"] == [f"n{k}" for k in range(nodes)]
    assert row["node_codes"] is None
    assert row["ranks"] == [0, 1]
    assert row["file_ids"] == [1]
    assert row["handles"] is None
    assert len(row["offsets"]) <= 2
    assert row["busies_ns"] == [0]


def test_groups_survive_parquet() -> None:
    from pyarrow import parquet

    ops = blocks(4, 3, 10)
    _, groups = merge_node_groups(ops, always=True)
    out = pa.BufferOutputStream()
    parquet.write_table(groups, out, store_schema=False)
    back = parquet.read_table(pa.BufferReader(out.getvalue()))
    assert counted(split_node_groups(back)) == counted(ops)


def test_a_group_too_small_to_pay_is_left_alone() -> None:
    ops = blocks(4, 1, 10)
    rest, groups = merge_node_groups(ops)
    assert groups.num_rows == 0
    assert counted(rest) == counted(ops)


def test_many_nodes_alike_pay() -> None:
    ops = blocks(128, 8, 10)
    rest, groups = merge_node_groups(ops)
    assert groups.num_rows == 1
    assert rest.num_rows == 0
    assert counted(split_node_groups(groups)) == counted(ops)


def test_random_offsets_merge_and_groups_of_the_first_version_are_read() -> None:
    rows = [
        {
            "start_ns": rank,
            "length": 5,
            "idle": 0,
            "node": f"n{rank % 4}",
            "job_id": "7",
            "rank": rank,
            "interface": "POSIX",
            "fs": "/s",
            "op": "read",
            "file_id": 1,
            "handle": None,
            "offset": rank * rank * 11,
            "size": 10,
            "stride": None if rank == 3 else (rank * 7919) % 4096,
            "count": 2,
        }
        for rank in range(16)
    ]
    ops = table_of(rows)
    rest, groups = merge_node_groups(ops, always=True)
    assert (rest.num_rows, groups.num_rows) == (0, 1)
    assert counted(split_node_groups(groups)) == counted(ops)
    same = table_of([{**row, "stride": 10} for row in rows])
    rest, groups = merge_node_groups(same, always=True)
    assert (groups["stride"].to_pylist(), groups["strides"].to_pylist()) == ([10], [None])
    old = groups.drop_columns(["strides"])
    assert counted(split_node_groups(old)) == counted(same)
