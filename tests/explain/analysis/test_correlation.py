"""Laws of correlation: interval joins against a plain loop, and splits that add up to the whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.model.tables import JOBS, MAPPING
from fairlead.explain.analysis.node_intervals import (
    FOREVER,
    PLACEMENTS,
    attribute_node_interval_traffic,
    build_node_intervals,
    build_node_placement_intervals,
    find_interval_overlaps,
)

S = 1_000_000_000
NAME = st.sampled_from(["n1", "n2", "n3"])
TIME = st.integers(0, 12)
END = st.one_of(st.none(), TIME)


def mapping(rows: list[tuple[object, ...]], kind: str = "node_forwarder") -> pa.Table:
    return pa.Table.from_pylist(
        [{"kind": kind, "a": a, "b": b, "from_ns": begin, "to_ns": end} for a, b, begin, end in rows], MAPPING.schema
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(NAME, st.sampled_from(["f1", "f2", "f3"]), TIME, END), max_size=9))
def test_the_mapping_that_began_last_holds(rows: list[tuple[str, str, int, int | None]]) -> None:
    found = build_node_intervals(mapping(rows))
    names = [name for name in ("n1", "n2", "n3", "n9") for _ in range(14)]
    times = np.tile(np.arange(-1, 13), 4)
    told = found.look_up(pa.array(names), times).to_pylist()
    for name, time, answer in zip(names, times.tolist(), told, strict=True):
        holding = [r for r in rows if r[0] == name and r[2] <= time and (r[3] is None or time < r[3])]
        if not holding:
            assert answer is None
            continue
        latest = max(r[2] for r in holding)
        last = [r for r in holding if r[2] == latest]
        soonest = min(FOREVER if r[3] is None else r[3] for r in last)
        assert answer in {r[1] for r in last if (FOREVER if r[3] is None else r[3]) == soonest}


def test_a_live_map_is_before_a_static_table_and_gives_way_to_it_again() -> None:
    found = build_node_intervals(mapping([("n1", "static", 0, None), ("n1", "live", 10, 20)]))
    assert found.look_up(pa.array(["n1"] * 3), np.array([5, 15, 25])).to_pylist() == ["static", "live", "static"]
    assert build_node_intervals(mapping([])).look_up(pa.array(["n1"]), np.array([5])).to_pylist() == [None]


SPAN = st.tuples(NAME, TIME, st.integers(1, 6))


@settings(max_examples=80, deadline=None)
@given(st.lists(SPAN, max_size=8), st.lists(SPAN, max_size=8))
def test_overlaps_are_all_found(left: list[tuple[str, int, int]], right: list[tuple[str, int, int]]) -> None:
    def columns(spans: list[tuple[str, int, int]]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        begin = np.array([s[1] for s in spans], np.int64)
        return pa.array([s[0] for s in spans], pa.string()), begin, begin + np.array([s[2] for s in spans], np.int64)

    found = find_interval_overlaps(*columns(left), *columns(right))
    pairs = list(zip(*(side.tolist() for side in found), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {
        (i, j)
        for i, (a, begin, long) in enumerate(left)
        for j, (b, since, wide) in enumerate(right)
        if a == b and begin < since + wide and since < begin + long
    }


def jobs(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), JOBS.schema)


def traffic(rows: list[tuple[object, ...]]) -> pa.Table:
    names = ("ts_ns", "node", "job_id", "read_bytes", "write_bytes", "metadata_ops")
    types = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    columns = [pa.array([r[k] for r in rows], types[k]) for k in range(len(names))]
    return pa.table([*columns, pa.array([S] * len(rows), pa.int64())], names=[*names, "interval_ns"])


def test_a_job_that_grew_and_one_told_twice_are_there_once() -> None:
    placed = build_node_placement_intervals(
        jobs(
            {"job_id": "7", "start_ns": 0, "end_ns": 10 * S, "nodes": ["n1", "n2"]},
            {"job_id": "7", "start_ns": 0, "end_ns": 10 * S, "nodes": ["n1"]},
            {"job_id": "8", "start_ns": 5 * S, "end_ns": 5 * S, "nodes": ["n1"]},
            {"job_id": "9", "nodes": ["n1"]},
        ),
        mapping([("7", "n3", 4 * S, None)], "job_node"),
    )
    assert placed.schema.equals(PLACEMENTS)
    found = attribute_node_interval_traffic(
        traffic([(0, "n1", None, 1, 1, 0), (5 * S, "n3", None, 1, 1, 0), (0, "n3", None, 1, 1, 0)]), placed
    )
    assert dict(zip(found.row.tolist(), zip(found.job_id.to_pylist(), found.how, strict=True), strict=True)) == {
        0: ("7", "alone"),
        1: ("7", "alone"),
        2: (None, "nobody"),
    }


def test_jobs_that_share_a_node_share_equally_unless_records_name_them() -> None:
    placed = build_node_placement_intervals(
        jobs({"job_id": "7", "start_ns": 0, "nodes": ["n1"]}, {"job_id": "8", "start_ns": 0, "nodes": ["n1"]})
    )
    found = attribute_node_interval_traffic(traffic([(0, "n1", None, 10, 0, 0), (0, "n1", "8", 5, 0, 0)]), placed)
    told = sorted(zip(found.row.tolist(), found.job_id.to_pylist(), found.part.tolist(), found.how, strict=True))
    assert told == [(0, "7", 0.5, "shared"), (0, "8", 0.5, "shared"), (1, "8", 1.0, "counted")]
