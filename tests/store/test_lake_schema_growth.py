"""Lakes outlive versions: older files lack columns, newer ones have more, and no version destroys another's rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from fairlead.core.errors import LakeError
from fairlead.core.model.tables import EVENTS, TableSpec, build_table_batch
from fairlead.store import delta_table as delta
from fairlead.store import lake as store
from fairlead.store import query, stored_tables, writer
from fairlead.store.compaction import compact_tables
from fairlead.store.inventory import take_inventory
from fairlead.store.lake import Lake

NEWER = replace(
    EVENTS,
    version=2,
    schema=EVENTS.schema.append(pa.field("severity", pa.dictionary(pa.int32(), pa.string())))
    .append(pa.field("weights", pa.list_(pa.int64())))
    .with_metadata({b"fairlead.table": b"events", b"fairlead.schema_version": b"2"}),
)
"""`events` as a later fairlead may have it."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", create=True)


def _as_version(patch: pytest.MonkeyPatch, spec: TableSpec) -> None:
    patch.setitem(stored_tables.SPECS, "events", spec)
    assert all(m.SPECS is stored_tables.SPECS for m in (store, writer, query))


def _put(lake: Lake, name: str, spec: TableSpec, *, flush: bool = True, **more: object) -> None:
    one = lake.open_writer()
    batch = one.open_batch(name)
    batch.add(build_table_batch(spec, {"ts_ns": [5], "component": [name], "kind": ["k"], "text": ["t"], **more}))
    assert batch.commit()
    one.close(flush=flush)


def _rows(lake: Lake, columns: str) -> list[tuple[object, ...]]:
    found = Lake(lake.place).query(f"SELECT {columns} FROM events ORDER BY component").to_pylist()  # noqa: S608
    return [tuple(row.values()) for row in found]


def test_a_newer_version_reads_older_files_with_nulls(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(lake, "old", EVENTS)
    _put(lake, "waiting", EVENTS, flush=False)
    _as_version(monkeypatch, NEWER)
    assert _rows(lake, "component, severity, weights") == [("old", None, None), ("waiting", None, None)]
    _put(lake, "young", NEWER, severity=["high"], weights=[[1, 2]])
    expected = [("old", None, None), ("waiting", None, None), ("young", "high", [1, 2])]
    assert _rows(lake, "component, severity, weights") == expected
    with lake.open_writer() as one:
        [merged] = [m for m in compact_tables(lake, one) if m.table == "events"]
    assert (merged.files_before, merged.files_after) == (3, 1)
    assert _rows(lake, "component, severity, weights") == expected
    assert lake.read("events").schema.equals(NEWER.schema)


def test_an_older_version_reads_a_newer_lake_and_keeps_what_it_does_not_know(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        _as_version(newer, NEWER)
        _put(lake, "young", NEWER, severity=["high"], weights=[[1, 2]])
        _put(lake, "young2", NEWER)
    assert _rows(lake, "*") == [(5, None, n, "k", "t", _rows(lake, "day")[0][0]) for n in ("young", "young2")]
    _put(lake, "older", EVENTS)
    with lake.open_writer() as one:
        compact_tables(lake, one)
    assert [row[0] for row in _rows(lake, "component")] == ["older", "young", "young2"]
    _as_version(monkeypatch, NEWER)
    assert _rows(lake, "component, severity, weights") == [
        ("older", None, None),
        ("young", "high", [1, 2]),
        ("young2", None, None),
    ]


def test_rows_of_a_newer_version_in_the_log_wait_for_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        _as_version(newer, NEWER)
        _put(lake, "young", NEWER, flush=False, severity=["high"])
    assert _rows(lake, "component") == [("young",)]
    with pytest.raises(LakeError, match="severity"):
        lake.open_writer()
    assert _rows(lake, "component") == [("young",)]
    _as_version(monkeypatch, NEWER)
    lake.open_writer().close()
    assert _rows(lake, "component, severity") == [("young", "high")]


def test_a_table_of_a_newer_version_is_named_and_left_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        spec = replace(EVENTS, name="tapes", schema=EVENTS.schema.with_metadata({b"fairlead.table": b"tapes"}))
        newer.setitem(stored_tables.SPECS, "tapes", spec)
        _put(lake, "x", spec)
    _put(lake, "y", EVENTS)
    with lake.open_writer() as one:
        compact_tables(lake, one)
    assert {(h.table, h.known, h.rows) for h in take_inventory(lake.place).tables} == {
        ("events", True, 1),
        ("tapes", False, 1),
    }


def test_a_column_of_another_type_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(lake, "old", EVENTS)
    changed = replace(
        EVENTS,
        version=2,
        schema=EVENTS.schema.set(1, pa.field("end_ns", pa.string())).with_metadata(NEWER.schema.metadata),
    )
    _as_version(monkeypatch, changed)
    with pytest.raises(LakeError, match="end_ns"):
        _put(lake, "new", changed)


def test_files_of_another_engine_are_read(lake: Lake) -> None:
    """A site's own engine may rewrite files: their names say no version, their columns may lie in any order."""
    from deltalake import DeltaTable

    for name in ("a", "b", "c"):
        _put(lake, name, EVENTS)
    folder = lake.place.build_table_path("main", "events")
    DeltaTable(str(folder)).optimize.compact()
    table = delta.open_delta(folder)
    assert table is not None
    assert [p.path for p in delta.list_delta_parts(table) if p.path.split("/")[-1].startswith("v1-")] == []
    assert [row[0] for row in _rows(lake, "component")] == ["a", "b", "c"]
    _put(lake, "d", EVENTS)
    with lake.open_writer() as one:
        compact_tables(lake, one)
    assert [row[0] for row in _rows(lake, "component")] == ["a", "b", "c", "d"]


def test_the_tables_are_plain_delta_for_everyone_else(lake: Lake) -> None:
    """No reader feature that an engine of a site might lack: protocol 1, and every row through the library alone."""
    from deltalake import DeltaTable

    for name in ("a", "b"):
        _put(lake, name, EVENTS)
    table = DeltaTable(str(lake.place.build_table_path("main", "events")))
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    rows = table.to_pyarrow_table()
    assert sorted(rows["component"].to_pylist()) == ["a", "b"]
    assert rows["day"].to_pylist()[0].isoformat() == "1970-01-01"
