"""A job that an incident touches which became known after it was judged is judged again, once, and says so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from fairlead.core.model.finding import Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import JOBS, PHASE, build_table_batch
from fairlead.explain.diagnosing import ended_jobs
from fairlead.explain.diagnosing.touched_jobs import EVERY_NS, Touched, mark_judged_again
from fairlead.store.lake import Lake

S = 1_000_000_000
T0 = 20_000 * 86_400 * S
NOW = T0 + 2000 * S


def incident(name: str = "i1", component: str = "OST0", from_s: int = 100, to_s: int | None = None) -> Incident:
    return Incident(
        id=name,
        layer="target",
        component=component,
        from_ns=T0 + from_s * S,
        to_ns=None if to_s is None else T0 + to_s * S,
        kind="degraded",
        confidence=0.9,
    )


def write(lake: Lake, name: str, *tables: pa.RecordBatch) -> None:
    with lake.open_writer("analysis") as writer:
        batch = writer.open_batch(name)
        for table in tables:
            batch.add(table)
        batch.commit()


def lake_of(root: Path) -> Lake:
    """Job 1 was slow at OST0, 2 at OST1, 3 at OST0 lost nothing; all were judged at second 1010."""
    jobs, phases = [], []
    for number, (target, lost) in enumerate((("OST0", 50.0), ("OST1", 50.0), ("OST0", 0.0)), 1):
        job = {"cluster": "c", "job_id": str(number), "start_ns": T0 + 500 * S}
        jobs.append({**job, "end_ns": T0 + 1000 * S})
        begin, made = T0 + 600 * S, T0 + 1010 * S
        phases.append(
            {
                "cluster": "c",
                "job_id": str(number),
                "job_start_ns": T0 + 500 * S,
                "number": 0,
                "kind": "write",
                "start_ns": begin,
                "end_ns": T0 + 900 * S,
                "active_ns": 300 * S,
                "lost_s": lost,
                "targets": [target],
                "made_ns": made,
                "analysis_version": 1,
            }
        )
    lake = Lake.open(root, create=True)
    tables = [
        build_table_batch(spec, {name: [row.get(name) for row in rows] for name in spec.schema.names}, len(rows))
        for spec, rows in ((JOBS, jobs), (PHASE, phases))
    ]
    write(lake, "rows", *tables)
    return lake


def test_slow_jobs_at_a_component_that_turns_out_sick_are_judged_again_once(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake")
    touched = Touched()
    assert touched.select_jobs(lake, NOW, most=10) == []
    write(lake, "i1", build_incident_rows([incident()], NOW + S))
    assert touched.select_jobs(lake, NOW + 2 * S, most=10) == [], "not looked at again yet"
    found = touched.select_jobs(lake, NOW + EVERY_NS, most=10)
    assert [(job["job_id"], job["because"], job["again"]) for job in found] == [("1", "i1", True)]
    # The incident goes on: every minute another row of it, and no job is judged again for that.
    write(lake, "i1 on", build_incident_rows([incident()], NOW + 60 * S))
    assert touched.select_jobs(lake, NOW + 70 * S, most=10) == []


def test_an_incident_that_was_known_or_over_before_touches_nothing(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake")
    write(lake, "known", build_incident_rows([incident("known")], T0 + 900 * S))
    write(lake, "over", build_incident_rows([incident("over", to_s=400)], NOW))
    write(lake, "later", build_incident_rows([incident("later", from_s=950)], NOW))
    assert Touched().select_jobs(lake, NOW + S, most=10) == []


def test_more_than_one_step_takes_are_not_forgotten(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake")
    write(lake, "both", build_incident_rows([incident("a"), incident("b", "OST1")], NOW))
    touched = Touched()
    assert len(touched.select_jobs(lake, NOW + S, most=1)) == 1
    assert len(touched.select_jobs(lake, NOW + 2 * EVERY_NS, most=10)) == 2


def test_a_finding_says_why_it_was_made_again() -> None:
    finding = Finding(
        id="f",
        rule="job.slow_component",
        title="t",
        subject=Subject("job", "1"),
        from_ns=T0,
        to_ns=NOW,
        severity="high",
        confidence=0.9,
        category="component",
        analysis_version="1",
    )
    told = [StoredFinding(finding=finding, cluster="c", job_id=name) for name in ("1", "2")]
    again, other = mark_judged_again(told, [{"cluster": "c", "job_id": "1", "because": "i1"}], NOW)
    assert again.judged_again is not None
    assert (again.judged_again.at_ns, again.judged_again.incident) == (NOW, "i1")
    assert "judged again at" in again.finding.evidence[-1].text
    assert "because incident i1 became known" in again.finding.evidence[-1].text
    assert again.finding.id == "f"
    assert other == told[1]


def test_a_server_that_has_nothing_more_to_count_is_not_waited_for_long() -> None:
    job = {"job_id": "1", "nodes": ["n1"], "end_ns": T0}
    servers = {"1": [("target", "OST0")]}

    def is_complete(node: int, server: int, now: int) -> bool:
        told = {("target", "OST0"): T0 + server * S}
        return bool(ended_jobs._filter_complete_jobs([job], {"n1": T0 + node * S}, servers, told, T0 + now * S))

    assert is_complete(node=1, server=0, now=1)
    assert not is_complete(node=-1, server=0, now=20)
    assert not is_complete(node=1, server=-3, now=2)
    assert is_complete(node=1, server=-3, now=7)
