"""Targets whose device takes its time: each request is held as long as a simulated disk would serve it.

How many times slower than usual each device serves is written in a file, which may change while the forwarder runs:
that is how the demo slows a target. The bytes are really written. Not here: how slow and when (`plan`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead.core.clock import monotonic_ns, sleep_s
from fairlead.steer.targets import config as configured
from fairlead.steer.targets.objects import Target
from fairlead.steer.targets.tree import TargetsTree

RATE = 40 << 20
"""Bytes a second that a request gets from a device."""
OVERHEAD_NS = 2_000_000
"""What every request takes whatever its size, as a seek does."""
CHANGE_S = 0.004
"""What each change of metadata takes, as a journal's write does."""
_LOOK_EVERY_NS = 50_000_000


class Pace:
    """How many times slower each target is, from a JSON file that is looked at again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked_ns = 0
        self._stamp = (0, 0)
        self._times: dict[str, float] = {}

    def read_times(self, target: str) -> float:
        """How many times slower now; KeyError for a target the file does not name."""
        now = monotonic_ns()
        if now - self._looked_ns > _LOOK_EVERY_NS or not self._times:
            self._looked_ns = now
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._times = json.loads(self._path.read_bytes())
                self._stamp = stamp
        return self._times[target]


def write_device_pace(path: Path, times: dict[str, float]) -> None:
    """Sets how many times slower the targets are, at once for whoever looks."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(times), encoding="utf-8")
    beside.replace(path)


class SimulatedTarget(Target):
    """A target that answers when its device would have."""

    def __init__(self, described: configured.Target, pace: Pace) -> None:
        super().__init__(described)
        self._pace = pace

    def count_request(self, size: int, wrote: bool, began_ns: int) -> None:
        """Holds the request for the rest of its device time, then counts it."""
        usual_ns = OVERHEAD_NS + size * 1e9 / RATE
        ends_ns = began_ns + int(usual_ns * self._pace.read_times(self.name))
        rest = ends_ns - monotonic_ns()
        if rest > 0:
            sleep_s(rest / 1e9)
        super().count_request(size, wrote, began_ns)


def simulate_demo_devices(tree: TargetsTree, targets_file: str, pace: Path) -> None:
    """Gives every target of an opened tree a simulated device, and its metadata one too."""
    found = Pace(pace)
    for described in configured.read_config(targets_file).targets:
        tree.targets.by_name[described.name] = SimulatedTarget(described, found)
    change = tree.store.write

    def slowly(*args: Any, **kwargs: Any) -> Any:
        sleep_s(CHANGE_S)
        return change(*args, **kwargs)

    tree.store.write = slowly  # type: ignore[method-assign]
