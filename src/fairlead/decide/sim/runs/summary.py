"""What experiments in a lake tell: their pictures as lines, and the scheduling study's conclusions.

Not here: running them (`run`), printing (`fairlead.cli`), drawing (`fairlead.show.report.simulation`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.decide.sim.experiments.cases import build_case
from fairlead.decide.sim.experiments.conclusions import Conclusion, draw_conclusions
from fairlead.decide.sim.experiments.experiment_spec import Experiment, PublishedWorkload
from fairlead.decide.sim.experiments.results import SimulationAnswer, draw_results
from fairlead.decide.sim.runs.stored_results import read_stored_results
from fairlead.store.lake import Lake


def build_experiments_summary(
    lake: Lake, experiments: Sequence[Experiment], *, concluding: bool = False
) -> SimulationAnswer:
    """Everything asked of some experiments; with `concluding` they are the study's figures. Raises LakeError."""
    found = read_stored_results(lake, experiments)
    said: list[Conclusion] = []
    if concluding:
        for window in dict.fromkeys(one.window.kind for one in experiments):
            cases: dict[str, str] = {}
            numbers: tuple[int, ...] = ()
            for one in experiments:
                if one.window.kind == window and one.chosen and isinstance(one.workload, PublishedWorkload):
                    cases[one.workload.profiles] = build_case(one).digest
                    numbers = one.workload.applications
            said += draw_conclusions(found, cases.get("forge", ""), cases.get("osts"), numbers, window)
    return SimulationAnswer(experiments=[draw_results(one, found) for one in experiments], conclusions=said)
