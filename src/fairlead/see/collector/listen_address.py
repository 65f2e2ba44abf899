"""Addresses a server listens on: `unix:PATH`, `tcp:HOST:PORT`, `tls:HOST:PORT`. Bound early, handed on to a child.

Not here: who may come (`admission`), TLS contexts (`access.tls`).
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from fairlead.core.errors import ConfigError, ServerError

BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Place:
    """One address. `path` of a unix socket, else `host` and `port` (0: any free one) and whether it speaks TLS."""

    text: str
    path: str = ""
    host: str = ""
    port: int = 0
    tls: bool = False


def parse_listen_address(text: str, where: str = "") -> Place:
    """The address `text`. Raises ConfigError."""
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest:
        return Place(text, path=rest)
    host, _, port = rest.rpartition(":")
    if kind in ("tcp", "tls") and host and port.isascii() and port.isdigit() and int(port) < 65536:
        return Place(text, host=host.strip("[]"), port=int(port), tls=kind == "tls")
    raise ConfigError(
        f"not an address: {text!r}", where=where, remedy="write unix:PATH, tcp:HOST:PORT or tls:HOST:PORT"
    )


def bind_listen_address(place: Place) -> socket.socket:
    """A listening socket. Raises ServerError."""
    try:
        if place.path:
            return _bind_unix(Path(place.path))
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        taken = "the address is in use: stop the other process, or choose another (--listen, --set api.listen=...)"
        raise ServerError(
            f"cannot listen: {error.strerror or error}",
            where=place.text,
            remedy=taken if error.errno == errno.EADDRINUSE else "check the address",
        ) from error
    return sock


def check_listen_address(place: Place) -> None:
    """Raises ServerError when somebody listens there, or nobody may: asked before long work. Nothing is made."""
    if not place.path:
        bind_listen_address(place).close()
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(place.path)
        except OSError:
            return
    raise ServerError("another server listens there", where=place.text, remedy="stop it, or use its pages")


def _bind_unix(path: Path) -> socket.socket:
    """Takes the place of a socket nobody listens on; whoever may reach the folder may connect (tokens decide)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink()
                else:
                    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        sock.bind(str(path))
        path.chmod(0o666)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def format_listen_address(place: Place, sock: socket.socket) -> str:
    """The address with the port that was given to it."""
    if place.path:
        return place.text
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{'tls' if place.tls else 'tcp'}:{host}:{sock.getsockname()[1]}"


def format_listen_url(address: str) -> str:
    """`http://...`, `https://...` or `unix:PATH` of a shown address."""
    kind, _, rest = address.partition(":")
    return address if kind == "unix" else f"{'https' if kind == 'tls' else 'http'}://{rest}"
