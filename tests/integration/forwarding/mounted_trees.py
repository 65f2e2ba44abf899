"""The ways to mount a folder that tests go through: without a forwarder, and through one on a unix socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mounting import forwarded_mount, local_mount, open_folder

KINDS = ("local", "unix")


class Mounted(NamedTuple):
    """A mounted folder, the folder it shows, and one beside that on the same file system."""

    folder: Path
    export: Path
    beside: Path


@contextmanager
def mounted_tree(kind: str) -> Iterator[Mounted]:
    """An empty mounted folder, which other users may enter."""
    with open_folder() as base:
        found = Mounted(base / "mounted", base / "export", base / "beside")
        state = base / "state"
        for path in (*found, state):
            path.mkdir()
        if kind == "local":
            mounting = local_mount(found.export, found.folder, "--allow-other", state=state)
        else:
            mounting = forwarded_mount(found.export, found.folder, state=state)
        with mounting:
            assert found.folder.is_mount()
            yield found
