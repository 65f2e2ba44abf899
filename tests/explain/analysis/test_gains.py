"""Expected gains come from runs of the site alone: right where they are there, silent where they are not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fairlead.core.model.tables import PHASE, build_table_batch
from fairlead.explain.analysis.gains import estimate_gains, estimate_usual_gain

MIB = 1 << 20


def runs(count: int, rate: float, **changes: object) -> dict[str, list[object]]:
    base: dict[str, object] = {
        "cluster": "c",
        "user": "alice",
        "program": "lammps",
        "kind": "write",
        "nodes_count": 16,
        "mode": "N-1",
        "request_bytes": 4096.0,
        "targets": ["ost1"],
        "bytes": 10**11,
    } | changes
    spread = [rate * (0.95 + 0.1 * n / max(1, count - 1)) for n in range(count)]
    return {name: [value] * count for name, value in base.items()} | {"rate_per_s": [*spread]}


def history(*groups: dict[str, list[object]]) -> pa.Table:
    columns = {name: [value for group in groups for value in group[name]] for name in groups[0]}
    count = len(columns["user"])
    columns |= {
        "job_id": [f"j{n}" for n in range(count)],
        "number": [0] * count,
        "start_ns": [*range(count)],
        "end_ns": [*range(1, count + 1)],
        "active_ns": [1] * count,
        "made_ns": [0] * count,
        "analysis_version": [1] * count,
    }
    return pa.Table.from_batches([build_table_batch(PHASE, dict(columns))])


ROW = {name: values[0] for name, values in runs(1, 1e8).items()}


def test_other_modes_of_the_same_program_promise_their_rate() -> None:
    found = estimate_gains(history(runs(6, 1e8), runs(7, 4.1e8, mode="N-N")), ROW, {"mode", "request_size", "stripes"})
    (gain,) = found
    assert gain.change == "mode"
    assert gain.factor == pytest.approx(4.1, rel=0.1)
    assert gain.runs == 7
    assert gain.basis == "N-N runs of this program at this scale"


def test_the_best_way_is_told_and_others_runs_are_called_the_sites() -> None:
    past = history(runs(6, 1e8, user="bob"), runs(6, 2e8, mode="N-N", user="bob"), runs(6, 3e8, mode="N-M", user="bob"))
    (gain,) = estimate_gains(past, ROW, {"mode"})
    assert gain.basis == "site's N-M runs of this program at this scale"


def test_large_requests_and_more_targets() -> None:
    past = history(runs(6, 1e8), runs(5, 5e8, request_bytes=4.0 * MIB))
    assert [one.change for one in estimate_gains(past, ROW, {"mode", "request_size", "stripes"})] == ["request_size"]
    past = history(runs(6, 1e8), runs(5, 5e8, targets=["a", "b", "c", "d"]))
    assert [one.change for one in estimate_gains(past, ROW, {"mode", "request_size", "stripes"})] == ["stripes"]
    assert estimate_gains(past, ROW, {"mode"}) == []


@pytest.mark.parametrize(
    ("count", "rate", "row"),
    [
        (2, 4e8, {}),  # too few
        (7, 1.001e8, {}),  # chance
        (7, 4e8, {"mode": "N-N"}),  # it is so already
        (7, 4e8, {"mode": None}),  # not known
        (7, 4e8, {"nodes_count": None}),
    ],
)
def test_nothing_is_promised_without_grounds(count: int, rate: float, row: dict[str, object]) -> None:
    past = history(runs(6, 1e8), runs(count, rate, mode="N-N"))
    assert estimate_gains(past, ROW | row, {"mode"}) == []
    assert estimate_gains(past.slice(0, 0), ROW, {"mode"}) == []


def test_the_usual_rate_is_that_of_its_own_earlier_runs() -> None:
    past = history(runs(5, 2e8), runs(9, 9e9, user="bob"), runs(9, 9e9, nodes_count=32))
    gain = estimate_usual_gain(past, ROW | {"rate_per_s": 1e8})
    assert gain is not None
    assert (gain.change, gain.runs) == ("quiet", 5)
    assert gain.factor == pytest.approx(2.0)
    assert estimate_usual_gain(past.slice(0, 2), ROW) is None
    assert estimate_usual_gain(past, ROW | {"rate_per_s": None}) is None
    assert estimate_usual_gain(past, ROW | {"program": None}) is None
