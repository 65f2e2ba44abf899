"""Which files hold a job is looked at once a file: what arrives later, or is told again, is seen all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.core.model.finding import Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows
from fairlead.core.model.tables import JOB_SUMMARY, JOBS, build_table_batch
from fairlead.explain.questions.findings import list_job_findings
from fairlead.explain.questions.job_accounts import read_all_accounts, read_run_accounts
from fairlead.explain.questions.lake_queries import Sight, query_lake
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.explain.questions.warm_up import warm_up_job_files
from fairlead.store.lake import Lake

T0 = 20_000 * DAY_NS
S = 10**9


def told(lake: Lake, name: str, *rows: object) -> None:
    with lake.open_writer("main") as writer:
        taking = writer.open_batch(name)
        for one in rows:
            taking.add(one)
        taking.commit()


def job(number: str, start: int, end: int | None) -> object:
    return build_table_batch(
        JOBS,
        {
            "cluster": ["c"],
            "job_id": [number],
            "user": ["alice"],
            "start_ns": [start],
            "end_ns": [end],
            "nodes": [["n1"]],
            "state": ["COMPLETED" if end else "RUNNING"],
        },
    )


def found(id_: str, number: str, start: int) -> object:
    finding = Finding(
        id=id_,
        rule="job.interference",
        title="it lost time",
        subject=Subject("job", number),
        from_ns=start,
        to_ns=start + S,
        severity="high",
        confidence=0.9,
        category="interference",
        cost_s=1.0,
        analysis_version="1",
    )
    return build_finding_rows([StoredFinding(cluster="c", job_id=number, user="alice", finding=finding)], start)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.open(tmp_path / "lake", create=True)
    for day in range(4):
        told(made, f"day{day}", job(str(day), T0 + day * DAY_NS + S, T0 + day * DAY_NS + 60 * S))
    warm_up_job_files(made)
    return made


def test_a_run_told_later_is_seen(lake: Lake) -> None:
    assert [run["start_ns"] for run in read_run_accounts(lake, "1")] == [T0 + DAY_NS + S]
    assert read_run_accounts(lake, "7") == []
    told(lake, "again", job("1", T0 + 3 * DAY_NS, None), job("7", T0, None))
    assert [run["start_ns"] for run in read_run_accounts(lake, "1")] == [T0 + 3 * DAY_NS, T0 + DAY_NS + S]
    assert [run["end_ns"] for run in read_run_accounts(lake, "7")] == [None]
    told(lake, "ended", job("7", T0, T0 + 9 * S))  # in another file than its begin
    assert [run["end_ns"] for run in read_run_accounts(lake, "7")] == [T0 + 9 * S]


def test_rows_that_wait_are_seen(lake: Lake) -> None:
    with lake.open_writer("main") as writer:
        taking = writer.open_batch("waiting")
        taking.add(job("8", T0 + DAY_NS, None))
        taking.commit()
        assert [run["job_id"] for run in read_run_accounts(lake, "8")] == ["8"]
        span = Span(T0 + DAY_NS, T0 + DAY_NS + S)
        assert [run["job_id"] for run in read_all_accounts(lake, ["8", "1", "2"], span)] == ["8"]


def test_a_new_finding_is_seen(lake: Lake) -> None:
    life = Span(T0 + DAY_NS, T0 + DAY_NS + 120 * S)
    assert list_job_findings(lake, "c", "1", life, Sight()) == []
    told(lake, "found", found("f1", "1", life.from_ns + S), found("f2", "2", life.from_ns + S))
    assert [one.finding.id for one in list_job_findings(lake, "c", "1", life, Sight())] == ["f1"]
    told(lake, "more", found("f3", "1", life.from_ns + 2 * S))
    assert sorted(one.finding.id for one in list_job_findings(lake, "c", "1", life, Sight())) == ["f1", "f3"]


def test_files_of_other_days_and_jobs_are_not_opened(lake: Lake) -> None:
    said = "SELECT job_id FROM jobs ORDER BY job_id"
    day = Span(T0 + 3 * DAY_NS, T0 + 4 * DAY_NS)
    # The promise is the query's: without its condition a day beside the span (tellings move a begin) is there too.
    assert query_lake(lake, said, began=day)["job_id"].to_pylist() == ["2", "3"]
    assert query_lake(lake, said, numbers=["0", "3"])["job_id"].to_pylist() == ["0", "3"]
    assert query_lake(lake, said, numbers=[])["job_id"].to_pylist() == []
    assert query_lake(lake, said, numbers=["no such \udcff"])["job_id"].to_pylist() == []


def test_the_latest_telling_counts_across_files(lake: Lake) -> None:
    for number, made in enumerate((5, 9)):
        told(
            lake,
            f"summary{number}",
            build_table_batch(
                JOB_SUMMARY,
                {
                    "cluster": ["c"],
                    "job_id": ["1"],
                    "start_ns": [T0 + DAY_NS + S],
                    "made_ns": [made],
                    "analysis_version": [1],
                },
            ),
        )
    chosen = query_lake(lake, "SELECT made_ns FROM job_summary WHERE job_id = $j", {"j": "1"}, numbers=["1"])
    assert chosen["made_ns"].to_pylist() == [9]
