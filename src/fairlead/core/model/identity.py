"""Identities that are the same whoever computes them: of a file the signed int64 of blake2b-8 over its system and path.

Signed, because unsigned 64-bit integers are refused by table formats downstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def compute_file_identity(fs: str, path: str) -> int:
    """Id of one path on one file system (mount point, or "" when unknown)."""
    digest = blake2b(f"{fs}\0{path}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def compute_file_identities(fs: Sequence[str], paths: Iterable[str]) -> NDArray[np.int64]:
    """Ids of many paths; `fs` and `paths` have equal length."""
    return np.fromiter(
        (compute_file_identity(f, p) for f, p in zip(fs, paths, strict=True)), dtype=np.int64, count=len(fs)
    )


def compute_short_identity(*parts: object) -> str:
    """A short id of what a finding is about: the same parts give the same id, in any process."""
    text = "\0".join("" if part is None else str(part) for part in parts)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


def identify_mount(path: str, mounts: Sequence[str]) -> str:
    """The longest mount point that holds `path`, or "" when none does."""
    best = ""
    for mount in mounts:
        inside = mount == "/" or path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) > len(best):
            best = mount
    return best if path.startswith("/") else ""
