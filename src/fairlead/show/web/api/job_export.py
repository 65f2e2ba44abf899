"""A job to take away: its timeline and phases as CSV, its diagnosis as one page that needs no network and no script.

Not here: the answers they are made of (`questions`), how the page is drawn (`web.diagnosis`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.explain.questions.answers_diagnosis import Course, CourseLine, PhaseLine, Why
from fairlead.explain.questions.answers_pages import JobTimeline, Lane, Line
from fairlead.explain.questions.question import Asking, Name, Points, TimeParameters
from fairlead.explain.questions.question_catalog import parse_question_parameters
from fairlead.show.web.api.answers import Answering
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.identity import READ, Door, RefusedError, require_identity_scope

ROOT = "/api/v1"
COLUMNS = (
    "job",
    "record",
    "layer",
    "estimated",
    "begin_utc",
    "begin_ns",
    "seconds_after_start",
    "seconds",
    "read_bytes_per_s",
    "read_lowest",
    "read_highest",
    "write_bytes_per_s",
    "write_lowest",
    "write_highest",
    "metadata_ops_per_s",
    "metadata_lowest",
    "metadata_highest",
    "phase",
    "number",
    "amount",
    "rate_per_s",
    "mode",
    "usually_s",
    "lost_s",
    "slow_probability",
)
"""Of the CSV. `record` is `lane` (a point of a layer) or `phase`."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_PAGE_POINTS = 400
_LAYERS = {"client": "Client", "forwarder": "Forwarder", "target": "Storage targets", "metadata": "Metadata servers"}
_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
}


class ExportAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which run of a job number; a span exports a part of it. `points`: of each layer."""

    cluster: Name = ""
    points: Points = 1000


OPERATIONS = (
    Operation(
        method="GET",
        path="jobs/{name}/export.csv",
        asked=ExportAsked,
        statuses=(404,),
        media="text/csv",
        about="One job as CSV: every layer over time, then its phases.",
    ),
    Operation(
        method="GET",
        path="jobs/{name}/export.html",
        asked=ExportAsked,
        statuses=(404,),
        media="text/html",
        about="One job as a page to keep: the diagnosis and its pictures in one file, without scripts.",
    ),
)


def build_job_export_routes(
    asking: Asking, settings: ApiSettings, door: Door, clock: Callable[[], int]
) -> list[BaseRoute]:
    """The routes. What is exported is what this reader may see of the job; one export is made at a time."""
    answering = Answering(asking, msgspec.structs.replace(settings, at_once=1, warm=False), clock)

    def serving(kind: str, media: str, made: Callable[[Why, JobTimeline], str]) -> Route:
        async def endpoint(request: Request) -> Response:
            person = door.identify_person(request)
            require_identity_scope(person, READ)
            name, asked = str(request.path_params["name"]), _asked(request)
            if len(name) > 256:
                raise RefusedError(400, "the name is too long")

            async def ask(question: str, words: dict[str, str], answer: Any) -> Any:
                found, _ = await answering.answer(
                    question, name, parse_question_parameters(question, words), person.sight, f"export {person.key}"
                )
                return msgspec.json.decode(found, type=answer)

            words = {str(key): str(value) for key, value in msgspec.to_builtins(asked).items()}
            points = words.pop("points", str(asked.points))
            why = await ask("why", words, Why)
            if kind == "html":
                points = str(min(int(points), _PAGE_POINTS))
            timeline = await ask("job_timeline", words | {"points": points}, JobTimeline)
            return Response(made(why, timeline), media_type=media, headers=_HEADERS | _named(why.job.job_id, kind))

        return Route(f"{ROOT}/jobs/{{name}}/export.{kind}", _refusing(endpoint), methods=["GET"], name=f"export_{kind}")

    return [
        serving("csv", "text/csv; charset=utf-8", export_job_as_csv),
        serving("html", "text/html; charset=utf-8", _to_html),
    ]


def _refusing(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    from fairlead.show.web.api.app import build_api_refusal

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RefusedError as refusal:
            return build_api_refusal(refusal)

    return answer


def _asked(request: Request) -> ExportAsked:
    words: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key in words:
            raise RefusedError(400, f"the parameter {key!r} is given twice")
        words[key] = value
    try:
        return msgspec.convert(words, ExportAsked, strict=False)
    except msgspec.ValidationError as error:
        raise RefusedError(400, f"a parameter is wrong: {error}", "parameters: from, to, cluster, points") from None


def _named(job_id: str, kind: str) -> dict[str, str]:
    short = job_id[:80]
    plain, whole = re.sub(r"[^A-Za-z0-9._-]", "_", short), quote(short, safe="")
    name = f"filename=\"job-{plain}.{kind}\"; filename*=UTF-8''job-{whole}.{kind}"
    return {"content-disposition": f"attachment; {name}"}


def export_job_as_csv(why: Why, timeline: JobTimeline) -> str:
    """Points of every layer, then the phases. Empty cells are not known. No cell begins a formula of a spreadsheet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for lane in timeline.lanes:
        writer.writerows(_safe(row) for row in _points(timeline, lane))
    for phase in why.phases:
        writer.writerow(_safe(_phase(timeline, phase)))
    return text.getvalue()


def _points(timeline: JobTimeline, lane: Lane) -> Iterator[dict[str, object]]:
    lines = (
        ("read_bytes_per_s", "read", lane.read_bytes_per_s),
        ("write_bytes_per_s", "write", lane.write_bytes_per_s),
        ("metadata_ops_per_s", "metadata", lane.metadata_ops_per_s),
    )
    for k in range(timeline.points):
        begin = timeline.from_ns + k * timeline.step_ns
        row: dict[str, object] = {
            "job": timeline.job_id,
            "record": "lane",
            "layer": lane.layer,
            "estimated": str(lane.estimated).lower(),
            **_when(timeline, begin),
            "seconds": timeline.step_ns / 1e9,
        }
        for mean, short, line in lines:
            row[mean] = _at(line.mean, k)
            row[f"{short}_lowest"], row[f"{short}_highest"] = _at(line.low, k), _at(line.high, k)
        yield row


def _phase(timeline: JobTimeline, phase: PhaseLine) -> dict[str, object]:
    return {
        "job": timeline.job_id,
        "record": "phase",
        **_when(timeline, phase.start_ns),
        "seconds": phase.seconds,
        "phase": phase.kind,
        "number": phase.number + 1,
        "amount": phase.amount,
        "rate_per_s": phase.rate_per_s,
        "mode": phase.mode,
        "usually_s": phase.expected_s,
        "lost_s": phase.lost_s,
        "slow_probability": phase.abnormal,
    }


def _when(timeline: JobTimeline, begin_ns: int) -> dict[str, object]:
    moment = datetime.fromtimestamp(begin_ns // 10**9, UTC).replace(tzinfo=None).isoformat()
    since = round((begin_ns - timeline.job_from_ns) / 1e9, 6)
    fine = f"{begin_ns // 10**6 % 1000:03d}"
    return {"begin_utc": f"{moment}.{fine}Z", "begin_ns": begin_ns, "seconds_after_start": since}


def _at(values: list[float | None], k: int) -> float | None:
    return values[k] if k < len(values) else None


def _safe(row: dict[str, object]) -> dict[str, object]:
    return {
        key: f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
        for key, value in row.items()
    }


def _to_html(why: Why, timeline: JobTimeline) -> str:
    """The page of the diagnosis, with every layer of the job over the same time."""
    from fairlead.show.report.diagnosis.diagnosis_pages import build_job_diagnosis_page

    marked = [(one.start_ns, one.end_ns) for one in timeline.phases if (one.abnormal or 0) >= 0.5][:200]
    lanes = [course for lane in timeline.lanes for course in _courses(timeline, lane, marked)]
    return build_job_diagnosis_page(replace(why, courses=[*lanes, *why.courses]))


def _courses(timeline: JobTimeline, lane: Lane, marked: list[tuple[int, int]]) -> list[Course]:
    def course(title: str, unit: str, lines: list[tuple[str, str, Line]]) -> list[Course]:
        told = [CourseLine(name=name, role=role, values=line.mean) for name, role, line in lines if _told(line)]
        if not told:
            return []
        return [
            Course(
                title=title, unit=unit, from_ns=timeline.from_ns, step_ns=timeline.step_ns, lines=told, marked=marked
            )
        ]

    layer = _LAYERS.get(lane.layer, lane.layer) + (" (estimated)" if lane.estimated else "")
    moved = [("read", "read", lane.read_bytes_per_s), ("written", "write", lane.write_bytes_per_s)]
    found = course(f"{layer}: bytes", "bytes/s", moved)
    if lane.layer == "metadata" or not found:
        found += course(f"{layer}: operations", "operations/s", [("metadata", "metadata", lane.metadata_ops_per_s)])
    return found


def _told(line: Line) -> bool:
    return any(value is not None for value in line.mean)
