"""Where a forwarder listens: `unix:PATH`, `tls:HOST:PORT`, `tcp:HOST:PORT`; reading, connecting, listening.

`tcp:` is for this machine; beyond it, plain text is asked for by name: `tcp+plain:HOST:PORT`.

Not here: what is said on a connection (`handshake`, `frames`), certificates (`tls`).
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from fairlead.core.errors import RefusedError, UnreachableError, UsageError
from fairlead.steer.fs.wire.stream import widen_stream_buffers

BACKLOG = 1024
_PATH_BYTES = 107
"""Longest path of a unix socket (sun_path less its zero byte)."""
_REMEDY = "write unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"
TLS_REMEDY = (
    "use tls: (one command makes its certificates: fairlead token tls); in a network where nobody else can listen, "
    "ask for plain text by name: tcp+plain:HOST:PORT"
)


class Address(NamedTuple):
    """Where to listen or connect. `place` is the socket's path or the host; `port` is 0 for a unix socket."""

    kind: Literal["unix", "tcp", "tls", "tcp+plain"]
    place: str
    port: int = 0

    def __str__(self) -> str:
        if self.kind == "unix":
            return f"unix:{self.place}"
        host = f"[{self.place}]" if ":" in self.place else self.place
        return f"{self.kind}:{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Reads an address; UsageError when it is none."""
    kind, _, rest = text.partition(":")
    if kind == "unix":
        if not rest or "\0" in rest:
            raise UsageError("no path in this address", where=text, remedy=_REMEDY)
        return Address("unix", os.path.abspath(rest))
    if kind not in ("tcp", "tls", "tcp+plain"):
        raise UsageError("no such kind of address", where=text, remedy=_REMEDY)
    host, _, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError("no host and port in this address", where=text, remedy=_REMEDY)
    return Address(kind, host, int(port))  # type: ignore[arg-type]


def refuse_plain_token(address: Address) -> None:
    """Refuses an address where a token would cross a network in plain text without being asked for by name."""
    if address.kind == "tcp" and not is_local_address(address):
        raise RefusedError("a token would cross the network in plain text", where=str(address), remedy=TLS_REMEDY)


def is_local_address(address: Address) -> bool:
    """True when only this machine can reach it: a unix socket or a loopback address."""
    if address.kind == "unix" or address.place == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.place).is_loopback
    except ValueError:
        return False


def connect_address(
    address: Address, *, timeout_s: float, tls: ssl.SSLContext | None = None, whom: str = "forwarder"
) -> socket.socket:
    """A connected socket with `timeout_s` set; UnreachableError when nobody answers there.

    `tls`: what to trust when the address is `tls:` (`access.tls.build_tls_client_context`). `whom`: what an error calls
    it.
    """
    try:
        if address.kind == "unix":
            sock = _connect_unix(address.place, timeout_s)
        else:
            sock = socket.create_connection((address.place, address.port), timeout=timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        widen_stream_buffers(sock)
    except OSError as error:
        raise UnreachableError(
            f"no {whom} answers: {error.strerror or error}",
            where=str(address),
            remedy=f"check that the {whom} runs and that the address is right",
        ) from error
    if address.kind == "tls":
        return _secure(sock, address, tls)
    return sock


def _secure(sock: socket.socket, address: Address, tls: ssl.SSLContext | None) -> ssl.SSLSocket:
    if tls is None:
        from fairlead.core.access.tls import build_tls_client_context

        tls = build_tls_client_context()
    try:
        return tls.wrap_socket(sock, server_hostname=address.place)
    except ssl.SSLCertVerificationError as error:
        sock.close()
        raise RefusedError(
            f"the forwarder's certificate is not trusted: {error.verify_message}",
            where=str(address),
            remedy="give the certificate of the authority that signed it",
        ) from error
    except OSError as error:
        sock.close()
        raise UnreachableError(f"TLS failed: {error}", where=str(address), remedy="is it a tls: listener?") from error


def _connect_unix(path: str, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        with _short(path) as name:
            sock.connect(name)
    except OSError:
        sock.close()
        raise
    return sock


@contextmanager
def _short(path: str) -> Iterator[str]:
    """A name of `path` that fits into a socket address: long ones go through a descriptor of their folder."""
    if len(os.fsencode(path)) <= _PATH_BYTES:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def listen_on_address(address: Address) -> tuple[socket.socket, Address]:
    """A listening, non-blocking socket and its address (with the port the system chose for port 0).

    A unix socket nobody listens on any more is replaced, one that answers never: RefusedError.
    """
    try:
        sock = _listen_unix(address.place) if address.kind == "unix" else _listen_tcp(address)
    except OSError as error:
        raise RefusedError(
            f"cannot listen: {error.strerror or error}",
            where=str(address),
            remedy="choose another address, or end what listens there",
        ) from error
    sock.setblocking(False)
    if address.kind == "unix":
        return sock, address
    return sock, address._replace(port=sock.getsockname()[1])


def _listen_tcp(address: Address) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(
        address.place, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _listen_unix(path: str) -> socket.socket:
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two that start at once must not both find the old socket dead
        _remove_stale(path)
        with _short(path) as name:
            sock.bind(name)
        # Root serves everyone, each as who he is (peer credentials); others serve themselves and root.
        os.chmod(path, 0o666 if os.geteuid() == 0 else 0o600)
        sock.listen(BACKLOG)
    except (OSError, RefusedError):
        sock.close()
        raise
    finally:
        os.close(folder)
    return sock


def _remove_stale(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise RefusedError("there is a file that is no socket", where=path, remedy="choose another path")
    try:
        _connect_unix(path, 5.0).close()
    except OSError as error:
        if error.errno != errno.ECONNREFUSED:
            raise
        os.unlink(path)
        return
    raise RefusedError("another forwarder listens there", where=path, remedy="end it, or choose another path")
