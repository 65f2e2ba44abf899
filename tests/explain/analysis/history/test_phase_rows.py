"""Phases of a job as rows: edges, rates, distributions, what is missing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.model.tables import PHASE
from fairlead.explain.analysis.history.phase_rows import build_phase_rows
from fairlead.explain.analysis.history.rate_bins import SILENT, compute_bin_rates, find_rate_bins
from fairlead.explain.analysis.job_summary import SERIES, JobData

S = 1_000_000_000
T0 = 1_700_000_000 * S
JOB = {
    "job_id": "7",
    "cluster": "c",
    "start_ns": T0,
    "end_ns": T0 + 500 * S,
    "user": "ada",
    "program": "flow",
    "nodes_count": 4,
    "processes": 16,
}
MB = 1_000_000


def job(layer: str = "client", **columns: list[int] | None) -> JobData:
    length = len(next(values for values in columns.values() if values is not None))
    made = {"ts_ns": [T0 + i * S for i in range(length)], "layer": [layer] * length}
    for name in SERIES:
        made[name] = columns.get(name, [0] * length) or [None] * length  # type: ignore[assignment]
    schema = pa.schema([("ts_ns", pa.int64()), ("layer", pa.string()), *((name, pa.int64()) for name in SERIES)])
    return JobData(job=JOB, series=pa.table(made, schema))


def burst(*values: float, quiet: int = 30) -> list[int]:
    return [0] * 5 + [int(value * MB) for value in values] + [0] * quiet


def test_half_filled_edges_do_not_lower_the_rate() -> None:
    (row,) = build_phase_rows(
        job(write_bytes=burst(40, 100, 100, 100, 30), write_ops=burst(0.4, 1, 1, 1, 0.3)), 9
    ).to_pylist()
    assert row["rate_per_s"] == pytest.approx(100 * MB)
    assert row["active_ns"] == pytest.approx(3.7 * S)
    assert row["bytes"] == 370 * MB
    assert row["request_bytes"] == pytest.approx(100)
    assert row["rate_bins"] == [int(find_rate_bins(100 * MB))]
    assert row["made_ns"] == 9
    assert "edges" not in row["missing"]


def test_a_phase_shorter_than_the_intervals_says_that_its_rate_is_a_bound() -> None:
    (row,) = build_phase_rows(job(write_bytes=burst(80, 20)), 1).to_pylist()
    assert "edges" in row["missing"]
    assert row["rate_per_s"] == pytest.approx(80 * MB)


def test_recorded_operations_tell_the_edges() -> None:
    edges = pa.table(
        {
            "kind": ["write", "write", "read"],
            "start_ns": [T0 + int(5.9 * S), T0 + int(6.1 * S), T0],
            "end_ns": [T0 + int(6.1 * S), T0 + int(6.2 * S), T0 + S],
        }
    )
    (row,) = build_phase_rows(job(write_bytes=burst(20, 40)), 1, edges=edges).to_pylist()
    assert row["start_ns"] == T0 + int(5.9 * S)
    assert row["end_ns"] == T0 + int(6.2 * S)
    assert row["rate_per_s"] == pytest.approx(200 * MB, rel=1e-6)


def test_operations_that_are_not_those_counted_are_not_believed() -> None:
    edges = pa.table({"kind": ["write"], "start_ns": [T0 + 7 * S], "end_ns": [T0 + 7 * S + 1000]})
    (row,) = build_phase_rows(job(write_bytes=burst(100, 100, 100, 100)), 1, edges=edges).to_pylist()
    assert row["rate_per_s"] == pytest.approx(100 * MB)


def test_silence_inside_a_phase_is_told_apart() -> None:
    values = [0] * 300
    for at in (*range(20, 40), *range(41, 60)):
        values[at] = 100 * MB
    (row,) = build_phase_rows(job(write_bytes=values), 1).to_pylist()
    assert dict(zip(row["rate_bins"], row["rate_ns"], strict=True))[SILENT] == S
    assert row["active_ns"] == 39 * S


def test_opening_and_closing_is_no_phase_of_its_own() -> None:
    data = job(
        write_bytes=burst(100, 100, 100, 100),
        write_ops=burst(1, 1, 1, 1),
        metadata_ops=[0] * 4 + [800, 50, 0, 0, 50, 800] + [0] * 29,
    )
    assert build_phase_rows(data, 1)["kind"].to_pylist() == ["write"]


def test_a_storm_of_metadata_is_a_phase() -> None:
    data = job(write_bytes=burst(100, 100, 100, 100, quiet=80), metadata_ops=[0] * 40 + [3000] * 20 + [0] * 29)
    write, storm = build_phase_rows(data, 1).to_pylist()
    assert (write["kind"], storm["kind"]) == ("write", "metadata")
    assert storm["rate_per_s"] == pytest.approx(3000)
    assert storm["bytes"] is None
    assert storm["metadata_ops"] == 60_000


def test_what_is_not_known_is_null_and_named() -> None:
    data = job(layer="osc", write_bytes=burst(100, 100, 100), write_ops=None, metadata_ops=None)
    (row,) = build_phase_rows(data, 1).to_pylist()
    assert row["request_bytes"] is None
    assert row["ops"] is None
    assert row["metadata_ops"] is None
    assert set(row["missing"]) == {"forwarders", "mds", "mode", "operations", "targets"}


def test_metadata_servers_speak_where_the_client_does_not() -> None:
    client = job(write_bytes=burst(100, 100, 100, 100, quiet=80), metadata_ops=None).series
    server = job(layer="metadata", metadata_ops=[0] * 40 + [3000] * 20 + [0] * 29).series
    rows = build_phase_rows(JobData(job=JOB, series=pa.concat_tables([client, server])), 1).to_pylist()
    assert [(row["kind"], row["basis"]) for row in rows] == [("write", "client"), ("metadata", "job_stats")]


@pytest.mark.parametrize("values", [[0] * 20, []])
def test_no_traffic_is_no_phase(values: list[int]) -> None:
    empty = PHASE.schema.empty_table()
    assert build_phase_rows(
        job(write_bytes=values) if values else JobData(job=JOB, series=job(write_bytes=[0]).series.slice(1)), 1
    ).equals(empty)


def test_bins_are_an_eighth_of_a_doubling() -> None:
    rates = np.array([0.0, -3.0, np.nan, 0.5, 1.0, 2.0, 1e9])
    assert find_rate_bins(rates).tolist() == [SILENT, SILENT, SILENT, 0, 0, 8, int(8 * np.log2(1e9))]
    assert float(compute_bin_rates(find_rate_bins(1e9))) == pytest.approx(1e9, rel=0.045)


def test_the_tail_that_one_slow_target_leaves_belongs_to_its_phase() -> None:
    tail, still = [60] * 11, [0] * 7
    steps = [
        [1307, 1315, 1323, 1322, 1315, 1293, *tail, 55],
        [100, 1322, 1323, 1315, 1322, 1322, 1175, *tail, 49],
        [215, 1322, 1323, 1315, 1322, 1322, 1065, *tail, 44],
    ]
    course = [0, *steps[0], *still, *steps[1], *still, *steps[2]]
    rows = build_phase_rows(job(write_bytes=[value * MB for value in course]), 1).to_pylist()
    assert [row["bytes"] for row in rows] == [sum(step) * MB for step in steps]
    assert all(row["active_ns"] > 16 * S for row in rows)
    assert all(one["end_ns"] <= two["start_ns"] for one, two in pairwise(rows))
