"""What a watched application loses: all of monitoring on and off in alternating slices of IOR-like runs, one table.

On: mount and forwarder record, an agent ships their spool and the node's counters once a second, a server takes it in
beside them on the same machine (a site's stands elsewhere). Off: records off, agent and server stopped (SIGSTOP).

`python benchmarks/watching_cost.py [--quick] [--slices N] [--seconds S] [--no-history]`. Ends with 1 when the mean loss
of a load is 1 % or more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import _history
from _endpoint import Server, server
from _plane import Contender, forwarded
from tracing_cost import Cost, cost_of, measure, record

LOADS = ("write 1 MiB", "read 1 MiB")
LIMIT = 0.01


def watched(to: Server, work: Path) -> subprocess.Popen[bytes]:
    """An agent of this node that also ships the spool of the mount and its forwarder."""
    (work / "agent.token").write_text(to.token)
    (work / "agent.token").chmod(0o600)
    log = (work / "agent.log").open("wb")
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fairlead",
            "agent",
            "run",
            "--server",
            f"http://127.0.0.1:{to.port}",
            "--token",
            str(work / "agent.token"),
            "--spool",
            str(work / "agent"),
            "--spools",
            str(work / "spool"),
            "--ship-s",
            "2",
        ],
        stdout=log,
        stderr=log,
    )


def switch(on: bool, contender: Contender, others: list[int]) -> None:
    """Everything on, or off."""
    record(contender, contender.folder(0), on=on)
    for pid in others:
        os.kill(pid, signal.SIGCONT if on else signal.SIGSTOP)


def main() -> int:
    """Runs, prints the table, adds a line to the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few short slices: whether it works, not what it costs")
    parser.add_argument("--slices", type=int, default=240)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a slice")
    parser.add_argument("--no-history", action="store_true")
    options = parser.parse_args()
    slices, seconds = (10, 0.2) if options.quick else (options.slices, options.seconds)
    work = Path(tempfile.mkdtemp(prefix="fairlead-watching-", dir="/dev/shm"))
    costs: dict[str, Cost] = {}
    rows = 0
    try:
        (work / "source").mkdir()
        (work / "server").mkdir()
        with server(work / "server") as to:
            contender = forwarded(work / "source", work, tcp=False)
            agent = watched(to, work)
            others = [agent.pid, *to.pids.values()]
            try:
                for kind in LOADS:
                    found = measure(
                        kind, contender, contender.folder(0), slices, seconds, lambda on: switch(on, contender, others)
                    )
                    costs[kind] = cost_of(found)
            finally:
                for pid in others:
                    os.kill(pid, signal.SIGCONT)
                contender.stop()
                agent.terminate()
                agent.wait(30)
        rows = taken(to.lake)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"all of monitoring on against off, {slices} slices of {seconds} s; rows taken in: {rows:,}")
    print(f"{'load':<16}{'MiB/s':>10}{'lost':>9}{'95 % interval':>20}{'limit':>8}")
    for kind, cost in costs.items():
        interval = f"{cost.low:+.2%} … {cost.high:+.2%}"
        print(f"{kind:<16}{cost.rate:>10,.0f}{cost.lost:>9.2%}{interval:>20}{'< 1 %':>8}")
    if not options.quick and not options.no_history:
        figures = {kind: {name: round(one, 6) for name, one in vars(cost).items()} for kind, cost in costs.items()}
        _history.append("watching_cost", {"slices": slices, "slice_s": seconds, "rows": rows, "loads": figures})
    assert rows, "nothing was recorded: the comparison would be of nothing with nothing"
    return 0 if options.quick or all(cost.lost < LIMIT for cost in costs.values()) else 1


def taken(lake: Path) -> int:
    """Rows of `ops` that arrived."""
    from fairlead.store.lake import Lake

    return int(Lake.open(lake).query("SELECT count(*) AS n FROM ops").column("n")[0].as_py())


if __name__ == "__main__":
    sys.exit(main())
