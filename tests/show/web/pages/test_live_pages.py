"""Pages that are open while things change: new records, a question that fails, a silent source, a link ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

import pages_site
from fairlead.core.batches.encoding import Header, encode_batch, encode_numbers, encode_same_word
from pages_site import Visit
from serving import BOOT, now_ns, ops_batch

pytestmark = pytest.mark.browser
JOB = "777"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages_site.Site]:
    """A server of these tests' own; nothing was recorded yet."""
    settings = pages_site.SETTINGS + "[carry]\nevery_s = 0.5\n"
    running = pages_site.begin(tmp_path_factory.mktemp("live"), None, settings)
    yield running
    running.up.kill()


def job_batch(seq: int, user: str) -> bytes:
    """A job that began half a minute ago."""
    start = now_ns() - 30_000_000_000
    header = Header(
        table="jobs",
        version=1,
        node="n1",
        boot_id=BOOT,
        seq=seq,
        rows=1,
        layer="agent",
        writer="test",
        first_ns=start,
        last_ns=start,
    )
    return encode_batch(
        header,
        {
            "job_id": encode_same_word(JOB, 1),
            "user": encode_same_word(user, 1),
            "program": encode_same_word("/bin/wave", 1),
            "start_ns": encode_numbers([start]),
        },
    )


@pytest.mark.slow
def test_a_new_job_and_what_it_writes_appear_by_themselves(visit: Visit, own: pages_site.Site) -> None:
    page = visit("alice", of=own)
    page.get_by_text("No job of yours ran in the last seven days").wait_for()
    assert own.up.post(job_batch(1, "alice")).status == 200
    written = {"job_id": encode_same_word(JOB, 8), "size": encode_numbers([1 << 20] * 8)}
    assert own.up.post(ops_batch(2, rows=8, extra=written)).status == 200
    row = page.locator("main tbody tr", has_text=JOB)
    row.locator(".live").wait_for()
    row.get_by_text("8.00\u202fMiB").wait_for()


def test_one_question_fails_and_the_rest_of_the_page_lives(visit: Visit) -> None:
    page = visit(None)
    page.context.request.post("/api/v1/session", data={"name": "admin", "password": pages_site.PASSWORD})
    refusal = json.dumps({"error": "the findings are away", "remedy": "Ask again."})
    page.route(
        "**/live/findings?**", lambda route: route.fulfill(status=503, body=refusal, content_type="application/json")
    )
    page.goto("/")
    alert = page.get_by_role("alert").filter(has_text="the findings are away")
    alert.wait_for()
    page.locator("a.cell").first.wait_for()
    page.get_by_role("heading", name="Open incidents").wait_for()
    page.unroute("**/live/findings?**")
    alert.wait_for(state="detached")
    page.locator("main .slowed li").first.wait_for()
    page.complaints.clear()  # the browser tells of each 503


def test_a_silent_source_is_shown_as_a_gap(visit: Visit, site: pages_site.Site) -> None:
    quiet = next(one for one in site.truth["silent"] if one["to_ns"] is None)["node"]
    page = visit("admin", f"/nodes/{quiet}")
    page.locator("main").get_by_text("silent").first.wait_for()
    page.goto("/health")
    page.get_by_placeholder("Find a source").fill(quiet)
    page.get_by_role("row").filter(has_text=quiet).get_by_text("silent").first.wait_for()


def test_a_link_that_was_ended_shows_nothing(visit: Visit) -> None:
    page = visit("alice", "/account")
    session: Any = page.context.request.get("/api/v1/session").json()
    made = page.context.request.post(
        "/api/v1/links",
        data={"job": "190000", "cluster": "sample", "days": 1},
        headers={"X-CSRF-Token": session["csrf"]},
    )
    assert made.status == 201, made.text()
    address = urlsplit(made.json()["url"])
    guest = visit(None, f"{address.path}#{address.fragment}")
    guest.wait_for_url("**/jobs/190000**")
    guest.locator("[data-test=verdict]").wait_for()
    bearer = {"Authorization": f"Bearer {made.json()['token']}"}
    assert guest.request.get("/api/v1/jobs/190001", headers=bearer).status in (403, 404)
    page.reload()
    page.get_by_role("button", name="End the link to job 190000").first.wait_for()
    ended = page.context.request.delete(f"/api/v1/links/{made.json()['id']}", headers={"X-CSRF-Token": session["csrf"]})
    assert ended.ok, ended.text()
    late = visit(None, f"{address.path}#{address.fragment}")
    late.get_by_role("alert").first.wait_for()
    assert not late.locator("[data-test=verdict]").count()
    for page_of_link in (guest, late):
        page_of_link.context.close()
        page_of_link.complaints.clear()  # the browser tells of each 401
