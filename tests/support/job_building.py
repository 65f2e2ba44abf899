"""Makes jobs for tests of the analysis from a few plain rows."""

from __future__ import annotations

import pyarrow as pa

from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import FILE_COUNTERS, FILES, HEATMAP, LAYOUTS, OPS, TableSpec, build_table_batch
from fairlead.explain.analysis.job_view import JobView, assemble_view

S = 1_000_000_000
SHARED = -1


def batch(spec: TableSpec, rows: list[dict[str, object]]) -> pa.RecordBatch:
    names = sorted({name for row in rows for name in row})
    return build_table_batch(spec, {name: [row.get(name) for row in rows] for name in names})


def counters(file: int = 1, rank: int = 0, interface: str = "POSIX", **values: object) -> dict[str, object]:
    return {"file_id": file, "rank": rank, "interface": interface, **values}


def sizes(small: int = 0, large: int = 0) -> list[int]:
    """Ten bins with `small` requests of up to 10 KiB and `large` ones of up to 4 MiB."""
    return [0, 0, small, 0, 0, large, 0, 0, 0, 0]


def op(
    start_s: float,
    *,
    last_s: float = 0.1,
    word: str = "write",
    rank: int = 0,
    file: int = 1,
    offset: int = 0,
    size: int = 1 << 20,
    interface: str = "POSIX",
) -> dict[str, object]:
    start, end = int(start_s * S), int((start_s + last_s) * S)
    return {
        "start_ns": start,
        "end_ns": end,
        "busy_ns": end - start,
        "rank": rank,
        "interface": interface,
        "op": word,
        "file_id": file,
        "offset": offset,
        "size": size,
        "stride": 0,
        "count": 1,
        "node": f"n{rank}",
    }


def job(
    rows: list[dict[str, object]] | None = None,
    *,
    processes: int = 4,
    run_time_s: float = 100.0,
    ops: list[dict[str, object]] | None = None,
    heat: list[dict[str, object]] | None = None,
    layouts: list[dict[str, object]] | None = None,
    paths: dict[int, str] | None = None,
    hints: dict[str, str] | None = None,
    missing: list[Missing] | None = None,
) -> JobView:
    items: list[object] = [
        Job(job_id="7", program="app", start_ns=0, end_ns=int(run_time_s * S), processes=processes, hints=hints),
        *(missing or []),
    ]
    named = paths or {i: f"/scratch/f{i}" for i in range(1, 20)}
    items.append(batch(FILES, [{"file_id": i, "fs": "/scratch", "path": p} for i, p in named.items()]))
    for spec, given in ((FILE_COUNTERS, rows), (LAYOUTS, layouts), (HEATMAP, heat), (OPS, ops)):
        if given:
            items.append(batch(spec, given))
    return assemble_view(items)  # type: ignore[arg-type]
