"""How long people wait for the pages: each page's calls over HTTP of a full lake, with a session, while rows arrive.

Run: `python benchmarks/web.py [--quick] [--lake DIR] [--rounds N] [--rate ROWS_PER_S] [--viewers N] [--only PART...]`.
A real `fairlead up` answers. Parts: calls (server time of each page's calls), first (first view and zoom, in Chromium),
live (viewers that follow), slow (clients that read a byte at a time). Nothing is compared with: no peer serves this.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
from _endpoint import Server, server
from _full_lake import JOBS_A_DAY, TARGET_NAMES, build
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.access.tokens import OPERATOR, Claims, issue_token, read_token_key
from fairlead.store.inventory import take_inventory
from fairlead.store.lake_folder import open_lake_folder

P95_MS, P99_MS = 200.0, 1000.0
VIEW_S, VIEW_BYTES, ZOOM_MS = 1.5, 1_000_000, 100.0
ALICE = "u001"
PARTS = ("calls", "first", "live", "slow")


@dataclass
class Site:
    """The server under test and what is in its lake."""

    api: str
    token: str
    up: Server
    days: int
    job_days: int
    tokens: Callable[[int], str]
    """A token of the so manieth operator."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def job(self, first: int, last: int) -> str:
        """A job's number of some day."""
        return str(1_000_000 + int(self.rng.integers(first, last)) * JOBS_A_DAY + int(self.rng.integers(0, JOBS_A_DAY)))

    def headers(self) -> dict[str, str]:
        """Who asks."""
        return {"Authorization": f"Bearer {self.token}", "Accept-Encoding": "gzip"}


def path(question: str, **words: object) -> str:
    """A question's path with its parameters."""
    return f"{question}?{urlencode(words)}" if words else question


def calls(site: Site, number: int) -> dict[str, list[str]]:
    """By page the calls it makes when it is opened; jobs and components differ from round to round."""
    today, past = site.job(0, 1), site.job(1, site.job_days)
    target, back = TARGET_NAMES[int(site.rng.integers(0, len(TARGET_NAMES)))], 1 + number % max(1, site.days - 1)

    def job(name: str) -> list[str]:
        return [
            path(f"jobs/{name}/why"),
            path(f"jobs/{name}", points=10),
            path(f"jobs/{name}/timeline", points=900),
            path(f"jobs/{name}/ranks", rows=128, columns=300),
            path(f"jobs/{name}/files", sort="bytes", limit=50),
            path(f"jobs/{name}/requests"),
        ]

    def layer(kind: str) -> list[str]:
        return [
            path(f"layers/{kind}", last="1d"),
            path(f"layers/{kind}/hours", last="1d"),
            path(f"layers/{kind}/cdf", last="1d"),
            path(f"layers/{kind}/waits", last="1d"),
            path("volumes", last="7d"),
        ]

    return {
        "home (machine)": ["now", path("findings", last="1d", limit=50), path("mine", last="7d", limit=25), "setup"],
        "home (a user)": [path("mine", last="7d", limit=25, user=ALICE)],
        "jobs": [
            path("jobs", last="1d", limit=50),
            path("jobs", last="7d", sort="bytes", limit=50, offset=50 * number),
        ],
        "job of today": job(today),
        "job of the past": job(past),
        "forwarders": layer("forwarder"),
        "targets": layer("target"),
        "targets, a past day": [
            path("layers/target", last="1d", to=f"-{back}d"),
            path("layers/target/hours", last="1d", to=f"-{back}d"),
        ],
        "metadata": [*layer("mds"), path("mds", last="1d", limit=12)],
        "one target": [
            path("layers/target/component", id=target, last="1d", points=600),
            path("layers/target/waits", component=target, last="1d"),
            path("health/components", component=target, last="1d"),
        ],
        "findings": [path("findings", last="30d", limit=50), path("health/components", last="30d")],
        "behaviour": [path("behaviour", last="30d")],
        "a year": [path("behaviour", last="240d"), path("volumes", last="240d")],
        "health": ["health/own", "health"],
    }


def asked(site: Site, rounds: int) -> tuple[dict[str, list[tuple[float, int]]], dict[str, int]]:
    """Milliseconds and bytes of every call that was answered, by page; how often others were not."""
    spent: dict[str, list[tuple[float, int]]] = {}
    refused: Counter[str] = Counter()
    with httpx.Client(base_url=f"{site.api}/api/v1/", headers=site.headers(), timeout=60) as client:
        for number in range(rounds + 1):
            for page, paths in calls(site, number).items():
                for one in paths:
                    began = time.perf_counter()
                    answer = client.get(one)
                    took = (time.perf_counter() - began) * 1e3
                    if answer.status_code != 200:  # no answer is no fast answer: it is counted, and its time is not
                        refused[f"{page}: {answer.status_code} {re.sub('[0-9]+', 'N', one.split('?')[0])}"] += 1
                        continue
                    if number:  # the first round warms what is kept between questions; it is told apart
                        spent.setdefault(page, []).append((took, int(answer.headers.get("content-length", 0))))
                    else:
                        spent.setdefault(f"first: {page}", []).append((took, 0))
    for what, times in refused.items():
        print(f"not answered, {times} times: {what}", file=sys.stderr)
    return spent, dict(refused)


async def followed(site: Site, viewers: int, seconds: float) -> dict[str, float | None]:
    """`viewers` streams of different pages; how late events are against the pace they were asked for."""
    every = 2.0
    paths = ["now", "jobs?last=1h", "mine?last=7d", *(f"jobs/{site.job(0, 1)}/timeline?points=600" for _ in range(9))]
    gaps: list[float] = []
    ends: list[int] = []

    async def follow(client: httpx.AsyncClient, number: int) -> None:
        one = paths[number % len(paths)]
        glue = "&" if "?" in one else "?"
        events, last = 0, 0.0
        async with client.stream("GET", f"live/{one}{glue}every={every:g}") as answer:
            async for line in answer.aiter_lines():
                now = time.perf_counter()
                if line.startswith(("event: answer", ": beat")):
                    if line.startswith("event") and last:
                        gaps.append(now - last)
                    last = now
                    events += 1
                if now > until:
                    break
        ends.append(events)

    limits = httpx.Limits(max_connections=viewers + 4)
    base = f"{site.api}/api/v1/"
    async with httpx.AsyncClient(base_url=base, headers=site.headers(), timeout=120, limits=limits) as client:
        until = time.perf_counter() + seconds
        tasks = [asyncio.create_task(follow(client, number)) for number in range(viewers)]
        await asyncio.sleep(seconds + 20)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    found: dict[str, float | None] = {"viewers": viewers, "ended": len(ends), "changes": len(gaps)}
    if not gaps:  # nothing changed twice: nothing can be said of how late it was
        return found | {"late_p50_s": None, "late_p95_s": None, "late_max_s": None}
    late = np.maximum(np.array(gaps) - every, 0)
    return found | {
        "late_p50_s": float(np.percentile(late, 50)),
        "late_p95_s": float(np.percentile(late, 95)),
        "late_max_s": float(late.max()),
    }


async def slow(site: Site, clients: int, seconds: float) -> dict[str, float]:
    """`clients` that ask for a large answer and read a few bytes a second; how long an ordinary question takes then."""
    host, _, port = site.api.removeprefix("http://").partition(":")
    asked = "GET /api/v1/jobs?last=7d&limit=1000 HTTP/1.1\r\nHost: x\r\n"
    writers = []
    refused = 0

    async def crawl(number: int) -> None:
        nonlocal refused
        head = f"{asked}Authorization: Bearer {site.tokens(number)}\r\n\r\n".encode()  # each somebody else
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writers.append(writer)
        writer.write(head)
        with contextlib.suppress(ConnectionError):
            first = await reader.read(16)
            refused += b" 200 " not in first
            while await reader.read(16):
                await asyncio.sleep(1)

    tasks = [asyncio.create_task(crawl(number)) for number in range(clients)]
    await asyncio.sleep(5)
    took: list[float] = []
    base = f"{site.api}/api/v1/"
    async with httpx.AsyncClient(base_url=base, headers=site.headers(), timeout=60) as client:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            began = time.perf_counter()
            (await client.get("mine?last=7d")).raise_for_status()
            took.append((time.perf_counter() - began) * 1e3)
            await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for writer in writers:
        writer.close()
    return {
        "clients": clients,
        "refused": refused,
        "asked": len(took),
        "p50_ms": float(np.percentile(took, 50)),
        "p95_ms": float(np.percentile(took, 95)),
        "longest_ms": max(took),
    }


def viewed(site: Site) -> dict[str, float]:
    """First view of Home with nothing kept, and redraws of the job page's timeline when zooming, in Chromium."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser")
    figures: dict[str, float] = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--headless", "--no-sandbox", "--disable-gpu"])
        times, sizes = [], []
        for _ in range(5):
            context = browser.new_context(extra_http_headers={"Authorization": f"Bearer {site.token}"})
            page = context.new_page()
            wire = context.new_cdp_session(page)
            wire.send("Network.enable")
            got: list[float] = []
            wire.on("Network.loadingFinished", lambda event, got=got: got.append(event["encodedDataLength"]))
            began = time.perf_counter()
            page.goto(site.api, wait_until="commit")
            page.wait_for_selector("main table tbody tr, main canvas, main .cell", timeout=60_000)
            times.append(time.perf_counter() - began)
            page.wait_for_timeout(500)
            sizes.append(sum(got))
            context.close()
        figures |= {"first_view_s": float(np.median(times)), "first_view_bytes": float(max(sizes))}
        context = browser.new_context(extra_http_headers={"Authorization": f"Bearer {site.token}"})
        page = context.new_page()
        page.goto(f"{site.api}/jobs/{site.job(1, 3)}")
        place = page.locator("[data-timeline]").first
        place.wait_for(timeout=60_000)
        page.wait_for_timeout(1500)
        place.focus()
        for key in ("+", "+", "ArrowRight", "+", "-", "ArrowLeft", "+", "0"):
            page.keyboard.press(key)
            page.wait_for_timeout(300)
        redraws = page.evaluate("performance.getEntriesByName('timeline-redraw').map(one => one.duration)")
        browser.close()
    if redraws:
        figures |= {"zoom_p50_ms": float(np.median(redraws)), "zoom_max_ms": float(max(redraws))}
    return figures


@contextlib.contextmanager
def running(lake: Path, rate: int) -> Iterator[tuple[Server, str, Callable[[int], str]]]:
    """A server on the lake, rows arriving; its API's address and an operator's token."""
    more = ["api.listen=tcp:127.0.0.1:0", "web.requests_per_minute=0", "web.address_requests_per_minute=0"]
    with server(lake.parent, api=True, more=more) as up:
        for line in (lake.parent / "addresses.json", lake.parent / "up.err"):
            until = time.monotonic() + 60
            while not line.exists() and time.monotonic() < until:
                time.sleep(0.1)
        address = json.loads((lake.parent / "addresses.json").read_text())["api"][0].removeprefix("tcp:")
        key = read_token_key(lake.parent / "server.key")

        def token(number: int) -> str:
            return issue_token(key, Claims(expires_s=int(time.time()) + 86400, role=OPERATOR, user=f"operator{number}"))

        sending = None
        if rate:
            script = str(Path(__file__).with_name("_sending.py"))
            command = [sys.executable, script, str(up.port), str(lake.parent / "agent.token"), str(rate)]
            sending = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert sending.stdout is not None
            said = sending.stdout.readline().strip()
            if said != "ready":
                raise RuntimeError(f"rows do not arrive: {said}")
        try:
            yield up, f"http://{address}", token
        finally:
            if sending is not None:
                sending.terminate()
                sending.wait()


def main() -> None:
    """Builds, serves, asks, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--viewers", type=int, default=60)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--lake", type=Path, help="folder of the lake: made when it is not there, kept")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--no-history", action="store_true")
    options = parser.parse_args()
    records = options.records or (2_000_000 if options.quick else 100_000_000)
    rounds = options.rounds or (3 if options.quick else 20)
    days, job_days = (2, 5) if options.quick else (7, 250)
    figures: dict[str, Any] = {"rate": options.rate, "rounds": rounds}
    with tempfile.TemporaryDirectory(prefix="fairlead-web-") as folder:
        root = (options.lake or Path(folder) / "lake").absolute()
        if not (root / "lake.toml").is_file():
            root.parent.mkdir(parents=True, exist_ok=True)
            figures |= build(root, records, days, time.time_ns(), job_days=job_days, found=True)
        figures["rows"] = sum(t.rows + t.waiting_rows for t in take_inventory(open_lake_folder(root)).tables)
        figures["jobs"] = sum(t.rows for t in take_inventory(open_lake_folder(root)).tables if t.table == "jobs")
        with running(root, options.rate) as (up, api, token):
            site = Site(api, token(0), up, days, job_days, token)
            if "calls" in options.only:
                spent, figures["not_answered"] = asked(site, rounds)
                figures["calls"] = shown(spent, figures)
            if "first" in options.only:
                figures["first"] = viewed(site)
            if "live" in options.only:
                figures["live"] = asyncio.run(followed(site, options.viewers, 10 if options.quick else 60))
            if "slow" in options.only:
                clients = 50 if options.quick else options.clients
                figures["slow"] = asyncio.run(slow(site, clients, 5 if options.quick else 20))
            figures["api_peak_bytes"] = up.peak_bytes("api")
    print(json.dumps({key: value for key, value in figures.items() if key != "calls"}, indent=1))
    if not options.quick and not options.no_history:
        append("web", figures)


def shown(spent: dict[str, list[tuple[float, int]]], about: dict[str, Any]) -> dict[str, list[float]]:
    """The table of calls; what goes into the history."""
    title = f"{about['rows']:,} rows, {about['jobs']:,} jobs, {about['rate']:,} rows/s arriving"
    table = Table("page", "calls", "p50 ms", "p95 ms", "p99 ms", "largest kB", "first ms", title=title)
    kept: dict[str, list[float]] = {}
    every: list[float] = []
    for page, each in spent.items():
        if page.startswith("first: "):
            continue
        took = [one for one, _ in each]
        every += took
        p50, p95, p99 = (float(np.percentile(took, q)) for q in (50, 95, 99))
        first = max((one for one, _ in spent.get(f"first: {page}", [])), default=float("nan"))
        mark = "" if p95 < P95_MS and p99 < P99_MS else " !"
        table.add_row(
            page,
            str(len(took)),
            f"{p50:.0f}",
            f"{p95:.0f}{mark}",
            f"{p99:.0f}",
            f"{max(size for _, size in each) / 1e3:.0f}",
            f"{first:.0f}",
        )
        kept[page] = [round(p50, 1), round(p95, 1), round(p99, 1), round(first, 1)]
    p50, p95, p99 = (float(np.percentile(every, q)) for q in (50, 95, 99))
    table.add_row("all", str(len(every)), f"{p50:.0f}", f"{p95:.0f}", f"{p99:.0f}", "", "")
    kept["all"] = [round(p50, 1), round(p95, 1), round(p99, 1)]
    Console().print(table)
    return kept


if __name__ == "__main__":
    main()
