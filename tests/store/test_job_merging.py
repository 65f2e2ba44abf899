"""Rows of `jobs` that tell of one run are one row, whichever came first."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fairlead.core.model.tables import JOBS
from fairlead.store.lake import Lake

S = 10**9
T0 = 1_800_000_000 * S


def account(cluster: str | None, number: str, begin: int, end: int | None, *nodes: str, **more: Any) -> dict[str, Any]:
    ends = None if end is None else T0 + end * S
    state = "RUNNING" if end is None else "COMPLETED"
    about = {"cluster": cluster, "job_id": number, "start_ns": T0 + begin * S, "end_ns": ends, "state": state}
    return {**about, "nodes": list(nodes) or None, **more}


def sighting(cluster: str | None, number: str, begin: int, end: int, *nodes: str) -> dict[str, Any]:
    return account(cluster, number, begin, end, *nodes, state=None)


def shown(folder: Path, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(cluster, job, start, end, nodes) of every row of `jobs`, from a lake that is told one row after the other."""
    lake = Lake.open(folder, create=True)
    with lake.open_writer("main") as writer:
        for at, row in enumerate(rows):
            batch = writer.open_batch(f"b{at}", source="test")
            batch.add(pa.Table.from_pylist([row], JOBS.schema))
            batch.commit()
    found = lake.query(
        "SELECT cluster, job_id, start_ns, end_ns, nodes FROM jobs ORDER BY cluster NULLS LAST, job_id, start_ns"
    )
    return [
        (r["cluster"], r["job_id"], (r["start_ns"] - T0) // S, r["end_ns"] and (r["end_ns"] - T0) // S, r["nodes"])
        for r in found.to_pylist()
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_mount_and_the_scheduler_tell_of_one_job_whichever_comes_first(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    rows = [
        account("alpha", "42", 0, None, "n1"),
        sighting(None, "42", 3, 50, "n1"),
        account("alpha", "42", 0, 60, "n1"),
    ]
    assert shown(tmp_path / "lake", [rows[at] for at in order]) == [("alpha", "42", 0, 60, ["n1"])]


def test_equal_numbers_in_two_clusters_stay_apart(tmp_path: Path) -> None:
    accounts = [account("alpha", "42", 0, 60, "a1"), account("beta", "42", 5, 70, "b1.site")]
    seen = [sighting("beta", "42", 6, 50, "b1"), sighting(None, "42", 7, 60, "b1"), sighting(None, "42", 7, 61, "a1")]
    expected = [("alpha", "42", 0, 60, ["a1"]), ("beta", "42", 5, 70, ["b1.site"])]
    assert shown(tmp_path / "lake", [*seen, *accounts]) == expected


def test_a_sighting_that_two_clusters_may_own_is_nobodys(tmp_path: Path) -> None:
    accounts = [account("alpha", "42", 0, 60, "a1"), account("beta", "42", 5, 70, "b1")]
    found = shown(tmp_path / "lake", [*accounts, sighting(None, "42", 7, 60, "c1")])
    assert found[2:] == [(None, "42", 7, 60, ["c1"])]
    assert len(found) == 3


def test_a_number_used_again_is_another_job(tmp_path: Path) -> None:
    rows = [
        account("alpha", "42", 0, 60, "n1"),
        sighting(None, "42", 5, 55, "n1"),
        sighting(None, "42", 900, 950, "n1"),
    ]
    assert shown(tmp_path / "lake", rows)[1:] == [(None, "42", 900, 950, ["n1"])]


def test_two_nodes_see_one_job_that_no_scheduler_told_of(tmp_path: Path) -> None:
    rows = [sighting("alpha", "42", 0, 60, "n1"), sighting("alpha", "42", 5, 70, "n2"), sighting("alpha", "42", 80, 90)]
    assert shown(tmp_path / "lake", rows) == [("alpha", "42", 0, 70, ["n1", "n2"]), ("alpha", "42", 80, 90, None)]
