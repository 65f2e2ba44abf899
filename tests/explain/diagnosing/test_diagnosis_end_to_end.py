"""Diagnosis as a site has it: `fairlead up`, records that come in over its endpoint, and the commands people type.

A bad day of four users (`scenes.bad_day`): one is disturbed by a neighbour, one by a slow target, two are as always.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.kit.testing.machine import scenes, wire_bodies
from fairlead.kit.testing.machine.play import Play
from serving import Up, now_ns, until
from waiting import PATIENCE_S

pytestmark = pytest.mark.slow
S = 10**9
SLOWED, CULPRIT, HELD_UP, CALM, FIRST = "100001", "100000", "100002", "100033", "100010"
TARGET = "scratch-OST0003"
SETTINGS = """
[api]
listen = ["tcp:127.0.0.1:0"]
[carry]
every_s = 0.5
[analysis]
every_s = 1
[diagnosis]
least_minutes = 1
every_s = 1
"""


@dataclass(frozen=True)
class Site:
    """A server that has been sent the bad day, and who asks it."""

    up: Up
    api: str
    token: Path
    first_ns: int

    def where(self, way: str) -> tuple[str, ...]:
        """The options that name the server or its lake."""
        if way == "lake":
            return ("--lake", str(self.up.lake))
        return ("--server", self.api, "--token", str(self.token))

    def get(self, path: str) -> Any:
        """An answer of the API."""
        asked = urllib.request.Request(f"{self.api}/api/v1/{path}")  # noqa: S310
        asked.add_header("Authorization", f"Bearer {self.token.read_text()}")
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:  # noqa: S310
            return json.load(answer)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Up(tmp_path_factory.mktemp("up"), SETTINGS) as up:
        token = up.folder / "reader.token"
        token.write_text(up.token("reader"))
        token.chmod(0o600)
        told = json.loads((up.state / "addresses.json").read_text())
        play = scenes.build_bad_day_scene()
        first_ns = (now_ns() // S - play.seconds - 1) * S
        send(up, play, first_ns)
        made = Site(up, f"http://{told['api'][0].partition(':')[2]}", token, first_ns)
        # All that is to be found, and the jobs that nothing is to be found about.
        assert until(lambda: found(up) >= {SLOWED, HELD_UP, TARGET} and looked_at(up, CALM, CULPRIT), 200), (
            found(up),
            up.said(),
        )
        yield made


def send(up: Up, play: Play, first_ns: int) -> None:
    """The whole play, as its agents would have sent it, a minute at a time."""
    held: list[bytes] = []
    for body in wire_bodies.build_wire_bodies(replace(play, origin_ns=first_ns), 60):
        held.append(body.data)
        if len(held) == 200:
            assert up.post(b"".join(held)).status == 200
            held.clear()
    assert up.post(b"".join(held)).status == 200


def found(up: Up) -> set[str]:
    """What findings there are about."""
    rows = up.query("SELECT DISTINCT subject_id FROM finding WHERE NOT coalesce(withdrawn, false)")
    return {row["subject_id"] for row in rows}


def looked_at(up: Up, *jobs: str) -> bool:
    """Whether these jobs have phases that were compared with earlier ones."""
    rows = up.query("SELECT DISTINCT job_id FROM phase WHERE expected_s IS NOT NULL")
    return set(jobs) <= {row["job_id"] for row in rows}


def asked(*words: str) -> str:
    """What a command prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", *words],
        capture_output=True,
        text=True,
        env={**kept, "COLUMNS": "140"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def blamed(finding: Any) -> list[tuple[str, str]]:
    return [(one["kind"], one["id"]) for one in finding["culprits"]]


@pytest.mark.parametrize("way", ["server", "lake"])
def test_findings_name_who_did_it(site: Site, way: str) -> None:
    listed = json.loads(asked("finding", "list", "--json", *site.where(way)))["findings"]
    of = {one["job_id"] or one["finding"]["subject"]["id"]: one["finding"] for one in listed}
    assert set(of) == {SLOWED, HELD_UP, TARGET}, [one["finding"]["title"] for one in listed]
    assert blamed(of[SLOWED]) == [("job", CULPRIT)]
    assert blamed(of[HELD_UP]) == [("target", TARGET)]
    assert of[TARGET]["rule"] == "component.degraded"
    assert 15 < of[SLOWED]["cost_s"] < 35
    assert 30 < of[HELD_UP]["cost_s"] < 60
    assert all(finding["evidence"] and finding["advice"] for finding in of.values())


def test_why_says_who_took_the_time_and_clears_the_others(site: Site) -> None:
    who = {name: site.get(f"jobs/{name}/why") for name in (SLOWED, HELD_UP, CULPRIT, CALM, FIRST)}
    assert {name: one["verdict"] for name, one in who.items()} == {
        SLOWED: "slowed",
        HELD_UP: "slowed",
        CULPRIT: "usual",
        CALM: "usual",
        FIRST: "unknown",
    }
    assert [row["who"] for row in who[SLOWED]["taken"]] == [f"job {CULPRIT}"]
    assert [row["who"] for row in who[HELD_UP]["taken"]] == [f"target {TARGET}"]
    assert [row["who"] for row in who[CULPRIT]["hurt"]] == [f"job {SLOWED}"]
    assert who[CALM]["findings"] == []


@pytest.mark.parametrize("way", ["server", "lake"])
def test_the_first_line_names_the_culprit(site: Site, way: str) -> None:
    assert f"job {CULPRIT}" in asked("job", "explain", SLOWED, *site.where(way)).splitlines()[0]


def test_the_api_says_the_same_and_the_page_shows_it(site: Site, tmp_path: Path) -> None:
    listed = site.get("findings?last=1h")["findings"]
    same = json.loads(asked("finding", "list", "--json", "--last", "1h", *site.where("lake")))["findings"]
    assert [one["finding"]["id"] for one in listed] == [one["finding"]["id"] for one in same]
    name = next(one["finding"]["id"] for one in listed if one["job_id"] == SLOWED)
    assert site.get(f"findings/{name}")["told"]["finding"]["culprits"][0]["id"] == CULPRIT
    page = tmp_path / "page.html"
    asked("finding", "show", name, "--html", str(page), *site.where("server"))
    assert "<svg" in page.read_text()
    health = json.loads(asked("component", "show", TARGET, "--json", *site.where("server")))
    assert [one["component"] for one in [*health["open"], *health["past"]]] == [TARGET]
