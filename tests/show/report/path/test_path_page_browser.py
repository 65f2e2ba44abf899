"""The page of a job's path as people use it: opened from a file in Chromium, light, dark and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.explain.analysis.culprits import judge_culprits
from fairlead.explain.analysis.job_path import build_job_paths
from fairlead.explain.analysis.path_charts import build_path_charts
from fairlead.show.report.path.path_page import render_path_page
from path_simulation import EDGES_NS, MIB, Plane, checkpoints, flood, metadata

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a slow target and a disturbing job on it."""
    plane = Plane(rate=lambda name, at: (7 if name == "t1" and 3 < at < 8 else 40) * MIB)
    jobs = [
        *checkpoints("101", "f0", 2, seed=1, every_s=0.2),
        *metadata("103", "f0", 1, seed=2),
        *flood("102", "f0", 12, seed=9, start=9, end=14),
    ]
    tables = plane.run(jobs, 16)
    judgement, facts = judge_culprits(tables, EDGES_NS)
    found = build_job_paths(tables, facts)
    text = render_path_page(
        {
            "judgement": judgement,
            "paths": found,
            "charts": build_path_charts(tables, judgement, facts, found),
            "saw": {
                "101": {
                    "about": "A checkpoint.",
                    "operations": 80,
                    "bytes_read": 0,
                    "bytes_written": 80 << 20,
                    "io_s": 3.0,
                    "longest_s": 0.2,
                }
            },
            "played": "Target t1 was slowed.",
        }
    )
    path = tmp_path_factory.mktemp("path") / "page.html"
    path.write_text(text, "utf-8")
    return path


@pytest.fixture(scope="module")
def chromium(browser_of_module: Any) -> Any:
    """The Chromium of all tests: a process drives one."""
    return browser_of_module


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light")])
def test_everything_is_drawn_and_nothing_is_fetched(chromium: Any, page: Path, width: int, scheme: str) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    faults: list[str] = []
    try:
        tab = context.new_page()
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.goto(page.as_uri())
        tab.wait_for_selector(".chart rect")
        assert "Target t1 was slow" in tab.inner_text("h1")
        text = tab.inner_text("main")
        for wanted in ("Evidence", "Job 102 made job 101 and job 103 wait", "Target t1 was slowed.", "t1 (slow)"):
            assert wanted in text
        assert tab.locator("section[id^=job-]").count() == 3
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        chart = tab.locator("#targets .chart")
        chart.scroll_into_view_if_needed()
        chart.hover()
        tab.wait_for_selector("#tip:not([hidden])")
        assert "a MiB" in tab.inner_text("#tip")
    finally:
        context.close()
    assert not faults
