"""The folder a process spills queries to, and the removal of what killed processes left behind. Nothing else."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "fairlead-spill-"
_LOCK = "lock"


def make_spill_folder() -> Path:
    """A new folder of this process below the temporary one, removed when the process ends. Those of processes that
    were killed are removed now: each holds a lock in its own as long as it lives."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    while True:
        mine = Path(tempfile.mkdtemp(prefix=_PREFIX))
        handle = os.open(mine / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_SH)
        if (mine / _LOCK).exists():  # nobody took it for a left one before it was locked
            atexit.register(shutil.rmtree, mine, ignore_errors=True)
            return mine
        os.close(handle)


def _is_left(other: Path) -> bool:
    """Whether nobody holds the lock in there. A folder without one is just being made, or of an older fairlead."""
    try:
        handle = os.open(other / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)
