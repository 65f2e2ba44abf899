"""Removing what has no name any more: objects of unlinked files, at their last close or after a forwarder was lost.

Objects go first, the record last: whatever is interrupted is found again among the orphans.
"""

from __future__ import annotations

import logging
import os
import threading

from fairlead.core.clock import now_ns
from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.targets import inode_data
from fairlead.steer.targets.objects import TargetSet
from fairlead.steer.targets.store import Store

log = logging.getLogger("fairlead.forwarding.targets")


class Sweeper:
    """Reclaims orphans, again and again: what an earlier forwarder left (after `grace_s`, for its clients may open it
    again), and what could not be removed because a target was missing."""

    def __init__(self, store: Store, targets: TargetSet, grace_s: float) -> None:
        self._store = store
        self._targets = targets
        self._grace_s = grace_s
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if not store.readonly:
            self._thread = threading.Thread(target=self._run, name="orphans", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._grace_s):
            try:
                self.sweep(self._grace_s)
            except OSError as error:
                log.warning("orphans are left for later: %s", error)

    def sweep(self, grace_s: float) -> int:
        """Reclaims orphans nobody has open and that are older than `grace_s`; how many."""
        before = now_ns() - int(grace_s * 1e9)
        return sum(
            self.reclaim(ino) for ino, since in self._store.read(inode_data.list_orphan_inodes) if since <= before
        )

    def reclaim(self, ino: int) -> bool:
        """Removes the objects and the record of an inode without a name, unless somebody has it open."""
        inode = self._store.condemn(ino)
        if inode is None:
            return False
        for index, name in enumerate(inode.targets):
            target = self._targets.by_name.get(name)
            if target is None or not target.is_mounted():
                return False
            try:
                with thread_identity.forwarder_identity:
                    os.unlink(target.get_object_path(ino, index))
            except FileNotFoundError:
                continue
            except OSError as error:
                target.translate_error(ino, index, error)
                return False
        self._store.write(inode_data.reclaim_inode, ino)
        return True

    def close(self) -> None:
        """Ends the sweeping."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)
