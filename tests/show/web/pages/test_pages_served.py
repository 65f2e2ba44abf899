"""The pages as files: what is built is of these sources, and how it is sent."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from fairlead.show.web.pages import serving

ROOT = Path(__file__).resolve().parents[4]
PAGES = ROOT / "pages"


def test_the_types_of_answers_are_those_of_the_structs() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "page_types.py"))
    assert (PAGES / "src" / "api" / "types.ts").read_text("utf-8") == tool["written"](), "python tools/page_types.py"


def test_the_lock_names_no_registry_and_hashes_everything() -> None:
    packages = json.loads((PAGES / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("resolved" not in one for one in packages.values())
    assert all("integrity" in one for name, one in packages.items() if name)


def test_the_version_is_the_packages() -> None:
    assert json.loads((PAGES / "package.json").read_text("utf-8"))["private"] is True


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A small application as Vite leaves one."""
    (tmp_path / "assets").mkdir()
    for name, text in {"index.html": "<p>pages</p>", "assets/a-1.js": "x" * 2000, "mark.svg": "<svg/>"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (tmp_path / "secret.key").write_text("no page")
    return tmp_path


async def _get(folder: Path, path: str, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=Starlette(routes=serving.build_page_serving_routes(folder)))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://site", headers={"accept-encoding": ""}
    ) as client:
        return await client.get(path, headers=named)


def _sent(folder: Path, path: str, **headers: str) -> httpx.Response:
    import asyncio

    return asyncio.run(_get(folder, path, **headers))


@pytest.mark.parametrize("path", ["/", "/jobs/4711", "/layers/network/leaf000%2F4", "/index.html", "/nothing"])
def test_every_address_of_the_pages_is_the_one_document(built: Path, path: str) -> None:
    answer = _sent(built, path)
    assert (answer.status_code, answer.text) == (200, "<p>pages</p>")
    assert answer.headers["cache-control"] == "no-cache"


def test_assets_may_be_kept_and_are_sent_as_they_were_compressed(built: Path) -> None:
    plain, small = _sent(built, "/assets/a-1.js"), _sent(built, "/assets/a-1.js", accept_encoding="br, gzip;q=0.8")
    assert plain.text == small.text == "x" * 2000
    assert "immutable" in plain.headers["cache-control"]
    assert int(small.headers["content-length"]) < 100 < int(plain.headers["content-length"])
    assert _sent(built, "/assets/a-1.js", if_none_match=plain.headers["etag"]).status_code == 304


@pytest.mark.parametrize(
    "path", ["/assets/none.js", "/api/v1/none", "/secret.key", "/assets/../secret.key", "/assets/%2e%2e/secret.key"]
)
def test_nothing_else_is_sent(built: Path, path: str) -> None:
    answer = _sent(built, path)
    assert "no page" not in answer.text
    assert answer.status_code == 404 or answer.text == "<p>pages</p>"


def test_a_tree_whose_pages_are_not_built_says_so(tmp_path: Path) -> None:
    answer = _sent(tmp_path / "none", "/")
    assert answer.status_code == 503
    assert "make pages" in answer.text
