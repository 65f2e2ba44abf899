"""Where a request is from and under which address it came: what cookies, limits and the log go by.

A proxy is believed only when `web.proxies` names it. Not here: who asks (`signin.authenticate`).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import Scope

from fairlead.show.web.web_settings import Web, parse_web_networks

SECURE_COOKIE, PLAIN_COOKIE = "__Host-fairlead", "fairlead"
UNIX = "unix"


@dataclass(frozen=True, slots=True)
class Place:
    """`address` of the client (`unix` for a unix socket); `by_proxy`: a proxy of the settings sent it on; `secure`: it
    travelled encrypted, or does up to the proxy; `here`: the client is on this machine; `origin` it was sent to."""

    address: str
    by_proxy: bool
    secure: bool
    here: bool
    origin: str
    at_origin: bool
    """Whether it was sent to `web.origin` (True where that is not set)."""

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return SECURE_COOKIE if self.secure else PLAIN_COOKIE

    @property
    def private(self) -> bool:
        """Whether a password may travel so."""
        return self.secure or self.here


class Places:
    """Made once of the settings."""

    def __init__(self, web: Web) -> None:
        self._networks = parse_web_networks(web.proxies)
        self._unix = UNIX in web.proxies
        self._origin = web.origin.rstrip("/").lower()
        self._host = urlsplit(self._origin).netloc

    def find_place(self, scope: Scope) -> Place:
        """Where this request is from."""
        client = scope.get("client")
        peer = client[0] if client and client[0] else UNIX
        by_proxy = self._is_proxy(peer)
        address = self._forwarded(scope) or peer if by_proxy else peer
        host = (find_client_header(scope, b"host") or "").lower()
        at_origin = not self._origin or host == self._host or (by_proxy and peer == UNIX)
        scheme = scope.get("scheme", "http")
        secure = scheme == "https" or (
            self._origin.startswith("https:") and (at_origin or by_proxy)
        )  # the proxy, or the name in front, speaks TLS
        origin = self._origin if self._origin and (at_origin or by_proxy) else f"{scheme}://{host}"
        return Place(address, by_proxy, secure, not by_proxy and _is_here(peer), origin, at_origin)

    def _is_proxy(self, peer: str) -> bool:
        if peer == UNIX:
            return self._unix
        if not self._networks:
            return False
        found = _parsed(peer)
        return found is not None and any(found in network for network in self._networks)

    def _forwarded(self, scope: Scope) -> str:
        """The last address of X-Forwarded-For that is no proxy of ours: what stands before it anybody may have
        written."""
        for value in reversed(list_client_headers(scope, b"x-forwarded-for")):
            for text in reversed(value.split(",")):
                found = _parsed(text.strip())
                if found is None:
                    return ""
                if not any(found in network for network in self._networks):
                    return str(found)
        return ""


def list_client_headers(scope: Scope, name: bytes) -> list[str]:
    """All values of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def find_client_header(scope: Scope, name: bytes) -> str | None:
    """The value of a header; None where it is absent or given twice."""
    found = list_client_headers(scope, name)
    return found[0] if len(found) == 1 else None


def find_client_cookie(scope: Scope, name: str) -> str | None:
    """The value of a cookie; None where it is absent, or given with several values (one of them is somebody else's)."""
    found = set()
    for line in list_client_headers(scope, b"cookie"):
        for part in line.split(";"):
            key, equals, value = part.strip().partition("=")
            if equals and key == name:
                found.add(value)
    return found.pop() if len(found) == 1 else None


def map_client_to_network(address: str) -> str:
    """What limits count an address as: of IPv6 the network of 64 bits, in which a client takes any it likes."""
    found = _parsed(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return address if found is None else str(found)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_here(peer: str) -> bool:
    if peer == UNIX:
        return True
    found = _parsed(peer)
    return found is not None and found.is_loopback
