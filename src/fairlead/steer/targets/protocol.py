"""What forwarders and the metadata service say to each other after the handshake of `wire`. Layout only.

A frame is its length (4 bytes) and msgpack. A request: number, name of the call, arguments. A reply: number, errno (0:
done), then the result or the message of the error. A forwarder's channel:

    Hello ──► open ── call n ──► carried out, reply n kept ──► reply sent ──► open
               │                          ▲
               │   connection lost, same session: call n again ── reply n kept: sent again
               └── `leave` ──► closed: its kept replies are dropped

    last channel of a forwarder closed by `leave` ──► its locks and holds are released
                                lost ──► locks after LOCKS_KEPT_S, holds after HOLDS_KEPT_S

Invariant: a call that changes something and its reply are one transaction, so call n is carried out at most once.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import cache
from inspect import signature
from struct import Struct
from typing import Any, NamedTuple, get_type_hints

import msgspec

from fairlead.steer.fs.trees.base import Lock
from fairlead.steer.targets import namespace, sizes
from fairlead.steer.targets.inode import Inode
from fairlead.steer.targets.records import Records

LENGTH = Struct("<I")
MAX_CALL = 64 << 20
TRANSACTIONS: dict[str, Callable[..., Any]] = {
    "get": namespace.read_inode,
    "lookup": namespace.lookup_name,
    "make": namespace.make_inode,
    "temporary": namespace.make_nameless_inode,
    "link": namespace.link_inode,
    "unlink": namespace.unlink_name,
    "rmdir": namespace.remove_directory,
    "rename": namespace.rename_entry,
    "entries": namespace.list_entries,
    "get_attribute": namespace.get_attribute,
    "set_attribute": namespace.set_attribute,
    "remove_attribute": namespace.remove_attribute,
    "attribute_names": namespace.list_attribute_names,
    "set_layout": namespace.set_layout,
    "change": namespace.change_attributes,
    "assign": sizes.assign_layout,
    "made": sizes.record_objects,
    "lose": sizes.drop_objects,
    "written": sizes.record_write,
    "resize": sizes.resize_file,
    "resized": sizes.finish_resize,
    "orphans": sizes.list_orphans,
    "find": sizes.find_inode,
    "reclaim": sizes.reclaim_inode,
    "keep": sizes.keep_inode,
    "listed": sizes.list_inodes,
    "drop_name": sizes.drop_name,
    "relink": sizes.set_link_count,
}
"""Calls that are transactions, by their names on the wire."""
NAMES = {act: name for name, act in TRANSACTIONS.items()}
READING = frozenset({"get", "lookup", "entries", "get_attribute", "attribute_names", "find", "listed", "orphans"})
"""Transactions that change nothing."""
encode = msgspec.msgpack.Encoder().encode


class Request(msgspec.Struct, array_like=True):
    """A call."""

    number: int
    name: str
    arguments: msgspec.Raw


class Reply(msgspec.Struct, array_like=True):
    """Its answer."""

    number: int
    error: int
    result: msgspec.Raw


class Call(NamedTuple):
    """A transaction as it travels."""

    name: str
    act: Callable[..., Any]
    reads: bool
    arguments: msgspec.msgpack.Decoder[Any]
    result: msgspec.msgpack.Decoder[Any]


def hold_inode(ino: int) -> None:
    """See `Store.hold`."""


def release_inode(ino: int) -> None:
    """See `Store.release`."""


def condemn_inode(ino: int) -> Inode | None:
    """See `Store.condemn`."""


def lock_range(space: int, ino: int, owner: int, lock: Lock, again: bool) -> None:
    """See `Store.lock`. `again`: it was held before the service was started again."""


def find_conflict(space: int, ino: int, owner: int, lock: Lock) -> Lock | None:
    """See `Store.conflicting`."""


def unlock_owner(space: int, ino: int, owner: int) -> None:
    """See `Store.unlock_owner`."""


def sync_store() -> None:
    """See `Store.sync`."""


def leave_service() -> None:
    """The channel ends in order."""


IN_MEMORY: dict[str, Callable[..., Any]] = {
    "hold": hold_inode,
    "release": release_inode,
    "condemn": condemn_inode,
    "lock": lock_range,
    "conflicting": find_conflict,
    "unlock_owner": unlock_owner,
    "sync": sync_store,
    "leave": leave_service,
}
"""Calls that are no transactions, by their names on the wire; only their shapes are here."""


@cache
def build_call_table() -> dict[str, Call]:
    """All calls by name."""
    calls = {name: _build_call(name, act, 1) for name, act in TRANSACTIONS.items()}
    return calls | {name: _build_call(name, act, 0) for name, act in IN_MEMORY.items()}


def _build_call(name: str, act: Callable[..., Any], skip: int) -> Call:
    hints = get_type_hints(act, globalns={**vars(namespace), **vars(sizes), **globals(), "Records": Records})
    result = hints.pop("return")
    shapes = tuple(hints[parameter] for parameter in list(signature(act).parameters)[skip:])
    arguments: Any = tuple[shapes] if shapes else tuple[()]  # type: ignore[valid-type]
    return Call(name, act, name in READING, msgspec.msgpack.Decoder(arguments), msgspec.msgpack.Decoder(result))


def send_frame(sock: socket.socket, message: bytes) -> None:
    """Sends one frame."""
    sock.sendall(LENGTH.pack(len(message)) + message)


def receive_frame(sock: socket.socket) -> bytearray:
    """One frame; ConnectionError when the other side has ended or sends nonsense."""
    (length,) = LENGTH.unpack(_exactly(sock, LENGTH.size))
    if length > MAX_CALL:
        raise ConnectionResetError(f"a frame of {length} bytes")
    return _exactly(sock, length)


def _exactly(sock: socket.socket, length: int) -> bytearray:
    buffer = bytearray(length)
    view = memoryview(buffer)
    while view:
        got = sock.recv_into(view)
        if not got:
            raise ConnectionResetError("the connection was closed")
        view = view[got:]
    return buffer
