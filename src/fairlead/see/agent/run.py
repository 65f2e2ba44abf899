"""The agent as a process: signals, threads, the clocks, a clean end. Not here: what it does (`loop`, `spool_sender`).

Three threads at most do something: this one, one that runs probes, one that sends.
"""

import gc
import os
import random
import select
import signal
import sys
import threading
import time
from typing import Any, List, Optional, Sequence

import fairlead
from fairlead.core.batches.spool import DRAFT, ENDING, Spool, count_spool_batches, read_spool_clock_ns
from fairlead.see.agent import probe_names
from fairlead.see.agent.connection import build_agent_connection
from fairlead.see.agent.health import SenderHealth, measure_agent_health_cost
from fairlead.see.agent.loop import Watch
from fairlead.see.agent.probe_thread import Crew
from fairlead.see.agent.settings import HELP, SettingError, Settings, parse_agent_settings
from fairlead.see.agent.spool_sender import Shipper

FLUSH_FILE = "flush"
"""In the spool: made by `flush`, seen by the agent within a second."""
LAST_S = 5.0
"""How long the last shipment may take at the end."""
USAGE, CONFIG, SPOOL = 2, 5, 8
"""Exit codes (docs/reference/exit-codes.md)."""
_ONCE_NS, _LONGEST_ONCE_NS = 10**9, 30 * 10**9
_NEWEST = 64
_STALE_NS = 60 * 10**9


def _read_mono_ns() -> int:
    """Monotonic nanoseconds, for Python 3.6."""
    return int(time.monotonic() * 1e9)


def _print_error(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write("fairlead agent: {}\n".format(text))
    sys.stderr.flush()


class Sending:
    """The thread that sends."""

    def __init__(self, shipper: Shipper) -> None:
        self.shipper = shipper
        self._wake = threading.Event()
        self._last = False
        self._thread = threading.Thread(target=self._work, name="sending", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    def _work(self) -> None:
        while True:
            last = self._last
            now = _read_mono_ns()
            try:
                again = self.shipper.step(now)
            except Exception as defect:  # noqa: BLE001  (a thread that ends would be silence for ever)
                again = self.shipper.record_defect(now, defect)
            if again <= now:
                continue  # there is more
            if last:
                self.shipper.close()
                return
            if not self._last:
                self._wake.wait(min(max(again - _read_mono_ns(), 0) / 1e9 + 0.001, 60.0))
                self._wake.clear()

    def end(self, within_s: float) -> bool:
        """One more attempt at everything; whether it was over in time."""
        self._last = True
        self.shipper.hurry()
        self._wake.set()
        self._thread.join(within_s)
        return not self._thread.is_alive()


class Agent:
    """A running agent."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingError; OSError when the spool cannot be written."""
        self.settings = settings
        probes = probe_names.make_named_probes(settings.probes, settings.root, settings.node, settings.probe)
        self.spool = Spool(
            settings.spool,
            node=settings.node,
            writer="agent",
            layer="agent",
            max_bytes=settings.spool_bytes,
            sync=settings.sync,
        )
        broken = _sweep_spool(settings.spool)
        self.crew = Crew(_read_mono_ns, read_spool_clock_ns)
        self.sending: Optional[Sending] = None
        if settings.server:
            self.sending = Sending(_build_shipper(settings))
        self._flush_file = os.path.join(settings.spool, FLUSH_FILE)
        self.watch = Watch(
            settings,
            probes,
            self.crew,
            self.spool,
            mono_ns=_read_mono_ns(),
            wall_ns=read_spool_clock_ns(),
            told=self._told,
            cost=measure_agent_health_cost,
            wrote=self._wrote,
            pushed=self._pushed,
        )
        if broken:
            text = "{} truncated files in the spool (power loss?) were removed: {}"
            self.watch.record_event(
                read_spool_clock_ns(), "spool_broken", text.format(len(broken), ", ".join(broken[:3]))
            )

    def _told(self) -> SenderHealth:
        return self.sending.shipper.get_health() if self.sending is not None else SenderHealth()

    def _wrote(self) -> None:
        if self.sending is not None:
            self.sending.wake()

    def run_until(self, end: "Ending") -> None:
        """Runs until it is told to end, or with `once` until everything was looked at twice."""
        began = _read_mono_ns()
        while not end.wanted:
            now = _read_mono_ns()
            if end.flush or self._is_flush_wanted():
                end.flush = False
                self.watch.push(now)
            again = self.watch.step(now, read_spool_clock_ns())
            if self.sending is not None:
                self.sending.shipper.cut_overdue(now)
            if self.settings.once and now - began >= _ONCE_NS:
                if self.watch.looked_twice or now - began >= _LONGEST_ONCE_NS:
                    return
                again = min(again, now + _ONCE_NS // 20)
            self._sleep(again, end)

    def _pushed(self) -> None:
        if self.sending is not None:
            self.sending.shipper.follow(_read_mono_ns())

    def _is_flush_wanted(self) -> bool:
        """Whether `fairlead agent flush` left its file; it is removed."""
        try:
            os.unlink(self._flush_file)
        except OSError:
            return False
        return True

    def _sleep(self, until_ns: int, end: "Ending") -> None:
        """Until then, or a signal, or a probe is done."""
        wait = max(until_ns - _read_mono_ns(), 0) / 1e9
        ready, _, _ = select.select([self.crew.wake_fd, end.wake_fd], [], [], min(wait + 0.0005, 60.0))
        for descriptor in ready:
            os.read(descriptor, 512)

    def end(self, within_s: float) -> None:
        """Everything is in the spool, and one more attempt was made to send it, when it returns."""
        self.watch.finish(_read_mono_ns(), read_spool_clock_ns())
        if self.sending is not None:
            self.sending.end(within_s)
        self.crew.end()


class Ending:
    """Signals become flags, and a byte that wakes the loop."""

    def __init__(self) -> None:
        self.wanted = False
        self.again = False
        """Read the settings anew and begin again."""
        self.flush = False
        """Send everything now."""
        self.wake_fd, wake = os.pipe()
        for descriptor in (self.wake_fd, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._reload)
        signal.signal(signal.SIGUSR1, self._flush)

    def _end(self, *_: Any) -> None:
        self.wanted, self.again = True, False

    def _flush(self, *_: Any) -> None:
        self.flush = True

    def _reload(self, *_: Any) -> None:
        if not self.wanted:
            self.wanted = self.again = True


def _build_shipper(settings: Settings) -> Shipper:
    """What sends to the server of the settings."""
    line = build_agent_connection(settings)
    return Shipper(settings.spool, settings.spools, line, draw=random.SystemRandom().random, poll_s=settings.ship_s)


def _sweep_spool(folder: str) -> List[str]:
    """Removes drafts of agents that were killed, and files that are not whole: a loss of power may leave some of the
    newest cut off. Returns the names of those."""
    broken = []
    names = sorted(os.listdir(folder))
    for name in names:
        path = os.path.join(folder, name)
        if name[0] == "." and name.endswith(DRAFT) and read_spool_clock_ns() - os.stat(path).st_mtime_ns > _STALE_NS:
            os.unlink(path)
    for name in [name for name in names if name.endswith(ENDING)][-_NEWEST:]:
        path = os.path.join(folder, name)
        count, whole = count_spool_batches(path)
        if not count or not whole:
            os.unlink(path)
            broken.append(name)
    return broken


def run_agent(arguments: Optional[Sequence[str]] = None) -> int:
    """The program; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--help" in words or "-h" in words:
        sys.stdout.write(HELP)
        return 0
    if "--version" in words:
        sys.stdout.write("fairlead-agent {}\n".format(fairlead.__version__))
        return 0
    flush = words[:1] == ["flush"]
    try:
        settings = parse_agent_settings(words[flush:])
    except SettingError as fault:
        _print_error(str(fault))
        return USAGE
    if flush:
        return _ask_for_flush(settings)
    if settings.check:
        from fairlead.see.agent.self_check import run_self_check

        return run_self_check(settings, sys.stdout.write)
    return _serve(settings, words)


def _ask_for_flush(settings: Settings) -> int:
    """Tells the agent that runs with these settings to read and send everything now."""
    path = os.path.join(settings.spool, FLUSH_FILE)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as fault:
        _print_error("{}: cannot be written: {}".format(path, fault.strerror or fault))
        return SPOOL
    return 0


def _serve(settings: Settings, words: Sequence[str]) -> int:
    ending = Ending()
    while True:
        try:
            agent = Agent(settings)
        except SettingError as fault:
            _print_error(str(fault))
            return CONFIG
        except OSError as fault:
            _print_error("{}: the spool cannot be written: {}".format(settings.spool, fault.strerror or fault))
            return SPOOL
        if not settings.quiet:
            names = [one.name for one in agent.watch.watched]
            _print_error("{} probes on {}, to {}".format(len(names), settings.node, settings.server or settings.spool))
        gc.collect()
        if hasattr(gc, "freeze"):
            gc.freeze()
        agent.run_until(ending)
        agent.end(LAST_S)
        if not ending.again:
            break
        ending.wanted = ending.again = False
        settings = _reloaded(settings, words)
    sys.stderr.flush()
    if threading.active_count() > 1:  # a thread that hangs in the kernel, or in an attempt to send, is not waited for
        sys.stdout.flush()
        os._exit(0)
    return 0


def _reloaded(settings: Settings, words: Sequence[str]) -> Settings:
    """The settings as the file says now; as they were when it cannot be used."""
    try:
        found = parse_agent_settings(words)
        probe_names.make_named_probes(found.probes, found.root, found.node, found.probe)
    except SettingError as fault:
        _print_error("{}; continuing as before".format(fault))
        return settings
    return found
