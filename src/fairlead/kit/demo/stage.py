"""The stage of a play: targets, a metadata service, two forwarders, a mount on each, in one folder that goes away.

Not here: what is played (`plan`), the play itself (`play`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairlead.kit.demo.child_processes import Child, Children
from fairlead.kit.demo.device import write_device_pace
from fairlead.kit.demo.plan import FORWARDERS, TARGETS, WORKERS
from fairlead.steer.fs.fuse.mount_table import find_in_mount_table

READY_S = 30.0
ROOM = 400 << 20
"""Bytes a play needs at most, with some to spare."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it


class Stage:
    """Places and processes of one play."""

    def __init__(self, root: Path, *, fuse: bool) -> None:
        self.root = root
        self.fuse = fuse
        self.pace = root / "pace.json"
        self.spool = root / "spool"
        self.lake = root / "lake"
        self.logs = root / "logs"
        self.targets = root / "targets.toml"
        self._sockets = Path(tempfile.mkdtemp(prefix="fairlead-"))
        """Apart, because the path of a socket may have 107 characters only."""
        for folder in (self.spool, self.logs, root / "tree", *(root / name for name in TARGETS)):
            folder.mkdir()
        self.children = Children(self.logs)

    def find_mount_folder(self, forwarder: str) -> Path:
        """Where the mount through a forwarder is."""
        return self.root / f"mount-{forwarder}"

    def build_address(self, name: str) -> str:
        """Where a server of the stage listens."""
        return f"unix:{self._sockets}/{name}"

    def build(self) -> None:
        """Starts everything; returns when jobs may begin."""
        self.set_pace(None, 1)
        service = self.children.start(
            "metadata",
            [
                *build_stage_command("fairlead"),
                "tree",
                "serve-metadata",
                "--store",
                str(self.root / "tree"),
                "--listen",
                self.build_address("metadata"),
            ],
        )
        service.wait_for("serving", READY_S)
        self.targets.write_text(_targets_file(self.root, self.build_address("metadata")), encoding="utf-8")
        for name in FORWARDERS:  # one after the other: the first marks the targets as this tree's
            self._forwarder(name).wait_for("ready", READY_S)
        if self.fuse:
            mounts = [self._mount(name) for name in FORWARDERS]
            for child in mounts:
                child.wait_for("mounted on", READY_S)

    def _forwarder(self, name: str) -> Child:
        return self.children.start(
            name,
            [
                *build_stage_command("fairlead.kit.demo.forwarder"),
                "--targets",
                str(self.targets),
                "--listen",
                self.build_address(name),
                "--name",
                name,
                "--spool",
                str(self.spool),
                "--pace",
                str(self.pace),
                "--workers",
                str(WORKERS),
            ],
        )

    def _mount(self, name: str) -> Child:
        folder = self.find_mount_folder(name)
        folder.mkdir()
        command = ["mount", "--foreground", "--spool", str(self.spool), self.build_address(name), str(folder)]
        # Told to end, it takes the mount off itself; killed, it could not.
        return self.children.start(
            f"mount-{name}", [*build_stage_command("fairlead"), *command], dies_by=signal.SIGTERM
        )

    def set_pace(self, target: str | None, times: float) -> None:
        """Lets a target's device serve that many times slower from now on, the others as ever."""
        write_device_pace(self.pace, {name: times if name == target else 1 for name in TARGETS})

    def clear(self) -> None:
        """Ends every process and takes off every mount."""
        self.children.end_all()
        for name in FORWARDERS:
            folder = self.find_mount_folder(name)
            if self.fuse and find_in_mount_table(str(folder)) is not None:
                unmount_stage_folder(folder)
        shutil.rmtree(self._sockets, ignore_errors=True)


def unmount_stage_folder(folder: Path) -> None:
    """Takes a mount off whose process could not."""
    for command in (["fusermount3", "-u", "-z", str(folder)], ["umount", "-l", str(folder)]):
        with suppress(FileNotFoundError):
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return


def build_stage_command(module: str) -> list[str]:
    """The command of a module of this fairlead, whatever is on PATH."""
    return [sys.executable, "-m", module]


def _targets_file(root: Path, service: str) -> str:
    described = [f'[[targets]]\nname = "{name}"\npath = "{root / name}"\n' for name in TARGETS]
    layout = f"[layout]\nstripe_count = {len(TARGETS)}\nstripe_size = 1048576\n"
    return "\n".join([f'[metadata]\nservice = "{service}"\n', *described, layout])


@contextmanager
def open_demo_stage(keep: Path | None, *, fuse: bool) -> Iterator[Stage]:
    """A stage, built; at the end nothing of it runs, is mounted or, unless it is to be kept, is on disk."""
    root = _kept(keep) if keep is not None else Path(tempfile.mkdtemp(prefix="fairlead-demo-", dir=_roomy()))
    made = Stage(root, fuse=fuse)
    try:
        made.build()
        yield made
    finally:
        made.clear()
        if keep is None and not any(find_in_mount_table(str(made.find_mount_folder(name))) for name in FORWARDERS):
            shutil.rmtree(root, ignore_errors=True)


def _kept(folder: Path) -> Path:
    root = folder.absolute()
    root.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="play-", dir=root))


def _roomy() -> str | None:
    """Memory where there is enough: the devices are simulated, a real disk behind them would only add noise."""
    with suppress(OSError):
        found = os.statvfs(_MEMORY)
        if found.f_bavail * found.f_frsize > 2 * ROOM and os.access(_MEMORY, os.W_OK):
            return str(_MEMORY)
    return None
