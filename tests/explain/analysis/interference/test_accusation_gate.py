"""Nobody is accused on records that were not shown to be enough; what was recorded is read off the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairlead.core.model.finding import Evidence, Subject
from fairlead.core.model.finding_incident_rows import ShownPrecision
from fairlead.core.model.tables import JOB_SUMMARY, PHASE, ROLLUP, build_empty_table, build_table_batch
from fairlead.explain.analysis.interference import accusation_gate as gate
from fairlead.explain.analysis.interference.scene import Attribution, Culprit, Scene, Victim

S = 1_000_000_000


def rows_of(kind: str, name: str, layer: str, job: str | None, every_s: int, of: str = "write") -> list[dict[str, Any]]:
    """A minute of rows by second of a counter read every `every_s`."""
    amounts = {"metadata_ops": 40} if of == "metadata" else {"write_bytes": 1 << 20, "write_ops": 1}
    return [
        {"ts_ns": second * S, "interval_ns": S, "kind": kind, "id": name, "layer": layer, "job_id": job, **amounts}
        | {"samples": int(second % every_s == every_s - 1)}
        for second in range(60)
    ]


def scene_of(rows: Sequence[dict[str, Any]], kind: str = "write") -> Scene:
    victim = Victim(
        cluster=None, job_id="v", kind=kind, start_ns=0, end_ns=60 * S, expected_s=20.0, lost_s=40.0, confidence=1.0
    )
    columns = {name: [row.get(name) for row in rows] for name in ROLLUP.schema.names}
    loads = ROLLUP.schema.empty_table()
    if rows:
        loads = loads.from_batches([build_table_batch(ROLLUP, columns, len(rows))], ROLLUP.schema)
    nobody = build_empty_table(JOB_SUMMARY)
    return Scene(victim=victim, loads=loads, interval_ns=S, neighbours=build_empty_table(PHASE), jobs=nobody)


def accuse(verdict: str = "n_to_1", confidence: float = 0.9) -> Attribution:
    culprit = Culprit(who=Subject("job", "a"), verdict=verdict, score=confidence, cost_s=30.0, at=(), evidence=())
    return Attribution(
        verdict=verdict,
        accused=True,
        confidence=confidence,
        culprits=[culprit],
        evidence=[Evidence(text="job a did it")],
        missing=[],
    )


TRACE = rows_of("job", "v", "client", None, 1)
FORWARDER = rows_of("forwarder", "f", "forwarder", "v", 1) + rows_of("forwarder", "f", "forwarder", "a", 1)
SHOWN = {("server 10 s", "job"): (0.5, ShownPrecision(view="server 10 s", right=97, count=100))}


@pytest.mark.parametrize(
    ("rows", "view"),
    [
        (TRACE + FORWARDER + rows_of("target", "t", "target", "v", 1), "trace 1 s, forwarder 1 s, server 1 s"),
        (rows_of("target", "t", "target", "v", 10), "server 10 s"),
        (rows_of("target", "t", "target", "v", 60), "server 60 s"),
        (TRACE + rows_of("target", "t", "target", "v", 10), "trace 1 s, server 10 s"),
        (rows_of("target", "t", "target", None, 1), "nothing by job"),
        (rows_of("mds", "m", "metadata", "v", 1), "nothing by job"),
        ([], "nothing by job"),
        ([{**row, "samples": 0} for row in rows_of("target", "t", "target", "v", 1)], "server unknown"),
    ],
)
def test_a_view_is_what_was_recorded_by_job_and_how_often(rows: list[dict[str, Any]], view: str) -> None:
    assert gate.derive_scene_view(scene_of(rows)) == view


def test_of_a_metadata_phase_the_metadata_servers_are_the_servers() -> None:
    rows = rows_of("mds", "m", "metadata", "v", 10, "metadata") + rows_of("target", "t", "target", "v", 1)
    assert gate.derive_scene_view(scene_of(rows, "metadata")) == "server 10 s"


@pytest.mark.parametrize("rows", [rows_of("target", "t", "target", "x", 30), rows_of("target", "t", "target", None, 1)])
def test_a_view_that_is_not_in_the_table_accuses_nobody_and_lists_who_was_active(rows: list[dict[str, Any]]) -> None:
    said = gate.filter_accusation(scene_of(rows), accuse())
    assert (said.verdict, said.accused, said.precision, list(said.evidence)) == ("unknown", False, None, [])
    assert list(said.active) == ([Subject("job", "x")] if rows[0]["job_id"] else [])


def test_an_accusation_of_a_shown_view_and_score_carries_its_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "read_shown_precisions", lambda: SHOWN)
    scene = scene_of(rows_of("target", "t", "target", "a", 10))
    said = gate.filter_accusation(scene, accuse())
    assert said.accused
    assert said.precision == ShownPrecision(view="server 10 s", right=97, count=100)
    assert not gate.filter_accusation(scene, accuse(confidence=0.4)).accused
    assert not gate.filter_accusation(scene, accuse("many_neighbours")).accused
    assert not gate.filter_accusation(scene, accuse("component")).accused


@pytest.mark.parametrize(("least", "right", "count"), [(0.5, 94, 100), (0.5, 10, 10), (None, 100, 100)])
def test_too_few_or_too_wrong_cases_show_nothing(
    monkeypatch: pytest.MonkeyPatch, least: float | None, right: int, count: int
) -> None:
    shown = ShownPrecision(view="server 10 s", right=right, count=count)
    monkeypatch.setattr(gate, "read_shown_precisions", lambda: {("server 10 s", "job"): (least, shown)})
    assert gate.look_up_precision("server 10 s", "job", 0.99) is None


def test_the_ordinary_site_accuses_nobody() -> None:
    """Counters of servers only, every 10 s or rarer: measured, and not precise enough at any score."""
    for view in ("server 10 s", "server 60 s", "server 1 s", "nothing by job"):
        assert gate.look_up_precision(view, "job", 0.999) is None


def test_quiet_jobs_are_not_listed_as_active() -> None:
    rows = rows_of("target", "t", "target", "busy", 1)
    rows += [{**row, "write_bytes": 0, "write_ops": 0} for row in rows_of("target", "t", "target", "idle", 1)]
    rows += rows_of("target", "t", "target", "v", 1)
    assert gate.list_active_jobs(scene_of(rows)) == [Subject("job", "busy")]
    said = replace(accuse(), accused=False, verdict="own")
    assert gate.filter_accusation(scene_of(rows), said).verdict == "own"
