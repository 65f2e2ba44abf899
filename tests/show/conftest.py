"""A browser, a running sample site and visits to it: every console error and every refused resource fails the test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pages_site
from fairlead.show.web.pages.serving import BUILT
from pages_site import Visit

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
AXE = Path(__file__).resolve().parents[2] / "pages" / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-sync",
]
PATIENCE_MS = 600_000
"""Of whatever is waited for on a page: under load it is slower, not absent."""


@pytest.fixture(scope="module")
def browser_of_module() -> Iterator[Any]:
    """A running Chromium: the system's, else the build playwright installed."""
    driving = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    driving.expect.set_options(timeout=PATIENCE_MS)
    with driving.sync_playwright() as driver:
        if found is None and not Path(driver.chromium.executable_path).exists():
            pytest.skip("no Chromium: apt-get install chromium")
        browser = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def filled_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled sample site, one for all processes of a run."""
    if not (BUILT / "index.html").exists():
        pytest.skip("the pages are not built: make pages")
    base = tmp_path_factory.getbasetemp()
    return pages_site.filled(base.parent if base.name.startswith("popen-") else base)


@pytest.fixture(scope="session")
def site(filled_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages_site.Site]:
    """A running server on it. Tests must not change what others see."""
    running = pages_site.begin(tmp_path_factory.mktemp("site"), filled_site)
    yield running
    running.up.kill()


@pytest.fixture
def visit(browser_of_module: Any, site: pages_site.Site) -> Iterator[Visit]:
    """`visit(role, path, width=1280, scheme="light", of=site)`: a page, signed in as `role` (None: nobody). Ends with
    a look at what the browser complained of; `page.complaints` may be emptied by a test that provokes some."""
    contexts: list[Any] = []
    pages: list[Any] = []

    def go(
        role: str | None,
        path: str = "/",
        *,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        of: pages_site.Site = site,
    ) -> Any:
        context = browser_of_module.new_context(
            base_url=of.url, color_scheme=scheme, viewport={"width": width, "height": height}
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        if role is not None:
            answer = context.request.post("/api/v1/session", data={"name": role, "password": pages_site.PASSWORD})
            assert answer.ok, answer.text()
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda told: _heard(page, told))
        page.on("pageerror", lambda error: page.complaints.append(f"failed: {error}"))
        pages.append(page)
        page.goto(path)
        return page

    yield go
    complaints = [line for page in pages for line in page.complaints]
    for context in contexts:
        context.close()
    assert not complaints


def _heard(page: Any, told: Any) -> None:
    if told.type in ("error", "warning"):
        page.complaints.append(f"{told.type}: {told.text} ({told.location.get('url', '')})")


@pytest.fixture(scope="session")
def axe() -> Callable[[Any], list[str]]:
    """`axe(page)`: what axe-core finds against WCAG 2.1 A and AA, one line for each kind and place."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make pages")
    source = AXE.read_text("utf-8")

    def look(page: Any) -> list[str]:
        # Not as a script of the page: its policy forbids that.
        page.evaluate(source)
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']}).then(r => r.violations)"
        )
        return [
            f"{one['id']}: {node['target']} {node['failureSummary'][:200]}" for one in found for node in one["nodes"]
        ]

    return look
