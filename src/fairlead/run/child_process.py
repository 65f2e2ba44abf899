"""One process of the server: `python -m fairlead.run.child_process`, told on stdin what it is. Ends with its parent.

It says on a pipe that it is ready, once a second that it lives, and why it ends. Not here: starting it (`supervisor`).
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import msgspec

from fairlead.core import clock
from fairlead.core.errors import FairleadError
from fairlead.core.safe_text import escape_text
from fairlead.run.config import Config, build_config_policy

_PR_SET_PDEATHSIG = 1


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is: `name` is collector, analysis or api; `sockets` are descriptors it inherits, with whether TLS is
    spoken there; `pulse` the descriptor it tells its parent on."""

    name: str
    config: Config
    sockets: list[tuple[int, bool]]
    pulse: int
    parent: int


class Pulse:
    """The pipe to the parent: lines `ready`, `beat`, `error TEXT`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    def tell(self, line: str) -> None:
        """One line. A parent that reads slowly or is gone is no reason to wait."""
        try:
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace")[:3000] + b"\n")
        except OSError:
            return

    def tell_ready(self) -> None:
        """Work has begun."""
        self.tell("ready")

    def tell_beat(self) -> None:
        """It lives."""
        self.tell("beat")


def end_child_process_with_parent(parent: int) -> None:
    """The kernel kills this process when its parent has ended, however that ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def run_child_process() -> int:
    """Runs one child to its end; returns its exit code."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    end_child_process_with_parent(task.parent)
    logging.basicConfig(format=f"{task.name}: %(message)s", level=logging.INFO, stream=sys.stderr)
    pulse = Pulse(task.pulse)
    try:
        {"collector": _collector, "analysis": _analysis, "api": _api}[task.name](task, pulse)
    except FairleadError as error:
        pulse.tell(f"error {escape_text(str(error).replace(chr(10), ' '))}")
        return error.exit_code
    except Exception as error:
        pulse.tell(f"error {type(error).__name__}: {escape_text(str(error))}")
        logging.getLogger("fairlead").exception("ended by a bug in fairlead")
        return 1
    return 0


def _sockets(task: Task) -> list[tuple[socket.socket, bool]]:
    return [(socket.socket(fileno=descriptor), tls) for descriptor, tls in task.sockets]


def _collector(task: Task, pulse: Pulse) -> None:
    from fairlead.see.collector.feeds import build_feeds
    from fairlead.see.collector.run import Order, run_collector

    config = task.config
    order = Order(
        lake=Path(config.server.lake),
        collector=config.collector,
        carry=config.carry,
        keep=build_config_policy(config.keep),
        feeds=lambda: build_feeds(config.feeds),
        token_key=Path(config.collector.token_key),
        memory=config.server.memory,
    )
    run_collector(order, _sockets(task), on_ready=pulse.tell_ready, on_beat=pulse.tell_beat)


def _analysis(task: Task, pulse: Pulse) -> None:
    from fairlead.explain.diagnosing.analysis_loop import run_analysis_loop
    from fairlead.run import alert_loop as alerting

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    worker = threading.Thread(target=_beating, args=(pulse, stop), daemon=True)
    worker.start()
    pulse.tell_ready()
    alerting.start_alert_loop(task.config, stop)
    run_analysis_loop(task.config, stop)
    stop.set()


def _beating(pulse: Pulse, stop: threading.Event) -> None:
    while not stop.wait(1.0):
        pulse.tell_beat()


def _api(task: Task, pulse: Pulse) -> None:
    from fairlead.core.access.tokens import read_token_key
    from fairlead.run.api_application import assemble_api_application
    from fairlead.see.collector.serving import serve_application
    from fairlead.store.lake import Lake

    config = task.config
    root = Path(config.server.lake)
    while not (root / "lake.toml").is_file():  # the collector makes it
        clock.sleep_s(0.1)
    key = read_token_key(Path(config.collector.token_key))
    lake = Lake.open(root, memory=config.server.memory, timeout_s=config.api.answer_s)
    made = assemble_api_application(config, key, lake)
    serve_application(made.app, config.collector, _sockets(task), on_ready=pulse.tell_ready, on_beat=pulse.tell_beat)
    made.close()


if __name__ == "__main__":
    sys.exit(run_child_process())
