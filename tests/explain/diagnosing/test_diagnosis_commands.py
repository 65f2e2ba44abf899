"""The commands of diagnosis and their pages: on an empty lake, on one with findings; escaped, the same as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from diagnosed_lake import VICTIM, co_run, lake_of, later, look
from fairlead.cli.main import cli
from fairlead.core.model.finding import Advice, Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows
from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.steps import Step
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.health_round import run_health_round
from fairlead.kit.testing.machine import scenes
from fairlead.store.lake import Lake

S = 10**9
SPAN = ("--from", "2024-06-01", "--to", "2024-06-02")


def run(root: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--lake", str(root)], env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = co_run().build_tables()
    lake = lake_of(tmp_path_factory.mktemp("site") / "lake", tables)
    look(lake, later(tables))
    return lake.place.root


def test_an_empty_lake_is_told_of_without_false_good_news(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", create=True)
    for words, said in (
        (("finding", "list"), "0 findings"),
        (("finding", "list", "--json"), '"total": 0'),
        (("component", "list"), "Not known"),
    ):
        result = run(tmp_path / "lake", *words)
        assert result.exit_code == 0, result.output
        assert said in result.output
    assert "Not known" in run(tmp_path / "lake", "finding", "list").output
    for words in (("job", "explain", "4711"), ("finding", "show", "abc"), ("component", "show", "OST1")):
        result = run(tmp_path / "lake", *words)
        assert result.exception is not None
        assert "is known" in str(result.exception)


def test_every_command_says_the_same_as_text_json_and_page(site: Path, tmp_path: Path) -> None:
    listed = json.loads(run(site, "finding", "list", *SPAN, "--json").output)
    assert listed["schema"] == "fairlead.findings/1"
    name = listed["findings"][0]["finding"]["id"]
    title = listed["findings"][0]["finding"]["title"]
    for schema, words in (
        ("fairlead.findings/1", ("finding", "list", *SPAN)),
        ("fairlead.explanation/1", ("finding", "show", name)),
        ("fairlead.why/1", ("job", "explain", VICTIM)),
    ):
        assert json.loads(run(site, *words, "--json").output)["schema"] == schema
        text = " ".join(run(site, *words).output.split())
        assert title[:40] in text
        file = tmp_path / f"{'-'.join(words[:2])}.html"
        assert run(site, *words, "--html", str(file)).exit_code == 0
        page = file.read_text("utf-8")
        assert title in page
        assert "<script" not in page
        assert re.search(r'Content-Security-Policy" content="default-src &#x27;none&#x27;|default-src \'none\'', page)
        assert not re.search(r'(?:src|href)="https?:', page)
        assert words[1] == "list" or "<svg" in page


def test_what_records_say_is_never_markup(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    evil = '<script>alert(1)</script>"\x1b[31m'
    told = StoredFinding(
        finding=Finding(
            id="abcdef123456",
            rule="job.interference",
            title=f"Job {evil}",
            subject=Subject("job", evil),
            from_ns=1_717_200_000 * S,
            to_ns=1_717_200_060 * S,
            severity="high",
            confidence=0.9,
            category="mixed",
            culprits=[Subject("job", evil)],
            evidence=[Evidence(text=evil)],
            missing=[evil],
            advice=[Advice(text=evil, code=evil)],
            analysis_version="1",
        ),
        cluster=None,
        job_id=evil,
        user=evil,
        components=[Subject("target", evil)],
    )
    with lake.open_writer("main") as writer:
        batch = writer.open_batch("evil")
        batch.add(build_finding_rows([told], 1_717_200_100 * S))
        batch.commit()
    for words in (("finding", "list", *SPAN), ("finding", "show", "abcdef123456")):
        assert run(tmp_path / "lake", *words, "--html", str(tmp_path / "page.html")).exit_code == 0
        page = (tmp_path / "page.html").read_text("utf-8")
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        for output in (run(tmp_path / "lake", *words).output, page):
            assert "\x1b[31m" not in output


def test_a_slow_target_becomes_one_incident_that_ends(tmp_path: Path) -> None:
    """Found while it lasts; told once, goes on, ends; a second look writes nothing."""
    step = Step(op="write", volume=400 << 30, writers=64, files=64, label="steady")
    jobs = [(scenes.build_scene_job(n, [step], 16, name=f"steady{n}"), 0.0, 16 * n) for n in range(4)]
    play = scenes.build_scene_play(
        jobs, 600, faults=[Fault(component="target", number=0, from_s=120.0, to_s=420.0, factor=0.1)]
    )
    lake = lake_of(tmp_path / "lake", play.build_tables())
    settings = Diagnosis(least_minutes=2.0)
    open_at, rows = [], []
    with lake.open_writer("analysis") as writer:
        for minute in range(2, 11):
            rows.append(run_health_round(lake, writer, play.origin_ns + minute * 60 * S, settings))
            [row] = lake.query(
                "SELECT count(*) FILTER (to_ns IS NULL) AS open, count(*) AS n FROM incident WHERE layer = 'target'"
            ).to_pylist()
            open_at.append((minute, row["open"], row["n"]))
        assert run_health_round(lake, writer, play.origin_ns + 600 * S, settings) == 0
    assert open_at[0][2] == 0
    assert max(n for _, _, n in open_at) == 1
    assert any(opened for minute, opened, _ in open_at if minute <= 6), open_at
    [told] = lake.query("SELECT rule, subject_id, to_ns FROM finding WHERE subject_kind = 'target'").to_pylist()
    assert told["rule"] == "component.degraded"
    assert told["to_ns"] is not None
    found = run(tmp_path / "lake", "component", "list", "--at", "2024-06-01T00:05:00", "--json")
    answer = json.loads(found.output)
    assert answer["schema"] == "fairlead.component-health/1"
    assert {one["layer"] for one in answer["layers"]} >= {"target", "forwarder"}
