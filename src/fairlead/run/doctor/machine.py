"""The machine as the checks see it: its /proc, /sys, /dev, /etc, /boot, its commands. Every root is an argument.

Not here: what any of it means (the checks beside this module).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

_ADMIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/lpp/mmfs/bin")
"""Where site tools live that an ordinary user's PATH leaves out."""


def _search_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *_ADMIN_FOLDERS])


@dataclass(frozen=True)
class Ran:
    """How a command ended: its exit code and what it printed, both streams, stripped."""

    code: int
    text: str

    @property
    def first_line(self) -> str:
        """What it said first, for a line in a table."""
        return self.text.partition("\n")[0].strip()


@dataclass(frozen=True)
class Mount:
    """One line of /proc/mounts."""

    device: str
    point: str
    kind: str


@dataclass(frozen=True)
class Machine:
    """Where to look. The defaults are the running machine; tests and containers give other roots.

    `search` is a PATH, `environment` the process environment, `load` imports a module by name.
    """

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    etc: Path = Path("/etc")
    boot: Path = Path("/boot")
    search: str = field(default_factory=_search_path)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    user_id: int = field(default_factory=os.geteuid)
    kernel: str = field(default_factory=platform.release)
    load: Callable[[str], object] = import_module

    def find_command(self, *names: str) -> str | None:
        """The first of some commands that is there, as a path."""
        found = (shutil.which(name, path=self.search) for name in names)
        return next((path for path in found if path), None)

    def run(self, *command: str, timeout_s: float = 3.0) -> Ran | None:
        """Runs a command without a shell; None when it is not there, does not start or does not end in time."""
        program = self.find_command(command[0])
        if program is None:
            return None
        environment = {**self.environment, "PATH": self.search, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return Ran(done.returncode, done.stdout.decode("utf-8", "replace").strip())

    def list_mounts(self, *kinds: str) -> list[Mount]:
        """Mounted file systems of some kinds (all without an argument), in the order they were mounted."""
        rows = (line.split() for line in read_machine_file(self.proc / "mounts").splitlines())
        found = [Mount(row[0], row[1].replace("\\040", " "), row[2]) for row in rows if len(row) >= 3]
        return [mount for mount in found if not kinds or mount.kind in kinds]

    def read_distribution(self) -> set[str]:
        """The distribution's id and the families it says it is like: {"ubuntu", "debian"}."""
        words: set[str] = set()
        for line in read_machine_file(self.etc / "os-release").splitlines():
            key, _, value = line.partition("=")
            if key in ("ID", "ID_LIKE"):
                words.update(value.strip().strip("\"'").split())
        return words


def read_machine_file(path: Path, limit: int = 1 << 20) -> str:
    """The text of a small file; "" when it is not there or not readable, which callers report as not known."""
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""
