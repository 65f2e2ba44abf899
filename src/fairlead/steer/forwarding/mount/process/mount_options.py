"""The options of `fairlead mount`, and what is built from them: forwarders, connection, records, source.

Nothing is mounted here (`serve`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core.errors import MountError
from fairlead.steer.forwarding.mount.process.control import open_state_folder
from fairlead.steer.forwarding.mount.process.map_file import read_map_file
from fairlead.steer.fs.fuse import passthrough

if TYPE_CHECKING:
    from fairlead.steer.fs.client.dial import Dial
    from fairlead.steer.fs.client.job_identity import Jobs
    from fairlead.steer.fs.trace.recorder import Trace


@dataclass(frozen=True, slots=True)
class MountOptions:
    """The options of `fairlead mount`. One of `source`, `addresses` and `map_file` is set."""

    mountpoint: str
    """From `resolve_mountpoint`. All paths are absolute."""
    source: str | None = None
    addresses: tuple[str, ...] = ()
    map_file: Path | None = None
    read_only: bool = False
    allow_other: bool | None = None
    spool: Path | None = None
    job: str = ""
    cluster: str = ""
    """Of processes that do not say which cluster their job is of; "": as this node's slurm.conf says."""
    cache: bool = False
    passthrough: bool = True
    checksum: bool = False
    token: Path | None = None
    ca: Path | None = None
    patience_s: float = 60.0
    job_environment: bool = False


def list_addresses_of_options(options: MountOptions) -> list[str]:
    """The forwarders' addresses, from the options or the map file's line for this node."""
    if options.map_file is None:
        return list(options.addresses)
    return read_map_file(options.map_file, os.uname().nodename)


def build_dial_of_options(options: MountOptions) -> Dial:
    """A client session at the forwarders, not yet connected."""
    from fairlead.steer.fs.client.dial import Dial

    tls = None
    if options.ca is not None:
        from fairlead.core.access.tls import build_tls_client_context

        tls = build_tls_client_context(options.ca)
    token = read_token_of_options(options.token) if options.token is not None else ""
    return Dial(
        list_addresses_of_options(options),
        token=token,
        tls=tls,
        mount=options.mountpoint,
        leases=options.cache,
        checksum=options.checksum,
        descriptors=options.passthrough and not options.cache and passthrough.supports_passthrough(),
    )


def build_recording_of_options(options: MountOptions) -> tuple[Trace | None, Jobs]:
    """The trace (not started; None without a spool) and the jobs of the requests."""
    from fairlead.steer.fs.client.job_identity import Jobs, read_node_cluster

    node = os.uname().nodename.partition(".")[0] or "localhost"
    jobs = Jobs(
        job=options.job,
        node=node,
        cluster=options.cluster or read_node_cluster(),
        all_environments=options.job_environment,
    )
    if options.spool is None:
        return None, jobs
    from fairlead.steer.forwarding.record_spool import open_record_spool
    from fairlead.steer.fs.trace.recorder import Trace

    spool = open_record_spool(options.spool, node=node, writer=f"mount:{options.mountpoint}")
    source = options.source or ",".join(list_addresses_of_options(options))
    trace = Trace(spool, fs=f"fairlead:{source}", mount_point=options.mountpoint)
    return trace, jobs


def resolve_source_option(source: str, mountpoint: str) -> str:
    """The folder to serve. `MountError` if one of it and the mount point holds the other: a mount on itself hangs."""
    folder = os.path.realpath(source)
    if not os.path.isdir(folder):
        what = "not a directory" if os.path.exists(folder) else "there is no such folder"
        raise MountError(what, where=source, remedy="give --local a folder")
    if not os.access(folder, os.X_OK):
        raise MountError("you may not enter this folder", where=source, remedy="give --local a folder you may use")
    inside = os.path.commonpath([folder, mountpoint])
    if inside in (folder, mountpoint):
        raise MountError("source and mount point lie in one another", where=mountpoint, remedy="choose another folder")
    return folder


def check_mount_options(options: MountOptions) -> None:
    """Raises `MountError` if files the mount needs lie under the mount point."""
    for path in (options.spool, options.map_file, open_state_folder()):
        if path is None:
            continue
        if os.path.commonpath([os.path.realpath(path), options.mountpoint]) == options.mountpoint:
            what = "lies under the mount point: the mount would wait for itself"
            raise MountError(what, where=str(path), remedy="choose another place")


def read_token_of_options(path: Path) -> str:
    """The token in a file only its owner can read. `MountError` otherwise."""
    try:
        with path.open(encoding="ascii") as file:
            shared = os.fstat(file.fileno()).st_mode & 0o077
            text = file.read(8192).strip()
    except OSError as error:
        what = f"the token cannot be read: {error.strerror}"
        raise MountError(what, where=str(path), remedy="check the path") from error
    except UnicodeDecodeError as error:
        what = "not a token"
        raise MountError(what, where=str(path), remedy="give a file made by: fairlead token issue") from error
    if shared:
        raise MountError("others can read this token", where=str(path), remedy=f"chmod 600 {path}")
    return text
