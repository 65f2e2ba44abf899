"""A node whose clock is a day off: its counters are taken to the byte, and its offset is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from old_fairlead import build_agent
from real_site import interpreters
from serving import Up
from waiting import wait_until
from watched_disk import Disk, agent, is_watched, seen

DAY_NS = 86_400 * 10**9
MIB = 1 << 20
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


@pytest.mark.slow
@pytest.mark.skipif(not FAKETIME, reason="no libfaketime: apt-get install libfaketime")
@pytest.mark.parametrize("days", [-1, 1])
def test_a_node_s_clock_is_a_day_off(tmp_path: Path, days: int) -> None:
    program, python = build_agent(tmp_path / "agent.pyz"), list(interpreters().values())[-1]
    disk = Disk(tmp_path / "root")
    fake = {"LD_PRELOAD": str(FAKETIME[0]), "FAKETIME": f"{days:+d}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    said = tmp_path / "agent" / "said"
    with Up(tmp_path) as up, agent(up, disk, tmp_path / "agent", "n1", program, python, environment=fake):
        wait_until(lambda: is_watched(up, "n1"), lambda: said.read_text() + up.said())
        for _ in range(10):
            disk.write(MIB)
        wait_until(lambda: seen(up, "n1") == 10 * MIB, lambda: f"{seen(up, 'n1')}\n{said.read_text()}")
        offsets = "SELECT clock_offset_ns FROM health WHERE clock_offset_ns IS NOT NULL"
        wait_until(lambda: up.query(offsets), "the offset")
        assert all(abs(abs(row["clock_offset_ns"]) - DAY_NS) < 60 * 10**9 for row in up.query(offsets))
        assert up.post(b"").status in (200, 400), "and the server goes on"
