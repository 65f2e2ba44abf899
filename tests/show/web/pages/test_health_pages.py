"""Health of fairlead, what is connected, accounts and one's own account in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pages_site
from pages_site import Visit

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages_site.Site]:
    """A server that has recorded nothing; its accounts may be changed."""
    running = pages_site.begin(tmp_path_factory.mktemp("empty"), None)
    yield running
    running.up.kill()


def test_health_tells_of_sources_gaps_and_the_lake(visit: Visit, site: pages_site.Site) -> None:
    told = site.get("health/own", site.operator)
    page = visit("carol", "/health")
    page.get_by_role("heading", name="The lake").wait_for()
    tables = page.get_by_role("region", name="Tables of the lake")
    assert tables.get_by_role("row").count() == len(told["lake"]["tables"]) + 1
    assert "14 days" in tables.inner_text()
    total = sum(told["states"].values())
    page.get_by_text(f"{total:,} nodes report").wait_for()
    page.get_by_role("button", name="All", exact=True).click()
    some = told["sources"][-1]["node"]
    page.get_by_placeholder("Find a source").fill(some)
    page.get_by_role("link", name=some, exact=True).click()
    page.wait_for_url(f"**/nodes/{some}")


def test_nothing_recorded_yet_leads_to_what_is_missing(visit: Visit, empty: pages_site.Site) -> None:
    page = visit("admin", "/setup", of=empty)
    page.get_by_role("heading", name="Nothing was recorded yet").wait_for()
    setup = empty.get("setup", empty.operator)
    commands = [one for one in setup["parts"] if one["command"]]
    assert page.get_by_role("button", name="Copy: ").count() == len(commands)
    assert commands[0]["command"] in page.inner_text("main")
    page.goto("/health")
    page.get_by_text("No source reports yet").wait_for()


def test_a_token_is_shown_once_and_ended(visit: Visit, empty: pages_site.Site) -> None:
    page = visit("bob", "/account", of=empty)
    page.get_by_label("What it is for").fill("nightly")
    page.get_by_role("button", name="Make a token").click()
    secret = page.get_by_label("the secret", exact=True).inner_text().strip()
    assert empty.get("session", secret)["name"] == "bob"
    page.get_by_role("button", name="Done").click()
    page.reload()
    page.get_by_role("button", name="End the token nightly").click()
    page.get_by_text("You have no tokens.").wait_for()
    assert secret not in page.content()


def test_an_administrator_makes_changes_and_removes_an_account(visit: Visit, empty: pages_site.Site) -> None:
    page = visit("admin", "/people", of=empty)
    page.get_by_label("Name", exact=True).fill("erin")
    page.get_by_label("Projects", exact=True).fill("ocean, ice")
    page.get_by_role("button", name="Add").click()
    address = page.get_by_label("the secret", exact=True).inner_text().strip()
    assert "/welcome#flw_" in address
    row = page.get_by_role("row").filter(has_text="erin").first
    row.get_by_text("ocean, ice").wait_for()
    guest = visit(None, address, of=empty)
    guest.wait_for_url(lambda url: "/welcome" not in url)
    guest.goto("/account")
    guest.get_by_role("heading", name="Choose a password").wait_for()
    guest.goto("/people")
    guest.get_by_text("This page is only for administrators.").wait_for()
    page.get_by_label("Role of erin").select_option("support")
    page.get_by_role("region", name="Audit log").get_by_text("change account").first.wait_for()
    page.get_by_role("button", name="Remove erin").click()
    page.get_by_role("button", name="Yes, remove erin").click()
    page.get_by_label("Role of erin").wait_for(state="detached")
    page.get_by_label("Who", exact=True).fill("nobody at all")
    page.get_by_role("button", name="Filter").click()
    page.get_by_text("No entry matches.").wait_for()
    page.get_by_role("button", name="Remove admin").click()
    page.complaints.clear()
    page.get_by_role("button", name="Yes, remove admin").click()
    page.get_by_text("the last administrator cannot be removed").wait_for()
    page.complaints.clear()  # 409 is what was provoked
