"""Reads an exporter's page at intervals, as Prometheus would. Not here: the page's grammar (`exposition`)."""

from __future__ import annotations

import http.client
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from fairlead.core import clock
from fairlead.core.access.redirects import NoRedirect
from fairlead.core.errors import ConfigError, InputError, LakeError
from fairlead.see.collector.feed import Sink
from fairlead.see.collector.feeds.batch_numbering import Telling
from fairlead.see.collector.feeds.prometheus.assembly import AHEAD_MS, Assembly, Key
from fairlead.see.collector.feeds.prometheus.exposition import Page, parse_exposition_labels
from fairlead.see.collector.feeds.prometheus.mapping import load_mapping
from fairlead.see.collector.feeds.settings import Scrape

MOST_BYTES = 128 << 20
"""Of one page. job_stats of 10,000 jobs on 24 targets make about 100 MB."""
_CHUNK = 1 << 20
_NS_PER_MS = 1_000_000
_ACCEPT = "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5, */*;q=0.1"


class ScrapeFeed:
    """A `Feed`. Raises ConfigError for an address that is none or a CA file that cannot be used."""

    def __init__(self, settings: Scrape, own_mapping: str = "") -> None:
        parts = urllib.parse.urlsplit(settings.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "not the address of a metrics page", where=settings.url, remedy="give http://HOST:PORT/metrics"
            )
        self.settings = settings
        self.name = f"scrape:{settings.url}"
        self._telling = Telling(self.name, clock.now_ns())
        self._assembly = Assembly(
            load_mapping(own_mapping),
            lambda key: parse_exposition_labels(cast("str", key)),
            node=settings.node or parts.hostname,
        )
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=_context(settings)), NoRedirect()
        )
        self._unknown_told = 0

    def run(self, sink: Sink, stop: threading.Event) -> None:
        """Reads the page every `period_s` until `stop`."""
        due = clock.monotonic_s()
        while not stop.is_set():
            self.look(sink)
            due = max(due + self.settings.period_s, clock.monotonic_s())
            stop.wait(max(due - clock.monotonic_s(), 0.05))

    def look(self, sink: Sink) -> None:
        """Reads the page once. While the lake takes nothing it is left alone: counters lose nothing by waiting."""
        try:
            self._telling.settle(sink)
            now_ms = clock.now_ns() // _NS_PER_MS
            page = Page(self._page())
            rows = self._assembly.build_rows(_samples(page, now_ms), now_ms + AHEAD_MS)
            self._telling.send(sink, rows)
        except LakeError as fault:
            sink.report_health(self.name, "failing", f"the lake accepts nothing: {fault.what}")
            return
        except InputError as fault:
            sink.report_health(self.name, "failing", fault.what)
            return
        unknown = self._assembly.counts.unknown.total()
        text = f"{page.strange} lines not understood, such as {page.example!r}" if page.strange else ""
        sink.report_health(
            self.name,
            "ok",
            text or self._assembly.counts.format_text(),
            rows=sum(one.num_rows for one in rows),
            unknown_lines=page.strange + unknown - self._unknown_told,
        )
        self._unknown_told = unknown

    def _page(self) -> str:
        """The page's text. Raises InputError."""
        headers = {"Accept": _ACCEPT, "Accept-Encoding": "gzip", "User-Agent": "fairlead"}
        try:
            if self.settings.token_file:
                headers["Authorization"] = f"Bearer {Path(self.settings.token_file).read_text().strip()}"
            request = urllib.request.Request(self.settings.url, headers=headers)  # noqa: S310
            with self._opener.open(request, timeout=self.settings.timeout_s) as answer:
                data = _body(answer, clock.monotonic_s() + 4 * self.settings.timeout_s)
        except urllib.error.HTTPError as fault:
            fault.close()
            raise self._fault(f"it returned {fault.code}") from fault
        except urllib.error.URLError as fault:
            raise self._fault(f"it does not respond: {fault.reason}") from fault
        except (OSError, http.client.HTTPException, zlib.error) as fault:
            raise self._fault(f"it does not respond as expected: {fault}") from fault
        return data.decode("utf-8", "replace")

    def _fault(self, what: str) -> InputError:
        return InputError(what, where=self.settings.url, remedy="check that the exporter runs")


def _body(answer: http.client.HTTPResponse, until_s: float) -> bytes:
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 16) if answer.headers.get("Content-Encoding") == "gzip" else None
    pieces: list[bytes] = []
    size = 0
    while chunk := answer.read(_CHUNK):
        piece = inflater.decompress(chunk, MOST_BYTES + 1 - size) if inflater is not None else chunk
        size += len(piece)
        if size > MOST_BYTES:
            raise OSError(f"more than {MOST_BYTES} bytes")
        if clock.monotonic_s() > until_s:
            raise OSError("it arrives too slowly")
        pieces.append(piece)
    return b"".join(pieces)


def _context(settings: Scrape) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file or None)
    except (OSError, ssl.SSLError) as fault:
        raise ConfigError(
            f"the CA file cannot be used: {fault}", where=settings.ca_file, remedy="give a PEM file"
        ) from fault


def _samples(page: Page, now_ms: int) -> Iterator[tuple[Key, int, float]]:
    """Values with the time of the look, unless the page dates them itself."""
    for series, value, stamp in page.read_values():
        yield series, now_ms if stamp is None else stamp, value
