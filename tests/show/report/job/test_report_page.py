"""The HTML report as text: data that cannot escape its place, sections that may be missing, size and imports."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import report_samples as samples
from fairlead.core.model.missing import Missing
from fairlead.show.report.job import job_page

FOLDER = Path(job_page.__file__).parent
SHELL = [
    "html",
    "head",
    "meta",
    "meta",
    "meta",
    "meta",
    "meta",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "main",
    "div",
    "noscript",
]


class _Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style"):
            self.raw.append((self._open, data))

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._open = ""


def _data(text: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])
    return found


@pytest.mark.parametrize("name", [*samples.SMALL, "big"])
def test_embedded_data_is_what_was_given(name: str) -> None:
    given = getattr(samples, name)()
    found = _data(job_page.render_job_page(given))
    assert found["verdict"] == given["verdict"]
    for section in ("time", "sizes", "patterns", "ranks", "heatmap", "costs"):
        assert found["charts"][section] == given["charts"][section], section
    timeline = given["charts"]["timeline"]
    if timeline:
        segments = found["charts"]["timeline"]["segments"]
        assert segments["rank"] == timeline["segments"]["rank"]
        assert segments["start_s"] == pytest.approx(timeline["segments"]["start_s"], abs=5.1e-7)
    files = given["charts"]["files"]
    if files:
        table = found["charts"]["files"]
        rows = [dict(zip(table["names"], row, strict=True)) for row in table["rows"]]
        assert [row["path"] for row in rows] == [row["path"] for row in files["rows"]]
        assert [row["write_bytes"] for row in rows] == [row["write_bytes"] for row in files["rows"]]


@pytest.mark.parametrize(
    "text",
    [
        "</script>",
        "<!--<script>",
        "]]>",
        "&lt;",
        "\u2028\u2029",
        "a'b\"c\\d",
        samples.HOSTILE,
        "{{data}}",
        "\x00\x1b[31m",
    ],
)
def test_strings_come_back_unchanged_and_hold_no_markup(text: str) -> None:
    embedded = job_page.embed_job_page_json({"verdict": {"headline": text}, text: [text]})
    assert json.loads(embedded)["verdict"]["headline"] == text
    assert json.loads(embedded)[text] == [text]
    assert not set(embedded) & set("<>&\u2028\u2029")


def test_hostile_names_add_no_element_and_no_attribute() -> None:
    text = job_page.render_job_page(samples.hostile())
    elements = _Elements(text)
    inside_noscript = {"h1", "p", "ol", "li"}
    assert [tag for tag, _ in elements.found if tag not in inside_noscript] == [*SHELL, "script", "script"]
    names = {name for _, attributes in elements.found for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "style")}
    assert len(re.findall(r"</script>", text)) == 2


def test_a_placeholder_in_the_data_is_not_filled() -> None:
    data = samples.hostile()
    data["verdict"]["headline"] = "{{script}} {{data}}"
    text = job_page.render_job_page(data)
    assert _data(text)["verdict"]["headline"] == "{{script}} {{data}}"
    assert text.count("{{script}} {{data}}") == 2  # in the data, and in the plain verdict


@pytest.mark.parametrize("name", ["/scratch/caf\udce9.h5", "\ud800"])
def test_names_that_are_not_utf8_are_written_out(name: str) -> None:
    data = samples.eight_ranks()
    data["charts"]["files"]["rows"][0]["path"] = name
    data["verdict"]["headline"] = name
    text = job_page.render_job_page(data)
    text.encode("utf-8")
    assert _data(text)["verdict"]["headline"] in ("/scratch/caf\\xe9.h5", "\\ud800")


def test_the_policy_allows_this_script_and_this_style_and_no_network() -> None:
    elements = _Elements(job_page.render_job_page(samples.one_rank()))
    policy = next(
        a["content"] for t, a in elements.found if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        body = [text for kind, text in elements.raw if kind == tag][-1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_scripts_build_elements_and_never_markup() -> None:
    for path in FOLDER.glob("scripts/*.js"):
        text = path.read_text("utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|fetch\(|XMLHttp|import\(",
            text,
        ), path.name
        assert "</script" not in text.lower()
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "url(" not in (FOLDER / "report.css").read_text("utf-8")


def test_every_script_is_part_of_the_page() -> None:
    assert {path.stem for path in FOLDER.glob("scripts/*.js")} == set(job_page.SCRIPTS)


def test_numbers_that_are_not_finite_become_null() -> None:
    data = samples.eight_ranks()
    data["verdict"]["summary"]["average_iops"] = float("nan")
    data["charts"]["bandwidth"]["read"][0] = float("inf")
    data["charts"]["timeline"]["segments"]["start_s"][0] = float("nan")
    data["charts"]["files"]["rows"][0]["read_time_s"] = float("nan")
    found = _data(job_page.render_job_page(data))
    assert found["verdict"]["summary"]["average_iops"] is None
    assert found["charts"]["bandwidth"]["read"][0] is None
    assert found["charts"]["timeline"]["segments"]["start_s"][0] is None
    table = found["charts"]["files"]
    assert table["rows"][0][table["names"].index("read_time_s")] is None


def test_arrays_and_structs_are_accepted() -> None:
    plain, rich = samples.eight_ranks(), samples.eight_ranks()
    segments = rich["charts"]["timeline"]["segments"]
    for name, column in segments.items():
        segments[name] = np.array(column)
    rich["charts"]["heatmap"]["read"] = np.array(rich["charts"]["heatmap"]["read"], float)
    rich["charts"]["bandwidth"]["write"] = np.array(rich["charts"]["bandwidth"]["write"], float)
    rich["verdict"]["totals"]["read_ops"] = np.int64(41_210)
    rich["verdict"]["missing"] = [Missing(**missing) for missing in rich["verdict"]["missing"]]
    assert _data(job_page.render_job_page(rich)) == _data(job_page.render_job_page(plain))


def test_the_data_given_is_left_as_it_was() -> None:
    data = samples.compared()
    before = copy.deepcopy(data)
    job_page.render_job_page(data)
    assert data == before


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"verdict": None, "charts": None, "compare": None},
        {"verdict": {}, "charts": {"timeline": None, "files": {"total": 0, "rows": []}}},
    ],
)
def test_nothing_known_still_gives_a_page(data: dict[str, Any]) -> None:
    text = job_page.render_job_page(data)
    assert "<h1>fairlead report</h1>" in text
    assert "<title>fairlead report</title>" in text


def test_without_scripts_the_verdict_is_readable() -> None:
    text = job_page.render_job_page(samples.eight_ranks())
    plain = text[text.index("<noscript>") : text.index("</noscript>")]
    assert "Grade D." in plain
    assert "98 % of the writes are smaller than 1 MiB" in plain
    assert "<title>D: flash4 job 482913 – fairlead report</title>" in text


def test_a_value_that_cannot_be_shown_is_refused() -> None:
    with pytest.raises(TypeError, match="a object cannot be shown"):
        job_page.render_job_page({"verdict": {"headline": "x"}, "charts": {"costs": object()}})


def test_size_of_the_page_and_of_what_it_carries() -> None:
    assert len(job_page.render_job_page(samples.big()).encode()) < 2_000_000
    carried = sum(path.stat().st_size for path in [*FOLDER.glob("scripts/*.js"), FOLDER / "report.css"])
    assert carried < 105_000


def test_rendering_imports_nothing_heavy() -> None:
    program = "import sys, fairlead.show.report.job.job_page as p; p.render_job_page({}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not {"numpy", "pyarrow", "pandas", "duckdb", "numba", "scipy", "jinja2", "rich", "click"} & set(loaded)


@pytest.mark.parametrize("name", samples.SMALL)
def test_kept_samples_are_those_of_the_generator(name: str, fixtures: Path) -> None:
    assert (fixtures / "report" / f"{name}.json").read_text("utf-8") == samples.as_text(samples.SMALL[name]())
    assert (
        msgspec.json.decode((fixtures / "report" / f"{name}.json").read_bytes())["verdict"]["schema"]
        == "fairlead.report/1"
    )
