"""What routes of people take and give: strict bodies of bounded size, answers, and errors as everywhere in the API."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from fairlead.core.errors import FairleadError, UsageError
from fairlead.core.safe_text import escape_undecodable_text
from fairlead.show.web.identity import RefusedError, Role
from fairlead.show.web.people.accounts import Way
from fairlead.show.web.people.passwords import CrowdedError
from fairlead.show.web.people.store import ConflictError, NobodyError

MOST_BYTES = 16384
_LOG = logging.getLogger("fairlead.people")
_T = TypeVar("_T")
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
Endpoint = Callable[[Request], Awaitable[Response]]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class SignIn(_Strict, frozen=True, kw_only=True):
    """`POST /session`: a name and password, or a welcome key."""

    name: str = ""
    password: str = ""
    way: Way | None = None
    welcome: str = ""


class NewPassword(_Strict, frozen=True, kw_only=True):
    """`POST /session/password`."""

    new: str
    old: str = ""


class NewLink(_Strict, frozen=True, kw_only=True):
    """`POST /links`. `start_ns`: which run of a number that was used again; the latest where it is not said."""

    job: str
    cluster: str | None = None
    start_ns: int | None = None
    days: float = 7.0


class NewToken(_Strict, frozen=True, kw_only=True):
    """`POST /tokens`."""

    title: str
    scopes: tuple[str, ...] = ("read",)
    days: float = 90.0


class NewAccount(_Strict, frozen=True, kw_only=True):
    """`POST /accounts`."""

    name: str
    role: Role = "user"
    way: Way = "local"
    projects: tuple[str, ...] = ()
    password: str | None = None


class Changes(_Strict, frozen=True, kw_only=True):
    """`PATCH /accounts/NAME`: what is not said stays."""

    role: Role | None = None
    way: Way | None = None
    projects: tuple[str, ...] | None = None
    disabled: bool | None = None
    password: str | None = None


async def read_body(request: Request, kind: type[_T]) -> _T:
    """The body of a request. Raises RefusedError 400, 413."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(400, "the body is not declared as JSON", "send Content-Type: application/json")
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MOST_BYTES:
            raise RefusedError(413, f"the body is larger than {MOST_BYTES} bytes")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"the body is not valid: {error}", "see the API's description") from None


def parse_request_number(request: Request, name: str, default: int | None, least: int, most: int) -> int | None:
    """A whole number of the query string. Raises RefusedError 400."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and least <= int(text) <= most):
        raise RefusedError(400, f"{name}: no number from {least} to {most}")
    return int(text)


def check_request_parameters(request: Request, *names: str) -> None:
    """Raises RefusedError 400 for parameters that are not known or given twice."""
    for name in request.query_params:
        if name not in names or len(request.query_params.getlist(name)) > 1:
            raise RefusedError(400, f"the parameter {name[:100]!r} is unknown or given twice", ", ".join(names))


def send_json_body(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A document as JSON that is kept nowhere."""
    content = msgspec.json.encode(escape_undecodable_text(document))
    return Response(content, status, {**_HEADERS, **(headers or {})}, media_type="application/json")


def handle_request_refusals(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with everything that is refused as an error document."""

    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RefusedError as refusal:
            return _build_refusal(refusal)
        except (NobodyError, ConflictError, UsageError) as error:
            status = 404 if isinstance(error, NobodyError) else 409 if isinstance(error, ConflictError) else 400
            return _build_refusal(RefusedError(status, error.what, error.remedy or ""))
        except CrowdedError:
            return _build_refusal(
                RefusedError(429, "too many sign-ins at the moment", "try again", {"retry-after": "2"})
            )
        except ClientDisconnect:
            return Response(status_code=400)
        except (FairleadError, sqlite3.Error) as error:
            _LOG.warning("%s", error)
            return _build_refusal(
                RefusedError(503, "this is not possible now", "try again later", {"retry-after": "5"})
            )

    return guarded


def _build_refusal(refusal: RefusedError) -> Response:
    """An error document."""
    return send_json_body({"error": refusal.what, "remedy": refusal.remedy}, refusal.status, refusal.headers)
