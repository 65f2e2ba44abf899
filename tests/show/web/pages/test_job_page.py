"""The page of a job as people use it: why it was slow, zoom to one second, files, sharing, comparing, taking away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import pages_site
from pages_site import Visit

pytestmark = pytest.mark.browser
VICTIM, CULPRIT, EARLIER = "190000", "190001", "190100"
REDRAW_MS = 100


def opened(visit: Visit, role: str = "alice", path: str = f"/jobs/{VICTIM}", **how: Any) -> Any:
    """The page of a job with its timeline drawn."""
    page = visit(role, path, **how)
    page.locator(".lanes canvas[data-redraw-ms]").wait_for()
    return page


def settled(page: Any) -> None:
    """Waits until nothing on the page says that it is loading."""
    page.wait_for_function("() => !document.querySelector('main [role=status] .dots')")


def shown(page: Any) -> tuple[float, float] | None:
    """What of the run the address says is shown, epoch seconds."""
    words = parse_qs(urlsplit(page.url).query)
    return (float(words["from"][0]) / 1000, float(words["to"][0]) / 1000) if "from" in words else None


def zoomed(page: Any, act: Callable[[], None]) -> tuple[float, float] | None:
    """What is shown after `act` has settled in the address."""
    before = page.url
    act()
    page.wait_for_url(lambda now: now != before)
    return shown(page)


def test_the_verdict_comes_first_and_names_who_took_the_time(visit: Visit) -> None:
    page = opened(visit, "admin")
    assert page.locator("[data-test=verdict]").inner_text() == "slowed by others"
    assert CULPRIT in page.locator("main h1").inner_text()
    taken = page.locator("section", has_text="Who or what took the time").first
    assert f"job {CULPRIT}" in taken.inner_text()
    assert taken.locator("ol.evidence li").count() >= 3
    for part in ("Client", "Forwarder", "Storage targets", "Neighbours", "took from this job"):
        assert part in page.locator(".lanes").inner_text(), part
    page.locator(".strip.blamed a").first.click()
    page.wait_for_url(f"**/jobs/{CULPRIT}**")


def test_a_user_is_not_told_of_other_people(visit: Visit) -> None:
    page = opened(visit)
    page.locator("ol.evidence li").first.wait_for()
    page.locator("text=Files").first.wait_for()
    settled(page)
    text = page.locator("main").inner_text()
    assert "another job" in text
    for hidden in (CULPRIT, "bob", "spectra", "plasma"):
        assert hidden not in text, hidden


def test_somebody_elses_job_is_not_there(visit: Visit) -> None:
    page = visit("alice", f"/jobs/{CULPRIT}")
    page.get_by_role("heading", name="is not known here").wait_for()
    assert "bob" not in page.locator("main").inner_text()
    for kind in ("csv", "html"):
        assert page.request.get(f"/api/v1/jobs/{CULPRIT}/export.{kind}").status == 404
    page.complaints.clear()  # the browser tells of each 404


def test_zoom_to_one_second_and_back(visit: Visit) -> None:
    page = opened(visit)
    canvas = page.locator(".lanes canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()

    def drag() -> None:
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100, steps=5)
        page.mouse.up()

    def closer() -> None:
        for _ in range(14):
            page.keyboard.press("+")

    first = zoomed(page, drag)
    assert first is not None
    canvas.focus()
    with page.expect_response(lambda answer: "/timeline?" in answer.url and "from=" in answer.url) as asked:
        second = zoomed(page, closer)
    assert second is not None
    assert second[1] - second[0] == pytest.approx(1.0, abs=0.002)
    assert first[0] <= second[0] < second[1] <= first[1]
    assert asked.value.ok
    third = zoomed(page, lambda: page.keyboard.press("ArrowRight"))
    assert third is not None
    assert third[0] > second[0]
    assert float(canvas.get_attribute("data-redraw-ms")) < REDRAW_MS
    page.go_back()
    page.wait_for_url(f"**from={round(second[0] * 1000)}**")
    assert "(1.0" in page.locator("[data-test=shown]").inner_text()
    same = opened(visit, path=page.url)
    assert same.locator("[data-test=shown]").inner_text() == page.locator("[data-test=shown]").inner_text()
    assert zoomed(page, lambda: page.get_by_role("button", name="Whole run").click()) is None


def test_ranks_files_and_requests(visit: Visit) -> None:
    page = opened(visit)
    files = page.locator("section", has=page.get_by_role("heading", name="Files", exact=True))
    files.locator("tbody tr").first.wait_for()
    files.get_by_label("Only files whose path contains").fill("no such file")
    files.get_by_text("No file of this run has this name.").wait_for()
    assert page.locator("figure.heat canvas").first.is_visible()
    assert "requests, most are 256" in page.locator("main").inner_text()
    page.get_by_role("button", name="Nodes").click()
    page.get_by_role("heading", name="I/O over time, by node").wait_for()


def test_compared_with_an_earlier_run(visit: Visit) -> None:
    page = opened(visit)
    page.get_by_role("link", name="Compare with another run").click()
    page.get_by_role("button", name="1901").first.click()
    page.get_by_role("heading", name="By layer, from the start of each run").wait_for()
    page.locator("figure.chart canvas").first.wait_for()
    assert "slowed by others" in page.locator("table").first.inner_text()
    assert VICTIM in page.url
    assert parse_qs(urlsplit(page.url).query)["b"][0].startswith("1901")


def test_a_shared_link_shows_this_run_to_nobody_in_particular(visit: Visit) -> None:
    page = opened(visit)
    page.get_by_role("button", name="Share this run").click()
    page.get_by_role("button", name="Make a link").click()
    address = page.get_by_label("Address of the shared run").input_value()
    guest = visit(None, urlsplit(address).path + "#" + urlsplit(address).fragment)
    guest.wait_for_url(f"**/jobs/{VICTIM}**")
    guest.locator(".lanes canvas[data-redraw-ms]").wait_for()
    assert not guest.get_by_role("button", name="Share this run").count()
    assert not guest.locator("main a[href^='/jobs/']").count()


def test_taken_away_as_a_page_and_as_csv(visit: Visit, tmp_path: Path) -> None:
    page = opened(visit)
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as CSV").click()
    table = Path(saved.value.path()).read_text("utf-8")
    assert table.startswith("job,record,layer,")
    assert f"\n{VICTIM},lane," in table
    assert f"\n{VICTIM},phase," in table
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as a page").click()
    alone = tmp_path / "job.html"
    saved.value.save_as(alone)
    text = alone.read_text("utf-8")
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org/", "")
    assert "spectra" not in text


def test_a_running_job_is_followed(visit: Visit, site: pages_site.Site) -> None:
    running = site.get("jobs?running=true&last=7d&user=alice", site.operator)["jobs"]
    assert running
    page = opened(visit, path=f"/jobs/{running[0]['job_id']}")
    page.locator("header .live").first.wait_for()
    with page.expect_request(lambda asked: "/live/jobs/" in asked.url):
        page.reload()
    assert page.get_by_text("Runs for").is_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_accessible_and_within_its_width(
    visit: Visit, axe: Callable[[Any], list[str]], width: int, scheme: str
) -> None:
    page = opened(visit, "admin", width=width, scheme=scheme)
    page.locator("ol.evidence li").first.wait_for()
    page.locator("figure.heat canvas").first.wait_for()
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not axe(page)


def test_jobs_are_filtered_sorted_and_linked(visit: Visit) -> None:
    page = visit("admin", "/jobs?last=7d")
    page.locator("tbody tr").first.wait_for()
    page.get_by_label("User", exact=True).fill("alice")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.wait_for_url("**user=alice**")
    page.get_by_role("button", name="Written").click()
    page.wait_for_url("**sort=write**")
    page.locator("th[aria-sort=descending]", has_text="Written").wait_for()
    page.locator("tbody tr", has_text="bob").first.wait_for(state="detached")
    page.locator("tbody a").first.click()
    page.wait_for_url("**/jobs/1*")
    page.locator("[data-test=verdict]").wait_for()
