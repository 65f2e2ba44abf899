"""Which tokens of a key were issued and which were revoked: two files beside the key.

`KEY.issued` is for people (`fairlead token list`). `KEY.revoked` is what forwarders read: one id a line, then when, and
anything; what a forwarder cannot read revokes nothing new, and gives back nothing that was revoked.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import msgspec

from fairlead.core.access.tokens import Claims
from fairlead.core.errors import InputError

log = logging.getLogger("fairlead.tokens")
_LINE = re.compile(r"([0-9a-f]{16})(\s.*)?")
_COPY = "copy it again from where the tokens are made, or `fairlead token revoke` there"


class IssuedToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token as it was issued. Times in seconds since the epoch; `until_s`: the end of its last renewal."""

    id: str
    issued_s: int
    expires_s: int
    until_s: int = 0
    uid: int = -1
    any_user: bool = False
    job: str = ""


def _beside(key: Path, ending: str) -> Path:
    return key.with_name(key.name + ending)


def append_issued_token(key: Path, claims: Claims, now_s: int) -> None:
    """Notes a token that is issued. InputError when it cannot: a token nobody can find again is not made."""
    line = msgspec.json.encode(
        IssuedToken(claims.id, now_s, claims.expires_s, claims.until_s, claims.uid, claims.any_user, claims.job)
    )
    _append(_beside(key, ".issued"), line + b"\n", 0o600)


def list_issued_tokens(key: Path) -> list[IssuedToken]:
    """The tokens that were issued, oldest first. InputError for a file that cannot be read."""
    path = _beside(key, ".issued")
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=IssuedToken) for line in lines if line]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path), remedy="restore or remove the file") from error


def revoke_token(key: Path, token_id: str, now_s: int) -> None:
    """Revokes a token and all its renewals, at every forwarder that reads this file."""
    _append(_beside(key, ".revoked"), f"{token_id} {now_s}\n".encode(), 0o644)


def read_revoked_tokens(key: Path) -> frozenset[str]:
    """Ids that were revoked. InputError when the file cannot be read or has a line that is none."""
    path = _beside(key, ".revoked")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return frozenset()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the revoked tokens cannot be read: {error}", where=str(path), remedy=_COPY) from error
    ids = set()
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line.strip())
        if match is not None:
            ids.add(match[1])
        elif line.strip() and not line.startswith("#"):
            raise InputError("not the id of a token", where=f"{path}:{number}", remedy=_COPY)
    return frozenset(ids)


class RevokedTokens:
    """Ids that were revoked, read again when the file has changed. Refuses to begin with a file it cannot read."""

    def __init__(self, key: Path | None) -> None:
        self._key = key
        self._said = ""
        self.ids = frozenset[str]() if key is None else read_revoked_tokens(key)
        self._stamp = self._find_stamp()

    def _find_stamp(self) -> tuple[int, int, int] | None:
        if self._key is None:
            return None
        try:
            found = _beside(self._key, ".revoked").stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def refresh(self) -> bool:
        """Looks at the file; true when more is revoked than before. Nothing is given back while this runs."""
        stamp = self._find_stamp()
        if stamp is None or stamp == self._stamp or self._key is None:
            return False
        try:
            found = self.ids | read_revoked_tokens(self._key)
        except InputError as error:  # half copied: looked at again
            if str(error) != self._said:
                self._said = str(error)
                log.warning("%s", error)
            return False
        self._stamp = stamp
        more = found != self.ids
        self.ids = found
        return more


def _append(path: Path, line: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}",
            where=str(path),
            remedy="run it as the owner of the key, where the key is",
        ) from error
