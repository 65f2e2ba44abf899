"""Sick components of the labelled machine at the default limits: plays of hours with faults of one to two hours.

Looked at every ten minutes, as the service does. Not here: short faults beside jobs (`_diagnosis_scenes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _diagnosis_scenes import NS, described, servers_of
from _diagnosis_scores import share
from rich.console import Console

from fairlead.core.model.incident import Incident
from fairlead.decide.sim.faults import Fault
from fairlead.kit.testing.machine.phase_truth import build_phase_truth
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.season import Season, build_small_season
from fairlead.kit.testing.machine.truth_labels import name_truth_component
from fairlead.store.rollups import derive_rollups

STEP_S = 600
HURT_S = 60.0
"""A fault that cost all jobs together less than this could not have been noticed by its effect."""
_WITHOUT = ("ops", "port", "files", "layouts")
Told = dict[str, tuple[Incident, int]]


def health(seeds: Sequence[int], quick: bool, console: Console) -> dict[str, Any]:
    """Precision, recall and delay."""
    from fairlead.explain.analysis.health.assess import HealthLimits

    hours, plays = (3, 1) if quick else (6, 3)
    n: Counter[str] = Counter()
    delays: list[float] = []
    for seed in seeds:
        season = build_small_season(seed, plays, hours * 3600, fault_share=0.0)
        for number in range(plays):
            play = replace(season.play(number), faults=long_faults(seed, number, hours, season))
            told = looked_at(play, season)
            _score(play, told, n, delays)
            for one, _ in told.values():
                if not _right(one, play):
                    console.print(f"false: {one.layer} {one.component} {one.kind}, seed {seed} play {number}")
    console.rule("component health at the default limits")
    figures: dict[str, Any] = dict(n)
    rows = {
        "precision": ("told rightly", "told"),
        "recall, faults that are what the limits ask for": ("found, low", "low"),
        f"recall, faults that cost {HURT_S:.0f} s or more": ("found, hurting", "hurting"),
        "recall, all faults": ("found", "faults"),
    }
    for name, (a, b) in rows.items():
        p, low, high = share(n[a], n[b])
        console.print(f"{name}: {n[a]} of {n[b]} = {p:.3f} ({low:.3f}-{high:.3f})")
        figures[name] = [n[a], n[b]]
    if delays:
        late = float((np.array(delays) > 2 * HealthLimits().minimum_s).mean())
        figures["delay_s"] = [round(float(q)) for q in np.quantile(delays, (0.5, 1.0))]
        middle, most = figures["delay_s"]
        console.print(f"told {middle} s (median; most {most}) after the fault began; later than two windows {late:.1%}")
    return figures


def looked_at(play: Play, season: Season) -> Told:
    """Incidents told, look after look, and when first (ns)."""
    from fairlead.explain.analysis.health.assess import HealthLimits, assess_health

    limits = HealthLimits()
    parts = [
        derive_rollups({name: table for name, table in part.items() if name not in _WITHOUT})["rollup"]
        for part in play.iterate_intervals(3600)
    ]
    rollup = pa.concat_tables([part.filter(pc.equal(part["interval_ns"], NS)) for part in parts]).unify_dictionaries()
    ts = rollup["ts_ns"].to_numpy()
    nodes = {str(100_000 + job.drawn.number): len(job.nodes) for job in play.course.jobs}
    known: dict[str, Incident] = {}
    told: Told = {}
    for now_s in range(STEP_S, play.seconds + 1, STEP_S):
        now = play.origin_ns + now_s * NS
        here = rollup.filter(pa.array((ts < now) & (ts >= now - (int(limits.minimum_s) + STEP_S) * NS)))
        found = assess_health(
            here,
            NS,
            described(season),
            None,
            now_ns=now,
            open_incidents=list(known.values()),
            limits=limits,
            nodes=nodes,
            servers=servers_of(season),
        )
        for one in found.withdrawn:
            known.pop(one.id, None)
            told.pop(one.id, None)
        for one in found.incidents:
            known[one.id] = one
            told[one.id] = (one, told[one.id][1] if one.id in told else now)
    return told


def _score(play: Play, told: Told, n: Counter[str], delays: list[float]) -> None:
    from fairlead.explain.analysis.health.assess import HealthLimits

    truth = build_phase_truth(play)
    for fault in play.faults:
        name = name_truth_component(play, fault)
        cost = sum(max(c.recovered_s, 0.0) for phase in truth for c in phase.causes if c.name == name)
        when = [at for one, at in told.values() if one.component == name and _meets(one, fault, play.origin_ns)]
        n["faults"] += 1
        n["hurting"] += cost > HURT_S
        n["found"] += bool(when)
        low = cost > HURT_S and low_s(fault) >= HealthLimits().minimum_s
        n["low"] += low
        n["found, low"] += low and bool(when)
        n["found, hurting"] += bool(when) and cost > HURT_S
        if when:
            delays.append((min(when) - play.origin_ns) / NS - fault.from_s)
    n["told"] += len(told)
    n["told rightly"] += sum(_right(one, play) for one, _ in told.values())


def low_s(fault: Fault) -> float:
    """Seconds in which a fault holds its component below the share of its capacity the default limits ask for: one
    that sinks slowly, or is rebuilt, is not so low for all of its time."""
    from fairlead.explain.analysis.health.assess import HealthLimits

    spans = pairwise(fault.build_course())
    return sum(later - time for (time, factor), (later, _) in spans if factor < HealthLimits().share)


def _right(one: Incident, play: Play) -> bool:
    return any(one.component == name_truth_component(play, f) and _meets(one, f, play.origin_ns) for f in play.faults)


def _meets(one: Incident, fault: Fault, origin_ns: int) -> bool:
    begun = one.from_ns < origin_ns + fault.to_s * NS
    return begun and (one.to_ns is None or one.to_ns > origin_ns + fault.from_s * NS)


def long_faults(seed: int, number: int, hours: int, season: Season) -> list[Fault]:
    """One fault every two hours, of 72 to 120 minutes."""
    rng = np.random.default_rng([seed, 41, number])
    machine = season.machine
    layers = {"target": len(machine.targets), "forwarder": len(machine.forwarders), "mds": len(machine.mds)}
    faults = []
    for begin in np.arange(0.3, hours - 1.5, 2.0):
        layer = str(rng.choice(["target", "target", "target", "forwarder", "mds"]))
        kind = str(rng.choice(["degraded", "fail_slow", "rebuild"]))
        faults.append(
            Fault(
                component=layer,
                number=int(rng.integers(layers[layer])),
                from_s=float(begin * 3600),
                to_s=float(min(begin + rng.uniform(1.2, 2.0), hours) * 3600),
                factor=float(rng.uniform(0.03, 0.2)),
                kind=kind,
            )
        )
    return faults
