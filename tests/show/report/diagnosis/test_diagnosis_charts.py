"""Pictures: well-formed, named and described, honest about what is not known, harmless whatever the names."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from fairlead.show.report.diagnosis import svg
from fairlead.show.report.diagnosis.charts import (
    Axis,
    Lane,
    Points,
    Series,
    Stretch,
    draw_bar_chart,
    draw_cdf_chart,
    draw_gantt_chart,
    draw_heat_map_chart,
    draw_line_chart,
    draw_scatter_chart,
)

BAD = "</svg><script>alert(1)</script>\"'&<\x1b[2J\x00\n\ud800‮x"
SVG = "{http://www.w3.org/2000/svg}"
NS = 10**9

FULL: dict[str, Callable[[str], str]] = {
    "line": lambda name: draw_line_chart(
        [Series(name, [0, NS, 2 * NS], [1.0, None, 2.0])],
        title=name,
        desc=name,
        y=Axis(name, "bandwidth"),
        highlights=[Stretch(0, NS, name, text=name)],
    ),
    "heat": lambda name: draw_heat_map_chart([name], [name], [[0.5]], title=name),
    "bars": lambda name: draw_bar_chart({name: {name: 1.0}}, title=name),
    "cdf": lambda name: draw_cdf_chart([Series(name, [0, 0.5, 1], [0.0, 0.5, 1.0])], title=name, marks=[(0.5, name)]),
    "scatter": lambda name: draw_scatter_chart([Points(name, [1, 10], [1e3, 1e6], names=[name, name])], title=name),
    "gantt": lambda name: draw_gantt_chart(
        [Lane(name, [Stretch(0, NS, name, "read", name)])], title=name, highlight=Stretch(0, NS, name)
    ),
}
EMPTY: dict[str, str] = {
    "line": draw_line_chart([], title="t"),
    "heat": draw_heat_map_chart([], [], [], title="t"),
    "bars": draw_bar_chart({}, title="t"),
    "cdf": draw_cdf_chart([], title="t"),
    "scatter": draw_scatter_chart([], title="t"),
    "gantt": draw_gantt_chart([], title="t"),
}


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314  (what we have just made)


def words(text: str) -> str:
    return " ".join(parsed(text).itertext())


@pytest.mark.parametrize("kind", FULL)
def test_a_picture_is_named_described_and_holds_no_script(kind: str) -> None:
    root = parsed(FULL[kind]("plain name"))
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby", "").split()
    named = {part.get("id"): part for part in root.iter() if part.get("id")}
    assert [named[one].tag for one in ids] == [f"{SVG}title", f"{SVG}desc"]
    assert all(named[one].text for one in ids)
    assert {part.tag for part in root.iter()} <= {
        SVG + tag for tag in ("svg", "title", "desc", "defs", "pattern", "g", "rect", "path", "circle", "text")
    }


@pytest.mark.parametrize("kind", FULL)
def test_hostile_names_stay_text(kind: str) -> None:
    text = FULL[kind](BAD)
    root = parsed(text)
    assert not [part for part in root.iter() if "script" in part.tag]
    assert not [name for part in root.iter() for name in part.attrib if name.startswith("on") or "href" in name]
    assert not re.search(r"[\x00-\x08\x1b\ud800-\udfff\u202e]", text)
    assert parsed(svg.build_svg_file(text)) is not None


@pytest.mark.parametrize("kind", EMPTY)
def test_nothing_is_said_to_be_nothing(kind: str) -> None:
    assert "no data" in words(EMPTY[kind])


def test_two_pictures_on_a_page_share_no_ids() -> None:
    ids = [one for k in range(2) for kind in FULL for one in re.findall(r' id="([^"]+)"', FULL[kind](f"name {k}"))]
    assert len(ids) == len(set(ids))


def test_a_gap_in_a_line_is_a_gap_and_not_zero() -> None:
    whole = draw_line_chart([Series("a", [0, 1, 2, 3, 4], [5.0, 5.0, 5.0, 5.0, 5.0])], title="t")
    broken = draw_line_chart([Series("a", [0, 1, 2, 3, 4], [5.0, 5.0, None, 5.0, 5.0])], title="t")
    nulled = draw_line_chart([Series("a", [0, 1, 2, 3, 4], [5.0, 5.0, 0.0, 5.0, 5.0])], title="t")

    def strokes(text: str) -> list[str]:
        return [p.get("d", "") for p in parsed(text).iter(f"{SVG}path") if p.get("fill") == "none"]

    assert [len(strokes(text)) for text in (whole, broken, nulled)] == [1, 2, 1]
    foot = max(float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", strokes(nulled)[0]))
    assert all(float(y) < foot for d in strokes(broken) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", d))
    assert "1 of 5 values not known" in words(broken)


def test_a_value_between_gaps_is_a_dot() -> None:
    text = draw_line_chart([Series("a", [0, 1, 2], [None, 5.0, None])], title="t")
    assert len(list(parsed(text).iter(f"{SVG}circle"))) == 1


def test_a_cell_without_data_is_hatched_and_an_idle_one_is_not() -> None:
    text = draw_heat_map_chart(["f"], ["a", "b"], [[None, 0.0]], title="t")
    cells = [r for r in parsed(text).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert cells[0].get("fill", "").startswith("url(#")
    assert "var(--usual" in cells[1].get("fill", "")
    assert [cell.findtext(f"{SVG}title") for cell in cells] == ["f, a: no data", "f, b: 0 % (idle)"]


def test_levels_of_a_heat_map_are_those_of_the_paper() -> None:
    text = draw_heat_map_chart(["f"], list("abcd"), [[0.09, 0.1, 0.5, 0.9]], title="t")
    said = [r.findtext(f"{SVG}title") for r in parsed(text).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert [one.split("(")[1] for one in said if one] == ["idle)", "low)", "mid)", "high)"]


def test_an_unknown_bar_is_a_word() -> None:
    text = draw_bar_chart({"j": {"before": None, "after": 2.0}}, title="t", kind="seconds")
    assert "no data" in words(text)
    drawn = [r for r in parsed(text).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert [r.findtext(f"{SVG}title") for r in drawn] == ["j, after: 2 s"]


def test_a_scatter_says_what_it_left_out() -> None:
    text = draw_scatter_chart([Points("a", [1.0, None, 0.0, 100.0], [1e3, 1e3, 1e3, 1e6])], title="t")
    assert "2 points." in words(text)
    assert "2 more cannot be placed" in words(text)
    assert len(list(parsed(text).iter(f"{SVG}circle"))) == 2


def test_a_dot_on_a_request_line_has_that_size() -> None:
    """1,000 requests a second of 1 MiB lie on the line of 1 MiB."""
    text = draw_scatter_chart([Points("a", [100, 10_000, 1000], [100 << 16, 10_000 << 24, 1000 << 20])], title="t")
    root = parsed(text)
    dot = list(root.iter(f"{SVG}circle"))[2]
    x, y = float(dot.get("cx", "0")), float(dot.get("cy", "0"))
    lines = [p.get("d", "") for p in root.iter(f"{SVG}path") if p.get("stroke-dasharray") == "4 4"]
    ends = [[float(v) for v in re.findall(r"[\d.]+", d)] for d in lines]
    off = [abs(y - (y0 + (x - x0) / (x1 - x0) * (y1 - y0))) for x0, y0, x1, y1 in ends if x0 <= x <= x1]
    assert min(off) < 0.1


def test_many_points_are_thinned_and_said() -> None:
    text = draw_scatter_chart([Points("a", [1.0 + k for k in range(9000)], [1e3] * 9000)], title="t")
    assert len(list(parsed(text).iter(f"{SVG}circle"))) == 3000
    assert "One in 3 is drawn" in words(text)


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [1e-9, 1e18], [-1.0, 1.0], [float("nan"), float("inf")]])
def test_odd_ranges_are_drawn(values: list[float]) -> None:
    x = [float(k) for k in range(len(values))]
    for log in (False, True):
        text = draw_line_chart(
            [Series("a", x, values)], title="t", x=Axis(kind="number"), y=Axis(kind="number", log=log)
        )
        assert "nan" not in text.replace("fin", "")
        assert parsed(text) is not None


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 10 * (1 << 30), ["0 B", "2 GiB", "4 GiB", "6 GiB", "8 GiB", "10 GiB"]),
        (0, 1, ["0 B", "0.2 B", "0.4 B", "0.6 B", "0.8 B", "1 B"]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[str]) -> None:
    scale = svg.build_svg_scale([low, high], Axis(kind="bytes"), 0, 100)
    assert [text for _, text in scale.list_ticks()] == ticks
