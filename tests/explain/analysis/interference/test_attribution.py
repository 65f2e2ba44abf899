"""Attribution on made scenes: the culprit is named, the innocent are not, and what is missing is said."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import JOB_SUMMARY, PHASE, ROLLUP, build_table_batch
from fairlead.explain.analysis.interference.attribution import attribute_phase
from fairlead.explain.analysis.interference.scene import Scene, Victim
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.scenes import build_co_run_scene, build_slow_target_scene
from interference_building import S, phase_table, phases_of, rolled, scene_of


@cache
def beside() -> Scene:
    """The write of the 1-1 job of the co-run, which takes about 90 s and alone about 45 s."""
    play = build_co_run_scene(seconds=400)
    phases = phases_of(play)
    alone = phases_of(build_co_run_scene(together=False, seconds=400))
    mine = next(one for one in phases if one["row"]["mode"] == "1-1")
    usual = float(alone[0]["end"]) - float(alone[0]["begin"])
    return scene_of(play, mine, usual, rolled(play), phases)


def culprit_of(scene: Scene) -> str:
    other = {str(job) for job in scene.neighbours["job_id"].to_pylist()}
    assert len(other) == 1
    return other.pop()


def test_the_n_to_1_job_is_named_with_its_evidence() -> None:
    scene = beside()
    said = attribute_phase(scene)
    assert said.accused
    assert said.verdict == "n_to_1"
    first = said.culprits[0]
    assert (first.who.kind, first.who.id) == ("job", culprit_of(scene))
    assert first.at[0].kind == "forwarder"
    assert first.cost_s == pytest.approx(scene.victim.lost_s, rel=0.35)
    text = " ".join(one.text for one in said.evidence)
    assert "waited" in text
    assert first.at[0].id in text
    assert f"job {first.who.id} held" in text


def test_a_slow_phase_with_nobody_about_accuses_nobody() -> None:
    play: Play = build_co_run_scene(together=False, seconds=300)
    phases = phases_of(play)
    mine = phases[0]
    took = float(mine["end"]) - float(mine["begin"])
    said = attribute_phase(scene_of(play, mine, took / 2, rolled(play), phases))
    assert (said.verdict, said.accused) == ("unknown", False)
    assert not any(one.who.kind == "job" for one in said.culprits)


def faulty(play: Play, kind: str = "degraded") -> Incident:
    fault = play.faults[0]
    return Incident(
        id="i1",
        layer="target",
        component=play.machine.targets.names[fault.number],
        from_ns=play.origin_ns + int(fault.from_s * S),
        to_ns=play.origin_ns + int(fault.to_s * S),
        kind="dead" if kind == "dead" else "degraded",
        share_of_peak=fault.factor,
        confidence=0.95,
    )


def test_a_sick_target_is_named() -> None:
    play = build_slow_target_scene(factor=0.05)
    rows, phases = rolled(play), phases_of(play)
    lengths = [float(one["end"]) - float(one["begin"]) for one in phases]
    worst = int(np.argmax(lengths))
    scene = scene_of(play, phases[worst], float(np.min(lengths)), rows, phases, incidents=[faulty(play)])
    said = attribute_phase(scene)
    assert (said.verdict, said.accused) == ("component", True)
    assert said.culprits[0].who.id == play.machine.targets.names[3]
    assert "known peak" in said.evidence[0].text


def made(loads: list[dict[str, object]], jobs: dict[str, str], **more: object) -> Scene:
    """A scene of 60 s after 60 quiet ones by hand; `jobs`: mode by neighbour."""
    victim = Victim(
        cluster=None,
        job_id="v",
        kind="write",
        start_ns=60 * S,
        end_ns=120 * S,
        expected_s=20.0,
        lost_s=40.0,
        confidence=0.9,
        forwarders=("f",),
        targets=("t",),
        mode="1-1",
    )
    columns = {name: [row.get(name) for row in loads] for name in ROLLUP.schema.names}
    rows = pa.Table.from_batches([build_table_batch(ROLLUP, dict(columns), len(loads))], ROLLUP.schema)
    neighbours = [
        {
            "job_id": job,
            "number": 0,
            "kind": "write",
            "start_ns": 60 * S,
            "end_ns": 120 * S,
            "active_ns": 60 * S,
            "mode": mode,
            "forwarders": ["f"],
            "targets": ["t"],
            "made_ns": 1,
            "analysis_version": 1,
        }
        for job, mode in jobs.items()
    ]
    scene = Scene(
        victim=victim,
        loads=rows,
        interval_ns=S,
        neighbours=phase_table(neighbours) if jobs else PHASE.schema.empty_table(),
        jobs=JOB_SUMMARY.schema.empty_table(),
        peaks={("target", "t"): 600e6},
    )
    return replace(scene, **more)  # type: ignore[arg-type]


def at_target(rates: dict[str, tuple[float, float]], *, by_job: bool = True) -> list[dict[str, object]]:
    """Rows of target t for two minutes: MB/s of each job in the first and the second."""
    rows: list[dict[str, object]] = []
    for second in range(120):
        now = {job: int(pair[second >= 60] * 1e6) for job, pair in rates.items()}
        shared = {
            "ts_ns": second * S,
            "interval_ns": S,
            "layer": "target",
            "samples": 1,
            "read_bytes": 0,
            "read_ops": 0,
        }
        for job, moved in now.items():
            mine = {**shared, "write_bytes": moved, "write_ops": moved >> 20}
            rows.append({**mine, "kind": "job", "id": job})
            if by_job:
                rows.append({**mine, "kind": "target", "id": "t", "job_id": job})
        total = sum(now.values())
        rows.append({**shared, "kind": "target", "id": "t", "write_bytes": total, "write_ops": total >> 20})
    return rows


CROWDED = {"v": (150.0, 50.0), "a": (0.0, 500.0), "idle": (5.0, 5.0)}


def test_a_job_that_fills_the_target_is_named_without_any_forwarder_record() -> None:
    said = attribute_phase(made(at_target(CROWDED), {"a": "N-N", "idle": "N-1"}))
    assert said.accused
    assert (said.verdict, said.culprits[0].who.id) == ("high_bandwidth", "a")


def test_an_innocent_whose_load_comes_and_goes_with_the_loss_is_not_named() -> None:
    """It is active in the same seconds, and N-1 at that, but has hardly anything of the component."""
    rates = {**CROWDED, "looks": (0.0, 8.0)}
    said = attribute_phase(made(at_target(rates), {"a": "N-N", "looks": "N-1"}))
    assert said.culprits[0].who.id == "a"
    assert all(one.score < 0.5 for one in said.culprits if one.who.id == "looks")


def test_an_idle_target_accuses_nobody() -> None:
    said = attribute_phase(made(at_target({"v": (150.0, 50.0), "a": (5.0, 20.0)}), {"a": "N-1"}))
    assert (said.verdict, said.accused) == ("unknown", False)


def test_of_two_equal_neighbours_none_is_the_first_by_far() -> None:
    rates = {"v": (150.0, 50.0), "a": (0.0, 250.0), "b": (0.0, 250.0)}
    said = attribute_phase(made(at_target(rates), {"a": "N-N", "b": "N-N"}))
    scores = {one.who.id: one.score for one in said.culprits}
    assert scores["a"] == pytest.approx(scores["b"])
    costs = [one.cost_s for one in said.culprits]
    assert costs[0] == pytest.approx(costs[1])
    alone = attribute_phase(made(at_target(CROWDED), {"a": "N-N"}))
    assert said.confidence < alone.confidence


def test_many_small_parts_are_many_neighbours() -> None:
    # It lacks 100 MB/s, and each of them has 25: none alone would give back half.
    rates = {"v": (300.0, 50.0)} | {f"n{k}": (0.0, 25.0) for k in range(22)}
    said = attribute_phase(made(at_target(rates), {f"n{k}": "1-1" for k in range(22)}))
    assert said.verdict in ("many_neighbours", "unknown")
    assert not (said.accused and said.verdict not in ("many_neighbours", "unknown"))


def test_of_many_equal_neighbours_none_is_named_alone() -> None:
    # Each of them, gone alone, would give back half: that does not make one of them the culprit.
    rates = {"v": (300.0, 50.0)} | {f"n{k}": (0.0, 50.0) for k in range(11)}
    said = attribute_phase(made(at_target(rates), {f"n{k}": "1-1" for k in range(11)}))
    assert said.verdict in ("many_neighbours", "unknown")


def test_without_parts_by_job_shares_are_estimated_and_surety_is_less() -> None:
    counted = attribute_phase(made(at_target(CROWDED), {"a": "N-N"}))
    estimated = attribute_phase(made(at_target(CROWDED, by_job=False), {"a": "N-N"}))
    assert estimated.culprits[0].who.id == "a"
    assert estimated.confidence < counted.confidence
    assert any("estimated" in text for text in estimated.missing)
    assert any("estimated" in one.text for one in estimated.evidence)


def test_a_source_that_tells_the_parts_twice_does_not_double_them() -> None:
    rows = at_target(CROWDED)
    again = [row for row in rows if row["kind"] == "target" and row.get("job_id") is not None]
    once, twice = (attribute_phase(made(some, {"a": "N-N"})) for some in (rows, rows + again))
    assert twice.culprits[0].who == once.culprits[0].who
    assert twice.culprits[0].cost_s == pytest.approx(once.culprits[0].cost_s, rel=0.02)


def test_an_empty_scene_is_unknown() -> None:
    said = attribute_phase(made([], {}, missing=("forwarders: no counters",)))
    assert (said.verdict, said.accused, said.confidence) == ("unknown", False, 0.0)
    assert "forwarders: no counters" in said.missing
    assert any("target" in text for text in said.missing)


def test_loads_of_other_intervals_are_not_added() -> None:
    rows = at_target(CROWDED)
    minutes = [{**row, "interval_ns": 60 * S} for row in rows]
    assert attribute_phase(made(rows + minutes, {"a": "N-N"})) == attribute_phase(made(rows, {"a": "N-N"}))


def test_unknown_amounts_are_no_zeros() -> None:
    """A component whose counters were dead while it happened cannot have been quiet: nobody is accused by it."""
    rows = [
        row if row["kind"] == "job" else {**row, "write_bytes": None, "write_ops": None} for row in at_target(CROWDED)
    ]
    said = attribute_phase(made(rows, {"a": "N-N"}))
    assert said.verdict == "unknown"


def test_the_same_twice_and_whatever_the_order_of_rows() -> None:
    scene = beside()
    order = np.random.default_rng(1).permutation(scene.loads.num_rows)
    shuffled = replace(scene, loads=scene.loads.take(pa.array(order)))
    assert attribute_phase(shuffled) == attribute_phase(scene)


def test_own_change_is_told_where_nobody_else_explains_it() -> None:
    scene = made(at_target({"v": (150.0, 50.0)}), {})
    changed = replace(scene.victim, request_bytes=4096.0, usual_request_bytes=float(1 << 20))
    said = attribute_phase(replace(scene, victim=changed))
    assert (said.verdict, said.accused) == ("own", False)
    assert "4 KiB" in said.evidence[0].text


def test_an_unfinished_neighbour_and_overlapping_phases_are_borne() -> None:
    scene = beside()
    open_end = scene.neighbours.set_column(
        scene.neighbours.schema.get_field_index("end_ns"),
        PHASE.schema.field("end_ns"),
        pc.add(scene.neighbours["end_ns"], 10_000 * S),
    )
    twice = pa.concat_tables([open_end, open_end])
    said = attribute_phase(replace(scene, neighbours=twice))
    assert said.culprits[0].who.id == culprit_of(scene)
