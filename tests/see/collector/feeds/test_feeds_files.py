"""Feeds that read files: the drop folder, the watch on Darshan logs, tables of jobs."""

from __future__ import annotations

import gzip
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.core.batches.encoding import Header, encode_batch, encode_numbers, encode_same_word
from fairlead.core.errors import ConfigError, LakeError
from fairlead.see.collector.feeds import Feeds, build_feeds
from fairlead.see.collector.feeds import file_import as reading
from fairlead.see.collector.feeds.darshan_watch import DarshanFeed
from fairlead.see.collector.feeds.drop_folder import DropFeed
from fairlead.see.collector.feeds.file_arrivals import Arrivals
from fairlead.see.collector.feeds.file_import import CollectorStop, import_file
from fairlead.see.collector.feeds.job_table import JobTableFeed
from fairlead.see.collector.feeds.settings import DarshanWatch, Drop, JobTable
from fairlead.see.ingest import find_ingest_traces, ingest_jobs
from fairlead.see.sources.inputs import detect_input_source
from fairlead.see.sources.registered_sources import load_registered_source
from fairlead.store.lake import Lake
from feed_sinks import LakeSink, MemorySink, files_below
from waiting import PATIENCE_S

NS = 1_000_000_000
ROOT = Path(__file__).resolve().parents[4]
LOG = ROOT / "examples" / "logs" / "phases_write_only_n1_4x5.darshan"
SACCT = """\
JobID|JobIDRaw|Cluster|JobName|State|Submit|Start|End|NNodes|NodeList
{0}|{0}|c|a|COMPLETED|2024-01-01T00:00:00|2024-01-01T00:00:10|2024-01-01T00:01:00|1|n1
"""
STOP = threading.Event()


def aged(path: Path, seconds: float = 3600) -> Path:
    """The file, as if nobody had written to it for a while."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def put(folder: Path, name: str, text: str | bytes, seconds: float = 3600) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return aged(path, seconds)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made_folder = tmp_path / "drop"
    made_folder.mkdir()
    for name in ("taken", "refused"):
        (made_folder / name).mkdir()
    return made_folder


def drop(folder: Path, **options: Any) -> DropFeed:
    return DropFeed(Drop(folder=str(folder), time_zone="UTC", **options))


def batch(seq: int, node: str = "n1") -> bytes:
    header = Header("device", 2, node, "boot", seq, 2, layer="agent")
    columns = {
        "ts_ns": encode_numbers([1_700_000_000 * NS, 1_700_000_001 * NS]),
        "node": encode_same_word(node, 2),
        "device": encode_same_word("sda", 2),
        "read_bytes": encode_numbers([seq, None]),
    }
    return encode_batch(header, columns)


def test_a_dropped_file_is_taken_once_and_put_away(folder: Path) -> None:
    sink = MemorySink()
    put(folder, "a.txt", SACCT.format(7))
    put(folder, "b.gz", gzip.compress(SACCT.format(8).encode()))
    shutil.copy(LOG, folder / "c")
    aged(folder / "c")
    feed = drop(folder)
    feed.look(sink, STOP)
    assert files_below(folder) == ["taken/a.txt", "taken/b.gz", "taken/c"]
    assert {row["job_id"] for row in sink.rows("jobs")} > {"7", "8"}
    assert sink.rows("file_counters")
    put(folder, "a.txt", SACCT.format(7))
    before = len(sink.batches)
    feed.look(sink, STOP)
    assert len(sink.batches) == before
    assert files_below(folder / "taken") == ["a.txt", "a.txt.1", "b.gz", "c"]
    assert sink.healths[-1][1] == "ok"


def test_unfinished_files_are_left_and_taken_when_they_rest(folder: Path, tmp_path: Path) -> None:
    sink = MemorySink()
    put(folder, "young", SACCT.format(1), seconds=0)
    put(folder, ".hidden", SACCT.format(2))
    put(folder, "x.part", SACCT.format(3))
    outside = put(tmp_path, "secret", SACCT.format(4))
    (folder / "link").symlink_to(outside)
    feed = drop(folder)
    feed.look(sink, STOP)
    assert not sink.batches
    aged(folder / "young")
    (folder / ".hidden").rename(folder / "shown")
    feed.look(sink, STOP)
    assert {row["job_id"] for row in sink.rows("jobs")} == {"1", "2"}
    assert (folder / "link").is_symlink()


def test_what_cannot_be_read_is_refused_with_the_reason(folder: Path) -> None:
    sink = MemorySink()
    put(folder, "noise", b"\0\1\2 nothing", 3600)
    put(folder, "empty", b"", 3500)
    put(folder, "good", SACCT.format(5))
    feed = drop(folder, after="delete", kept_refused=1)
    feed.look(sink, STOP)
    assert files_below(folder) == ["refused/empty", "refused/empty.why"]  # one is kept: the younger
    assert "empty" in (folder / "refused" / "empty.why").read_text()
    assert [kind for _, kind, _ in sink.events] == ["refused", "refused"]
    assert len(sink.rows("jobs")) == 1


def test_a_full_disk_leaves_the_file_until_it_is_taken(folder: Path) -> None:
    sink = MemorySink()
    put(folder, "a", SACCT.format(1))
    feed = drop(folder)
    sink.failures, sink.fail_after = 1, True
    feed.look(sink, STOP)
    assert files_below(folder) == ["a"]
    assert sink.healths[-1][1] == "failing"
    feed.look(sink, STOP)  # it was on disk: only put away
    assert files_below(folder) == ["taken/a"]
    assert len(sink.rows("jobs")) == 1


def test_a_batch_that_also_came_by_network_counts_once(folder: Path) -> None:
    sink = MemorySink()
    sink.batches[("n1/boot/device", 2)] = []
    put(folder, "spool", batch(1) + batch(2) + batch(3))
    put(folder, "cut", batch(4) + batch(5)[:-3])
    drop(folder).look(sink, STOP)
    assert [row["read_bytes"] for row in sink.rows("device") if row["read_bytes"] is not None] == [1, 3, 4]
    assert files_below(folder) == ["taken/cut", "taken/spool"]


def test_a_file_is_seen_as_soon_as_it_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    sink = MemorySink()
    stop = threading.Event()
    feed = drop(folder, period_s=60.0, settle_s=3600.0)
    thread = threading.Thread(target=feed.run, args=(sink, stop))
    thread.start()
    try:
        deadline = time.monotonic() + 900
        while not (folder / "refused").is_dir() or not sink.healths:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with Arrivals(str(folder)) as arrivals:
            if not arrivals.told:
                pytest.skip("the kernel tells of no files here (no inotify)")
        (folder / ".x").write_text(SACCT.format(9))
        (folder / ".x").rename(folder / "x")
        while not sink.rows("jobs"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_logs_of_a_tree_are_taken_as_they_rest(tmp_path: Path) -> None:
    sink = MemorySink()
    day = tmp_path / "2024" / "1" / "2"
    day.mkdir(parents=True)
    logs = sorted((ROOT / "examples" / "logs").glob("*.darshan"))[:3]
    for number, log in enumerate(logs):
        shutil.copy(log, day / f"{number}.darshan")
        aged(day / f"{number}.darshan")
    put(day, "x.darshan", b"not a log")
    put(day, "y.darshan_partial", b"half")
    feed = DarshanFeed(DarshanWatch(folder=str(tmp_path), at_once=2))
    assert feed.look(sink, STOP)  # there are more
    assert not feed.look(sink, STOP)
    assert len(sink.sources) == 3
    assert [(component, kind) for component, kind, _ in sink.events] == [("input:x.darshan", "unreadable")]
    young = day / "z.darshan"
    shutil.copy(logs[0], young)
    young.write_bytes(young.read_bytes()[:1000])
    feed.look(sink, STOP)
    assert len(sink.sources) == 3
    assert "1 logs are still" in sink.healths[-2][2] or "cannot be read" in sink.healths[-1][2]
    shutil.copy(logs[0], young)
    aged(young)
    feed.look(sink, STOP)
    assert len(sink.sources) == 3  # a copy: its content is known
    names = files_below(tmp_path)
    again = DarshanFeed(DarshanWatch(folder=str(tmp_path)))
    again.look(sink, STOP)
    assert len(sink.sources) == 3
    assert files_below(tmp_path) == names


def test_a_log_taken_by_hand_is_known_to_the_watch(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    (tmp_path / "tree").mkdir()
    shutil.copy(LOG, tmp_path / "tree" / "a.darshan")
    aged(tmp_path / "tree" / "a.darshan")
    with lake.open_writer() as writer:
        jobs, _ = find_ingest_traces([LOG])
        assert [outcome.state for outcome in ingest_jobs(writer, jobs)] == ["added"]
        sink = LakeSink(writer)
        taken = import_file(sink, load_registered_source("darshan"), tmp_path / "tree" / "a.darshan", STOP)
        assert taken.known
    count = lake.query("SELECT count(*) AS n FROM jobs").to_pylist()
    assert count == [{"n": 1}]


def test_a_feed_reads_what_ingest_reads(tmp_path: Path) -> None:
    sums = {}
    for way in ("ingest", "feed"):
        lake = Lake.open(tmp_path / way, create=True)
        with lake.open_writer() as writer:
            if way == "ingest":
                list(ingest_jobs(writer, find_ingest_traces([LOG])[0]))
            else:
                import_file(LakeSink(writer), detect_input_source(LOG), LOG, STOP)
        sums[way] = [
            lake.query(f"SELECT count(*) AS n FROM {table}").to_pylist()[0]["n"]  # noqa: S608
            for table in ("jobs", "file_counters", "files", "ops", "events")
        ]
    assert sums["ingest"] == sums["feed"]
    assert sums["feed"][1] > 0


def test_what_is_read_when_the_collector_ends_is_left(folder: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(CollectorStop):
        import_file(MemorySink(), detect_input_source(LOG), LOG, stop)


@pytest.mark.slow
def test_ten_thousand_logs_come_in(tmp_path: Path) -> None:
    data = LOG.read_bytes()
    for number in range(10_000):
        day = tmp_path / "2024" / "5" / str(number % 28 + 1)
        day.mkdir(parents=True, exist_ok=True)
        put(day, f"{number}.darshan", data if number % 100 == 0 else b"no log %d" % number)
    sink = MemorySink()
    feed = DarshanFeed(DarshanWatch(folder=str(tmp_path), at_once=1000))
    rounds = 0
    while feed.look(sink, STOP):
        rounds += 1
    assert rounds == 9
    assert len(sink.sources) == 1
    assert len(sink.events) == 9900


def test_a_table_of_jobs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    header = "Job Number;Owner;Begin;Finish;Hosts;Status;PEs\n"
    path.write_text(header + "11;ann;01.07.2024 12:00;;a1 a2;RUNNING;8\n;bob;x;;;;\n12;bob;never;;;PENDING;4\n")
    settings = JobTable(
        path=str(path),
        separator=";",
        nodes_separator=" ",
        time_zone="Europe/Berlin",
        cluster="west",
        columns={
            "job_id": "Job Number",
            "user": "Owner",
            "start": "Begin",
            "end": "Finish",
            "nodes": "Hosts",
            "state": "Status",
            "processes": "PEs",
        },
    )
    sink = MemorySink()
    feed = JobTableFeed(settings)
    feed.look(sink)
    assert not sink.rows("jobs")  # a job that has no start yet is none; nothing is guessed
    assert "2 times" in sink.healths[-1][2]
    path.write_text(header + "11;ann;2024-07-01 12:00:00;;a1 a2;RUNNING;8\n;bob;x;;;;\n")
    aged(path, 100)
    feed.look(sink)
    (row,) = sink.rows("jobs")
    assert (row["job_id"], row["user"], row["cluster"], row["nodes"]) == ("11", "ann", "west", ["a1", "a2"])
    assert (row["start_ns"], row["end_ns"], row["processes"]) == (1719828000 * NS, None, 8)
    assert sink.unknown_lines >= 1
    feed.look(sink)
    path.write_text(header + "11;ann;2024-07-01T12:00:00;2024-07-01T12:01:00;a1 a2;DONE;8\n")
    aged(path, 50)
    sink.failures = 1
    with pytest.raises(LakeError):
        feed.look(sink)
    feed.look(sink)
    assert [row["end_ns"] for row in sink.rows("jobs")] == [None, 1719828060 * NS]
    path.write_text("other\n1\n")
    feed.look(sink)
    assert sink.healths[-1][1] == "failing"
    path.unlink()
    feed.look(sink)
    assert sink.healths[-1][1] == "missing"
    for columns in ({"user": "x"}, {"job_id": "x", "colour": "y"}):
        with pytest.raises(ConfigError):
            JobTableFeed(JobTable(path="x", columns=columns))


def test_settings_of_all_feeds(tmp_path: Path) -> None:
    assert build_feeds(Feeds()) == []
    text = """
    [[drop]]
    folder = "/d"
    [[darshan]]
    folder = "/l"
    [[slurm]]
    cluster = "a"
    [[job_table]]
    path = "/j.csv"
    columns = { job_id = "id" }
    [[scrape]]
    url = "http://oss1:9169/metrics"
    [remote_write]
    enabled = true
    """
    settings = msgspec.toml.decode(text, type=Feeds)
    assert [feed.name for feed in build_feeds(settings)] == [
        "drop:/d",
        "darshan:/l",
        "slurm:a",
        "job_table:/j.csv",
        "scrape:http://oss1:9169/metrics",
        "remote_write",
    ]
    with pytest.raises(ConfigError, match="two feeds"):
        build_feeds(msgspec.structs.replace(settings, drop=settings.drop * 2))
    with pytest.raises(msgspec.ValidationError):
        msgspec.toml.decode("[[drop]]\nfolde = 1", type=Feeds)


def test_a_large_file_goes_in_pieces_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 2000)
    whole = MemorySink()
    import_file(whole, detect_input_source(LOG), LOG, STOP)
    name = next(iter(whole.batches))[0]
    pieces = sorted(seq for _, seq in whole.batches)
    assert len(pieces) > 2
    assert pieces == list(range(len(pieces)))
    sink = MemorySink()
    batch_of_sink = sink.store_batch
    calls = iter(range(100))

    def failing(*arguments: Any, **named: Any) -> bool:
        if next(calls) == 1:
            raise LakeError("the disk is full")
        return batch_of_sink(*arguments, **named)

    monkeypatch.setattr(sink, "store_batch", failing)
    with pytest.raises(LakeError):
        import_file(sink, detect_input_source(LOG), LOG, STOP)
    assert not sink.has_batch(name, 0)  # the last piece says that all are there
    found = import_file(sink, detect_input_source(LOG), LOG, STOP)
    assert not found.known
    assert sink.batches.keys() == whole.batches.keys()
    for table in ("jobs", "files", "file_counters", "ops"):
        assert sink.rows(table) == whole.rows(table) or sorted(map(repr, sink.rows(table))) == sorted(
            map(repr, whole.rows(table))
        )
    assert import_file(sink, detect_input_source(LOG), LOG, STOP).known
