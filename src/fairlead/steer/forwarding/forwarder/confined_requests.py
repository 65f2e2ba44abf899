"""What a session of one user may name: nodes it was told, or whose way it has shown to be open to its user.

Nodes are inode numbers, which can be guessed; without this a user could reach files below a directory that is closed
to him. Sessions that may act as anyone have kernels of their own behind them and are not held to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.os_errors import build_stale_os_error
from fairlead.steer.fs.trees.base import ROOT, UnknownNode

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.request import Request
    from fairlead.steer.fs.operations.dispatch import Operations
    from fairlead.steer.fs.sessions import Handles

NAMED = frozenset(
    int(op)
    for op in (
        Op.LOOKUP,
        Op.GETATTR,
        Op.SETATTR,
        Op.READLINK,
        Op.SYMLINK,
        Op.MKNOD,
        Op.MKDIR,
        Op.UNLINK,
        Op.RMDIR,
        Op.RENAME,
        Op.RENAME2,
        Op.LINK,
        Op.OPEN,
        Op.OPENDIR,
        Op.READDIRPLUS,
        Op.FSYNCDIR,
        Op.CREATE,
        Op.TMPFILE,
        Op.ACCESS,
        Op.SETXATTR,
        Op.GETXATTR,
        Op.LISTXATTR,
        Op.REMOVEXATTR,
        Op.STATX,
    )
)
"""Requests that mean the node in their header; all others mean a handle."""
_TWO = frozenset({int(Op.RENAME), int(Op.RENAME2), int(Op.LINK)})
"""Their body begins with another node."""
_NODE = Struct("<Q")


def confine_request(request: Request) -> None:
    """Raises UnknownNode for a node the session was not told; its client then says where it is (Own.PLACE)."""
    op = request.op
    if op not in NAMED:
        return
    handles = request.session.handles
    _told(handles, request.node)
    if op in _TWO and len(request.body) >= _NODE.size:
        _told(handles, _NODE.unpack_from(request.body)[0])


def _told(handles: Handles, node: int) -> None:
    if node == ROOT or node in handles.known or node in handles.placed:
        return
    # A file without a name has no place; who has it open was told of it.
    if not any(getattr(file, "node", 0) == node for file in list(handles.files.values())):
        raise UnknownNode(node)


def confine_place(operations: Operations, handles: Handles, node: int, steps: Sequence[tuple[int, bytes]]) -> None:
    """As `FileTree.place`, as the user who asks: every directory on the way must be open to him."""
    at = ROOT
    for parent, name in steps:
        if parent != at:
            raise build_stale_os_error()
        at = operations.tree.lookup(parent, name)[0]
        handles.placed.add(at)
    if at != node:
        raise build_stale_os_error()


def confine_reopen(
    operations: Operations, handles: Handles, node: int, handle: int, flags: int, *, folder: bool
) -> None:
    """As `Operations.reopen`; of a file the session was not told of only if it has no name any more."""
    known = handle in handles.files
    if folder:
        _told(handles, node)
    operations.reopen(handles, node, handle, flags, folder=folder)
    if folder or known or node in handles.known or node in handles.placed:
        return
    file = handles.files.get(handle)
    if file is not None and file.stat().st_nlink:
        handles.files.pop(handle, file).close()
        raise UnknownNode(node)
