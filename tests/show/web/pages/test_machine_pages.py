"""The machine's pages as people use them: Home to the culprit, a layer, a component zoomed, names with slashes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pages_site import Visit

pytestmark = pytest.mark.browser


def settled(page: Any) -> None:
    """Waits until nothing on the page says that it is loading."""
    page.locator("main h1").first.wait_for()
    page.locator("main [role=status] .dots").first.wait_for(state="detached")


def drawn(page: Any) -> None:
    """Waits until the first course is drawn."""
    page.locator("main .chart canvas").first.wait_for()
    settled(page)


def test_home_shows_every_layer_and_leads_to_the_culprit(visit: Visit) -> None:
    page = visit("admin")
    page.locator("a.cell").first.wait_for()
    for title in ("Network", "Forwarders", "Targets", "Metadata", "Devices"):
        assert page.get_by_role("heading", name=title, exact=True).count(), title
    forwarders = page.get_by_role("region", name="Forwarders now")
    cells = forwarders.locator("a.cell")
    cells.nth(0).hover()
    name = (cells.nth(0).locator(".offstage").text_content() or "").split(":")[0]
    assert forwarders.locator(".readout").inner_text().startswith(f"{name}: ")
    cells.nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert cells.nth(1).evaluate("one => one === document.activeElement")
    culprit = page.locator(".culprit a").first
    culprit.wait_for()
    culprit.click()
    page.wait_for_url(re.compile("/(jobs|layers)/"))


def test_a_cell_of_home_opens_its_component(visit: Visit) -> None:
    page = visit("admin")
    cell = page.get_by_role("region", name="Targets now").locator("a.cell").first
    cell.wait_for()
    name = (cell.locator(".offstage").text_content() or "").split(":")[0]
    cell.click()
    page.wait_for_url(f"**/layers/target/{name}")
    assert name in page.locator("main h1").inner_text()


def test_a_layer_is_filtered_sorted_and_followed(visit: Visit) -> None:
    page = visit("admin", "/layers/target?last=1d")
    rows = page.locator("section", has_text="All targets").first.locator("tbody tr")
    rows.first.wait_for()
    everything = rows.count()
    page.get_by_role("button", name="target", exact=False).first.click()
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.get_by_label("Part of the name").fill("OST0003")
    rows.nth(1).wait_for(state="detached")
    assert rows.count() == 1 < everything
    rows.get_by_role("link").click()
    page.wait_for_url("**/layers/target/scratch-OST0003?last=1d")
    assert "scratch-OST0003" in page.locator("main h1").inner_text()


def test_an_hour_of_the_heat_map_opens_that_hour_of_the_component(visit: Visit) -> None:
    page = visit("admin", "/layers/forwarder?last=1d")
    heat = page.locator("section", has_text="Load by hour").first.locator("canvas")
    heat.wait_for()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        heat.press(key)
    page.wait_for_url("**/layers/forwarder/*?from=*")
    drawn(page)
    assert page.get_by_role("button", name="from…to").get_attribute("aria-pressed") == "true"


def test_a_course_is_zoomed_by_drag_and_by_button(visit: Visit) -> None:
    page = visit("admin", "/layers/forwarder/fwd000?last=1d")
    drawn(page)
    canvas = page.locator("main .chart canvas").first
    box = canvas.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()
    page.wait_for_url("**?from=*")
    settled(page)
    chosen = page.url
    page.get_by_role("button", name="Zoom in").first.click()
    page.wait_for_url(lambda url: url != chosen)
    page.go_back()
    page.wait_for_url(chosen)
    page.get_by_role("button", name="Numbers").first.click()
    assert page.get_by_role("region", name="Read and written: numbers").locator("tbody tr").count() > 10


def test_names_with_slashes_have_pages(visit: Visit) -> None:
    page = visit("admin", "/layers/network?last=1d")
    link = page.locator("section", has_text="All ports").first.locator("tbody a").first
    name = link.inner_text()
    assert "/" in name
    link.click()
    drawn(page)
    assert name in page.locator("main h1").inner_text()
    page.reload()
    drawn(page)
    assert name in page.locator("main h1").inner_text()
    assert not page.get_by_role("alert").count()


def test_a_user_sees_a_forwarder_only_while_the_own_jobs_used_it(visit: Visit) -> None:
    page = visit("alice", "/layers/forwarder/fwd000?last=3d")
    drawn(page)
    text = page.locator("main").inner_text()
    assert "Only times when your jobs used it" in text
    assert "bob" not in text
    assert page.locator("section", has_text="By share of the").locator("tbody tr").count()


def test_jobs_that_run_stand_first(visit: Visit) -> None:
    page = visit("alice")
    rows = page.locator("main table.jobs tbody tr")
    rows.first.wait_for()
    running = ["running" in (name or "") for name in rows.evaluate_all("all => all.map(one => one.className)")]
    assert running == sorted(running, reverse=True)
    rows.first.get_by_role("link").first.click()
    page.wait_for_url("**/jobs/**")
