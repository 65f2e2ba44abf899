"""The analysis loop over a lake of a made machine: each job summarised once and right, and again for late records."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.errors import InputError
from fairlead.core.model.tables import JOBS, PFS_CLIENT, build_table_batch
from fairlead.explain.analysis.node_intervals import build_node_intervals
from fairlead.explain.diagnosing.analysis_loop import run_analysis_loop
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.ended_jobs import LAG_NS, summarise_ended_jobs
from fairlead.explain.diagnosing.site_file import write_site_file_mappings
from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.kit.testing.machine import play_small_machine
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups
from waiting import PATIENCE_S

S = 1_000_000_000
SUMS = ("read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops")
Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def play() -> Tables:
    return play_small_machine(seed=7, seconds=240).build_tables()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", create=True)


def fill(lake: Lake, tables: Tables, stream: str = "play") -> None:
    with lake.open_writer("main", derive=derive_rollups) as writer:
        batch = writer.open_batch(stream)
        for table in tables.values():
            batch.add(table)
        batch.commit()


def steps(lake: Lake, now_ns: int, most: int = 200) -> int:
    """Each step by a new writer: nothing is remembered but what the lake holds."""
    done = 0
    while True:
        with lake.open_writer("analysis") as writer:
            made = summarise_ended_jobs(lake, writer, now_ns, most=most)
        done += made.summaries
        if not made.more:
            return done


def ended(tables: Tables) -> dict[str, dict[str, object]]:
    rows = tables["jobs"].filter(pc.is_valid(tables["jobs"]["end_ns"])).to_pylist()
    return {row["job_id"]: row for row in rows}


def later(tables: Tables) -> int:
    return int(pc.max(tables["jobs"]["end_ns"]).as_py()) + LAG_NS + S


def summaries(lake: Lake) -> dict[str, dict[str, object]]:
    rows = lake.query("SELECT * FROM job_summary WHERE end_ns IS NOT NULL").to_pylist()
    assert len({row["job_id"] for row in rows}) == len(rows)
    return {row["job_id"]: row for row in rows}


def truth(tables: Tables, job: str) -> dict[str, int]:
    ops = tables["ops"].filter(pc.equal(tables["ops"]["job_id"].cast(pa.string()), job))
    out = dict.fromkeys(SUMS, 0)
    for word, size, count in zip(ops["op"].to_pylist(), ops["size"].to_pylist(), ops["count"].to_pylist(), strict=True):
        if word in ("read", "write"):
            out[f"{word}_bytes"] += size * count
            out[f"{word}_ops"] += count
        else:
            out["metadata_ops"] += count
    return out


def test_every_job_that_ended_is_summarised_as_it_was(play: Tables, lake: Lake) -> None:
    fill(lake, play)
    jobs, now = ended(play), later(play)
    assert steps(lake, now, most=7) == len(jobs) > 3
    found = summaries(lake)
    assert found.keys() == jobs.keys()
    moved = 0
    for job, row in found.items():
        expected = truth(play, job)
        if row["basis"] is None:
            assert not any(expected.values())
            continue
        assert row["basis"] == "client"
        assert row["estimated"] is None
        assert {name: row[name] for name in SUMS} == expected
        moved += expected["write_bytes"]
        mine = play["ops"].filter(pc.equal(play["ops"]["job_id"].cast(pa.string()), job))
        data = mine.filter(pc.is_in(mine["op"].cast(pa.string()), pa.array(["read", "write"])))
        assert row["io_processes"] == len(set(data["rank"].to_pylist()))
        assert row["io_nodes"] == (len(set(data["node"].to_pylist())) or None)
        assert (row["peak_write_bytes_per_s"] or 0) >= (row["write_bandwidth_bytes_per_s"] or 0)
        assert row["write_mode"] in ("N-N", "N-M", "N-1", "1-1", "none")
        assert row["forwarders"]
    assert moved > 0
    assert steps(lake, now + 10 * LAG_NS) == 0


def test_layers_below_tell_the_same_bytes(play: Tables, tmp_path: Path) -> None:
    """The bytes of a job are the same whether clients, job_stats or forwarders counted them."""
    without = {
        "client": (),
        "forwarder": ("ops", "target", "metadata"),
        "job_stats": ("ops", "forwarder"),
    }
    found = {}
    for basis, dropped in without.items():
        lake = Lake.open(tmp_path / basis, create=True)
        fill(lake, {name: table for name, table in play.items() if name not in dropped})
        steps(lake, later(play))
        found[basis] = {job: row for job, row in summaries(lake).items() if row["basis"] is not None}
        assert {row["basis"] for row in found[basis].values()} == {basis}
    for job, row in found["client"].items():
        for basis in ("job_stats", "forwarder"):
            assert {name: found[basis][job][name] for name in SUMS} == {name: row[name] for name in SUMS}, (job, basis)
            assert found[basis][job]["write_mode"] is None


def test_records_that_come_late_change_the_summary(play: Tables, lake: Lake) -> None:
    ops = play["ops"]
    half = ops.num_rows // 2
    fill(lake, {"jobs": play["jobs"], "ops": ops.slice(0, half)})
    now = later(play)
    first = steps(lake, now)
    fill(lake, {"ops": ops.slice(half)}, "late")
    assert steps(lake, now + S) == 0  # not at once: more may come
    again = steps(lake, now + LAG_NS + S)
    assert 0 < again <= first
    for job, row in summaries(lake).items():
        assert {name: row[name] or 0 for name in SUMS} == truth(play, job)
    assert steps(lake, now + 10 * LAG_NS) == 0


def test_a_job_is_not_summarised_before_its_records_can_have_come(play: Tables, lake: Lake) -> None:
    first = int(pc.min(play["jobs"]["end_ns"]).as_py())
    fill(lake, {"jobs": play["jobs"], "ops": before(play["ops"], first)})
    assert steps(lake, first + LAG_NS - 1) == 0
    assert steps(lake, first + LAG_NS) == 1


def test_a_job_whose_records_are_all_here_is_summarised_at_once(play: Tables, lake: Lake) -> None:
    """All that watches it has told of a later time: there is nothing to wait for."""
    jobs = ended(play)
    first = min(jobs.values(), key=lambda row: row["end_ns"])
    cut = {name: before(table, first["end_ns"]) for name, table in play.items()}
    fill(lake, cut | {"jobs": play["jobs"], "mapping": play["mapping"]})
    assert steps(lake, first["end_ns"] + S) == 0
    fill(
        lake,
        {name: after(table, first["end_ns"]) for name, table in play.items() if name not in ("jobs", "mapping")},
        "rest",
    )
    assert steps(lake, first["end_ns"] - 1) == 0
    with lake.open_writer("analysis") as writer:
        made = [summarise_ended_jobs(lake, writer, first["end_ns"] + n * S, quick=True).summaries for n in (70, 71)]
    assert made[0] >= 1
    assert made[1] == 0
    assert {name: summaries(lake)[first["job_id"]][name] or 0 for name in SUMS} == truth(play, first["job_id"])


def before(table: pa.Table, ns: int) -> pa.Table:
    """Rows dated before a time."""
    time = next((name for name in ("ts_ns", "start_ns", "first_seen_ns") if name in table.column_names), None)
    return table if time is None else table.filter(pc.less(table[time], ns))


def after(table: pa.Table, ns: int) -> pa.Table:
    """The others."""
    time = next((name for name in ("ts_ns", "start_ns", "first_seen_ns") if name in table.column_names), None)
    return table.slice(0, 0) if time is None else table.filter(pc.greater_equal(table[time], ns))


def test_counters_of_exclusive_nodes_give_an_estimate_that_says_so(play: Tables, lake: Lake) -> None:
    """Only llite on the compute nodes, which know no jobs: their job is the one that ran there."""
    jobs = play["jobs"]
    row = next(r for r in jobs.to_pylist() if r["end_ns"] and r["nodes"])
    ts = np.arange(3) * S + (row["start_ns"] // S + 2) * S
    node = row["nodes"][0]
    moved = pa.Table.from_pylist(
        [
            {
                "ts_ns": int(t),
                "interval_ns": S,
                "node": node,
                "source": "llite",
                "write_bytes": 100,
                "read_bytes": 0,
                "write_ops": 2,
            }
            for t in ts
        ],
        _schema("pfs_client"),
    )
    fill(lake, {"jobs": jobs, "pfs_client": moved})
    steps(lake, later(play))
    found = summaries(lake)[row["job_id"]]
    assert found["basis"] == "estimate"
    assert (found["write_bytes"], found["read_bytes"], found["metadata_ops"]) == (300, 0, None)
    assert {"write_bytes", "peak_write_bytes_per_s"} <= set(found["estimated"])


def _schema(name: str) -> pa.Schema:
    from fairlead.core.model.tables import TABLES

    return TABLES[name].schema


def test_without_counters_by_job_targets_are_those_of_its_files(play: Tables, lake: Lake) -> None:
    target = play["target"].filter(pc.is_null(play["target"]["job_id"]))
    fill(lake, {**{name: play[name] for name in ("jobs", "ops", "layouts", "mapping")}, "target": target})
    steps(lake, later(play))
    layouts = {row["file_id"]: row["targets"] for row in play["layouts"].to_pylist()}
    checked = 0
    for job, row in summaries(lake).items():
        if row["basis"] is None:
            continue
        mine = play["ops"].filter(pc.equal(play["ops"]["job_id"].cast(pa.string()), job))
        numbers = {n for file in set(mine["file_id"].to_pylist()) for n in layouts[file]}
        assert row["targets"] == [f"scratch-OST{n:04x}" for n in sorted(numbers)]
        assert row["estimated"] == ["forwarders", "targets"]
        checked += 1
    assert checked > 1


def test_forwarders_say_where_they_placed_the_files_of_a_job(play: Tables, lake: Lake) -> None:
    """No counter of targets by job, no layouts: only `file_targets` tells, by path in the tree below the mount."""
    files = [{**row, "path": f"/mnt{row['path']}"} for row in play["files"].to_pylist()]
    placed = [row for row in play["mapping"].to_pylist() if row["kind"] == "file_targets"]
    assert len(placed) > 10
    now = [{**row, "a": f"tree:{row['a']}"} for row in placed]
    old = [{**row, "from_ns": row["from_ns"] - 5 * S, "b": "elsewhere"} for row in now]
    fill(
        lake,
        {
            "jobs": play["jobs"],
            "ops": play["ops"],
            "files": pa.Table.from_pylist(files, play["files"].schema),
            "mapping": pa.Table.from_pylist([*old, *now], play["mapping"].schema),
        },
    )
    steps(lake, later(play))
    held: dict[int, set[str]] = {}
    by_path: dict[str, set[str]] = {}
    for row in placed:
        by_path.setdefault(row["a"], set()).add(row["b"])
    for row in play["files"].to_pylist():
        held[row["file_id"]] = by_path.get(row["path"], set())
    seen = 0
    for job, row in summaries(lake).items():
        mine = play["ops"].filter(pc.equal(play["ops"]["job_id"].cast(pa.string()), job))
        expected = {name for file in set(mine["file_id"].drop_null().to_pylist()) for name in held[file]}
        assert set(row["targets"] or ()) == expected, job
        assert not expected or "targets" in row["estimated"]
        seen += bool(expected)
    assert seen > 3


def test_a_job_a_tracer_and_a_mount_recorded_counts_once(play: Tables, lake: Lake) -> None:
    """The log of a tracer comes after the mount's records: every figure stays the mount's."""
    mounted = (
        play["ops"]
        .set_column(
            play["ops"].schema.get_field_index("interface"), "interface", pa.array(["fuse"] * play["ops"].num_rows)
        )
        .cast(play["ops"].schema)
    )
    fill(lake, {**play, "ops": mounted})
    now = later(play)
    steps(lake, now)
    before = summaries(lake)
    moved = {job: truth(play, job) for job in before}
    fill(lake, {"ops": play["ops"]}, "tracer")  # the same calls, as the processes made them
    assert steps(lake, now + 2 * LAG_NS) == 0
    assert summaries(lake) == before
    asking = Asking(lake)
    for job, row in before.items():
        assert {name: row[name] or 0 for name in SUMS} == moved[job]
        page = answer_question(asking, "job", job, parse_question_parameters("job", {}), Sight(), now)
        if row["basis"] is not None:
            assert (page.job.layer, page.job.sums.read_bytes, page.job.sums.write_bytes) == (
                "mount",
                moved[job]["read_bytes"],
                moved[job]["write_bytes"],
            )
            assert {"client", "mount"} <= {series.layer for series in page.timeline.series}
    total = sum(truth(play, job)["write_bytes"] for job in set(play["ops"]["job_id"].drop_null().to_pylist()))
    system = answer_question(asking, "system", "", parse_question_parameters("system", {}), Sight(), now)
    assert system.totals["mount"].write_bytes == system.totals["client"].write_bytes == total
    listed = answer_question(
        asking, "jobs", "", parse_question_parameters("jobs", {"sort": "bytes", "limit": "1000"}), Sight(), now
    ).jobs
    assert {row.job_id: row.sums.write_bytes for row in listed if row.sums.write_bytes} == {
        job: truth(play, job)["write_bytes"]
        for job in {row.job_id for row in listed}
        if truth(play, job)["write_bytes"]
    }


def running_at(tables: Tables, lake: Lake, now_ns: int) -> dict[str, dict[str, object]]:
    """The summaries of running jobs, after one step."""
    with lake.open_writer("analysis") as writer:
        made = summarise_ended_jobs(lake, writer, now_ns)
    rows = lake.query("SELECT * FROM job_summary WHERE end_ns IS NULL").to_pylist()
    assert made.running == len([row for row in rows if row["made_ns"] == now_ns])
    return {row["job_id"]: row for row in rows}


def still_running(tables: Tables) -> Tables:
    """As it was before any job ended."""
    jobs = tables["jobs"].set_column(
        tables["jobs"].schema.get_field_index("end_ns"), "end_ns", pa.nulls(tables["jobs"].num_rows, pa.int64())
    )
    state = jobs.set_column(jobs.schema.get_field_index("state"), "state", pa.array(["RUNNING"] * jobs.num_rows))
    return {**tables, "jobs": state.cast(tables["jobs"].schema)}


def test_running_jobs_are_summarised_so_far_and_again_later(play: Tables, lake: Lake) -> None:
    tables = still_running(play)
    ops = tables["ops"].sort_by("start_ns")
    fill(lake, {"jobs": tables["jobs"], "ops": ops.slice(0, ops.num_rows // 2)})
    now = later(play)
    first = running_at(tables, lake, now)
    assert first.keys() == set(tables["jobs"]["job_id"].to_pylist())
    fill(lake, {"ops": ops.slice(ops.num_rows // 2)}, "later")
    assert running_at(tables, lake, now + 60 * S) == first  # not every step
    second = running_at(tables, lake, now + 700 * S)
    grown = 0
    for job, row in second.items():
        expected = truth(play, job)
        assert {name: row[name] or 0 for name in SUMS} == expected
        assert row["basis"] == ("client" if any(expected.values()) else None)
        if row["basis"] is None:
            assert {row[name] for name in SUMS} == {None}  # nothing counted it: unknown, not zero
        assert row["phases"] is row["peak_write_bytes_per_s"] is row["end_ns"] is None
        grown += (row["write_bytes"] or 0) > (first[job]["write_bytes"] or 0)
    assert grown > 0
    fill(lake, {"jobs": play["jobs"]}, "ended")
    steps(lake, now + 800 * S)
    assert summaries(lake).keys() == ended(play).keys()


def test_running_jobs_without_a_counter_of_their_own_are_estimated_by_node(play: Tables, lake: Lake) -> None:
    """Exclusive nodes: what llite counted on a job's nodes is the job's, so far and in every list."""
    jobs = still_running(play)["jobs"].to_pylist()
    job = max(jobs, key=lambda row: len(row["nodes"]))
    start = job["start_ns"] // (60 * S) * 60 * S
    idle = {**job, "job_id": "idle", "nodes": ["nowhere"]}
    rows = pa.table(
        {
            "ts_ns": [start + 60 * S, start + 120 * S, start + 60 * S],
            "interval_ns": [60 * S] * 3,
            "node": [job["nodes"][0], job["nodes"][0], "other"],
            "source": ["llite"] * 3,
            "write_bytes": [600, 400, 7],
            "read_bytes": [0, 0, 0],
        }
    )
    client = pa.Table.from_batches([build_table_batch(PFS_CLIENT, {name: rows[name] for name in rows.column_names})])
    early = {**job, "start_ns": start}
    fill(
        lake,
        {"jobs": pa.Table.from_pylist([early, {**idle, "start_ns": start}], play["jobs"].schema), "pfs_client": client},
    )
    now = start + 300 * S
    found = running_at(play, lake, now)
    assert (found[job["job_id"]]["write_bytes"], found[job["job_id"]]["basis"]) == (1000, "estimate")
    assert "write_bytes" in found[job["job_id"]]["estimated"]
    assert (found["idle"]["write_bytes"], found["idle"]["basis"]) == (None, None)
    asking = Asking(lake)
    listed = answer_question(
        asking, "jobs", "", parse_question_parameters("jobs", {"last": "1h", "sort": "bytes"}), Sight(), now
    ).jobs
    assert [(row.job_id, row.sums.write_bytes, row.layer, row.running) for row in listed] == [
        (job["job_id"], 1000, "estimate", True),
        ("idle", None, None, True),
    ]
    ranking = answer_question(
        asking, "top", "jobs", parse_question_parameters("top", {"last": "1h"}), Sight(), now
    ).rows
    assert [(row.name, row.sums.bytes, row.layer) for row in ranking] == [(job["job_id"], 1000, "estimate")]
    page = answer_question(asking, "job", job["job_id"], parse_question_parameters("job", {}), Sight(), now)
    assert (page.job.sums.write_bytes, page.job.layer, page.summary.so_far) == (1000, "estimate", True)
    assert any("not counted by job" in text for text in page.missing)


def test_the_mappings_of_the_site_file_are_taken_once(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[[routes]]\nnodes = "n[1-4]"\nforwarders = "f[1-2]"\n')
    with lake.open_writer("analysis") as writer:
        assert not write_site_file_mappings(writer, "")
        assert write_site_file_mappings(writer, str(file))
        assert not write_site_file_mappings(writer, str(file))
        with pytest.raises(InputError):
            write_site_file_mappings(writer, str(tmp_path / "none.toml"))
    routes = build_node_intervals(lake.query("SELECT * EXCLUDE (day) FROM mapping"))
    assert routes.look_up(pa.array(["n1", "n4", "n5"]), np.full(3, S)).to_pylist() == ["f1", "f2", None]


def test_the_loop_runs_until_it_is_stopped(play: Tables, lake: Lake) -> None:
    fill(lake, {"jobs": play["jobs"]})
    stop, raised = threading.Event(), []
    config = SimpleNamespace(
        server=SimpleNamespace(lake=str(lake.place.root), memory="512MB", site=""),
        analysis=SimpleNamespace(shard="analysis", every_s=0.05, running_s=600.0),
        diagnosis=Diagnosis(),
    )

    def work() -> None:
        try:
            run_analysis_loop(config, stop)
        except Exception as fault:  # noqa: BLE001 (told below)
            raised.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        deadline = time.monotonic() + 900
        while lake.query("SELECT count(*) AS n FROM job_summary")["n"][0].as_py() < len(ended(play)):
            assert time.monotonic() < deadline
            assert not raised
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert not raised
    assert {row["basis"] for row in summaries(lake).values()} == {None}


def test_accounting_of_years_is_summarised_without_looking_at_each_job(lake: Lake) -> None:
    year = 365 * 86_400 * S
    rows = [
        {
            "job_id": f"{n}",
            "start_ns": 20_000 * 86_400 * S + n * S,
            "end_ns": 20_000 * 86_400 * S + n * S + 9,
            "nodes": [f"n{n % 7}"],
        }
        for n in range(500)
    ]
    fill(lake, {"jobs": pa.Table.from_pylist(rows, _schema("jobs"))})
    asked = Counting(lake)
    with lake.open_writer("analysis") as writer:
        assert summarise_ended_jobs(asked, writer, 20_000 * 86_400 * S + year, most=400).summaries == 400
    assert asked.questions == 7
    assert steps(lake, 20_000 * 86_400 * S + year) == 100


class Counting:
    """A lake that counts what it is asked."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.questions = 0

    def query(self, sql: str, parameters: object = None, *, waiting: bool = True) -> pa.Table:
        self.questions += 1
        return self.lake.query(sql, parameters, waiting=waiting)  # type: ignore[arg-type]


def test_a_site_file_without_mappings_is_no_fault(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('name = "bare"\n')
    with lake.open_writer("analysis") as writer:
        write_site_file_mappings(writer, str(file))
    assert lake.query("SELECT * FROM mapping").num_rows == 0


def test_a_job_of_which_records_told_too_is_the_schedulers_job(play: Tables, lake: Lake) -> None:
    # What records say of their job makes rows of `jobs`, which begin and end when its I/O did.
    told = play["jobs"].filter(pc.is_valid(play["jobs"]["end_ns"]))
    fill(lake, {name: table for name, table in play.items() if name != "jobs"} | {"jobs": told}, "scheduler")
    bare = [
        {"job_id": row["job_id"], "user": "root", "start_ns": row["start_ns"] + S, "end_ns": row["end_ns"] - S}
        for row in told.to_pylist()
    ]
    alone = {"job_id": "nobody-s", "user": "root", "start_ns": bare[0]["start_ns"], "end_ns": bare[0]["end_ns"]}
    columns = {name: [row[name] for row in [*bare, alone]] for name in alone}
    with lake.open_writer("main", derive=derive_rollups) as writer:
        batch = writer.open_batch("records")
        batch.add(build_table_batch(JOBS, columns, len(bare) + 1))
        batch.commit()
    assert steps(lake, later(play)) == told.num_rows + 1
    found = lake.query('SELECT job_id, "user" FROM job_summary').to_pylist()
    assert len(found) == told.num_rows + 1
    assert [row["job_id"] for row in found if row["user"] == "root"] == ["nobody-s"]
