"""`fairlead demo` from end to end: it ends, names somebody or nobody, writes a page, leaves nothing behind.

Whether it names the right one is a matter of twenty seeds (`benchmarks/demo_seeds.py`, and a slow test here).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.steer.fs.fuse.mount_table import read_mount_table
from waiting import PATIENCE_S

DEADLINE_S = 900.0
_SHORT = (
    "import sys; from pathlib import Path; from fairlead.kit.demo.play import perform_demo_play;"
    "from fairlead.kit.demo.plan import draw_demo_plan; import msgspec;"
    "plan = draw_demo_plan(int(sys.argv[1]), float(sys.argv[2]));"
    "o = perform_demo_play(plan, fuse=sys.argv[3] == 'fuse', keep=Path(sys.argv[4]),"
    " say=lambda text: print(text, file=sys.stderr, flush=True));"
    "sys.stdout.buffer.write(msgspec.json.encode(o))"
)
WAYS = [pytest.param("fuse", marks=pytest.mark.fuse), "library"]


def _left(folder: Path) -> list[str]:
    """Processes and mounts that still have to do with a folder."""
    found = [one.path for one in read_mount_table() if one.path.startswith(str(folder))]
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in command:
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def _nothing_left(folder: Path) -> None:
    end = monotonic_s() + DEADLINE_S
    while left := _left(folder):
        assert monotonic_s() < end, left
        sleep_s(0.1)


@pytest.mark.parametrize("way", WAYS)
def test_a_short_play_sees_every_layer_and_leaves_nothing(way: str, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    done = subprocess.run(
        [sys.executable, "-c", _SHORT, "3", "5", way, str(keep)], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    outcome = json.loads(done.stdout)
    assert set(outcome["judged"]) == {"slow_target", "disturber"}
    assert {path["job_id"] for path in outcome["paths"]} >= {"4101", "4102", "4103"}
    for path in outcome["paths"]:
        if path["job_id"] in outcome["saw"]:
            saw = outcome["saw"][path["job_id"]]
            assert path["client"]["bytes_written"] == saw["bytes_written"] > 0
            assert path["client"]["bytes_read"] == saw["bytes_read"]
            assert sum(one["requests"] for one in path["forwarders"]) > 0
            assert saw["differences"] == []
    assert [one["name"] for one in outcome["charts"]["targets"]] == ["t0", "t1", "t2", "t3"]
    assert sum(sum(one["bytes"]) for one in outcome["charts"]["targets"]) > 1 << 20
    _nothing_left(keep)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_in_the_middle_it_leaves_no_process_and_no_mount(
    way: str, number: signal.Signals, tmp_path: Path
) -> None:
    keep, log = tmp_path / "kept", tmp_path / "log"
    sockets = Path(tempfile.mkdtemp(prefix="fl"))  # killed, it cannot remove the folder of its sockets
    with log.open("wb") as talk:
        process = subprocess.Popen(
            [sys.executable, "-c", _SHORT, "3", "60", way, str(keep)],
            stdout=subprocess.DEVNULL,
            stderr=talk,
            env={**os.environ, "TMPDIR": str(sockets)},
        )
    try:
        end = monotonic_s() + DEADLINE_S
        while b"three jobs run" not in log.read_bytes():
            assert process.poll() is None, log.read_text()
            assert monotonic_s() < end, log.read_text()
            sleep_s(0.05)
        assert _left(keep)
        process.send_signal(number)
        assert process.wait(DEADLINE_S) != 0
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(sockets, ignore_errors=True)
    _nothing_left(keep)


def test_a_killed_forwarder_ends_the_play_with_an_error(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    killer = (
        "import os, signal, threading; from fairlead.kit.demo import stage;"
        "build = stage.Stage.build\n"
        "def built(self):\n"
        "    build(self)\n"
        "    child = next(one for one in self.children._all if one.name == 'f0')\n"
        "    os.kill(child.process.pid, signal.SIGKILL)\n"
        "stage.Stage.build = built\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", killer + _SHORT, "3", "5", "library", str(keep)],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode != 0
    assert b"ForwardingError" in done.stderr
    _nothing_left(keep)


def test_the_command_prints_a_verdict_and_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "demo", "--seed", "4", "--no-fuse", "--json", "--html", str(page)],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    outcome = json.loads(done.stdout)
    assert outcome["schema"] == "fairlead.demo/1"
    assert outcome["seed"] == 4
    assert outcome["judgement"]["verdicts"] or outcome["judgement"]["nobody"]
    assert outcome["lost_without_fuse"]
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert outcome["told"] in text
    assert b"page:" not in done.stdout


@pytest.mark.slow
@pytest.mark.fuse
@pytest.mark.timeout(1500)
def test_twenty_seeds_are_judged_right() -> None:
    script = Path(__file__).resolve().parents[3] / "benchmarks" / "demo_seeds.py"
    done = subprocess.run([sys.executable, str(script), "--no-history"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
