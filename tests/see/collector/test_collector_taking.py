"""Bodies that wait together are taken together, and each has its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fairlead.core.batches.encoding import Column, Header, encode_batch, encode_numbers, encode_words
from fairlead.see.collector.group_commit import Arrival, Gathering
from fairlead.see.collector.intake import Intake, IntakeAnswer
from fairlead.see.collector.metrics import Metrics
from fairlead.see.collector.refusal import Refusal
from fairlead.see.collector.settings import Limits
from fairlead.see.collector.source_activity import Sources
from fairlead.see.collector.unknown_tables import Aside
from fairlead.store.lake import Lake
from waiting import PATIENCE_S

NOW = 1_700_000_000 * 10**9


def _body(node: str, seq: int, *, ts_ns: int = NOW, table: str = "health", rows: int = 2) -> bytes:
    columns = {
        "ts_ns": encode_numbers([ts_ns] * rows),
        "node": encode_words([node] * rows),
        "probe": encode_words(["agent"] * rows),
        "state": encode_words(["ok"] * rows),
        "lost_batches": encode_numbers([1] * rows),
        "interval_ns": encode_numbers([60 * 10**9] * rows),
    }
    return encode_batch(Header(table, 1, node, "boot", seq, rows, "agent", "test", ts_ns, ts_ns), columns)


class _Rig:
    def __init__(self, folder: Path) -> None:
        self.lake = Lake.open(folder / "lake", create=True)
        self.writer = self.lake.open_writer()
        self.writer.now_ns = lambda: NOW
        self.sources = Sources(started_ns=0, silent_periods=3, period_ns=60 * 10**9)
        self.metrics = Metrics()
        aside = Aside(folder / "aside", 1 << 20)
        self.intake = Intake(self.writer, aside, self.sources, self.metrics, Limits(), lambda: NOW)

    def answers(self, *arrivals: Arrival) -> list[tuple[int, int] | int]:
        """(taken, known) or the status of each."""
        found: list[tuple[int, int] | int] = []
        for one in self.intake.take_all(arrivals):
            if isinstance(one, IntakeAnswer):
                found.append((one.taken, one.known))
            else:
                assert isinstance(one, Refusal)
                found.append(one.status)
        return found

    def rows(self) -> int:
        return int(self.lake.query("SELECT count(*) AS n FROM health").column("n")[0].as_py())


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[_Rig]:
    made = _Rig(tmp_path)
    yield made
    made.writer.close()


def test_a_bad_body_fails_itself_alone(rig: _Rig) -> None:
    damaged = bytearray(_body("n2", 1))
    damaged[-1] ^= 1
    found = rig.answers(
        Arrival(_body("n1", 1), "n1", "a"),
        Arrival(bytes(damaged), "n2", "a"),
        Arrival(_body("n3", 1), "n4", "a"),
        Arrival(_body("n5", 1, ts_ns=NOW + 10 * 86400 * 10**9), "n5", "a"),
        Arrival(b"", "n6", "a"),
        Arrival(_body("n7", 1), "", "a"),
    )
    assert found == [(1, 0), 400, 403, 422, 400, (1, 0)]
    assert rig.rows() == 4
    rig.writer.flush()
    assert rig.rows() == 4


def test_what_is_sent_again_counts_once_beside_what_is_new(rig: _Rig) -> None:
    first = Arrival(_body("n1", 1), "", "a")
    assert rig.answers(first) == [(1, 0)]
    both = Arrival(_body("n1", 1) + _body("n1", 2), "", "a")
    fresh, twice = Arrival(_body("n2", 1), "", "a"), Arrival(_body("n3", 9), "", "a")
    assert rig.answers(first, both, fresh, twice, twice) == [(0, 1), (1, 1), (1, 0), (1, 0), (0, 1)]
    assert rig.rows() == 2 * 4
    assert {one.node: (one.batches, one.lost_batches) for one in rig.sources.list_sources(NOW)} == {
        "n1": (3, 6),
        "n2": (1, 2),
        "n3": (1, 2),
    }


def test_small_and_large_bodies_and_strange_tables_together(rig: _Rig) -> None:
    found = rig.answers(
        Arrival(_body("n1", 1), "", "a"),
        Arrival(_body("n1", 2, rows=5000), "", "a"),
        Arrival(_body("n1", 3, table="of_tomorrow"), "", "a"),
    )
    assert found == [(1, 0), (1, 0), (1, 0)]
    assert rig.rows() == 5002


def test_rows_taken_together_survive_a_writer_that_was_killed(rig: _Rig, tmp_path: Path) -> None:
    assert rig.answers(*(Arrival(_body(f"n{k}", 1), "", "a") for k in range(50))) == [(1, 0)] * 50
    rig.writer.close(flush=False)
    with Lake.open(tmp_path / "lake").open_writer() as writer:
        assert writer.has_batch("n7/boot/health", 1)
        assert not writer.has_batch("n7/boot/health", 2)
    assert rig.rows() == 100


def test_waiting_bodies_are_one_group_and_a_defect_ends_no_thread() -> None:
    go, groups = threading.Event(), []

    def take(arrivals: Sequence[Arrival]) -> list[int | Exception]:
        go.wait(PATIENCE_S)
        groups.append(len(arrivals))
        if arrivals[0].body == b"boom":
            raise ZeroDivisionError
        return [ValueError(one.node) if one.body == b"bad" else len(one.body) for one in arrivals]

    async def ask() -> list[object]:
        gathering: Gathering[int] = Gathering(take, 1)
        first = asyncio.create_task(gathering.await_answer(Arrival(b"boom", "", "")))
        while not gathering.busy:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(gathering.await_answer(Arrival(b, "n", ""))) for b in (b"a", b"bad", b"ccc")]
        await asyncio.sleep(0)
        go.set()
        answers = await asyncio.gather(first, *rest, return_exceptions=True)
        gathering.close()
        with pytest.raises(RuntimeError):
            await gathering.await_answer(Arrival(b"late", "", ""))
        return list(answers)

    boom, one, bad, three = asyncio.run(ask())
    assert isinstance(boom, ZeroDivisionError)
    assert (one, three) == (1, 3)
    assert isinstance(bad, ValueError)
    assert groups == [1, 3]


@pytest.mark.parametrize("many", [1, 40], ids=["one by one", "in bulk"])
def test_nobody_sends_what_is_made_here_and_no_node_says_who_ran_what(rig: _Rig, many: int) -> None:
    """A false sum would be a false page, and a false account would show a job to somebody else."""
    sums = {
        "ts_ns": encode_numbers([NOW]),
        "interval_ns": encode_numbers([10**9]),
        "kind": encode_words(["job"]),
        "id": encode_words(["7"]),
        "layer": encode_words(["client"]),
    }
    jobs = {"job_id": encode_words(["7"]), "user": encode_words(["eve"]), "start_ns": encode_numbers([NOW])}

    def arrivals(table: str, columns: dict[str, Column], node: str) -> list[Arrival]:
        headers = [Header(table, 1, f"n{k}", "boot", 1, 1, "agent", "test", NOW, NOW) for k in range(many)]
        return [Arrival(encode_batch(header, columns), header.node if node else "", "a") for header in headers]

    assert rig.answers(*arrivals("rollup", sums, "")) == [422] * many
    assert rig.answers(*arrivals("jobs", jobs, "own")) == [403] * many
    assert rig.answers(*arrivals("jobs", jobs, "")) == [(1, 0)] * many
    assert rig.lake.query("SELECT count(*) AS n FROM rollup").column("n")[0].as_py() == 0
