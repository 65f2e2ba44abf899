"""Sending under a virtual clock: an hour without a collector, refusals, answers that are none, what is kept."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import pytest

from fairlead.core.batches.decoding import Batch, decode_stream_batches
from fairlead.core.batches.encoding import encode_batch, encode_numbers, encode_words
from fairlead.core.batches.spool import Spool
from fairlead.see.agent import spool_sender as shipping
from fairlead.see.agent.connection import Answer, Line, SendError
from fairlead.see.agent.spool_sender import Backoff, Shipper

SECOND = 10**9
OK = Answer(200, {"taken": 1, "known": 0, "now_ns": 5})


class Wire(Line):
    """A way to a collector that is a function of the body."""

    def __init__(self, answer: Callable[[list[Batch]], Answer]) -> None:
        self.server = "https://collector:1"
        self.answer = answer
        self.bodies: list[bytes] = []
        self.cuts = self.closes = 0

    def close(self) -> None:
        self.closes += 1

    def post(self, files: Sequence[BinaryIO], size: int) -> Answer:
        body = b"".join(one.read() for one in files)
        assert len(body) == size
        self.bodies.append(body)
        return self.answer(list(decode_stream_batches(io.BytesIO(body), "body")))

    def cut(self) -> None:
        self.cuts += 1


def fill(spool: Spool, files: int, text: str = "x", rows: int = 4, size: int = 8) -> None:
    for _ in range(files):
        columns = {
            "ts_ns": encode_numbers(range(rows)),
            "component": encode_words([text] * rows),
            "kind": encode_words(["k"] * rows),
            "text": encode_words([os.urandom(size).hex() for _ in range(rows)]),
        }
        assert spool.write([encode_batch(spool.build_header("events", 1, rows), columns)]) is not None


def spool_in(folder: Path, max_bytes: int = 1 << 30) -> Spool:
    times = iter(range(1, 10**9))
    return Spool(folder, node="n1", writer="agent", layer="agent", max_bytes=max_bytes, clock=lambda: next(times))


def shipper_of(folder: Path, wire: Line, *foreign: Path) -> Shipper:
    return Shipper(str(folder), [str(one) for one in foreign], wire, draw=random.Random(7).random)


def drain(shipper: Shipper, now: int = 0, steps: int = 200) -> int:
    for _ in range(steps):
        again = shipper.step(now)
        if again > now + SECOND:
            return again
        now = max(again, now)
    raise AssertionError("it never rests")


def seqs(wire: Wire) -> list[int]:
    return [batch.header.seq for body in wire.bodies for batch in decode_stream_batches(io.BytesIO(body), "")]


def left(folder: Path) -> int:
    return len(list(folder.glob("*.batch")))


def test_waits_double_to_a_minute_and_are_drawn_evenly() -> None:
    longest = Backoff(lambda: 1.0)
    assert [longest.record_failure() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    longest.record_success()
    assert longest.record_failure() == 0.5
    assert Backoff(lambda: 0.0).record_failure(30) == 30
    assert Backoff(lambda: 0.0).record_failure(10**8) == 3600
    drawn = random.Random(1)
    waits = []
    for _ in range(2000):
        backoff = Backoff(drawn.random)
        backoff.failures = 20
        waits.append(backoff.record_failure())
    assert 27 < sum(waits) / len(waits) < 33


def test_everything_goes_oldest_first_and_is_removed(tmp_path: Path) -> None:
    spool, wire = spool_in(tmp_path), Wire(lambda _: OK)
    fill(spool, 300)
    shipper = shipper_of(tmp_path, wire)
    drain(shipper)
    assert seqs(wire) == list(range(1, 301))
    assert len(wire.bodies) == 3
    assert left(tmp_path) == 0
    assert shipper.get_health().sent_files == 300
    assert not shipper.get_health().failing


def test_a_body_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipping.BODY_BYTES == 8 << 20
    monkeypatch.setattr(shipping, "BODY_BYTES", 8000)
    spool, wire = spool_in(tmp_path), Wire(lambda _: OK)
    fill(spool, 4, rows=1, size=3 << 10)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.batch")) > 8000
    drain(shipper_of(tmp_path, wire))
    assert all(len(body) <= 8000 for body in wire.bodies)
    assert seqs(wire) == [1, 2, 3, 4]


def test_an_hour_without_a_collector(tmp_path: Path) -> None:
    """The spool stays within its bound, attempts become rare, and afterwards everything that was kept arrives."""
    away = True

    def answer(_: list[Batch]) -> Answer:
        if away:
            raise SendError("no route")
        return OK

    spool, wire = spool_in(tmp_path, max_bytes=64_000), Wire(answer)
    shipper, now, again = shipper_of(tmp_path, wire), 0, 0
    for second in range(3600):
        now = second * SECOND
        if second % 10 == 0:
            fill(spool, 1)
        if now >= again:
            again = shipper.step(now)
        if second % 60 == 0:
            assert sum(path.stat().st_size for path in tmp_path.glob("*.batch")) <= 64_000
    assert 80 < len(wire.bodies) < 250, "about one in thirty seconds"
    assert shipper.get_health().failing
    assert shipper.get_health().text == "no route"
    waiting = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*.batch")))
    kept = [batch.header.seq for batch in decode_stream_batches(io.BytesIO(waiting), "")]
    lost = spool.lost_batches
    assert lost > 50
    away, wire.bodies = False, []
    while again <= now + 61 * SECOND and left(tmp_path):
        again = shipper.step(max(now, again))
    assert seqs(wire) == kept
    assert kept == sorted(kept)
    told = [
        word
        for body in wire.bodies
        for batch in decode_stream_batches(io.BytesIO(body), "")
        for word in batch.columns["text"].words
    ]  # type: ignore[union-attr]
    assert any("oldest files" in text for text in told)
    assert set(range(1, spool.seq + 1)) - set(kept) == set(range(1, spool.seq + 1)) - set(seqs(wire))
    assert spool.seq - len(kept) == lost


def test_retry_after_is_honoured(tmp_path: Path) -> None:
    spool, wire = spool_in(tmp_path), Wire(lambda _: Answer(429, {"error": "busy"}, 42.0))
    fill(spool, 1)
    shipper = shipper_of(tmp_path, wire)
    again = drain(shipper)
    assert 42 * SECOND <= again <= 42.5 * SECOND
    assert shipper.step(again - 1) == again
    assert len(wire.bodies) == 1
    shipper.hurry()
    shipper.step(1)
    assert len(wire.bodies) == 2


@pytest.mark.parametrize("status", [400, 410, 413, 422])
def test_one_bad_file_among_many_is_put_aside_alone(tmp_path: Path, status: int) -> None:
    def answer(found: list[Batch]) -> Answer:
        bad = any(batch.columns["component"].words == ["bad"] for batch in found)  # type: ignore[union-attr]
        return Answer(status, {"error": "does not fit", "where": "", "remedy": ""}) if bad else OK

    spool, wire = spool_in(tmp_path), Wire(answer)
    fill(spool, 5)
    fill(spool, 1, "bad")
    fill(spool, 5)
    shipper = shipper_of(tmp_path, wire)
    drain(shipper)
    assert left(tmp_path) == 0
    assert left(tmp_path / "refused") == 1
    assert shipper.get_health().refused == 1
    assert str(status) in shipper.get_health().text or not shipper.get_health().text
    assert set(seqs(wire)) == set(range(1, 12))


def test_what_was_refused_takes_bounded_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "REFUSED_BYTES", 16000)
    spool, wire = spool_in(tmp_path), Wire(lambda _: Answer(422, {"error": "no"}))
    fill(spool, 3, rows=1, size=7 << 10)
    total = sum(path.stat().st_size for path in tmp_path.glob("*.batch"))
    assert total > 16000
    shipper = shipper_of(tmp_path, wire)
    drain(shipper)
    assert left(tmp_path) == 0
    assert 0 < sum(path.stat().st_size for path in (tmp_path / "refused").iterdir()) <= 16000
    assert shipper.get_health().refused == 3


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {}),
        Answer(200, {"taken": "1", "known": 0}),
        Answer(200, {"taken": True, "known": True}),
        Answer(204, {}),
        Answer(302, {}),
        Answer(400, {}),
        Answer(422, {}),
        Answer(401, {"error": "x"}),
        Answer(403, {"error": "x"}),
        Answer(404, {}),
        Answer(411, {"error": "x"}),
        Answer(426, {"error": "x"}),
        Answer(500, {}),
        Answer(503, {"error": "x"}),
        Answer(507, {"error": "x"}),
        Answer(999, {}),
    ],
)
def test_nothing_is_removed_on_any_other_answer(tmp_path: Path, answer: Answer) -> None:
    spool, wire = spool_in(tmp_path), Wire(lambda _: answer)
    fill(spool, 3)
    shipper = shipper_of(tmp_path, wire)
    drain(shipper)
    assert left(tmp_path) == 3
    assert not (tmp_path / "refused").exists()
    assert shipper.get_health().failing
    assert str(answer.status) in shipper.get_health().text


def test_spools_of_mounts_are_sent_as_they_are_in_order_of_time(tmp_path: Path) -> None:
    own, mount, wire = tmp_path / "own", tmp_path / "mount", Wire(lambda _: OK)
    times = iter(range(1, 1000))
    spools = [
        Spool(folder, node="n1", writer=name, clock=lambda: next(times))
        for folder, name in ((own, "agent"), (mount, "mount:/m"))
    ]
    for _ in range(5):
        for spool in spools:
            fill(spool, 1)
    expected = b"".join(
        p.read_bytes() for p in sorted([*own.glob("*.batch"), *mount.glob("*.batch")], key=lambda p: p.name)
    )
    (mount / "link.batch").symlink_to("/etc/passwd")
    os.mkfifo(mount / "pipe.batch")
    shipper = shipper_of(own, wire, mount)
    drain(shipper)
    assert b"".join(wire.bodies) == expected
    assert shipper.get_health().foreign_files == 5
    assert sorted(path.name for path in mount.iterdir()) == ["link.batch", "pipe.batch"]
    assert "cannot be read" in shipper.get_health().text or shipper.get_health().text == ""
    wire.bodies.clear()
    fill(spools[1], 1)
    shipper.step(10**12)
    assert len(wire.bodies) == 1
    missing = shipper_of(own, wire, tmp_path / "nothing")
    drain(missing)
    assert not missing.get_health().spools_found


def test_a_mounts_file_of_another_node_holds_up_no_other(tmp_path: Path) -> None:
    def answer(found: list[Batch]) -> Answer:
        other = any(batch.header.node != "n1" for batch in found)
        return Answer(403, {"error": "the token is for n1"}) if other else OK

    own, mount, wire = tmp_path / "own", tmp_path / "mount", Wire(answer)
    times = iter(range(1, 1000))
    spools = [
        Spool(folder, node=node, writer="w", clock=lambda: next(times))
        for folder, node in ((mount, "elsewhere"), (own, "n1"), (mount, "n1"))
    ]
    for spool in spools * 2:
        fill(spool, 1)
    shipper = shipper_of(own, wire, mount)
    drain(shipper)
    assert (left(own), left(mount)) == (0, 2)
    assert "the token is for n1" in shipper.get_health().text
    sent = len(wire.bodies)
    drain(shipper, 10**12)
    assert len(wire.bodies) == sent
    wire.answer = lambda _: OK
    shipper.hurry()  # another token
    drain(shipper, 2 * 10**12)
    assert left(mount) == 0


def test_a_file_that_cannot_be_removed_is_not_sent_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool, wire = spool_in(tmp_path), Wire(lambda _: OK)
    fill(spool, 2)

    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)
    shipper = shipper_of(tmp_path, wire)
    drain(shipper)
    drain(shipper, 10**12)
    assert len(wire.bodies) == 1
    assert left(tmp_path) == 2


def test_an_attempt_that_takes_too_long_is_cut(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    fill(spool, 1)

    def slow(_: list[Batch]) -> Answer:
        shipper.cut_overdue(30 * SECOND)
        assert wire.cuts == 0
        shipper.cut_overdue(100 * SECOND)
        assert wire.cuts == 1
        raise SendError("cut")

    wire = Wire(slow)
    shipper = shipper_of(tmp_path, wire)
    shipper.step(0)
    shipper.cut_overdue(10**12)
    assert wire.cuts == 1
    assert left(tmp_path) == 1
