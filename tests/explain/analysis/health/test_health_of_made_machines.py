"""Component health on made machines: every fault at every layer is found while it happens, and nobody else accused.

Who is sick emerges from the load: what is scored are faults that held somebody back. Tuned on seeds 1 to 3 only.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from fairlead.decide.sim.faults import Fault
from fairlead.decide.sim.steps import Step
from fairlead.explain.analysis.health.assess import Health, HealthLimits, assess_health
from fairlead.explain.analysis.health.load_cells import LAYERS
from fairlead.kit.testing.machine import scenes
from fairlead.kit.testing.machine.play import ORIGIN_NS, Play
from fairlead.kit.testing.machine.truth_labels import name_truth_component
from fairlead.store.rollups import derive_rollups

NS = 1_000_000_000
LIMITS = HealthLimits(minimum_s=120)
BEGIN, END, SECONDS = 240.0, 540.0, 720


def look(play: Play, until_s: int | None = None, *, without: tuple[str, ...] = ()) -> Health:
    """What is seen of a play up to a second."""
    machine = play.machine
    end = play.seconds if until_s is None else until_s
    tables = {name: table for name, table in play.build_tables(0, end).items() if name not in without}
    rollup = derive_rollups(tables)["rollup"]
    peaks = {
        ("forwarder", ""): float(machine.forwarders.bandwidth.max(initial=1.0)),
        ("target", ""): float(machine.targets.bandwidth[0]),
        ("mds", ""): float(machine.mds.mdops[0]),
    }
    loads = rollup.filter(pc.equal(rollup["interval_ns"], NS))
    return assess_health(loads, NS, peaks, None, now_ns=play.origin_ns + end * NS, limits=LIMITS)


def busy(component: str, faults: tuple[Fault, ...]) -> Play:
    """Jobs that ask a layer for all it has, throughout, on two halves of the small machine."""
    if component == "mds":
        step = Step(op="create", writers=64, files=64, each=100_000, label="storm")
    else:
        step = Step(op="write", volume=4 << 40, writers=128, files=128, request=1 << 20, label="stream")
    jobs = [(scenes.build_scene_job(n, [step], 32, name=f"steady{n}"), 0.0, 32 * n) for n in range(2)]
    if component == "target":
        # Few targets each, so that the targets are the narrow place.
        step = Step(op="write", volume=4 << 40, writers=64, files=64, request=1 << 20, label="stream")
        jobs = [(scenes.build_scene_job(n, [step], 16, name=f"steady{n}"), 0.0, 16 * n) for n in range(4)]
    return scenes.build_scene_play(jobs, SECONDS, faults=faults)


@pytest.mark.parametrize("kind", ["degraded", "fail_slow", "rebuild", "dead"])
@pytest.mark.parametrize("component", ["forwarder", "target", "mds"])
def test_each_fault_at_each_layer_is_found_where_it_held_somebody_back(component: str, kind: str) -> None:
    fault = Fault(component=component, number=0, from_s=BEGIN, to_s=END, factor=0.1, kind=kind)
    play = busy(component, (fault,))
    held = _held_s(play, fault)
    name = name_truth_component(play, fault)
    if component == "mds":
        name = "scratch-MDT0000"
    health = look(play)
    found = {(one.layer, one.component) for one in health.incidents}
    assert found <= {(component, name)}, "nobody else is accused"
    if component == "mds" and kind == "dead":
        return  # nothing is counted any more: it cannot be told from a server nobody asks
    assert held >= 60
    assert found == {(component, name)}
    (one, *_) = health.incidents
    assert ORIGIN_NS + (BEGIN - 2) * NS <= one.from_ns <= ORIGIN_NS + (BEGIN + 200) * NS
    assert one.kind == ("dead" if kind == "dead" else "degraded")


def _held_s(play: Play, fault: Fault) -> float:
    """Seconds of the fault in which it was what limited somebody."""
    parts = play.course.segments
    mine = np.isin(parts.bottleneck, play.machine.at.find_resources(fault.component, fault.number))
    seconds = np.zeros(play.seconds, np.bool_)
    for begin, end in zip(parts.begin_s[mine], np.minimum(parts.end_s[mine], play.seconds), strict=True):
        seconds[int(max(begin, fault.from_s)) : int(np.ceil(min(end, fault.to_s)))] = True
    return float(seconds.sum())


def test_a_slow_target_is_found_while_it_is_slow_within_two_windows() -> None:
    fault = Fault(component="target", number=0, from_s=BEGIN, to_s=END, factor=0.1)
    play = busy("target", (fault,))
    (one,) = look(play, int(BEGIN) + 120).incidents
    assert one.to_ns is None


def test_a_slow_server_is_told_by_its_targets_with_a_hint() -> None:
    fault = Fault(component="server", number=1, from_s=BEGIN, to_s=END, factor=0.1)
    found = look(busy("target", (fault,))).incidents
    assert {one.component for one in found} == {"scratch-OST0002", "scratch-OST0003"}
    assert {one.hint for one in found} == {"network"}


@pytest.mark.parametrize("component", ["forwarder", "target", "mds"])
def test_a_healthy_machine_under_full_load_has_no_sick_component(component: str) -> None:
    health = look(busy(component, ()))
    assert not health.incidents
    assert "sick" not in set(health.states["state"].to_pylist())


def test_an_n_to_1_job_makes_no_forwarder_and_no_target_sick() -> None:
    assert not look(scenes.build_co_run_scene(seconds=420)).incidents


def test_a_fault_nobody_touched_is_no_incident_and_never_called_well_for_sure() -> None:
    step = Step(op="write", volume=4 << 40, writers=16, files=16, request=1 << 20, label="stream")
    fault = Fault(component="forwarder", number=3, from_s=BEGIN, to_s=END, factor=0.1)
    play = scenes.build_scene_play([(scenes.build_scene_job(0, [step], 8), 0.0, 0)], SECONDS, faults=[fault])
    health = look(play)
    assert not health.incidents
    assert "fwd003" not in set(health.states["component"].to_pylist())


@pytest.mark.parametrize("gone", ["device", "forwarder", "target", "metadata", "ops"])
def test_a_layer_that_is_not_recorded_accuses_nobody_else(gone: str) -> None:
    fault = Fault(component="target", number=0, from_s=BEGIN, to_s=END, factor=0.1)
    health = look(busy("target", (fault,)), without=(gone,))
    names = {one.component for one in health.incidents}
    assert names <= {"scratch-OST0000", "oss000/md0"}
    assert set(health.states["layer"].to_pylist()) <= set(LAYERS.values())
