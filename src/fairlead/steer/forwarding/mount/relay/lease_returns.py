"""A mount's part in leases: the kernel drops what the forwarder takes back, then the forwarder is told.

    REVOKE arrives --> queued --> kernel drops its pages --> RELEASE_LEASE is sent
    link is lost   --> queued --> kernel drops its pages     (nobody to tell)

A thread of its own notifies the kernel, which may wait there for a read of the same page: the mount's thread has to
answer that read.
"""

from __future__ import annotations

import errno
import os
import threading
from queue import SimpleQueue
from struct import Struct
from typing import TYPE_CHECKING

from fairlead.core.clock import monotonic_s, sleep_s
from fairlead.steer.fs.client.link import LinkLostError
from fairlead.steer.fs.client.own_requests import build_own_request
from fairlead.steer.fs.fuse.abi import INVAL_INODE_OUT, NOTIFY_INVAL_INODE, OUT_HEADER, ROOT
from fairlead.steer.fs.wire.frames import REVOKE, Own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.steer.forwarding.mount.relay.relay_mount import RelayMount
    from fairlead.steer.fs.client.link import Link

_NODE = Struct("<Q")
_LENGTH = OUT_HEADER.size + INVAL_INODE_OUT.size
_SETTLES_S = 0.25
"""The kernel may not know a node yet whose LOOKUP has just been answered: it is tried again for this time."""
_MOST_ABSENT = 65_536


class LeaseReturns:
    """What the kernel is to drop, in order."""

    def __init__(self, mount: RelayMount) -> None:
        self._mount = mount
        self._absent: dict[int, int] = {}
        """Nodes the kernel does not know, and their look-up count then."""
        self._queue: SimpleQueue[tuple[Link | None, int, Sequence[int]]] = SimpleQueue()
        threading.Thread(target=self._work, name="coherence", daemon=True).start()

    def drop_revoked(self, link: Link, body: memoryview) -> None:
        """The forwarder takes back nodes (the body of a REVOKE). Called by the mount's thread."""
        (number,) = REVOKE.unpack_from(body)
        nodes = [_NODE.unpack_from(body, at)[0] for at in range(REVOKE.size, len(body) - 7, 8)]
        self._queue.put((link, number, nodes))

    def drop_all(self) -> None:
        """Takes everything back: no lease outlives its connection. Called by the mount's thread."""
        self._queue.put((None, 0, [ROOT, *self._mount.nodes.list_nodes()]))

    def _work(self) -> None:
        while True:
            link, number, nodes = self._queue.get()
            if not self._drop(nodes):
                return
            if link is not None:
                self._mount.call_soon(lambda link=link, number=number: self._dropped(link, number))  # type: ignore[misc]

    def _drop(self, nodes: Sequence[int]) -> bool:
        """False when the mount is gone."""
        until = monotonic_s() + _SETTLES_S
        for node in nodes:
            message = OUT_HEADER.pack(_LENGTH, NOTIFY_INVAL_INODE, 0) + INVAL_INODE_OUT.pack(node, 0, 0)
            while True:
                try:
                    os.write(self._mount.device.fd, message)
                except OSError as error:
                    if error.errno in (errno.ENODEV, errno.EBADF, errno.EPERM):
                        return False
                    if error.errno == errno.ENOENT and self._may_come(node):
                        if monotonic_s() < until:
                            sleep_s(0.001)
                            continue
                        if len(self._absent) >= _MOST_ABSENT:
                            self._absent.clear()
                        self._absent[node] = self._mount.nodes.count_lookups(node)
                break
        return True

    def _may_come(self, node: int) -> bool:
        """Whether the kernel was given the node since it last did not know it."""
        count = self._mount.nodes.count_lookups(node)
        return count > 0 and count != self._absent.get(node)

    def _dropped(self, link: Link, number: int) -> None:
        mount = self._mount
        if mount.link is not link:
            return  # leases of a connection end with it
        try:
            link.put(next(mount.ledger.ids), 0, 0, build_own_request(Own.RELEASE_LEASE, 0, REVOKE.pack(number)))
            link.flush()
        except LinkLostError as lost:
            mount.drop_link(str(lost))
