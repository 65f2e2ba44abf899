"""Rollup rows as arrays, and doses: what is unknown stays so, what is told twice counts once, chance is chance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fairlead.core.model.tables import ROLLUP, build_table_batch
from fairlead.explain.analysis.interference.congestion import find_last_congestion_parts
from fairlead.explain.analysis.interference.dose_response import estimate_doses
from fairlead.explain.analysis.interference.load_arrays import Loads, build_load_arrays
from interference_building import S


def loads(rows: list[dict[str, object]], *others: str) -> Loads:
    filled = [{"interval_ns": S, "layer": str(row["kind"]), **row} for row in rows]
    columns: dict[str, object] = {name: [row.get(name) for row in filled] for name in ROLLUP.schema.names}
    table = pa.Table.from_batches([build_table_batch(ROLLUP, columns, len(rows))], ROLLUP.schema)
    return build_load_arrays(table, S, "v", others, span_ns=(0, 5 * S))


def part(second: int, job: str | None, **values: object) -> dict[str, object]:
    return {"ts_ns": second * S, "kind": "target", "id": "t", "job_id": job, **values}


def test_partial_sums_add_up_and_silence_of_a_live_counter_is_zero() -> None:
    found = loads([part(1, "a", write_bytes=3), part(1, "a", write_bytes=4), part(1, None, write_bytes=7)])
    one = found.components[0]
    assert found.jobs == ("v", "a")
    assert one.parts.write_bytes[1].tolist() == [0, 7, 0, 0, 0]
    assert one.parts.write_bytes[0].tolist() == [0, 0, 0, 0, 0]
    assert one.whole.write_bytes.tolist() == [0, 7, 0, 0, 0]


def test_what_nobody_told_is_unknown() -> None:
    one = loads([part(1, None, write_bytes=7), part(2, None)]).components[0]
    assert np.isnan(one.whole.read_bytes).all()
    assert np.isnan(one.whole.busy_s).all()
    assert np.isnan(one.whole.write_bytes[2])
    assert not one.counted


def test_queues_are_the_largest_and_times_are_seconds() -> None:
    rows = [part(0, None, queue_len_max=4, wait_ns=S), part(0, None, queue_len_max=9, wait_ns=S)]
    one = loads(rows).components[0]
    assert one.whole.queue[0] == 9
    assert one.whole.wait_s[0] == 2.0


def test_layers_of_a_jobs_own_traffic_are_never_added() -> None:
    rows: list[dict[str, object]] = [
        {"ts_ns": 0, "kind": "job", "id": "v", "layer": layer, "write_bytes": 5}
        for layer in ("client", "mount", "target")
    ]
    found = loads(rows)
    assert found.own.write_bytes[0, 0] == 5
    assert found.layer == ("mount",)


def test_a_row_with_a_wrong_clock_does_not_make_the_axis_endless() -> None:
    found = loads([part(1, None, write_bytes=1), part(10**9, None, write_bytes=1)])
    assert found.axis.count < 1 << 17


def test_a_load_that_moves_against_the_rate_responds_and_another_does_not() -> None:
    rng = np.random.default_rng(3)
    high = np.repeat([0.0, 1.0, 0.0, 1.0, 0.0], 20)
    rate = 10.0 - 6.0 * high + rng.normal(0, 0.2, 100)
    other = rng.random(100)
    still = np.full(100, 0.5)
    found = estimate_doses(np.array([high, other, still]), rate, np.ones(100, bool))
    assert found.response[0] > 0.95
    assert found.by_chance[0] < 0.05
    assert abs(found.response[1]) < 0.4
    assert found.low_rate[0] > 2 * found.high_rate[0]
    assert np.isnan(found.response[2])


def test_too_few_seconds_say_nothing() -> None:
    assert np.isnan(estimate_doses(np.ones((1, 5)), np.arange(5.0), np.ones(5, bool)).response).all()


def test_the_part_of_a_job_that_ends_last_tells_how_long_it_took() -> None:
    def at(forwarder: str, seconds: range) -> list[dict[str, object]]:
        return [part(k, "v", write_bytes=10) | {"kind": "forwarder", "id": forwarder} for k in seconds]

    inside = np.ones(5)
    uneven = loads([*at("f1", range(2)), *at("f2", range(5))])
    assert [one.id for one in uneven.components] == ["f1", "f2"]
    assert find_last_congestion_parts(uneven, "write", [0, 1], inside) == [1]
    even = loads([*at("f1", range(5)), *at("f2", range(5))])
    assert find_last_congestion_parts(even, "write", [0, 1], inside) == [], (
        "all of them ended together: the job as a whole counts"
    )
    assert find_last_congestion_parts(uneven, "read", [0, 1], inside) == []
