"""Laws of rollups on random records: one sum at every interval and for every kind; unknown is not zero."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.compression.node_groups import merge_node_groups
from fairlead.core.model.tables import DEVICE, FORWARDER, METADATA, OPS, PFS_CLIENT, PORT, ROLLUP, TARGET
from fairlead.store.rollup_cells import MOST_CELLS
from fairlead.store.rollups import INTERVALS_S, derive_rollups

EPOCH = 1_700_000_000_000_000_000
S = 1_000_000_000
WORD = st.sampled_from(["a", "b", None])
AMOUNT = st.sampled_from([None, 0, 1, 7, 10**6 + 1, 2**40])
SPAN = st.sampled_from([0, 1, S, S + 1, 70 * S, -5])
OP = st.fixed_dictionaries(
    {
        "start": st.integers(0, 3 * S),
        "length": SPAN,
        "node": WORD,
        "job_id": WORD,
        "fs": WORD,
        "op": st.sampled_from(["read", "write", "open", "fsync"]),
        "size": st.sampled_from([None, 0, 3, 10**6]),
        "count": st.sampled_from([1, 5]),
        "interface": st.sampled_from(["POSIX", "fuse", "MPI-IO"]),
    }
)


def ops_of(rows: list[dict[str, object]]) -> pa.Table:
    made = [
        {
            **{k: v for k, v in row.items() if k not in ("start", "length")},
            "start_ns": EPOCH + row["start"],
            "end_ns": EPOCH + row["start"] + row["length"],
            "busy_ns": max(row["length"], 0) // 2,
        }
        for row in rows
    ]
    return pa.Table.from_pylist(made, OPS.schema)


def sums(rollup: pa.Table, column: str, kind: str, layer: str, *, parts: bool = False) -> dict[int, dict[str, object]]:
    """By interval in seconds and id: the sum of a column; None where every row is unknown."""
    found: dict[int, dict[str, object]] = {interval: {} for interval in INTERVALS_S}
    for row in rollup.select(["kind", "layer", "id", "job_id", "interval_ns", column]).to_pylist():
        if row["kind"] != kind or row["layer"] != layer or (row["job_id"] is not None) != parts:
            continue
        by_id = found[row["interval_ns"] // S]
        value, before = row[column], by_id.get(row["id"])
        by_id[row["id"]] = before if value is None else value + (before or 0)
    return found


def everywhere(rollup: pa.Table, column: str, kind: str, layer: str, *, parts: bool = False) -> dict[str, object]:
    """The sum by id, which must be the same at every interval."""
    by_interval = sums(rollup, column, kind, layer, parts=parts)
    first = by_interval[INTERVALS_S[0]]
    for other in by_interval.values():
        assert other == first
    return first


def _adds_up(rollup: pa.Table, layer: str, counted: list[dict[str, object]]) -> None:
    for kind, key in (("job", "job_id"), ("node", "node")):
        mine = [row for row in counted if row[key] is not None]
        for column, word in (("read_ops", "read"), ("write_ops", "write"), ("metadata_ops", "open")):
            expected: dict[str, object] = defaultdict(int)
            for row in mine:
                expected[row[key]] += row["count"] if row["op"] == word else 0  # type: ignore[operator]
            assert everywhere(rollup, column, kind, layer) == expected
        for column, word in (("read_bytes", "read"), ("write_bytes", "write")):
            expected = defaultdict(int)
            for row in mine:
                moved = row["size"] * row["count"] if row["op"] == word and row["size"] is not None else 0
                expected[row[key]] += moved  # type: ignore[operator]
            assert {k: v or 0 for k, v in everywhere(rollup, column, kind, layer).items()} == expected
        samples = everywhere(rollup, "samples", kind, layer)
        assert sum(samples.values()) == len(mine)  # type: ignore[arg-type]
    parts = everywhere(rollup, "write_bytes", "node", layer, parts=True)
    both = [row for row in counted if row["node"] and row["job_id"]]
    assert set(parts) == {row["node"] for row in both}


@settings(max_examples=60, deadline=None)
@given(st.lists(OP, max_size=12))
def test_operations_add_up(rows: list[dict[str, object]]) -> None:
    made = derive_rollups({"ops": ops_of(rows)})
    counted = [row for row in rows if row["interface"] != "MPI-IO"]
    if not any(row["node"] or row["job_id"] for row in counted):
        assert made == {}
        return
    rollup = made["rollup"]
    assert rollup.schema.equals(ROLLUP.schema)
    for layer, interface in (("client", "POSIX"), ("mount", "fuse")):
        _adds_up(rollup, layer, [row for row in counted if row["interface"] == interface])
    for row in rollup.to_pylist():
        assert row["ts_ns"] % row["interval_ns"] == 0
        assert all(row[name] is None or row[name] >= 0 for name in ("read_bytes", "write_bytes", "busy_ns", "samples"))


def test_an_operation_of_ninety_seconds_has_ninety_rows() -> None:
    row = {
        "start": 0,
        "length": 90 * S,
        "node": "a",
        "job_id": "1",
        "fs": None,
        "op": "write",
        "size": 1000,
        "count": 1,
        "interface": "POSIX",
    }
    rollup = derive_rollups({"ops": ops_of([row])})["rollup"]
    rows = [r for r in rollup.to_pylist() if r["kind"] == "job" and r["interval_ns"] == S]
    assert len(rows) == 90
    assert {r["write_bytes"] for r in rows} == {11, 12}
    assert sum(r["write_bytes"] for r in rows) == 1000


def test_sizes_nobody_knows_are_unknown_and_not_zero() -> None:
    row = {
        "start": 0,
        "length": 5,
        "node": "a",
        "job_id": "1",
        "fs": None,
        "op": "write",
        "size": None,
        "count": 1,
        "interface": "POSIX",
    }
    (found,) = [
        r
        for r in derive_rollups({"ops": ops_of([row])})["rollup"].to_pylist()
        if r["kind"] == "job" and r["interval_ns"] == S
    ]
    assert found["write_bytes"] is None
    assert found["write_ops"] == 1
    assert found["read_bytes"] == 0
    assert found["wait_ns"] is None


def test_sizes_nobody_can_believe_are_unknown() -> None:
    row = {
        "start": 0,
        "length": 5,
        "node": "a",
        "job_id": "1",
        "fs": None,
        "op": "write",
        "count": 5,
        "interface": "POSIX",
    }
    rollup = derive_rollups({"ops": ops_of([{**row, "size": size} for size in (2**62, -7, 10)])})["rollup"]
    assert everywhere(rollup, "write_bytes", "job", "client") == {"1": 50}
    assert everywhere(rollup, "write_ops", "job", "client") == {"1": 15}


def test_a_wrong_end_cannot_fill_the_memory() -> None:
    row = {
        "start": 0,
        "length": 10**18,
        "node": "a",
        "job_id": "1",
        "fs": None,
        "op": "write",
        "size": 1 << 50,
        "count": 1,
        "interface": "POSIX",
    }
    rollup = derive_rollups({"ops": ops_of([row])})["rollup"]
    assert rollup.num_rows <= 3 * 3 * MOST_CELLS
    assert everywhere(rollup, "write_bytes", "job", "client") == {"1": 1 << 50}


def test_grouped_operations_count_as_the_same() -> None:
    rows = [
        {
            "start": k,
            "length": 1500 * (k % 3) + 2 * S * (k % 2),
            "node": "ab"[k % 2],
            "job_id": "1",
            "fs": "/s",
            "op": "write",
            "size": 10,
            "count": 3,
            "interface": "POSIX",
        }
        for k in range(40)
    ]
    ops = ops_of(rows)
    rest, groups = merge_node_groups(ops, always=True)
    assert groups.num_rows
    plain, grouped = (
        derive_rollups({"ops": ops})["rollup"],
        derive_rollups({"ops": rest, "op_groups": groups})["rollup"],
    )
    for kind, column in (("job", "write_bytes"), ("node", "write_bytes"), ("node", "busy_ns"), ("job", "samples")):
        assert everywhere(plain, column, kind, "client") == everywhere(grouped, column, kind, "client")


INTERVAL = {"ts": st.integers(0, 3 * S), "interval_ns": st.sampled_from([None, 0, S, S + 3, 70 * S])}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                **INTERVAL,
                "target": st.sampled_from(["ost0", "ost1"]),
                "job_id": WORD,
                "read_bytes": AMOUNT,
                "write_rpcs": AMOUNT,
                "used_bytes": AMOUNT,
                "source": st.sampled_from([None, "obdfilter", "job_stats", "exports", "brw_stats", "gluster"]),
            }
        ),
        max_size=12,
    )
)
def test_parts_are_not_added_to_wholes(rows: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(
        [{**{k: v for k, v in row.items() if k != "ts"}, "ts_ns": EPOCH + row["ts"]} for row in rows], TARGET.schema
    )
    made = derive_rollups({"target": table}).get("rollup", ROLLUP.schema.empty_table())

    def expected(chosen: list[dict[str, object]], key: str, column: str) -> dict[str, object]:
        out: dict[str, object] = {}
        for row in chosen:
            value, before = row[column], out.get(row[key])
            out[row[key]] = before if value is None else value + (before or 0)
        return out

    whole = [row for row in rows if row["source"] in (None, "obdfilter", "gluster")]
    by_job = [row for row in rows if row["job_id"] and row["source"] not in ("exports", "brw_stats")]
    assert everywhere(made, "read_bytes", "target", "target") == expected(whole, "target", "read_bytes")
    assert everywhere(made, "write_ops", "target", "target") == expected(whole, "target", "write_rpcs")
    assert everywhere(made, "read_bytes", "job", "target") == expected(by_job, "job_id", "read_bytes")
    assert everywhere(made, "read_bytes", "target", "target", parts=True) == expected(by_job, "target", "read_bytes")
    highest = max((row["used_bytes"] for row in whole if row["used_bytes"] is not None), default=None)
    top = [r["used_bytes_max"] for r in made.to_pylist() if r["kind"] == "target" and r["job_id"] is None]
    assert max((value for value in top if value is not None), default=None) == highest


def one_interval(schema: pa.Schema, **values: object) -> pa.Table:
    return pa.Table.from_pylist([{"ts_ns": EPOCH + S, "interval_ns": S, **values}], schema)


def rows_of(made: dict[str, pa.Table], kind: str) -> list[dict[str, object]]:
    return [row for row in made["rollup"].to_pylist() if row["kind"] == kind and row["interval_ns"] == S]


def test_a_row_is_dated_by_its_end() -> None:
    (row,) = rows_of(
        derive_rollups({"port": one_interval(PORT.schema, switch="s", port="3", tx_bytes=5, rx_bytes=7)}), "port"
    )
    assert row["ts_ns"] == EPOCH
    assert (row["id"], row["read_bytes"], row["write_bytes"], row["waits"]) == ("s/3", 7, 5, None)


def test_a_forwarder_is_the_sum_of_its_jobs() -> None:
    histogram = [0] * 40
    histogram[11] = 2
    tables = [
        one_interval(
            FORWARDER.schema, node="f", job_id="1", op_class="read", requests=2, bytes=10, wait_ns_histogram=histogram
        ),
        one_interval(FORWARDER.schema, node="f", op_class="write", requests=3, bytes=20),
        one_interval(FORWARDER.schema, node="f", op_class="all", queue_len_max=9),
    ]
    made = derive_rollups({"forwarder": pa.concat_tables(tables)})
    whole, part = sorted(rows_of(made, "forwarder"), key=lambda row: row["job_id"] is not None)
    assert (whole["read_bytes"], whole["write_bytes"], whole["queue_len_max"]) == (10, 20, 9)
    assert (part["job_id"], part["read_bytes"], part["write_bytes"], part["waits"]) == ("1", 10, 0, 2)
    assert part["wait_ns"] == pytest.approx(2 * 1448, abs=2)
    (job,) = rows_of(made, "job")
    assert (job["id"], job["layer"], job["read_bytes"]) == ("1", "forwarder", 10)


def test_a_client_is_counted_at_one_height() -> None:
    tables = [
        one_interval(PFS_CLIENT.schema, node="n", source="llite", read_bytes=5, read_ops=2),
        one_interval(PFS_CLIENT.schema, node="n", source="osc", target="t", read_bytes=5, read_rpcs=9),
    ]
    together = rows_of(derive_rollups({"pfs_client": pa.concat_tables(tables)}), "node")
    apart = [
        row for table in tables for row in rows_of(derive_rollups({"pfs_client": table}), "node")
    ]  # in two segments
    for rows in (together, apart):
        assert [(row["layer"], row["read_bytes"], row["read_ops"]) for row in rows] == [
            ("pfs_client", 5, 2),
            ("osc", 5, 9),
        ]


def test_kinds_of_rename_are_one_rename_and_the_target_names_the_server() -> None:
    tables = [
        one_interval(METADATA.schema, server="mds1", target="MDT0", op=op, count=count, source=source, job_id=job)
        for op, count, source, job in [
            ("rename", 3, "md_stats", None),
            ("samedir_rename", 3, "md_stats", None),
            ("open", 2, "md_stats", None),
            ("open", 2, "job_stats", "7"),
            ("open", 2, "exports", None),
        ]
    ]
    made = derive_rollups({"metadata": pa.concat_tables(tables)})
    whole, part = sorted(rows_of(made, "mds"), key=lambda row: row["job_id"] is not None)
    assert (whole["id"], whole["metadata_ops"], part["metadata_ops"]) == ("MDT0", 5, 2)
    assert [row["metadata_ops"] for row in rows_of(made, "job")] == [2]


def test_devices_keep_their_fullness() -> None:
    table = one_interval(DEVICE.schema, node="n", device="nvme0", used_bytes=3, capacity_bytes=9, busy_ns=4)
    (row,) = rows_of(derive_rollups({"device": table}), "device")
    assert (row["id"], row["used_bytes_max"], row["capacity_bytes"], row["busy_ns"]) == ("n/nvme0", 3, 9, 4)
    assert row["read_bytes"] is None


def test_nothing_gives_nothing() -> None:
    assert derive_rollups({}) == {}
    assert derive_rollups({"ops": OPS.schema.empty_table(), "port": PORT.schema.empty_table()}) == {}


def test_times_of_requests_come_with_the_requests_they_are_of() -> None:
    """By kind where the source counts it by kind; requests without a time are not in `timed_ops`."""
    base = {"ts_ns": EPOCH + S, "interval_ns": S, "server": "oss", "target": "t", "source": "obdfilter"}
    target = pa.Table.from_pylist(
        [
            {**base, "read_rpcs": 4, "write_rpcs": 2, "read_busy_ns": 400, "write_busy_ns": 100, "metadata_ops": 9},
            {**base, "read_rpcs": 6, "write_rpcs": 0, "read_bytes": 5},
        ],
        TARGET.schema,
    )
    made = derive_rollups({"target": target})["rollup"]
    for column, value in (
        ("busy_ns", 500),
        ("read_busy_ns", 400),
        ("write_busy_ns", 100),
        ("metadata_busy_ns", None),
        ("timed_ops", 6),
        ("read_ops", 10),
    ):
        assert sums(made, column, "target", "target") == {key: {"t": value} for key in INTERVALS_S}, column
    metadata = pa.Table.from_pylist(
        [
            {"ts_ns": EPOCH, "interval_ns": S, "server": "mds", "op": "open", "count": 3, "busy_ns": 90, "job_id": "7"},
            {"ts_ns": EPOCH, "interval_ns": S, "server": "mds", "op": "close", "count": 5, "job_id": "7"},
        ],
        METADATA.schema,
    )
    made = derive_rollups({"metadata": metadata})["rollup"]
    for column, value in (("busy_ns", 90), ("metadata_busy_ns", 90), ("timed_ops", 3), ("metadata_ops", 8)):
        assert sums(made, column, "job", "metadata") == {key: {"7": value} for key in INTERVALS_S}, column


def test_requests_of_a_mount_are_counted_once() -> None:
    """llite is the mount; mdc tells its requests by target, lmv adds those up."""
    row = {"ts_ns": EPOCH, "interval_ns": S, "node": "n", "fs": "f"}
    table = pa.Table.from_pylist(
        [{**row, "source": source, "metadata_ops": ops} for source, ops in (("llite", 5), ("mdc", 7), ("lmv", 7))],
        PFS_CLIENT.schema,
    )
    made = derive_rollups({"pfs_client": table})["rollup"]
    assert sums(made, "metadata_ops", "node", "pfs_client") == {key: {"n": 5} for key in INTERVALS_S}
    assert sums(made, "metadata_ops", "node", "osc") == {key: {"n": 7} for key in INTERVALS_S}


def test_what_a_job_did_at_a_device_is_a_part_of_it() -> None:
    row = {"ts_ns": EPOCH, "interval_ns": S, "node": "n", "device": "nvme0n1"}
    table = pa.Table.from_pylist([{**row, "write_bytes": 9}, {**row, "write_bytes": 4, "job_id": "7"}], DEVICE.schema)
    made = derive_rollups({"device": table})["rollup"]
    assert sums(made, "write_bytes", "device", "device") == {key: {"n/nvme0n1": 9} for key in INTERVALS_S}
    assert sums(made, "write_bytes", "device", "device", parts=True) == {key: {"n/nvme0n1": 4} for key in INTERVALS_S}
    assert sums(made, "write_bytes", "job", "device") == {key: {"7": 4} for key in INTERVALS_S}
