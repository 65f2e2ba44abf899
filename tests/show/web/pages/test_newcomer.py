"""Who has read nothing finds the culprits of the labelled site: from Home, by visible links, in four clicks at most."""

from __future__ import annotations

from typing import Any

import pytest

import pages_site
from pages_site import Visit

pytestmark = pytest.mark.browser
MOST_CLICKS = 4


class Path:
    """What is clicked on the way, one link after another by the words that are seen."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def click(self, words: str, address: str, *, exact: bool = False) -> None:
        """The first visible link of these words; then `address` is where one is."""
        self.page.locator("main").get_by_role("link", name=words, exact=exact).locator("visible=true").first.click()
        self.clicks += 1
        self.page.wait_for_url(address)
        self.page.locator("main h1").first.wait_for()

    def reads(self, words: str) -> None:
        """These words can be seen."""
        self.page.locator("main").get_by_text(words).locator("visible=true").first.wait_for()


def story(site: pages_site.Site, kind: str) -> Any:
    """What is true of the latest trouble of a kind."""
    return max((one for one in site.truth["labels"] if one["kind"] == kind), key=lambda one: one["from_ns"])


def test_an_administrator_finds_who_slowed_the_job(visit: Visit, site: pages_site.Site) -> None:
    told = story(site, "interference")
    victim, culprit = told["victims"][0]["job_id"], told["culprit"]
    path = Path(visit("admin"))
    path.reads("Jobs slowed today")
    path.click(f"Job {victim} lost", "**/findings/*")
    path.reads(f"job {culprit}")
    path.click(f"job {victim}", f"**/jobs/{victim}**")
    path.reads("slowed by others")
    path.click(f"job {culprit}", f"**/jobs/{culprit}**")
    path.reads("bob")
    assert path.clicks <= MOST_CLICKS


def test_an_administrator_finds_the_sick_target(visit: Visit, site: pages_site.Site) -> None:
    sick = story(site, "degraded")["component"]
    path = Path(visit("admin"))
    path.reads(f"Target {sick} is sick")
    path.reads(f"to target {sick}")
    path.click(f"target {sick}", f"**/layers/target/{sick}**", exact=True)
    path.reads("below the limit")
    assert path.clicks <= MOST_CLICKS


def test_what_is_wrong_is_seen_without_scrolling(visit: Visit, site: pages_site.Site) -> None:
    page = visit("admin", height=900)
    victim, sick = story(site, "interference")["victims"][0]["job_id"], story(site, "degraded")["component"]
    for words in (f"Job {victim} lost", f"to target {sick}"):
        link = page.locator("main").get_by_role("link", name=words).first
        link.wait_for()
        box = link.bounding_box()
        assert box["y"] + box["height"] <= 900, words
    assert page.locator("main .slowed > li").count() <= 6


def test_alice_learns_that_it_was_another_job_and_where(visit: Visit, site: pages_site.Site) -> None:
    told = story(site, "interference")
    victim = told["victims"][0]["job_id"]
    path = Path(visit("alice"))
    path.reads(f"Job {victim} lost")
    path.click(victim, f"**/jobs/{victim}**")
    path.reads("slowed by others")
    path.reads("another job")
    path.reads("at forwarder fwd")
    assert told["culprit"] not in path.page.locator("main").inner_text(), "whose job it was is not hers to know"
    assert path.clicks <= MOST_CLICKS


def test_alice_finds_the_sick_target(visit: Visit, site: pages_site.Site) -> None:
    sick = story(site, "degraded")["component"]
    path = Path(visit("alice"))
    path.reads(f"because target {sick} was slow")
    path.page.locator("main tr", has_text=f"target {sick}").get_by_role("link").first.click()
    path.clicks += 1
    path.page.wait_for_url("**/jobs/*")
    path.click(sick, f"**/layers/target/{sick}**")
    path.reads("sick")
    assert path.clicks <= MOST_CLICKS
