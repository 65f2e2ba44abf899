"""Findings about the whole system in a lake: each window once, the right rules for its length, other people unnamed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from fairlead.analysis.system.site import SystemSite
from fairlead.lake.store import Lake
from fairlead.model.tables import JOB_SUMMARY, JOBS, ROLLUP, batch_of
from fairlead.questions.asking import Sight
from fairlead.questions.findings import findings
from fairlead.questions.span import Span
from fairlead.runtime.diagnosing.system_round import system_round
from questions_site import DAY, HOUR, MINUTE, T0, S, columns, put

HOUR_0 = T0 // HOUR * HOUR
SITE = SystemSite(peaks={"mds": 1000.0})
WHEN = Span(HOUR_0, HOUR_0 + DAY)


def storm(minute: int) -> list[dict[str, object]]:
    row = {"ts_ns": HOUR_0 + minute * MINUTE, "interval_ns": MINUTE, "kind": "mds", "layer": "metadata", "id": "MDT0"}
    parts = [row | {"job_id": job, "metadata_ops": ops} for job, ops in (("7", 40_000), ("8", 8_000))]
    return [row | {"metadata_ops": 54_000}, *parts]


def account(job: str, user: str) -> dict[str, object]:
    return {"cluster": "c", "job_id": job, "user": user, "program": f"prog{user}", "start_ns": HOUR_0,
            "end_ns": HOUR_0 + HOUR}  # fmt: skip


def small(job: int) -> dict[str, object]:
    return account(str(job), "zoe") | {"write_bytes": 512 * 10**6, "write_ops": 10**6, "made_ns": HOUR_0 + HOUR,
                                       "analysis_version": 1}  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(tmp_path_factory.mktemp("system") / "lake", create=True)
    put(
        lake, batch_of(ROLLUP, columns([row for k in range(10) for row in storm(k)])),
        batch_of(JOBS, columns([account("7", "zoe"), account("8", "yves")])),
        batch_of(JOB_SUMMARY, columns([small(job) for job in range(7, 15)])),
    )  # fmt: skip
    with lake.writer("analysis") as writer:
        assert system_round(lake, writer, HOUR_0 + HOUR + 30 * MINUTE, SITE) == 1
        assert system_round(lake, writer, HOUR_0 + HOUR + 45 * MINUTE, SITE) == 0
        assert system_round(lake, writer, HOUR_0 // DAY * DAY + DAY + HOUR, SITE) == 1
        assert system_round(lake, writer, HOUR_0 // DAY * DAY + DAY + HOUR + S, SITE) == 0
    return lake


def test_a_window_is_told_of_once_by_the_rules_of_its_length(lake: Lake) -> None:
    day = Span(HOUR_0 // DAY * DAY, HOUR_0 // DAY * DAY + DAY)
    found = findings(lake, day, Sight()).findings
    lengths = {one.finding.rule: (one.finding.to_ns or 0) - (one.finding.from_ns or 0) for one in found}
    assert lengths == {"system.metadata_storm": HOUR, "system.small_requests": DAY}
    assert all(one.finding.advice for one in found)


def test_others_are_not_named_to_a_reader_of_one_user(lake: Lake) -> None:
    everyone = msgspec.json.encode(findings(lake, WHEN, Sight())).decode()
    assert "zoe" in everyone
    for user, others in (("yves", ("zoe", '"7"', "job 7")), ("cho", ("zoe", "yves", '"7"', '"8"', "job 8"))):
        told = findings(lake, WHEN, Sight(user))
        assert "system.metadata_storm" in {one.finding.rule for one in told.findings}
        text = msgspec.json.encode(told).decode()
        for other in others:
            assert other not in text, (user, other)


def test_a_window_without_records_finds_nothing(tmp_path: Path) -> None:
    empty = Lake.open(tmp_path / "lake", create=True)
    with empty.writer("analysis") as writer:
        assert system_round(empty, writer, HOUR_0 + HOUR + 30 * MINUTE, SITE) == 0
    assert isinstance(empty.query("SELECT * FROM finding"), pa.Table)
