"""Two collectors on one lake at the same time, and heavy work on it with real Dask clusters.

The answers are those of one collector and one process, whatever dies meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from fairlead.cli.main import main
from fairlead.core.access.tokens import make_token_key
from fairlead.core.batches.rows import decode_batch_rows
from fairlead.core.errors import LakeBusyError, ServerError
from fairlead.explain.batch import reanalysis
from fairlead.explain.batch.population import Population, compute_population
from fairlead.explain.batch.reanalysis import Reanalysis, reanalyse_stretch, run_reanalysis
from fairlead.explain.batch.settings import Settings, Slurm
from fairlead.explain.batch.span_pieces import split_span_into_pieces
from fairlead.explain.batch.workers import LocalWorkers, Workers, start_workers
from fairlead.explain.diagnosing.ended_jobs import LAG_NS, summarise_ended_jobs
from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.load_distributions import DistributionCache, build_load_cdf
from fairlead.explain.questions.machine import describe_machine
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span
from fairlead.kit.testing.machine import play_small_machine
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.wire_bodies import Body, build_wire_bodies
from fairlead.store.lake import Lake
from fairlead.store.retention import expire_retained_days
from fairlead.store.rollups import derive_rollups
from serving import Up, until
from slurm_cluster import lacking, slurm_cluster

S = 1_000_000_000
MIDNIGHT_NS = time.time_ns() // DAY_NS * DAY_NS - DAY_NS
SPAN = Span(MIDNIGHT_NS - 3 * HOUR_NS, MIDNIGHT_NS + 3 * HOUR_NS)
NOW_NS = MIDNIGHT_NS + HOUR_NS
SETTINGS = '[collector]\nshard = "{shard}"\n[carry]\nevery_s = 1\n'


@pytest.fixture(scope="module")
def play() -> Play:
    """Six minutes around a midnight, so that days and hours are cut right through."""
    return replace(play_small_machine(seed=7, seconds=360), origin_ns=MIDNIGHT_NS - 180 * S)


@pytest.fixture(scope="module")
def sent(play: Play) -> list[Body]:
    return list(build_wire_bodies(play, every_s=120))


def beside(first: Up, folder: Path, shard: str) -> Up:
    """A server elsewhere with the lake and the key of the first."""
    server = Up(folder, SETTINGS.format(shard=shard))
    server.config.write_text(server.config.read_text().replace(str(server.lake), str(first.lake)))
    server.lake = first.lake
    shutil.copy2(first.state / "server.key", server.state / "server.key")
    return server


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, sent: list[Body]) -> Path:
    """A lake that two servers wrote at the same time, each its shard: each node is sent to one of them."""
    first = Up(tmp_path_factory.mktemp("a"), SETTINGS.format(shard="a"))
    make_token_key(first.state / "server.key")
    second = beside(first, tmp_path_factory.mktemp("b"), "b")
    with first, second:
        token = first.token()
        refused: list[object] = []

        def feed(server: Up, turn: int) -> None:
            for body in sent:
                if crc32(body.node.encode()) % 2 == turn:
                    answer = server.post(body.data, token)
                    if answer.status != 200:
                        refused.append((body.node, answer.status, answer.body))

        threads = [threading.Thread(target=feed, args=pair) for pair in ((first, 0), (second, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not refused, refused[:3]
        for server in (first, second):
            assert until(lambda server=server: server.health()["collector"]["backlog_bytes"] == 0)
        assert (first.stop(), second.stop()) == (0, 0)
    return first.lake


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, sent: list[Body]) -> Lake:
    """The same batches in one shard, written by this process; its jobs summarised by the analysis loop."""
    lake = Lake.open(tmp_path_factory.mktemp("one") / "lake", create=True)
    with lake.open_writer("main", derive=derive_rollups) as writer:
        for body in sent:
            writer.take_batches(body.data, decode_batch_rows(body.data))
    with lake.open_writer("analysis") as writer:
        assert not summarise_ended_jobs(lake, writer, NOW_NS).more
    return lake


@pytest.fixture(scope="module")
def processes() -> Iterator[Workers]:
    with start_workers("processes", count=2) as found:
        yield found


def summaries(lake: Lake) -> list[dict[str, Any]]:
    """Those of jobs that ended, but for when they were made."""
    found = lake.query(
        "SELECT * EXCLUDE (day, made_ns) FROM job_summary WHERE end_ns IS NOT NULL ORDER BY job_id, start_ns"
    ).to_pylist()
    assert found
    return found


def plain(found: Population) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told


def test_two_collectors_make_one_lake(two: Path, play: Play, sent: list[Body]) -> None:
    lake, told = Lake.open(two), play.build_tables()
    assert {"a", "b"} <= set(lake.place.list_shards())
    for name in ("ops", "pfs_client", "target", "metadata", "forwarder", "files"):
        mine = [lake.place.build_table_path(shard, name).is_dir() for shard in ("a", "b")]
        assert any(mine), name
        assert lake.query(f"SELECT count(*) AS n FROM {name}")["n"].to_pylist() == [told[name].num_rows], name  # noqa: S608
    moved = pc.sum(pc.multiply(pc.fill_null(told["ops"]["size"], 0), told["ops"]["count"])).as_py()
    found = lake.query("SELECT sum(size * count)::BIGINT AS n FROM ops")["n"].to_pylist()
    assert found == [moved]
    by_shard = [{stream.partition("/")[0] for stream in _streams(lake, shard)} for shard in ("a", "b")]
    nodes = {body.node for body in sent}
    assert all(by_shard)
    assert by_shard[0] & by_shard[1] & nodes == set()
    assert nodes <= by_shard[0] | by_shard[1]


def _streams(lake: Lake, shard: str) -> list[str]:
    rows = DeltaTable(str(lake.place.build_table_path(shard, "_batches"))).to_pyarrow_table()
    return [str(name) for name in rows["stream"].to_pylist()]


@pytest.mark.slow
def test_a_lost_collector_is_replaced_elsewhere(tmp_path: Path, sent: list[Body]) -> None:
    """What it acknowledged is read by all, and known to the one that takes its shard over."""
    for name in ("a", "elsewhere"):
        (tmp_path / name).mkdir()
    first = Up(tmp_path / "a", SETTINGS.format(shard="a").replace("every_s = 1", "every_s = 600"))
    make_token_key(first.state / "server.key")
    bodies_of_first = [body for body in sent if body.ops_rows][:12]
    rows = sum(body.ops_rows for body in bodies_of_first)
    with first:
        token = first.token()
        assert {first.post(body.data, token).status for body in bodies_of_first} == {200}
        first.kill()
    lake = Lake.open(first.lake)
    assert lake.query("SELECT count(*) AS n FROM ops")["n"].to_pylist() == [rows]
    with beside(first, tmp_path / "elsewhere", "a") as replacement:
        assert {replacement.post(body.data, token).json["taken"] for body in bodies_of_first} == {0}
        assert replacement.post(sent[-1].data, token).json["taken"] > 0
        assert replacement.stop() == 0
    assert lake.place.list_shards() == ["a"]
    assert lake.query("SELECT count(*) AS n FROM ops")["n"].to_pylist() == [rows + sent[-1].ops_rows]


def test_jobs_of_two_shards_are_summarised_as_of_one(two: Path, one: Lake, processes: Workers) -> None:
    done: list[tuple[int, int]] = []
    found = run_reanalysis(processes, str(two), SPAN, NOW_NS, label="first", done=lambda k, n: done.append((k, n)))
    assert (found.stretches, found.done_before, found.kept) == (2, 0, 0)
    assert done == [(0, 2), (1, 2), (2, 2)]
    lake = Lake.open(two)
    assert {"a", "b", "reanalysis"} <= set(lake.place.list_shards())
    assert summaries(lake) == summaries(one)
    assert found.jobs == len(summaries(one)) > 3
    again = run_reanalysis(processes, str(two), SPAN, NOW_NS + HOUR_NS, label="first")
    assert (again.jobs, again.done_before) == (0, 2)
    rows = lake.query(
        "SELECT count(*) AS n, max(made_ns) < $later AS old FROM job_summary", {"later": NOW_NS + HOUR_NS}
    )
    assert rows.to_pylist() == [{"n": found.jobs, "old": True}]
    with start_workers("threads", count=2) as threads:
        later = run_reanalysis(threads, str(two), SPAN, NOW_NS + HOUR_NS, label="later")
    assert (later.jobs, later.kept) == (found.jobs, 0)
    assert summaries(lake) == summaries(one)


def test_the_population_is_that_of_one_process_and_of_the_questions(two: Path, one: Lake, processes: Workers) -> None:
    run_reanalysis(LocalWorkers(), str(two), SPAN, NOW_NS)
    expected = compute_population(LocalWorkers(), str(one.place.root), SPAN)
    found = compute_population(processes, str(two), SPAN)
    assert plain(found) == plain(expected)
    assert found.jobs == len(summaries(one))
    assert [c.jobs for c in found.classes] and sum(m.jobs for m in found.modes) == 2 * found.jobs  # noqa: PT018
    wide = SPAN.align_to(HOUR_NS)
    lake = Lake.open(two)
    peak = found.targets.peak_bytes_per_s
    assert peak
    asked = msgspec.to_builtins(build_load_cdf(lake, wide, DistributionCache(), NOW_NS + DAY_NS, peak_bytes_per_s=peak))
    mine = msgspec.to_builtins(found.targets)
    assert (mine.pop("peak_basis"), asked.pop("peak_basis")) == ("highest of the span", "given")
    assert mine == asked
    assert asked["minutes"] > 0
    seen = describe_machine(lake, wide, Sight(), NOW_NS + DAY_NS)
    assert found.layers == seen.layers
    assert len({day.day for day in found.layers}) == 2
    written = one.query("SELECT sum(write_bytes)::BIGINT AS n FROM job_summary WHERE end_ns IS NOT NULL")[
        "n"
    ].to_pylist()
    assert [sum(c.write_bytes or 0 for c in found.classes)] == written


def test_a_cut_elsewhere_changes_nothing(one: Lake) -> None:
    """Any cut into pieces gives the sums of the whole."""
    root = str(one.place.root)
    whole = compute_population(LocalWorkers(), root, SPAN)
    days = [
        compute_population(LocalWorkers(), root, part, peak_bytes_per_s=whole.targets.peak_bytes_per_s)
        for part in split_span_into_pieces(SPAN, DAY_NS)
    ]
    assert len(days) == 2
    assert sum(day.jobs for day in days) == whole.jobs
    assert [layer for day in days for layer in day.layers] == whole.layers


def dying(piece: Span, *, root: str, **rest: Any) -> Any:
    """`reanalyse_stretch`, but the first worker that comes here is killed."""
    mark = Path(root).with_name("died")
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return reanalyse_stretch(piece, root=root, **rest)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


def test_a_worker_that_is_killed_changes_nothing(
    two: Path, one: Lake, processes: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reanalysis, "reanalyse_stretch", dying)
    found = run_reanalysis(processes, str(two), SPAN, NOW_NS + 2 * HOUR_NS, label="killed")
    assert two.with_name("died").exists()
    assert (found.jobs, found.done_before) == (len(summaries(one)), 0)
    assert summaries(Lake.open(two)) == summaries(one)


def always_dying(piece: int) -> int:
    """Kills the worker, whoever it is."""
    os.kill(os.getpid(), signal.SIGKILL)
    return piece


@pytest.mark.slow
def test_a_piece_that_kills_every_worker_is_given_up() -> None:
    with start_workers("processes", count=1) as one, pytest.raises(ServerError, match="died"):
        list(one.run_each(always_dying, [1]))


_KILLED = """
import os, sys
from fairlead.explain.questions.span import Span
from fairlead.explain.batch.reanalysis import run_reanalysis
from fairlead.explain.batch.workers import LocalWorkers
root, low, high, now = sys.argv[1], *map(int, sys.argv[2:])
run_reanalysis(LocalWorkers(), root, Span(low, high), now, label="again", shard="again",
          done=lambda k, n: os._exit(9) if k == 1 else None)
"""


def test_a_run_that_is_killed_goes_on_where_it_stopped(two: Path, one: Lake) -> None:
    arguments = [str(two), str(SPAN.from_ns), str(SPAN.to_ns), str(NOW_NS)]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False)
    assert killed.returncode == 9
    found = run_reanalysis(LocalWorkers(), str(two), SPAN, NOW_NS, label="again", shard="again")
    assert (found.stretches, found.done_before) == (2, 1)
    lake = Lake.open(two)
    stored = DeltaTable(str(lake.place.build_table_path("again", "job_summary"))).to_pyarrow_table()
    assert sorted(stored["job_id"].to_pylist()) == [row["job_id"] for row in summaries(one)]
    assert summaries(lake) == summaries(one)


def test_only_one_run_writes_a_shard(one: Lake) -> None:
    with one.open_writer("busy"), pytest.raises(LakeBusyError):
        run_reanalysis(LocalWorkers(), str(one.place.root), SPAN, NOW_NS, shard="busy")


@pytest.mark.slow
def test_what_expired_is_not_forgotten(tmp_path: Path, sent: list[Body]) -> None:
    """A summary made when the operations were there stays, once only sums are left."""
    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer("main", derive=derive_rollups) as writer:
        for body in sent:
            writer.take_batches(body.data, decode_batch_rows(body.data))
    first = run_reanalysis(LocalWorkers(), str(lake.place.root), SPAN, NOW_NS)
    before = summaries(lake)
    with lake.open_writer("main") as writer:
        expire_retained_days(writer, before_ns=SPAN.to_ns + DAY_NS, tables=["ops", "op_groups"])
    again = run_reanalysis(LocalWorkers(), str(lake.place.root), SPAN, NOW_NS + HOUR_NS, label="again")
    doing = sum(row["io_processes"] is not None for row in before)
    assert doing > 0
    assert again.kept >= doing
    assert again.jobs + again.kept == first.jobs
    assert summaries(lake) == before


def test_jobs_that_have_not_ended_are_left_out(one: Lake) -> None:
    ends = one.query("SELECT end_ns FROM jobs WHERE end_ns IS NOT NULL ORDER BY end_ns")["end_ns"].to_pylist()
    middle = ends[len(ends) // 2]
    found = run_reanalysis(LocalWorkers(), str(one.place.root), SPAN, middle + LAG_NS, label="early", shard="early")
    assert found.jobs == sum(end <= middle for end in ends)


@pytest.mark.slow
def test_a_scheduler_elsewhere_works_too(one: Lake) -> None:
    from distributed import LocalCluster

    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            protocol="tcp://",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        start_workers(cluster.scheduler_address) as found,
    ):
        assert cluster.scheduler_address.startswith("tcp://")
        assert plain(compute_population(found, str(one.place.root), SPAN)) == plain(
            compute_population(LocalWorkers(), str(one.place.root), SPAN)
        )


_SBATCH = """#!/bin/sh
for script; do :; done
cp "$script" "{folder}/job.sh"  # as Slurm does: it is gone when this returns
setsid sh "{folder}/job.sh" > "{folder}/$$.log" 2>&1 &
echo $! > "{folder}/pid"
echo "Submitted batch job $!"
"""
_SCANCEL = """#!/bin/sh
for id; do kill -TERM -- -$id 2> /dev/null; done
exit 0
"""


@pytest.mark.slow
def test_workers_of_slurm_work_too(one: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an `sbatch` that starts the job at once on this machine; scheduler and worker talk by TLS."""
    for name, text in (("sbatch", _SBATCH), ("scancel", _SCANCEL)):
        program = tmp_path / name
        program.write_text(text.format(folder=tmp_path) if name == "sbatch" else text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("fairlead.explain.batch.workers.FIRST_WORKER_S", 60.0)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = Slurm(
        cores=1,
        memory="1GB",
        interface="lo",
        shared_directory=str(tmp_path),
        local_directory=str(tmp_path),
        prologue=[f"echo before > {tmp_path}/before"],
        walltime="00:05:00",
    )
    root = str(one.place.root)
    with start_workers("slurm", Settings(slurm=asked)) as found:
        there = compute_population(found, root, SPAN)
    assert plain(there) == plain(compute_population(LocalWorkers(), root, SPAN))
    assert (tmp_path / "before").read_text() == "before\n"


@pytest.mark.slow
@pytest.mark.slurm
def test_workers_of_a_real_slurm_work_too(one: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs on two nodes of a real cluster; both are gone afterwards."""
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setattr("fairlead.explain.batch.workers.FIRST_WORKER_S", 120.0)
    root = str(one.place.root)
    with slurm_cluster("heavy") as cluster:
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        asked = Slurm(
            jobs=2,
            cores=4,
            memory="2GB",
            directives=["--mem=100M"],
            interface="lo",
            walltime="00:10:00",
            shared_directory=str(tmp_path),
            local_directory=str(tmp_path),
            logs=str(tmp_path),
        )
        with start_workers("slurm", Settings(slurm=asked)) as found:
            there = compute_population(found, root, SPAN)
            nodes = cluster.run("squeue", "--noheader", "--name=fairlead-worker", "--format=%N")
            seen = {node for _, node in found.run_each(os.getenv, ["SLURMD_NODENAME"])}
            made = run_reanalysis(found, root, SPAN, NOW_NS, label="slurm", shard="slurm")
        assert nodes
        assert seen <= {"n1", "n2", "n3"}
        assert made.jobs + made.kept == len(summaries(one))
        cluster.until(lambda: not cluster.run("squeue", "--noheader", "--name=fairlead-worker"))
    assert plain(there) == plain(compute_population(LocalWorkers(), root, SPAN))


def test_the_command_says_what_it_did(one: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    when = ["--from", f"@{SPAN.from_ns}", "--to", f"@{SPAN.to_ns}", "--lake", str(one.place.root)]
    assert main(["history", "summarise", *when, "--json"]) == 0
    told = msgspec.json.decode(capsys.readouterr().out, type=Reanalysis)
    assert told.jobs + told.kept == len(summaries(one))
    assert main(["history", "summarise", *when]) == 0
    assert capsys.readouterr().out.startswith("0 summaries made, 0 left as they were, in 2 parts of the span")
    assert main(["history", "describe", *when, "--json"]) == 0
    found = compute_population(LocalWorkers(), str(one.place.root), SPAN)
    assert msgspec.json.decode(capsys.readouterr().out, type=Population) == found
    assert main(["history", "describe", *when]) == 0
    shown = capsys.readouterr().out
    assert f"{found.jobs:,} jobs" in shown
    assert "(0,1K]" in shown
