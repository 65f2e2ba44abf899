"""Profiles, runs alike, and what another way of doing I/O gave."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.model.tables import JOB_SUMMARY
from fairlead.explain.analysis.history.expected_gain import estimate_expected_gain, estimate_gain_shift
from fairlead.explain.analysis.history.run_profiles import (
    PROFILE_SCHEMA,
    Profile,
    build_run_profile_rows,
    build_run_profiles,
    estimate_profile_quantile,
    merge_run_profiles,
    read_run_profiles,
    subtract_run_profile,
)
from fairlead.explain.analysis.history.similar import find_similar_runs
from phase_building import HOUR, S, phase, runs, table

RNG = np.random.default_rng(5)


def summary(job: int, **more: object) -> dict[str, object]:
    start = phase(job)["job_start_ns"]
    row: dict[str, object] = {
        "cluster": "c",
        "job_id": str(job),
        "start_ns": start,
        "end_ns": start + 1800 * S,
        "user": "ada",  # type: ignore[operator]
        "program": "flow",
        "nodes_count": 16,
        "processes": 64,
        "write_bytes": 10**10,
        "write_ops": 10**4,
        "metadata_ops": 500,
        "write_mode": "N-N",
        "read_mode": "none",
        "phases": 2,
        "mdops_in_phases": 3.0,
        "made_ns": 1,
        "analysis_version": 1,
    }
    return row | more


def summaries(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, JOB_SUMMARY.schema)


def site(count: int) -> tuple[pa.Table, pa.Table]:
    told, phases = [], []
    for job in range(count):
        who = {"program": ("flow", "drift")[job % 2], "nodes_count": int(RNG.choice([15, 17, 64]))}
        told.append(summary(job, **who))
        for number in range(int(RNG.integers(0, 4))):
            start = int(phase(job)["start_ns"]) + number * 600 * S  # type: ignore[call-overload]
            phases.append(
                phase(
                    job,
                    float(RNG.uniform(1e8, 1e9)),
                    mode=str(RNG.choice(["N-N", "N-1"])),
                    number=number,
                    start_ns=start,
                    end_ns=start + 10 * S,
                    **who,
                )
            )
    return summaries(told), table(phases)


def test_profiles_of_parts_merged_in_any_order_are_that_of_the_whole() -> None:
    told, phases = site(60)
    whole = {(one.program, one.scale): one for one in build_run_profiles(told, phases)}
    assert set(whole) == {("flow", 16), ("flow", 64), ("drift", 16), ("drift", 64)}
    step: dict[tuple[str | None, int | None], Profile] = {}
    for row in RNG.permutation(60).tolist():
        (one,) = build_run_profiles(told.slice(row, 1), phases)
        key = (one.program, one.scale)
        step[key] = merge_run_profiles(step[key], one) if key in step else one
    assert step == whole
    assert [msgspec.json.encode(step[key]) for key in whole] == [msgspec.json.encode(one) for one in whole.values()]


def test_a_profile_holds_what_the_runs_did() -> None:
    rows = [summary(job) for job in range(3)]
    phases = [
        phase(job, 1e9, number=number, start_ns=job * HOUR + number * 600 * S, end_ns=job * HOUR + 3600 * S)
        for job in range(2)
        for number in range(3)
    ]
    (one,) = build_run_profiles(summaries(rows), table(phases))
    assert one.schema == PROFILE_SCHEMA
    assert (one.runs, one.scale) == (3, 16)
    write = one.kinds["write"]
    assert (write.phases, write.runs) == (6, 2)
    assert write.modes == {"N-N": 6}
    assert estimate_profile_quantile(write.rates, 0.5) == pytest.approx(1e9, rel=0.05)
    assert estimate_profile_quantile(write.periods, 0.5) == pytest.approx(600, rel=0.05)
    assert sum(write.periods.values()) == 4
    assert estimate_profile_quantile(one.seconds, 0.5) == pytest.approx(1800, rel=0.05)
    assert estimate_profile_quantile({}, 0.5) is None


def test_the_latest_telling_counts_and_strangers_do_not() -> None:
    rows = [summary(0), summary(0, made_ns=2, metadata_ops=8), summary(1, program=None), summary(2, end_ns=None)]
    phases = [phase(0), phase(0, made_ns=2, mode="N-1"), phase(9), phase(1, program=None)]
    (one,) = build_run_profiles(summaries(rows), table(phases))
    assert one.runs == 1
    assert one.kinds["write"].modes == {"N-1": 1}
    assert estimate_profile_quantile(one.metadata_ops, 1.0) == pytest.approx(8, rel=0.1)


def test_what_is_not_known_is_not_counted_as_nothing() -> None:
    (one,) = build_run_profiles(
        summaries([summary(0, metadata_ops=None, nodes_count=None)]),
        table([phase(0, bytes=None, rate_per_s=None, request_bytes=None, mode=None)]),
    )
    assert one.scale is None
    assert one.metadata_ops == {}
    assert one.kinds["write"].rates == {}
    assert one.kinds["write"].modes == {}
    assert build_run_profiles(summaries([]), table([])) == []


def test_profiles_of_two_categories_are_not_merged() -> None:
    told, phases = site(8)
    a, b, *_ = build_run_profiles(told, phases)
    with pytest.raises(ValueError, match="two categories"):
        merge_run_profiles(a, b)


def test_profiles_are_rows_and_back() -> None:
    told, phases = site(20)
    found = build_run_profiles(told, phases)
    rows = pa.Table.from_batches([build_run_profile_rows(found, 5)])
    assert read_run_profiles(rows) == found
    assert rows["runs"].to_pylist() == [one.runs for one in found]


def test_runs_alike_come_first_and_say_why() -> None:
    told = summaries(
        [
            summary(0),
            summary(0, made_ns=2),
            summary(1, program="other", user="bob"),
            summary(2, write_bytes=3 * 10**10, write_ops=3 * 10**4),
            summary(3, write_mode="N-1"),
            summary(4, write_bytes=10**13, processes=9000),
            summary(5, write_bytes=None, write_ops=None),
        ]
    )
    found = find_similar_runs(told, 0)
    assert [one.job_id for one in found] == ["1", "5", "2", "3", "4"]
    assert found[0].distance == 0
    assert found[0].text == "alike in everything known of both"
    assert found[2].differs["write_bytes"] == pytest.approx(1.585, abs=0.01)
    assert "3.0x more write" in found[2].text
    assert "write mode N-1" in found[3].text
    assert len(find_similar_runs(told, 0, 2)) == 2
    assert find_similar_runs(told.slice(0, 1), 0) == []


def both_ways(slow: int, fast: int) -> pa.Table:
    rows = [phase(i, 1e9 * (1 + 0.01 * i), mode="N-1") for i in range(slow)]
    rows += [phase(100 + i, 4e9 * (1 + 0.01 * i), 2.5, mode="N-N") for i in range(fast)]
    return table(rows)


def test_the_gain_of_another_mode_is_what_it_gave_here() -> None:
    gain = estimate_expected_gain(both_ways(10, 10), phase(500, mode="N-1"), "mode", "N-1", "N-N")
    assert gain is not None
    assert gain.ratio == pytest.approx(4.0, rel=0.02)
    assert gain.low < 4.0 < gain.high
    assert gain.sure
    assert (gain.runs_now, gain.runs_then, gain.among) == (10, 10, ("user", "program", "scale"))


@pytest.mark.parametrize(("slow", "fast"), [(2, 10), (10, 2), (0, 0)])
def test_too_few_runs_promise_nothing(slow: int, fast: int) -> None:
    assert estimate_expected_gain(both_ways(slow, fast), phase(500), "mode", "N-1", "N-N") is None


def test_a_run_of_many_phases_is_one_run() -> None:
    rows = [phase(0, mode="N-1", number=i) for i in range(9)] + [phase(i, mode="N-N") for i in range(1, 9)]
    assert estimate_expected_gain(table(rows), phase(500), "mode", "N-1", "N-N") is None


def test_gains_of_request_sizes_and_targets() -> None:
    rows = [phase(i, 1e8, 100.0, request_bytes=4096.0, targets=["a"]) for i in range(4)]
    rows += [phase(10 + i, 8e8, 12.5, request_bytes=float(1 << 20), targets=list("abcd")) for i in range(4)]
    history = table(rows)
    asked = phase(500)
    gain = estimate_expected_gain(history, asked, "request_bytes", (0, 65536), (1 << 19, 1 << 30))
    assert gain is not None
    assert gain.ratio == pytest.approx(8)
    wide = estimate_expected_gain(history, asked, "targets", (1, 2), (4, 100))
    assert wide is not None
    assert wide.ratio == pytest.approx(8)
    assert estimate_expected_gain(history, asked | {"bytes": 10**15}, "targets", (1, 2), (4, 100)) is None
    assert estimate_expected_gain(runs([]), asked, "mode", "N-1", "N-N") is None
    with pytest.raises(ValueError, match="no gain"):
        estimate_expected_gain(history, asked, "colour", "red", "blue")


def test_other_users_runs_at_this_scale_serve_where_own_are_missing() -> None:
    gain = estimate_expected_gain(both_ways(5, 5), phase(500, user="bob", program="drift"), "mode", "N-1", "N-N")
    assert gain is not None
    assert gain.among == ("scale",)


def test_no_difference_is_no_sure_gain() -> None:
    same = RNG.normal(0, 1, 30)
    ratio, low, high = estimate_gain_shift(same, same + 0.0)
    assert ratio == 0
    assert low < 0 < high


def test_a_run_taken_out_again_leaves_the_profile_of_the_others() -> None:
    told, phases = site(40)
    both, rest = build_run_profiles(told, phases), build_run_profiles(told.slice(1), phases)
    (one,) = build_run_profiles(told.slice(0, 1), phases)
    [whole] = [p for p in both if (p.program, p.scale) == (one.program, one.scale)]
    [others] = [p for p in rest if (p.program, p.scale) == (one.program, one.scale)]
    left = subtract_run_profile(whole, one)
    assert msgspec.structs.replace(left, first_ns=0, last_ns=0) == msgspec.structs.replace(
        others, first_ns=0, last_ns=0
    )
    assert msgspec.structs.replace(merge_run_profiles(left, one), first_ns=0) == msgspec.structs.replace(
        whole, first_ns=0
    )
    with pytest.raises(ValueError, match="two categories"):
        subtract_run_profile(whole, next(p for p in both if p.program != one.program))
