"""Unmounting from outside the mount process, whether it runs, is dead or hangs."""

from __future__ import annotations

import errno

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.core.errors import MountError
from fairlead.steer.forwarding.mount.process import control
from fairlead.steer.forwarding.mount.process.control import MountRecord
from fairlead.steer.fs.fuse.device import BusyError, unmount_fuse_device
from fairlead.steer.fs.fuse.mount_table import FS_TYPE, find_in_mount_table, probe_mount_folder, resolve_mountpoint

_WAIT_S = 30.0
_FORCED_WAIT_S = 5.0
_ANSWER_S = 5.0


def end_mount(folder: str, *, force: bool = False) -> str:
    """Unmounts a folder and returns a line that says what was done. Raises `MountError`, `BusyError`.

    `force`: also while files are open. A dead mount is unmounted in any case.
    """
    path = resolve_mountpoint(folder)
    mount = find_in_mount_table(path)
    if mount is None or mount.fs_type != FS_TYPE:
        control.forget_dead_mount(path)
        what = "nothing is mounted there" if mount is None else f"a mount of {mount.fs_type} is there, none of ours"
        raise MountError(what, where=path, remedy="fairlead mount --list")
    record = control.read_mount_state(path)
    alive = record is not None and record.is_alive()
    dead = not alive and probe_mount_folder(path, within_s=_ANSWER_S) in (errno.ENOTCONN, errno.ECONNABORTED)
    try:
        unmount_fuse_device(path)
    except BusyError:
        if not force and not dead:
            raise
        unmount_fuse_device(path, lazy=True)
    if dead:
        control.forget_dead_mount(path)
        return f"{path}: the mount was dead and is taken off"
    if alive and record is not None and not _gone(record, _FORCED_WAIT_S if force else _WAIT_S):
        if not force:
            raise MountError(
                f"is unmounted, but its process {record.pid} has not ended", where=path, remedy=f"see {record.log}"
            )
        return f"{path} is taken off; process {record.pid} ends when the last file is closed"
    return f"{path} is unmounted"


def _gone(record: MountRecord, within_s: float) -> bool:
    deadline = monotonic_s() + within_s
    pause = 0.005
    while record.is_alive():
        if monotonic_s() > deadline:
            return False
        sleep_s(pause)
        pause = min(pause * 2, 0.1)
    return True
