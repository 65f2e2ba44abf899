"""Every operation of the API's own description, asked with what fits it and what does not: each answer is one it
tells of, in status, kind and shape, and none is a defect. Bounded and the same each time; `slow` draws anew.
"""

from __future__ import annotations

import logging
import os
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.failures import FailureGroup

from fairlead.show.web.api.app import list_api_operations
from whole_site import Caller, Reply, Whole

MANY = int(os.environ.get("FAIRLEAD_FUZZ", "150"))
"""Requests of each operation in the long run."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
NAMES = {
    "jobs": ["100", "101", "300", "90"],
    "findings": ["f00000000100", "iOST0100"],
    "nodes": ["n1", "n3", "oss1"],
    "targets": ["OST0", "OST2"],
    "forwarders": ["f1", "f2"],
    "mds": ["MDT0", "MDT2"],
    "layers": ["forwarder", "target", "mds", "network", "device"],
    "top": ["jobs", "users", "projects", "programs"],
    "accounts": ["dora", "bob"],
    "whatif": ["0" * 16],
    "live": ["jobs", "jobs/100/timeline", "mine", "findings/f00000000100", "layers/target", "now", "whatif/x", "mds"],
}
"""What is there, by the first word of the path."""
COMPONENTS = {"forwarder": "f1", "target": "OST0", "mds": "MDT0", "network": "sw/n1", "device": "n1/sda"}
SPANS: list[dict[str, str]] = [{}, {"last": "15m"}, {"last": "3h"}, {"last": "7d"}, {"from": "-1h", "to": "-5m"}]
WHEN = ("last", "from", "to", "at")
KNOWN = {
    "user": "alice",
    "project": "climate",
    "node": "n1",
    "target": "OST0",
    "component": "OST0",
    "job": "100",
    "cluster": "c",
    "id": "OST0",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    made = Whole(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.close()


def seasoned(case: Any, draw: st.DataObject) -> None:
    """What fits by its kind alone names nothing: half of the time it is about what is there."""
    first = case.path.split("/")[3]
    names = NAMES.get(first)
    for key in case.path_parameters or {}:
        if names and draw.draw(st.booleans(), label="of what is there"):
            case.path_parameters[key] = draw.draw(st.sampled_from(names), label=key)
    if isinstance(case.query, dict) and draw.draw(st.integers(0, 3), label="as it is meant"):
        query = {key: value for key, value in case.query.items() if key not in WHEN}
        for key in [key for key, value in query.items() if isinstance(value, str)]:
            keep = draw.draw(st.integers(0, 2), label=key)
            if keep == 0 and key != "id":
                del query[key]
            elif keep == 1 and key in KNOWN:
                query[key] = KNOWN[key]
        if "id" in query:
            query["id"] = COMPONENTS.get(case.path_parameters.get("name", ""), query["id"])
        case.query = query | draw.draw(st.sampled_from(SPANS), label="when")


def asked(caller: Caller, case: Any) -> tuple[requests.PreparedRequest, Reply]:
    """The case, sent."""
    sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8572")
    ready = requests.Request(
        **{key: sent[key] for key in ("method", "url", "params", "headers", "data", "json") if key in sent}
    ).prepare()
    body = ready.body.encode() if isinstance(ready.body, str) else ready.body
    headers = {key: value for key, value in ready.headers.items() if key.lower() == "content-type"}
    return ready, caller.ask(str(ready.method), ready.path_url, body, headers)


def every(operation: Any, mode: GenerationMode, caller: Caller, most: int) -> tuple[str, set[int]]:
    """`most` requests of one operation: what was wrong with the answers, and their statuses."""
    answered: set[int] = set()

    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), draw=st.data())
    def each(case: Any, draw: st.DataObject) -> None:
        if mode == GenerationMode.POSITIVE:
            seasoned(case, draw)
        ready, reply = asked(caller, case)
        answered.add(reply.status)
        headers = {key: [value] for key, value in reply.headers.items()}
        told = schemathesis.Response(reply.status, headers, reply.body, ready, 0.0, False)
        case.validate_response(told, checks=CHECKS)

    try:
        each()
    except FailureGroup as group:
        return "\n".join(map(str, group.exceptions))[:3000], answered
    except Exception as error:  # noqa: BLE001  (a defect of what is tested: told with all others)
        return "".join(traceback.format_exception(error)[-6:])[:4000], answered
    return "", answered


def tried(whole: Whole, who: str, most: int) -> None:
    """Every operation as this person, `most` requests that fit and as many that need not."""
    schema = schemathesis.openapi.from_dict(whole.caller().ask("GET", "openapi.json").json)
    failed: dict[str, str] = {}
    never: list[str] = []
    operations = [found.ok() for found in schema.get_all_operations()]
    callers = [whole.signed_in(who) for _ in operations]  # first: wrong passwords make one wait
    for operation, caller in zip(operations, callers, strict=True):
        wrong, answered = every(operation, GenerationMode.POSITIVE, caller, most)
        failed |= {operation.label: wrong} if wrong else {}
        if not {200, 201, 202} & answered and not wrong and not silent(operation.label, who):
            never.append(f"{operation.label} {answered}")
        if operation.query.items or operation.body.items or operation.path_parameters.items:
            wrong, _ = every(operation, GenerationMode.NEGATIVE, caller, most)
            failed |= {f"{operation.label}, what does not fit": wrong} if wrong else {}
    assert not failed, "\n\n".join(f"{label}\n{text}" for label, text in failed.items())
    assert most < 25 or never == [], "never answered as is meant"


def silent(label: str, who: str) -> bool:
    """What nothing that is drawn can open."""
    return (
        who != "root"
        or re.search(r"POST|PATCH|DELETE /api/v1/(?!session$)|whatif/\{|GET /api/v1/signin/oidc", label) is not None
    )


@pytest.mark.parametrize("who", [pytest.param("root", marks=pytest.mark.slow), "alice"])
def test_no_request_breaks_it(whole: Whole, who: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    tried(whole, who, 1)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("who", ["root", "alice", "carol"])
def test_very_many_requests_break_it_as_little(whole: Whole, who: str) -> None:
    tried(whole, who, MANY)


def test_everything_there_is_is_described(whole: Whole) -> None:
    """Below /api/v1 no route has a method that the description does not name."""
    told = {
        (operation.method, re.sub(r"\{\w+(:\w+)?\}", "{}", operation.path))
        for operation in list_api_operations(whole.made.described)
    }
    found = set()
    for route in whole.app.routes:
        path = str(getattr(route, "path", ""))
        if path.startswith("/api/v1/"):
            for method in getattr(route, "methods", None) or ():
                found.add((method, re.sub(r"\{\w+(:\w+)?\}", "{}", path.removeprefix("/api/v1/"))))
    found = {(method, path) for method, path in found if method != "HEAD" and path != "{}"}  # what nothing else is
    told.discard(("GET", "live/whatif/{}"))  # a part of live/{path}
    assert found == told
    document = whole.caller().ask("GET", "openapi.json").json
    assert {f"/api/v1/{operation.path}" for operation in list_api_operations(whole.made.described)} == set(
        document["paths"]
    )


def test_the_reference_names_every_path(whole: Whole) -> None:
    folder = Path(__file__).parents[4] / "docs/reference"
    text = "".join((folder / name).read_text() for name in ("api.md", "web-access.md", "alerts.md"))
    words = {"{name}": "(ID|NAME|LAYER|jobs)", "{id}": "ID", "{path}": r"(PATH|whatif/ID|\.\.\.)"}
    missing = []
    for operation in list_api_operations(whole.made.described):
        pattern = re.escape(operation.path)
        for name, pattern_of in words.items():
            pattern = pattern.replace(re.escape(name), pattern_of)
        if not re.search(rf"[/ `]{pattern}[`?\s,\]]", text):
            missing.append(f"{operation.method} {operation.path}")
    assert missing == []
