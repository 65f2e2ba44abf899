"""The lake against a dictionary: any sequence of taking in, flushing, killing, compacting and forgetting agrees."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.store import batch_writer
from fairlead.store.compaction import compact_tables
from fairlead.store.lake import Lake
from fairlead.store.retention import expire_retained_days
from fairlead.store.writer import Writer
from lake_rows import COUNTER_ROWS, DAY_NS, DAY_ONE, put

JOBS = st.integers(0, 5)
ACTIONS = st.one_of(
    st.tuples(st.just("put"), JOBS, st.integers(0, 3), st.integers(1, 120)),
    st.tuples(st.just("offer again"), JOBS),
    st.tuples(st.just("flush")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("leave")),
    st.tuples(st.just("compact"), st.booleans()),
    st.tuples(st.just("expire"), st.integers(0, 4)),
)


class Model:
    """What must be there: (day, rows) of every job still remembered, and the jobs ever taken in."""

    def __init__(self) -> None:
        self.there: dict[int, tuple[int, int]] = {}
        self.taken: set[int] = set()


def _sight(lake: Lake) -> dict[int, tuple[int, int]]:
    rows = lake.query(
        "SELECT job_id, count(*) AS n, min(day) AS first, max(day) AS last, count(DISTINCT start_ns) AS times "
        "FROM ops GROUP BY 1"
    ).to_pylist()
    seen = {}
    for row in rows:
        assert row["first"] == row["last"]
        assert row["times"] == row["n"]
        seen[int(row["job_id"][4:])] = ((row["first"] - _day_one()).days, row["n"])
    others = lake.query(
        "SELECT (SELECT count(*) FROM files) AS files, (SELECT count(*) FROM layouts) AS layouts, "
        "(SELECT count(*) FROM file_counters) AS counters, (SELECT count(*) FROM events) AS events"
    ).to_pylist()[0]
    assert others == {
        "files": len(seen),
        "layouts": len(seen),
        "counters": COUNTER_ROWS * len(seen),
        "events": len(seen),
    }
    return seen


def _day_one():  # type: ignore[no-untyped-def]
    from datetime import UTC, datetime

    return datetime.fromtimestamp(DAY_ONE // 10**9, UTC).date()


def _step(lake: Lake, writer: Writer, model: Model, action: tuple) -> Writer:  # type: ignore[type-arg]
    match action:
        case ("put", job, day, rows):
            assert put(writer, job, day=day, rows=rows) == (job not in model.taken)
            if job not in model.taken:
                model.there[job] = (day, rows)
            model.taken.add(job)
        case ("offer again", job):
            assert writer.has_batch(f"test:{job}") == (job in model.taken)
        case ("flush",):
            writer.flush()
        case ("reopen",):
            writer.close()
            return lake.open_writer()
        case ("leave",):
            writer.close(flush=False)
            assert _sight(lake) == model.there
            return lake.open_writer()
        case ("compact", thorough):
            compact_tables(lake, writer, thorough=thorough, keep_hours=0)
        case ("expire", day):
            expire_retained_days(writer, before_ns=DAY_ONE + day * DAY_NS + 5)
            model.there = {job: held for job, held in model.there.items() if held[0] >= day}
    return writer


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ACTIONS, max_size=14))
def test_any_sequence_of_actions_agrees_with_a_dictionary(actions: list[tuple]) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(batch_writer, "SPILL_BYTES", 8_000):
        lake = Lake.open(Path(folder) / "lake", create=True)
        writer = lake.open_writer()
        model = Model()
        try:
            for action in actions:
                writer = _step(lake, writer, model, action)
                assert _sight(lake) == model.there
        finally:
            writer.close(flush=False)
