"""The agent's loop under a virtual clock: steady ticks, absent and failing and hanging probes, clock steps, health."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from agent_server import rows_of
from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.batches.rows import build_batch_rows as arrow_rows
from fairlead.core.batches.spool import Spool
from fairlead.core.model.tables import TABLES
from fairlead.see.agent.health import Cost, SenderHealth
from fairlead.see.agent.loop import LOOK_AGAIN_NS, Watch
from fairlead.see.agent.probe_thread import Crew, Outcome, Runs, run_probe_in_thread
from fairlead.see.agent.row_buffers import VERSIONS
from fairlead.see.agent.schedule import Grid, align_schedule, find_schedule_phase
from fairlead.see.agent.settings import Settings
from fairlead.see.probes.base import AbsentError, Event, Probe, ProbeResult, Reading
from fairlead.see.probes.node_jobs import NodeJobs
from waiting import PATIENCE_S

SECOND = 10**9
WALL = 1_700_000_000 * SECOND


class Counting(Probe):
    """A target whose counter is `value` at every look."""

    name = "counting"
    source = "obdfilter"

    def __init__(self, value: Callable[[int], int]) -> None:
        super().__init__("/", "n1")
        self.value = value
        self.looks: list[int] = []
        self.fault: BaseException | None = None

    def read(self, now_ns: int) -> ProbeResult:
        self.looks.append(now_ns)
        if self.fault is not None:
            raise self.fault
        count = self.value(now_ns)
        made = Reading(
            "target",
            ("target",),
            ("read_bytes",),
            ("used_bytes",),
            {("t0",): [count, 5]},
            unknown=1,
            unknown_example="what is this",
            constant=(("source", self.source),),
        )
        return ProbeResult([made])


class AtOnce(Runs):
    """Runs probes in the caller's thread, at a clock's time."""

    def __init__(self, clock: Clock) -> None:
        self.stuck: list[str] = []
        self.clock = clock
        self.done: list[Outcome] = []

    def start(self, name: str, probe: Probe) -> None:
        self.done.append(run_probe_in_thread(name, probe, lambda: self.clock.mono, lambda: self.clock.wall))

    def collect(self, now_ns: int) -> list[Outcome]:  # noqa: ARG002
        done, self.done = self.done, []
        return done

    def compute_deadline_ns(self) -> int | None:
        return None


class Clock:
    """Virtual time."""

    def __init__(self) -> None:
        self.mono = 5 * SECOND + 123
        self.ahead = WALL

    @property
    def wall(self) -> int:
        return self.mono + self.ahead


class House:
    """A watch over probes under a virtual clock, and what it wrote."""

    def __init__(self, folder: Path, *probes: Probe, told: SenderHealth | None = None) -> None:
        self.clock = Clock()
        self.folder = folder
        self.told = told or SenderHealth()
        self.spool = Spool(folder, node="n1", writer="agent", layer="agent", clock=lambda: self.clock.wall)
        self.watch = Watch(
            Settings(node="n1"),
            [(one.name, one) for one in probes],
            AtOnce(self.clock),
            self.spool,
            mono_ns=self.clock.mono,
            wall_ns=self.clock.wall,
            told=lambda: self.told,
            cost=lambda: Cost(20 << 20, self.clock.mono // 1000),
            wrote=lambda: None,
        )

    def go(self, seconds: float) -> None:
        until = self.clock.mono + int(seconds * SECOND)
        while self.clock.mono < until:
            again = self.watch.step(self.clock.mono, self.clock.wall)
            assert again > self.clock.mono
            self.clock.mono = min(again, until)

    def rows(self, table: str) -> list[dict[str, object]]:
        self.watch.flush(self.clock.mono)
        found: list[dict[str, object]] = []
        for path in sorted(self.folder.glob("*.batch")):
            with path.open("rb") as stream:
                for batch in decode_stream_batches(stream, str(path)):
                    assert list(arrow_rows(batch, "here")), "it fits its table"
                    if batch.header.table == table:
                        found += rows_of(batch)
        return found


def test_ticks_are_steady_and_missed_ones_are_skipped_and_counted() -> None:
    grid = Grid(1000, 100)
    assert not grid.is_due(999)
    grid.take_tick(1000)
    assert (grid.next_ns, grid.missed) == (1100, 0)
    grid.take_tick(1399)
    assert (grid.next_ns, grid.missed) == (1400, 2)
    assert align_schedule(7, 1_234, 100) == 7 + 66
    phases = [find_schedule_phase(f"node{n}", 10 * SECOND) for n in range(4000)]
    assert all(0 <= one < 10 * SECOND for one in phases)
    assert max(sum(one // SECOND == second for one in phases) for second in range(10)) < 500


def test_versions_of_tables_are_those_of_the_model() -> None:
    assert {name: TABLES[name].version for name in VERSIONS} == VERSIONS


def test_looks_come_at_whole_seconds_and_rows_hold_what_happened(tmp_path: Path) -> None:
    probe = Counting(lambda now: (now - WALL) // SECOND * 1000)
    house = House(tmp_path, probe)
    house.go(30)
    assert len(probe.looks) >= 30
    assert all(one % SECOND == 0 for one in probe.looks[1:])
    rows = house.rows("target")
    assert rows[0]["read_bytes"] is None, "the base has its gauge only"
    assert (
        sum(int(row["read_bytes"] or 0) for row in rows)
        == ((probe.looks[-1] - WALL) // SECOND - (probe.looks[0] - WALL) // SECOND) * 1000
    )
    assert {row["server"] for row in rows} == {"n1"}
    assert {row["interval_ns"] for row in rows[2:]} == {SECOND}


def test_a_look_that_was_too_late_is_not_made_up_for(tmp_path: Path) -> None:
    probe = Counting(lambda now: now)
    house = House(tmp_path, probe)
    house.go(5)
    before = len(probe.looks)
    house.clock.mono += 10 * SECOND
    house.go(1.5)
    assert len(probe.looks) - before in (2, 3)
    house.go(60)
    (health,) = [row for row in house.rows("health") if "skipped" in str(row["text"])]
    assert health["probe"] == "counting"
    intervals = [row["interval_ns"] for row in house.rows("target")]
    assert max(int(one or 0) for one in intervals) > 10 * SECOND, "nothing is lost, the interval is longer"


def test_what_is_absent_is_looked_for_every_five_minutes(tmp_path: Path) -> None:
    probe = Counting(lambda _: 0)
    probe.fault = AbsentError("no such thing")
    house = House(tmp_path, probe)
    house.go(1000)
    assert len(probe.looks) == 4
    assert {row["probe"] for row in house.rows("health")} == {"agent"}, "`auto` does not tell what was never here"
    probe.fault = None
    house.go(LOOK_AGAIN_NS / SECOND + 70)
    assert len(probe.looks) > 60
    assert "counting" in {row["probe"] for row in house.rows("health")}


def test_failures_are_told_and_the_others_go_on(tmp_path: Path) -> None:
    bad, good = Counting(lambda _: 0), Counting(lambda now: now)
    good.name = "good"
    house = House(tmp_path, bad, good)
    for fault in (PermissionError(13, "Permission denied"), ValueError("a defect")):
        bad.fault = fault
        house.go(61)
    told = [row for row in house.rows("health") if row["probe"] == "counting"]
    assert {row["state"] for row in told} == {"failing"}
    texts = " ".join(str(row["text"]) for row in told)
    assert "Permission denied" in texts
    assert "defect: ValueError" in texts
    assert len(good.looks) > 120


def test_an_idle_node_says_little(tmp_path: Path) -> None:
    house = House(tmp_path, Counting(lambda _: 5))
    house.go(3600)
    files = len(list(tmp_path.glob("*.batch")))
    assert 55 <= files <= 65
    rows = house.rows("target")
    assert 58 <= len(rows) <= 61
    assert sum(int(row.get("interval_ns") or 0) for row in rows) >= 3590 * SECOND - 60 * SECOND


def test_a_clock_that_was_set_is_an_event_and_changes_no_interval(tmp_path: Path) -> None:
    probe = Counting(lambda _: len(probe.looks))
    house = House(tmp_path, probe)
    for step in (-3600 * SECOND, 300 * SECOND, SECOND // 10):
        house.go(20)
        house.clock.ahead += step
    house.go(20)
    events = house.rows("events")
    assert [row["kind"] for row in events] == ["clock_step", "clock_step"]
    assert "back by 3600.000" in str(events[0]["text"])
    assert "forward by 300.000" in str(events[1]["text"])
    assert max(int(row.get("interval_ns") or 0) for row in house.rows("target")) <= 2 * SECOND


def test_health_is_told_soon_and_each_minute(tmp_path: Path) -> None:
    house = House(tmp_path, Counting(lambda now: now), told=SenderHealth(offset_ns=-7, refused=0))
    house.go(12)
    assert {row["probe"] for row in house.rows("health")} == {"agent", "counting"}
    house.told = SenderHealth(failing=True, text="no route", offset_ns=-7)
    house.go(60)
    house.told = SenderHealth(refused=2, text="refused", offset_ns=-7)
    house.go(60)
    rows = [row for row in house.rows("health") if row["probe"] == "agent"]
    assert [row["state"] for row in rows] == ["ok", "failing", "lost"]
    assert [row["lost_batches"] for row in rows] == [0, 0, 2]
    assert {row["memory_bytes"] for row in rows} == {20 << 20}
    assert {row["clock_offset_ns"] for row in rows} == {-7}
    probe = [row for row in house.rows("health") if row["probe"] == "counting"][1]
    assert probe["unknown_lines"] == probe["runs"] == 60
    assert "what is this" in str(probe["text"])


class Hanging(Probe):
    """Hangs until it is let go."""

    name = "hanging"
    timeout_s = 0.05

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.looks = 0

    def read(self, now_ns: int) -> ProbeResult:
        self.looks += 1
        self.free.wait(PATIENCE_S)
        return ProbeResult([], [Event(now_ns, "n1", "free", "at last")])


def test_a_probe_that_hangs_holds_up_nobody_and_is_given_up_once() -> None:
    crew = Crew(time.monotonic_ns, time.time_ns)
    hanging, good = Hanging(), Counting(lambda _: 1)
    threads = threading.active_count()
    done: list[Outcome] = []

    def wait_for(name: str, state: str, count: int) -> None:
        until = time.monotonic() + 900
        while sum((one.name, one.state) == (name, state) for one in done) < count:
            assert time.monotonic() < until, done
            done.extend(crew.collect(time.monotonic_ns()))
            time.sleep(0.002)

    crew.start("hanging", hanging)
    crew.start("good", good)
    wait_for("hanging", "late", 1)
    wait_for("good", "ok", 1)
    assert crew.stuck == ["hanging"]
    for count in range(2, 6):
        crew.start("good", good)
        wait_for("good", "ok", count)
    assert threading.active_count() == threads + 2
    hanging.free.set()
    wait_for("hanging", "late", 2)
    assert crew.stuck == []
    back = next(one for one in reversed(done) if one.name == "hanging")
    assert back.found is not None
    assert [event.kind for event in back.found.events] == ["free"], "events are not lost"
    crew.start("hanging", hanging)
    wait_for("hanging", "ok", 1)
    assert hanging.looks == 2
    assert done[-1].found is not None
    until = time.monotonic() + 900
    while threading.active_count() > threads + 1:
        assert time.monotonic() < until
        time.sleep(0.002)
    for number in range(10):
        crew.start(f"good{number}", good)
    for number in range(10):
        wait_for(f"good{number}", "ok", 1)


def test_spread_readings_are_rows_by_operation(tmp_path: Path) -> None:
    class Spread(Counting):
        def read(self, now_ns: int) -> ProbeResult:
            self.looks.append(now_ns)
            count = (0, 3, 3, 9)[min(len(self.looks) - 1, 3)]
            made = Reading(
                "metadata",
                ("target",),
                ("open", "close", "stat"),
                (),
                {("m0",): [count, 2 * count, None]},
                constant=(("source", "md_stats"), ("server", "mds1")),
                spread=("op", "count"),
            )
            return ProbeResult([made])

    house = House(tmp_path, Spread(lambda _: 0))
    house.go(100)
    rows = [(row["op"], row["count"], row["server"]) for row in house.rows("metadata")]
    assert rows[:4] == [("open", 3, "mds1"), ("close", 6, "mds1"), ("open", 6, "mds1"), ("close", 12, "mds1")]
    assert rows[4:] == [("open", 0, "mds1")], "idle is one zero"


def test_a_crew_that_is_ended_leaves_no_thread() -> None:
    threads = threading.active_count()
    crew = Crew(time.monotonic_ns, time.time_ns)
    crew.start("good", Counting(lambda _: 1))
    until = time.monotonic() + 900
    while not crew.collect(time.monotonic_ns()):
        assert time.monotonic() < until
        time.sleep(0.002)
    assert threading.active_count() == threads + 1
    crew.end()
    while threading.active_count() > threads:
        assert time.monotonic() < until
        time.sleep(0.002)


def count_files(house: House) -> int:
    return len(list(house.folder.glob("*.batch")))


def test_the_end_of_a_job_sends_what_was_counted_until_then_with_the_health_that_says_so(tmp_path: Path) -> None:
    groups = tmp_path / "root" / "sys/fs/cgroup/system.slice/slurmstepd.scope"
    (groups / "job_7").mkdir(parents=True)
    spool = tmp_path / "spool"
    spool.mkdir()
    probe = Counting(lambda now: (now - WALL) // (SECOND // 10) * 100)
    house = House(spool, probe, NodeJobs(str(tmp_path / "root"), "n1"))
    house.go(32.3)
    before, looks, ended = count_files(house), len(probe.looks), house.clock.wall
    (groups / "job_7").rmdir()
    house.go(2.0)
    assert count_files(house) == before + 1
    house.go(3.0)
    assert [one % SECOND for one in probe.looks[looks:]].count(0) >= len(probe.looks[looks:]) - 1, "the grid stays"
    told = [row for row in house.rows("health") if row["probe"] == "agent"]
    assert any(ended < int(str(row["ts_ns"])) <= ended + 2 * SECOND for row in told)
    assert [row["a"] for row in house.rows("mapping") if row.get("to_ns") is not None] == ["7"]


def test_a_flush_reads_and_sends_at_once(tmp_path: Path) -> None:
    probe = Counting(lambda now: (now - WALL) // SECOND * 100)
    house = House(tmp_path, probe)
    house.go(32.3)
    before, looks = count_files(house), len(probe.looks)
    house.watch.push(house.clock.mono)
    house.watch.push(house.clock.mono)
    house.go(0.01)
    assert (count_files(house), len(probe.looks)) == (before + 1, looks + 1)


def test_what_a_server_counted_by_job_is_sent_within_two_seconds(tmp_path: Path) -> None:
    class ByJob(Counting):
        name = "by_job"

        def read(self, now_ns: int) -> ProbeResult:
            count = self.value(now_ns)
            made = Reading("target", ("target", "job_id"), ("read_bytes",), (), {("t0", "7"): [count]})
            return ProbeResult([made])

    house = House(tmp_path, ByJob(lambda now: (now - WALL) // SECOND * 1000))
    house.go(5)
    before = count_files(house)
    house.go(20)
    assert count_files(house) >= before + 6
