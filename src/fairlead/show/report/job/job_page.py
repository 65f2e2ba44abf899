"""The single-file HTML report: one page that carries its data, styles and scripts and never touches a network.

Not here: what the data mean (`fairlead.explain.analysis`) and how the charts are drawn (`scripts/*.js`, plain
JavaScript).
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from fairlead.show.report import page_file

SCRIPTS = ("format", "dom", "time", "panels", "heatmap", "bars", "files", "findings", "compare", "page")
"""The page's scripts, in the order they are joined into one function scope."""


def render_job_page(data: Mapping[str, Any]) -> str:
    """The whole page as text, to be written as UTF-8.

    `data` holds `verdict` (schema `fairlead.report/1`), `charts` and `compare`, as docs/reference/report-page.md lists
    them; every chart may be None or absent, and the page then says what is not known and why. NumPy arrays and msgspec
    structs are accepted wherever lists and dicts are. `data` is not changed.
    """
    verdict = _plain(data.get("verdict"))
    script, style = _script(), _text("report.css")
    slots = {
        "title": _title(verdict),
        "policy": page_file.build_page_file_policy(script, style),
        "style": style,
        "script": script,
        "data": embed_job_page_json(data),
        "plain": _plain_verdict(verdict),
    }
    return page_file.fill_page_file_template(_text("template.html"), slots)


def embed_job_page_json(data: Mapping[str, Any]) -> str:
    """`data` as JSON that is inert inside a script element, whatever its strings hold. NaN and infinity become null."""
    return page_file.embed_page_file_json(_compact(data))


def _compact(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same data with bulky columns cut to what can be seen: bytes whole, times to a microsecond."""
    page = dict(data)
    page["charts"] = _compact_charts(data.get("charts"))
    compare = data.get("compare")
    if isinstance(compare, Mapping) and isinstance(compare.get("other"), Mapping):
        other = dict(compare["other"])
        other["charts"] = _compact_charts(other.get("charts"))
        page["compare"] = {**compare, "other": other}
    return page


def _compact_charts(charts: Any) -> Any:
    if not isinstance(charts, Mapping):
        return charts
    slim = dict(charts)
    timeline, bandwidth, heatmap = (slim.get(name) for name in ("timeline", "bandwidth", "heatmap"))
    if isinstance(timeline, Mapping) and isinstance(timeline.get("segments"), Mapping):
        segments = dict(timeline["segments"])
        for name, digits in (("start_s", 6), ("dur_s", 6), ("bytes", None)):
            segments[name] = _rounded(segments.get(name), digits)
        slim["timeline"] = {**timeline, "segments": segments}
    if isinstance(bandwidth, Mapping):
        slim["bandwidth"] = {**bandwidth, **{kind: _rounded(bandwidth.get(kind)) for kind in ("read", "write")}}
    if isinstance(heatmap, Mapping):
        rows = {kind: [_rounded(row) for row in _listed(heatmap.get(kind))] for kind in ("read", "write")}
        slim["heatmap"] = {**heatmap, **rows}
    if isinstance(slim.get("files"), Mapping):
        slim["files"] = _file_columns(slim["files"])
    return slim


def _file_columns(table: Mapping[str, Any]) -> dict[str, Any]:
    """The file table with its column names written once instead of in every row."""
    rows = [
        row if isinstance(row, Mapping) else msgspec.to_builtins(row, enc_hook=page_file.convert_page_numpy)
        for row in table.get("rows") or []
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = [
        [round(cell, 6) if type(cell) is float and math.isfinite(cell) else cell for cell in map(row.get, names)]
        for row in rows
    ]
    return {"total": table.get("total"), "names": names, "rows": values}


def _listed(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values or []


def _rounded(values: Any, digits: int | None = None) -> Any:
    """A column of numbers with `digits` decimals (None: whole); what is not finite becomes None."""
    column = _listed(values)
    if not any(type(value) is float for value in column):
        return column
    finite = math.isfinite
    return [round(value, digits) if value is not None and finite(value) else None for value in column]


def _plain(value: Any) -> Mapping[str, Any]:
    built = msgspec.to_builtins(value, enc_hook=page_file.convert_page_numpy)
    return built if isinstance(built, dict) else {}


def _escaped(value: Any) -> str:
    return html.escape(page_file.make_page_file_readable(str(value)))


def _title(verdict: Mapping[str, Any]) -> str:
    job = verdict.get("job") or {}
    program = str(job.get("program") or "").split(" ")[0].rsplit("/", 1)[-1]
    grade = verdict.get("grade")
    words = [f"{grade}:" if grade else "", program, f"job {job['id']}" if job.get("id") else "", "– fairlead report"]
    return _escaped(" ".join(word for word in words if word).removeprefix("– "))


def _plain_verdict(verdict: Mapping[str, Any]) -> str:
    """The verdict as plain HTML for a reader whose browser runs no scripts."""
    found: Sequence[Mapping[str, Any]] = verdict.get("findings") or []
    lines = [f"<h1>{_escaped(verdict.get('headline') or 'fairlead report')}</h1>"]
    if verdict.get("grade"):
        lines.append(f"<p>Grade {_escaped(verdict['grade'])}. {_escaped(verdict.get('grade_reason') or '')}</p>")
    lines.append("<ol>" + "".join(f"<li>{_escaped(item.get('title', ''))}</li>" for item in found) + "</ol>")
    return "".join(lines)


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _script() -> str:
    return page_file.join_page_scripts([_text(f"scripts/{name}.js") for name in SCRIPTS])
