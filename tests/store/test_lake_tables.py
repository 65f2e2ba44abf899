"""How rows lie in the lake: their day, their order, their columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.errors import LakeError
from fairlead.core.model.tables import FILE_COUNTERS, FILES, LAYOUTS, OPS, TABLES, build_table_batch
from fairlead.store import days_and_tiers, stored_tables
from lake_rows import DAY_NS, ops_of


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


@pytest.mark.parametrize("spec", TABLES.values(), ids=lambda spec: spec.name)
def test_every_record_table_can_be_stored(spec: object) -> None:
    from deltalake import Schema

    stored = stored_tables.build_stored_schema(spec)  # type: ignore[arg-type]
    assert not any(pa.types.is_dictionary(field.type) or pa.types.is_unsigned_integer(field.type) for field in stored)
    assert stored.names[-1] == "day"
    Schema.from_arrow(stored)
    assert set(stored_tables.list_stored_table_key(spec)) <= set(stored.names)  # type: ignore[arg-type]


def test_days_are_utc_and_floor_towards_the_past() -> None:
    rows = _table(
        build_table_batch(
            FILES,
            {
                "file_id": [1, 2, 3, 4],
                "fs": [""] * 4,
                "path": [""] * 4,
                "first_seen_ns": [0, DAY_NS - 1, -1, None],
            },
        )
    )
    assert days_and_tiers.compute_days(rows, FILES, 5 * DAY_NS + 3).tolist() == [0, 0, -1, 5]
    unknown = days_and_tiers.compute_days(rows, FILES, None)
    assert unknown[3] == days_and_tiers.NO_DAY
    assert days_and_tiers.format_day(int(unknown[3])) is None
    assert days_and_tiers.format_day(-1) == "1969-12-31"
    assert days_and_tiers.add_day_column(rows, unknown).column("day").to_pylist()[3] is None


def test_rows_without_any_time_take_the_fallback() -> None:
    rows = _table(build_table_batch(LAYOUTS, {"file_id": [1], "component": [0]}))
    assert days_and_tiers.compute_days(rows, LAYOUTS, DAY_NS).tolist() == [1]
    assert days_and_tiers.compute_days(rows, LAYOUTS, None).tolist() == [days_and_tiers.NO_DAY]


words = st.one_of(st.none(), st.sampled_from(["a", "b", "é", "", "zz"]))
small = st.integers(-3, 3)
big = st.one_of(st.sampled_from([-(2**63), 2**63 - 1, 2**62]), small)


@given(st.lists(st.tuples(words, words, big, st.integers(0, 2)), max_size=40))
def test_order_is_that_of_the_sort_key_with_nulls_last(rows: list[tuple[str | None, str | None, int, int]]) -> None:
    table = _table(
        build_table_batch(
            OPS,
            {
                "start_ns": [r[2] for r in rows],
                "end_ns": [0] * len(rows),
                "busy_ns": [0] * len(rows),
                "job_id": [r[0] for r in rows],
                "node": [r[1] for r in rows],
                "interface": ["POSIX"] * len(rows),
                "op": ["read"] * len(rows),
                "count": list(range(len(rows))),
            },
        )
    )
    days = np.array([r[3] for r in rows], np.int32)
    ordered, sorted_days = days_and_tiers.sort_by_day(table, OPS, days)
    wanted = sorted(range(len(rows)), key=lambda i: (rows[i][3], _last(rows[i][0]), _last(rows[i][1]), rows[i][2], i))
    assert ordered.column("count").to_pylist() == wanted
    assert sorted_days.tolist() == [rows[i][3] for i in wanted]


def _last(word: str | None) -> tuple[bool, bytes]:
    return word is None, (word or "").encode()


def test_nulls_of_an_integer_key_come_last() -> None:
    rows = _table(
        build_table_batch(
            FILE_COUNTERS,
            {
                "job_id": ["j"] * 3,
                "rank": [2, -1, 0],
                "interface": ["POSIX"] * 3,
                "file_id": [9, 9, 8],
            },
        )
    )
    ordered, _ = days_and_tiers.sort_by_day(rows, FILE_COUNTERS, np.zeros(3, np.int32))
    assert list(zip(ordered["file_id"].to_pylist(), ordered["rank"].to_pylist(), strict=True)) == [
        (8, 0),
        (9, -1),
        (9, 2),
    ]


def test_dictionaries_of_different_batches_sort_together() -> None:
    rows = pa.concat_tables([_table(ops_of(2, 2)), _table(ops_of(10, 2)), _table(ops_of(1, 2))])
    ordered, _ = days_and_tiers.sort_by_day(rows, OPS, np.zeros(6, np.int32))
    assert ordered["job_id"].to_pylist() == ["job-1"] * 2 + ["job-10"] * 2 + ["job-2"] * 2
    first, second = sorted(rows["start_ns"].to_pylist()[:2])
    assert ordered["start_ns"].to_pylist() == [first, second] * 3


def test_older_rows_gain_columns_and_newer_ones_are_refused_or_cut() -> None:
    rows = _table(ops_of(1, 3))
    older = rows.drop_columns(["stride", "rank"])
    grown = stored_tables.conform_stored_table(older, OPS, strict=True)
    assert grown.schema.equals(OPS.schema)
    assert grown["rank"].null_count == 3
    newer = rows.append_column("colour", pa.array([1, 2, 3]))
    with pytest.raises(LakeError, match="colour"):
        stored_tables.conform_stored_table(newer, OPS, strict=True)
    assert stored_tables.conform_stored_table(newer, OPS, strict=False).schema.equals(OPS.schema)


def test_plain_strings_become_words_again() -> None:
    rows = _table(ops_of(1, 3))
    plain = rows.cast(pa.schema([f.with_type(stored_tables.flatten_stored_table_type(f.type)) for f in rows.schema]))
    assert stored_tables.conform_stored_table(plain, OPS, strict=True).equals(rows.cast(OPS.schema))


def test_values_that_do_not_fit_say_which() -> None:
    rows = _table(ops_of(1, 1))
    wrong = rows.set_column(0, "start_ns", pa.array(["yesterday"]))
    with pytest.raises(LakeError, match=r"ops\.start_ns"):
        stored_tables.conform_stored_table(wrong, OPS, strict=True)


def test_a_batch_says_its_table() -> None:
    assert stored_tables.find_stored_table_spec(ops_of(1, 1)) is OPS
    with pytest.raises(LakeError, match="unknown table"):
        stored_tables.find_stored_table_spec(pa.table({"a": [1]}))
