"""Scenes of judged phases from the records of the labelled machine, as the service makes them from a lake.

Not here: scores (`_diagnosis_scores`), whether components are sick over hours (`_diagnosis_health`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import JOB_SUMMARY, JOBS, PHASE, build_empty_table
from fairlead.kit.testing.machine.labelled import LabelledPlay, build_labelled_season
from fairlead.kit.testing.machine.season import Season
from fairlead.kit.testing.machine.views import View

NS = 1_000_000_000
KINDS = ("forwarder", "target", "mds", "job")
Known = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Plays:
    """The plays of one season, all their phases together."""

    season: Season
    plays: list[LabelledPlay]
    phases: pa.Table
    labels: pa.Table

    @staticmethod
    def of(season: Season, view: View, keep: Path | None) -> Plays:
        """Played, or read where it was kept."""
        folder = None if keep is None else keep / name_of(season, view)
        plays = list(build_labelled_season(season, view, folder=folder))
        phases = pa.concat_tables([play.seen.phases.unify_dictionaries() for play in plays])
        phases = phases.cast(PHASE.schema).unify_dictionaries().combine_chunks()
        return Plays(season, plays, phases, pa.concat_tables([play.labels for play in plays]).combine_chunks())


def name_of(season: Season, view: View) -> str:
    """A folder for a season as seen; whatever its number of plays, as each is by itself."""
    lost = "-".join(view.without) or "all"
    return (
        f"{season.machine.name}-{season.seed}-{season.seconds}-n{season.noise:g}{season.noise_name}"
        f"-f{season.fault_share:g}-{lost}-{view.skew_s:g}-{view.interval_s}"
        + ("-files" * view.files + "-stored" * view.stored)
    )


def scenes(one: Plays, judged: Any, rows: np.ndarray) -> Iterator[tuple[int, Any]]:
    """The scene of each of these rows, from the records of its play; peaks and usual waits from the plays before (in
    the first one, from itself)."""
    from fairlead.explain.diagnosing.diagnosis_step import add_judgement_columns
    from fairlead.explain.diagnosing.phase_scenes import (
        Around,
        build_phase_scene,
        build_scene_victims,
        build_scene_windows,
    )

    phases = add_judgement_columns(one.phases, judged)
    play_of = one.labels["play"].to_numpy()
    peaks: Known = {}
    waits: dict[tuple[str, str], list[float]] = {}
    for play in one.plays:
        kind = play.seen.rollup["kind"].cast(pa.string())
        loads = play.seen.rollup.filter(pc.is_in(kind, pa.array(KINDS))).combine_chunks()
        if not peaks:
            learn(loads, peaks, waits)
        mine = np.flatnonzero(play_of == play.number)
        here = [int(row) for row in rows if play_of[row] == play.number]
        victims = build_scene_victims(phases, here)
        known = incidents_of(play, one.season) if here else []
        own = phases.slice(int(mine[0]), len(mine)) if len(mine) else phases.slice(0, 0)
        ts, begun, ended = loads["ts_ns"].to_numpy(), own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
        for window in build_scene_windows(victims):
            around = Around(
                loads=loads.filter(pa.array((ts >= window.from_ns) & (ts < window.to_ns))),
                phases=own.filter(pa.array((begun < window.to_ns) & (ended > window.from_ns))),
                summaries=build_empty_table(JOB_SUMMARY),
                jobs=play.seen.jobs.cast(JOBS.schema),
                incidents=known,
                peaks=dict(peaks) | known_peaks(one.season),
                waits={key: float(np.median(values)) for key, values in waits.items()},
            )
            for place in window.victims:
                found = build_phase_scene(victims[place], replace(window, interval_ns=play.seen.interval_ns), around)
                yield here[place], found
        learn(loads, peaks, waits)


def learn(loads: pa.Table, peaks: Known, waits: dict[tuple[str, str], list[float]]) -> None:
    """Takes note of the busiest minute of each component, and of its mean wait in this play."""
    for kind in ("forwarder", "target", "mds"):
        rows = loads.filter(pc.and_(pc.equal(loads["kind"], kind), pc.is_null(loads["job_id"])))
        names = ("metadata_ops",) if kind == "mds" else ("read_bytes", "write_bytes")
        table = pa.table(
            {
                "id": rows["id"].cast(pa.string()),
                "minute": rows["ts_ns"].to_numpy() // (60 * NS),
                "work": sum(pc.fill_null(rows[name], 0).to_numpy() for name in names),
                "wait": pc.fill_null(rows["wait_ns"], 0),
                "waits": pc.fill_null(rows["waits"], 0),
            }
        )
        for row in table.group_by(["id", "minute"]).aggregate([("work", "sum")]).to_pylist():
            if row["work_sum"] > 0:
                peaks[kind, row["id"]] = max(peaks.get((kind, row["id"]), 0.0), row["work_sum"] / 60.0)
        for row in table.group_by("id").aggregate([("wait", "sum"), ("waits", "sum")]).to_pylist():
            if row["waits_sum"]:
                waits.setdefault((kind, row["id"]), []).append(row["wait_sum"] / row["waits_sum"] / NS)


def incidents_of(play: LabelledPlay, season: Season, minimum_s: float = 180.0) -> list[Incident]:
    """What watching components finds in a play: those sick for three minutes, as faults of an hour's play are short."""
    from fairlead.explain.analysis.health.assess import HealthLimits, assess_health

    seen = play.seen
    if not seen.rollup.num_rows:
        return []
    health = assess_health(
        seen.rollup,
        seen.interval_ns,
        described(season),
        None,
        now_ns=int(pc.max(seen.rollup["ts_ns"]).as_py()) + seen.interval_ns,
        limits=HealthLimits(minimum_s=minimum_s, window_s=60.0),
        servers=servers_of(season),
        nodes=dict(zip(seen.jobs["job_id"].to_pylist(), seen.jobs["nodes_count"].to_pylist(), strict=True)),
    )
    return list(health.incidents)


def known_peaks(season: Season) -> Known:
    """Known peaks of every component: what a site's description says counts over what was seen."""
    machine, given = season.machine, described(season)
    names = {
        "target": machine.targets.names,
        "mds": tuple(map(machine.format_mdt_name, range(len(machine.mds)))),
        "forwarder": machine.forwarders.names,
    }
    return {(kind, name): given[kind, ""] for kind, every in names.items() for name in every}


def described(season: Season) -> Known:
    """Known peaks as a site's description has them."""
    machine = season.machine
    known = {("target", ""): float(machine.targets.bandwidth[0]), ("mds", ""): float(machine.mds.mdops[0])}
    return known | ({("forwarder", ""): float(machine.forwarders.bandwidth[0])} if len(machine.forwarders) else {})


def servers_of(season: Season) -> dict[str, str]:
    """The server of each target."""
    machine = season.machine
    each = machine.targets_per_server
    return {machine.targets.names[n]: machine.servers.names[n // each] for n in range(len(machine.targets))}
