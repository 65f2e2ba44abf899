"""Diagnosis against the labelled machine: abnormal phases, culprits, sick components, what is left with less to see.

`python benchmarks/diagnosis.py [--quick] [--seeds 101,102,103 | --tuning] [--only detectors culprits health curves
ordinary] [--keep FOLDER]`. Everything is simulated; the labels come from counterfactual runs (docs/explanation/
labelled-machine.md) and no detector sees them. Seeds 1 to 3 are for tuning, the table's begin at 101.

How phases are counted: abnormal lost 50 % of the time they take alone, or more, and 1 s; normal lost less than 20 %, or
less than 0.5 s; those between count neither way in the first table, and how many of them were called abnormal is
printed. In the table of *all* abnormal phases, those that lost 20 % and 1 s are abnormal and all others normal.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _diagnosis_scores import best_threshold, reliability, score, share
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.model.incident import Incident
from fairlead.model.tables import JOB_SUMMARY, JOBS, PHASE, empty
from fairlead.sim.faults import Fault
from fairlead.testing.machine.labelled import BETWEEN_SHARE, LEAST_LOST_S, LabelledPlay, labelled, state
from fairlead.testing.machine.season import Season, ordinary_season, small_season
from fairlead.testing.machine.views import FULL, ORDINARY, View

NS = 1_000_000_000
PARTS = ("detectors", "culprits", "health", "curves", "ordinary")
TIED = 0.9
"""A cause that gives back this share of what the best one gives back is as right an answer."""
Figures = dict[str, Any]
console = Console(width=150)


@dataclass(frozen=True)
class Season_:
    """The plays of one seed, all phases together."""

    season: Season
    plays: list[LabelledPlay]
    phases: pa.Table
    labels: pa.Table

    @staticmethod
    def of(season: Season, view: View, keep: Path | None) -> Season_:
        """Played, or read where it was kept."""
        folder = None if keep is None else keep / _name(season, view)
        plays = list(labelled(season, view, folder=folder))
        phases = pa.concat_tables([play.seen.phases.unify_dictionaries() for play in plays])
        return Season_(season, plays, _plain(phases), pa.concat_tables([play.labels for play in plays]))


def _name(season: Season, view: View) -> str:
    lost = "-".join(view.without) or "all"
    return (
        f"{season.machine.name}-{season.seed}-{season.plays}x{season.seconds}-n{season.noise:g}{season.noise_name}"
        f"-f{season.fault_share:g}-{lost}-{view.skew_s:g}-{view.interval_s}"
    )


def _plain(phases: pa.Table) -> pa.Table:
    return phases.cast(PHASE.schema).unify_dictionaries().combine_chunks()


def main() -> None:
    """Plays, judges, prints, and adds a line to the history."""
    options = argparse.ArgumentParser(description="Diagnosis against the labelled machine")
    options.add_argument("--quick", action="store_true", help="a few short plays of one seed")
    options.add_argument("--seeds", default="101,102,103")
    options.add_argument("--tuning", action="store_true", help="seeds 1 to 3; nothing is added to the history")
    options.add_argument("--plays", type=int, default=30)
    options.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    options.add_argument("--keep", type=Path, help="folder in which seasons are kept and looked for")
    chosen = options.parse_args()
    seeds = [1, 2, 3] if chosen.tuning else [int(word) for word in chosen.seeds.split(",")]
    plays, seconds = (3, 1800) if chosen.quick else (chosen.plays, 3600)
    seeds = seeds[:1] if chosen.quick else seeds
    figures: Figures = {"quick": chosen.quick, "seeds": seeds, "plays": plays}
    began = time.perf_counter()
    if {"detectors", "culprits"} & set(chosen.only):
        seasons = [Season_.of(small_season(seed, plays, seconds), FULL, chosen.keep) for seed in seeds]
        figures["small"] = whole(seasons, "small: with client trace and forwarders", chosen.only)
    if "health" in chosen.only:
        figures["health"] = health(seeds, chosen.quick)
    if "curves" in chosen.only:
        figures["curves"] = curves(seeds, min(plays, 8), seconds, chosen.keep)
    if "ordinary" in chosen.only:
        seasons = [Season_.of(ordinary_season(seed, plays, seconds), ORDINARY, chosen.keep) for seed in seeds]
        figures["ordinary"] = whole(seasons, "the ordinary site", PARTS)
    console.print(f"{time.perf_counter() - began:.0f} s")
    if not chosen.tuning:
        append("diagnosis", figures)


def whole(seasons: Sequence[Season_], title: str, parts: Sequence[str]) -> Figures:
    """The tables of one kind of site."""
    figures = population(seasons, title)
    said = [judgements(season) for season in seasons]
    if "detectors" in parts:
        figures |= detectors(seasons, said)
    if "culprits" in parts:
        figures |= culprits(seasons, said)
    return figures


def population(seasons: Sequence[Season_], title: str) -> Figures:
    """What there is: jobs, abnormal ones, causes."""
    jobs = sum(play.seen.jobs.num_rows for season in seasons for play in season.plays)
    acting = abnormal = phases = strong = between = unseen = true = 0
    causes: Counter[str] = Counter()
    for season in seasons:
        states = state(season.labels)
        acting += len(big := _acting(season.phases))
        phases, strong, between = phases + len(states), strong + int((states == 1).sum()), between + int((states == -1).sum())
        unseen, true = unseen + sum(p.unseen for p in season.plays), true + sum(p.truth.num_rows for p in season.plays)
        names = np.array(season.phases["job_id"].to_pylist(), object)
        lost = season.labels["lost_s"].to_numpy(zero_copy_only=False)
        words = season.labels["verdict"].to_pylist()
        worst: dict[str, int] = {}
        for row in np.flatnonzero(states == 1):
            if names[row] in big and (names[row] not in worst or lost[row] > lost[worst[names[row]]]):
                worst[names[row]] = int(row)
        abnormal += len(worst)
        causes.update(str(words[row]) for row in worst.values())
    console.rule(title)
    console.print(
        f"{jobs} jobs, {acting} with non-trivial I/O (of a phase of 24 MB and more), {abnormal} of these abnormal"
        f" ({abnormal / max(acting, 1):.1%}); {phases} observed phases, {strong} abnormal (incidents), {between} between;"
        f" {unseen} of {true} true phases unseen"
    )
    console.print("worst cause of each abnormal job: " + ", ".join(f"{k} {n} ({n / max(abnormal, 1):.0%})" for k, n in causes.most_common()))
    return {
        "jobs": jobs, "acting": acting, "abnormal_jobs": abnormal, "phases": phases, "incidents": strong,
        "between": between, "unseen": unseen, "true_phases": true, "causes": dict(causes),
    }  # fmt: skip


def _acting(phases: pa.Table) -> set[str]:
    """Jobs that moved more than the trivial share of the machine's scale, or many metadata operations."""
    moved = pc.fill_null(phases["bytes"], 0).to_numpy() + 1e5 * pc.fill_null(phases["metadata_ops"], 0).to_numpy()
    return {name for name, value in zip(phases["job_id"].to_pylist(), moved, strict=True) if value >= 24e6}


def judgements(season: Season_) -> dict[str, Any]:
    """What each detector says of the phases of a season, by name."""
    said: dict[str, Any] = {}
    try:
        from fairlead.analysis.anomalies.expected import ExpectedLimits, judged
        from fairlead.analysis.anomalies.one_stage import one_stage
        from fairlead.analysis.anomalies.two_stage import two_stage
    except ImportError as fault:
        console.print(f"not there yet: {fault}")
        return said
    said["expected"] = judged(season.phases, season.phases)
    said["expected, all"] = judged(
        season.phases, season.phases, ExpectedLimits(lost_share=BETWEEN_SHARE, least_lost_s=LEAST_LOST_S)
    )
    said["two-stage"] = two_stage(season.phases)
    said["one-stage"] = one_stage(season.phases)
    return said


def _stacked(seasons: Sequence[Season_], of: Any) -> np.ndarray:
    return np.concatenate([np.asarray(of(i, season)) for i, season in enumerate(seasons)])


def _all_state(labels: pa.Table) -> np.ndarray:
    lost = labels["lost_s"].to_numpy(zero_copy_only=False)
    part = labels["lost_share"].to_numpy(zero_copy_only=False)
    found = ((part >= BETWEEN_SHARE) & (lost >= LEAST_LOST_S)).astype(np.int8)
    return np.where(np.isfinite(part), found, np.int8(-1))


def detectors(seasons: Sequence[Season_], said: Sequence[dict[str, Any]]) -> Figures:
    """F1 of every detector, and the reliability of what the expected one says."""
    if not all(said):
        return {}
    play = _stacked(seasons, lambda i, s: s.labels["play"].to_numpy() + 1000 * i)
    strong = _stacked(seasons, lambda _, s: state(s.labels))
    every = _stacked(seasons, lambda _, s: _all_state(s.labels))
    times = _stacked(seasons, lambda _, s: _slower(s))
    figures: Figures = {}
    table = Table("detector", "phases", "precision", "recall", "F1", "95 %", "between called", title="abnormal phases")
    rows: list[tuple[str, str, np.ndarray, np.ndarray]] = []
    for name in ("expected", "two-stage", "one-stage"):
        rows.append((name, "lost >= 50 %", _stacked(seasons, lambda i, _, n=name: said[i][n].abnormal), strong))
    rows.append(("oracle", "lost >= 50 %", times >= best_threshold(times, strong), strong))
    rows.append(("expected", "all", _stacked(seasons, lambda i, _: said[i]["expected, all"].abnormal), every))
    rows.append(("two-stage", "all", _stacked(seasons, lambda i, _: said[i]["two-stage"].abnormal), every))
    rows.append(("oracle", "all", times >= best_threshold(times, every), every))
    for name, which, abnormal, states in rows:
        got = score(abnormal, states, play)
        called = f"{int((abnormal & (states == -1)).sum())} of {int((states == -1).sum())}"
        table.add_row(
            name, which, f"{got.precision:.3f}", f"{got.recall:.3f} ({got.found}/{got.wanted})", f"{got.f1:.3f}",
            f"{got.low:.3f}-{got.high:.3f}", called,
        )  # fmt: skip
        figures[f"{name}, {which}"] = {k: _round(v) for k, v in got.__dict__.items()}
    console.print(table)
    sure = _stacked(seasons, lambda i, _: said[i]["expected"].confidence)
    known = np.isfinite(sure) & (strong >= 0)
    console.print(f"not judged: {int((~np.isfinite(sure)).sum())} phases, {int(((strong == 1) & ~np.isfinite(sure)).sum())} of them abnormal")
    figures["reliability"] = _reliability("said to be abnormal", sure[known], strong[known] == 1)
    return figures


def _slower(season: Season_) -> np.ndarray:
    """What the oracle looks at: how much longer a phase took than it does without any noise, as its truth says; it knows
    the law of the noise (its threshold is the best there is), not this run's."""
    ideal, usual, lost = (season.labels[name].to_numpy(zero_copy_only=False) for name in ("ideal_s", "usual_s", "lost_s"))
    return np.where(np.nan_to_num(lost) >= 0, (ideal + lost) / usual, np.nan)


def _reliability(what: str, sure: np.ndarray, right: np.ndarray) -> list[list[float]]:
    table = Table("confidence", "phases", "mean said", "true", title=f"reliability: {what}")
    rows = reliability(sure, right)
    for low, high, n, mean, true in rows:
        table.add_row(f"{low:.2f}-{high:.2f}", str(n), f"{mean:.3f}" if n else "", f"{true:.3f}" if n else "")
    console.print(table)
    return [[_round(value) for value in row] for row in rows]


def _round(value: float) -> float | None:
    return None if not np.isfinite(value) else round(float(value), 4)


def culprits(seasons: Sequence[Season_], said: Sequence[dict[str, Any]]) -> Figures:
    """Who is named, against who it was."""
    try:
        from fairlead.analysis.interference.attribution import attributed
    except ImportError as fault:
        console.print(f"not there yet: {fault}")
        return {}
    if not all(said):
        return {}
    n: Counter[str] = Counter()
    words: Counter[tuple[str, str]] = Counter()
    sure: list[float] = []
    right: list[bool] = []
    evidence: list[np.ndarray] = []
    for season, judgement in zip(seasons, said, strict=True):
        judged = judgement["expected"]
        states = state(season.labels)
        n["incidents"] += int((states == 1).sum())
        told = judged.abnormal.copy()
        for row, scene in scenes(season, judged, np.flatnonzero(judged.abnormal)):
            found = attributed(scene)
            label = {name: season.labels[name][row].as_py() for name in season.labels.schema.names}
            told[row] = found.verdict not in ("unknown", "own")
            first = found.culprits[0].who if found.culprits else None
            good = _causes(label)
            hit = first is not None and (first.kind == "job", first.id) in good
            if found.accused and states[row] != -1:
                sure.append(found.confidence)
                right.append(bool(hit and states[row] == 1))
                n["accused"] += 1
                n["accused wrongly"] += not (hit and states[row] == 1)
            if states[row] != 1:
                n["quiet, accused"] += bool(found.accused and states[row] == 0)
                continue
            n["found"] += 1
            n["top1"] += hit
            n["top3"] += any((one.who.kind == "job", one.who.id) in good for one in found.culprits[:3])
            n["strict"] += first is not None and first.id == label["culprit"]
            n["category"] += found.verdict == label["verdict"]
            n["unknown"] += found.verdict == "unknown"
            words[(str(label["verdict"]), found.verdict)] += 1
        evidence.append(told)
    table = Table("of the abnormal phases that were found", "right", "share", "95 %", title="culprits and categories")
    figures: Figures = {name: int(value) for name, value in n.items()}
    for name in ("top1", "strict", "top3", "category"):
        p, low, high = share(n[name], n["found"])
        table.add_row(name, f"{n[name]} of {n['found']}", f"{p:.3f}", f"{low:.3f}-{high:.3f}")
        figures[f"{name} share"] = [_round(p), _round(low), _round(high)]
    console.print(table)
    console.print(
        f"{n['found']} of {n['incidents']} incidents found; accused {n['accused']} times, wrongly {n['accused wrongly']}"
        f" ({n['quiet, accused']} of them beside a phase that lost nothing); unknown {n['unknown']}"
    )
    console.print("true, told: " + ", ".join(f"{a} -> {b} {k}" for (a, b), k in words.most_common(16)))
    play = _stacked(seasons, lambda i, s: s.labels["play"].to_numpy() + 1000 * i)
    got = score(np.concatenate(evidence), _stacked(seasons, lambda _, s: state(s.labels)), play)
    console.print(f"expected, and a cause is seen: precision {got.precision:.3f}, recall {got.recall:.3f}, F1 {got.f1:.3f} ({got.low:.3f}-{got.high:.3f})")
    figures["with evidence"] = {k: _round(v) for k, v in got.__dict__.items()}
    figures["words"] = [[a, b, k] for (a, b), k in words.most_common()]
    figures["reliability of accusations"] = _reliability("accused", np.array(sure), np.array(right, bool))
    return figures


def _causes(label: dict[str, Any]) -> set[tuple[bool, str]]:
    """Right answers: the best cause and those as good; (is a job, name)."""
    causes, back = label["causes"] or [], label["recovered_s"] or []
    if not back or back[0] <= 0:
        return set()
    return {(name.isdigit(), name) for name, seconds in zip(causes, back, strict=True) if seconds >= TIED * back[0]}


def scenes(season: Season_, judged: Any, rows: np.ndarray) -> Iterator[tuple[int, Any]]:
    """The scene of each judged phase, from the records of its play; peaks and usual waits from the plays before."""
    from fairlead.runtime.diagnosing.scenes import Around, scene_of, victims_of, windows_of
    from fairlead.runtime.diagnosing.step import with_judgement

    phases = with_judgement(season.phases, judged)
    play_of = season.labels["play"].to_numpy()
    peaks: dict[tuple[str, str], float] = {}
    waits: dict[tuple[str, str], list[float]] = {}
    for play in season.plays:
        loads = play.seen.rollup
        _learn(loads, play.seen.interval_ns, peaks, waits) if not peaks else None
        mine = np.flatnonzero(play_of == play.number)
        here = [int(row) for row in rows if play_of[row] == play.number]
        victims = victims_of(phases, here)
        known = incidents_of(play, season.season)
        own = phases.slice(int(mine[0]), len(mine)) if len(mine) else phases.slice(0, 0)
        ts, ends = loads["ts_ns"].to_numpy(), own["end_ns"].to_numpy()
        for window in windows_of(victims):
            within = loads.filter(pa.array((ts >= window.from_ns) & (ts < window.to_ns)))
            at = (own["start_ns"].to_numpy() < window.to_ns) & (ends > window.from_ns)
            around = Around(
                loads=within, phases=own.filter(pa.array(at)), summaries=empty(JOB_SUMMARY),
                jobs=play.seen.jobs.cast(JOBS.schema), incidents=known, peaks=dict(peaks),
                waits={key: float(np.median(values)) for key, values in waits.items()},
            )  # fmt: skip
            window = replace(window, interval_ns=play.seen.interval_ns)
            for place in window.victims:
                yield here[place], scene_of(victims[place], window, around)
        _learn(loads, play.seen.interval_ns, peaks, waits)


def _learn(
    loads: pa.Table, interval_ns: int, peaks: dict[tuple[str, str], float], waits: dict[tuple[str, str], list[float]]
) -> None:
    """The busiest minute of each component, and its mean wait in this play."""
    for kind in ("forwarder", "target", "mds"):
        rows = loads.filter(pc.and_(pc.equal(loads["kind"], kind), pc.is_null(loads["job_id"])))
        names = ("metadata_ops",) if kind == "mds" else ("read_bytes", "write_bytes")
        work = sum(pc.fill_null(rows[name], 0).to_numpy() for name in names)
        table = pa.table({
            "id": rows["id"].cast(pa.string()), "minute": rows["ts_ns"].to_numpy() // (60 * NS), "work": work,
            "wait": pc.fill_null(rows["wait_ns"], 0), "waits": pc.fill_null(rows["waits"], 0),
        })  # fmt: skip
        busiest = table.group_by(["id", "minute"]).aggregate([("work", "sum")]).group_by("id").aggregate([("work_sum", "max")])
        for name, most in zip(busiest["id"].to_pylist(), busiest["work_sum_max"].to_pylist(), strict=True):
            if most > 0:
                peaks[(kind, name)] = max(peaks.get((kind, name), 0.0), most / 60.0)
        for one in table.group_by("id").aggregate([("wait", "sum"), ("waits", "sum")]).to_pylist():
            if one["waits_sum"]:
                waits.setdefault((kind, one["id"]), []).append(one["wait_sum"] / one["waits_sum"] / 1e9)


def incidents_of(play: LabelledPlay, season: Season, minimum_s: float = 180.0) -> list[Incident]:
    """What watching components finds in a play: those sick for three minutes, as faults of an hour's play are short."""
    try:
        from fairlead.analysis.health.watch import HealthLimits, watched
    except ImportError:
        return []
    seen = play.seen
    end = int(pc.max(seen.rollup["ts_ns"]).as_py() or 0) + seen.interval_ns
    health = watched(
        seen.rollup, seen.interval_ns, described(season), None, now_ns=end,
        limits=HealthLimits(minimum_s=minimum_s, window_s=60.0), nodes=_nodes(seen.jobs), servers=_servers(season),
    )  # fmt: skip
    return list(health.incidents)


def described(season: Season) -> dict[tuple[str, str], float]:
    """Known peaks as a site's description has them."""
    machine = season.machine
    known = {("target", ""): machine.target_bandwidth, ("mds", ""): machine.mdops}
    return known | ({("forwarder", ""): machine.forwarder_bandwidth} if machine.forwarders else {})


def _nodes(jobs: pa.Table) -> dict[str, int]:
    return dict(zip(jobs["job_id"].to_pylist(), jobs["nodes_count"].to_pylist(), strict=True))


def _servers(season: Season) -> dict[str, str]:
    machine = season.machine
    return {machine.target_name(n): machine.server_name(n // machine.targets_per_server) for n in range(machine.targets)}


def health(seeds: Sequence[int], quick: bool) -> Figures:
    """Sick components at the default window and duration: plays of six hours with faults of one to three hours that
    cost somebody time, looked at every ten minutes as the service does."""
    try:
        from fairlead.analysis.health.watch import HealthLimits, watched
    except ImportError as fault:
        console.print(f"not there yet: {fault}")
        return {}
    from fairlead.analysis.rollups import derive
    from fairlead.testing.machine.phase_truth import phase_truth
    from fairlead.testing.machine.truth import component_name

    hours, plays = (3, 1) if quick else (6, 3)
    limits = HealthLimits()
    n: Counter[str] = Counter()
    delays: list[float] = []
    for seed in seeds:
        for number in range(plays):
            season = small_season(seed, plays, hours * 3600, fault_share=0.0)
            play = replace(season.play(number), faults=_long_faults(seed, number, hours, season))
            tables = [derive({k: v for k, v in part.items() if k not in ("ops", "port", "device")}) for part in play.intervals(3600)]
            rollup = pa.concat_tables([part["rollup"] for part in tables])
            rollup = rollup.filter(pc.equal(rollup["interval_ns"], NS)).unify_dictionaries()
            ts = rollup["ts_ns"].to_numpy()
            jobs = play.tables(0, 1)["jobs"] if False else None
            nodes = {str(100_000 + job.drawn.number): len(job.nodes) for job in play.course.jobs}
            truth = phase_truth(play)
            known: list[Incident] = []
            told: dict[str, tuple[Incident, int]] = {}
            for now_s in range(600, hours * 3600 + 1, 600):
                now = play.origin_ns + now_s * NS
                here = rollup.filter(pa.array((ts < now) & (ts >= now - (int(limits.minimum_s) + 600) * NS)))
                found = watched(here, NS, described(season), None, now_ns=now, open_incidents=known, limits=limits, nodes=nodes, servers=_servers(season))
                gone = {one.id for one in found.withdrawn}
                byid = {one.id: one for one in known if one.id not in gone}
                for one in found.incidents:
                    byid[one.id] = one
                    told.setdefault(one.id, (one, now))
                for name in gone:
                    told.pop(name, None)
                known = list(byid.values())
            for fault in play.faults:
                name = component_name(play, fault)
                hurt = sum(c.recovered_s for p in truth for c in p.causes if c.name == name and c.recovered_s > 0)
                n["faults"] += 1
                hits = [(one, when) for one, when in told.values() if one.component == name and _within(one, fault, play.origin_ns)]
                n["hurting"] += hurt > 60
                n["found"] += bool(hits)
                n["found, hurting"] += bool(hits) and hurt > 60
                if hits:
                    first = min(when for _, when in hits)
                    delays.append((first - play.origin_ns) / NS - fault.from_s)
            for one, _ in told.values():
                good = any(one.component == component_name(play, f) and _within(one, f, play.origin_ns) for f in play.faults)
                n["told"] += 1
                n["told rightly"] += good
                if not good:
                    console.print(f"false: {one.layer} {one.component} {one.kind} {one.confidence:.2f} seed {seed} play {number}")
    delay = np.array(delays)
    figures: Figures = dict(n) | {"delay_s": [_round(q) for q in np.quantile(delay, (0.5, 0.95, 1.0))] if len(delay) else []}
    console.rule("component health, default window")
    for name, (a, b) in {"precision": ("told rightly", "told"), "recall, faults that cost 60 s or more": ("found, hurting", "hurting"), "recall, all faults": ("found", "faults")}.items():
        p, low, high = share(n[a], n[b])
        console.print(f"{name}: {n[a]} of {n[b]} = {p:.3f} ({low:.3f}-{high:.3f})")
        figures[name] = [_round(p), _round(low), _round(high)]
    if len(delay):
        late = float((delay > 2 * limits.minimum_s).mean())
        console.print(f"told after (s from the fault's beginning): median {np.median(delay):.0f}, most {delay.max():.0f}; later than two windows {late:.1%}")
    return figures


def _within(one: Incident, fault: Fault, origin_ns: int) -> bool:
    end = one.to_ns if one.to_ns is not None else 1 << 62
    return one.from_ns < origin_ns + (fault.to_s + 120) * NS and end > origin_ns + fault.from_s * NS


def _long_faults(seed: int, number: int, hours: int, season: Season) -> list[Fault]:
    rng = np.random.default_rng([seed, 41, number])
    machine = season.machine
    layers = {"target": machine.targets, "forwarder": machine.forwarders, "mds": machine.mds}
    faults = []
    for begin in np.arange(0.3, hours - 1.5, 2.0):
        layer = str(rng.choice(["target", "target", "target", "forwarder", "mds"]))
        kind = str(rng.choice(["degraded", "fail_slow", "rebuild"]))
        faults.append(Fault(
            component=layer, number=int(rng.integers(layers[layer])), from_s=float(begin * 3600),
            to_s=float(min(begin + rng.uniform(1.2, 2.0), hours) * 3600), factor=float(rng.uniform(0.03, 0.2)), kind=kind,
        ))  # fmt: skip
    return faults


def curves(seeds: Sequence[int], plays: int, seconds: int, keep: Path | None) -> Figures:
    """F1, culprits and categories with more noise, less seen, clocks that are off, fewer runs."""
    cases: list[tuple[str, dict[str, Any], View, int]] = [
        ("as it is", {}, FULL, plays), ("no noise", {"noise": 0.0}, FULL, plays), ("noise x 2", {"noise": 2.0}, FULL, plays),
        ("noise of all days", {"noise_name": "all"}, FULL, plays),
        *((f"no {layer}", {}, View(without=(layer,)), plays) for layer in ("client", "forwarder", "target", "metadata")),
        ("counters every 10 s", {}, View(without=("client",), interval_s=10), plays),
        ("clocks off by 0.1 s", {}, View(skew_s=0.1), plays), ("clocks off by 2 s", {}, View(skew_s=2.0), plays),
        ("two plays", {}, FULL, 2), ("one play", {}, FULL, 1),
    ]  # fmt: skip
    table = Table("", "incidents", "F1 expected", "F1 two-stage", "found", "top-1", "category", "accused wrongly", title="degradation")
    figures: Figures = {}
    for name, more, view, many in cases:
        seasons = [Season_.of(small_season(seed, many, seconds, **more), view, keep) for seed in seeds]
        console.quiet = True
        try:
            got = whole(seasons, name, PARTS)
        finally:
            console.quiet = False
        figures[name] = got
        of = max(got.get("found", 0), 1)
        table.add_row(
            name, str(got["incidents"]), *(f"{got[f'{who}, lost >= 50 %']['f1'] or 0:.3f}" if f"{who}, lost >= 50 %" in got else "" for who in ("expected", "two-stage")),
            str(got.get("found", "")), f"{got.get('top1', 0) / of:.3f}", f"{got.get('category', 0) / of:.3f}",
            f"{got.get('accused wrongly', 0)} of {got.get('accused', 0)}",
        )  # fmt: skip
    console.print(table)
    return figures


if __name__ == "__main__":
    main()
