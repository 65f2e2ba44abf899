"""The extended attribute `user.fairlead.layout`: how a file is striped, how new files of a directory will be."""

from __future__ import annotations

import errno

from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.targets.config import parse_config_layout
from fairlead.steer.targets.inode import Inode
from fairlead.steer.targets.objects import TargetSet

NAME = b"user.fairlead.layout"


def format_layout(inode: Inode, targets: TargetSet) -> bytes:
    """What a reader of the attribute gets."""
    if inode.targets:
        return f"count={len(inode.targets)},size={inode.stripe},targets={':'.join(inode.targets)}".encode()
    if not (inode.is_file or inode.layout):
        raise build_os_error(errno.ENODATA)
    wanted = targets.choose_striping(inode.layout)
    pool = f",pool={wanted.pool}" if wanted.pool else ""
    return f"count={wanted.stripes},size={wanted.size}{pool}".encode()


def validate_layout(value: bytes, targets: TargetSet) -> str:
    """The text to keep; EINVAL for one that does not fit the targets."""
    try:
        text = value.decode("ascii")
        parse_config_layout(text, targets.default, targets.pools)
    except ValueError as error:
        raise build_os_error(errno.EINVAL) from error
    return text
