"""Findings about the whole system in a lake: each window once, the right rules for its length, other people unnamed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from fairlead.core.model.tables import JOB_SUMMARY, JOBS, ROLLUP, build_table_batch
from fairlead.explain.analysis.system.system_site import SystemSite
from fairlead.explain.diagnosing import system_round as rounds
from fairlead.explain.diagnosing.system_round import RoundResult, run_system_round
from fairlead.explain.questions.findings import list_findings
from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.span import Span
from fairlead.store.lake import Lake
from questions_site import DAY, HOUR, MINUTE, T0, S, columns, put

HOUR_0 = T0 // HOUR * HOUR
SITE = SystemSite(peaks={"mds": 1000.0})
WHEN = Span(HOUR_0, HOUR_0 + DAY)


def storm(minute: int) -> list[dict[str, object]]:
    row = {"ts_ns": HOUR_0 + minute * MINUTE, "interval_ns": MINUTE, "kind": "mds", "layer": "metadata", "id": "MDT0"}
    parts = [row | {"job_id": job, "metadata_ops": ops} for job, ops in (("7", 40_000), ("8", 8_000))]
    return [row | {"metadata_ops": 54_000}, *parts]


def account(job: str, user: str) -> dict[str, object]:
    return {
        "cluster": "c",
        "job_id": job,
        "user": user,
        "program": f"prog{user}",
        "start_ns": HOUR_0,
        "end_ns": HOUR_0 + HOUR,
    }


def small(job: int) -> dict[str, object]:
    return account(str(job), "zoe") | {
        "write_bytes": 512 * 10**6,
        "write_ops": 10**6,
        "made_ns": HOUR_0 + HOUR,
        "analysis_version": 1,
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(tmp_path_factory.mktemp("system") / "lake", create=True)
    put(
        lake,
        build_table_batch(ROLLUP, columns([row for k in range(10) for row in storm(k)])),
        build_table_batch(JOBS, columns([account("7", "zoe"), account("8", "yves")])),
        build_table_batch(JOB_SUMMARY, columns([small(job) for job in range(7, 15)])),
    )
    with lake.open_writer("analysis") as writer:
        assert run_system_round(lake, writer, HOUR_0 + HOUR + 30 * MINUTE, SITE) == RoundResult(1, 0)
        assert run_system_round(lake, writer, HOUR_0 + HOUR + 45 * MINUTE, SITE) == RoundResult(0, 0)
        assert run_system_round(lake, writer, HOUR_0 // DAY * DAY + DAY + HOUR, SITE) == RoundResult(1, 0)
        assert run_system_round(lake, writer, HOUR_0 // DAY * DAY + DAY + HOUR + S, SITE) == RoundResult(0, 0)
    return lake


def test_a_window_is_told_of_once_by_the_rules_of_its_length(lake: Lake) -> None:
    day = Span(HOUR_0 // DAY * DAY, HOUR_0 // DAY * DAY + DAY)
    found = list_findings(lake, day, Sight()).findings
    lengths = {one.finding.rule: (one.finding.to_ns or 0) - (one.finding.from_ns or 0) for one in found}
    assert lengths == {"system.metadata_storm": HOUR, "system.small_requests": DAY}
    assert all(one.finding.advice for one in found)


def test_others_are_not_named_to_a_reader_of_one_user(lake: Lake) -> None:
    everyone = msgspec.json.encode(list_findings(lake, WHEN, Sight())).decode()
    assert "zoe" in everyone
    for user, others in (("yves", ("zoe", '"7"', "job 7")), ("cho", ("zoe", "yves", '"7"', '"8"', "job 8"))):
        told = list_findings(lake, WHEN, Sight(user))
        assert "system.metadata_storm" in {one.finding.rule for one in told.findings}
        text = msgspec.json.encode(told).decode()
        for other in others:
            assert other not in text, (user, other)


def test_a_window_without_records_finds_nothing(tmp_path: Path) -> None:
    empty = Lake.open(tmp_path / "lake", create=True)
    with empty.open_writer("analysis") as writer:
        assert run_system_round(empty, writer, HOUR_0 + HOUR + 30 * MINUTE, SITE) == RoundResult(0, 0)
    assert isinstance(empty.query("SELECT * FROM finding"), pa.Table)


def hours(count: int) -> list[dict[str, object]]:
    """A storm of ten minutes in each of these hours, by the minute and by the hour."""
    minutes = [
        row | {"ts_ns": row["ts_ns"] + hour * HOUR}  # type: ignore[operator]
        for hour in range(count)
        for k in range(10)
        for row in storm(k)
    ]
    whole = [row | {"ts_ns": HOUR_0 + hour * HOUR, "interval_ns": HOUR} for hour in range(count) for row in storm(0)]
    return [*minutes, *whole]


def test_after_an_outage_of_days_missed_windows_are_caught_up_with(tmp_path: Path) -> None:
    """A bounded number a round, the latest first; quiet windows are looked at once, too."""
    count = 50
    lake = Lake.open(tmp_path / "lake", create=True)
    put(lake, build_table_batch(ROLLUP, columns(hours(count))))
    now, looks = HOUR_0 + count * HOUR + 30 * MINUTE, []
    with lake.open_writer("analysis") as writer:
        while not looks or looks[-1].left:
            looks.append(run_system_round(lake, writer, now, SITE, most=12))
            assert len(looks) < 9
        assert max(look.written for look in looks) <= 12
        assert run_system_round(lake, writer, now, SITE) == RoundResult(0, 0)
    assert sum(look.written for look in looks) == count
    first = lake.query("SELECT min(from_ns) AS at FROM finding WHERE made_ns = (SELECT min(made_ns) FROM finding)")
    assert first["at"][0].as_py() == HOUR_0


def test_what_was_too_much_to_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    put(
        lake,
        build_table_batch(ROLLUP, columns([row for k in range(10) for row in storm(k)])),
        build_table_batch(JOB_SUMMARY, columns([small(job) for job in range(7, 80)])),
    )
    monkeypatch.setattr(rounds, "MOST_ROWS", 50)
    with lake.open_writer("analysis") as writer:
        assert run_system_round(lake, writer, HOUR_0 + HOUR + 30 * MINUTE, SITE).written == 1
    [told] = list_findings(lake, WHEN, Sight()).findings
    assert told.finding.missing[0] == "job_summary: 73 rows in this window exceed the limit (50)"
