"""How jobs behave, in a browser: pictures with words and figures, narrowed to one program, a user's own only."""

from __future__ import annotations

import re

import pytest

import pages_site
from pages_site import Visit

pytestmark = pytest.mark.browser
LAST = "last=7d"


def test_every_picture_has_words_and_figures(visit: Visit, site: pages_site.Site) -> None:
    known = site.get(f"behaviour?{LAST}", site.operator)
    page = visit("admin", f"/behaviour?{LAST}")
    for words in (
        "share of jobs and of bytes",
        "class of core-hours",
        "requests below a size",
        "operations per second of",
        "of each layer",
    ):
        picture = page.get_by_role("img", name=re.compile(words, re.IGNORECASE)).first
        picture.wait_for()
        assert picture.get_attribute("aria-label").endswith(".")
    page.get_by_text(re.compile(r"^Figures \(\d+ rows\)")).first.click()
    row = page.get_by_role("row", name=re.compile(f"^{known['modes'][0]['mode']} ")).first
    assert f"{known['modes'][0]['jobs']:,}" in row.inner_text()


def test_narrowed_to_one_program_its_runs_link_to_jobs(visit: Visit, site: pages_site.Site) -> None:
    most = site.get(f"behaviour?{LAST}", site.operator)["programs"][0]
    page = visit("admin", f"/behaviour?{LAST}")
    page.get_by_role("region", name="Programs").get_by_role("link").first.click()
    page.get_by_role("heading", name=f"Behaviour of program {most['name']}").wait_for()
    runs = page.get_by_role("region", name="Runs", exact=True)
    runs.wait_for()
    assert runs.locator("tbody tr").count() == min(20, most["jobs"])
    runs.get_by_role("link").first.click()
    page.wait_for_url("**/jobs/**")


def test_a_user_sees_the_own_jobs_only(visit: Visit, site: pages_site.Site) -> None:
    page = visit("alice", f"/behaviour?{LAST}")
    page.get_by_text("Only your own jobs count here").wait_for()
    said = page.locator("main").inner_text()
    assert "/home/bob" not in said
    assert not page.get_by_label("User").count()


def test_a_program_nobody_ran_is_said_to_be_unknown(visit: Visit) -> None:
    page = visit("admin", f"/behaviour?{LAST}&program=nothing-of-this-name")
    page.get_by_role("alert").wait_for()
    assert "nothing-of-this-name" in page.get_by_role("alert").inner_text()
    page.complaints.clear()  # the browser tells of the 404
