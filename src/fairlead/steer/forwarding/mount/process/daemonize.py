"""Mounts in a background process. The caller waits until the folder answers; a failure is raised in the caller.

caller:  fork --> read the pipe --> an error: raise it --> mount does not answer in 30 s: end the child
                                --> empty: probe the folder --> answers: return the process id
child:   setsid --> serve_mount --> mounted: stdout and stderr to the log, write to the pipe, close it
                                --> failed before: write the error to the pipe, exit
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

import msgspec

from fairlead.core import errors
from fairlead.core.errors import FairleadError, MountError
from fairlead.steer.forwarding.mount.process.control import build_mount_log_path
from fairlead.steer.forwarding.mount.process.mount_options import MountOptions
from fairlead.steer.forwarding.mount.process.serve import print_mount_message, serve_mount
from fairlead.steer.fs.fuse.mount_table import probe_mount_folder, resolve_mountpoint

_ANSWER_S = 30.0


class _ChildMessage(msgspec.Struct):
    """What the child writes to the pipe: an error to raise; empty if the mount works."""

    kind: str = ""
    what: str = ""
    where: str | None = None
    remedy: str | None = None


def daemonize_mount(options: MountOptions, say: Callable[[str], None] = print_mount_message) -> int:
    """Mounts in a background process and returns its id once the folder answers. Raises what mounting raised.

    The paths of `options` are absolute: the mount process changes to `/`.
    """
    mountpoint = resolve_mountpoint(options.mountpoint)
    log = str(build_mount_log_path(mountpoint))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_child(options, writing, log, say))
    os.close(writing)
    try:
        told = _hear(reading)
    except BaseException:
        os.kill(child, signal.SIGTERM)
        raise
    finally:
        os.close(reading)
    if told is None:
        os.waitpid(child, 0)
        raise MountError(
            "the mount process ended before it had mounted", where=mountpoint, remedy="see why with --foreground"
        )
    if told.kind:
        os.waitpid(child, 0)
        raise _as_error(told)
    code = probe_mount_folder(mountpoint, within_s=_ANSWER_S)
    if code is None:
        os.kill(child, signal.SIGTERM)
        raise MountError("is mounted, but does not answer", where=mountpoint, remedy=f"see {log}")
    return child


def _child(options: MountOptions, writing: int, log: str, say: Callable[[str], None]) -> int:
    """The mount process; returns its exit code. Messages go to the caller until it is mounted, then to the log."""
    os.setsid()
    os.chdir("/")
    waiting = True

    def ready() -> None:
        nonlocal waiting
        _turn_away(log)
        os.write(writing, msgspec.json.encode(_ChildMessage()))
        os.close(writing)
        waiting = False

    try:
        serve_mount(options, ready, say)
    except FairleadError as error:
        if not waiting:
            say(str(error))
            return error.exit_code
        told = _ChildMessage(type(error).__name__, error.what, error.where, error.remedy)
        os.write(writing, msgspec.json.encode(told))
        return error.exit_code
    except BaseException:  # noqa: BLE001 (last frame of the process: an error not printed here is lost)
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()
    return 0


def _turn_away(log: str) -> None:
    """Leaves the caller's terminal and pipes: output goes to the log."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.close(nothing)
    os.close(written)


def _hear(reading: int) -> _ChildMessage | None:
    said = b""
    while part := os.read(reading, 1 << 16):
        said += part
    return msgspec.json.decode(said, type=_ChildMessage) if said else None


def _as_error(told: _ChildMessage) -> FairleadError:
    kind = getattr(errors, told.kind, MountError)
    if not (isinstance(kind, type) and issubclass(kind, FairleadError)):
        kind = MountError
    return kind(told.what, where=told.where, remedy=told.remedy)
