"""The scheduling study's figures, and ours beside it, as experiments: package data, read once. Figures share their
runs where they can.

Bandet, Boito and Pallez 2024. Not here: what the study concludes (`conclusions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec

from fairlead.core.errors import UsageError
from fairlead.decide.sim.experiments.experiment_spec import Experiment, Window, read_experiment_spec

WINDOWS: dict[str, Window] = {"steady": Window(), "study": Window(kind="study", from_s=0.0)}
"""Steady state from 5,000 to 30,000 s, and the study's own: from when each application has completed a phase until the
first one ends."""


@cache
def list_study_figures() -> tuple[Experiment, ...]:
    """All of them, by number."""
    folder = files("fairlead.decide.sim.experiments").joinpath("scheduling_study")
    names = sorted(one.name for one in folder.iterdir() if one.name.endswith(".toml"))
    found = [read_experiment_spec(folder.joinpath(name).read_text(encoding="utf-8"), name) for name in names]
    return tuple(sorted(found, key=lambda one: one.figure or 0))


@cache
def build_joint_study() -> Experiment:
    """Our joint policies beside every published allocation under both greedy placements."""
    return read_experiment_spec(
        files("fairlead.decide.sim.experiments").joinpath("ours.toml").read_text(encoding="utf-8"), "ours.toml"
    )


def build_study(
    *,
    figure: int | None = None,
    sets: int | None = None,
    seed: int | None = None,
    windows: Sequence[str] = ("steady",),
    applications: Sequence[int] = (),
) -> list[Experiment]:
    """The figures as asked for, once for each window. Raises UsageError for a figure there is none of."""
    chosen = [one for one in list_study_figures() if figure in (None, one.figure)]
    if not chosen:
        known = ", ".join(str(one.figure) for one in list_study_figures())
        raise UsageError(f"there is no figure {figure}", remedy=f"one of {known}")
    out = []
    for window in windows:
        for one in chosen:
            workload = one.workload
            if applications:
                workload = msgspec.structs.replace(workload, applications=tuple(applications))
            out.append(
                msgspec.structs.replace(
                    one,
                    sets=sets if sets is not None and one.chosen else one.sets,
                    seed=one.seed if seed is None else seed,
                    window=WINDOWS[window],
                    workload=workload,
                )
            )
    return out
