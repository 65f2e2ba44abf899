"""`fairlead ingest` and `fairlead lake` on real traces: taken in whole, once, beside inputs that fail."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.core import clock
from fairlead.core.compression.operation_runs import expand_operation_runs
from fairlead.core.model.tables import OPS, find_table_spec
from fairlead.see import ingest as intake
from fairlead.see.sources import registered_sources
from fairlead.store import batch_writer
from fairlead.store.lake import Lake

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command line in this process against a lake of its own: exit code, stdout, stderr."""
    monkeypatch.setenv("FAIRLEAD_LAKE", str(tmp_path / "lake"))

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def _lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake")


def test_a_trace_is_taken_in_once_whatever_its_name(run: Run, fixtures: Path, tmp_path: Path) -> None:
    log = fixtures / "darshan" / "n1_strided_64k_8.darshan"
    code, out, err = run("ingest", log, "--json")
    assert (code, err) == (0, "")
    first = json.loads(out)
    assert first["schema"] == "fairlead.ingest/1"
    assert first["files"] == {"added": 1, "known": 0, "failed": 0}
    assert first["rows"]["jobs"] == 1
    assert first["rows"]["ops"] > 0
    sight = {name: _lake(tmp_path).read(name).num_rows for name in first["rows"]}
    assert sight == first["rows"]
    shutil.copy(log, tmp_path / "renamed")
    code, out, _ = run("ingest", log, tmp_path / "renamed", "--json")
    again = json.loads(out)
    assert (code, again["files"], again["rows"]) == (0, {"added": 0, "known": 2, "failed": 0}, {})
    assert {name: _lake(tmp_path).read(name).num_rows for name in sight} == sight


def test_the_lake_gives_back_every_operation(run: Run, fixtures: Path, tmp_path: Path) -> None:
    """Offsets, sizes, order and count of the log, through merging, writing, merging of files and reading."""
    log = fixtures / "darshan" / "n1_strided_64k_8.darshan"
    assert run("ingest", log)[0] == 0
    assert run("lake", "compact")[0] == 0
    told = [
        b
        for b in registered_sources.load_registered_source("darshan").read(log)
        if hasattr(b, "schema") and find_table_spec(b.schema) is OPS
    ]
    stored = expand_operation_runs(_lake(tmp_path).read("ops"))
    columns = ["interface", "op", "rank", "file_id", "offset", "size"]
    original = sorted(row for b in told for row in _tuples(expand_operation_runs(b), columns))
    assert sorted(_tuples(stored, columns)) == original
    assert len(original) > 100


def _tuples(table: object, columns: list[str]) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))  # type: ignore[attr-defined]


def test_sums_by_second_come_with_a_trace(run: Run, fixtures: Path, tmp_path: Path) -> None:
    """Analysis of a lake that no server fills reads them: once, however often the trace is taken in."""
    for _ in range(2):
        assert run("ingest", fixtures / "darshan" / "n1_strided_64k_8.darshan")[0] == 0
    written = "SELECT sum(size * count) AS bytes FROM ops WHERE op = 'write' AND interface = 'POSIX'"
    summed = "SELECT sum(write_bytes) AS bytes FROM rollup WHERE kind = 'job' AND interval_ns = 1000000000"
    [ops], [sums] = (_lake(tmp_path).query(sql).to_pylist() for sql in (written, summed))
    assert sums["bytes"] == ops["bytes"] > 0


def test_exact_times_are_kept_when_asked_for(run: Run, fixtures: Path, tmp_path: Path) -> None:
    log = fixtures / "darshan" / "n1_strided_64k_8.darshan"
    assert run("ingest", log, "--exact-times")[0] == 0
    told = [
        b
        for b in registered_sources.load_registered_source("darshan").read(log)
        if hasattr(b, "schema") and find_table_spec(b.schema) is OPS
    ]
    columns = ["start_ns", "end_ns", "rank", "offset"]
    original = sorted(row for b in told for row in _tuples(b, columns))
    assert sorted(_tuples(expand_operation_runs(_lake(tmp_path).read("ops")), columns)) == original


def test_inputs_that_fail_stop_no_other(run: Run, fixtures: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(fixtures / "darshan", logs)
    count = len(list(logs.iterdir()))
    whole = (fixtures / "darshan" / "mdtest_4.darshan").read_bytes()
    (logs / "cut.darshan").write_bytes(whole[:400])
    (logs / "empty.darshan").write_bytes(b"")
    code, out, err = run("ingest", logs, tmp_path / "nowhere", "--json")
    document = json.loads(out)
    assert code == 4
    assert document["files"]["added"] == count
    failed = {Path(i["path"]).name: i["error"] for i in document["inputs"] if i["state"] == "failed"}
    assert failed.keys() == {"cut.darshan", "empty.darshan", "nowhere"}
    assert all(error["what"] and error["where"] and error["remedy"] for error in failed.values())
    assert "Traceback" not in err
    jobs = _lake(tmp_path).query("SELECT count(*) AS n FROM jobs").to_pylist()
    assert jobs == [{"n": count}]


def test_when_nothing_can_be_used_no_lake_is_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    code, out, err = run("ingest", tmp_path / "notes.txt")
    assert (code, out) == (3, "")
    assert "notes.txt" in err
    assert not (tmp_path / "lake").exists()


def test_a_file_that_fails_half_way_leaves_nothing(
    run: Run, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "SPILL_BYTES", 1_000)
    log = tmp_path / "growing.darshan"
    shutil.copy(fixtures / "darshan" / "mdtest_4.darshan", log)
    real = intake._Intake._merge

    def grow(self: object, batch: object) -> None:
        with log.open("ab") as out:
            out.write(b"more")
        real(self, batch)  # type: ignore[arg-type]

    with monkeypatch.context() as changing:
        changing.setattr(intake._Intake, "_merge", grow)
        code, _, err = run("ingest", log)
    assert (code, "changed while it was read" in err) == (3, True)
    assert {name: _lake(tmp_path).read(name).num_rows for name in ("ops", "files", "jobs", "file_counters")} == {
        "ops": 0,
        "files": 0,
        "jobs": 0,
        "file_counters": 0,
    }
    assert not list((tmp_path / "lake" / "shards").rglob("*.parquet"))


def test_what_a_trace_could_not_tell_is_an_event(run: Run, shared_data: Path, tmp_path: Path) -> None:
    cut = shared_data / "own" / "darshan_labelled" / "random_write_dxt_truncated_1.darshan"
    logs = [cut] if cut.exists() else sorted((shared_data / "own" / "darshan_labelled").glob("*.darshan"))
    assert run("ingest", *logs)[0] == 0
    events = _lake(tmp_path).query("SELECT kind, text, component FROM events WHERE kind LIKE 'missing:%'").to_pylist()
    assert any("ran out of memory" in event["text"] for event in events)
    assert all(event["component"].startswith("job:") for event in events)


def test_looking_after_a_lake(run: Run, fixtures: Path, tmp_path: Path) -> None:
    for log in sorted((fixtures / "darshan").iterdir()):
        assert run("ingest", log)[0] == 0
    code, out, _ = run("lake", "info", "--json")
    info = json.loads(out)
    jobs = next(table for table in info["tables"] if table["table"] == "jobs")
    assert (code, jobs["rows"], jobs["waiting_rows"]) == (0, len(list((fixtures / "darshan").iterdir())), 0)
    assert jobs["files"] > jobs["days"]
    assert "jobs" in run("lake", "info")[1]
    code, out, _ = run("lake", "compact", "--keep", "0h", "--json")
    merged = {table["table"]: table for table in json.loads(out)["tables"]}
    assert (code, merged["jobs"]["files_after"]) == (0, jobs["days"])
    assert merged["jobs"]["removed"] == jobs["files"]
    code, out, _ = run("lake", "query", "SELECT count(*) AS n FROM jobs", "--csv")
    assert (code, out) == (0, f"n\n{jobs['rows']}\n")
    code, out, _ = run("lake", "query", "SELECT job_id, nodes FROM jobs ORDER BY 1", "--json")
    assert len(json.loads(out)["rows"]) == jobs["rows"]
    assert run("lake", "query", "SELECT count(*) AS n FROM jobs", "--csv")[1] == f"n\n{jobs['rows']}\n"
    columns = json.loads(run("lake", "info", "--columns", "--json")[1])["tables"]
    assert columns["ops"]["start_ns"] == "BIGINT"


def test_expired_days_are_gone_and_stay_gone(
    run: Run, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fixtures / "darshan" / "mdtest_4.darshan"
    assert run("ingest", log)[0] == 0
    before = {name: _lake(tmp_path).read(name).num_rows for name in ("ops", "jobs", "file_counters")}
    [start] = _lake(tmp_path).read("jobs")["start_ns"].to_pylist()
    monkeypatch.setattr(clock, "now_ns", lambda: start + 100 * 24 * 3_600 * 10**9)

    def expire(*arguments: str) -> dict[str, int]:
        code, out, _ = run("lake", "expire", "--json", *arguments)
        assert code == 0
        return {table["table"]: table["rows"] for table in json.loads(out)["tables"] if table["rows"]}

    assert expire("--older-than", "101d") == {}
    some = ("--older-than", "14w", "--table", "ops", "--table", "jobs")
    wanted = {name: before[name] for name in ("ops", "jobs") if before[name]}
    assert expire(*some, "--dry-run") == wanted
    assert _lake(tmp_path).read("jobs").num_rows == 1
    assert expire(*some) == wanted
    assert expire(*some) == {}
    code, out, _ = run("ingest", log, "--json")
    assert (code, json.loads(out)["files"]["known"]) == (0, 1)
    assert {name: _lake(tmp_path).read(name).num_rows for name in before} == before | dict.fromkeys(wanted, 0)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("lake", "info"), 7),
        (("lake", "compact"), 7),
        (("lake", "query", "SELECT 1"), 7),
        (("lake", "expire", "--older-than", "soon"), 2),
        (("lake", "compact", "--keep", "-1d"), 2),
        (("ingest",), 2),
    ],
)
def test_wrong_calls_say_so(run: Run, arguments: tuple[str, ...], code: int) -> None:
    got, out, err = run(*arguments)
    assert (got, out) == (code, "")
    assert "→" in err or "Usage" in err


def test_a_busy_shard_is_named(run: Run, fixtures: Path, tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake", create=True).open_writer():
        code, _, err = run("ingest", fixtures / "darshan")
        assert (code, "is being written by process" in err) == (7, True)
        assert run("ingest", fixtures / "darshan", "--shard", "other")[0] == 0
        assert run("lake", "compact", "--shard", "other")[0] == 0
        assert run("lake", "compact", "--shard", "nope")[0] == 2


def test_reporting_loads_no_store(fixtures: Path) -> None:
    code = (
        "import sys; from fairlead.cli.main import main; "
        "main(['report', sys.argv[1], '--json', '-']); "
        "sys.stderr.write(' '.join(m for m in ('deltalake', 'duckdb', 'fairlead.store') if m in sys.modules))"
    )
    log = fixtures / "darshan" / "mdtest_4.darshan"
    done = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)


def _ingest_killed(lake: Path, logs: Path, delay: float) -> int:
    command = [sys.executable, "-m", "fairlead", "-q", "ingest", str(logs), "--lake", str(lake)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    return process.returncode


def _kill_and_ingest_again(lake: Path, logs: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    started = time.monotonic()
    assert _ingest_killed(lake.with_name("control"), logs, 300) == 0
    whole = time.monotonic() - started
    outcomes = [_ingest_killed(lake, logs, chance.uniform(0.3, 1.0) * whole) for _ in range(kills)]
    assert set(outcomes) <= {0, -9}
    assert _ingest_killed(lake, logs, 300) == 0
    killed, control = Lake.open(lake), Lake.open(lake.with_name("control"))
    for table in ("ops", "files", "file_counters", "heatmap", "jobs", "events", "layouts"):
        rows = sorted(map(repr, killed.read(table).to_pylist()))
        assert rows == sorted(map(repr, control.read(table).to_pylist())), table


def test_an_ingest_killed_and_run_again_yields_each_record_once(fixtures: Path, tmp_path: Path) -> None:
    _kill_and_ingest_again(tmp_path / "lake", fixtures / "darshan", 3, seed=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_an_ingest_killed_very_often_yields_each_record_once(shared_data: Path, tmp_path: Path) -> None:
    _kill_and_ingest_again(tmp_path / "lake", shared_data / "own" / "darshan_labelled", 60, seed=4)
