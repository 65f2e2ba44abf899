"""What an endpoint is, said once: for the OpenAPI document, the reference and the tests that try every one.

Not here: the questions, which describe themselves (`questions.question_catalog`).
"""

from __future__ import annotations

import msgspec


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path below /api/v1 (`{name}` stands for a part of it). `body`, `answer`, `asked`: structs of
    the request's body, the answer and the query's parameters. `statuses`: refusals beyond 400, 401, 403, 429
    and 503."""

    method: str
    path: str
    about: str
    body: type | None = None
    answer: type | None = None
    asked: type[msgspec.Struct] | None = None
    statuses: tuple[int, ...] = ()
    status: int = 200
    media: str = "application/json"
    tag: str = "pages"
    open: bool = False
    """Answered without being signed in."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What every refusal looks like."""

    error: str
    remedy: str = ""
