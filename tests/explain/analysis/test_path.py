"""A job's path through the layers, its series, and the page they are shown on."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from fairlead.core.model.tables import JOBS, OPS, build_table_batch
from fairlead.explain.analysis.culprits import judge_culprits
from fairlead.explain.analysis.job_path import build_job_paths, list_job_path_differences
from fairlead.explain.analysis.path_charts import build_path_charts
from fairlead.show.report.path.path_page import render_path_page
from path_simulation import EDGES_NS, MIB, START_NS, Plane, checkpoints, flood, metadata

SECONDS = 16


def _ops() -> pa.Table:
    """Job 101 as its client saw it: two ranks, ten runs each."""
    starts = [START_NS + second * 10**9 for second in range(10)]
    rows = {
        "start_ns": starts * 2,
        "end_ns": [at + 5 * 10**8 for at in starts * 2],
        "busy_ns": [4 * 10**8] * 20,
        "node": ["n0"] * 20,
        "job_id": ["101"] * 20,
        "rank": [0] * 10 + [1] * 10,
        "interface": ["fuse"] * 20,
        "op": (["write"] * 9 + ["open"]) * 2,
        "file_id": [1] * 20,
        "offset": [0] * 20,
        "size": ([MIB] * 9 + [None]) * 2,
        "stride": [MIB] * 20,
        "count": [4] * 20,
    }
    return pa.Table.from_batches([build_table_batch(OPS, rows)])


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    plane = Plane(rate=lambda name, at: (7 if name == "t1" and 3 < at < 8 else 40) * MIB)
    jobs = [
        *checkpoints("101", "f0", 2, seed=1, every_s=0.2),
        *metadata("103", "f0", 1, seed=2),
        *flood("102", "f0", 12, seed=9, start=9, end=14),
    ]
    named = build_table_batch(JOBS, {"job_id": ["101"], "name": ["checkpoint"], "processes": [2]})
    return plane.run(jobs, SECONDS) | {"ops": _ops(), "jobs": pa.Table.from_batches([named])}


def _page(tables: dict[str, pa.Table], **more: Any) -> tuple[str, dict[str, Any]]:
    judgement, facts = judge_culprits(tables, EDGES_NS)
    found = build_job_paths(tables, facts)
    text = render_path_page(
        {"judgement": judgement, "paths": found, "charts": build_path_charts(tables, judgement, facts, found)} | more
    )
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    return text, json.loads(match[1])


def test_each_layer_says_what_it_saw(tables: dict[str, pa.Table]) -> None:
    _, facts = judge_culprits(tables, EDGES_NS)
    first, second, third = build_job_paths(tables, facts)
    assert (first.job_id, first.name) == ("101", "checkpoint")
    assert first.client is not None
    assert first.client.operations == 80
    assert first.client.metadata == 8
    assert first.client.bytes_written == 72 * MIB
    assert (first.client.nodes, first.client.processes) == (["n0"], 2)
    assert sum(one.bytes for one in first.targets) == first.forwarders[0].bytes > 0
    assert [one.name for one in first.targets] == ["t0", "t1", "t2", "t3"]
    slow = {one.name: one.per_mib_s or 0 for one in first.targets}
    assert slow["t1"] > 1.5 * slow["t0"]
    assert second.job_id == "102"
    assert third.forwarders[0].metadata == third.forwarders[0].requests > 0
    assert {one.kind for one in third.missing} == {"no_client", "no_target"}


def test_what_the_application_counted_is_held_against_the_records(tables: dict[str, pa.Table]) -> None:
    _, facts = judge_culprits(tables, EDGES_NS)
    first = build_job_paths(tables, facts)[0]
    assert not list_job_path_differences(first, {"bytes_written": 72 * MIB, "bytes_read": 0})
    assert "The application counted" in list_job_path_differences(first, {"bytes_written": 90 * MIB})[0]


def test_series_add_up_to_the_totals(tables: dict[str, pa.Table]) -> None:
    judgement, facts = judge_culprits(tables, EDGES_NS)
    found = build_job_paths(tables, facts)
    made = build_path_charts(tables, judgement, facts, found)
    assert made["count"] == SECONDS
    job = made["jobs"][0]
    assert sum(job["client_bytes"]) == 72 * MIB
    assert sum(job["target_bytes"]) == sum(one.bytes for one in found[0].targets)
    assert len(job["wait_s"]) == SECONDS
    assert {one["kind"] for one in made["spans"]} == {"slow_target", "disturber"}
    assert json.dumps(made, allow_nan=False)


def test_long_times_are_folded_to_what_can_be_seen(
    tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.explain.analysis.path_charts.MAX_POINTS", 5)
    judgement, facts = judge_culprits(tables, EDGES_NS)
    made = build_path_charts(tables, judgement, facts, build_job_paths(tables, facts))
    assert made["count"] == 4
    assert made["window_s"] == 4
    assert sum(made["jobs"][0]["client_bytes"]) == 72 * MIB
    assert len(made["targets"][0]["per_mib_s"]) == 4


def test_the_page_carries_everything_and_fetches_nothing(tables: dict[str, pa.Table]) -> None:
    text, data = _page(tables, played="t1 was slowed", saw={"101": {"operations": 80}})
    assert "default-src 'none'" in text
    assert not re.search(r"""(?:src|href)=["']https?:""", text)
    assert "Target t1 was slow" in data["headline"]
    assert data["played"] == "t1 was slowed"
    assert "<h2>Target t1 was slow</h2>" in text
    assert len(text) < 400_000


def test_names_cannot_end_the_page(tables: dict[str, pa.Table]) -> None:
    text, _ = _page(tables, played="</script><script>alert(1)</script>")
    assert "<script>alert" not in text


def test_a_page_about_nothing() -> None:
    text, data = _page({})
    assert data["headline"] == "Nobody is accused"
    assert "There are no records" in text
