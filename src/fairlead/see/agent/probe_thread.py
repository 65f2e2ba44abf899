"""Who runs the probes: one thread, given up with its probe when that hangs. Not here: when they run (`loop`).

A thread that hangs in the kernel cannot be ended. It is left to itself, its probe is `late` and is not run again until
the thread comes back; another thread goes on with the rest. So there are never more threads than probes, and one.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import Callable, Deque, List, NamedTuple, Optional

from fairlead.see.probes.base import AbsentError, Probe, ProbeResult

OK, MISSING, FAILING, LATE = "ok", "missing", "failing", "late"
_STACK_BYTES = 512 << 10


class Outcome(NamedTuple):
    """What one run of a probe came to. `found` is None unless `state` is ok."""

    name: str
    state: str
    found: Optional[ProbeResult]
    text: str
    busy_ns: int
    at_ns: int
    """When it was begun, monotonic."""
    wall_ns: int


class _Task(NamedTuple):
    name: str
    probe: Probe
    timeout_ns: int


class _Hand:
    """A thread's side: what it does now. Written by the thread, read by the crew."""

    def __init__(self) -> None:
        self.task: Optional[_Task] = None
        self.since_ns = 0
        self.given_up = False


def run_probe_in_thread(name: str, probe: Probe, mono: Callable[[], int], wall: Callable[[], int]) -> Outcome:
    """One run of a probe, in this thread."""
    began, now = mono(), wall()
    state, found, text = OK, None, ""
    try:
        found = probe.read(now)
    except AbsentError as absent:
        state, text = MISSING, str(absent)
    except (OSError, MemoryError) as fault:
        state, text = FAILING, str(fault) or type(fault).__name__
    except Exception as defect:  # noqa: BLE001  (one probe's defect is told and must not end the others)
        state, text = FAILING, "defect: {}: {}".format(type(defect).__name__, defect)
    return Outcome(name, state, found, text[:300], mono() - began, began, now)


class Runs(ABC):
    """What runs probes. A `Crew`; tests run them at once."""

    stuck: List[str]
    """Probes whose thread has not come back."""

    @abstractmethod
    def start(self, name: str, probe: Probe) -> None:
        """Runs it as soon as can be."""

    @abstractmethod
    def collect(self, now_ns: int) -> List[Outcome]:
        """What was done since."""

    @abstractmethod
    def compute_deadline_ns(self) -> Optional[int]:
        """When what runs now becomes late."""


def _late(outcome: Outcome) -> Outcome:
    """What counters were is of a time long past, and the next look loses nothing of them; events are kept."""
    found = None if outcome.found is None else outcome.found._replace(readings=[])
    return outcome._replace(state=LATE, found=found, text="came back")


class Crew(Runs):
    """Runs probes for one caller, who is woken through `wake_fd` and collects what came of them."""

    def __init__(self, mono: Callable[[], int], wall: Callable[[], int]) -> None:
        self._mono = mono
        self._wall = wall
        self._lock = threading.Condition()
        self._tasks: Deque[_Task] = deque()
        self._done: Deque[Outcome] = deque()
        self._hand: Optional[_Hand] = None
        self._ended = False
        self.stuck = []
        self.wake_fd, self._wake = os.pipe()
        for descriptor in (self.wake_fd, self._wake):
            os.set_blocking(descriptor, False)

    def start(self, name: str, probe: Probe) -> None:
        """Runs a probe as soon as those before it are done."""
        with self._lock:
            self._tasks.append(_Task(name, probe, int(probe.timeout_s * 1e9)))
            self._lock.notify()
        if self._hand is None:
            self._hire()

    def collect(self, now_ns: int) -> List[Outcome]:
        """What was done since; a probe that takes longer than it may is `late`, once."""
        done = []
        while self._done:
            outcome = self._done.popleft()
            if outcome.name in self.stuck:
                self.stuck.remove(outcome.name)
            done.append(outcome)
        with self._lock:
            hand = self._hand
            task = None if hand is None else hand.task
            late = hand is not None and task is not None and now_ns - hand.since_ns > task.timeout_ns
            if late and hand is not None:
                hand.given_up = True
                self._hand = None
            more = bool(self._tasks)
        if late and hand is not None and task is not None:
            self.stuck.append(task.name)
            text = "no response within {:g} s".format(task.timeout_ns / 1e9)
            done.append(Outcome(task.name, LATE, None, text, now_ns - hand.since_ns, hand.since_ns, self._wall()))
            if more:
                self._hire()
        return done

    def compute_deadline_ns(self) -> Optional[int]:
        """When what runs now becomes late."""
        hand = self._hand
        task = None if hand is None else hand.task
        return None if hand is None or task is None else hand.since_ns + task.timeout_ns + 1

    def end(self) -> None:
        """The thread ends when it comes back; nothing is run any more."""
        with self._lock:
            self._tasks.clear()
            hand, self._hand = self._hand, None
            if hand is not None:
                hand.given_up = True
            self._lock.notify_all()
            self._ended = True
            os.close(self.wake_fd)
            os.close(self._wake)

    def rouse(self) -> None:
        """Wakes the caller. By any thread."""
        with self._lock, suppress(BlockingIOError):  # it is awake
            if not self._ended:
                os.write(self._wake, b".")

    def _hire(self) -> None:
        self._hand = _Hand()
        threading.stack_size(_STACK_BYTES)
        threading.Thread(target=self._work, args=(self._hand,), name="probes", daemon=True).start()
        threading.stack_size(0)

    def _work(self, hand: _Hand) -> None:
        while True:
            with self._lock:
                while not self._tasks and not hand.given_up:
                    self._lock.wait()
                if hand.given_up:
                    return
                hand.since_ns = self._mono()
                task = hand.task = self._tasks.popleft()
            outcome = run_probe_in_thread(task.name, task.probe, self._mono, self._wall)
            with self._lock:
                hand.task = None
                given_up = hand.given_up
                self._done.append(_late(outcome) if given_up else outcome)
                idle = not self._tasks
            if idle or given_up:
                self.rouse()
            if given_up:
                return
