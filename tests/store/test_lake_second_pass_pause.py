"""The second pass over large segments: looked for by the rows of some jobs, and less often where it does not pay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.model.tables import OP_GROUPS, OPS, build_table_batch
from fairlead.store import flush as carrying
from fairlead.store.lake import Lake

ROWS = 400


def _ops(number: int) -> pa.RecordBatch:
    start = number * ROWS + np.arange(ROWS)
    return build_table_batch(
        OPS,
        {
            "start_ns": start,
            "end_ns": start + 1,
            "busy_ns": np.ones(ROWS, np.int64),
            "node": ["n"] * ROWS,
            "job_id": [None if k % 40 == 0 else str(k % 40) for k in range(ROWS)],
            "interface": ["POSIX"] * ROWS,
            "op": ["read"] * ROWS,
            "file_id": np.zeros(ROWS, np.int64),
            "offset": start,
            "size": np.ones(ROWS, np.int64),
            "stride": np.zeros(ROWS, np.int64),
            "count": np.ones(ROWS, np.int64),
        },
    )


def test_it_is_looked_for_less_and_less_while_it_does_not_pay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "_MANY_ROWS", 100)
    looked: list[tuple[int, frozenset[object]]] = []
    nothing = pa.Table.from_batches([build_table_batch(OP_GROUPS, {name: [] for name in OP_GROUPS.schema.names})])

    def regroup(table: pa.Table) -> tuple[pa.Table, pa.Table]:
        looked.append((number, frozenset(table.column("job_id").to_pylist())))
        return table, nothing

    lake = Lake.open(tmp_path / "lake", create=True)
    with lake.open_writer(regroup=regroup) as writer:
        for number in range(30):
            batch = writer.open_batch("ops", number)
            batch.add(_ops(number))
            batch.commit()
            writer.flush()
    assert [number for number, _ in looked] == [0, 2, 5, 10, 19, 28]
    assert all(len(jobs) == 5 for _, jobs in looked)  # an eighth of 40 jobs, whole ones
    assert len(frozenset().union(*(jobs for _, jobs in looked))) > 20
    assert lake.query("SELECT count(*) AS n FROM ops").column("n")[0].as_py() == 30 * ROWS


def test_where_it_pays_all_rows_are_looked_at_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "_MANY_ROWS", 100)
    monkeypatch.setattr(
        carrying, "measure_part_file", lambda _, rows: rows.num_rows
    )  # files this small are mostly frame
    looked: list[int] = []
    nothing = pa.Table.from_batches([build_table_batch(OP_GROUPS, {name: [] for name in OP_GROUPS.schema.names})])

    def regroup(table: pa.Table) -> tuple[pa.Table, pa.Table]:
        looked.append(table.num_rows)
        return table.slice(0, table.num_rows // 2), nothing

    with Lake.open(tmp_path / "lake", create=True).open_writer(regroup=regroup) as writer:
        for number in range(3):
            batch = writer.open_batch("ops", number)
            batch.add(_ops(number))
            batch.commit()
            writer.flush()
    assert looked == [50, ROWS] * 3
