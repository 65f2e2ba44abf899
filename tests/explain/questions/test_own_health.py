"""How fairlead itself is, as asked of a lake: sources, gaps, size, retention, the lag of the analysis."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from fairlead.core.model.tables import HEALTH, JOBS
from fairlead.explain.questions.answers_own_health import OwnHealth
from fairlead.explain.questions.lake_queries import NotForYouError, Sight
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import answer_question, parse_question_parameters
from fairlead.store.lake import Lake
from fairlead.store.retention import Policy
from questions_site import NOW, S, build


def told(lake: Lake, *, keep: Policy | None = None, now_ns: int = NOW) -> OwnHealth:
    answer = answer_question(
        Asking(lake, keep=keep), "own_health", "", parse_question_parameters("own_health", {}), Sight(), now_ns
    )
    assert isinstance(answer, OwnHealth)
    return answer


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return build(tmp_path_factory.mktemp("own") / "lake")


def test_sources_in_trouble_come_first_and_say_why(lake: Lake) -> None:
    found = told(lake)
    assert [(one.node, one.state) for one in found.sources[:3]] == [
        ("n3", "silent"),
        ("n4", "silent"),
        ("n2", "failing"),
    ]
    assert "no report for 7 min" in found.sources[0].why
    assert found.sources[2].troubled == ["llite"]
    assert found.state == "troubled"
    assert found.problems[0] == "2 of 8 sources silent: n3, n4"
    assert found.silences.silent[-1] == 2
    assert {one.source for one in found.silences.gaps if one.to_ns is None} == {"n3", "n4"}
    assert isinstance(found.sources[0].lost_batches, int | None)


def test_the_size_of_the_lake_and_what_is_kept(lake: Lake) -> None:
    found = told(lake, keep=Policy(raw_days=3.0, rollup_1h_days=None))
    assert found.lake is not None
    tables = {one.table: one for one in found.lake.tables}
    assert tables["ops"].rows == lake.query("SELECT count(*) AS n FROM ops")["n"][0].as_py()
    assert [one.days for one in tables["ops"].keeps] == [3.0]
    assert {one.tier: one.days for one in tables["rollup"].keeps} == {"1s": 14.0, "1min": 183.0, "1h": None}
    assert not told(lake).lake.tables[0].keeps  # type: ignore[union-attr]
    assert any("retention" in text for text in told(lake).missing)


def test_what_was_taken_is_null_where_nobody_told_and_jobs_without_summary_wait(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    empty = told(lake)
    assert (empty.sources, empty.state, empty.analysis.last_ns) == ([], "ok", None)
    assert set(empty.taken.rows_per_s) == {None}
    step = empty.taken.step_ns
    with lake.open_writer("main") as writer:
        batch = writer.open_batch("one")
        at = empty.taken.from_ns + 5 * step + S
        rows = [("agent", 1200), ("lustre", 1100), ("node", 100)]
        batch.add(
            pa.Table.from_pylist(
                [
                    {"ts_ns": at, "node": "n1", "probe": probe, "state": "ok", "interval_ns": 60 * S, "rows": count}
                    for probe, count in rows
                ]
                + [
                    {
                        "ts_ns": NOW - S,
                        "node": "srv",
                        "probe": "collector",
                        "state": "failing",
                        "text": "full disk",
                        "interval_ns": 60 * S,
                    }
                ],
                HEALTH.schema,
            )
        )
        batch.add(
            pa.Table.from_pylist(
                [{"job_id": "7", "start_ns": NOW - 7200 * S, "end_ns": NOW - 3600 * S, "user": "u", "nodes": ["n1"]}],
                JOBS.schema,
            )
        )
        batch.commit()
    found = told(lake)
    assert found.taken.rows_per_s[5] == pytest.approx(1200 / 600)
    assert found.taken.rows_per_s[6] is None
    assert (found.analysis.ended, found.analysis.waiting) == (1, 1)
    assert "1 job waits for its summary, it ended 1 h 00 min ago" in found.problems
    assert any("full disk" in text for text in found.problems)


def test_it_is_not_for_users(lake: Lake) -> None:
    with pytest.raises(NotForYouError):
        answer_question(
            Asking(lake), "own_health", "", parse_question_parameters("own_health", {}), Sight(user="alice"), NOW
        )


def test_home_health_and_the_machine_count_the_same_silent_sources(lake: Lake) -> None:
    """A source silent for hours, without a gap that anybody wrote down, is silent on every page."""
    asking = Asking(lake)

    def ask(question: str, now_ns: int) -> object:
        return answer_question(asking, question, "", parse_question_parameters(question, {}), Sight(), now_ns)

    for later in (0, 5 * 3600 * S, 30 * 3600 * S):
        own = told(lake, now_ns=NOW + later)
        silent = {one.node for one in own.sources if one.state == "silent"}
        now, system = ask("now", NOW + later), ask("system", NOW + later)
        assert (now.sources, {gap.source for gap in now.silent}) == (len(own.sources), silent)  # type: ignore[attr-defined]
        assert (system.sources, {gap.source for gap in system.silent}) == (len(own.sources), silent)  # type: ignore[attr-defined]
