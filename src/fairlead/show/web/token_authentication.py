"""The door for tokens made with the server's key: readers (of one user, or of all) and operators.

Not here: accounts, sessions and tokens that can be taken back (`people`, `signin`).
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from starlette.requests import Request

from fairlead.core.access.tokens import OPERATOR, READER, RoleError, check_token
from fairlead.show.web.identity import ACT, ADMIN, READ, Person, RefusedError

_EVERYONE = Person(name="", role="admin", key="everyone", scopes=(READ, ACT, ADMIN), how="open")


class TokenDoor:
    """Lets in who holds a token made with `key`; everyone as administrator where it is None (a test, or a socket only
    its owner reaches)."""

    def __init__(self, key: bytes | None, clock: Callable[[], int]) -> None:
        self._key = key
        self._clock = clock

    def identify_person(self, request: Request) -> Person:
        """Whose token it is. Raises RefusedError 401, 403."""
        if self._key is None:
            return _EVERYONE
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            token = token.strip() if kind.lower() == "bearer" else ""
            claims = check_token(self._key, token, self._clock(), (READER, OPERATOR))
        except RoleError as error:
            remedy = "ask for a reader's token: fairlead token issue --role reader"
            raise RefusedError(403, str(error), remedy) from None
        except ValueError as error:
            headers = {"www-authenticate": 'Bearer realm="fairlead"'}
            raise RefusedError(401, str(error), "send Authorization: Bearer TOKEN", headers) from None
        key = blake2b(token.encode(), digest_size=8).hexdigest()
        if claims.role == OPERATOR:
            return Person(name=claims.user, role="admin", key=key, scopes=(READ, ACT, ADMIN))
        return Person(name=claims.user, role="user" if claims.user else "support", key=key)
