"""Who may take a finding or incident on: operators any, a user those about jobs of his own. And the API of it.

What is acknowledged is told no more, though it lasts. Not here: silences (`silence_routes`), what is told
(`alert_evaluation`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.core.model.finding_incident_rows import parse_finding_rows, parse_incident_rows
from fairlead.core.model.identity import compute_short_identity
from fairlead.core.model.incident import Incident
from fairlead.explain.questions.findings import find_finding as finding_of
from fairlead.explain.questions.lake_queries import Tables, UnknownNameError, query_lake
from fairlead.explain.questions.span import parse_span
from fairlead.show.alerts.state import Acknowledged, State
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.identity import ACT, Door, Person, RefusedError, require_identity_scope
from fairlead.show.web.signin.request_bodies import (
    check_request_parameters,
    handle_request_refusals,
    read_body,
    send_json_body,
)

ROOT = "/api/v1"
SCHEMA = "fairlead.acknowledgements/1"
LONGEST = 2000
"""Characters of a note."""
_LONGEST_NAME = 256
_LONGEST_NS = 400 * 86400 * 10**9
Noted = Callable[[Request, str, str, str], Awaitable[None]]
"""Writes a line of the audit log: the request, who, what was done, on what."""


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody says who takes a finding on."""

    text: str


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """Who took a finding or incident (`id`) on, and why. Words and names of operators are for operators: null."""

    id: str
    who: str | None
    text: str | None
    at_ns: int
    site: bool
    """By an operator; else by the user whose job it is about."""


class Acknowledgements(msgspec.Struct, frozen=True, kw_only=True):
    """What is acknowledged of findings and incidents that touch the span."""

    schema: str = SCHEMA
    from_ns: int
    to_ns: int
    acknowledgements: list[Acknowledgement]


class ListParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Parameters of the list: when the findings were; or one by its id."""

    last: str = ""
    from_: str = msgspec.field(default="", name="from")
    to: str = ""
    id: str = ""


OPERATIONS = (
    Operation(
        method="GET",
        path="acknowledgements",
        about="What is acknowledged, by whom and why.",
        asked=ListParameters,
        answer=Acknowledgements,
        tag="findings",
    ),
    Operation(
        method="POST",
        path="findings/{name}/acknowledgement",
        about="Acknowledge a finding or incident.",
        body=Note,
        answer=Acknowledgements,
        statuses=(404, 409, 413),
        tag="findings",
    ),
    Operation(
        method="DELETE",
        path="findings/{name}/acknowledgement",
        about="Withdraw the acknowledgement.",
        answer=Acknowledgements,
        statuses=(404, 409),
        tag="findings",
    ),
)


@dataclass(frozen=True)
class KnownConcern:
    """A finding or incident of the lake: every id it goes by (that of a component's finding and that of its incident
    are of the same), whose job it is about, when it was."""

    ids: tuple[str, ...]
    owner: str
    from_ns: int
    to_ns: int | None


def find_acknowledgement_subject(lake: Tables, name: str) -> KnownConcern | None:
    """What is called so; None when nothing is. Raises LakeError."""
    try:
        told, _ = finding_of(lake, name)
    except UnknownNameError:
        told = None
    if told is not None and told.finding.id == name:
        finding = told.finding
        same = [
            one.id
            for one in _incidents(lake, "component", finding.subject.id)
            if finding.rule.startswith("component.")
            and compute_short_identity(finding.rule, told.cluster, finding.subject.kind, finding.subject.id, one.id)
            == name
        ]
        return KnownConcern((name, *same), told.user or "" if told.job_id else "", finding.from_ns or 0, finding.to_ns)
    found = _incidents(lake, "id", name)
    if not found:
        return None
    incident = found[-1]
    rows = query_lake(
        lake,
        "SELECT detail FROM finding WHERE subject_id = $name AND starts_with(rule, $family)",
        {"name": incident.component, "family": "component."},
    )
    same = [
        one.finding.id
        for one in parse_finding_rows(rows)
        if one.finding.id
        == compute_short_identity(one.finding.rule, one.cluster, one.finding.subject.kind, one.finding.subject.id, name)
    ]
    return KnownConcern((name, *dict.fromkeys(same)), "", incident.from_ns, incident.to_ns)


def _incidents(lake: Tables, column: str, name: str) -> list[Incident]:
    sql = f"SELECT detail FROM incident WHERE {column} = $name ORDER BY analysis_version, made_ns"  # noqa: S608
    return parse_incident_rows(query_lake(lake, sql, {"name": name}))


def record_acknowledgement(
    state: State, lake: Tables, name: str, note: Note, person: Person, now_ns: int
) -> list[Acknowledgement]:
    """Write down that `person` has taken it on. Raises RefusedError 400, 404, 409."""
    text = note.text.strip()
    if not text or len(text) > LONGEST:
        raise RefusedError(400, f"text: 1 to {LONGEST} characters", "say what is being done")
    about = _of(lake, name, person)
    by = Acknowledged(person.name, text, now_ns, about.owner, about.from_ns, about.to_ns, site=_staff(person))
    with state.change():
        before = state.find_acknowledged(name)
        _must_be_own(before, person)
        for each in about.ids:
            state.acknowledge(each, by)
    return [_shown(each, by, person) for each in about.ids]


def _withdraw_acknowledgement(state: State, lake: Tables, name: str, person: Person) -> None:
    """Withdraw the acknowledgement. Raises RefusedError 404, 409."""
    about = _of(lake, name, person)
    with state.change():
        before = state.find_acknowledged(name)
        _must_be_own(before, person)
        if before is None:
            raise RefusedError(404, "nobody has acknowledged this", "there is nothing to withdraw")
        for each in about.ids:
            state.acknowledge(each, None)


def list_acknowledgements(state: State, asked: ListParameters, person: Person, now_ns: int) -> Acknowledgements:
    """What of it this person may see: operators everything, a user what is about jobs of his own."""
    span = parse_span(
        now_ns=now_ns, default="30d", last=asked.last, from_=asked.from_, to=asked.to, at="", longest_ns=_LONGEST_NS
    )
    owner = None if _staff(person) else person.name
    if asked.id:
        one = state.find_acknowledged(asked.id)
        found = {asked.id: one} if one is not None and owner in (None, one.owner) else {}
    else:
        found = state.list_acknowledged(span.from_ns, span.to_ns, owner=owner)
    shown = [_shown(name, one, person) for name, one in found.items()]
    return Acknowledgements(from_ns=span.from_ns, to_ns=span.to_ns, acknowledgements=shown)


def _staff(person: Person) -> bool:
    return person.sight.everything


def _of(lake: Tables, name: str, person: Person) -> KnownConcern:
    """What is foreign is as unknown as what is not there."""
    about = find_acknowledgement_subject(lake, name) if 0 < len(name) <= _LONGEST_NAME else None
    if about is None or not (_staff(person) or (person.name and about.owner == person.name)):
        raise RefusedError(404, "you have no such finding", "see the findings page")
    return about


def _must_be_own(before: Acknowledged | None, person: Person) -> None:
    if before is not None and before.site and not _staff(person):
        raise RefusedError(409, "the site has already acknowledged this", "ask the support staff to withdraw it")


def _shown(name: str, one: Acknowledged, person: Person) -> Acknowledgement:
    said = _staff(person) or not one.site
    return Acknowledgement(
        id=name, who=one.who if said else None, text=one.why if said else None, at_ns=one.at_ns, site=one.site
    )


def build_acknowledgement_routes(
    folder: Path, lake: Tables, door: Door, clock: Callable[[], int], noted: Noted | None = None
) -> list[BaseRoute]:
    """The API, over the state in `folder` and the findings of `lake`."""

    def change(request: Request, person: Person, note: Note | None) -> Acknowledgements:
        name, now_ns = str(request.path_params["name"]), clock()
        with State(folder) as state:
            if note is None:
                _withdraw_acknowledgement(state, lake, name, person)
                return Acknowledgements(from_ns=now_ns, to_ns=now_ns, acknowledgements=[])
            made = record_acknowledgement(state, lake, name, note, person, now_ns)
            return Acknowledgements(from_ns=now_ns, to_ns=now_ns, acknowledgements=made)

    def look(asked: ListParameters, person: Person) -> Acknowledgements:
        with State(folder) as state:
            return list_acknowledgements(state, asked, person, clock())

    async def act(request: Request) -> Response:
        person = door.identify_person(request)
        require_identity_scope(person, ACT)
        check_request_parameters(request)
        note = await read_body(request, Note) if request.method == "POST" else None
        done = await run_in_threadpool(change, request, person, note)
        if noted is not None:
            words = "acknowledge" if note is not None else "acknowledge no more"
            await noted(request, person.name, words, str(request.path_params["name"]))
        return send_json_body(done)

    async def told(request: Request) -> Response:
        person = door.identify_person(request)
        require_identity_scope(person, "read")
        check_request_parameters(request, "last", "from", "to", "id")
        asked = msgspec.convert(dict(request.query_params), ListParameters)
        if any(len(word) > _LONGEST_NAME for word in request.query_params.values()):
            raise RefusedError(400, "a parameter is too long")
        return send_json_body(await run_in_threadpool(look, asked, person))

    return [
        Route(f"{ROOT}/findings/{{name}}/acknowledgement", handle_request_refusals(act), methods=["POST", "DELETE"]),
        Route(f"{ROOT}/acknowledgements", handle_request_refusals(told), methods=["GET"]),
    ]
