"""What the node agent costs its node: peak memory and CPU of fairlead-agent.pyz on a tree of Lustre counters, over TLS.

Run: `python benchmarks/agent_cost.py [--quick] [--seconds N] [--root DIR] [--probes LIST] [--no-history]`. The
agent runs at its own periods (1 s for most) and sends to a TLS server in this process; its cost is read from /proc.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _history import append
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "tests" / "support")]

from agent import build  # noqa: E402

from agent_server import Collector, certificate  # noqa: E402
from old_interpreter import old_python  # noqa: E402

SHARED = Path(os.environ.get("FAIRLEAD_SHARED_DATA", HERE.parents[1] / "shared" / "data"))
TREE = SHARED / "lustre" / "gsi-lustre_exporter"
SECONDS, QUICK = 120, 20
TICKS = os.sysconf("SC_CLK_TCK")
LIMIT_MIB, LIMIT_PERCENT = 28.0, 0.5


def interpreters() -> list[str]:
    """This Python's base, and 3.6 where it is found."""
    base = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
    found = [base if Path(base).exists() else sys.executable]
    old = old_python()
    return [*found, old] if old else found


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid: int, name: str) -> float:
    """A figure of /proc/PID/status in MiB."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def bare_mib(python: str) -> float:
    """Peak memory of the interpreter with nothing in it."""
    program = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')][0])"
    return int(subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout) / 1024


def measure(python: str, agent: Path, root: Path, probes: str, seconds: int) -> dict[str, object]:
    """One agent for so many seconds after its first five."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chain, key = certificate(folder)
        (folder / "token").write_text("secret\n")
        (folder / "token").chmod(0o600)
        collector = Collector(tls=(chain, key), keep=False)
        command = [
            python,
            str(agent),
            "--server",
            collector.url,
            "--token",
            str(folder / "token"),
            "--ca",
            str(chain),
            "--spool",
            str(folder / "spool"),
            "--root",
            str(root),
            "--node",
            "n1",
            "--probes",
            probes,
            "--quiet",
        ]
        child = subprocess.Popen(command, env={**os.environ, "MALLOC_ARENA_MAX": "1"}, start_new_session=True)
        try:
            time.sleep(5)
            start_s = cpu_s(child.pid)
            before, began = start_s, time.monotonic()
            time.sleep(seconds)
            used, wall = cpu_s(child.pid) - before, time.monotonic() - began
            figures: dict[str, object] = {
                "rss_peak_mib": round(memory_mib(child.pid, "VmHWM"), 1),
                "rss_mib": round(memory_mib(child.pid, "VmRSS"), 1),
                "cpu_percent": round(100 * used / wall, 2),
                "start_cpu_s": round(start_s, 2),
            }
            child.send_signal(signal.SIGTERM)
            figures["exit"] = child.wait(20)
        finally:
            child.kill()
            child.wait()
            collector.close()
        figures |= {
            "posts": collector.posts,
            "batches": collector.batches,
            "bytes_sent": collector.bytes,
            "bare_mib": round(bare_mib(python), 1),
        }
        return figures


def main() -> int:
    """Measure under each interpreter, print one table; 1 when a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} s instead of {SECONDS}, no history")
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--root", type=Path, default=TREE)
    parser.add_argument("--probes", default="lustre-client,lustre-oss,lustre-mds,lustre-states,lustre-lnet")
    parser.add_argument("--no-history", action="store_true")
    arguments = parser.parse_args()
    seconds = arguments.seconds or (QUICK if arguments.quick else SECONDS)
    if not arguments.root.is_dir():
        print(f"no tree of counters at {arguments.root}: give one with --root")
        return 0
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        agent = build(Path(folder) / "fairlead-agent.pyz")
        for python in interpreters():
            version = subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout.split()[1]
            found[version] = measure(python, agent, arguments.root, arguments.probes, seconds)
    table = Table("figure", *found, "limit", title=f"the agent at 1 Hz for {seconds} s, TLS", title_justify="left")
    limits = {"rss_peak_mib": LIMIT_MIB, "cpu_percent": LIMIT_PERCENT}
    for name in next(iter(found.values())):
        table.add_row(name, *(str(one[name]) for one in found.values()), str(limits.get(name, "")))
    Console(width=100).print(table)
    if not arguments.quick and not arguments.no_history:
        append("agent_cost", {"seconds": seconds, **{f"python {version}": one for version, one in found.items()}})
    within = all(float(str(one[name])) <= limit for one in found.values() for name, limit in limits.items())
    return 0 if within and all(one["exit"] == 0 for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
