"""The `[web]` table of the server's TOML file: who may sign in and how, how long that lasts, and what is too much.

Not here: what is done with them (`signin`, `people`, `guard`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.core.errors import ConfigError

_LOCAL = ("127.0.0.1", "::1", "localhost")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
TABLES = (
    "web.ldap.roles",
    "web.ldap.projects",
    "web.oidc.roles",
    "web.oidc.projects",
    "web.header.roles",
    "web.header.projects",
)
"""Settings that are tables of the site's own names: only a file can give them."""

RoleName = Literal["user", "support", "admin"]


class Mapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How groups somebody is in become a role and projects. Without `roles` the role is what an administrator gave;
    without `projects` and `project_prefix` so are the projects."""

    roles: dict[str, RoleName] = {}
    """Group → role; the highest counts, `user` when none fits."""
    projects: dict[str, str] = {}
    """Group → project."""
    project_prefix: str = ""
    """A group of this beginning is a project by the rest of its name."""
    domain: str = ""
    """`@domain` is cut off names: jobs are of `alice`, not of `alice@example.org`."""


class Ldap(Mapping, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[web.ldap]`: names and passwords of a directory."""

    url: str = ""
    """`ldaps://HOST[:PORT]` or `ldap://HOST[:PORT]`. Empty: no directory."""
    title: str = "Directory"
    """What the page calls it."""
    start_tls: bool = True
    """Whether an `ldap:` connection is encrypted before anything is said. Only to this machine it may be false."""
    ca: str = ""
    """Certificates (PEM) the directory's is checked with. Empty: the system's."""
    user: str = ""
    """DN of a person with `{name}` where the name goes. Empty: it is searched for below `base`."""
    base: str = ""
    """Where people are searched for."""
    filter: str = "(uid={name})"
    """How, with `{name}`."""
    bind: str = ""
    """DN that searches. Empty: nobody."""
    bind_password_file: str = ""
    """File with its password."""
    name: str = "uid"
    """Attribute with the name jobs are known by."""
    group_base: str = ""
    """Where groups are searched for. Empty: those the person's entry names in `memberOf`."""
    group_filter: str = "(|(member={dn})(uniqueMember={dn})(memberUid={name}))"
    """How, with `{dn}` and `{name}`."""
    group_name: str = "cn"
    """Attribute with the name of a group."""
    timeout_s: float = 5.0


class Oidc(Mapping, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[web.oidc]`: an OpenID provider."""

    issuer: str = ""
    """Its address, as it names itself. Empty: none."""
    title: str = "Single sign-on"
    client_id: str = ""
    """What it knows fairlead by."""
    client_secret_file: str = ""
    """File with the secret it gave. Empty: a public client (PKCE is used in any case)."""
    scopes: list[str] = msgspec.field(default_factory=lambda: ["openid", "profile", "email"])
    name_claim: str = "preferred_username"
    """Claim with the name jobs are known by."""
    groups_claim: str = "groups"
    ca: str = ""
    """Certificates (PEM) the provider's is checked with. Empty: the system's."""
    timeout_s: float = 10.0


class Header(Mapping, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[web.header]`: a portal in front that has let people in, and names them in a header."""

    name: str = ""
    """The header, as `X-Forwarded-User`. Empty: none is believed."""
    groups: str = ""
    """Header with groups, separated by commas."""
    secret_file: str = ""
    """File with a secret the portal sends as `X-Fairlead-Portal`. Wanted where others share its address."""


class Web(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[web]`: pages for people."""

    on: bool = True
    """Whether people may sign in; without, only tokens made with the server's key are taken."""
    origin: str = ""
    """Address people use (`https://fairlead.example.org`), where a proxy or a name stands in front."""
    proxies: list[str] = []
    """Addresses (or networks) of proxies whose word on a client's address is believed; `unix` for unix sockets."""
    local: bool = True
    """Whether accounts with a password of their own may sign in."""
    idle_h: float = 12.0
    """A sign-in unused for so long has ended."""
    longest_h: float = 168.0
    """One used all the time ends after so long."""
    link_days: float = 30.0
    """The longest a share link may last."""
    token_days: float = 365.0
    """The longest an API token may last."""
    audit_days: float = 400.0
    """How long the audit log is kept."""
    hash_memory_bytes: int = 64 << 20
    """Memory one password takes to be checked (Argon2id). Two are checked at a time."""
    hash_passes: int = 3
    simulated: bool = False
    """The lake is of a made machine: every page says so."""
    requests_per_minute: int = 3000
    """Of one session, token or link. 0: no limit."""
    address_requests_per_minute: int = 30_000
    """Of one address, whoever is behind it. 0: no limit."""
    ldap: Ldap = Ldap()
    oidc: Oidc = Oidc()
    header: Header = Header()


def check_web_settings(web: Web) -> None:
    """What the kinds alone do not say. Raises ConfigError."""
    if web.origin:
        parts = urlsplit(web.origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
            raise ConfigError(f"not an origin: {web.origin!r}", where="web.origin", remedy="write https://HOST[:PORT]")
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise ConfigError("passwords would travel unencrypted", where="web.origin", remedy="write https://...")
    parse_web_networks(web.proxies)
    if web.hash_memory_bytes < 8 << 20 or web.hash_passes < 1:
        raise ConfigError(
            "too little to hash passwords safely", where="web.hash_memory_bytes", remedy="at least 8 MiB and 1 pass"
        )
    if not 0 < web.idle_h <= web.longest_h:
        raise ConfigError("idle_h is above longest_h, or 0", where="web.idle_h", remedy="0 < idle_h <= longest_h")
    _ldap(web.ldap)
    _oidc(web)
    header = web.header
    if header.name:
        for name in filter(None, (header.name, header.groups)):
            if not _HEADER.fullmatch(name):
                raise ConfigError(f"not a header name: {name!r}", where="web.header", remedy="X-Forwarded-User")
        if not web.proxies:
            raise ConfigError(
                "a header from anyone would be trusted",
                where="web.header.name",
                remedy="name the portal's address in web.proxies",
            )


def _ldap(ldap: Ldap) -> None:
    if not ldap.url:
        return
    parts = urlsplit(ldap.url)
    if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or parts.path not in ("", "/"):
        raise ConfigError(
            f"not a directory address: {ldap.url!r}", where="web.ldap.url", remedy="write ldaps://HOST[:PORT]"
        )
    if parts.scheme == "ldap" and not ldap.start_tls and parts.hostname not in _LOCAL:
        raise ConfigError("passwords would travel unencrypted", where="web.ldap.start_tls", remedy="leave it true")
    if not ldap.user and not ldap.base:
        raise ConfigError(
            "the place of users is not set", where="web.ldap", remedy="set web.ldap.user or web.ldap.base"
        )
    for place, text in (("user", ldap.user), ("filter", ldap.filter)):
        if text and text.count("{name}") < 1:
            raise ConfigError("has no {name}", where=f"web.ldap.{place}", remedy="write {name} where the name goes")
    if not _ATTRIBUTE.fullmatch(ldap.name) or not _ATTRIBUTE.fullmatch(ldap.group_name):
        raise ConfigError("not an attribute name", where="web.ldap.name", remedy="such as uid, or cn for groups")
    if ldap.bind and not ldap.bind_password_file:
        raise ConfigError("has no password", where="web.ldap.bind", remedy="set web.ldap.bind_password_file")


def _oidc(web: Web) -> None:
    oidc = web.oidc
    if not oidc.issuer:
        return
    parts = urlsplit(oidc.issuer)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"not an issuer: {oidc.issuer!r}", where="web.oidc.issuer", remedy="write https://HOST/...")
    if parts.scheme == "http" and parts.hostname not in _LOCAL:
        raise ConfigError("its answers could be forged in transit", where="web.oidc.issuer", remedy="https://...")
    if not oidc.client_id:
        raise ConfigError("has no client_id", where="web.oidc.client_id", remedy="register fairlead with the provider")
    if not web.origin:
        raise ConfigError(
            "the return address of the provider is not set",
            where="web.origin",
            remedy="write the address people use, as https://HOST",
        )
    if "openid" not in oidc.scopes:
        raise ConfigError("openid is missing", where="web.oidc.scopes", remedy='["openid", ...]')


def parse_web_networks(texts: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """The networks among `web.proxies`. Raises ConfigError for what is none."""
    found = []
    for text in texts:
        if text == "unix":
            continue
        try:
            found.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise ConfigError(
                f"no address: {text!r}", where="web.proxies", remedy="such as 10.1.2.3 or 10.1.0.0/16"
            ) from None
    return found


def read_web_secret(file: str, where: str) -> str:
    """The one line of a file of a secret, which only its owner may read. Raises ConfigError."""
    path = Path(file)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"{file} can be read by others", where=where, remedy=f"chmod 600 {file}")
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=where, remedy="check path and owner") from error
    if not text:
        raise ConfigError(f"{file} is empty", where=where, remedy="write the secret into it")
    return text
