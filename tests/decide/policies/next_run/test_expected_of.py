"""What past runs let one expect of a job: its own category, the same program elsewhere, others, nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fairlead.core.model.tables import JOB_SUMMARY, build_table_batch
from fairlead.decide.policies.next_run.expectation import Job, Past, build_next_run_expectation
from fairlead.decide.policies.paths.contract import ExpectedJob

GB = 10**9
S = 10**9


def run(number: int, **more: Any) -> dict[str, Any]:
    """A run of 100 s from second 1000 x number: 8 GB written at 0.4 GB/s, 20 s of I/O."""
    return {
        "job_id": str(number),
        "start_ns": number * 1000 * S,
        "end_ns": (number * 1000 + 100) * S,
        "user": "ada",
        "program": "wrf",
        "nodes_count": 16,
        "cores": 64,
        "processes": 64,
        "io_processes": 64,
        "read_bytes": 0,
        "write_bytes": 8 * GB,
        "read_ops": 0,
        "write_ops": 8000,
        "metadata_ops": 640,
        "write_mode": "N-N",
        "write_bandwidth_bytes_per_s": 0.4 * GB,
        "mdops_in_phases": 20.0,
        "files": 64,
        "phases": 2,
        "made_ns": number * 1000 * S,
        "analysis_version": 1,
    } | more


def table(*rows: dict[str, Any]) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.Table.from_batches(
        [build_table_batch(JOB_SUMMARY, {name: [row.get(name) for row in rows] for name in names})]
    )


def job(**more: Any) -> Job:
    return Job(**({"job_id": "x", "user": "ada", "program": "wrf", "node_count": 16} | more))


def test_of_its_own_category_medians_are_expected() -> None:
    found = build_next_run_expectation(table(run(1), run(2, write_bytes=9 * GB), run(3, write_bytes=10 * GB)), job())
    assert found.write_bytes == 9 * GB
    assert (found.mode, found.io_processes, found.files, found.mdops) == ("N-N", 64, 64, 20.0)
    assert found.compute_s == pytest.approx(100 - 9 / 0.4)
    assert found.bandwidth_bytes_per_s == pytest.approx(0.4 * GB)
    assert found.request_bytes == pytest.approx(9 * GB / 8000)
    assert found.file_bytes == pytest.approx(9 * GB / 64)
    assert found.runs_known == 3
    assert found.basis.startswith("3 of 3 runs on about 16 nodes")


def test_only_runs_of_the_predicted_behaviour_count() -> None:
    pattern = [run(n, write_bytes=(8 if n % 2 else 800) * GB) for n in range(1, 14)]
    after_small = build_next_run_expectation(table(*pattern), job())
    assert after_small.write_bytes == 800 * GB
    assert "behaviour 1" in after_small.basis
    assert build_next_run_expectation(table(*pattern[:-1]), job()).write_bytes == 8 * GB


def test_only_runs_that_had_ended_count() -> None:
    runs = table(run(1), run(2, write_bytes=900 * GB))
    assert build_next_run_expectation(runs, job(start_ns=2050 * S)).write_bytes == 8 * GB
    assert build_next_run_expectation(runs, job(start_ns=1050 * S)) == ExpectedJob(
        job_id="x", user="ada", program="wrf", node_count=16
    )  # the first still ran
    told = build_next_run_expectation(runs, job(start_ns=1100 * S + 2 * 86_400 * S))
    assert "the last 2.0 days ago" in told.basis


def test_another_scale_is_scaled_in_proportion_or_as_seen() -> None:
    one = build_next_run_expectation(table(run(1)), job(node_count=64))
    assert one.write_bytes == 32 * GB
    assert (one.io_processes, one.processes, one.files) == (256, 256, 256)
    assert one.file_bytes == pytest.approx(8 * GB / 64)
    assert "in proportion to nodes" in one.basis
    # 16 and 32 nodes moved the same: 64 will too.
    flat = build_next_run_expectation(table(run(1), run(2, nodes_count=32)), job(node_count=64))
    assert flat.write_bytes == pytest.approx(8 * GB)
    assert "nodes^0.00, as seen" in flat.basis
    alone = build_next_run_expectation(table(run(1, write_mode="1-1", io_processes=1, files=1)), job(node_count=64))
    assert (alone.write_bytes, alone.io_processes, alone.files) == (8 * GB, 1, 1)


def test_who_was_never_seen_is_like_others_of_its_size_or_nothing() -> None:
    found = build_next_run_expectation(table(run(1), run(2)), job(user="eve", program="new"))
    assert found.write_bytes == 8 * GB
    assert found.runs_known == 0
    assert found.basis == "never seen; as 2 runs of others on about 16 nodes"
    nothing = build_next_run_expectation(table(run(1)), job(user="eve", node_count=512))
    assert (nothing.write_bytes, nothing.mode, nothing.basis) == (None, "", "never seen")


def test_what_is_not_known_stays_unknown() -> None:
    bare = {
        "job_id": "1",
        "start_ns": 0,
        "end_ns": 5 * S,
        "user": "ada",
        "program": "wrf",
        "nodes_count": 16,
        "made_ns": 1,
        "analysis_version": 1,
    }
    found = build_next_run_expectation(table(bare), job())
    assert found.runs_known == 1
    for name in ("read_bytes", "write_bytes", "io_processes", "mdops", "bandwidth_bytes_per_s", "compute_s", "files"):
        assert getattr(found, name) is None, name


def test_a_table_of_few_columns_will_do() -> None:
    few = pa.table({"user": ["ada"], "program": ["wrf"], "nodes_count": [16], "end_ns": [5], "write_bytes": [7 * GB]})
    assert build_next_run_expectation(few, job()).write_bytes == 7 * GB
    assert build_next_run_expectation(few.slice(0, 0), job()).basis == "never seen"


def test_of_rows_of_one_run_the_last_made_counts_and_one_without_an_end_does_not() -> None:
    again = run(1, write_bytes=1 * GB, made_ns=5)
    running = run(2, end_ns=None, write_bytes=99 * GB)
    past = Past.from_rows(table(run(1), again, running))
    assert len(past) == 1
    assert build_next_run_expectation(past, job()).write_bytes == 8 * GB


def test_figures_that_cannot_be_are_not_known() -> None:
    broken = run(1, write_bytes=-5, files=-1, mdops_in_phases=float("inf"), write_bandwidth_bytes_per_s=float("nan"))
    found = build_next_run_expectation(table(broken), job())
    assert (found.write_bytes, found.files, found.mdops, found.bandwidth_bytes_per_s) == (None, None, None, None)
    late = run(2, start_ns=9_000 * S)  # ends before it began
    assert build_next_run_expectation(table(late), job()).compute_s in (None, 0.0)


def test_a_curve_is_told_where_different_numbers_were_seen() -> None:
    def had(number: int, targets: int, rate: float) -> dict[str, Any]:
        return run(number, targets=[f"ost{i}" for i in range(targets)], write_bandwidth_bytes_per_s=rate)

    found = build_next_run_expectation(table(had(1, 1, 0.4 * GB), had(2, 4, 1.2 * GB), had(3, 4, 1.2 * GB)), job())
    assert found.target_curve == ((1, pytest.approx(0.4 * GB)), (4, pytest.approx(1.2 * GB)))
    assert build_next_run_expectation(table(had(1, 4, GB), had(2, 4, GB)), job()).target_curve == ()
