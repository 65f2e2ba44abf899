"""The OpenAPI 3.1 document of everything below /api/v1, made from the structs that are sent.

Not here: the serving (`app`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

import fairlead
from fairlead.explain.questions.question_catalog import list_questions
from fairlead.show.web.api.endpoint import Operation, Refusal

_NAMED = re.compile(r"\{(\w+)(?::\w+)?\}")
_REFUSALS = {
    400: "A parameter is wrong.",
    401: "Not signed in, or the token is not valid.",
    403: "Not allowed for this user.",
    404: "Nothing with this name is visible to this user.",
    405: "Method not allowed.",
    409: "It already exists.",
    411: "The length of the body is missing.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "Too many requests; retry after Retry-After.",
    503: "Not available now; retry after Retry-After.",
}
_ALWAYS = (400, 401, 403, 429, 503)
_EVENT = {
    "description": "One event of the stream.",
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["answer", "refused"]},
        "data": {"type": "string", "description": "The answer of what is followed, or the refusal that ends it: JSON."},
    },
}
_REF = "#/components/schemas/{name}"


def list_openapi_operations() -> list[Operation]:
    """Every question as an operation, and the same followed live."""
    found = [
        Operation(
            method="GET",
            path=question.path,
            about=question.about,
            answer=question.answer,
            asked=question.asked,
            statuses=(404,),
            tag="questions",
        )
        for question in list_questions().values()
    ]
    found.append(
        Operation(
            method="GET",
            path="mds/{name}",
            about="One metadata server.",
            answer=list_questions()["mds"].answer,
            asked=list_questions()["mds"].asked,
            statuses=(404,),
            tag="questions",
        )
    )
    return found


class LiveAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Besides the parameters of what is followed."""

    every: float = 2.0
    """Seconds between two looks, 1 to 60."""


FOLLOWING = Operation(
    method="GET",
    path="live/{path}",
    asked=LiveAsked,
    media="text/event-stream",
    statuses=(404,),
    tag="live",
    about="Any question above, again whenever its answer changes: events `answer` with its JSON, `refused` at the end.",
)


def build_openapi_document(operations: Sequence[Operation], root: str) -> dict[str, Any]:
    """The document. `root`: what paths stand below, as /api/v1."""
    kinds: list[Any] = [Refusal]
    for one in operations:
        kinds += [kind for kind in (one.body, one.answer) if kind is not None]
    asked = {one.asked for one in operations if one.asked is not None}
    [*schemas], components = msgspec.json.schema_components([*dict.fromkeys(kinds), *asked], ref_template=_REF)
    by_kind: dict[Any, dict[str, Any]] = dict(zip([*dict.fromkeys(kinds), *asked], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        path = _NAMED.sub(r"{\1}", one.path)
        paths.setdefault(f"{root}/{path}", {})[one.method.lower()] = _operation(one, by_kind, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fairlead",
            "version": fairlead.__version__,
            "description": "What is asked of a fairlead server. Null is not known, never zero. Times are epoch "
            "nanoseconds, units come last in a name.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {name: components[name] for name in sorted(components) if name not in _names(asked)},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "fairlead"},
            },
        },
    }


def _names(kinds: Iterable[type]) -> set[str]:
    return {kind.__name__ for kind in kinds}


def _operation(one: Operation, by_kind: Mapping[Any, dict[str, Any]], components: Mapping[str, Any]) -> dict[str, Any]:
    words = re.sub(r"\W+", "_", one.path).strip("_")
    made: dict[str, Any] = {"operationId": f"{one.method.lower()}_{words}", "summary": one.about, "tags": [one.tag]}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "maxLength": 256}}
        for name in _NAMED.findall(one.path)
    ]
    if one.asked is not None:
        of = components[one.asked.__name__]
        parameters += [
            {"name": name, "in": "query", "required": name in of.get("required", ()), "schema": schema}
            for name, schema in of["properties"].items()
        ]
    if parameters:
        made["parameters"] = parameters
    if one.body is not None:
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": by_kind[one.body]}}}
    answer: dict[str, Any] = {"description": one.about}
    if one.answer is not None:
        answer["content"] = {one.media: {"schema": by_kind[one.answer]}}
    elif one.media != "application/json":
        answer["content"] = {one.media: {"schema": _EVENT if one.media == "text/event-stream" else {"type": "string"}}}
    refusal = {"application/json": {"schema": by_kind[Refusal]}}
    made["responses"] = {str(one.status): answer} | {
        str(status): {"description": _REFUSALS[status], "content": refusal}
        for status in sorted({*_ALWAYS, *one.statuses})
    }
    if one.open:
        made["security"] = []
    return made
