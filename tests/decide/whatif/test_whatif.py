"""`fairlead whatif` on lakes of made machines: the answer, how it meets what was measured, broken rows, odd words."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from diagnosed_lake import fill, later, look
from fairlead.cli.main import cli
from fairlead.core.errors import UsageError
from fairlead.core.model.tables import JOB_SUMMARY, JOBS, PHASE
from fairlead.decide.whatif.whatif_evaluation import WhatIfRequest, evaluate_whatif, format_whatif_span
from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.show.report.whatif.whatif_page import build_whatif_page
from fairlead.store.lake import Lake
from whatif_lake import BROKEN, ORIGIN_NS, SPAN, S, lake_of, plays

DAY = Span(ORIGIN_NS, ORIGIN_NS + DAY_NS)
PEAKS = {"forwarder": 400e6, "target": 500e6}
SITE = """name = "small"
[[forwarders]]
nodes = "fwd[000-003]"
bandwidth_bytes_per_s = 4e8
[[file_systems]]
name = "scratch"
kind = "lustre"
[[file_systems.servers]]
kind = "oss"
node = "oss000"
targets = "scratch-OST[0000-0007]"
write_bandwidth_bytes_per_s = 5e8
"""


def run(root: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["whatif", *words, "--lake", str(root)], env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two plays of ten minutes under the map of blocks, two under the dealt one; one summary in twenty is broken."""
    return lake_of(tmp_path_factory.mktemp("whatif") / "lake", plays(2, 2, 600), broken=0.05).place.root


def test_a_spec_of_simulate_may_name_a_sites_own_past(site: Path, tmp_path: Path) -> None:
    spec = tmp_path / "own.toml"
    words = 'name = "own"\npolicies = ["as it was", "static-map"]\n[workload]\nkind = "history"\n'
    spec.write_text(f'{words}lake = "{site}"\nsince = "2024-06-01"\nuntil = "2024-06-02"\n')

    def simulated() -> Result:
        return CliRunner().invoke(
            cli, ["simulate", str(spec), "--lake", str(tmp_path / "lake"), "--jobs", "1", "--json"]
        )

    told = json.loads(simulated().stdout)["experiments"][0]
    answer = evaluate_whatif(Lake.open(site), DAY, Sight(), WhatIfRequest(policies=("static-map",)))
    measures = {one["measure"]: one["panels"][0]["lines"] for one in told["pictures"]}
    for line, scenario in zip(measures["core_hours_lost"], answer.scenarios, strict=True):
        assert line["points"][0]["mean"] == pytest.approx(scenario.io_core_hours, rel=1e-3)
    assert "dropped: " in told["note"]
    spec.write_text(spec.read_text().replace("2024-06-02", "2024-05-02"))
    assert "workload.until: 2024-05-02 is not after" in str(simulated().exception)
    spec.write_text(spec.read_text().replace("2024-06-01", "2024-05-01"))
    assert "workload.lake: no job began in this time" in str(simulated().exception)


def test_what_was_active_and_a_change_of_the_map_are_met_as_measured(site: Path) -> None:
    answer = evaluate_whatif(Lake.open(site), DAY, Sight(), WhatIfRequest(policies=("static-map",)), peaks=PEAKS)
    [check] = answer.checks
    assert check.compared > 60
    assert check.error_p50 is not None
    assert check.error_p50 < 0.12
    assert check.total_error == pytest.approx(0.0, abs=0.15)
    assert check.run_time_error_p50 is not None
    assert check.run_time_error_p50 < 0.05
    held = answer.held_out
    assert held is not None
    assert held.at_ns == ORIGIN_NS + 1200 * S
    assert held.nodes_changed == 48
    assert held.learnt + held.check.jobs == answer.jobs
    assert held.check.total_error == pytest.approx(0.0, abs=0.25)
    assert held.check.error_p50 is not None
    assert held.check.error_p50 < 0.2
    measured = held.check.measured_core_hours
    assert abs(held.check.replayed_core_hours - measured) < abs(held.as_before_core_hours - measured)


def test_a_month_with_broken_jobs_answers_and_says_what_it_dropped(site: Path) -> None:
    result = run(site, *SPAN, "--policy", "static-map", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["schema"] == "fairlead.whatif/1"
    assert answer["simulated"] is True
    left = sum(one["count"] for one in answer["dropped"] if one["of"] == "jobs")
    whole = Lake.open(site).query("SELECT count(*) AS n FROM job_summary")["n"][0].as_py()
    assert 0 < left < 0.15 * whole
    assert left + answer["jobs"] + answer["quiet_jobs"] == whole
    text = " ".join(run(site, *SPAN, "--policy", "static-map").output.split())
    assert all(one["why"] in text for one in answer["dropped"])


def test_more_forwarders_cost_no_job_hours_and_fewer_do(site: Path) -> None:
    lake = Lake.open(site)
    more, fewer = (
        evaluate_whatif(lake, DAY, Sight(), WhatIfRequest(forwarders=count, price_per_core_hour=2.0), peaks=PEAKS)
        for count in (16, 1)
    )
    assert more.scenarios[1].forwarders == 16
    saved = more.scenarios[1].saved_core_hours
    assert saved is not None
    assert saved > 0
    assert more.scenarios[1].saved_money == pytest.approx(2 * saved)
    assert (fewer.scenarios[1].saved_core_hours or 0.0) < -1.0
    assert fewer.headline.startswith("The current map with 1 forwarder would have cost")
    assert more.headline.startswith("The current map with 16 forwarders would have saved")
    slower = evaluate_whatif(lake, DAY, Sight(), WhatIfRequest(targets=2), peaks=PEAKS)
    assert slower.scenarios[1].targets == 2
    assert (slower.scenarios[1].saved_core_hours or 0.0) < 0


def test_what_a_change_of_the_map_did_is_not_put_down_to_a_policy(site: Path) -> None:
    """DFRA keeps the map for most jobs here: the map itself stands beside it, and before it where they are alike."""
    answer = evaluate_whatif(Lake.open(site), DAY, Sight(), WhatIfRequest(policies=("dfra",)), peaks=PEAKS)
    assert [one.policy for one in answer.scenarios] == ["as it was", "static-map", "dfra"]
    static, dfra = (one.saved_core_hours or 0.0 for one in answer.scenarios[1:])
    assert answer.best == (1 if static >= dfra else 2)


def test_sums_agree_with_the_lists(site: Path) -> None:
    answer = evaluate_whatif(
        Lake.open(site), DAY, Sight(), WhatIfRequest(policies=("static-map",), limit=10_000), peaks=PEAKS
    )
    best = answer.scenarios[1]
    first = answer.scenarios[0]
    for side in best.sides:
        known = {one.name for one in (*side.winners, *side.losers)}
        assert len(side.winners) == side.won
        assert len(side.losers) == side.lost
        assert side.kind != "job" or len(known) == (side.won or 0) + (side.lost or 0)
        assert all(one.saved_core_hours > 0 for one in side.winners)
        assert all(one.saved_core_hours < 0 for one in side.losers)
    assert best.saved_core_hours == pytest.approx(first.io_core_hours - best.io_core_hours)
    assert sum(one.jobs for one in answer.confidence) == answer.jobs
    assert sum(one.volume_share for one in answer.confidence) == pytest.approx(1.0)


def test_a_reader_with_a_user_is_told_of_the_own_jobs_only(site: Path) -> None:
    lake = Lake.open(site)
    every = evaluate_whatif(lake, DAY, Sight(), WhatIfRequest(policies=("static-map",), limit=10_000), peaks=PEAKS)
    users = {one.name for one in every.scenarios[1].sides[1].winners}
    me = sorted(users)[0]
    mine = evaluate_whatif(lake, DAY, Sight(me), WhatIfRequest(policies=("static-map",), limit=10_000), peaks=PEAKS)
    assert mine.hidden
    assert mine.scenarios[1].io_core_hours == every.scenarios[1].io_core_hours
    for side in mine.scenarios[1].sides:
        assert all((one.user or one.name) == me for one in (*side.winners, *side.losers))
    page = build_whatif_page(mine)
    assert me in page
    assert not any(other in page for other in users - {me})


def test_the_same_as_text_json_and_page(site: Path, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(SITE, "utf-8")
    words = (*SPAN, "--policy", "static-map", "--policy", "dfra", "--site", str(tmp_path / "site.toml"), "--price", "1")
    file = tmp_path / "page.html"
    answer = json.loads(run(site, *words, "--json", "--html", str(file)).stdout)
    assert {one["basis"] for one in answer["layers"] if one["kind"] != "mds"} == {"told"}
    page, text = file.read_text("utf-8"), " ".join(run(site, *words).output.split())
    assert answer["headline"] in text
    body = page[page.index("<body") :]
    assert body.index(answer["headline"]) < body.index("Before and after")
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "default-src" in page
    assert "foreseen" in page
    assert "foreseen" in text
    again = json.loads(run(site, *words, "--json").output)
    assert again == answer


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "dfar"), "unknown policy 'dfar'"),
        (("--policy", "tcpu+nowhere"), "unknown policy"),
        (("--policy", "<script>+x"), "unknown policy"),
        (("--forwarders", "0"), "not in the range"),
        (("--osts", "-4"), "not in the range"),
        (("--price", "-1"), "not in the range"),
        (("--price", "nan"), "price"),
        (("--since", "2024-06-02", "--until", "2024-06-01"), "ends before it starts"),
        (("--since", "soon"), "not a time"),
        (("--site", "/nowhere/site.toml"), "no such file"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(site: Path, words: tuple[str, ...], said: str) -> None:
    given = words if "--since" in words else (*SPAN, *words)
    result = run(site, *given)
    assert result.exit_code != 0
    assert said in f"{result.output} {result.exception}".lower()


def test_an_empty_history_is_refused_naming_what_is_missing(site: Path, tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    with pytest.raises(UsageError, match="history is empty: the lake has no jobs"):
        evaluate_whatif(lake, DAY, Sight(), WhatIfRequest())
    with pytest.raises(UsageError, match="no job began in this time; the lake has"):
        evaluate_whatif(Lake.open(site), Span(DAY_NS, 2 * DAY_NS), Sight(), WhatIfRequest())
    job = {"job_id": "1", "start_ns": ORIGIN_NS, "end_ns": ORIGIN_NS + S, "nodes_count": 1}
    _add(lake, "jobs", JOBS, [job])
    with pytest.raises(UsageError, match="none has a summary"):
        evaluate_whatif(lake, DAY, Sight(), WhatIfRequest())
    summary = job | {"basis": "client", "made_ns": ORIGIN_NS, "analysis_version": 1}
    _add(lake, "job_summary", JOB_SUMMARY, [summary])
    with pytest.raises(UsageError, match="no I/O phase"):
        evaluate_whatif(lake, DAY, Sight(), WhatIfRequest())


def test_hostile_words_and_lone_rows_stay_words(tmp_path: Path) -> None:
    """Names that are markup, no map, no forwarders, jobs nobody knows the nodes of: it answers, and escapes."""
    lake = Lake.open(tmp_path / "lake", create=True)
    evil = '<script>alert(1)</script>"\x1b[31m'
    summaries, phases = [], []
    for n in range(4):
        begin = ORIGIN_NS + 100 * n * S
        who = {
            "job_id": f"{evil}{n}",
            "user": evil,
            "program": evil,
            "nodes_count": 2,
            "made_ns": begin,
            "analysis_version": 1,
        }
        summaries.append(
            who | {"start_ns": begin, "end_ns": begin + 90 * S, "basis": "client", "targets": [evil, "t2"]}
        )
        phases.append(
            who
            | {
                "job_start_ns": begin,
                "number": 0,
                "kind": "write",
                "start_ns": begin + S,
                "end_ns": begin + 20 * S,
                "active_ns": 19 * S,
                "bytes": 10**9,
            }
        )
    summaries.append(summaries[0] | BROKEN[0] | {"job_id": "broken"})
    phases.append(phases[0] | {"job_id": "of nobody"})
    _add(lake, "job_summary", JOB_SUMMARY, summaries)
    _add(lake, "phase", PHASE, phases)
    file = tmp_path / "page.html"
    result = run(tmp_path / "lake", *SPAN, "--policy", "best-bandwidth+random", "--html", str(file))
    assert result.exit_code == 0, result.output
    assert "<script" not in file.read_text("utf-8")
    text = run(tmp_path / "lake", *SPAN, "--osts", "8").output
    assert "\x1b[31m" not in text
    assert "no forwarder is known" in text
    refused = run(tmp_path / "lake", *SPAN, "--forwarders", "2")
    assert "no forwarder of this site is known" in str(refused.exception)


def _add(lake: Lake, table: str, spec: object, rows: list[dict[str, object]]) -> None:
    with lake.open_writer("main") as writer:
        batch = writer.open_batch(table)
        batch.add(pa.Table.from_pylist(rows, spec.schema))  # type: ignore[attr-defined]
        batch.commit()


def test_a_span_is_named_as_people_do() -> None:
    october = 1_790_812_800 * S  # 2026-10-01
    assert format_whatif_span(Span(october, october + 31 * DAY_NS)) == "in October 2026"
    assert format_whatif_span(Span(october, october + DAY_NS)) == "on 2026-10-01"
    assert format_whatif_span(Span(october, october + 7 * DAY_NS)) == "from 2026-10-01 to 2026-10-07"


@pytest.mark.slow
def test_the_whole_way_from_counters_is_met_as_well(tmp_path: Path) -> None:
    """Records of every layer, taken in, summed up and cut into phases by the analysis; peaks as they were counted."""
    lake = Lake.open(tmp_path / "lake", create=True)
    for number, play in enumerate(plays(3, 3, 1800)):
        tables = play.build_tables()
        fill(lake, tables, f"play{number}")
        look(lake, later(tables))
    answer = evaluate_whatif(lake, DAY, Sight(), WhatIfRequest(policies=("static-map",)))
    [check] = answer.checks
    assert check.compared > 400
    assert (check.error_p50 or 1.0) < 0.12
    assert check.total_error == pytest.approx(0.0, abs=0.15)
    held = answer.held_out
    assert held is not None
    assert (held.check.error_p50 or 1.0) < 0.25
    measured = held.check.measured_core_hours
    assert abs(held.check.replayed_core_hours - measured) < 0.5 * abs(held.as_before_core_hours - measured)
    assert {one.basis for one in answer.layers} == {"seen"}
