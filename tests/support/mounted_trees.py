"""The ways to mount a folder that tests go through: without a forwarder, through one on a unix socket, and through one
that stripes files over storage targets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mounting import forwarded_mount, local_mount, open_folder

KINDS = ("local", "unix", "targets")
_TARGETS = """
[metadata]
store = "metadata"
[[targets]]
name = "t0"
path = "t0"
[[targets]]
name = "t1"
path = "t1"
[layout]
stripe_count = 0
stripe_size = "64K"
"""


class Mounted(NamedTuple):
    """A mounted folder, the folder it shows (None for targets), and one beside that on the same file system."""

    folder: Path
    export: Path | None
    beside: Path


@contextmanager
def mounted_tree(kind: str, uid: int | None = None) -> Iterator[Mounted]:
    """An empty mounted folder, open to other users if root mounts it; with `uid` that user mounts it himself."""
    with open_folder() as base:
        folder, export, beside, state = (base / name for name in ("mounted", "export", "beside", "state"))
        for path in (folder, export, beside, state):
            path.mkdir()
            if uid is not None:
                os.chown(path, uid, uid)
        if kind == "local":
            mounting = local_mount(export, folder, state=state, uid=uid)
        elif kind == "unix":
            mounting = forwarded_mount(export, folder, state=state, uid=uid)
        else:
            for name in ("t0", "t1"):
                (export / name).mkdir()
            (export / "targets.toml").write_text(_TARGETS, encoding="utf-8")
            mounting = forwarded_mount(f"targets:{export / 'targets.toml'}", folder, state=state)
        with mounting:
            if uid is None:
                assert folder.is_mount()
            yield Mounted(folder, None if kind == "targets" else export, beside)
