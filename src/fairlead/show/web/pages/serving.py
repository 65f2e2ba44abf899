"""Serves the built pages: files as they are, the one HTML document for every address of theirs.

Assets carry a digest in their name and may be kept for ever; the document is asked for each time. Not here: the pages'
sources (`pages/` of the repository), the answers they show (`web.api`).
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

BUILT = Path(__file__).parent / "built"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
}
_DOCUMENT = "index.html"
_FOR_EVER = "public, max-age=31536000, immutable"
NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>fairlead</title>
<h1>The pages are not built</h1>
<p>This is a source tree whose pages were not built yet. Build them, and start the server again:</p>
<pre>make pages</pre>
<p>The API works anyway: <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p></html>
"""


class _File(NamedTuple):
    kind: str
    tag: str
    plain: bytes
    squeezed: bytes | None


def build_page_serving_routes(folder: Path = BUILT) -> list[BaseRoute]:
    """Routes of the pages: they go last. Files are read once."""
    files = _read(folder)
    document = files.get(_DOCUMENT)

    async def answer(request: Request) -> Response:
        path = request.path_params["path"]
        found = files.get(path)
        if found is not None and path != _DOCUMENT:
            return _reply(request, found, _FOR_EVER if path.startswith("assets/") else "public, max-age=3600")
        if path.startswith(("assets/", "api/")) or path == "api":
            return Response("not found", 404, media_type="text/plain", headers={"cache-control": "no-store"})
        if document is None:
            return Response(NOT_BUILT, 503, media_type="text/html", headers={"cache-control": "no-store"})
        return _reply(request, document, "no-cache")

    return [Route("/{path:path}", answer, methods=["GET"])]


def _read(folder: Path) -> dict[str, _File]:
    found: dict[str, _File] = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        kind = _KINDS.get(path.suffix)
        if kind is None or not path.is_file():
            continue
        plain = path.read_bytes()
        squeezed = path.with_name(path.name + ".gz")
        tag = f'"{blake2b(plain, digest_size=12).hexdigest()}"'
        name = path.relative_to(folder).as_posix()
        found[name] = _File(kind, tag, plain, squeezed.read_bytes() if squeezed.exists() else None)
    return found


def _reply(request: Request, file: _File, kept: str) -> Response:
    headers = {"etag": file.tag, "cache-control": kept, "vary": "Accept-Encoding", "x-content-type-options": "nosniff"}
    known = [word.strip().removeprefix("W/") for word in request.headers.get("if-none-match", "").split(",")]
    if file.tag in known:
        return Response(status_code=304, headers=headers)
    accepted = [word.split(";")[0].strip() for word in request.headers.get("accept-encoding", "").split(",")]
    if file.squeezed is not None and "gzip" in accepted:
        return Response(file.squeezed, media_type=file.kind, headers=headers | {"content-encoding": "gzip"})
    return Response(file.plain, media_type=file.kind, headers=headers)
