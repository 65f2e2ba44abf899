"""Pages and pictures of results in a lake, written to a folder: one page, and each picture as SVG beside it.

Not here: drawing (`fairlead.show.report.simulation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.decide.registered_policies import find_registered_policy
from fairlead.decide.sim.experiments.cases import (
    build_case,
    build_case_stream,
    prepare_case_set,
    simulate_case_decision,
)
from fairlead.decide.sim.experiments.experiment_spec import Experiment, ListedWorkload
from fairlead.decide.sim.experiments.papers import STUDY, PaperReport
from fairlead.decide.sim.experiments.scheduling_study import list_study_figures
from fairlead.decide.sim.runs import stored_results as kept
from fairlead.decide.sim.runs.run_experiments import read_experiment_file
from fairlead.decide.sim.runs.summary import build_experiments_summary
from fairlead.show.report.diagnosis.svg import build_svg_file
from fairlead.show.report.simulation.pictures import LANES, draw_picture, draw_run_picture, has_picture_title
from fairlead.show.report.simulation.simulation_page import build_paper_simulation_page, build_simulation_page
from fairlead.store.lake import Lake

ROUNDS = 3
"""A run is drawn as long as so many of its longest rounds take."""


def plot_simulation_result(result: str, root: Path, folder: Path) -> list[Path]:
    """Draws a result by its name, the study, or a spec's file: page, then pictures. Raises UsageError, LakeError."""
    if not (root / "lake.toml").is_file():
        raise UsageError("nothing was simulated here", where=str(root), remedy="name the lake of a run: --lake DIR")
    lake = Lake.open(root)
    if result.endswith(".toml"):
        result = read_experiment_file(Path(result)).name
    if result == STUDY:
        experiments = _study(lake)
        return _write(folder, "The scheduling study, simulated", lake, experiments, concluding=True)
    found = kept.find_stored_result(lake, result)
    if isinstance(found, PaperReport):
        return _save(folder, {"index.html": build_paper_simulation_page(found)})
    return _write(folder, found.title or found.name, lake, [found], concluding=False)


def _study(lake: Lake) -> list[Experiment]:
    """The study's figures as they were run last."""
    names = {row["name"] for row in kept.list_stored_results(lake.place.root)}
    wanted = [f"{one.name}{more}" for more in ("", " (study window)") for one in list_study_figures()]
    found = [kept.find_stored_result(lake, name) for name in wanted if name in names]
    if not found:
        raise UsageError("no figure was run", where=str(lake.place.root), remedy=f"fairlead simulate {STUDY}")
    return [one for one in found if isinstance(one, Experiment)]


def _write(folder: Path, title: str, lake: Lake, experiments: Sequence[Experiment], *, concluding: bool) -> list[Path]:
    answer = build_experiments_summary(lake, experiments, concluding=concluding)
    drawn: list[list[tuple[str, str]]] = []
    files: dict[str, str] = {}
    for told, experiment in zip(answer.experiments, experiments, strict=True):
        name = f"{told.name}-study" if told.window == "study" else told.name
        made = [
            ("" if has_picture_title(one) else one.title, draw_picture(one, title=told.name)) for one in told.pictures
        ]
        made += list(_runs(experiment))
        drawn.append(made)
        stem = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).lstrip(".")[:100]
        files |= {f"{stem}-{number}.svg": build_svg_file(one) for number, (_, one) in enumerate(made, 1)}
    return _save(folder, {"index.html": build_simulation_page(title, answer, drawn), **files})


def _runs(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The first set of a small workload under each policy, as lanes."""
    workload = experiment.workload
    if not isinstance(workload, ListedWorkload) or len(workload.rows) > LANES:
        return
    case = build_case(experiment)
    names = [one.name or str(number) for number, one in enumerate(workload.rows)]
    one = prepare_case_set(case, len(names), None, 0)
    phases = np.diff(one.cycles.first_phase)
    for name in experiment.chosen:
        decision = find_registered_policy(name).decide(
            one.known["exact"], one.pool, build_case_stream(case.seed, len(names), None, 0, name)
        )
        outcome, _, _ = simulate_case_decision(case, one, decision, (case.seed, len(names), 0, 0), logged=True)
        alone = one.true.time_s[np.arange(len(names)), np.maximum(decision.choice, 0)] / phases
        rounds = (one.true.compute_s + alone * phases).max()
        until_s = float(min(case.window.until_s, ROUNDS * rounds))
        rows = [(int(a), float(b), float(e), float(alone[int(a)])) for a, _, b, e in outcome.log]
        title = f"I/O of one set under {name}, simulated"
        yield title, draw_run_picture(names, rows, until_s, title=title)


def _save(folder: Path, files: dict[str, str]) -> list[Path]:
    paths = [folder / name for name in files]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, files.values(), strict=True):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot be written: {(error.strerror or str(error)).lower()}", where=str(folder), remedy="--out DIR"
        ) from error
    return paths
