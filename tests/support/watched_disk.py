"""A node whose only disk counts what a test says, and an agent that watches it: growth is known to the byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from serving import Up
from waiting import PATIENCE_S

SECTOR_BYTES = 512
SETTINGS = "ship_s = 0.2\nidle_s = 0.2\nhealth_s = 1\n[probe disks]\nperiod_s = 0.1\n"


class Disk:
    """`root` is what an agent of this node takes for its file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written_bytes = 0
        (root / "proc").mkdir(parents=True)
        self.write(1 << 20)
        self.base_bytes = self.written_bytes

    def write(self, size: int) -> None:
        """So many bytes more were written."""
        self.written_bytes += size
        line = f"   8 0 sda 10 0 80 0 {self.written_bytes // 4096} 0 {self.written_bytes // SECTOR_BYTES} 0 0 0 0\n"
        new = self.root / "proc" / "new"
        new.write_text(line)
        new.replace(self.root / "proc" / "diskstats")


@contextmanager
def agent(
    up: Up,
    disk: Disk,
    folder: Path,
    node: str,
    program: Path,
    python: str,
    *more: str,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """An agent of `node` that watches the disk; what it says goes to `folder`/said."""
    folder.mkdir(exist_ok=True)
    token, settings = folder / "token", folder / "agent.conf"
    token.write_text(up.token("agent", node=node))
    token.chmod(0o600)
    settings.write_text(SETTINGS)
    words = [python, str(program), "--config", str(settings), "--server", f"http://127.0.0.1:{up.port}"]
    words += ["--token", str(token), "--spool", str(folder / "spool"), "--node", node]
    words += ["--probes", "disks", "--root", str(disk.root), *more]
    with (folder / "said").open("ab") as said:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, **(environment or {})}
        )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(PATIENCE_S)
        finally:
            child.kill()
            child.wait()


def seen(up: Up, node: str) -> int:
    """Bytes the lake knows to have been written on a node's disk."""
    sql = f"SELECT coalesce(sum(write_bytes), 0)::BIGINT AS n FROM device WHERE node = '{node}'"  # noqa: S608
    return int(up.query(sql)[0]["n"])


def is_watched(up: Up, node: str) -> bool:
    """Whether the agent has read its base: what is written from now on is growth."""
    sql = f"SELECT 1 AS one FROM health WHERE node = '{node}' AND probe = 'disks' AND state = 'ok'"  # noqa: S608
    return bool(up.query(sql))
