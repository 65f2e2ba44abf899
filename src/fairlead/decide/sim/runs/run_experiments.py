"""Runs experiments to their end: pieces to workers, rows to the lake as they come, what is there already left out.

Killed at any moment, the next run makes only the pieces that were under way. Not here: the pieces
(`fairlead.decide.sim.experiments.pieces`), workers (`start_processes`, `fairlead.explain.batch.workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fairlead.core.errors import UsageError
from fairlead.decide.sim.experiments.cases import Row
from fairlead.decide.sim.experiments.experiment_spec import Experiment, read_experiment_spec
from fairlead.decide.sim.experiments.papers import PAPERS, PaperReport
from fairlead.decide.sim.experiments.pieces import Piece, cut_pieces, list_piece_keys, simulate_piece
from fairlead.decide.sim.experiments.replay_spec import OwnPast, Swf, Table
from fairlead.decide.sim.runs import stored_results as kept_results
from fairlead.decide.sim.runs.processes import count_processors, start_processes
from fairlead.decide.sim.runs.replay_pieces import replay_piece, resolve_replay_workload
from fairlead.explain.batch.workers import Workers, start_workers
from fairlead.store.lake import Lake

Tell = Callable[[int, int], None]
"""Hears of runs done and runs in all."""


@dataclass(frozen=True)
class Ran:
    """How a run went: runs made now, those that were there before, and experiments as they were run."""

    made: int
    before: int
    lake: Lake
    experiments: tuple[Experiment, ...]


def run_experiments(
    experiments: Sequence[Experiment], root: Path, crew: Workers, *, wait_s: float = 0.0, tell: Tell | None = None
) -> Ran:
    """Runs what is lacking of experiments into the lake in `root` (made if there is none). Raises LakeError,
    LakeBusyError, what policies raise."""
    experiments = [resolve_replay_workload(one) for one in experiments]
    lake = Lake.open(root, create=True)
    wanted = list_piece_keys(experiments)
    with lake.open_writer(wait_s=wait_s) as writer:
        before = kept_results.find_stored_result_rows(lake, {key[0] for key in wanted}) & wanted.keys()
        left = cut_pieces(wanted, before)
        made = 0
        if tell is not None:
            tell(len(before), len(wanted))
        if left:
            for piece, rows in crew.run_each(_work_piece, left):
                kept_results.store_result_rows(writer, piece, rows)
                made += len(rows)
                if tell is not None:
                    tell(len(before) + made, len(wanted))
        kept_results.store_whole_results(writer, experiments)
    return Ran(made, len(before), lake, tuple(experiments))


def _work_piece(piece: Piece) -> list[Row]:
    """What a worker does: sets of applications, or a replay."""
    return replay_piece(piece) if isinstance(piece.case.workload, OwnPast | Swf | Table) else simulate_piece(piece)


def run_paper_experiment(
    name: str, root: Path, *, seed: int, quick: bool, wait_s: float = 0.0, tell: Tell | None = None
) -> PaperReport:
    """Runs the experiment of another paper and keeps what it told in the lake. Raises LakeError."""
    lake = Lake.open(root, create=True)
    with lake.open_writer(wait_s=wait_s) as writer:
        answer = PAPERS[name].load_comparison()(seed=seed, quick=quick, tell=tell or (lambda _done, _all: None))
        kept_results.store_paper_result(writer, name, answer, seed)
    return answer


def run_trace_experiment(
    path: Path,
    policies: Sequence[str],
    root: Path,
    *,
    seed: int,
    forwarders: int | None = None,
    days: float | None = None,
    wait_s: float = 0.0,
    tell: Tell | None = None,
) -> PaperReport:
    """Replays the jobs of a trace and keeps what came of it under the file's name. Raises UsageError, InputError."""
    from fairlead.decide.sim.experiments.trace import compare_on_trace

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), remedy="check the path") from error
    answer = compare_on_trace(
        data,
        path.name,
        policies,
        seed=seed,
        forwarders=forwarders,
        days=days,
        tell=tell or (lambda _done, _all: None),
    )
    with Lake.open(root, create=True).open_writer(wait_s=wait_s) as writer:
        kept_results.store_paper_result(writer, path.name, answer, seed)
    return answer


@contextmanager
def open_experiment_crew(dask: str | None, jobs: int | None) -> Iterator[Workers]:
    """Who works: processes of this machine, or Dask's: `local`, or a scheduler's address."""
    if dask is None:
        with start_processes(jobs or count_processors()) as found:
            yield found
        return
    with start_workers("processes" if dask == "local" else dask, count=jobs) as found:
        yield found


def read_experiment_file(path: Path) -> Experiment:
    """An experiment from a file; what it names besides lies seen from there. Raises UsageError, ConfigError."""
    try:
        found = read_experiment_spec(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError("is not UTF-8 text", where=str(path), remedy="give a TOML file") from error
    workload, beside = found.workload, path.parent.absolute()
    if isinstance(workload, Swf | Table):
        return msgspec.structs.replace(
            found, workload=msgspec.structs.replace(workload, path=str(beside / workload.path))
        )
    if isinstance(workload, OwnPast):
        site = str(beside / workload.site) if workload.site else ""
        there = msgspec.structs.replace(workload, lake=str(beside / workload.lake), site=site)
        return msgspec.structs.replace(found, workload=there)
    return found
