"""Simulated devices: a tree whose operations take a stated time, so that experiments contend for workers, not the CPU.

A stated time is slept (no thread holds the interpreter meanwhile); the operation itself is done on the real tree. Its
name and its `describe` say that the device is simulated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from fairlead.core.clock import monotonic_ns, sleep_s
from fairlead.core.errors import ConfigError, ForwardingError
from fairlead.core.model.unit_formats import format_bandwidth, format_duration

if TYPE_CHECKING:
    from fairlead.steer.fs.trees.base import FileTree, OpenFile

METADATA = frozenset(
    (
        "lookup",
        "stat",
        "change",
        "readlink",
        "create",
        "open",
        "create_temporary",
        "mkdir",
        "mknod",
        "symlink",
        "link",
        "unlink",
        "rmdir",
        "rename",
        "list_entries",
        "statfs",
        "get_attribute",
        "set_attribute",
        "attribute_names",
        "remove_attribute",
        "access",
        "reopen",
    )
)
"""Operations of a tree that take the device's `metadata` time."""
OPENING = {"create": 2, "create_temporary": 2, "open": None, "reopen": None}
"""Operations that give an open file: its place in a tuple, None where it is the whole result."""
_UNITS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")


@dataclass(frozen=True, slots=True)
class Timing:
    """What a simulated device takes. Operations run beside each other; `bandwidth` is shared by all of them."""

    metadata_ns: int = 0
    read_ns: int = 0
    write_ns: int = 0
    sync_ns: int = 0
    bandwidth: float = 0.0
    """Bytes a second of the whole device, 0 for no limit."""

    def describe(self) -> str:
        """`simulated device: metadata 2 ms, read 8 ms, 100 MB/s`."""
        times = {"metadata": self.metadata_ns, "read": self.read_ns, "write": self.write_ns, "sync": self.sync_ns}
        parts = [f"{name} {format_duration(ns / 1e9)}" for name, ns in times.items() if ns]
        if self.bandwidth:
            parts.append(format_bandwidth(self.bandwidth, decimal=True))
        return f"simulated device: {', '.join(parts) or 'takes no time'}"


def parse_device_timing(text: str) -> Timing:
    """From `metadata=2ms,read=8ms,write=8ms,sync=20ms,bandwidth=100M`. ConfigError names the part that is wrong."""
    from fairlead.decide.policies.requests.discipline_spec import parse_discipline_rate

    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name == "bandwidth":
            values[name] = parse_discipline_rate(value, f"{part!r} in {text!r}").per_s
            continue
        match = _DURATION.fullmatch(value)
        if name not in ("metadata", "read", "write", "sync") or match is None:
            raise ConfigError(
                f"{part!r} is no time of a simulated device",
                where=repr(text),
                remedy="metadata, read, write and sync take a time as 500us, 2ms or 1s, bandwidth takes bytes a second",
            )
        values[f"{name}_ns"] = int(float(match[1]) * _UNITS[match[2]])
    return Timing(**values)


def open_slow_tree(rest: str) -> FileTree:
    """The tree `slow:REST` names, for experiments: `metadata=2ms,read=8ms,bandwidth=100M:DIR`."""
    from fairlead.steer.fs.trees.open_tree import open_export

    times, colon, behind = rest.partition(":")
    if not colon:
        raise ForwardingError(
            "no tree behind the simulated device", where=f"slow:{rest}", remedy="write slow:read=8ms:DIR"
        )
    return wrap_simulated_device(open_export(behind), parse_device_timing(times))


class Device:
    """The time operations take, and the bandwidth they share: one begins when what came before has been moved."""

    def __init__(self, times: Timing) -> None:
        self.times = times
        self.operations = 0
        self.bytes = 0
        self._free_ns = 0
        self._lock = Lock()

    def reserve_until(self, size: int, began_ns: int) -> int:
        """Reserves the device for that many bytes; when they have been moved."""
        with self._lock:
            self.operations += 1
            self.bytes += size
            if not self.times.bandwidth:
                return began_ns
            self._free_ns = max(self._free_ns, began_ns) + int(size * 1e9 / self.times.bandwidth)
            return self._free_ns


def _sleep_until(when_ns: int) -> None:
    left = when_ns - monotonic_ns()
    if left > 0:
        sleep_s(left / 1e9)


class SimulatedDeviceFile:
    """An open file on a simulated device. What is not timed is the real file's."""

    descriptor: int | None = None  # never passed on: nothing may go past the device

    def __init__(self, file: OpenFile, device: Device) -> None:
        self.real = file
        self.node, self.flags = file.node, file.flags
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Takes `read` and the bandwidth of what was read."""
        began = monotonic_ns()
        count = self.real.read_into(buffer, offset)
        times = self._device.times
        _sleep_until(max(began + times.read_ns, self._device.reserve_until(count, began)))
        return count

    def write_from(self, buffer: memoryview, offset: int) -> int:
        """Takes `write` and the bandwidth of what was written."""
        began = monotonic_ns()
        count = self.real.write_from(buffer, offset)
        times = self._device.times
        _sleep_until(max(began + times.write_ns, self._device.reserve_until(count, began)))
        return count

    def sync(self, data_only: bool) -> None:
        """Takes `sync`."""
        began = monotonic_ns()
        self.real.sync(data_only)
        _sleep_until(began + self._device.times.sync_ns)

    def stat(self) -> Any:
        """Takes `metadata`, as every question to a metadata server."""
        began = monotonic_ns()
        found = self.real.stat()
        _sleep_until(began + self._device.times.metadata_ns)
        return found

    def copy_to(self, offset: int, other: OpenFile, other_offset: int, length: int) -> int:
        """Takes `write` and the bandwidth of what was copied."""
        began = monotonic_ns()
        real = other.real if isinstance(other, SimulatedDeviceFile) else other
        count = self.real.copy_to(offset, real, other_offset, length)
        _sleep_until(max(began + self._device.times.write_ns, self._device.reserve_until(count, began)))
        return count


class SimulatedDeviceTree:
    """A tree on a simulated device. What is not timed is the real tree's."""

    def __init__(self, tree: FileTree, device: Device) -> None:
        self.real = tree
        self.device = device
        self.name = f"{tree.name} ({device.times.describe()})"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name in METADATA:
            found = self._timed(name, found)
            setattr(self, name, found)  # looked up once
        return found

    def _timed(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        device = self.device

        def timed(*arguments: Any) -> Any:
            began = monotonic_ns()
            try:
                found = operation(*arguments)
            finally:
                _sleep_until(began + device.times.metadata_ns)
            if name not in OPENING:
                return found
            place = OPENING[name]
            if place is None:
                return SimulatedDeviceFile(found, device)
            return *found[:place], SimulatedDeviceFile(found[place], device)

        def changed(node: int, change: Any, file: Any) -> Any:
            return timed(node, change, file.real if isinstance(file, SimulatedDeviceFile) else file)

        return changed if name == "change" else timed


def wrap_simulated_device(tree: FileTree, times: Timing) -> FileTree:
    """The tree on a simulated device."""
    return cast("FileTree", SimulatedDeviceTree(tree, Device(times)))
