"""The HTML report as people use it: opened from a file in Chromium, without a network.

Screenshots go to build/report-page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import report_samples as samples
from fairlead.core.model import unit_formats
from fairlead.show.report.job import job_page

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[4]
SHOTS = ROOT / "build" / "report-page"

Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def chromium(browser_of_module: Any) -> Any:
    """The Chromium of all tests: a process drives one."""
    return browser_of_module


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Opened]:
    """Opens data as a page from a file; when the test ends nothing may have been said on the console or requested."""
    contexts, faults = [], []

    def opens(data: dict[str, Any], **options: Any) -> Any:
        path = tmp_path / "report.html"
        path.write_text(job_page.render_job_page(data), "utf-8")
        context = chromium.new_context(**({"viewport": {"width": 1280, "height": 900}, "offline": True} | options))
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: faults.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: faults.append(f"error: {error}"))
        tab.on(
            "request",
            lambda request: None if request.url == path.as_uri() else faults.append(f"request: {request.url}"),
        )
        tab.goto(path.as_uri())
        tab.wait_for_selector("#method")
        return tab

    yield opens
    for context in contexts:
        context.close()
    assert faults == []


def _settle(tab: Any) -> None:
    """Wait until what a click or a key asked for has been drawn."""
    tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def _range(tab: Any) -> str:
    _settle(tab)
    return str(tab.inner_text("#range"))


def _paths(tab: Any) -> list[str]:
    names: list[str] = tab.eval_on_selector_all("table.files tbody th.path", "cells => cells.map(cell => cell.title)")
    return names


def _timeline(tab: Any) -> Any:
    canvas = tab.locator("canvas[aria-label^='What each of']")
    canvas.scroll_into_view_if_needed()
    return canvas


@pytest.mark.parametrize("name", [*samples.SMALL, "big"])
def test_every_sample_opens_and_fits(opened: Opened, name: str) -> None:
    tab = opened(getattr(samples, name)())
    SHOTS.mkdir(parents=True, exist_ok=True)
    for look, width, scheme in (("light", 1280, "light"), ("dark", 1280, "dark"), ("narrow", 400, "light")):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        _settle(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.screenshot(path=SHOTS / f"{name}-{look}.png", full_page=True)


def test_verdict_comes_first(opened: Opened) -> None:
    tab = opened(samples.big())
    assert tab.inner_text("header .badge") == "D"
    assert tab.inner_text("h1").startswith("A third of this job")
    assert tab.inner_text("#change h2") == "The three things to change"
    assert tab.locator(".changes > li").count() == 3
    assert "≈ 8.1 s of 45.2 s" in tab.inner_text(".changes > li:first-child")
    order = tab.eval_on_selector_all("main > section", "parts => parts.map(part => part.id)")
    assert order == ["change", "figures", "time", "requests", "ranks", "files", "findings", "unknown", "method"]


@pytest.mark.parametrize(
    "data", [{}, {"verdict": {}, "charts": {}}, {"verdict": None, "charts": None, "compare": None}]
)
def test_a_page_of_nothing_says_so(opened: Opened, data: dict[str, Any]) -> None:
    tab = opened(data)
    for part in ("time", "requests", "ranks", "files"):
        assert "Not known" in tab.inner_text(f"#{part}"), part
    assert "0 B" not in tab.inner_text("#figures")
    assert tab.locator("canvas").count() == 0


@pytest.mark.parametrize(
    "section", ["time", "bandwidth", "timeline", "heatmap", "sizes", "patterns", "ranks", "files", "costs"]
)
def test_each_section_may_be_missing(opened: Opened, section: str) -> None:
    data = samples.eight_ranks()
    data["charts"][section] = None
    tab = opened(data)
    unknown = tab.locator(".unknown").count()
    assert unknown == (0 if section == "costs" else 1)


def test_no_timeline_says_why_and_what_to_do(opened: Opened) -> None:
    tab = opened(samples.no_timeline())
    said = tab.inner_text("#time")
    assert "The trace holds no complete record of operations and no heat map." in said
    assert "run with DXT_ENABLE_IO_TRACE=1" in said
    assert tab.locator("#time canvas").count() == 0


def test_zero_is_said_as_zero(opened: Opened) -> None:
    tab = opened(samples.zero_io())
    assert "0 B" in tab.inner_text("#figures")
    assert "not known" not in tab.inner_text("#figures")
    assert tab.locator("#time, #ranks, #files").count() == 0


def test_hostile_strings_stay_text(opened: Opened) -> None:
    tab = opened(samples.hostile())
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img, iframe, script:not([id]):not(:last-of-type)").count() == 0
    assert "<b>bold</b>" in tab.inner_text("h1")
    shown = [path for path in _paths(tab) if "onerror" in path]
    assert shown
    assert "\\u202eevil\\n" in shown[0]  # the marks are written out instead of turning the text
    tab.locator("#findings summary").first.click()
    tab.locator("#findings .inside button.link").first.click()
    assert tab.evaluate("window.hacked") is None


def test_a_script_that_got_in_would_not_run(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(
        job_page.render_job_page({}).replace(
            "<main", "<script>window.hacked = 1</script><main onclick='window.hacked = 2'"
        ),
        "utf-8",
    )
    with chromium.new_context(offline=True) as context:
        tab = context.new_page()
        tab.goto(path.as_uri())
        tab.wait_for_selector("#method")
        tab.locator("h1").click()
        assert tab.evaluate("window.hacked") is None


def test_file_table_sorts_both_ways_and_keeps_unknown_last(opened: Opened) -> None:
    data = samples.eight_ranks()
    rows = data["charts"]["files"]["rows"]
    rows[4]["write_bytes"] = None
    tab = opened(data)
    by_size = [
        row["path"]
        for row in sorted(rows, key=lambda row: -(row["write_bytes"] or 0))
        if row["write_bytes"] is not None
    ]
    tab.click("table.files th button:text-is('Written')")
    assert _paths(tab)[:5] == by_size[:5]
    assert tab.get_attribute("table.files th:has(button:text-is('Written'))", "aria-sort") == "descending"
    tab.click("table.files th button:text-is('Written')")
    assert _paths(tab)[:5] == by_size[::-1][:5]
    tab.click("#files button:text-is('Next →')")
    assert _paths(tab)[-1] == rows[4]["path"]


def test_file_table_searches_and_pages(opened: Opened) -> None:
    data = samples.big()
    tab = opened(data)
    paths = [row["path"] for row in data["charts"]["files"]["rows"]]
    assert "1–25 of 2,000 files" in tab.inner_text("#files")
    assert "the job's 12,034 files" in tab.inner_text("#files")
    first = _paths(tab)
    tab.click("#files button:text-is('Next →')")
    assert not set(first) & set(_paths(tab))
    tab.fill("#file-search", "CHK 0010")
    assert sorted(_paths(tab)) == sorted(path for path in paths if "chk" in path and "0010" in path)[:25]
    tab.fill("#file-search", "no such file")
    assert "No file matches." in tab.inner_text("#files")


def test_wheel_zooms_all_time_charts_and_double_click_resets(opened: Opened) -> None:
    tab = opened(samples.eight_ranks())
    canvas = _timeline(tab)
    assert _range(tab) == "the whole job, 12.8 s"
    bandwidth = tab.locator("canvas[aria-label^='Bandwidth']")
    pictures = [bandwidth.evaluate("c => c.toDataURL()"), canvas.evaluate("c => c.toDataURL()")]
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + 300, box["y"] + 40)
    tab.mouse.move(box["x"] + 310, box["y"] + 40)
    for _ in range(4):
        tab.mouse.wheel(0, -120)
    assert "of 12.8 s)" in _range(tab)
    assert bandwidth.evaluate("c => c.toDataURL()") != pictures[0]
    assert canvas.evaluate("c => c.toDataURL()") != pictures[1]
    canvas.dblclick(position={"x": 300, "y": 40})
    assert _range(tab) == "the whole job, 12.8 s"
    assert canvas.evaluate("c => c.toDataURL()") == pictures[1]


def test_wheel_zooms_about_the_pointer(opened: Opened) -> None:
    tab = opened(samples.eight_ranks())
    box = _timeline(tab).bounding_box()
    left, right = box["x"] + 72, box["x"] + box["width"] - 12
    tab.mouse.move(left + (right - left) / 4, box["y"] + 40)
    tab.mouse.move(left + (right - left) / 4 + 1, box["y"] + 40)
    for _ in range(3):
        tab.mouse.wheel(0, -120)
    begin, end = (float(part.split(" s")[0]) for part in _range(tab).split(" to "))
    quarter = begin + (end - begin) / 4
    assert quarter == pytest.approx(12.8 / 4, abs=0.1)


def test_drag_picks_a_stretch_then_moves_it(opened: Opened) -> None:
    tab = opened(samples.eight_ranks())
    box = _timeline(tab).bounding_box()
    left, right, y = box["x"] + 72, box["x"] + box["width"] - 12, box["y"] + 50

    def drag(start: float, stop: float) -> None:
        tab.mouse.move(left + (right - left) * start, y)
        tab.mouse.down()
        tab.mouse.move(left + (right - left) * (start + stop) / 2, y)
        tab.mouse.move(left + (right - left) * stop, y)
        tab.mouse.up()

    drag(0.25, 0.5)
    begin, end = (float(part.split(" s")[0]) for part in _range(tab).split(" to "))
    assert (begin, end) == (pytest.approx(3.2, abs=0.05), pytest.approx(6.4, abs=0.05))
    drag(0.5, 0.25)
    begin, end = (float(part.split(" s")[0]) for part in _range(tab).split(" to "))
    assert (begin, end) == (pytest.approx(4.0, abs=0.05), pytest.approx(7.2, abs=0.05))


def test_wheel_leaves_the_page_to_scroll_until_the_pointer_moves_on_a_chart(opened: Opened) -> None:
    tab = opened(samples.eight_ranks())
    tab.mouse.move(640, 450)
    for _ in range(12):
        tab.mouse.wheel(0, 150)
        _settle(tab)
    assert tab.evaluate("scrollY") > 600
    assert _range(tab).startswith("the whole job")


def test_keyboard_zooms_moves_and_resets(opened: Opened) -> None:
    tab = opened(samples.eight_ranks())
    _timeline(tab).focus()
    tab.keyboard.press("+")
    zoomed = _range(tab)
    assert "of 12.8 s)" in zoomed
    tab.keyboard.press("ArrowRight")
    assert _range(tab) != zoomed
    tab.keyboard.press("0")
    assert _range(tab).startswith("the whole job")


def test_buttons_zoom_to_a_phase_and_back(opened: Opened) -> None:
    tab = opened(samples.eight_ranks())
    tab.click("button[aria-label='Zoom to phase 2']")
    begin = float(_range(tab).split(" s")[0])
    assert begin == pytest.approx(12.8 * (0.01 + 1 / 8.2), abs=0.1)
    tab.click("button[aria-label='Show the whole job']")
    assert _range(tab).startswith("the whole job")


def test_hovering_tells_what_is_there(opened: Opened) -> None:
    data = samples.eight_ranks()
    tab = opened(data)
    canvas = _timeline(tab)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    segments = data["charts"]["timeline"]["segments"]
    longest = max((i for i, kind in enumerate(segments["kind"]) if kind == 1), key=lambda i: segments["dur_s"][i])
    middle = segments["start_s"][longest] + segments["dur_s"][longest] / 2
    x = 72 + (box["width"] - 84) * middle / 12.8
    y = 8 + (box["height"] - 30) * (segments["rank"][longest] + 0.5) / 8
    tab.mouse.move(box["x"] + x, box["y"] + y)
    said = tab.inner_text("#tip")
    assert f"rank {segments['rank'][longest]}" in said
    assert unit_formats.format_bytes(segments["bytes"][longest]) in said
    tab.mouse.move(5, 5)
    assert tab.locator("#tip").is_hidden()


def test_heat_map_switches_between_reads_and_writes(opened: Opened) -> None:
    tab = opened(samples.eight_ranks())
    canvas = tab.locator("canvas[aria-label^='Heat map']")
    seen = set()
    for kind in ("Both", "Read", "Write"):
        tab.click(f".choices button:text-is('{kind}'):visible >> nth=0")
        _settle(tab)
        seen.add(canvas.evaluate("c => c.toDataURL()"))
    assert len(seen) == 3


def test_evidence_filters_the_files_and_lights_the_ranks(opened: Opened) -> None:
    data = samples.big()
    tab = opened(data)
    finding = tab.locator("#finding-small-writes")
    finding.locator("summary").click()
    finding.locator("button.link:has-text('show 2 files')").click()
    wanted = data["verdict"]["findings"][0]["evidence"][0]["files"]
    assert sorted(_paths(tab)) == sorted(wanted)
    tab.click("#files .lit button")
    assert len(_paths(tab)) == 25
    before = _timeline(tab).evaluate("c => c.toDataURL()")
    tab.locator("#finding-straggler summary").click()
    tab.locator("#finding-straggler button.link:has-text('show ranks')").click()
    _settle(tab)
    assert "Lit: ranks 3, 19, 35" in tab.inner_text("#time")
    assert _timeline(tab).evaluate("c => c.toDataURL()") != before
    tab.click("#time .lit button")
    _settle(tab)
    assert _timeline(tab).evaluate("c => c.toDataURL()") == before


def test_rank_field_keeps_only_those_rows(opened: Opened) -> None:
    tab = opened(samples.big())
    canvas = _timeline(tab)
    tall = canvas.bounding_box()["height"]
    tab.fill("#rank-filter", "0-3, 17")
    _settle(tab)
    assert canvas.bounding_box()["height"] == pytest.approx(5 * 22 + 30, abs=1)
    tab.fill("#rank-filter", "abc")
    assert "write ranks as" in tab.inner_text("#time")
    tab.fill("#rank-filter", "")
    _settle(tab)
    assert canvas.bounding_box()["height"] == tall


def test_copy_puts_the_whole_code_on_the_clipboard(opened: Opened) -> None:
    data = samples.eight_ranks()
    tab = opened(data, permissions=["clipboard-read", "clipboard-write"])
    tab.click(".changes > li:nth-child(1) button.copy")
    tab.wait_for_selector("button.copy:text-is('Copied')")
    assert tab.evaluate("navigator.clipboard.readText()") == data["verdict"]["findings"][0]["advice"][0]["code"]


def test_two_runs_stand_side_by_side(opened: Opened) -> None:
    tab = opened(samples.compared())
    said = tab.inner_text("#compare")
    assert "▲ better" in said
    assert "▼ worse" in said
    assert "Gone (1)" in said
    assert tab.locator("#compare canvas").count() == 2
    assert tab.locator("#compare .badge").all_inner_texts() == ["D", "B"]


def test_print_opens_the_findings_and_fits_the_paper(opened: Opened) -> None:
    tab = opened(samples.eight_ranks(), color_scheme="dark")
    SHOTS.mkdir(parents=True, exist_ok=True)
    tab.evaluate(
        "addEventListener('beforeprint', () => {"
        " window.openAtPrint = document.querySelectorAll('#findings details[open]').length })"
    )
    paper = tab.pdf(path=SHOTS / "eight_ranks.pdf", format="A4")
    assert paper.startswith(b"%PDF")
    assert tab.evaluate("window.openAtPrint") == 5
    assert tab.locator("#findings details[open]").count() == 0
    tab.set_viewport_size({"width": 688, "height": 900})
    tab.emulate_media(media="print")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 688


def test_all_controls_have_a_name(opened: Opened) -> None:
    tab = opened(samples.compared())
    nameless = tab.eval_on_selector_all(
        "button, input, canvas, svg, [role=img]",
        "nodes => nodes.filter(n => !(n.getAttribute('aria-label') || n.textContent.trim()"
        " || (n.id && document.querySelector(`label[for='${n.id}']`)))).map(n => n.outerHTML)",
    )
    assert nameless == []
    doubled = tab.evaluate(
        "() => { const ids = [...document.querySelectorAll('[id]')].map(n => n.id);"
        " return ids.filter((id, i) => ids.indexOf(id) !== i); }"
    )
    assert doubled == []


def test_numbers_read_as_in_the_terminal(opened: Opened) -> None:
    tab = opened({})
    script = (Path(job_page.__file__).parent / "scripts" / "format.js").read_text("utf-8")
    values = [
        0,
        1,
        512,
        1023,
        1023.4,
        1023.5,
        1024,
        1280,
        1536,
        1792,
        99.95 * 1024,
        1 << 20,
        (1 << 30) * 1.25,
        7e15,
        1e21,
        9999,
        10_000,
        12_345,
        999_949,
        999_950,
        1.5e6,
        0.25,
        2.5,
        12.5,
        -1280,
    ]
    seconds = [
        0,
        2e-10,
        2.5e-7,
        1e-6,
        1.25e-6,
        999e-6,
        999.6e-6,
        0.0125,
        0.9994,
        0.9996,
        1.25,
        59.95,
        99.94,
        99.96,
        119.5,
        120.5,
        3599.4,
        3599.6,
        86_400,
        172_799,
        172_800,
        1e7,
        -3.25,
    ]
    shares = [0, 0.0004, 0.001, 0.01, 0.0125, 0.0995, 0.09996, 0.1, 0.125, 0.135, 0.5, 0.995, 1, 1.5]
    cases = {
        "formatBytes": (unit_formats.format_bytes, values),
        "formatBandwidth": (unit_formats.format_bandwidth, values),
        "formatCount": (unit_formats.format_count, values),
        "formatDuration": (unit_formats.format_duration, seconds),
        "formatPercent": (unit_formats.format_percent, shares),
        "formatTime": (unit_formats.format_time, [0, 1_519_552_812_000_000_000, 1_721_037_600_999_999_000]),
    }
    bare = tab.context.new_page()
    for name, (formats, inputs) in cases.items():
        found = bare.evaluate(f"(values) => {{ {script}; return values.map({name}); }}", [*inputs, None])
        assert found == [formats(value) for value in [*inputs, None]], name
