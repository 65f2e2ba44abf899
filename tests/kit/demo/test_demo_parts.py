"""The parts of the demo that need no forwarder: what is drawn, what jobs count, devices, children, what is printed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.core.errors import ForwardingError
from fairlead.kit.demo import jobs
from fairlead.kit.demo.child_processes import Children
from fairlead.kit.demo.device import OVERHEAD_NS, Pace, SimulatedTarget, write_device_pace
from fairlead.kit.demo.plan import FORWARDERS, JOBS, TARGETS, describe_demo_plan, draw_demo_plan
from fairlead.kit.demo.play import Outcome
from fairlead.steer.targets.config import Target

DEADLINE_S = 900.0


def test_the_same_seed_plays_the_same() -> None:
    assert draw_demo_plan(7) == draw_demo_plan(7)
    assert len({describe_demo_plan(draw_demo_plan(seed)) for seed in range(20)}) > 10


def test_what_is_told_is_on_the_clock_of_the_records() -> None:
    play = draw_demo_plan(4)
    assert play.slowed is not None
    assert f"From second {play.slowed.from_s + 2:.0f} " in describe_demo_plan(play, 2.0)


def test_every_kind_of_play_is_drawn_and_fits() -> None:
    kinds: Counter[tuple[bool, bool]] = Counter()
    for seed in range(200):
        play = draw_demo_plan(seed)
        kinds[play.slowed is not None, play.storm is not None] += 1
        assert set(play.homes.values()) == set(FORWARDERS)
        for one in (play.slowed, play.storm):
            assert one is None or 2 <= one.from_s < one.to_s <= play.seconds - 1
        if play.slowed is not None:
            assert play.slowed.target in TARGETS
            assert play.slowed.target in describe_demo_plan(play)
        if play.storm is not None:
            home = play.homes[play.storm.job_id]
            assert list(play.homes.values()).count(home) == 2, "there is nobody to disturb"
        if play.slowed is not None and play.storm is not None:
            first, second = sorted([(play.slowed.from_s, play.slowed.to_s), (play.storm.from_s, play.storm.to_s)])
            assert first[1] <= second[0]
    assert min(kinds[slow, storm] for slow in (False, True) for storm in (False, True)) > 20


@pytest.mark.parametrize("kind", [job.kind for job in JOBS])
@pytest.mark.parametrize("storm", [None, "0:0.3"])
def test_jobs_count_what_they_do(
    kind: str, storm: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [kind, str(tmp_path / "job"), "--seconds", "0.4", "--threads", "2"]
    assert jobs.run_demo_job([*command, *(["--storm", storm] if storm else [])]) == 0
    saw = json.loads(capsys.readouterr().out)
    assert saw["operations"] > 0
    assert saw["bytes_written"] > 0
    assert 0 < saw["longest_s"] <= saw["io_s"]
    assert saw["seconds"] >= 0.4


def test_a_device_holds_requests_and_slows_while_it_runs(tmp_path: Path) -> None:
    pace = tmp_path / "pace.json"
    write_device_pace(pace, {"t0": 1, "t1": 4})
    found = Pace(pace)
    assert (found.read_times("t0"), found.read_times("t1")) == (1, 4)
    target = SimulatedTarget(Target(name="t1", path=str(tmp_path)), found)
    from fairlead.core.clock import monotonic_ns

    began = monotonic_ns()
    target.count_request(4096, True, began)
    assert monotonic_ns() - began >= 4 * OVERHEAD_NS
    assert target.counters.write_rpcs == 1
    write_device_pace(pace, {"t0": 6, "t1": 1})
    end = monotonic_s() + DEADLINE_S
    while found.read_times("t0") != 6:
        assert monotonic_s() < end
        sleep_s(0.01)


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] == "Z"


def _wait_until_gone(pid: int) -> None:
    end = monotonic_s() + DEADLINE_S
    while not _gone(pid):
        assert monotonic_s() < end, f"{pid} still runs"
        sleep_s(0.02)


def test_children_end_with_all_they_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(inner.pid, flush=True); print('ready', file=sys.stderr, flush=True); time.sleep(600)"
    )
    with Children(tmp_path) as children:
        child = children.start("stubborn", _python(code))
        child.wait_for("ready", DEADLINE_S)
        inner = int(child.read_output())
        children.end(child, timeout_s=0.2)
        assert not child.running
        _wait_until_gone(inner)


def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start("failing", _python("import sys; sys.exit('no such thing')"))
        with pytest.raises(ForwardingError, match=r"failing ended with 1 while starting: .*no such thing"):
            child.wait_for("ready", DEADLINE_S)


def test_children_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from fairlead.kit.demo.child_processes import Children;"
        "children = Children(Path(sys.argv[1]));"
        "child = children.start('sleeper', [sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(child.process.pid, flush=True); time.sleep(600)"
    )
    with Children(tmp_path) as children:
        parent = children.start("parent", [*_python(code), str(tmp_path)])
        end = monotonic_s() + DEADLINE_S
        while not parent.read_output().strip():
            assert monotonic_s() < end
            assert parent.running, parent.read_errors()
            sleep_s(0.02)
        sleeper = int(parent.read_output())
        os.kill(parent.process.pid, signal.SIGKILL)
        _wait_until_gone(sleeper)


def _outcome(**changed: Any) -> Outcome:
    play = draw_demo_plan(4)
    verdict = {
        "kind": "slow_target",
        "culprit": "t0",
        "title": "Target t0 was slow",
        "where": [],
        "from_ns": 0,
        "to_ns": 10**9,
        "confidence": 0.9,
        "evidence": ["Each MiB took long."],
        "advice": ["Look at it."],
        "victims": ["4101"],
        "lost_s": {"4101": 4.0},
        "cost_s": {"4101": 2.0},
    }
    path = {
        "job_id": "4101",
        "name": None,
        "missing": [],
        "client": {
            "nodes": ["n"],
            "processes": 2,
            "operations": 5,
            "metadata": 1,
            "bytes_read": 0,
            "bytes_written": 4096,
            "busy_s": 1.0,
            "data_s": 1.0,
            "from_ns": 0,
            "to_ns": 1,
        },
        "forwarders": [
            {
                "name": "f0",
                "requests": 5,
                "metadata": 1,
                "bytes": 4096,
                "wait_s": 0.5,
                "service_s": 0.4,
                "wait_p50_s": 0.1,
                "wait_p90_s": 0.2,
                "worst_wait_p90_s": None,
            }
        ],
        "targets": [{"name": "t0", "requests": 4, "bytes": 4096, "service_s": 0.3, "per_mib_s": 1.0}],
    }
    values: dict[str, Any] = {
        "seed": 4,
        "fuse": True,
        "played": play,
        "told": describe_demo_plan(play),
        "judged": play.truth,
        "right": dict.fromkeys(play.truth, True),
        "judgement": {"verdicts": [verdict], "nobody": None},
        "saw": {
            "4101": {
                "about": "A checkpoint.",
                "operations": 5,
                "bytes_read": 0,
                "bytes_written": 4096,
                "io_s": 1.0,
                "differences": ["It counted otherwise."],
            }
        },
        "paths": [path],
        "charts": {"targets": [{"name": "t0", "bytes": [4096.0], "per_mib_s": [0.1]}], "jobs": [], "forwarders": []},
    }
    return Outcome(**(values | changed))


def test_what_is_printed_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    from fairlead.cli.demo_terminal import show_demo_in_terminal

    show_demo_in_terminal(_outcome())
    text = capsys.readouterr().out
    for wanted in (
        "job 4101",
        "application itself",
        "forwarder f0",
        "target t0",
        "Target t0 was slow (second 0 to 1, confidence 90 %)",
        "Each MiB took long.",
        "it cost job 4101 4 s",
        "about 2 s of its run",
        "The diagnosis is correct.",
        "It counted otherwise.",
    ):
        assert wanted in text
    show_demo_in_terminal(
        _outcome(judgement={"verdicts": [], "nobody": "Because."}, right={"slow_target": False, "disturber": True})
    )
    text = capsys.readouterr().out
    assert "No cause was found. Because." in text
    assert "The diagnosis is WRONG" in text
