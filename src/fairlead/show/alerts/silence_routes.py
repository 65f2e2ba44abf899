"""The API of silences, for support and administrators: the same store as `fairlead alert silence`.

Not here: what a silence fits (`silences`), where it is kept (`state`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.core.model.identity import compute_short_identity
from fairlead.explain.questions.span import parse_span_age
from fairlead.show.alerts.acknowledgement_routes import ROOT, Noted
from fairlead.show.alerts.silences import FIELDS
from fairlead.show.alerts.state import Silence, State
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.identity import ACT, READ, Door, Person, RefusedError, require_identity_scope
from fairlead.show.web.signin.request_bodies import (
    check_request_parameters,
    handle_request_refusals,
    read_body,
    send_json_body,
)

SCHEMA = "fairlead.silences/1"
MOST = 1000
_LONGEST_NS = 366 * 86400 * 10**9
_LONGEST_PATTERN, _LONGEST_WHY = 256, 1000


class SilenceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be silent: fields and patterns (`*` and `?` stand for anything), how long (`2h`, `3d`), why."""

    match: dict[str, str]
    lasts: str = msgspec.field(name="for")
    why: str


class Silences(msgspec.Struct, frozen=True, kw_only=True):
    """Silences that hold, in the order they were made."""

    schema: str = SCHEMA
    now_ns: int
    silences: list[Silence]


class SilenceEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A silence that was ended."""

    schema: str = SCHEMA
    ended: str


OPERATIONS = (
    Operation(method="GET", path="silences", about="What is muted at present.", answer=Silences, tag="findings"),
    Operation(
        method="POST",
        path="silences",
        about="Mute matching alerts for a while.",
        body=SilenceRequest,
        answer=Silences,
        statuses=(409, 413),
        tag="findings",
    ),
    Operation(
        method="DELETE",
        path="silences/{name}",
        about="End a silence.",
        answer=SilenceEnd,
        statuses=(404,),
        tag="findings",
    ),
)


def build_silence(wanted: SilenceRequest, who: str, now_ns: int) -> Silence:
    """The silence that is wanted. Raises RefusedError 400, UsageError for what is no age."""
    if not wanted.match:
        raise RefusedError(400, "match: this would mute everything", "name a component, a rule or a job")
    for field, pattern in wanted.match.items():
        if field not in FIELDS:
            raise RefusedError(400, f"match: no field {field[:50]!r}", "fields: " + ", ".join(FIELDS))
        if not 0 < len(pattern) <= _LONGEST_PATTERN:
            raise RefusedError(400, f"match.{field}: 1 to {_LONGEST_PATTERN} characters")
    if all(set(pattern) <= {"*"} for pattern in wanted.match.values()):
        raise RefusedError(400, "match: this would mute everything", "name a component, a rule or a job")
    if not 0 < len(wanted.why.strip()) <= _LONGEST_WHY:
        raise RefusedError(400, f"why: 1 to {_LONGEST_WHY} characters", "give a reason")
    if len(wanted.lasts) > 32:
        raise RefusedError(400, "for: too long", "write 2h or 3d")
    lasts_ns = parse_span_age(wanted.lasts)
    if not 0 < lasts_ns <= _LONGEST_NS:
        raise RefusedError(400, "for: not a duration up to 366 days", "write 2h or 3d")
    words = [f"{field}={pattern}" for field, pattern in wanted.match.items()]
    return Silence(
        id=compute_short_identity("silence", *words, who, now_ns),
        match=dict(wanted.match),
        until_ns=now_ns + lasts_ns,
        who=who,
        why=wanted.why.strip(),
        made_ns=now_ns,
    )


def build_silence_routes(
    folder: Path, door: Door, clock: Callable[[], int], noted: Noted | None = None
) -> list[BaseRoute]:
    """The API, over the state in `folder`."""

    def held(state: State) -> Silences:
        now_ns = clock()
        return Silences(now_ns=now_ns, silences=[one for one in state.list_silences() if now_ns < one.until_ns])

    def work(method: str, name: str, wanted: SilenceRequest | None, person: Person) -> Silences | SilenceEnd:
        with State(folder) as state:
            if method == "DELETE":
                with state.change():
                    if not state.unsilence(name):
                        raise RefusedError(404, "there is no such silence", "it may have expired")
                return SilenceEnd(ended=name)
            if wanted is not None:
                one = build_silence(wanted, person.name, clock())
                with state.change():
                    if len(held(state).silences) >= MOST:
                        raise RefusedError(409, f"there are {MOST} silences", "end some of them")
                    state.silence(one)
            return held(state)

    async def serve(request: Request) -> Response:
        person = door.identify_person(request)
        require_identity_scope(person, READ if request.method == "GET" else ACT)
        if not person.sight.everything:
            raise RefusedError(403, "silences are for support and administrators", "acknowledge a finding of yours")
        check_request_parameters(request)
        wanted = await read_body(request, SilenceRequest) if request.method == "POST" else None
        name = str(request.path_params.get("name", ""))
        done = await run_in_threadpool(work, request.method, name, wanted, person)
        if noted is not None and request.method != "GET":
            what = name if wanted is None else " ".join(f"{field}={text}" for field, text in wanted.match.items())
            await noted(request, person.name, "silence" if wanted is not None else "end a silence", what)
        return send_json_body(done)

    return [
        Route(f"{ROOT}/silences", handle_request_refusals(serve), methods=["GET", "POST"]),
        Route(f"{ROOT}/silences/{{name}}", handle_request_refusals(serve), methods=["DELETE"]),
    ]
