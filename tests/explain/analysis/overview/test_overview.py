"""Overview statistics: made figures by hand, what is not known left out, and the published population reproduced."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import FINDING, JOB_SUMMARY, ROLLUP, build_table_batch
from fairlead.decide.sim import platform
from fairlead.explain.analysis.health.durations import count_durations
from fairlead.explain.analysis.overview.abnormal_jobs import count_abnormal_jobs
from fairlead.explain.analysis.overview.job_population import (
    count_population_by_core_hours,
    count_population_modes,
    get_main_population_mode,
    rank_population_by_volume,
    select_latest_population_jobs,
    summarise_job_population,
    summarise_n_to_one_population,
)
from fairlead.explain.analysis.overview.metadata_load import compute_metadata_load
from fairlead.explain.analysis.overview.request_statistics import (
    compute_mean_request_bytes,
    compute_request_scatter,
    compute_request_size_shares,
)
from fairlead.kit.testing.machine import TAIHULIGHT
from fairlead.kit.testing.machine.population import (
    GB,
    MEAN_WRITE_GB,
    MODE_JOBS,
    MODES,
    NONTRIVIAL_SHARE,
    draw_population_jobs,
)
from system_building import GIB, HOUR, MIB, T0, Row, S, minutes, summary, table

MB = 10**6


def jobs(*rows: Row) -> pa.Table:
    return table(JOB_SUMMARY, rows)


def test_of_several_summaries_of_a_run_the_last_counts() -> None:
    rows = jobs(
        summary("1", write_bytes=1, made_ns=5),
        summary("1", write_bytes=2, made_ns=9),
        summary("1", write_bytes=7, made_ns=7, start_ns=T0 + S),
        summary("1", write_bytes=3, cluster="b"),
    )
    assert sorted(select_latest_population_jobs(rows)["write_bytes"].to_pylist()) == [2, 3, 7]


def test_a_share_is_of_jobs_whose_volume_is_known() -> None:
    rows = jobs(
        summary("1", read_bytes=150 * MB, write_bytes=51 * MB),
        summary("2", write_bytes=200 * MB),
        summary("3"),
        summary("4", read_bytes=0),
    )
    [found] = summarise_job_population(rows).to_pylist()
    assert found == {
        "jobs": 4,
        "known": 3,
        "nontrivial": 1,
        "nontrivial_share": pytest.approx(1 / 3),
        "read_bytes": 150 * MB,
        "write_bytes": 251 * MB,
    }


def test_nothing_known_is_not_zero() -> None:
    [found] = summarise_job_population(jobs(summary("1"))).to_pylist()
    assert (found["nontrivial_share"], found["read_bytes"]) == (None, None)
    assert summarise_job_population(jobs()).to_pylist()[0]["nontrivial_share"] is None


def test_the_mode_is_that_of_the_way_that_moved_more() -> None:
    rows = jobs(
        summary("1", read_bytes=GIB, write_bytes=2 * GIB, read_mode="1-1", write_mode="N-N"),
        summary("2", read_bytes=GIB, write_bytes=1, read_mode="N-1", write_mode="N-N"),
        summary("3", write_bytes=GIB, read_mode="1-1"),
        summary("4", write_bytes=GIB),
    )
    assert get_main_population_mode(rows).to_pylist() == ["N-N", "N-1", "1-1", None]
    found = {row["mode"]: row for row in count_population_modes(rows).to_pylist()}
    assert found["N-N"]["share"] == pytest.approx(1 / 3)
    assert (found[None]["jobs"], found[None]["share"]) == (1, None)
    assert found["N-M"]["mean_read_bytes"] is None


def test_classes_of_core_hours_include_their_upper_edge() -> None:
    def ran(core_hours: float) -> Row:
        return summary(str(core_hours), cores=int(core_hours), end_ns=T0 + HOUR, write_bytes=int(core_hours))

    rows = jobs(ran(1000), ran(1001), ran(2_000_000), summary("x", write_bytes=9), summary("run", end_ns=None))
    found = {row["core_hours"]: row["jobs"] for row in count_population_by_core_hours(rows).to_pylist()}
    assert found == {"(0,1K]": 1, "(1K,10K]": 1, "(10K,100K]": 0, "(100K,1000K]": 0, ">1000K": 1, None: 1}


def test_n_to_one_is_told_by_n() -> None:
    rows = jobs(
        *(
            summary(str(k), processes=n, write_mode="N-1", write_bandwidth_bytes_per_s=250.0 * MB + k)
            for k, n in enumerate([16, 20, 63, 64, 1024])
        ),
        summary("nn", processes=16, write_mode="N-N", write_bandwidth_bytes_per_s=1e9),
    )
    found = {row["processes"]: row["jobs"] for row in summarise_n_to_one_population(rows).to_pylist()}
    assert found == {16: 3, 64: 1, 1024: 1}


def test_a_ranking_has_its_trend() -> None:
    rows = jobs(
        summary("1", user="ada", write_bytes=300),
        summary("2", user="ada", write_bytes=100, start_ns=T0 - 60 * S),
        summary("3", user="ben", write_bytes=100),
        summary("4", user="cho", start_ns=T0),
    )
    found = rank_population_by_volume(rows, "user", T0, T0 + HOUR).to_pylist()
    assert [(row["name"], row["bytes"], row["trend"], row["earlier_bytes"]) for row in found] == [
        ("ada", 300, 3.0, 100),
        ("ben", 100, None, 0),
        ("cho", None, None, 0),
    ]
    alone = rank_population_by_volume(rows.slice(0, 1), "user", T0, T0 + HOUR).to_pylist()
    assert alone[0]["earlier_bytes"] is None


def test_mean_requests_want_bytes_and_operations_of_the_same_way() -> None:
    rows = jobs(
        summary("1", read_bytes=1000, read_ops=10, write_bytes=3000, write_ops=10),
        summary("2", read_bytes=1000, write_ops=10),
        summary("3", write_bytes=0, write_ops=0),
    )
    np.testing.assert_array_equal(compute_mean_request_bytes(rows), [200.0, np.nan, np.nan])
    below = {row["below_bytes"]: row for row in compute_request_size_shares(rows, (200, 201)).to_pylist()}
    assert [(below[k]["jobs"], below[k]["known"]) for k in (200, 201)] == [(0, 1), (1, 1)]
    assert compute_request_size_shares(jobs(summary("9")), (1024,)).to_pylist()[0]["job_share"] is None


def test_a_dot_lies_on_the_line_of_its_request_size() -> None:
    rows = jobs(
        summary(
            "1", write_bytes=GIB, write_ops=1024, iops=50.0, write_bandwidth_bytes_per_s=50.0 * MIB, write_mode="N-N"
        ),
        summary("2", write_bytes=MIB, write_ops=1, iops=1.0),
    )
    [dot] = compute_request_scatter(rows).to_pylist()
    assert dot["job_id"] == "1"
    assert dot["bandwidth_bytes_per_s"] == pytest.approx(dot["iops"] * dot["request_bytes"])


# -- load --------------------------------------------------------------------------------------------------------------


def test_load_counts_idle_minutes_only_where_somebody_watched() -> None:
    rows = table(
        ROLLUP,
        [
            *minutes("mds", "metadata", "m0", last=10, metadata_ops=60 * 1000),
            *minutes("mds", "metadata", "m0", first=10, last=20, metadata_ops=60 * 4),
        ],
    )
    edges = (0.01, 0.9, 1.0)
    assert compute_metadata_load(rows, 1000.0, edges=edges)["share"].to_pylist() == [0.5, 0.5, 1.0]
    watched = compute_metadata_load(rows, 1000.0, watched=60, edges=edges)
    assert watched["share"].to_pylist() == pytest.approx([50 / 60, 50 / 60, 1.0])
    assert compute_metadata_load(rows.slice(0, 0), 1000.0)["share"].null_count == 8


def test_metadata_load_tells_the_share_above_three_quarters() -> None:
    rows = table(
        ROLLUP,
        [
            *minutes("mds", "metadata", "m0", last=15, metadata_ops=60 * 900),
            *minutes("mds", "metadata", "m0", first=15, metadata_ops=60 * 100),
        ],
    )
    assert compute_metadata_load(rows, 1000.0, edges=(0.75,))["share_above"].to_pylist() == [0.25]


# -- abnormal jobs -----------------------------------------------------------------------------------------------------


def finding(name: str, job: str, cause: str, cost: float, **more: object) -> Row:
    return {
        "id": name,
        "rule": "job.interference",
        "title": "t",
        "subject_kind": "job",
        "subject_id": job,
        "job_id": job,
        "from_ns": T0,
        "severity": "high",
        "confidence": 0.9,
        "category": cause,
        "cost_s": cost,
        "detail": "{}",
        "made_ns": T0,
        "analysis_version": 1,
    } | more


def test_a_job_counts_once_for_what_cost_it_most() -> None:
    rows = table(
        FINDING,
        [
            finding("a", "1", "n_to_one", 10.0),
            finding("b", "1", "mdops", 90.0),
            finding("c", "2", "n_to_one", 5.0),
            finding("d", "3", "n_to_one", 5.0, withdrawn=True),
            finding("e", "small", "mdops", 1.0),
            finding("f", "4", "n_to_one", 5.0, rule="system.imbalance"),
        ],
    )
    some = jobs(*(summary(str(k), write_bytes=GIB) for k in range(1, 5)), summary("small", write_bytes=1))
    found = {row["cause"]: row for row in count_abnormal_jobs(rows, some).to_pylist()}
    assert {cause: row["jobs"] for cause, row in found.items()} == {"mdops": 1, "n_to_one": 1, "all": 2}
    assert found["all"]["share"] == 0.5
    assert found["all"]["lost_s"] == 105.0
    assert found["mdops"]["of_abnormal"] == 0.5


def test_a_finding_made_again_counts_as_it_was_made_last() -> None:
    rows = table(FINDING, [finding("a", "1", "mdops", 9.0), finding("a", "1", "n_to_one", 9.0, analysis_version=2)])
    found = count_abnormal_jobs(rows, jobs(summary("1", write_bytes=GIB))).to_pylist()
    assert [row["cause"] for row in found] == ["n_to_one", "all"]


def test_durations_are_those_of_the_paper() -> None:
    def sick(name: str, hours: float | None) -> Incident:
        to = None if hours is None else T0 + int(hours * HOUR)
        return Incident(id=name, layer="target", component="o1", from_ns=T0, to_ns=to, kind="degraded", confidence=1.0)

    (row,) = count_durations([sick("a", 0.5), sick("b", 4.0), sick("c", None)], T0 + 100 * HOUR)
    assert (row.layer, list(row.counts)) == ("target", [1, 0, 1, 0, 1])


# -- the published population ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published() -> pa.Table:
    """Summaries of 30,000 jobs drawn as at the published site, as if every one of them had been recorded."""
    drawn = draw_population_jobs(platform.build_taihulight_platform(), TAIHULIGHT, 30_000, np.random.default_rng(101))
    rows = {
        "job_id": [str(one.number) for one in drawn],
        "start_ns": [int(one.submit_s * 1e9) for one in drawn],
        "read_bytes": [one.read_bytes for one in drawn],
        "write_bytes": [one.write_bytes for one in drawn],
        "read_mode": [one.program.mode for one in drawn],
        "write_mode": [one.program.mode for one in drawn],
        "made_ns": np.zeros(len(drawn), np.int64),
        "analysis_version": np.ones(len(drawn), np.int64),
    }
    return pa.Table.from_batches([build_table_batch(JOB_SUMMARY, rows)])


def test_the_share_of_non_trivial_jobs_is_the_published_one(published: pa.Table) -> None:
    """16.3 %, to a percentage point: three standard errors of 30,000 drawn jobs are 0.6 points."""
    [found] = summarise_job_population(published).to_pylist()
    assert found["nontrivial_share"] == pytest.approx(NONTRIVIAL_SHARE, abs=0.01)


def test_the_modes_are_the_published_ones(published: pa.Table) -> None:
    """N-N 36.9, N-M 1.1, N-1 7.9, 1-1 54.1 %: to 3 points (storms, 0.69 % of all jobs, are N-N here)."""
    found = {row["mode"]: row for row in count_population_modes(published).to_pylist()}
    for mode, count in zip(MODES, MODE_JOBS, strict=True):
        assert found[mode]["share"] == pytest.approx(count / sum(MODE_JOBS), abs=0.03), mode


def test_mean_volumes_are_of_the_published_size(published: pa.Table) -> None:
    """Volumes are lognormal with a deviation of 1.6, so means of some thousand jobs keep to a factor of 1.5."""
    found = {row["mode"]: row for row in count_population_modes(published).to_pylist()}
    for mode, gigabytes in zip(MODES, MEAN_WRITE_GB, strict=True):
        if found[mode]["jobs"] > 300:
            assert 1 / 1.5 < found[mode]["mean_write_bytes"] / (gigabytes * GB) < 1.5, mode
