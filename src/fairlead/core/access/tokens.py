"""Tokens: what a service that listens on a network (forwarder, server) wants to see before it serves anyone.

A token is `base64(JSON claims).base64(HMAC-SHA256)`; whoever has the key can make them, nobody else. It is a bearer's:
send it over `tls:` where the network is not trusted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from fairlead.core.errors import InputError, RefusedError

KEY_BYTES = 32
MOUNT, AGENT, READER, OPERATOR, JOB = "", "agent", "reader", "operator", "job"
ROLES = (MOUNT, AGENT, READER, OPERATOR, JOB)
"""Of mounts at forwarders; of those who send records to a server, of those who ask it, of those who do both; a job's
claim, which a prolog signs and which opens nothing."""
_MAX_TOKEN = 4096
_MAKE = "make one: fairlead token make-key FILE"
HOW_TO_GET_ONE = (
    "make one with the forwarders' key (fairlead token issue --key FILE --user NAME) and give it with --token FILE"
)
"""For a client whose token is refused."""
_SECOND_NS = 1_000_000_000


_ROLE_WORDS = {
    MOUNT: "for mounts",
    AGENT: "an agent's",
    READER: "a reader's",
    OPERATOR: "an operator's",
    JOB: "a job's",
}


class RoleError(ValueError):
    """A valid token, of another role than is needed here."""


class Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token entitles to. `expires_s`: seconds since the epoch."""

    expires_s: int
    job: str = ""
    """May announce this job only; empty: any."""
    uid: int = -1
    """May act as this user only; -1: no user, which is worth nothing without `any_user`."""
    role: str = MOUNT
    """What it is for, one of `ROLES`: a token for one thing opens nothing else."""
    node: str = ""
    """`agent`: may send records of this node only; empty: of any."""
    user: str = ""
    """`reader`: sees jobs of this user only; empty: all."""
    any_user: bool = False
    """May act as any user: it was spelled out when the token was made."""
    id: str = ""
    """What a revocation names; a renewed token keeps it. Empty (older releases): see `get_token_id`."""
    life_s: int = 0
    """How long it was valid when it was made, and each renewal is."""
    until_s: int = 0
    """May be renewed, but never beyond this time; 0: may not."""


def make_token_key(path: Path) -> None:
    """Writes a new secret to a file only its owner can read; never over an existing one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise RefusedError(
            "the file is already there", where=str(path), remedy="remove it first; this invalidates its tokens"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}",
            where=str(path),
            remedy="choose an existing directory you may write to",
        ) from error
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(os.urandom(KEY_BYTES).hex() + "\n")


def read_token_key(path: Path) -> bytes:
    """The secret of a key file; refused when others can read it."""
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(4096)
    except OSError as error:
        what = f"the key cannot be read: {error.strerror}"
        raise InputError(what, where=str(path), remedy="check the path, or " + _MAKE) from error
    except UnicodeDecodeError as error:
        raise InputError("not a token key", where=str(path), remedy=_MAKE) from error
    if mode & 0o077:
        raise RefusedError("others can read this key", where=str(path), remedy=f"chmod 600 {path}")
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) < KEY_BYTES:
        raise InputError("not a token key", where=str(path), remedy=_MAKE)
    return key


def issue_token(key: bytes, claims: Claims) -> str:
    """A token with these claims."""
    text = msgspec.json.encode(claims)
    return f"{_wrap(text)}.{_wrap(_sign(key, text, with_role=claims.role != MOUNT))}"


def generate_token_id() -> str:
    """A new token's id."""
    return os.urandom(8).hex()


def get_token_id(token: str, claims: Claims) -> str:
    """The id by which a checked token is revoked."""
    return claims.id or hashlib.sha256(token.encode("ascii")).hexdigest()[:16]


def read_token_claims(token: str) -> Claims:
    """What a token says of itself, unchecked (its bearer has no key); ValueError when it is none."""
    try:
        return msgspec.json.decode(_unwrap(token.partition(".")[0]), type=Claims)
    except (binascii.Error, ValueError):
        raise ValueError("not a token") from None


def renew_token(key: bytes, claims: Claims, now_ns: int) -> str:
    """A fresh token of the same id, user and scope, valid as long again; ValueError when its maximum age is reached."""
    now_s = now_ns // _SECOND_NS
    expires_s = min(now_s + claims.life_s, claims.until_s)
    if expires_s <= claims.expires_s:
        raise ValueError("the token cannot be renewed any more")
    return issue_token(key, msgspec.structs.replace(claims, expires_s=expires_s))


def check_token(key: bytes, token: str, now_ns: int, roles: Collection[str] = (MOUNT,)) -> Claims:
    """The claims of a valid token of one of `roles`; ValueError with the reason (never with the token) otherwise, its
    subclass `RoleError` when only the role is wrong."""
    if not token:
        raise ValueError("a token is needed")
    if len(token) > _MAX_TOKEN or not token.isascii():
        raise ValueError("the token is not valid")
    body, _, signature = token.partition(".")
    try:
        text = _unwrap(body)
        signed = _unwrap(signature)
    except (binascii.Error, ValueError):
        raise ValueError("the token is not valid") from None
    of_mount = hmac.compare_digest(signed, _sign(key, text, with_role=False))
    if not of_mount and not hmac.compare_digest(signed, _sign(key, text, with_role=True)):
        raise ValueError("the token is not valid")
    try:
        claims = msgspec.json.decode(text, type=Claims)
    except msgspec.DecodeError:
        raise ValueError("the token is not valid") from None
    if of_mount != (claims.role == MOUNT):
        raise ValueError("the token is not valid")
    if now_ns >= claims.expires_s * _SECOND_NS:
        raise ValueError("the token has expired")
    if claims.role not in roles:
        raise RoleError(f"the token is {_said(claims.role)}, not {' or '.join(_said(role) for role in roles)}")
    return claims


def _said(role: str) -> str:
    return _ROLE_WORDS.get(role, "of a role unknown to this version")


def _sign(key: bytes, text: bytes, *, with_role: bool) -> bytes:
    """A forwarder that knows no roles yet must not take a token with one: they are signed apart."""
    return hmac.digest(key, (b"fairlead token 2\0" if with_role else b"fairlead token 1\0") + text, "sha256")


def _wrap(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unwrap(text: str) -> bytes:
    if "+" in text or "/" in text:  # the decoder would take them for "-" and "_"
        raise ValueError(text)
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
