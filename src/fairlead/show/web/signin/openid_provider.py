"""An OpenID provider: where it is, sending somebody there, and what it says of who comes back (code flow with PKCE).

Nothing is kept here between the two: state, nonce and verifier are made of the browser's cookie with the server's key.
Not here: the cookie and the routes (`single_sign_on`), the check of what is signed (`id_token`).
"""

from __future__ import annotations

import base64
import hmac
import logging
import ssl
from collections.abc import Callable, Mapping
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import msgspec

from fairlead.core.clock import monotonic_s
from fairlead.core.errors import MissingDependencyError
from fairlead.show.web.signin.id_token import ForgedError, UnknownKeyError, check_id_token
from fairlead.show.web.web_settings import Oidc, read_web_secret

if TYPE_CHECKING:
    from httpx import AsyncClient, Response

_LOG = logging.getLogger("fairlead.people")
_KEPT_S = 3600.0
_KEYS_AGAIN_S = 30.0
_LARGEST = 1 << 20
_LOCAL = ("127.0.0.1", "::1", "localhost")


class ProviderError(Exception):
    """The provider cannot be asked, or does not answer as one; the text is for the log."""


class ProviderIdentity(msgspec.Struct, frozen=True):
    """Who the provider says came: what it knows him by, the name jobs are known by, and groups."""

    subject: str
    name: str
    groups: tuple[str, ...]


class Metadata(msgspec.Struct, frozen=True):
    """What of its own description is used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class Provider:
    """The provider of the settings; asked for what it says of itself when it is needed first, and every hour. Raises
    ConfigError, MissingDependencyError."""

    def __init__(self, oidc: Oidc, origin: str, key: bytes, wall: Callable[[], int]) -> None:
        try:
            import httpx  # noqa: F401
            import joserfc  # noqa: F401
        except ImportError:
            raise MissingDependencyError(
                "an OpenID provider needs httpx and joserfc",
                where="web.oidc.issuer",
                remedy="pip install 'fairlead[signin]'",
            ) from None
        self._oidc, self._key, self._wall = oidc, key, wall
        self.back = f"{origin.rstrip('/')}/api/v1/signin/oidc/callback"
        self._secret = (
            read_web_secret(oidc.client_secret_file, "web.oidc.client_secret_file") if oidc.client_secret_file else ""
        )
        self._tls = ssl.create_default_context(cafile=oidc.ca or None)
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, dict[str, Any]] | None = None

    def derive_secret(self, browser: str, what: str) -> str:
        """State, nonce or verifier of the sign-in that a browser's cookie is for."""
        made = blake2b(browser.encode(), key=self._key[:64], digest_size=32, person=what.encode()[:16]).digest()
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()

    async def build_address(self, browser: str) -> str:
        """Where somebody is sent to sign in. Raises ProviderError."""
        known = await self._known()
        challenge = sha256(self.derive_secret(browser, "verifier").encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._oidc.client_id,
            "redirect_uri": self.back,
            "scope": " ".join(self._oidc.scopes),
            "state": self.derive_secret(browser, "state"),
            "nonce": self.derive_secret(browser, "nonce"),
            "code_challenge_method": "S256",
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
        }
        return known.authorization_endpoint + ("&" if "?" in known.authorization_endpoint else "?") + urlencode(asked)

    async def verify_return(self, browser: str, answer: Mapping[str, str]) -> ProviderIdentity:
        """Who came back, with the parameters of the address he came to. Raises ProviderError, ForgedError."""
        if not hmac.compare_digest(answer.get("state", "").encode(), self.derive_secret(browser, "state").encode()):
            raise ForgedError("the state is not this browser's")
        known = await self._known()
        told = answer.get("iss")
        if told != self._oidc.issuer and (told is not None or known.authorization_response_iss_parameter_supported):
            raise ForgedError("another issuer answered")
        if "code" not in answer:
            raise ProviderError(f"it refused: {answer.get('error', 'no code')[:100]}")
        async with self._client() as client:
            held = await self._exchanged(client, known, answer["code"], self.derive_secret(browser, "verifier"))
            claims = await self._claims(
                client, known, str(held.get("id_token", "")), self.derive_secret(browser, "nonce")
            )
            subject = str(claims["sub"])
            wanted = (self._oidc.name_claim, self._oidc.groups_claim)
            if known.userinfo_endpoint and "access_token" in held and any(name not in claims for name in wanted):
                more = await self._userinfo(client, known, str(held["access_token"]))
                if more.get("sub") != subject:
                    raise ForgedError("userinfo is of somebody else")
                claims = {**more, **claims}
        return ProviderIdentity(
            subject, _name(claims, self._oidc.name_claim), _groups(claims.get(self._oidc.groups_claim))
        )

    def _client(self) -> AsyncClient:
        import httpx

        return httpx.AsyncClient(
            verify=self._tls,
            timeout=self._oidc.timeout_s,
            follow_redirects=False,
            trust_env=False,
            headers={"accept": "application/json"},
        )

    async def _known(self) -> Metadata:
        if self._metadata is not None and monotonic_s() - self._metadata[0] < _KEPT_S:
            return self._metadata[1]
        async with self._client() as client:
            said = await self._asked(client, "GET", self._oidc.issuer.rstrip("/") + "/.well-known/openid-configuration")
        try:
            known = msgspec.convert(said, Metadata)
        except msgspec.ValidationError as error:
            raise ProviderError(f"its description: {error}") from error
        if known.issuer != self._oidc.issuer:
            raise ProviderError(f"it calls itself {known.issuer!r}: write that as web.oidc.issuer")
        for url in filter(
            None,
            (
                known.authorization_endpoint,
                known.token_endpoint,
                known.jwks_uri,
                known.userinfo_endpoint,
            ),
        ):
            parts = urlsplit(url)
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
                raise ProviderError(f"its description names {url!r}: not encrypted")
        self._metadata = (monotonic_s(), known)
        return known

    async def _exchanged(self, client: AsyncClient, known: Metadata, code: str, verifier: str) -> dict[str, Any]:
        from httpx import BasicAuth

        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.back,
            "code_verifier": verifier,
        }
        auth = None
        if not self._secret:
            form["client_id"] = self._oidc.client_id
        elif "client_secret_basic" in known.token_endpoint_auth_methods_supported:
            from urllib.parse import quote_plus

            auth = BasicAuth(quote_plus(self._oidc.client_id), quote_plus(self._secret))
        else:
            form |= {"client_id": self._oidc.client_id, "client_secret": self._secret}
        return await self._asked(client, "POST", known.token_endpoint, data=form, auth=auth)

    async def _claims(self, client: AsyncClient, known: Metadata, text: str, nonce: str) -> dict[str, Any]:
        def read(keys: dict[str, Any]) -> dict[str, Any]:
            return check_id_token(
                text,
                keys,
                issuer=self._oidc.issuer,
                client=self._oidc.client_id,
                nonce=nonce,
                now_s=self._wall() // 10**9,
            )

        if self._keys is not None:
            try:
                return read(self._keys[1])
            except UnknownKeyError:
                if monotonic_s() - self._keys[0] < _KEYS_AGAIN_S:
                    raise
        self._keys = (monotonic_s(), await self._asked(client, "GET", known.jwks_uri))
        return read(self._keys[1])

    async def _userinfo(self, client: AsyncClient, known: Metadata, token: str) -> dict[str, Any]:
        return await self._asked(client, "GET", known.userinfo_endpoint, headers={"authorization": f"Bearer {token}"})

    async def _asked(self, client: AsyncClient, method: str, url: str, **more: Any) -> dict[str, Any]:
        """The JSON object that `url` answers with. Raises ProviderError."""
        from httpx import HTTPError, InvalidURL

        try:
            async with client.stream(method, url, **more) as answer:
                body = await _body(answer)
                status = answer.status_code
        except (HTTPError, InvalidURL, OSError) as fault:
            raise ProviderError(f"{url}: {type(fault).__name__}: {fault}") from fault
        try:
            said = msgspec.json.decode(body)
        except msgspec.DecodeError as fault:
            raise ProviderError(f"{url}: status {status}, no JSON") from fault
        if status != 200 or not isinstance(said, dict):
            why = said.get("error") if isinstance(said, dict) else ""
            raise ProviderError(f"{url}: status {status} {str(why or '')[:100]}")
        return said


async def _body(answer: Response) -> bytes:
    body = b""
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > _LARGEST:
            raise ProviderError("it answers too much")
    return body


def _name(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not value:
        raise ProviderError(f"it says no {claim}: see web.oidc.name_claim and web.oidc.scopes")
    if claim == "email" and claims.get("email_verified") is not True:
        raise ForgedError("the mail address is not verified")
    return value


def _groups(value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(one for one in listed if isinstance(one, str))[:2000]
