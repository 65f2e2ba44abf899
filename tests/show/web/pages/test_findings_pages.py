"""Findings, incidents and silences in a browser: narrowed, opened, acknowledged, silenced, by everybody's rights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pages_site
from pages_site import Visit

pytestmark = pytest.mark.browser
LAST = "last=7d"


@pytest.fixture(scope="module")
def own(filled_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages_site.Site]:
    """A site of these tests' own: they change what others see."""
    running = pages_site.begin(tmp_path_factory.mktemp("findings"), filled_site)
    yield running
    running.up.kill()


def lines(page: Any) -> Any:
    """The lines of the list."""
    return page.locator("main li.line")


def all_of(site: pages_site.Site) -> list[dict[str, Any]]:
    """Every finding of the last days."""
    return list(site.get(f"findings?{LAST}&limit=1000", site.operator)["findings"])


def test_the_list_is_narrowed_and_the_address_keeps_it(visit: Visit, site: pages_site.Site) -> None:
    page = visit("admin", f"/findings?{LAST}")
    lines(page).first.wait_for()
    some = all_of(site)[0]["finding"]
    page.get_by_label("Rule").select_option(some["rule"])
    page.wait_for_url(f"**rule={some['rule']}**")
    page.get_by_label("Words").fill("no such words")
    page.get_by_role("button", name="Filter").click()
    page.get_by_text("Nothing matches this filter").wait_for()
    page.reload()
    page.get_by_text("Nothing matches this filter").wait_for()
    page.get_by_role("button", name="Show all").click()
    lines(page).first.wait_for()
    assert "rule=" not in page.url


def test_a_finding_shows_its_chain_of_evidence(visit: Visit, site: pages_site.Site, axe: Callable[[Any], Any]) -> None:
    some = next(one for one in all_of(site) if one["finding"]["rule"] == "job.interference")["finding"]
    page = visit("admin", f"/findings/{some['id']}")
    page.get_by_role("heading", level=1, name=some["title"]).wait_for()
    assert page.locator("ol.chain > li").count() == len(some["evidence"])
    assert page.get_by_role("img", name=re.compile("job")).count(), "what went on then is drawn"
    job = page.locator("dl").get_by_role("link", name=f"job {some['subject']['id']}")
    assert f"/jobs/{some['subject']['id']}" in job.get_attribute("href")
    assert page.locator("main").get_by_role("button", name="Copy").count()
    assert not axe(page)


def test_taking_on_with_the_keyboard_and_giving_back(visit: Visit, own: pages_site.Site) -> None:
    some = all_of(own)[0]["finding"]
    page = visit("admin", f"/findings/{some['id']}", of=own)
    button = page.get_by_role("button", name=f"Acknowledge: {some['title']}")
    button.focus()
    page.keyboard.press("Enter")
    page.keyboard.type("disk ordered")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Acknowledged by admin").wait_for()
    page.goto(f"/findings?{LAST}&acknowledged=yes")
    page.get_by_text("disk ordered").wait_for()
    assert lines(page).count() == 1
    page.get_by_role("button", name="Withdraw").click()
    button.first.wait_for()
    assert own.get("acknowledgements?last=30d", own.operator)["acknowledgements"] == []


def test_a_silence_from_a_line_and_its_end(visit: Visit, own: pages_site.Site) -> None:
    page = visit("carol", f"/findings?{LAST}", of=own)
    page.get_by_role("button", name=re.compile("^Silence alerts")).first.click()
    page.get_by_role("textbox", name="because").fill("known since Monday")
    page.get_by_role("button", name="Silence", exact=True).click()
    page.get_by_role("link", name="see silences").click()
    page.get_by_role("cell", name="known since Monday").wait_for()
    page.get_by_role("button", name=re.compile("^End the silence")).click()
    page.get_by_text("Nothing is silenced").wait_for()


def test_a_user_sees_and_takes_on_the_own_ones_only(visit: Visit, own: pages_site.Site) -> None:
    page = visit("alice", f"/findings?{LAST}", of=own)
    page.get_by_text("about your own jobs").wait_for()
    said = page.locator("main").inner_text()
    assert "bob" not in said
    assert not page.get_by_role("button", name=re.compile("^Silence")).count()
    assert not page.get_by_role("link", name="Silences").count()
    foreign = next(one["finding"] for one in all_of(own) if one["user"] not in (None, "alice"))
    page.goto(f"/findings/{foreign['id']}")
    page.get_by_role("alert").wait_for()
    assert foreign["title"] not in page.locator("main").inner_text()
    page.complaints.clear()  # the browser tells of the 404


def test_incidents_open_and_over(visit: Visit, site: pages_site.Site, axe: Callable[[Any], Any]) -> None:
    known = site.get(f"health/components?{LAST}", site.operator)
    page = visit("admin", f"/findings?tab=incidents&{LAST}", width=400)
    page.get_by_role("heading", name=f"Open ({len(known['open'])})").wait_for()
    page.get_by_role("heading", name=f"Past ({len(known['past'])})").wait_for()
    assert lines(page).count() == len(known["open"]) + len(known["past"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert not axe(page)
