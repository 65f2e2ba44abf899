"""What if in a browser: asked, followed with its progress, read, asked again, forgotten; not for users."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pages_site import Visit

pytestmark = pytest.mark.browser


def test_a_replay_is_asked_followed_read_and_forgotten(visit: Visit, axe: Callable[[Any], list[str]]) -> None:
    page = visit("carol", "/whatif?last=7d")
    page.get_by_role("checkbox", name=re.compile("^DFRA")).wait_for()
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    page.get_by_role("spinbutton", name=re.compile("^Forwarders")).fill("3")
    page.get_by_text("the current configuration is replayed").wait_for()
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("heading", name="How far to trust this").wait_for()
    page.get_by_role("heading", name=re.compile("^Before and after: .* with 3 forwarders")).wait_for()
    assert page.get_by_text("Simulated", exact=True).count()
    assert page.get_by_text("core-hours lost to I/O").count()
    page.get_by_role("button", name="Programs").click()
    page.get_by_text("stay within 5 %").wait_for()
    assert "--forwarders 3" in page.get_by_label("the command of this replay", exact=True).inner_text()
    assert not axe(page)
    address = page.url
    page.reload()
    page.get_by_role("heading", name="How far to trust this").wait_for()
    page.get_by_role("button", name="Use as template").click()
    assert page.get_by_role("spinbutton", name=re.compile("^Forwarders")).input_value() == "3"
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("None yet.").wait_for()
    assert "run=" in address
    assert "run=" not in page.url


def test_a_run_that_fails_says_why_and_what_to_do(visit: Visit) -> None:
    page = visit("admin", "/whatif?from=2001-01-01T00:00:00Z&to=2001-02-01T00:00:00Z")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("heading", name="This run failed").wait_for()
    assert page.get_by_text("no job").count()
    page.get_by_role("button", name="Run it again").wait_for()


def test_it_is_not_for_users(visit: Visit) -> None:
    page = visit("alice", "/whatif")
    page.get_by_text("for support staff and administrators").wait_for()
    assert not page.get_by_role("button", name="Replay", exact=True).count()
