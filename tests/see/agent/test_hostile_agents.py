"""Forty thousand agents and one server: connections are not held, and after an outage they do not come at once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from test_agent_shipping import OK, SECOND, Wire, fill, left, seqs, spool_in

from fairlead.see.agent import spool_sender as shipping
from fairlead.see.agent.connection import Answer, SendError
from fairlead.see.agent.spool_sender import Shipper
from fairlead.see.collector.settings import Limits


def shipper_of(folder: Path, wire: Wire, poll_s: float = 10.0, seed: int = 7) -> Shipper:
    return Shipper(str(folder), [], wire, draw=random.Random(seed).random, poll_s=poll_s)


@pytest.mark.parametrize(("poll_s", "closed"), [(2.0, 0), (10.0, 1), (60.0, 1)])
def test_a_connection_is_held_only_while_more_is_soon_to_be_sent(tmp_path: Path, poll_s: float, closed: int) -> None:
    spool, wire = spool_in(tmp_path), Wire(lambda _: OK)
    fill(spool, 1)
    shipper = shipper_of(tmp_path, wire, poll_s)
    assert shipper.step(0) == 0
    assert shipper.step(0) == poll_s * SECOND
    assert wire.closes == closed


def test_a_server_that_asks_to_wait_long_is_not_held_meanwhile(tmp_path: Path) -> None:
    spool, wire = spool_in(tmp_path), Wire(lambda _: Answer(429, {"error": "busy"}, 30.0))
    fill(spool, 1)
    shipper_of(tmp_path, wire).step(0)
    assert wire.closes == 1


def test_the_server_lets_go_of_the_idle_soon_after_agents_would() -> None:
    assert shipping._KEPT_NS < Limits().idle_s * SECOND <= 30 * SECOND


def test_after_an_outage_nodes_come_spread_out_and_take_turns(tmp_path: Path) -> None:
    """First attempts after an hour are spread over a minute; bodies of one node have pauses between them."""
    firsts: list[int] = []
    for seed in range(40):
        folder = tmp_path / str(seed)
        away = [True]

        def answer(_: object, away: list[bool] = away) -> Answer:
            if away[0]:
                raise SendError("refused")
            return OK

        spool, wire = spool_in(folder), Wire(answer)
        fill(spool, 1)
        shipper, now = shipper_of(folder, wire, seed=seed), 0
        while now < 3600 * SECOND:
            now = shipper.step(now)
        away[0] = False
        firsts.append(now - 3600 * SECOND)
        assert now <= 3660 * SECOND
    buckets = {first // (10 * SECOND) for first in firsts}
    assert len(buckets) >= 4, "they came together"


def test_what_piled_up_goes_oldest_first_with_pauses_but_not_at_the_end(tmp_path: Path) -> None:
    spool, wire = spool_in(tmp_path), Wire(lambda _: OK)
    fill(spool, 4 * shipping.BODY_FILES)
    shipper, now, waits = shipper_of(tmp_path, wire), 0, []
    for _ in range(2):
        again = shipper.step(now)
        waits.append(again - now)
        now = again
    assert all(0 < wait <= SECOND for wait in waits)
    assert len(wire.bodies) == 2
    shipper.hurry()
    while left(tmp_path):
        assert shipper.step(now) == now, "at the end there is no time to lose"
    assert seqs(wire) == list(range(1, 4 * shipping.BODY_FILES + 1))
