"""What is true of the sample site: its faults, who held whom back in the story and what that cost, who is silent.

The cost is the difference to the same day without the culprit. Not here: labels of whole plays (`truth_labels`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from fairlead.kit.sample.month import Month
from fairlead.kit.sample.story import BEFORE_S, DAY_S
from fairlead.kit.testing.machine.client_rows import NS
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.truth_labels import Label, Victim, measure_truth_times, name_truth_component

AROUND_S = 2 * 3600.0


def _label_story(month: Month) -> Label:
    """Who held whom back, with what it cost: a play of the hours around, with the culprit and without."""
    near = _around(month)
    assert near.placed is not None
    begin = near.placed[month.culprit][0]
    had = measure_truth_times(near)[month.victim]
    alone = measure_truth_times(replace(near, jobs=[job for job in near.drawn if job.number != month.culprit]))[
        month.victim
    ]
    course = near.course
    end = next(job.end_s for job in course.jobs if job.drawn.number == month.culprit)
    victim = Victim(
        str(100_000 + month.victim), round(float((had - alone).sum()), 3), round(float(had.sum()), 3), False
    )
    origin = month.play.origin_ns
    return Label(
        kind="interference",
        from_ns=origin + int(begin * NS),
        to_ns=origin + int(end * NS),
        culprit=str(100_000 + month.culprit),
        culprit_kind="N-1",
        victims=[victim],
    )


def _around(month: Month) -> Play:
    """The play with the jobs of the hours before the story until its end only."""
    play, at = month.play, month.seconds - BEFORE_S
    assert play.placed is not None
    near = [job for job in play.drawn if at - AROUND_S <= play.placed[job.number][0] <= at + AROUND_S]
    return replace(play, jobs=near, seconds=int(min(at + DAY_S, play.seconds)))


def write_sample_truth(month: Month, path: Path) -> None:
    """The truth as JSON."""
    play = month.play
    faults = [
        Label(
            kind=fault.kind,
            from_ns=play.origin_ns + int(fault.from_s * NS),
            to_ns=play.origin_ns + int(fault.to_s * NS),
            component=name_truth_component(play, fault),
            layer=fault.component,
            factor=fault.factor,
        )
        for fault in play.faults
    ]
    quiet = [
        {
            "node": one.node,
            "from_ns": play.origin_ns + int(one.from_s * NS),
            "to_ns": None if one.to_s is None else play.origin_ns + int(one.to_s * NS),
        }
        for one in month.quiet
    ]
    told = {
        "simulated": True,
        "seed": play.seed,
        "labels": [asdict(one) for one in (_label_story(month), *faults)],
        "silent": quiet,
    }
    path.write_text(json.dumps(told, indent=1) + "\n")
