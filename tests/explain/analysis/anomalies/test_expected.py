"""The detector that compares with a program's own history."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fairlead.explain.analysis.anomalies.detector_output import PhaseJudgement
from fairlead.explain.analysis.anomalies.expectation import ExpectedLimits, judge_by_expectation
from fairlead.explain.analysis.history.category import LADDER, NONE, compute_categories
from fairlead.explain.analysis.history.rate_bins import SILENT
from phase_building import HOUR, S, phase, runs, table

RNG = np.random.default_rng(7)
USUAL = (2e9 * np.exp(RNG.normal(0, 0.03, 20))).tolist()


def same(a: PhaseJudgement, b: PhaseJudgement) -> None:
    for name in ("abnormal", "confidence", "expected_s", "lost_s", "runs", "rung"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_a_slow_run_is_found_and_no_other() -> None:
    phases = runs([*USUAL, 5e8, 2e9])
    found = judge_by_expectation(phases, phases)
    assert np.flatnonzero(found.abnormal).tolist() == [20]
    assert found.confidence[20] > 0.95
    assert found.expected_s[20] == pytest.approx(5.0, rel=0.1)
    assert found.lost_s[20] == pytest.approx(15.0, rel=0.1)
    assert found.runs[20] == 20
    assert found.rung[20] == 0


def test_it_works_from_the_second_run_on_and_says_nothing_of_the_first() -> None:
    phases = runs([2e9, 2e8])
    found = judge_by_expectation(phases, phases)
    assert np.isnan(found.confidence[0])
    assert found.rung[0] == -1
    assert np.isfinite(found.confidence[1])
    assert found.runs[1] == 1
    assert found.lost_s[1] == pytest.approx(45, rel=0.1)
    # With only one earlier run it is less sure than with many.
    many = judge_by_expectation(runs([*USUAL, 2e8]), runs([*USUAL, 2e8]))
    assert found.confidence[1] < many.confidence[20]


def test_one_run_of_many_phases_is_no_history() -> None:
    phases = table([phase(0, number=i, start_ns=i * HOUR, end_ns=i * HOUR + 10 * S) for i in range(30)])
    found = judge_by_expectation(phases, phases, batch=True)
    assert np.isnan(found.confidence).all()
    assert not found.abnormal.any()


def test_other_peoples_programs_judge_nobody() -> None:
    strangers = runs(USUAL)
    alone = table([phase(99, 1e8, 100.0, user="bob", program="drift")])
    assert np.isnan(judge_by_expectation(alone, strangers).confidence[0])


def test_slow_runs_in_the_history_do_not_become_what_is_usual() -> None:
    rates = [2e9, 4e8, 2e9, 5e8, 2e9, 2e9, 4e8, 2e9, 6e8, 2e9, 4e8]
    phases = runs(rates)
    found = judge_by_expectation(phases, phases, batch=True)
    assert found.abnormal.tolist() == [rate < 1e9 for rate in rates]


def test_only_what_was_earlier_counts() -> None:
    phases = runs([*USUAL[:8], 5e8, *USUAL[8:]])
    whole = judge_by_expectation(phases, phases)
    for row in (3, 8, 12):
        alone = judge_by_expectation(phases.slice(row, 1), phases.slice(0, row))
        assert alone.confidence[0] == whole.confidence[row]
        assert alone.expected_s[0] == whole.expected_s[row]
    assert judge_by_expectation(phases, phases, batch=True).runs[3] == 20


def test_the_order_of_rows_does_not_matter() -> None:
    phases = runs([*USUAL, 5e8])
    order = RNG.permutation(21)
    shuffled = phases.take(pa.array(order))
    for batch in (False, True):
        found = judge_by_expectation(shuffled, shuffled, batch=batch)
        straight = judge_by_expectation(phases, phases, batch=batch)
        np.testing.assert_array_equal(found.confidence, straight.confidence[order])


def test_rows_told_twice_count_once_and_the_latest_counts() -> None:
    phases = runs([*USUAL, 5e8])
    old = runs([1.0e6] * 20, volume=1e10, made_ns=0)
    same(judge_by_expectation(phases, pa.concat_tables([phases, phases, old])), judge_by_expectation(phases, phases))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e4])
def test_faster_machines_are_judged_alike(factor: float) -> None:
    rates = np.array([*USUAL, 5e8])
    phases = runs((rates * factor).tolist(), volume=1e10 * factor)
    found = judge_by_expectation(phases, phases)
    assert np.flatnonzero(found.abnormal).tolist() == [20]
    assert found.lost_s[20] == pytest.approx(15.0, rel=0.1)


def test_programs_that_vary_much_need_more_to_be_abnormal() -> None:
    wild = (2e9 * np.exp(np.random.default_rng(3).normal(0, 0.7, 40))).tolist()
    calm = runs([*USUAL, 1e9])
    varied = runs([*wild, 1e9])
    assert judge_by_expectation(calm, calm).confidence[20] > 0.9
    assert judge_by_expectation(varied, varied).confidence[40] < 0.6


def test_what_is_lost_standing_still_is_lost() -> None:
    late = phase(20, 2e9, 5.0, end_ns=phase(20)["start_ns"] + 45 * S, rate_bins=[SILENT, 246], rate_ns=[40 * S, 5 * S])  # type: ignore[operator]
    phases = pa.concat_tables([runs(USUAL), table([late])])
    found = judge_by_expectation(phases, phases)
    assert found.abnormal[20]
    assert found.lost_s[20] == pytest.approx(40, rel=0.05)


def test_pauses_that_are_usual_are_not() -> None:
    def paused(i: int) -> dict[str, object]:
        start = phase(i)["start_ns"]
        return phase(i, 2e9, 5.0, end_ns=start + 45 * S, rate_bins=[SILENT, 246], rate_ns=[40 * S, 5 * S])  # type: ignore[operator]

    phases = table([paused(i) for i in range(12)])
    assert not judge_by_expectation(phases, phases).abnormal.any()


def test_a_trifle_is_not_told() -> None:
    phases = runs([*USUAL, 5e8], volume=1e8)
    assert not judge_by_expectation(phases, phases).abnormal.any()
    assert judge_by_expectation(phases, phases, ExpectedLimits(least_lost_s=0.0)).abnormal[20]


BROKEN = [
    {"rate_per_s": None},
    {"rate_per_s": float("nan")},
    {"rate_per_s": float("inf")},
    {"bytes": None},
    {"bytes": 0},
    {"bytes": -5},
    {"active_ns": 0},
    {"active_ns": -1},
    {"end_ns": 0},
    {"start_ns": 0, "end_ns": 0},
    {"rate_bins": None},
    {"rate_ns": None},
    {"rate_bins": [1, 2, 3]},
    {"rate_bins": [], "rate_ns": []},
    {"rate_bins": [None], "rate_ns": [None]},
    {"request_bytes": float("nan")},
    {"request_bytes": 0.0},
    {"user": None},
    {"program": None},
    {"nodes_count": None},
    {"nodes_count": 0},
    {"nodes_count": -4},
    {"processes": None},
    {"mode": None},
    {"kind": "metadata", "metadata_ops": None},
    {"cluster": None},
    {"job_start_ns": None},
    {"number": -1},
]


@pytest.mark.parametrize("damage", BROKEN, ids=[str(one) for one in BROKEN])
def test_broken_rows_neither_crash_nor_accuse(damage: dict[str, object]) -> None:
    good = runs(USUAL)
    phases = pa.concat_tables([good, table([phase(50, 2e9, 5.0) | damage])])
    for batch in (False, True):
        found = judge_by_expectation(phases, phases, batch=batch)
        assert not found.abnormal.any()
        known = np.isfinite(found.confidence)
        assert ((found.confidence[known] >= 0) & (found.confidence[known] <= 1)).all()
        assert (found.expected_s[known] > 0).all()
        assert np.isnan(found.lost_s[~known]).all()


def test_a_row_without_an_amount_is_unknown_and_not_zero() -> None:
    phases = pa.concat_tables([runs(USUAL), table([phase(50, 2e9, 5.0, bytes=None)])])
    found = judge_by_expectation(phases, phases)
    assert np.isnan(found.expected_s[20])
    assert np.isnan(found.lost_s[20])


def test_nothing_to_judge_or_to_compare_with() -> None:
    nothing = runs([]), runs([2e9])
    assert len(judge_by_expectation(nothing[0], nothing[1]).abnormal) == 0
    assert np.isnan(judge_by_expectation(nothing[1], nothing[0]).confidence).all()


def test_confidence_is_calibrated() -> None:
    rng = np.random.default_rng(11)
    count, programs = 4000, 40
    program = rng.integers(0, programs, count)
    usual = rng.normal(30, 2, programs)[program]
    slow = np.where(rng.random(count) < 0.08, rng.exponential(1.2, count), 0.0)
    rates = np.exp2(usual + 0.15 * rng.standard_t(5, count) - slow)
    volume = 1e12
    phases = table(
        [
            phase(i, r, volume / r, program=f"p{p}", nodes_count=int(2 ** (p % 5)))
            for i, (r, p) in enumerate(zip(rates.tolist(), program.tolist(), strict=True))
        ]
    )
    found = judge_by_expectation(phases, phases, batch=True)
    lost = slow >= np.log2(1.5)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        there = (found.confidence >= low) & (found.confidence < high)
        told, true = float(found.confidence[there].mean()), float(lost[there].mean())
        assert abs(told - true) < 0.15 + 1.5 / np.sqrt(there.sum()), (low, told, true)


def test_rungs_go_from_alike_to_general() -> None:
    found = compute_categories(
        table([phase(0), phase(1), phase(2, nodes_count=64), phase(3, user="bob"), phase(4, user=None)])
    )
    assert found.shape == (len(LADDER), 5)
    for k, rung in enumerate(LADDER):
        assert found[k, 0] == found[k, 1]
        assert (found[k, 0] == found[k, 2]) == ("scale" not in rung.fields)
        assert (found[k, 0] == found[k, 3]) == ("user" not in rung.fields)
        assert (found[k, 4] == NONE) == ("user" in rung.needed)


def test_requests_a_little_smaller_than_usual_do_not_hide_a_slow_run() -> None:
    # At the border of a class of sizes nobody is alike on the rungs that ask for it; others know the program.
    earlier = runs([2e9, 2.05e9, 1.95e9, 2e9], request_bytes=float(1 << 18))
    mine = table([phase(9, 7e8, 1e10 / 7e8, request_bytes=float((1 << 18) - 600))])
    found = judge_by_expectation(mine, pa.concat_tables([earlier, mine]).unify_dictionaries())
    assert found.abnormal.tolist() == [True]
    assert LADDER[found.rung[0]].name == "user, program and nodes"
    assert found.runs.tolist() == [4]
