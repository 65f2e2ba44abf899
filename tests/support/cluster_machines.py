"""Nodes of a cluster on one host: each has its own name, processes, mounts and control groups (Linux namespaces), and
shares the network and the disk. Slurm's daemons, agents, mounts and jobs within one find what they find on a real node.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from waiting import PATIENCE_S, wait_until

_GROUPS = Path("/sys/fs/cgroup")
_HIERARCHIES = ("freezer", "cpuset", "memory", "blkio", "cpuacct", "unified")
"""What is mounted anew in a node, where the host has it: a job's groups are then below the node's own."""
_INIT = r"""
set -e
groups="$1"; name="$2"
for one in $groups; do
  if [ -f "$one/cpuset.cpus" ]; then cat "$(dirname "$one")/cpuset.cpus" > "$one/cpuset.cpus"
    cat "$(dirname "$one")/cpuset.mems" > "$one/cpuset.mems"; fi
  echo $$ > "$one/cgroup.procs"
done
exec unshare --cgroup --uts --mount --pid --fork --mount-proc --propagation private --kill-child bash -c '
  set -e
  hostname "$2"
  for one in $1; do
    type=$(basename "$(dirname "$(dirname "$one")")")
    umount "/sys/fs/cgroup/$type"
    if [ "$type" = unified ]; then mount -t cgroup2 none /sys/fs/cgroup/unified
    else mount -t cgroup -o "$type" none "/sys/fs/cgroup/$type"; fi
  done
  echo node is up
  while :; do sleep 3600 & wait; done' init "$groups" "$name"
"""
_ENTER = """
for one in $1; do echo $$ > "$one/cgroup.procs" || exit 1; done; target=$2; shift 2
exec nsenter --target="$target" --cgroup --uts --mount --pid --wd=/tmp -- "$@"
"""


def why_no_machines() -> str | None:
    """Why no nodes can be made here; None when they can."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    if not (_GROUPS / "freezer").is_dir():
        return "no control groups of version 1 (freezer) here: Slurm's of version 2 need systemd"
    done = subprocess.run(
        ["unshare", "--cgroup", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else f"no namespaces here: {done.stderr.strip()}"


class Machine:
    """A node: up from `start` to `stop`, which ends every process and mount in it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self._mark = f"fairlead-{os.getpid()}-{os.urandom(3).hex()}"
        self._shell: subprocess.Popen[bytes] | None = None
        self._init = 0
        self._groups = ""

    def start(self) -> None:
        """Returns when the node is up. Raises AssertionError if it does not come up."""
        groups: list[str] = []
        for hierarchy in _HIERARCHIES:
            if (_GROUPS / hierarchy).is_dir():
                group = _GROUPS / hierarchy / self._mark / self.name
                group.mkdir(parents=True)
                if hierarchy == "cpuset":
                    for name in ("cpuset.cpus", "cpuset.mems"):
                        (group.parent / name).write_text((_GROUPS / hierarchy / name).read_text())
                groups.append(str(group))
        self._groups = " ".join(groups)
        said = self.folder / f"{self.name}.machine"
        with said.open("wb") as out:
            self._shell = subprocess.Popen(
                ["bash", "-c", _INIT, "node", self._groups, self.name],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        wait_until(lambda: "node is up" in said.read_text(), said.read_text, process=self._shell)
        children = Path(f"/proc/{self._shell.pid}/task/{self._shell.pid}/children").read_text().split()
        self._init = int(children[0])

    def command(self, *words: str) -> list[str]:
        """A command as one that runs in the node."""
        return ["bash", "-c", _ENTER, "node", self._groups, str(self._init), *words]

    def popen(
        self, words: Sequence[str], out: IO[bytes], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a command in the node; what is returned is what carries it in."""
        return subprocess.Popen(self.command(*words), env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def run(self, *words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command in the node to its end."""
        return subprocess.run(
            self.command(*words), env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def stop(self) -> None:
        """Ends everything in the node."""
        if self._shell is None:
            return
        self._shell.kill()
        self._shell.wait(PATIENCE_S)
        self._shell = None
        for hierarchy in _HIERARCHIES:
            top = _GROUPS / hierarchy / self._mark
            with contextlib.suppress(AssertionError):
                wait_until(partial(_removed, top), f"control groups below {top} are empty", stalled_s=5)


def _removed(top: Path) -> bool:
    """Removes a control group and those below it; whether none is left."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not top.exists()


def child_of(process: subprocess.Popen[bytes]) -> int:
    """The process that `Machine.popen` carried into a node, by the host's number; 0 while there is none."""
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def open_folder_for_all(prefix: str) -> Path:
    """A folder below /tmp that other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    folder.chmod(0o755)
    return folder
