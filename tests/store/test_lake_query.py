"""Asking a lake: every table as a view, with waiting rows; one row a thing; reading only, and only the lake."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from fairlead.core.errors import LakeError, UsageError
from fairlead.core.model.tables import FILE_COUNTERS, FILES, JOBS, OPS, TABLES, build_table_batch
from fairlead.store import query
from fairlead.store.lake import Lake
from lake_rows import COUNTER_ROWS, DAY_NS, DAY_ONE, OPS_ROWS, put


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three jobs on two days: two carried over to the tables, one waiting in the log."""
    lake = Lake.open(tmp_path / "a lake", create=True)
    with lake.open_writer() as writer:
        put(writer, 1)
        put(writer, 2, day=1)
        writer.flush()
        put(writer, 3, day=1)
        writer.close(flush=False)
    return lake


def test_rows_are_the_same_before_and_after_they_are_carried_over(lake: Lake) -> None:
    sql = "SELECT job_id, count(*) AS n, min(day) AS day FROM ops GROUP BY 1 ORDER BY 1"
    before = lake.query(sql).to_pylist()
    assert before == [
        {"job_id": "job-1", "n": OPS_ROWS, "day": date(2024, 10, 4)},
        {"job_id": "job-2", "n": OPS_ROWS, "day": date(2024, 10, 5)},
        {"job_id": "job-3", "n": OPS_ROWS, "day": date(2024, 10, 5)},
    ]
    sights = {name: _sight(lake, name) for name in TABLES}
    lake.open_writer().close()
    assert lake.query(sql).to_pylist() == before
    assert {name: _sight(lake, name) for name in TABLES} == sights


def _sight(lake: Lake, name: str) -> list[str]:
    return sorted(map(repr, lake.read(name).to_pylist()))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_asked_even_when_there_is_none(lake: Lake, name: str) -> None:
    assert lake.query(f'SELECT * FROM "{name}" LIMIT 1').column_names == [*TABLES[name].schema.names, "day"]  # noqa: S608
    assert lake.read(name).schema.equals(TABLES[name].schema, check_metadata=True)


def test_read_gives_model_rows(lake: Lake) -> None:
    rows = lake.read("ops", job_id="job-2")
    assert rows.schema.equals(OPS.schema, check_metadata=True)
    assert rows.num_rows == OPS_ROWS
    starts = rows["start_ns"].to_pylist()
    assert starts == sorted(starts)
    half = lake.read("ops", from_ns=starts[10], to_ns=starts[20], columns=["start_ns", "op"])
    assert half.num_rows == 2 * 10  # of jobs 2 and 3
    assert half.schema.equals(OPS.schema.remove_metadata().empty_table().select(["start_ns", "op"]).schema)
    counters = lake.read("file_counters", job_id="job-3")
    assert counters.schema.equals(FILE_COUNTERS.schema)
    assert counters.num_rows == COUNTER_ROWS
    assert counters["read_sizes"][0].as_py() == [3, None, 3]
    assert counters["extra"][0].as_py() == [("x", 0.5), ("y", None)]


def test_rows_without_a_time_lie_on_the_day_of_their_input(lake: Lake) -> None:
    days = lake.query("SELECT day, count(*) AS n FROM file_counters GROUP BY 1 ORDER BY 1").to_pylist()
    assert days == [{"day": date(2024, 10, 4), "n": 3}, {"day": date(2024, 10, 5), "n": 6}]


def test_a_day_that_is_not_asked_for_is_not_opened(lake: Lake) -> None:
    lake.open_writer().close()
    for path in lake.place.build_table_path("main", "ops").glob("day=2024-10-05/*.parquet"):
        path.write_bytes(b"not parquet")
    fresh = Lake.open(lake.place.root)
    assert fresh.query("SELECT sum(count)::BIGINT AS n FROM ops WHERE day = '2024-10-04'").to_pylist() == [
        {"n": OPS_ROWS}
    ]
    assert fresh.read("ops", to_ns=DAY_ONE + DAY_NS - 1).num_rows == OPS_ROWS
    with pytest.raises(LakeError, match="is damaged"):
        fresh.query("SELECT count(size) FROM ops WHERE day = '2024-10-05'")


def test_parameters(lake: Lake) -> None:
    named = lake.query("SELECT count(*) AS n FROM ops WHERE job_id = $job", {"job": "job-1"})
    assert named.to_pylist() == [{"n": OPS_ROWS}]
    placed = lake.query("SELECT count(*) AS n FROM ops WHERE job_id = ? AND rank = ?", ["job-1' OR true --", 1])
    assert placed.to_pylist() == [{"n": 0}]


def test_of_two_accounts_with_one_end_the_final_state_counts(tmp_path: Path) -> None:
    """Slurm says COMPLETING with the end that FAILED will have."""
    account = {"cluster": ["c"], "job_id": ["8"], "start_ns": [DAY_ONE], "end_ns": [DAY_ONE + 5]}
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer() as writer:
        for number, state in enumerate(("COMPLETING", "FAILED", "COMPLETING")):
            batch = writer.open_batch(f"{number}")
            batch.add(build_table_batch(JOBS, account | {"state": [state]}))
            batch.commit()
    assert lake.read("jobs").column("state").to_pylist() == ["FAILED"]


def test_a_path_seen_often_is_one_file_and_a_job_told_twice_is_one_job(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    running = {"cluster": ["c"], "job_id": ["7"], "start_ns": [DAY_ONE], "state": ["RUNNING"]}
    done = running | {"state": ["COMPLETED"], "end_ns": [DAY_ONE + 5]}
    with lake.open_writer() as writer:
        for number, (job, seen) in enumerate([(running, DAY_ONE + DAY_NS), (done, DAY_ONE), (running | {}, None)]):
            batch = writer.open_batch(f"b{number}")
            batch.add(build_table_batch(JOBS, job))
            batch.add(
                build_table_batch(FILES, {"file_id": [1], "fs": ["/s"], "path": ["/s/a"], "first_seen_ns": [seen]})
            )
            assert batch.commit()
            writer.flush()
    assert [(j["state"], j["end_ns"]) for j in lake.read("jobs").to_pylist()] == [("COMPLETED", DAY_ONE + 5)]
    assert [f["first_seen_ns"] for f in lake.read("files").to_pylist()] == [DAY_ONE]
    joined = lake.query("SELECT count(*) AS n FROM jobs, files").to_pylist()
    assert joined == [{"n": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM ops",
        "SELECT 1; SELECT 2",
        "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'x.db'",
        "SET threads = 1",
        "PRAGMA database_size",
        "CREATE TABLE x (a INT)",
        "INSTALL httpfs",
        "",
        "SELEC 1",
        "SELECT nope FROM ops",
        "SELECT * FROM nope",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT getenv('HOME')",
    ],
)
def test_a_query_reads_the_lake_and_nothing_else(lake: Lake, sql: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        lake.query(sql)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "x.csv").exists()


def test_one_request_does_not_see_the_views_of_another(lake: Lake) -> None:
    cursor = lake.engine.open_cursor()
    lake.query("SELECT 1 FROM ops LIMIT 1")
    import duckdb

    with pytest.raises(duckdb.CatalogException):
        cursor.sql("SELECT * FROM ops")


def test_the_engine_spills_within_its_memory(tmp_path: Path) -> None:
    small = query.Engine(tmp_path, "100MB")
    wide = query.run_query(
        small, [], "SELECT count(*) AS n FROM (SELECT hash(i) h, repeat('x', 60) t FROM range(1500000) r(i) ORDER BY h)"
    )
    assert wide.to_pylist() == [{"n": 1_500_000}]
    with pytest.raises(LakeError, match="memory"):
        query.run_query(small, [], "SELECT list(repeat('x', 1000)) AS l FROM range(10000000)")


def test_a_wrong_memory_limit_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lots"):
        query.Engine(tmp_path, "lots")


def test_wrong_names_are_said(lake: Lake) -> None:
    with pytest.raises(UsageError, match="nope"):
        lake.read("nope")
    with pytest.raises(UsageError, match="colour"):
        lake.read("ops", columns=["colour"])
    with pytest.raises(UsageError, match="jobs"):
        lake.read("port", job_id="1")
    with pytest.raises(UsageError, match="times"):
        lake.read("layouts", from_ns=0)
