"""What runs of a category usually ask for: earlier runs only, each once, and nothing from too few."""

from __future__ import annotations

import pyarrow as pa

from fairlead.core.model.tables import PHASE, build_table_batch
from fairlead.explain.analysis.history.usual_figures import UsualFigures, compute_usual_figures

S = 10**9
Row = dict[str, object]


def phase(run: int, **other: object) -> Row:
    """A write phase of run `run`, a minute after that of the run before."""
    start = 10**18 + run * 60 * S
    return {
        "cluster": "c",
        "job_id": str(run),
        "job_start_ns": start,
        "number": 0,
        "kind": "write",
        "start_ns": start,
        "end_ns": start + S,
        "active_ns": S,
        "user": "ann",
        "program": "sim",
        "nodes_count": 8,
        "mode": "N-N",
        "request_bytes": float(4 << 20),
        "metadata_ops": 100,
        "made_ns": start,
        "analysis_version": 1,
        **other,
    }


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_batches(
        [build_table_batch(PHASE, {name: [row.get(name) for row in rows] for name in rows[0]})]
    )


def usual(rows: list[Row], **other: object) -> UsualFigures:
    mine = table([phase(50, request_bytes=4096.0, mode="N-1", metadata_ops=5000, **other)])
    return compute_usual_figures(mine, 0, pa.concat_tables([table(rows), mine]))


def test_medians_of_earlier_runs_tell_what_is_usual() -> None:
    assert usual([phase(n) for n in range(5)]) == UsualFigures(float(4 << 20), 100.0, "N-N")


def test_one_run_of_many_phases_counts_once() -> None:
    many = [phase(9, number=k, request_bytes=1024.0) for k in range(30)]
    assert usual([*(phase(n) for n in range(3)), *many]).request_bytes == float(4 << 20)


def test_later_runs_others_programs_and_other_scales_do_not_count() -> None:
    for other in ({"user": "bob"}, {"program": "other"}, {"nodes_count": 64}, {"kind": "read"}, {"cluster": "d"}):
        assert usual([phase(n, **other) for n in range(5)]) == UsualFigures(), other
    assert usual([phase(n) for n in range(51, 60)]) == UsualFigures()


def test_too_few_runs_or_no_common_mode_are_nothing_usual() -> None:
    assert usual([phase(n) for n in range(2)]) == UsualFigures()
    assert usual([phase(n, mode=("N-N", "N-1")[n % 2]) for n in range(6)]).mode is None
    assert usual([phase(n, request_bytes=None, mode=None) for n in range(6)]) == UsualFigures(None, 100.0, None)


def test_operations_of_a_metadata_phase_are_its_volume_and_no_change() -> None:
    assert usual([phase(n, kind="metadata") for n in range(5)], kind="metadata").metadata_ops is None
