"""Pages a site adds (`fairlead.pages`): a function asks questions with its reader's rights and yields tables and texts.

Everything is escaped here and no script runs, so a page shows no more than its reader may ask. Not here: fairlead's own
pages (`web.pages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fairlead.core.errors import FairleadError, PluginError
from fairlead.core.extensions import build_extension_defect, load_extensions, report_extension_faults
from fairlead.core.safe_text import escape_text
from fairlead.explain.questions.answers import Answer
from fairlead.explain.questions.lake_queries import NotForYouError, Sight, UnknownNameError
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import answer_question, list_questions, parse_question_parameters
from fairlead.show.web.api.answers import Answering
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.identity import READ, Door, Person, RefusedError, require_identity_scope

GROUP = "fairlead.pages"
ROOT = "/site"
MAX_ROWS = 2000
"""Rows of a table that are drawn; more are cut off and counted."""


class Ask(Protocol):
    """Asks a question of the catalog with the rights of the reader: `ask("jobs", last="1d", limit=20)`."""

    def __call__(self, question: str, name: str = "", **words: object) -> Any: ...


@dataclass(frozen=True)
class Text:
    """A paragraph, or a heading."""

    text: str
    heading: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells below a head. None is shown as a dash: not known."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Page:
    """A page at `/site/NAME`. `draw` is called in a thread, each time somebody opens the page."""

    title: str
    draw: Callable[[Ask], Iterable[Text | Table]]


def load_site_pages() -> tuple[dict[str, Page], list[PluginError]]:
    """The pages of installed plug-ins by name, and the errors of those that cannot be used."""
    loaded, faults = load_extensions(GROUP)
    for name, page in list(loaded.items()):
        if not isinstance(page, Page):
            faults.append(
                build_extension_defect(GROUP, name, TypeError(f"{type(page).__name__} is not a fairlead.plugins.Page"))
            )
            del loaded[name]
    report_extension_faults(faults)
    return loaded, faults


def render_site_page(title: str, blocks: Iterable[Text | Table]) -> str:
    """Return the HTML of a page; every text is escaped. Raises TypeError for a block of another kind."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<p><a href="/">fairlead</a> · <a href="{ROOT}">pages of this site</a></p><h1>{_text(title)}</h1>'
        f"{''.join(map(_render_block, blocks))}</html>\n"
    )


def _text(value: object) -> str:
    return "–" if value is None else escape(escape_text(str(value)))


def _render_block(block: Text | Table) -> str:
    if isinstance(block, Text):
        tag = "h2" if block.heading else "p"
        return f"<{tag}>{_text(block.text)}</{tag}>"
    if not isinstance(block, Table):
        raise TypeError(f"a page is made of Text and Table, not {type(block).__name__}")
    head = "".join(f"<th>{_text(cell)}</th>" for cell in block.head)
    rows = "".join(f"<tr>{''.join(f'<td>{_text(c)}</td>' for c in row)}</tr>" for row in block.rows[:MAX_ROWS])
    cut = len(block.rows) - MAX_ROWS
    more = f"<p>{cut} more rows are not shown.</p>" if cut > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def build_site_page_routes(
    asking: Asking, settings: ApiSettings, door: Door, clock: Callable[[], int]
) -> list[BaseRoute]:
    """`/site`, which lists the pages, and a route for each; none when no plug-in adds a page."""
    pages, _ = load_site_pages()
    if not pages:
        return []
    answering = Answering(asking, msgspec.structs.replace(settings, warm=False), clock)

    def find_reader(request: Request) -> Person:
        person = door.identify_person(request)
        require_identity_scope(person, READ)
        return person

    async def show_list(request: Request) -> Response:
        find_reader(request)
        items = "".join(f'<li><a href="{ROOT}/{_text(name)}">{_text(p.title)}</a></li>' for name, p in pages.items())
        return _reply(render_site_page("Pages of this site", ()).replace("</html>", f"<ul>{items}</ul></html>"))

    def serve(name: str, page: Page) -> Route:
        async def show(request: Request) -> Response:
            person = find_reader(request)
            work = partial(draw_site_page, name, page, partial(_ask_catalog, asking, person.sight, clock))
            return _reply((await answering.call(work, f"page {person.key}")).decode())

        return Route(f"{ROOT}/{name}", show, methods=["GET"])

    return [Route(ROOT, show_list, methods=["GET"]), *(serve(name, page) for name, page in pages.items())]


def draw_site_page(called: str, page: Page, question_of: Callable[[str, str, msgspec.Struct], Answer]) -> bytes:
    """The HTML of a page. Raises RefusedError: what the reader may not ask, a wrong question, a defect of the page."""

    def ask_words(question: str, name: str = "", **words: object) -> Answer:
        given = {key.rstrip("_"): str(value) for key, value in words.items() if value not in (None, "")}
        if question not in list_questions():
            raise KeyError(f"no question {question!r}")
        return question_of(question, name, parse_question_parameters(question, given))

    try:
        return render_site_page(page.title, page.draw(ask_words)).encode()
    except RefusedError:
        raise
    except FairleadError as error:
        raise RefusedError(403 if isinstance(error, NotForYouError) else 500, error.what, error.remedy or "") from error
    except UnknownNameError as unknown:
        raise RefusedError(404, str(unknown)) from unknown
    except Exception as fault:
        defect = build_extension_defect(GROUP, called, fault)
        raise RefusedError(500, defect.what, defect.remedy or "") from fault


def _ask_catalog(
    asking: Asking, sight: Sight, clock: Callable[[], int], question: str, subject: str, asked: msgspec.Struct
) -> Answer:
    return answer_question(asking, question, subject, asked, sight, clock())


def _reply(html: str) -> Response:
    return Response(html, media_type="text/html; charset=utf-8", headers={"cache-control": "no-store"})
