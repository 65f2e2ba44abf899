"""A job's summary: which layer it is of, rates, modes, and what stays unknown."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.model.tables import JOB_SUMMARY
from fairlead.explain.analysis.job_summary import SERIES, JobData, build_job_summary, build_job_summary_table

S = 1_000_000_000
EPOCH = 1_700_000_000 * S
JOB = {"job_id": "7", "cluster": "c", "start_ns": EPOCH, "end_ns": EPOCH + 100 * S, "processes": 4, "nodes_count": 2}
SCHEMA = pa.schema([("ts_ns", pa.int64()), ("layer", pa.string()), *((name, pa.int64()) for name in SERIES)])


def series(layer: str, rows: list[tuple[int, dict[str, int]]]) -> pa.Table:
    return pa.Table.from_pylist([{"ts_ns": EPOCH + at * S, "layer": layer, **values} for at, values in rows], SCHEMA)


def writes(layer: str, *seconds: int, each: int = 100) -> pa.Table:
    values = {"read_bytes": 0, "write_bytes": each, "read_ops": 0, "write_ops": 10, "metadata_ops": 4}
    return series(layer, [(at, values) for at in seconds])


def io(rows: list[tuple[str, int | None, int | None, int]]) -> pa.Table:
    """Writers: node, rank, file, bytes."""
    times = {"read_bytes": None, "read_time_ns": None, "write_time_ns": 5, "metadata_time_ns": 2}
    made = [{"node": n, "rank": r, "file_id": f, "write_bytes": b, **times} for n, r, f, b in rows]
    types = {"node": pa.string(), "rank": pa.int32()}
    names = (
        "node",
        "rank",
        "file_id",
        "read_bytes",
        "write_bytes",
        "read_time_ns",
        "write_time_ns",
        "metadata_time_ns",
    )
    return pa.Table.from_pylist(made, pa.schema([(n, types.get(n, pa.int64())) for n in names]))


def test_rates_are_of_the_seconds_in_which_something_moved() -> None:
    data = JobData(JOB, pa.concat_tables([writes("client", 2, 3, each=300), writes("client", 60)]))
    row = build_job_summary(data, 5)
    assert row["basis"] == "client"
    assert (row["write_bytes"], row["write_ops"], row["metadata_ops"]) == (700, 30, 12)
    assert row["write_bandwidth_bytes_per_s"] == pytest.approx(700 / 3)
    assert row["peak_write_bytes_per_s"] == 300
    assert row["iops"] == 10
    assert row["phases"] == 2
    assert row["mdops_in_phases"] == 4
    assert (row["read_bytes"], row["read_bandwidth_bytes_per_s"]) == (0, None)
    assert row["estimated"] is None
    assert (row["made_ns"], row["nodes_count"]) == (5, 2)


def test_the_best_layer_counts_and_layers_are_not_added() -> None:
    layers = {"client": 8, "pfs_client": 7, "target": 6, "forwarder": 5}
    known = dict(layers)
    for best, basis in (
        ("client", "client"),
        ("forwarder", "forwarder"),
        ("pfs_client", "client"),
        ("target", "job_stats"),
    ):
        row = build_job_summary(JobData(JOB, pa.concat_tables([writes(n, 1, each=v) for n, v in known.items()])), 0)
        assert (row["basis"], row["write_bytes"]) == (basis, layers[best])
        del known[best]


def test_targets_and_metadata_servers_together_are_job_stats() -> None:
    target = series("target", [(1, {"read_bytes": 0, "write_bytes": 9})])
    row = build_job_summary(JobData(JOB, pa.concat_tables([target, series("metadata", [(1, {"metadata_ops": 3})])])), 0)
    assert (row["basis"], row["write_bytes"], row["metadata_ops"], row["write_ops"]) == ("job_stats", 9, 3, None)


def test_traffic_of_nodes_is_an_estimate() -> None:
    row = build_job_summary(JobData(JOB, writes("client").slice(0, 0), nodes_traffic=writes("pfs_client", 1)), 0)
    assert row["basis"] == "estimate"
    assert {"write_bytes", "iops", "peak_write_bytes_per_s", "phases"} <= set(row["estimated"])  # type: ignore[arg-type]
    assert row["io_processes"] is None


def test_a_job_nothing_is_known_of_has_no_figures() -> None:
    row = build_job_summary(JobData(JOB, SCHEMA.empty_table()), 0)
    assert row["basis"] is None
    assert all(row[name] is None for name in (*SERIES, "phases", "iops", "write_mode", "targets", "estimated"))
    assert build_job_summary_table([row]).schema.equals(JOB_SUMMARY.schema)


@pytest.mark.parametrize(
    ("rows", "mode", "processes"),
    [
        ([("n1", r, r, 10) for r in range(4)], "N-N", 4),
        ([("n1", r, 1, 10) for r in range(4)], "N-1", 4),
        ([("n1", r, r // 2, 10) for r in range(4)], "N-M", 4),
        ([("n1", 0, f, 10) for f in range(4)], "1-1", 1),
        ([("n1", r, r, 0) for r in range(4)], "none", 0),
        ([("n1", None, 1, 5), ("n2", None, 1, 5)], "N-1", 2),
        ([("n1", r, None, 5) for r in range(4)], None, 4),
    ],
)
def test_modes(rows: list[tuple[str, int | None, int | None, int]], mode: str | None, processes: int) -> None:
    row = build_job_summary(JobData(JOB, writes("client", 1), io=io(rows)), 0)
    assert (row["write_mode"], row["io_processes"], row["read_mode"]) == (mode, processes, "none")
    assert row["write_time_ns"] == 5 * len(rows)
    assert row["read_time_ns"] is None


def test_a_series_of_years_is_not_cut_into_phases() -> None:
    row = build_job_summary(JobData(JOB, writes("client", 0, 50_000_000)), 0)
    assert row["phases"] is None
    assert row["write_bandwidth_bytes_per_s"] == 100


def test_a_mounts_figures_are_taken_before_a_tracers_and_never_with_them() -> None:
    both = pa.concat_tables([writes("client", 0, 1, each=90), writes("mount", 0, 1), writes("forwarder", 0, 1)])
    row = build_job_summary(JobData(job=JOB, series=both), 0)
    assert (row["basis"], row["write_bytes"]) == ("client", 200)
    row = build_job_summary(JobData(job=JOB, series=both.filter(pc.not_equal(both["layer"], "mount"))), 0)
    assert (row["basis"], row["write_bytes"]) == ("client", 180)
