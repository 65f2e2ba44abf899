"""Scenes of attribution made from plays of the made machine, with what is true of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.incident import Incident
from fairlead.core.model.site import Site
from fairlead.core.model.tables import JOB_SUMMARY, PHASE, build_table_batch
from fairlead.explain.analysis.interference.scene import Scene, Victim
from fairlead.kit.testing.machine.course import OPS, Course
from fairlead.kit.testing.machine.files import format_machine_job_id
from fairlead.kit.testing.machine.play import Play
from fairlead.store.rollups import derive_rollups

S = 1_000_000_000


def phases_of(play: Play) -> list[dict[str, Any]]:
    """What each phase of I/O of a play did, with its number in the engine (`phase`) and its job's place (`job`)."""
    course, origin = play.course, play.origin_ns
    machine = course.machine
    found: list[dict[str, Any]] = []
    for place, job in enumerate(course.jobs):
        steps = [step for step in job.drawn.steps if step.moves_data or step.each > 1]
        inside = [p for p in job.io_phases if np.isfinite(course.phase_begun[p])]
        for number, (step, phase) in enumerate(zip(steps, inside, strict=False)):
            begin, end = float(course.phase_begun[phase]), float(course.phase_ended[phase])
            end = float(play.seconds) if np.isnan(end) else end
            if end <= begin:
                continue
            flows = _flows(course, place, step.op, begin)
            moved = step.volume if step.moves_data else 0
            ops = int((course.requests[flows] * course.lanes[flows]).sum())
            amount = moved if step.moves_data else ops
            targets = np.unique(course.target[flows]).tolist()
            mode = "N-1" if step.files == 1 and step.writers > 1 else "1-1" if step.writers == 1 else "N-N"
            found.append(
                {
                    "job": place,
                    "phase": phase,
                    "number": number,
                    "begin": begin,
                    "end": end,
                    "row": {
                        "job_id": format_machine_job_id(job.drawn),
                        "job_start_ns": origin + int(job.start_s * S),
                        "number": number,
                        "kind": step.op if step.moves_data else "metadata",
                        "start_ns": origin + int(begin * S),
                        "end_ns": origin + int(end * S),
                        "active_ns": int((end - begin) * S),
                        "bytes": moved,
                        "ops": ops if step.moves_data else 0,
                        "metadata_ops": 0 if step.moves_data else ops,
                        "rate_per_s": amount / (end - begin),
                        "request_bytes": float(step.request),
                        "mode": mode,
                        "io_processes": step.writers,
                        "nodes_count": len(job.nodes),
                        "processes": len(job.nodes) * machine.cores_per_node,
                        "user": job.drawn.program.user,
                        "program": job.drawn.program.name,
                        "forwarders": _names(np.unique(course.forwarder[flows]), machine.forwarders.names.__getitem__),
                        "targets": _names(targets, machine.targets.names.__getitem__) if step.moves_data else [],
                        "mds": [] if step.moves_data else _names(targets, mdt_name(machine)),
                        "basis": "mount",
                        "made_ns": 1,
                        "analysis_version": 1,
                    },
                }
            )
    return found


def _flows(course: Course, place: int, op: str, begin: float) -> np.ndarray:
    here = (course.job == place) & (np.abs(course.begun - begin) < 1e-6) & (course.op == OPS.index(op))
    return np.flatnonzero(here)


def mdt_name(machine: Site) -> Callable[[int], str]:
    """What rollups call a metadata server: by its target."""
    return lambda number: f"{machine.file_system}-MDT{number:04x}"


def _names(numbers: Sequence[int] | np.ndarray, name: Callable[[int], str]) -> list[str]:
    return [name(int(n)) for n in numbers if n >= 0]


def phase_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as a PHASE table."""
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in PHASE.schema.names}
    return pa.Table.from_batches([build_table_batch(PHASE, columns, len(rows))], PHASE.schema)


def summary_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as a JOB_SUMMARY table."""
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in JOB_SUMMARY.schema.names}
    return pa.Table.from_batches([build_table_batch(JOB_SUMMARY, columns, len(rows))], JOB_SUMMARY.schema)


def rolled(play: Play) -> pa.Table:
    """The rollup of everything a play would record, by second."""
    rows = derive_rollups(play.build_tables())["rollup"]
    return rows.filter(pc.equal(rows["interval_ns"], S))


def scene_of(
    play: Play,
    phase: dict[str, Any],
    expected_s: float,
    rows: pa.Table,
    phases: Sequence[dict[str, Any]],
    *,
    incidents: Sequence[Incident] = (),
    around_s: float = 300.0,
    missing: Sequence[str] = (),
) -> Scene:
    """The scene of one phase, as the loop would put it together."""
    row = phase["row"]
    lost = float(phase["end"]) - float(phase["begin"]) - expected_s
    victim = Victim(
        cluster=None,
        job_id=row["job_id"],
        kind=row["kind"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        expected_s=expected_s,
        lost_s=max(lost, 0.0),
        confidence=0.95,
        rate_per_s=row["rate_per_s"],
        mode=row["mode"],
        forwarders=row["forwarders"],
        targets=row["targets"],
        mds=row["mds"],
    )
    low, high = victim.start_ns - int(around_s * S), victim.end_ns + int(around_s * S)
    near = rows.filter(pc.and_(pc.greater_equal(rows["ts_ns"], low), pc.less(rows["ts_ns"], high)))
    others = [
        one["row"]
        for one in phases
        if one["row"]["job_id"] != victim.job_id
        and one["row"]["start_ns"] < victim.end_ns
        and one["row"]["end_ns"] > victim.start_ns
    ]
    return Scene(
        victim=victim,
        loads=near,
        interval_ns=S,
        neighbours=phase_table(others),
        jobs=JOB_SUMMARY.schema.empty_table(),
        incidents=incidents,
        peaks=peaks_of(play.machine),
        missing=missing,
    )


def peaks_of(machine: Site) -> dict[tuple[str, str], float]:
    """The known peaks of a machine's components."""
    peaks = {
        ("forwarder", machine.forwarders.names[n]): float(machine.forwarders.bandwidth[0])
        for n in range(len(machine.forwarders))
    }
    peaks |= {
        ("target", machine.targets.names[n]): float(machine.targets.bandwidth[0]) for n in range(len(machine.targets))
    }
    return peaks | {("mds", mdt_name(machine)(n)): float(machine.mds.mdops[0]) for n in range(len(machine.mds))}
