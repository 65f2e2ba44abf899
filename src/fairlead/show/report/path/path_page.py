"""The single-file page of who was to blame: verdicts with evidence, and every job's path through the layers.

Not here: what the data mean (`fairlead.explain.analysis`). Format, elements and look are shared with the report's page.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from fairlead.show.report import page_file

SHARED = ("format", "dom")
"""Scripts of the report's page that this one begins with."""
SCRIPTS = ("chart", "lanes", "page")


def render_path_page(data: Mapping[str, Any]) -> str:
    """The whole page as text, to be written as UTF-8.

    `data` holds `judgement` (schema `fairlead.judgement/1`), `paths` (one `JobPath` a job), `charts`
    (`analysis.path_charts`), and where known `saw` (by job what the application counted), `played` (what was injected
    and is declared), `about` (title and lead) and `missing`.
    """
    judgement = msgspec.to_builtins(data.get("judgement") or {}, enc_hook=page_file.convert_page_numpy)
    script, style = _script(), _style()
    slots = {
        "title": f"{html.escape(page_file.make_page_file_readable(_build_headline(judgement)))} – fairlead",
        "policy": page_file.build_page_file_policy(script, style),
        "style": style,
        "script": script,
        "data": page_file.embed_page_file_json({**data, "headline": _build_headline(judgement)}),
        "plain": _plain(judgement),
    }
    return page_file.fill_page_file_template(_shared("template.html"), slots)


def _build_headline(judgement: Mapping[str, Any]) -> str:
    """The verdicts in one line."""
    titles = [str(one["title"]) for one in judgement.get("verdicts") or []]
    return "; ".join(titles) if titles else "Nobody is accused"


def _plain(judgement: Mapping[str, Any]) -> str:
    """The verdicts for a reader whose browser runs no scripts."""
    lines = [f"<h1>{html.escape(page_file.make_page_file_readable(_build_headline(judgement)))}</h1>"]
    for one in judgement.get("verdicts") or []:
        said = "".join(
            f"<li>{html.escape(page_file.make_page_file_readable(str(text)))}</li>"
            for text in one.get("evidence") or []
        )
        lines.append(f"<h2>{html.escape(page_file.make_page_file_readable(str(one['title'])))}</h2><ul>{said}</ul>")
    if judgement.get("nobody"):
        lines.append(f"<p>{html.escape(page_file.make_page_file_readable(str(judgement['nobody'])))}</p>")
    return "".join(lines)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _shared(name: str) -> str:
    return files("fairlead.show.report.job").joinpath(name).read_text("utf-8")


@cache
def _style() -> str:
    return _shared("report.css") + _text("path.css")


@cache
def _script() -> str:
    shared = [_shared(f"scripts/{name}.js") for name in SHARED]
    return page_file.join_page_scripts([*shared, *(_text(f"scripts/{name}.js") for name in SCRIPTS)])
