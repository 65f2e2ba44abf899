"""Opening a FUSE mount and ending it: by mount(2) as root, through fusermount3 otherwise.

Not here: the first exchange with the kernel (`negotiation`), what is served (`mount.local`, `mount.relay`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import stat
import subprocess
from pathlib import Path

from fairlead.core.errors import MountError
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.mount_table import FS_TYPE, find_in_mount_table, probe_mount_folder, resolve_mountpoint

DEVICE = "/dev/fuse"
_CONNECTIONS = "/sys/fs/fuse/connections"
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4
_MNT_DETACH = 2
_ANSWER_S = 10.0
_libc = ctypes.CDLL(None, use_errno=True)


class Device:
    """An open mount: the descriptor the kernel's requests are read from, and where it is mounted.

    `recovered` tells that a dead mount of fairlead was on the folder and was taken off first.
    """

    __slots__ = ("connection", "fd", "mountpoint", "read_only", "recovered", "through_fusermount")

    def __init__(
        self, fd: int, mountpoint: str, *, read_only: bool, through_fusermount: bool, recovered: bool = False
    ) -> None:
        self.fd = fd
        self.mountpoint = mountpoint
        self.read_only = read_only
        self.through_fusermount = through_fusermount
        self.recovered = recovered
        self.connection = 0
        """The kernel's number of this connection, 0 while it is not known."""

    def abort(self) -> bool:
        """Ends the connection in the kernel, so that threads that wait at the device go on (ENODEV). False where that
        is not possible (no fusectl file system)."""
        try:
            with open(f"{_CONNECTIONS}/{self.connection}/abort", "wb", buffering=0) as file:
                file.write(b"1")
        except OSError:
            return False
        return True

    def unmount(self, *, lazy: bool = False) -> None:
        """Unmounts. Raises `BusyError` while files are open, `MountError`."""
        unmount_fuse_device(self.mountpoint, lazy=lazy)

    def close(self) -> None:
        """Ends the connection: what still uses the mount gets ENOTCONN."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class BusyError(MountError):
    """Files are open in the mount."""


def open_fuse_device(
    mountpoint: str | Path,
    *,
    read_only: bool = False,
    allow_other: bool | None = None,
    fs_name: str = "fairlead",
    max_read: int = abi.MAX_WRITE,
) -> Device:
    """Mounts on a folder and returns the device. The first request to answer is INIT (`negotiation.answer_fuse_init`).

    `allow_other` None: as root yes, else where /etc/fuse.conf has user_allow_other. Modes are always checked by the
    kernel (default_permissions). A dead mount of fairlead on the folder is taken off first. Raises `MountError`.
    """
    path = resolve_mountpoint(mountpoint)
    recovered = _clear(path)
    _check_folder(path)
    privileged = os.geteuid() == 0
    if allow_other is None:
        allow_other = privileged or _others_allowed()
    if privileged:
        fd = _mount_directly(path, read_only=read_only, allow_other=allow_other, fs_name=fs_name, max_read=max_read)
        if fd is not None:
            return _opened(Device(fd, path, read_only=read_only, through_fusermount=False, recovered=recovered))
    options = [f"fsname={_escaped(fs_name)}", "subtype=fairlead", "default_permissions", f"max_read={max_read}"]
    options += ["allow_other"] if allow_other else []
    options += ["ro"] if read_only else []
    fd = _mount_through_fusermount(path, ",".join(options))
    return _opened(Device(fd, path, read_only=read_only, through_fusermount=True, recovered=recovered))


def unmount_fuse_device(path: str, *, lazy: bool = False) -> None:
    """Unmounts the topmost mount of a folder; `lazy`: also while files are open. Raises `BusyError`, `MountError`."""
    if os.geteuid() == 0 and _libc.umount2(os.fsencode(path), _MNT_DETACH if lazy else 0) == 0:
        return
    code = ctypes.get_errno() if os.geteuid() == 0 else errno.EPERM
    if code == errno.EPERM:
        code = _unmount_through_fusermount(path, lazy=lazy)
    if code == 0:
        return
    if code == errno.EBUSY:
        raise BusyError(
            "files are open in the mount", where=path, remedy=f"end what uses it (fuser -vm {path}), or add --force"
        )
    if code in (errno.EINVAL, errno.ENOENT):
        raise MountError("nothing is mounted there", where=path, remedy="fairlead mount --list")
    raise MountError(f"cannot be unmounted: {os.strerror(code)}", where=path, remedy="unmount it as who mounted it")


def _opened(device: Device) -> Device:
    mount = find_in_mount_table(device.mountpoint)
    device.connection = mount.minor if mount is not None else 0
    return device


def _clear(path: str) -> bool:
    """Unmounts a dead mount of fairlead; whether there was one. `MountError` for one that runs or does not answer."""
    recovered = False
    while (mount := find_in_mount_table(path)) is not None and mount.fs_type == FS_TYPE:
        code = probe_mount_folder(path, within_s=_ANSWER_S)
        if code == errno.ENOTCONN or code == errno.ECONNABORTED:
            unmount_fuse_device(path, lazy=True)
            recovered = True
            continue
        if code is None:
            raise MountError("a mount there does not answer", where=path, remedy=f"fairlead umount --force {path}")
        raise MountError(
            f"already mounted: {mount.source}", where=path, remedy=f"choose another folder, or: fairlead umount {path}"
        )
    return recovered


def _check_folder(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise MountError("there is no such folder", where=path, remedy=f"mkdir -p {path}") from error
    except OSError as error:
        remedy = f"umount -l {path}" if error.errno == errno.ENOTCONN else "choose a folder you may enter"
        raise MountError(f"the folder cannot be used: {error.strerror}", where=path, remedy=remedy) from error
    if not stat.S_ISDIR(mode):
        raise MountError("not a directory", where=path, remedy="mount on a directory")


def _mount_directly(path: str, *, read_only: bool, allow_other: bool, fs_name: str, max_read: int) -> int | None:
    """The device, or None where root here may not mount and fusermount3 might (a container's root)."""
    try:
        fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise _no_device(error) from error
    options = f"fd={fd},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},default_permissions"
    options += f",max_read={max_read}" + (",allow_other" if allow_other else "")
    flags = _MS_NOSUID | _MS_NODEV | (_MS_RDONLY if read_only else 0)
    done = _libc.mount(fs_name.encode(), os.fsencode(path), FS_TYPE.encode(), flags, options.encode())
    if done == 0:
        return fd
    code = ctypes.get_errno()
    os.close(fd)
    if code == errno.EPERM and shutil.which("fusermount3") is not None:
        return None
    if code == errno.EPERM:
        remedy = "give the container CAP_SYS_ADMIN, or install fusermount3 (apt-get install fuse3)"
        raise MountError("mounting is not allowed here", where=path, remedy=remedy)
    if code == errno.ENODEV:
        raise MountError("the kernel has no FUSE", where=path, remedy="modprobe fuse")
    raise MountError(f"the kernel refuses the mount: {os.strerror(code)}", where=path, remedy="fairlead host check")


def _mount_through_fusermount(path: str, options: str) -> int:
    """The device as fusermount3 opened it: it is set-uid, mounts, and sends the descriptor over a socket."""
    program = shutil.which("fusermount3")
    if program is None:
        raise MountError(
            "only root can mount here: there is no fusermount3", where=path, remedy="apt-get install fuse3"
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        done = subprocess.run(
            [program, "-o", options, "--", path],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno()), "LC_ALL": "C"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        theirs.close()
        fds: list[int] = []
        if done.returncode == 0:
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if not fds:
        raise _refused_by_fusermount(path, done.stderr)
    os.set_inheritable(fds[0], False)
    return fds[0]


def _refused_by_fusermount(path: str, said: str) -> MountError:
    reason = said.strip().splitlines()[-1].removeprefix("fusermount3: ").strip() if said.strip() else "no reason given"
    if "user_allow_other" in said:
        remedy = "root writes user_allow_other into /etc/fuse.conf, or leave --allow-other out"
    elif "/dev/fuse" in said or "fuse device" in said:
        remedy = "modprobe fuse, or --device /dev/fuse for a container"
    elif "ermission" in said or "write access" in said:
        remedy = "choose a folder that is yours"
    elif "not permitted" in said:
        remedy = "fusermount3 must be set-uid root, and the container must have CAP_SYS_ADMIN"
    else:
        remedy = "fairlead host check"
    return MountError(f"fusermount3 refuses the mount: {reason}", where=path, remedy=remedy)


def _unmount_through_fusermount(path: str, *, lazy: bool) -> int:
    """0 or an errno."""
    program = shutil.which("fusermount3")
    if program is None:
        return errno.EPERM
    done = subprocess.run(
        [program, "-u", *(["-z"] if lazy else []), "--", path],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return 0
    said = done.stderr.lower()
    if "busy" in said:
        return errno.EBUSY
    if "not found in" in said or "invalid argument" in said or "no such file" in said:
        return errno.EINVAL
    return errno.EPERM


def _no_device(error: OSError) -> MountError:
    if error.errno == errno.ENOENT:
        what, remedy = "there is no /dev/fuse", "modprobe fuse, or --device /dev/fuse for a container"
    else:
        what, remedy = f"/dev/fuse does not open: {error.strerror}", "fairlead host check"
    return MountError(what, where=DEVICE, remedy=remedy)


def _others_allowed(conf: Path = Path("/etc/fuse.conf")) -> bool:
    try:
        lines = conf.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.strip() == "user_allow_other" for line in lines)


def _escaped(name: str) -> str:
    """A value for fusermount3, which splits its options at commas."""
    return name.replace("\\", "\\\\").replace(",", "\\,")
