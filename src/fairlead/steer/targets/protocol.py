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
from fairlead.steer.targets import inode_data, namespace
from fairlead.steer.targets.inode import Inode
from fairlead.steer.targets.records import Records

LENGTH = Struct("<I")
MAX_CALL = 64 << 20
TRANSACTIONS: dict[str, Callable[..., Any]] = {
    "get": namespace.get_namespace_inode,
    "lookup": namespace.look_up_namespace,
    "make": namespace.create_namespace_entry,
    "temporary": namespace.create_outside_namespace,
    "link": namespace.link_namespace_entry,
    "unlink": namespace.unlink_namespace_entry,
    "rmdir": namespace.remove_namespace_directory,
    "rename": namespace.rename_namespace_entry,
    "entries": namespace.list_namespace_entries,
    "get_attribute": namespace.get_namespace_attribute,
    "set_attribute": namespace.set_namespace_attribute,
    "remove_attribute": namespace.remove_namespace_attribute,
    "attribute_names": namespace.list_namespace_attributes,
    "set_layout": namespace.set_namespace_layout,
    "change": namespace.change_namespace_inode,
    "assign": inode_data.assign_inode_layout,
    "made": inode_data.record_inode_objects,
    "lose": inode_data.drop_inode_objects,
    "written": inode_data.record_inode_write,
    "resize": inode_data.resize_inode,
    "resized": inode_data.finish_inode_resize,
    "orphans": inode_data.list_orphan_inodes,
    "find": inode_data.find_inode,
    "reclaim": inode_data.reclaim_inode,
    "keep": inode_data.keep_inode,
    "listed": inode_data.list_inodes,
    "drop_name": inode_data.drop_inode_name,
    "relink": inode_data.set_inode_links,
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


def _hold_inode(ino: int) -> None:
    """See `Store.hold`."""


def _release_inode(ino: int) -> None:
    """See `Store.release`."""


def _condemn_inode(ino: int) -> Inode | None:
    """See `Store.condemn`."""


def _lock_range(space: int, ino: int, owner: int, lock: Lock, again: bool) -> None:
    """See `Store.lock`. `again`: it was held before the service was started again."""


def _find_conflict(space: int, ino: int, owner: int, lock: Lock) -> Lock | None:
    """See `Store.conflicting`."""


def _unlock_owner(space: int, ino: int, owner: int) -> None:
    """See `Store.unlock_owner`."""


def _sync_store() -> None:
    """See `Store.sync`."""


def _leave_service() -> None:
    """The channel ends in order."""


IN_MEMORY: dict[str, Callable[..., Any]] = {
    "hold": _hold_inode,
    "release": _release_inode,
    "condemn": _condemn_inode,
    "lock": _lock_range,
    "conflicting": _find_conflict,
    "unlock_owner": _unlock_owner,
    "sync": _sync_store,
    "leave": _leave_service,
}
"""Calls that are no transactions, by their names on the wire; only their shapes are here."""


@cache
def build_protocol_calls() -> dict[str, Call]:
    """All calls by name."""
    calls = {name: _build_call(name, act, 1) for name, act in TRANSACTIONS.items()}
    return calls | {name: _build_call(name, act, 0) for name, act in IN_MEMORY.items()}


def _build_call(name: str, act: Callable[..., Any], skip: int) -> Call:
    hints = get_type_hints(act, globalns={**vars(namespace), **vars(inode_data), **globals(), "Records": Records})
    result = hints.pop("return")
    shapes = tuple(hints[parameter] for parameter in list(signature(act).parameters)[skip:])
    arguments: Any = tuple[shapes] if shapes else tuple[()]  # type: ignore[valid-type]
    return Call(name, act, name in READING, msgspec.msgpack.Decoder(arguments), msgspec.msgpack.Decoder(result))


def send_protocol_frame(sock: socket.socket, message: bytes) -> None:
    """Sends one frame."""
    sock.sendall(LENGTH.pack(len(message)) + message)


def receive_protocol_frame(sock: socket.socket) -> bytearray:
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
