"""The metadata of a tree as the tree sees it: transactions by function, holds on open inodes, locks.

`LocalStore` keeps it on this machine; `remote.RemoteStore` asks the metadata service, which is a `LocalStore` too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from fairlead.core.clock import now_ns
from fairlead.core.errors import ConfigError, ForwardingError
from fairlead.steer.fs.trees.base import Lock
from fairlead.steer.targets import inode_data
from fairlead.steer.targets.inode import FIRST_INODE, ROOT_INODE, Inode
from fairlead.steer.targets.lmdb_environment import Environment
from fairlead.steer.targets.locks import LockTable
from fairlead.steer.targets.records import KEY, Records

P = ParamSpec("P")
R = TypeVar("R")
FORMAT = b"1"
RESERVE = 1 << 16
"""Inode numbers reserved by one synced commit: after a power failure none of them is given out again."""


class Store(Protocol):
    """See the module. `tree` identifies the tree the store belongs to (32 hex digits)."""

    tree: str
    shared: bool
    readonly: bool

    def read(self, act: Callable[Concatenate[Records, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs a reading function of `namespace` or `inode_data` in a transaction."""

    def write(self, act: Callable[Concatenate[Records, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs a changing one; its exception undoes it."""

    def sync(self) -> None:
        """Makes what was written durable."""

    def hold(self, ino: int) -> None:
        """This forwarder has the inode open."""

    def release(self, ino: int) -> None:
        """It has not any more."""

    def condemn(self, ino: int) -> Inode | None:
        """Makes an inode without a name gone for everybody; None if it has one, or a forwarder has it open."""

    def lock(self, space: int, ino: int, owner: int, lock: Lock) -> None:
        """Takes or gives back a lock; BlockingIOError when it is held."""

    def find_conflict(self, space: int, ino: int, owner: int, lock: Lock) -> Lock | None:
        """The lock in the way."""

    def unlock_owner(self, space: int, ino: int, owner: int) -> None:
        """Gives back an owner's locks on an inode."""

    def close(self) -> None:
        """Ends it."""


class Residents:
    """Which forwarders have which inodes open, and the locks. In memory: after a restart forwarders say it again."""

    def __init__(self) -> None:
        self.locks = LockTable()
        self._holders: dict[int, set[str]] = {}
        self._guard = threading.Lock()

    def hold(self, holder: str, ino: int) -> None:
        """A forwarder has an inode open."""
        with self._guard:
            self._holders.setdefault(ino, set()).add(holder)

    def release(self, holder: str, ino: int) -> None:
        """It has closed it."""
        with self._guard:
            holders = self._holders.get(ino)
            if holders is not None:
                holders.discard(holder)
                if not holders:
                    del self._holders[ino]

    def is_held(self, ino: int) -> bool:
        """Whether anybody has it open."""
        return ino in self._holders

    def drop(self, holder: str) -> None:
        """A forwarder is gone: its locks and holds are too."""
        self.locks.drop_holder(holder)
        with self._guard:
            for ino, holders in list(self._holders.items()):
                holders.discard(holder)
                if not holders:
                    del self._holders[ino]


class LocalStore:
    """A store in a directory of this machine, for one process."""

    shared = False

    def __init__(self, folder: str, *, map_size: int = 64 << 30, readonly: bool = False) -> None:
        self.environment = Environment(folder, map_size=map_size, readonly=readonly)
        self.readonly = readonly
        self.residents = Residents()
        self._dbs = self.environment.dbs
        self._begin = self.environment.env.begin
        self.fresh = False
        """Whether it has just been made."""
        self._next = 0
        self._reserved = 0
        self._reserving = False
        try:
            self.tree = self._prepare(folder, readonly)
        except BaseException as error:
            self.environment.close()
            if isinstance(error, OSError):
                what = f"the metadata store cannot be used: {error.strerror}"
                raise ForwardingError(what, where=folder, remedy="free space on its disk") from error
            raise

    def _prepare(self, folder: str, readonly: bool) -> str:
        facts = self._dbs[b"facts"]
        with self._begin() as txn:
            made, tree, reserved = (txn.get(key, db=facts) for key in (b"format", b"tree", b"reserved"))
        if made is None and readonly:
            raise ConfigError("an empty metadata store", where=folder, remedy="check `store` in the targets file")
        if made not in (None, FORMAT):
            what = f"format {made.decode(errors='replace')}, made by a newer fairlead"
            raise ConfigError(what, where=folder, remedy="update fairlead")
        if readonly:
            return (tree or b"").decode()
        self._next = self._reserved = FIRST_INODE if reserved is None else KEY.unpack(reserved)[0]
        if made is None:
            self.fresh = True
            tree = os.urandom(16).hex().encode()
            self.environment.write(lambda txn: self._begin_tree(txn, tree))
        self.environment.write(self._reserve)
        self.environment.sync()
        return (tree or b"").decode()

    def _begin_tree(self, txn: Any, tree: bytes) -> None:
        now = now_ns()
        root = Inode(ROOT_INODE, 0o40755, 2, os.geteuid(), os.getegid(), 4096, now, now, now, now, parent=ROOT_INODE)
        Records(txn, self._dbs, self._allocate).put(root)
        txn.put(b"format", FORMAT, db=self._dbs[b"facts"])
        txn.put(b"tree", tree, db=self._dbs[b"facts"])

    def _reserve(self, txn: Any) -> None:
        txn.put(b"reserved", KEY.pack(self._reserved + RESERVE), db=self._dbs[b"facts"])
        self._reserved += RESERVE

    def _allocate(self, txn: Any) -> int:
        if self._next >= self._reserved:
            self._reserve(txn)
            self._reserving = True
        self._next += 1
        return self._next - 1

    def read(self, act: Callable[Concatenate[Records, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs it in a read transaction."""
        return self.environment.read(lambda txn: act(Records(txn, self._dbs, self._allocate), *args, **kwargs))

    def write(self, act: Callable[Concatenate[Records, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs it in a write transaction."""
        result = self.environment.write(lambda txn: act(Records(txn, self._dbs, self._allocate), *args, **kwargs))
        if self._reserving:
            self._reserving = False
            self.environment.sync()
        return result

    def write_once(self, channel: bytes, number: int, act: Callable[[Records], bytes]) -> bytes:
        """Runs it unless request `number` of a channel was carried out before; its reply either way."""
        replies = self._dbs[b"replies"]

        def once(txn: Any) -> bytes:
            known = txn.get(channel, db=replies)
            if known is not None and KEY.unpack_from(known)[0] == number:
                return bytes(known[KEY.size :])
            reply = act(Records(txn, self._dbs, self._allocate))
            txn.put(channel, KEY.pack(number) + reply, db=replies)
            return reply

        result = self.environment.write(once)
        if self._reserving:
            self._reserving = False
            self.environment.sync()
        return result

    def forget_replies(self, channels: Sequence[bytes]) -> None:
        """Channels that ended in order repeat nothing."""
        replies = self._dbs[b"replies"]
        self.environment.write(lambda txn: [txn.delete(channel, db=replies) for channel in channels])

    def sync(self) -> None:
        """As `Environment.sync`."""
        self.environment.sync()

    def hold(self, ino: int) -> None:
        """This process has it open."""
        self.residents.hold("", ino)

    def release(self, ino: int) -> None:
        """It has closed it."""
        self.residents.release("", ino)

    def condemn(self, ino: int) -> Inode | None:
        """Checks and marks in one transaction: who holds it first and then looks is seen, or sees the mark."""
        return self.write(
            lambda records: None if self.residents.is_held(ino) else inode_data.condemn_inode(records, ino)
        )

    def lock(self, space: int, ino: int, owner: int, lock: Lock) -> None:
        """As `LockTable.take`."""
        self.residents.locks.take_lock(space, ino, owner, lock)

    def find_conflict(self, space: int, ino: int, owner: int, lock: Lock) -> Lock | None:
        """As `LockTable.conflicting`."""
        return self.residents.locks.find_conflict(space, ino, owner, lock)

    def unlock_owner(self, space: int, ino: int, owner: int) -> None:
        """As `LockTable.drop_owner`."""
        self.residents.locks.drop_owner(space, ino, owner)

    def close(self) -> None:
        """Syncs and closes."""
        self.environment.close()
