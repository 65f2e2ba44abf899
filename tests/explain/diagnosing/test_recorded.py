"""What is read of jobs together is what is read of each alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosed_lake import co_run, lake_of
from fairlead.explain.analysis.job_summary import JobData
from fairlead.explain.diagnosing.recorded_io import TOGETHER_NS, group_recorded_io_jobs, read_recorded_io
from fairlead.store.lake import Lake

DAY = 86_400 * 10**9


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_of(tmp_path_factory.mktemp("recorded") / "lake", co_run().build_tables())


def plain(data: JobData) -> list[object]:
    tables = (data.series, data.io, data.nodes_traffic)
    rows = [None if table is None else sorted(map(repr, table.to_pylist())) for table in tables]
    return [data.forwarders, data.targets, list(data.estimated), data.interval_ns, data.io_nodes, *rows]


@pytest.mark.parametrize(
    "lacking",
    [(), ("forwarder",), ("target",), ("ops",), ("forwarder", "target", "ops")],
    ids=lambda names: "-".join(names) or "all",
)
def test_jobs_read_together_are_as_read_alone(lake: Lake, tmp_path: Path, lacking: tuple[str, ...]) -> None:
    tables = {name: table for name, table in co_run().build_tables().items() if name not in lacking}
    made = lake_of(tmp_path / "lake", tables) if lacking else lake
    jobs = made.query("SELECT * EXCLUDE (day) FROM jobs WHERE end_ns IS NOT NULL ORDER BY job_id").to_pylist()
    assert len(jobs) == 6
    alone = [plain(read_recorded_io(made, [job])[0]) for job in jobs]
    assert [plain(data) for data in read_recorded_io(made, jobs)] == alone
    assert [plain(data) for data in read_recorded_io(made, jobs[::-1])] == alone[::-1]
    told = [data for data in read_recorded_io(made, jobs) if data.series.num_rows]
    assert bool(told) or "ops" in lacking


def test_a_number_that_is_used_again_gets_its_own_records(lake: Lake) -> None:
    """The same number twice: each with what was recorded while it ran."""
    [job] = lake.query("SELECT * EXCLUDE (day) FROM jobs WHERE job_id = '100010' LIMIT 1").to_pylist()
    later = {**job, "cluster": "other", "start_ns": job["end_ns"] + 60 * 10**9, "end_ns": job["end_ns"] + 90 * 10**9}
    first, second = read_recorded_io(lake, [job, later])
    assert first.series.num_rows
    assert not second.series.num_rows
    assert plain(first) == plain(read_recorded_io(lake, [job])[0])


def test_jobs_far_apart_do_not_share_queries() -> None:
    def ran(begin: int, length: int) -> dict[str, object]:
        return {"job_id": "1", "start_ns": begin, "end_ns": begin + length}

    jobs = [ran(0, DAY), ran(10 * DAY, DAY // 24), ran(DAY // 2, DAY // 24), ran(10 * DAY, 5 * DAY), ran(15 * DAY, 10)]
    groups = group_recorded_io_jobs(jobs, range(5))
    assert sorted(at for group in groups for at in group) == [0, 1, 2, 3, 4]
    assert [0, 2] in groups
    for group in groups:
        first, last = min(jobs[at]["start_ns"] for at in group), max(jobs[at]["end_ns"] for at in group)
        assert len(group) == 1 or int(str(last)) - int(str(first)) <= TOGETHER_NS


def test_nothing_is_asked_of_no_jobs(lake: Lake) -> None:
    assert read_recorded_io(lake, []) == []
