"""The process that goes on sending what the sample site's agents would send, through its collector, second by second.

`python -m fairlead.kit.sample.live_tail`, started by `site`. What lies between the filling and now is sent at
once. Not here: what is sent (`month_records`), sending (`testing.machine.live_play`).
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import msgspec

from fairlead.core import clock
from fairlead.core.errors import FairleadError
from fairlead.run.child_process import end_child_process_with_parent

EVERY_S = 5
NS = 1_000_000_000
log = logging.getLogger("fairlead.sample")


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent from `from_ns` on, and where the server's state lies."""

    state: str
    origin_ns: int
    seed: int
    days: int
    jobs_a_day: float
    from_ns: int
    parent: int


class _Address(msgspec.Struct):
    collector: list[str]


def _send(task: Tail) -> None:
    """Sends until the month's days ahead are over. Raises FairleadError."""
    from fairlead.kit.sample.month import build_sample_month
    from fairlead.kit.sample.month_records import build_month_feed_records, is_silent_in_month
    from fairlead.kit.testing.machine import live_play

    site = build_sample_month(task.origin_ns, task.seed, days=task.days, jobs_a_day=task.jobs_a_day)
    _ = site.play.course
    state = Path(task.state)
    line = live_play.connect_live_line(_server(state), str(state / "agent.token"), "", clock.now_ns)
    begin = (task.from_ns - task.origin_ns) // NS
    for _told in live_play.send_live_play(
        site.play,
        line,
        every_s=EVERY_S,
        now_ns=clock.now_ns,
        sleep_s=clock.sleep_s,
        from_s=begin,
        heard=lambda node, at_s: not is_silent_in_month(site, node, at_s),
        besides=lambda begin, end: build_month_feed_records(site, begin, end),
    ):
        pass
    log.warning("the sample site's days are over: start it again, and it is filled anew")


def _server(state: Path) -> str:
    """Where the server takes records, when it does."""
    while True:
        try:
            told = msgspec.json.decode((state / "addresses.json").read_bytes(), type=_Address)
        except (OSError, msgspec.DecodeError):
            told = _Address([])
        for address in told.collector:
            if address.startswith("tcp:"):
                return f"http://{address.removeprefix('tcp:')}"
        clock.sleep_s(0.2)


def run_live_tail() -> int:
    """Reads a `Tail` on stdin."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Tail)
    end_child_process_with_parent(task.parent)
    logging.basicConfig(format="sample site: %(message)s", level=logging.INFO, stream=sys.stderr)
    if task.parent != os.getppid():
        return 0
    try:
        _send(task)
    except FairleadError as error:
        sys.stderr.write(f"sample site: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(run_live_tail())
