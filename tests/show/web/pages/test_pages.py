"""The frame around the pages and every page as a whole: signing in, light and dark, a phone, accessibility, no data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pages_site
from pages_site import Visit

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")

pytestmark = pytest.mark.browser
FOR_ALL = ("/", "/jobs", "/findings", "/behaviour", "/account")
FOR_STAFF = (
    "/layers/forwarder",
    "/layers/target",
    "/layers/mds",
    "/layers/network",
    "/layers/device",
    "/whatif",
    "/health",
    "/setup",
)
FOR_ADMINISTRATORS = ("/people",)
EVERY = (*FOR_ALL, *FOR_STAFF, *FOR_ADMINISTRATORS)
IN_SHORT = ("/", "/jobs", "/findings", "/layers/forwarder", "/health", "/people")
"""Those a short run looks at in the dark on a phone, too."""


def settled(page: Any) -> None:
    """Waits until nothing on the page says that it is loading."""
    page.locator("main h1").first.wait_for()
    playwright.expect(page.locator("main [role=status] .dots")).to_have_count(0)


def test_signing_in_and_out(visit: Visit) -> None:
    page = visit(None, "/findings")
    page.wait_for_url("**/signin?next=**")
    page.get_by_label("Name").fill("alice")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("alert").wait_for()
    page.complaints.clear()  # the browser tells of each 401
    page.get_by_label("Password").fill(pages_site.PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/findings")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/signin")
    page.goto("/jobs")
    page.wait_for_url("**/signin?next=**")
    page.complaints.clear()


@pytest.mark.parametrize("path", EVERY)
def test_every_page_is_alive_and_accessible(visit: Visit, axe: Callable[[Any], list[str]], path: str) -> None:
    page = visit("admin", path)
    settled(page)
    assert not page.get_by_role("alert").count(), page.get_by_role("alert").first.inner_text()
    assert not axe(page)


@pytest.mark.parametrize(
    "path", [path if path in IN_SHORT else pytest.param(path, marks=pytest.mark.slow) for path in EVERY]
)
def test_every_page_in_the_dark_on_a_phone(visit: Visit, axe: Callable[[Any], list[str]], path: str) -> None:
    page = visit("admin", path, width=400, height=800, scheme="dark")
    settled(page)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert not axe(page)


@pytest.mark.parametrize("path", FOR_ALL)
def test_a_user_sees_nothing_refused_on_the_own_pages(visit: Visit, path: str) -> None:
    page = visit("alice", path)
    settled(page)
    assert not page.get_by_role("alert").count(), page.get_by_role("alert").first.inner_text()
    assert "bob" not in page.locator("main").inner_text()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages_site.Site]:
    """A server that has just been started for the first time: no record has arrived."""
    running = pages_site.begin(tmp_path_factory.mktemp("empty"), None)
    yield running
    running.up.kill()


def test_every_page_says_that_there_is_nothing(visit: Visit, empty: pages_site.Site) -> None:
    page = visit("admin", "/", of=empty)
    for path in EVERY:
        page.goto(path)
        settled(page)
        assert not page.get_by_role("alert").count(), f"{path}: {page.get_by_role('alert').first.inner_text()}"
        assert "NaN" not in page.locator("main").inner_text()


def test_what_was_known_stays_when_the_server_is_away(
    visit: Visit, filled_site: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    running = pages_site.begin(tmp_path_factory.mktemp("away"), filled_site)
    try:
        page = visit("alice", "/", of=running)
        page.locator("main table tbody tr").first.wait_for()
        running.up.kill()
        page.get_by_text("The server does not respond").first.wait_for()
        assert page.locator("main table tbody tr").count()
        assert "the last known data" in page.locator("main").inner_text()
    finally:
        running.up.kill()
    page.complaints.clear()
