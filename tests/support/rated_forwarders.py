"""Forwarders whose targets and metadata server give a stated rate in all, whoever asks: they are what jobs contend for.

Each device is one for all forwarders of a plane (they are processes of their own): when it is free next is in a file
they share. How many times slower a device serves is read from a file as in `demo.device`, so that a target can be
slowed while it works. The bytes are really written. Run as `python rated_forwarders.py`; it
takes what `demo.forwarder` takes, and the rates.
"""

from __future__ import annotations

import argparse
import fcntl
import mmap
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from fairlead.core.clock import monotonic_ns, sleep_s
from fairlead.core.errors import FairleadError
from fairlead.kit.demo.device import Pace
from fairlead.kit.demo.forwarder import DISCIPLINE
from fairlead.steer.forwarding.forwarder.run import Options, run_forwarder
from fairlead.steer.fs.trees.base import FileTree
from fairlead.steer.targets import config as configured
from fairlead.steer.targets.objects import Target
from fairlead.steer.targets.tree import open_tree

METADATA = "metadata"
_CELL = struct.Struct("<q")


class SharedDevices:
    """Devices by name, shared by every process that opens the same file: each serves one request after the other."""

    def __init__(self, path: Path, names: Sequence[str], pace: Pace) -> None:
        self._place = {name: _CELL.size * number for number, name in enumerate(names)}
        self._pace = pace
        self._guard = threading.Lock()
        self._file = path.open("r+b")
        self._free = mmap.mmap(self._file.fileno(), _CELL.size * len(names))

    def serve(self, name: str, usual_ns: float, began_ns: int) -> None:
        """Returns when the device has served a request that usually takes `usual_ns` of it."""
        took = int(usual_ns * self._pace.read_times(name))
        place = self._place[name]
        with self._guard:
            fcntl.lockf(self._file, fcntl.LOCK_EX, _CELL.size, place)
            try:
                (free,) = _CELL.unpack_from(self._free, place)
                ends = max(free, began_ns) + took
                _CELL.pack_into(self._free, place, ends)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _CELL.size, place)
        rest = ends - monotonic_ns()
        if rest > 0:
            sleep_s(rest / 1e9)

    def close(self) -> None:
        """Lets go of the file."""
        self._free.close()
        self._file.close()


def make_devices(path: Path, count: int) -> None:
    """The file the processes share: every device is free."""
    path.write_bytes(bytes(_CELL.size * count))


class RatedTarget(Target):
    """A target that answers when its device has served the request."""

    def __init__(self, described: configured.Target, devices: SharedDevices, bytes_per_s: float) -> None:
        super().__init__(described)
        self._devices = devices
        self._ns_per_byte = 1e9 / bytes_per_s

    def count_request(self, size: int, wrote: bool, began_ns: int) -> None:
        """Holds the request until then, and counts it."""
        self._devices.serve(self.name, size * self._ns_per_byte, began_ns)
        super().count_request(size, wrote, began_ns)


def main(arguments: list[str] | None = None) -> int:
    """The program. It says `ready ADDRESS` when clients may come."""
    parser = argparse.ArgumentParser(prog="rated_forwarders")
    for name in ("--targets", "--listen", "--name", "--spool", "--pace", "--devices"):
        parser.add_argument(name, required=True)
    parser.add_argument("--bytes-per-s", type=float, required=True, help="of each target")
    parser.add_argument("--changes-per-s", type=float, required=True, help="of the metadata server")
    args = parser.parse_args(arguments)
    options = Options(
        export=f"targets:{args.targets}",
        listen=[args.listen],
        discipline=DISCIPLINE,
        spool=Path(args.spool),
        name=args.name,
    )

    described = configured.read_config(args.targets).targets
    names = [*(one.name for one in described), METADATA]
    devices = SharedDevices(Path(args.devices), names, Pace(Path(args.pace)))

    def rated(_spec: str) -> FileTree:
        tree = open_tree(args.targets)
        for one in described:
            tree.targets.by_name[one.name] = RatedTarget(one, devices, args.bytes_per_s)
        change = tree.store.write

        def in_turn(*args_: Any, **kwargs: Any) -> Any:
            devices.serve(METADATA, 1e9 / args.changes_per_s, monotonic_ns())
            return change(*args_, **kwargs)

        tree.store.write = in_turn  # type: ignore[method-assign]
        return cast(FileTree, tree)

    try:
        run_forwarder(options, lambda address: print(f"ready {address}", file=sys.stderr, flush=True), open_tree=rated)
    except FairleadError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        devices.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
