"""`fairlead simulate`: policies on published or own workloads. Not here: what is simulated, and where it is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead.cli.options import FILE, FOLDER, add_options, add_wait_option, json_option
from fairlead.cli.printing import is_printing_quiet, print_json, print_message
from fairlead.core.errors import UsageError
from fairlead.decide.sim.experiments.papers import OURS, PAPERS, STUDY

if TYPE_CHECKING:
    from fairlead.decide.sim.experiments.experiment_spec import Experiment
    from fairlead.decide.sim.experiments.results import SimulationAnswer

F = TypeVar("F", bound=Callable[..., Any])
_lake_option = click.option(
    "--lake",
    "root",
    type=FOLDER,
    default=Path("simulations"),
    show_default=True,
    metavar="DIR",
    help="Lake for the results, created if missing. Results already in it are not simulated again.",
)
_seed_option = click.option(
    "--seed", type=click.IntRange(0, (1 << 63) - 1), metavar="N", help="Seed of everything random."
)
_wait_option = add_wait_option("How long to wait while another run writes to the lake.")
_run_options = add_options(
    (
        _lake_option,
        click.option(
            "--sets",
            type=click.IntRange(1, 100_000),
            metavar="N",
            help="Sets of applications per point. Default: as in the experiment.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1, 1024),
            metavar="N",
            help="Worker processes. Default: one per processor. Results do not depend on it.",
        ),
        click.option(
            "--dask",
            metavar="WHERE",
            help="Run on Dask workers: local (on this machine), or a scheduler's tcp://HOST:PORT.",
        ),
        _seed_option,
        _wait_option,
        json_option,
    )
)


class _Experiments(click.Group):
    """A group that takes the path of a spec where a command's name is expected."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A word that is no command and looks like a file is `run` of it."""
        word = args[0] if args else ""
        if word and word not in self.commands and not word.startswith("-"):
            if word.endswith(".toml") or Path(word).exists():
                args = ["run", *args]
            else:
                from difflib import get_close_matches

                near = get_close_matches(word, list(self.commands), n=1)
                hint = f"perhaps {near[0]}" if near else "give a TOML file, or a name of `fairlead simulate list`"
                raise UsageError(f"there is no experiment {word!r}", remedy=hint)
        return super().resolve_command(ctx, args)


@click.group(cls=_Experiments)
def simulate() -> None:
    """Policies on published or own workloads: `fairlead simulate SPEC.toml`, or an experiment by name.

    Exact simulation, event by event. The same seed gives the same results on any number of processes. A killed run
    continues where it stopped.
    """


@simulate.command("run")
@click.argument("spec", type=FILE, metavar="SPEC.toml")
@_run_options
def simulate_spec(
    spec: Path,
    root: Path,
    sets: int | None,
    jobs: int | None,
    dask: str | None,
    seed: int | None,
    wait_s: float,
    as_json: bool,
) -> None:
    """An experiment of your own. `fairlead simulate SPEC.toml` is the same."""
    import msgspec

    from fairlead.decide.sim.runs.run_experiments import read_experiment_file

    experiment = read_experiment_file(spec)
    changed: dict[str, int] = {}
    changed |= {} if sets is None else {"sets": sets}
    changed |= {} if seed is None else {"seed": seed}
    _run([msgspec.structs.replace(experiment, **changed)], root, jobs, dask, wait_s, as_json, experiment.name)


@simulate.command(STUDY)
@click.option("--figure", type=int, metavar="N", help="Only this figure: 5 to 10, 12 or 13.")
@click.option(
    "--window",
    type=click.Choice(["steady", "study", "both"]),
    default="steady",
    show_default=True,
    help="What is measured: from 5,000 to 30,000 s of steady state, or as the study does: from when each "
    "application has completed a phase until the first one ends.",
)
@click.option(
    "--applications",
    "-k",
    type=click.IntRange(1),
    multiple=True,
    metavar="K",
    help="Applications of a set. Repeatable. Default: 30, 60 and 100.",
)
@_run_options
def simulate_scheduling_study(
    figure: int | None,
    window: str,
    applications: tuple[int, ...],
    root: Path,
    sets: int | None,
    jobs: int | None,
    dask: str | None,
    seed: int | None,
    wait_s: float,
    as_json: bool,
) -> None:
    """The figures and conclusions of the scheduling study (Bandet, Boito, Pallez 2024).

    Reports for each conclusion whether it is reproduced, and the figures it is based on.
    """
    from fairlead.decide.sim.experiments.experiment_spec import check_experiment_spec
    from fairlead.decide.sim.experiments.scheduling_study import build_study

    windows = ("steady", "study") if window == "both" else (window,)
    experiments = build_study(figure=figure, sets=sets, seed=seed, windows=windows, applications=applications)
    for one in experiments:
        check_experiment_spec(one, one.name)
    name = STUDY if figure is None else f"figure-{figure}"
    _run(experiments, root, jobs, dask, wait_s, as_json, name, concluding=figure is None)


@simulate.command(OURS)
@click.option(
    "--applications",
    "-k",
    type=click.IntRange(1),
    multiple=True,
    metavar="K",
    help="Applications of a set. Repeatable. Default: 30, 60 and 100.",
)
@_run_options
def simulate_ours(
    applications: tuple[int, ...],
    root: Path,
    sets: int | None,
    jobs: int | None,
    dask: str | None,
    seed: int | None,
    wait_s: float,
    as_json: bool,
) -> None:
    """Compare our joint policies with the published ones: slowdown, its 90th percentile and idle time over the load.

    Every published allocation under both greedy placements. 20 sets per point; takes some minutes.
    """
    import msgspec

    from fairlead.decide.sim.experiments.experiment_spec import check_experiment_spec
    from fairlead.decide.sim.experiments.scheduling_study import build_joint_study

    found = build_joint_study()
    workload = msgspec.structs.replace(found.workload, applications=applications) if applications else found.workload
    found = msgspec.structs.replace(
        found, workload=workload, sets=found.sets if sets is None else sets, seed=found.seed if seed is None else seed
    )
    check_experiment_spec(found, found.name)
    _run([found], root, jobs, dask, wait_s, as_json, OURS)


def _paper(name: str) -> click.Command:
    paper = PAPERS[name]

    def run_paper(quick: bool, root: Path, seed: int | None, wait_s: float, as_json: bool) -> None:
        from fairlead.cli.simulate_results import print_simulate_paper_results
        from fairlead.decide.sim.runs.run_experiments import run_paper_experiment

        with _progress(name) as tell:
            told = run_paper_experiment(
                name, root, seed=1 if seed is None else seed, quick=quick, wait_s=wait_s, tell=tell
            )
        if as_json:
            print_json(told)
        else:
            print_simulate_paper_results(told)

    text = f"{paper.summary[0].upper()}{paper.summary[1:]} ({paper.source})."
    command: click.Command = click.command(name, help=text)(run_paper)
    quick = click.option("--quick", is_flag=True, help="Fewer repetitions.")
    for option in (quick, _lake_option, _seed_option, _wait_option, json_option):
        command = option(command)
    return command


for _name in PAPERS:
    simulate.add_command(_paper(_name))


@simulate.command("trace")
@click.argument("file", type=FILE, metavar="FILE")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="A path policy or any other. Repeatable. Default: static-map and dfra.",
)
@click.option("--forwarders", type=click.IntRange(1, 100_000), metavar="N", help="Forwarders of the machine.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), metavar="D", help="Only jobs of the first D days.")
@_lake_option
@_seed_option
@_wait_option
@json_option
def simulate_trace(
    file: Path,
    policies: tuple[str, ...],
    forwarders: int | None,
    days: float | None,
    root: Path,
    seed: int | None,
    wait_s: float,
    as_json: bool,
) -> None:
    """Jobs of a trace under path policies: SWF, or a table with I/O totals (CSV, as Darshan's).

    On a machine like TaihuLight. What the trace lacks is assumed by documented rules, which are printed.
    """
    from fairlead.cli.simulate_results import print_simulate_paper_results
    from fairlead.decide.sim.runs.run_experiments import run_trace_experiment

    chosen = policies or ("static-map", "dfra")
    with _progress(file.name) as tell:
        told = run_trace_experiment(
            file,
            chosen,
            root,
            seed=1 if seed is None else seed,
            forwarders=forwarders,
            days=days,
            wait_s=wait_s,
            tell=tell,
        )
    if as_json:
        print_json(told)
    else:
        print_simulate_paper_results(told)


@simulate.command("list")
@_lake_option
@json_option
def list_simulate_experiments(root: Path, as_json: bool) -> None:
    """List experiments, policies, and results in the lake."""
    from fairlead.cli.simulate_results import list_simulate_results
    from fairlead.decide.registered_policies import list_registered_policies
    from fairlead.decide.sim.runs.stored_results import list_stored_results

    kept = list_stored_results(root)
    if as_json:
        print_json(
            {
                "schema": "fairlead.simulations/1",
                "policies": list_registered_policies(),
                "experiments": {
                    STUDY: "every figure",
                    OURS: "ours beside the published policies",
                    **{name: paper.summary for name, paper in PAPERS.items()},
                },
                "results": kept,
            }
        )
        return
    list_simulate_results(kept)


@simulate.command("plot")
@click.argument("result", metavar="RESULT")
@click.option(
    "--out",
    type=FOLDER,
    metavar="DIR",
    help="Folder for the page and its pictures. Default: RESULT in the current folder.",
)
@_lake_option
def plot_simulate_result(result: str, out: Path | None, root: Path) -> None:
    """Plot RESULT: one page, and each picture as SVG.

    RESULT is the name of an experiment that was run (`fairlead simulate list`), scheduling-study, or its TOML file.
    """
    from fairlead.show.report.simulation.plotting import plot_simulation_result

    pages = plot_simulation_result(result, root, out or Path(Path(result).stem.lstrip(".") or "plot"))
    beside = len(pages) - 1
    print_message(f"{beside} picture{'s' * (beside != 1)} beside it")
    click.echo(str(pages[0]))


def _run(
    experiments: list[Experiment],
    root: Path,
    jobs: int | None,
    dask: str | None,
    wait_s: float,
    as_json: bool,
    name: str,
    *,
    concluding: bool = False,
) -> None:
    from fairlead.decide.sim.runs.run_experiments import open_experiment_crew, run_experiments
    from fairlead.decide.sim.runs.summary import build_experiments_summary

    with open_experiment_crew(dask, jobs) as workers, _progress(name) as tell:
        ran = run_experiments(experiments, root, workers, wait_s=wait_s, tell=tell)
    found: SimulationAnswer = build_experiments_summary(ran.lake, ran.experiments, concluding=concluding)
    from fairlead.cli.simulate_results import print_simulate_results

    if as_json:
        print_json(found)
    else:
        print_simulate_results(found)
    before = f", {ran.before:,} were already there" if ran.before else ""
    print_message(
        f"{ran.made:,} runs simulated{before}; kept in {root}; pictures: fairlead simulate plot {name} --lake {root}"
    )


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal, nothing in a pipe."""
    if is_printing_quiet() or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)
