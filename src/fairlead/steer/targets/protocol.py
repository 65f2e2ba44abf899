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
READING = frozenset(
    {
        namespace.get,
        namespace.lookup,
        namespace.entries,
        namespace.get_attribute,
        namespace.attribute_names,
        sizes.find,
        sizes.listed,
        sizes.orphans,
    }
)
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

    act: Callable[..., Any]
    reads: bool
    arguments: msgspec.msgpack.Decoder[Any]
    result: msgspec.msgpack.Decoder[Any]


def hold(ino: int) -> None:
    """See `Store.hold`."""


def release(ino: int) -> None:
    """See `Store.release`."""


def condemn(ino: int) -> Inode | None:
    """See `Store.condemn`."""


def lock(space: int, ino: int, owner: int, lock: Lock, again: bool) -> None:
    """See `Store.lock`. `again`: it was held before the service was started again."""


def conflicting(space: int, ino: int, owner: int, lock: Lock) -> Lock | None:
    """See `Store.conflicting`."""


def unlock_owner(space: int, ino: int, owner: int) -> None:
    """See `Store.unlock_owner`."""


def sync() -> None:
    """See `Store.sync`."""


def leave() -> None:
    """The channel ends in order."""


IN_MEMORY = {act.__name__: act for act in (hold, release, condemn, lock, conflicting, unlock_owner, sync, leave)}
"""Calls that are no transactions, by name; only their shapes are here."""


@cache
def build_call_table() -> dict[str, Call]:
    """All calls by name."""
    made = {}
    for module in (namespace, sizes):
        for act in vars(module).values():
            if (
                callable(act)
                and act is not sizes.condemn
                and getattr(act, "__module__", "") == module.__name__
                and _is_transaction(act)
            ):
                made[act.__name__] = _call(act, 1)
    made |= {name: _call(act, 0) for name, act in IN_MEMORY.items()}
    return made


def _is_transaction(act: Any) -> bool:
    if act.__name__.startswith("_") or isinstance(act, type):
        return False
    return next(iter(signature(act).parameters), "") == "records"


def _call(act: Callable[..., Any], skip: int) -> Call:
    hints = get_type_hints(act, globalns={**vars(namespace), **vars(sizes), **globals(), "Records": Records})
    result = hints.pop("return")
    shapes = tuple(hints[name] for name in list(signature(act).parameters)[skip:])
    arguments: Any = tuple[shapes] if shapes else tuple[()]  # type: ignore[valid-type]
    return Call(act, act in READING, msgspec.msgpack.Decoder(arguments), msgspec.msgpack.Decoder(result))


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
