"""What an OpenID provider signed about somebody, checked: signature, issuer, audience, times, nonce.

Not here: fetching it (`openid_provider`).
"""

from __future__ import annotations

import hmac
from typing import Any

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
"""Signatures with a key of the provider's own. `none` and those with a shared secret are none."""
LEEWAY_S = 120
"""Clocks of two machines may differ so much."""
_OLDEST_S = 3600


class ForgedError(Exception):
    """It is not what the provider says to us about this sign-in. The text is for the log."""


class UnknownKeyError(ForgedError):
    """It is signed with a key that is not among those known: they may have been renewed."""


def check_id_token(
    text: str, keys: dict[str, Any], *, issuer: str, client: str, nonce: str, now_s: int, alg: str | None = None
) -> dict[str, Any]:
    """The claims of an ID token. `keys`: the provider's (JWKS); `alg`: the one it was agreed on. Raises ForgedError."""
    from joserfc import jwt
    from joserfc.errors import InvalidKeyIdError, JoseError
    from joserfc.jwk import KeySet
    from joserfc.jws import JWSRegistry

    allowed = [alg] if alg in ALGORITHMS else list(ALGORITHMS)
    usable = [key for key in keys.get("keys", []) if _signs(key)]
    try:
        known = KeySet.import_key_set({"keys": usable})
        token = jwt.decode(text, known, algorithms=allowed, registry=JWSRegistry(algorithms=allowed))
    except InvalidKeyIdError as error:
        raise UnknownKeyError("signed with an unknown key") from error
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise ForgedError(f"signature: {type(error).__name__}: {error}") from error
    claims = token.claims
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    told = claims.get("nonce")
    for right, what in (
        (claims.get("iss") == issuer, "another issuer"),
        (client in audiences, "for another client"),
        (len(audiences) == 1 or claims.get("azp") == client, "for several clients, and asked for by another"),
        ("azp" not in claims or claims["azp"] == client, "asked for by another client"),
        (isinstance(told, str) and hmac.compare_digest(told.encode(), nonce.encode()), "of another sign-in (nonce)"),
        (isinstance(claims.get("sub"), str) and claims["sub"], "about nobody (sub)"),
        (_number(claims, "exp") + LEEWAY_S > now_s, "over (exp)"),
        (now_s - _OLDEST_S < _number(claims, "iat") < now_s + LEEWAY_S, "too old, or of the future (iat)"),
        ("nbf" not in claims or _number(claims, "nbf") < now_s + LEEWAY_S, "not good yet (nbf)"),
    ):
        if not right:
            raise ForgedError(what)
    return dict(claims)


def _signs(key: Any) -> bool:
    """Whether a key is a public one for signatures: a shared secret among them would let anybody sign."""
    return isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"


def _number(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")
