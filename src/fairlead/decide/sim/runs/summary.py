"""What experiments in a lake tell: their pictures as lines, and the scheduling study's conclusions.

Not here: running them (`run`), printing (`fairlead.cli`), drawing (`fairlead.show.report.simulation`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.decide.sim.experiments.cases import case_of
from fairlead.decide.sim.experiments.conclusions import Conclusion, conclusions
from fairlead.decide.sim.experiments.results import SimulationAnswer, told
from fairlead.decide.sim.experiments.spec import Experiment, PublishedWorkload
from fairlead.decide.sim.runs.results import results
from fairlead.store.lake import Lake


def simulated(lake: Lake, experiments: Sequence[Experiment], *, concluding: bool = False) -> SimulationAnswer:
    """Everything asked of some experiments; with `concluding` they are the study's figures. Raises LakeError."""
    found = results(lake, experiments)
    said: list[Conclusion] = []
    if concluding:
        for window in dict.fromkeys(one.window.kind for one in experiments):
            cases: dict[str, str] = {}
            numbers: tuple[int, ...] = ()
            for one in experiments:
                if one.window.kind == window and one.chosen and isinstance(one.workload, PublishedWorkload):
                    cases[one.workload.profiles] = case_of(one).digest
                    numbers = one.workload.applications
            said += conclusions(found, cases.get("forge", ""), cases.get("osts"), numbers, window)
    return SimulationAnswer(experiments=[told(one, found) for one in experiments], conclusions=said)
