"""Who may be accused: only where accusations with such records, and of such a score, were shown to be right. Pure.

A *view* is what was recorded of a phase, of each layer at which interval: derived from the scene, not from settings.
`accusation_precision.toml` has, for each view and kind of culprit, the score from which accusations count and how many
of these were right on held-out seasons (docs/explanation/who-is-to-blame.md says how it is made). A view that is not
there accuses nobody. Not here: the score (`attribution`), the words (`job_findings`).
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.finding import Subject
from fairlead.core.model.finding_incident_rows import ShownPrecision
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.interference.scene import Attribution, Scene

TABLE = "accusation_precision.toml"
LEAST_PRECISION = 0.95
"""Share of accusations that must have been right on held-out seasons."""
LEAST_COUNT = 20
"""Fewer accusations on held-out seasons show nothing."""
MOST_ACTIVE = 10
"""Jobs listed as active at the time; those that asked most at the victim's components."""
_INTERVALS_S = ((3.0, 1), (20.0, 10), (90.0, 60))
"""Seconds a row covers, at most, and the interval it is taken for."""


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table. `accused`: job, many or component; `least`: score from which they are counted (None: no
    score was enough on the tuning seeds)."""

    view: str
    accused: str
    least: float | None = None
    right: int
    count: int


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shown: list[_Row]


@cache
def read_shown_precisions() -> dict[tuple[str, str], tuple[float | None, ShownPrecision]]:
    """(view, accused) → the least score, and what was right of how many on held-out seasons."""
    text = files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    rows = msgspec.convert(tomllib.loads(text), _Table).shown
    return {
        (row.view, row.accused): (row.least, ShownPrecision(view=row.view, right=row.right, count=row.count))
        for row in rows
    }


def look_up_precision(view: str, accused: str, score: float) -> ShownPrecision | None:
    """How often an accusation like this was right on held-out seasons; None: not shown to be right often enough."""
    least, shown = read_shown_precisions().get((view, accused), (None, None))
    if (
        shown is None
        or least is None
        or score < least
        or shown.count < LEAST_COUNT
        or shown.right < LEAST_PRECISION * shown.count
    ):
        return None
    return shown


def filter_accusation(scene: Scene, said: Attribution) -> Attribution:
    """The verdict as it may be told: with its precision, or without a culprit where none was shown for this view.
    Jobs that were active at the victim's components are listed where nobody is accused."""
    active = list_active_jobs(scene)
    if not said.accused:
        return replace(said, active=active)
    shown = look_up_precision(
        derive_scene_view(scene), classify_accusation(said), compute_accusation_score(scene, said)
    )
    if shown is not None:
        return replace(said, precision=shown)
    return replace(said, verdict="unknown", accused=False, evidence=(), active=active)


def classify_accusation(said: Attribution) -> str:
    """What of the table an accusation is: `job`, `many` or `component`."""
    if said.verdict == "many_neighbours":
        return "many"
    return "component" if said.verdict == "component" else "job"


def compute_accusation_score(scene: Scene, said: Attribution) -> float:
    """How sure it looks that the phase was slow and that this was why. A score, not a frequency."""
    return scene.victim.confidence * said.confidence


def derive_scene_view(scene: Scene) -> str:
    """What was recorded of the phase: `trace 1 s, forwarder 1 s, server 10 s`. Layers that named no job are left out:
    traces of the victim, forwarders and servers (targets of data, metadata servers of metadata) by job."""
    loads = scene.loads
    kind, layer = (loads[name].cast(pa.string()) for name in ("kind", "layer"))
    of_victim = pc.and_(pc.equal(kind, "job"), pc.equal(loads["id"].cast(pa.string()), scene.victim.job_id))
    server = "mds" if scene.victim.kind == "metadata" else "target"
    named = loads["job_id"].is_valid()
    rows = {
        "trace": pc.and_(of_victim, pc.is_in(layer, pa.array(["client", "mount"]))),
        "forwarder": pc.and_(named, pc.equal(kind, "forwarder")),
        "server": pc.and_(named, pc.equal(kind, server)),
    }
    parts = [(name, _find_interval(loads.filter(mine), scene.interval_ns)) for name, mine in rows.items()]
    return ", ".join(f"{name} {interval}" for name, interval in parts if interval is not None) or "nothing by job"


def _find_interval(rows: pa.Table, interval_ns: int) -> str | None:
    """How long the raw rows of these sums were: a raw row counts in the last of the seconds it covers."""
    rows = rows.filter(pc.equal(rows["interval_ns"], interval_ns))
    if not rows.num_rows:
        return None
    samples = pc.fill_null(rows["samples"], 0).to_numpy(zero_copy_only=False)
    counted = int(np.count_nonzero(samples))
    if not counted:
        return "unknown"
    seconds = rows.num_rows / counted * interval_ns / NS_PER_S
    return next((f"{told} s" for most, told in _INTERVALS_S if seconds <= most), "unknown")


def list_active_jobs(scene: Scene) -> list[Subject]:
    """Jobs that did something at the victim's components while its phase ran, those that asked most first."""
    loads, victim = scene.loads, scene.victim
    when = pc.and_(pc.greater_equal(loads["ts_ns"], victim.start_ns), pc.less(loads["ts_ns"], victim.end_ns))
    parts = loads.filter(pc.and_(when, loads["job_id"].is_valid()))
    asked: dict[str, int] = {}
    columns = [parts[name].to_pylist() for name in ("job_id", "read_bytes", "write_bytes", "metadata_ops")]
    for job, read, written, metadata in zip(*columns, strict=True):
        if job != victim.job_id:
            asked[job] = asked.get(job, 0) + (read or 0) + (written or 0) + 65_536 * (metadata or 0)
    busy = sorted((job for job in asked if asked[job] > 0), key=lambda job: (-asked[job], job))
    return [Subject("job", job) for job in busy[:MOST_ACTIVE]]
