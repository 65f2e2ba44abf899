"""What experiments tell, ready to be printed, drawn or written as JSON: lines by picture and number of applications.

Not here: making rows (`pieces`), the study's conclusions (`conclusions`), drawing (`fairlead.show.report.simulation`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.decide.sim.experiments.cases import MEASURES, build_case, read_case_curves
from fairlead.decide.sim.experiments.conclusions import NAMES, PLACINGS, Conclusion
from fairlead.decide.sim.experiments.experiment_spec import Experiment, ListedWorkload, Picture, PublishedWorkload
from fairlead.decide.sim.experiments.summary import Course, Results
from fairlead.decide.sim.workloads.profiles import count_best_profiles, read_forge_profiles

DEFAULT_PICTURES = (
    Picture(title="Mean I/O slowdown"),
    Picture(title="Machine idle time", measure="idle"),
)
"""What an experiment shows that names no picture ..."""
REPLAY_PICTURES = (
    Picture(title="Mean I/O slowdown"),
    Picture(title="I/O slowdown, 90th percentile of jobs", measure="slowdown_p90"),
    Picture(title="Core-hours in I/O", measure="core_hours_lost"),
)
"""... and a replay."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One chart: lines of one number of applications (or `of` jobs). `labels`: what each is called among the others."""

    applications: int
    of: str = "applications"
    labels: list[str]
    lines: list[Course]


class FigureData(msgspec.Struct, frozen=True, kw_only=True):
    """One picture. `counts` (best-counts): by name of the curves, curves that are highest at each number of resources;
    0 is direct access."""

    title: str
    kind: str
    measure: str
    axis: str
    panels: list[Panel] = []
    counts: dict[str, dict[int, int]] = {}


class ExperimentResult(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment: what was asked and what came of it."""

    name: str
    title: str
    source: str
    note: str
    figure: int | None
    seed: int
    sets: int
    window: str
    case_id: str
    pictures: list[FigureData]


class SimulationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. Everything in it is simulated."""

    schema: str = "fairlead.simulation/1"
    simulated: bool = True
    experiments: list[ExperimentResult]
    conclusions: list[Conclusion] = []


def draw_results(experiment: Experiment, results: Results) -> ExperimentResult:
    """An experiment's pictures out of results."""
    case = build_case(experiment).digest
    usual = DEFAULT_PICTURES if isinstance(experiment.workload, PublishedWorkload | ListedWorkload) else REPLAY_PICTURES
    pictures = experiment.picture or list(usual)
    return ExperimentResult(
        name=experiment.name,
        title=experiment.title,
        source=experiment.source,
        note=experiment.note,
        figure=experiment.figure,
        seed=experiment.seed,
        sets=experiment.sets,
        window=experiment.measured,
        case_id=case,
        pictures=[_drawn(one, experiment, case, results) for one in pictures],
    )


def _drawn(picture: Picture, experiment: Experiment, case: str, results: Results) -> FigureData:
    if picture.kind == "best-counts":
        return FigureData(title=picture.title, kind=picture.kind, measure="", axis="curves", counts=_counts(experiment))
    names = picture.policies or experiment.chosen
    which = [(name, information) for name in names for information in experiment.information]
    labels = shorten_result_labels(which)
    panels = []
    for applications in dict.fromkeys(k for k, _ in experiment.points):
        lines = [
            results.build_course(case, applications, name, picture.measure, information) for name, information in which
        ]
        of = "applications" if isinstance(experiment.workload, PublishedWorkload | ListedWorkload) else "jobs"
        panels.append(Panel(applications=applications, of=of, labels=labels, lines=lines))
    return FigureData(
        title=picture.title, kind=picture.kind, measure=picture.measure, axis=MEASURES[picture.measure], panels=panels
    )


def shorten_result_labels(which: Sequence[tuple[str, str]]) -> list[str]:
    """Short names of lines: what all have in common is left out."""
    split = [(name.partition("+")[0], name.partition("+")[2], information) for name, information in which]
    one_placing = len({placing for _, placing, _ in split if placing}) <= 1
    one_allocation = len({allocation for allocation, _, _ in split}) == 1 and not one_placing
    one_information = len({information for *_, information in split}) == 1
    out = []
    for allocation, placing, information in split:
        parts = [] if one_allocation else [NAMES.get(allocation, allocation)]
        parts += [PLACINGS.get(placing, placing)] if placing and not one_placing else []
        out.append(", ".join([*parts, *([] if one_information else [information])]))
    return out


def _counts(experiment: Experiment) -> dict[str, dict[int, int]]:
    workload = experiment.workload
    if not isinstance(workload, PublishedWorkload):
        return {}
    if workload.profiles == "forge":
        return {
            f"{statistic} of repetitions": count_best_profiles(read_forge_profiles(statistic))
            for statistic in ("max", "median")
        }
    return {"curves": count_best_profiles(read_case_curves(workload))}
