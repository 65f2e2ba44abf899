"""Grade, headline and comparison."""

from __future__ import annotations

import msgspec
import pytest

import fairlead
from fairlead.core.model.finding import Finding, Subject
from fairlead.core.model.missing import Missing
from fairlead.explain.analysis.charts import build_charts
from fairlead.explain.analysis.grade import compute_graded_loss, format_grade_headline, grade_job
from fairlead.explain.analysis.profile import JobProfile, build_profile
from fairlead.explain.analysis.verdict import Verdict, build_verdict
from fairlead.explain.analysis.verdict_comparison import compare_verdicts
from job_building import SHARED, counters, job, sizes

MIB = 1 << 20
CAUSES = {"a": "small_writes", "b": "random_writes", "c": "metadata", "d": "imbalance"}


def finding(rule: str, cost_s: float | None, severity: str = "high") -> Finding:
    return Finding(
        id=f"7/{rule}",
        rule=rule,
        title=f"Title of {rule}",
        subject=Subject("job", "7"),
        from_ns=0,
        to_ns=1,
        severity=severity,
        confidence=0.9,
        category="x",
        cost_s=cost_s,
        analysis_version="1",  # type: ignore[arg-type]
    )


def writer(time_s: float, *, missing: list[Missing] | None = None, run_time_s: float = 100.0) -> JobProfile:
    values = {"bytes_written": MIB, "writes": 10, "write_time_s": time_s, "write_sizes": sizes(small=10)}
    rows = [counters(1, r, **values) for r in range(4)]
    return build_profile(job(rows, run_time_s=run_time_s, missing=missing))


@pytest.mark.parametrize(
    ("cost_s", "letter"), [(0.5, "A"), (1.99, "A"), (2.0, "B"), (5.0, "C"), (15.0, "D"), (30.0, "F"), (99.0, "F")]
)
def test_the_letter_follows_the_share_lost(cost_s: float, letter: str) -> None:
    # Half the run at most in I/O, unless the cost itself is more: beyond that an A becomes a B.
    assert grade_job(writer(max(cost_s, 40.0)), [finding("a", cost_s)], CAUSES).letter == letter


def test_a_job_that_waits_for_its_io_is_at_best_a_b() -> None:
    found = writer(60.0)
    result = grade_job(found, [], CAUSES)
    assert result.letter == "B"
    assert "60 % of its run in I/O" in result.reason
    assert format_grade_headline(found, [], result).startswith(
        "No fault was found in the I/O, yet the job waits for it"
    )


def test_costs_of_one_kind_of_work_are_not_added_up() -> None:
    found = [finding("a", 10.0), finding("b", 8.0), finding("c", 3.0)]
    assert compute_graded_loss(writer(100.0), found, CAUSES) == pytest.approx(13.0)


def test_no_more_is_lost_than_was_spent() -> None:
    assert compute_graded_loss(writer(4.0), [finding("a", 10.0), finding("c", 10.0)], CAUSES) == pytest.approx(4.0)


def test_good_news_costs_nothing() -> None:
    assert grade_job(writer(50.0), [finding("a", 40.0, "ok"), finding("c", 40.0, "info")], CAUSES).letter == "A"


def test_a_serious_finding_without_a_price_is_no_a() -> None:
    assert grade_job(writer(50.0), [finding("z", None, "high")], CAUSES).letter == "B"


def test_no_letter_without_io_or_run_time() -> None:
    assert grade_job(build_profile(job([])), [], {}).letter is None
    assert grade_job(writer(1.0, run_time_s=-1.0), [], {}).letter is None


def test_an_incomplete_trace_is_said_in_the_reason() -> None:
    gap = Missing(kind="partial_module", what="POSIX", why="out of memory")
    assert "incomplete" in grade_job(writer(1.0, missing=[gap]), [], {}).reason


def judged(found: JobProfile, findings: list[Finding]) -> Verdict:
    return build_verdict(found, findings, [], CAUSES, inputs=["x"], source="test", version=fairlead.__version__)


def test_comparing_two_runs() -> None:
    before = judged(writer(10.0), [finding("a", 9.0), finding("b", 2.0)])
    after = judged(writer(1.0), [finding("b", 0.5), finding("c", 0.1)])
    result = compare_verdicts(before, after)
    rows = {r.name: r for r in result.rows}
    assert rows["write time"].ratio == pytest.approx(0.1)
    assert rows["write time"].better is True
    assert rows["bytes written"].better is None
    assert "10 times faster" in result.verdict
    assert (result.findings.gone, result.findings.new) == (["Title of a"], ["Title of c"])
    same = compare_verdicts(before, before)
    assert "as long as before" in same.verdict
    assert all(r.better is None for r in same.rows)


def test_unlike_work_is_said() -> None:
    less, more = (
        judged(build_profile(job([counters(1, bytes_written=n, writes=1, write_time_s=1.0 * n)])), []) for n in (1, 4)
    )
    assert "it moves 4 times the bytes" in compare_verdicts(less, more).verdict
    assert "times the bytes" not in compare_verdicts(less, less).verdict


def test_a_slower_run_is_called_slower() -> None:
    result = compare_verdicts(judged(writer(1.0), []), judged(writer(3.0), []))
    assert "3 times slower" in result.verdict
    assert {r.name: r.better for r in result.rows}["write time"] is False


@pytest.mark.parametrize("rows", [[], [counters(1, SHARED, bytes_written=5, writes=1, write_time_s=1.0)]])
def test_charts_of_any_job_are_json(rows: list[dict[str, object]]) -> None:
    found = build_profile(job(rows))
    drawn = build_charts(found, judged(found, []))
    assert msgspec.json.decode(msgspec.json.encode(drawn)).keys() == drawn.keys()
    assert drawn["timeline"] is None
    assert drawn["heatmap"] is None
