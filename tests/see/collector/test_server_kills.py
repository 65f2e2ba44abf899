"""A server killed at any instant, a sender that repeats and reorders: every acknowledged row is there exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from fairlead.cli.main import main
from serving import Up, ops_batch, until
from stubborn_senders import Sender, check_exactly_once
from waiting import PATIENCE_S

SETTINGS = "[carry]\nevery_s = 0.3\nmaintain_every_s = 1\n"


def _killed_at_random(folder: Path, kills: int, seed: int) -> int:
    chance = random.Random(seed)
    server = Up(folder, SETTINGS)
    with server:
        senders = [Sender(server, number) for number in range(3)]
        for sender in senders:
            sender.start()
        for _ in range(kills):
            before = sum(len(sender.acknowledged) for sender in senders)
            assert until(lambda: sum(len(sender.acknowledged) for sender in senders) > before)  # noqa: B023
            time.sleep(chance.uniform(0.0, 0.5))
            if chance.random() < 0.6:
                children = server.children()
                if children:
                    os.kill(chance.choice(children), signal.SIGKILL)
            else:
                server.kill()
                if chance.random() < 0.3:  # and again while it begins
                    server.start(wait=False)
                    time.sleep(chance.uniform(0.0, 0.8))
                    server.kill()
                server.start()
        for sender in senders:
            sender.done.set()
        for sender in senders:
            sender.join(PATIENCE_S)
            assert not sender.is_alive()
        assert sum(len(sender.acknowledged) for sender in senders) > kills
        before = check_exactly_once(server, senders)
        assert server.stop() == 0
        assert check_exactly_once(server, senders) == before
    assert main(["lake", "compact", "--lake", str(server.lake)]) == 0
    assert check_exactly_once(server, senders) == before
    return before


def test_some_kills(tmp_path: Path, thorough: bool) -> None:
    assert _killed_at_random(tmp_path, 10 if thorough else 4, seed=1) > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_kills(tmp_path: Path) -> None:
    assert _killed_at_random(tmp_path, 100, seed=2) > 0


def test_a_child_that_dies_is_started_again_and_no_orphan_stays(tmp_path: Path) -> None:
    with Up(tmp_path) as server:
        assert server.post(ops_batch(1)).status == 200
        (before,) = server.children()
        os.kill(before, signal.SIGKILL)
        # The parent holds the sockets: who asks meanwhile waits, and is answered.
        assert server.post(ops_batch(2)).status == 200
        assert server.post(ops_batch(1)).json["known"] == 1
        (after,) = server.children()
        assert after != before
        assert "collector ended" in server.said()
        assert "SIGKILL" in server.said()
        server.kill()
        assert until(lambda: not Path(f"/proc/{after}").exists()), "an orphan stays"
        server.start()
        assert server.post(ops_batch(2)).json["known"] == 1


@pytest.mark.slow
def test_a_child_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with Up(tmp_path) as server:
        (child,) = server.children()
        os.kill(child, signal.SIGSTOP)
        assert server.process is not None
        assert server.stop() == 0


def test_sources_and_open_gaps_are_known_after_a_restart(tmp_path: Path) -> None:
    from serving import health_batch

    settings = "[collector]\nsilent_periods = 1.5\nhealth_period_s = 1\n[carry]\nevery_s = 0.3\n"
    with Up(tmp_path, settings) as server:
        server.post(health_batch(1, node="gone", interval_ns=1_000_000_000, state="failing", text="why"))
        server.post(ops_batch(1, node="gone"))
        gaps = "SELECT ts_ns, end_ns FROM events WHERE kind = 'gap' AND component = 'gone'"
        assert until(lambda: server.query(gaps))
        server.kill()
        server.start()
        # It answers first and reads who sent before afterwards.
        (one,) = until(lambda: [one for one in server.health()["sources"] if one["node"] == "gone" and one["probes"]])
        assert (one["state"], one["batches"], one["rows"]) == ("silent", 2, 6)
        assert {probe["probe"]: probe["text"] for probe in one["probes"]}["lustre"] == "why"
        server.post(health_batch(2, node="gone"))
        ended = until(lambda: server.query(f"{gaps} AND end_ns IS NOT NULL"))
        assert len(ended) == 1
        assert main(["server", "status", "--lake", str(server.lake)]) in (0, 4)


def test_all_processes_answer_and_new_settings_exchange_them(tmp_path: Path) -> None:
    import http.client

    settings = '[api]\non = true\nlisten = ["tcp:127.0.0.1:0"]\n[analysis]\non = true\nevery_s = 1\n'
    with Up(tmp_path, settings) as server:
        assert len(server.children()) == 3
        told = json.loads((server.state / "addresses.json").read_text())
        connection = http.client.HTTPConnection("127.0.0.1", int(told["api"][0].rpartition(":")[2]), timeout=PATIENCE_S)
        server.post(ops_batch(1))

        def asked(token: str) -> int:
            connection.request("GET", "/api/v1/system", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            answer.read()
            return answer.status

        assert asked(server.token("reader")) == 200
        assert asked(server.token("agent")) == 403
        before = set(server.children())
        text = server.config.read_text()
        server.config.write_text(text.replace("every_s = 1", "every_s = 2") + "[carry]\nevery_s = nonsense\n")
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        assert until(lambda: "stay as they are" in server.said())
        server.config.write_text(text.replace("every_s = 1", "every_s = 2") + "[collector.limits]\nbody_bytes = 500\n")
        server.process.send_signal(signal.SIGHUP)
        assert until(lambda: len(server.children()) == 3 and not before & set(server.children()))
        assert until(lambda: server.post(bytes(600)).status == 413)
        assert server.post(ops_batch(1, rows=1), server.token("operator")).status in (200, 413)
        assert server.stop() == 0
        connection.close()


def test_what_was_kept_aside_is_taken_in_after_an_upgrade(tmp_path: Path) -> None:
    with Up(tmp_path) as server:
        assert server.post(ops_batch(1, table="moods")).json["taken"] == 1
        server.kill()
        aside = server.lake / "wal" / "main" / "aside"
        (unknown,) = aside.iterdir()
        known = aside / "ops-0123.batch"  # as if `ops` had been unknown
        known.write_bytes(ops_batch(1))
        (aside / "ops-4567.batch").write_bytes(b"damaged")
        server.start()
        assert until(lambda: server.query("SELECT count(*) AS n FROM ops") == [{"n": 4}])  # after it answers
        assert sorted(path.name for path in aside.iterdir()) == sorted([unknown.name, "ops-4567.batch"])
        assert server.post(ops_batch(1)).json["known"] == 1
