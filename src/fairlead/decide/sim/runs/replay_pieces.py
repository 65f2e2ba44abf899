"""Jobs of an experiment that are replayed: read from a file or a lake, once a process; and pieces of it, for workers.

Not here: what a row says (`sim.experiments.experiment_replay`), reading a past (`fairlead.decide.whatif`).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np

from fairlead.core.errors import ConfigError, FairleadError
from fairlead.core.model.site import Site
from fairlead.decide.sim.experiments.cases import Row
from fairlead.decide.sim.experiments.experiment_replay import Source, build_replay_row, read_replay_trace
from fairlead.decide.sim.experiments.experiment_spec import Experiment
from fairlead.decide.sim.experiments.pieces import Piece
from fairlead.decide.sim.experiments.replay_spec import AS_IT_WAS, OwnPast, Replay, Swf, Table, parse_replay_moment
from fairlead.decide.sim.replay.jobs import Jobs, ReplayResult
from fairlead.decide.sim.workloads.history import build_history_jobs, build_history_phases, drop_unsound_history
from fairlead.decide.sim.workloads.history_curves import learn_curves
from fairlead.decide.whatif.past_jobs import read_past_jobs
from fairlead.decide.whatif.past_replay import OnLayer, build_recorded_past_replay, replay_past
from fairlead.decide.whatif.past_site import build_past_site, find_known_past_site
from fairlead.explain.diagnosing.site_file import read_site_file_facts
from fairlead.explain.questions.span import Span
from fairlead.store.lake import Lake


def resolve_replay_workload(experiment: Experiment) -> Experiment:
    """The experiment with what is in its jobs: their digest and number, and what was dropped and assumed in its note.
    Raises ConfigError naming the field where jobs cannot be read, are none, or are others than it says."""
    workload = experiment.workload
    if not isinstance(workload, Swf | Table | OwnPast):
        return experiment
    _read.cache_clear()  # what lies there may be other than it was
    field = "workload.lake" if isinstance(workload, OwnPast) else "workload.path"
    try:
        source = _source(workload, (experiment.seed, 0))
    except FairleadError as error:
        what = f"{field}: {error.what}" + (f" ({error.where})" if isinstance(workload, OwnPast) and error.where else "")
        raise ConfigError(what, where=experiment.name, remedy=error.remedy) from error
    if not len(source.jobs):
        raise ConfigError(
            "workload.days: no job begins in these days", where=experiment.name, remedy="more days, or leave it out"
        )
    for name, here in (("content", source.content), ("jobs", len(source.jobs))):
        if (said := getattr(workload, name)) and said != here:
            raise ConfigError(
                f"workload.{name}: the jobs ({here}) differ from the expected ones ({said})",
                where=experiment.name,
                remedy="leave it out, or give the expected jobs",
            )
    note = "; ".join(one for one in (experiment.note, *source.told) if one)
    whole = msgspec.structs.replace(workload, content=source.content, jobs=len(source.jobs))
    return msgspec.structs.replace(experiment, workload=whole, note=note)


def replay_piece(piece: Piece) -> list[Row]:
    """All rows of a piece. Raises ConfigError when its jobs have changed since."""
    workload = piece.case.workload
    if not isinstance(workload, Swf | Table | OwnPast):
        raise TypeError("sets of applications cannot be replayed")
    rows = []
    for number in piece.sets:
        source = _source(workload, (piece.case.seed, number))
        if source.content != workload.content:
            raise ConfigError("workload: its jobs have changed", where=workload.content, remedy="run it again")
        for name, _ in piece.wanted:
            found = source.play(name, piece.case.seed * 1_000_003 + number)
            rows.append(build_replay_row(piece.case, number, name, source.jobs, source.machine, found))
    return rows


def _source(workload: Replay, seed: tuple[int, int]) -> Source:
    # What a table and a past hold does not hang on the seed: it is read once.
    plain = msgspec.structs.replace(workload, content="", jobs=0)
    return _read(plain, seed if isinstance(workload, Swf) else (0, 0))


@lru_cache(maxsize=2)
def _read(workload: Replay, seed: tuple[int, int]) -> Source:
    if isinstance(workload, OwnPast):
        return _past(workload)
    path = Path(workload.path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}", remedy="check the path"
        ) from error
    return read_replay_trace(workload, data, seed, path.name)


def _past(workload: OwnPast) -> Source:
    lake = Lake.open(Path(workload.lake))
    span = Span(parse_replay_moment(workload.since), parse_replay_moment(workload.until))
    facts = read_site_file_facts(workload.site)
    peaks = {} if facts is None else dict(facts.peaks)
    past = read_past_jobs(lake, span)
    fit = drop_unsound_history(past.runs, past.bursts)
    known, defaults = find_known_past_site(lake, span, past, peaks)
    phases = build_history_phases(fit.runs, fit.bursts)
    curves = learn_curves(fit.runs, phases, defaults)
    history = build_history_jobs(fit.runs, phases, curves)
    site = build_past_site(known, past, curves, forwarders=workload.forwarders, targets=workload.targets)
    rest = build_recorded_past_replay(
        past, fit.row, site, forwarders=workload.forwarders is None, targets=workload.targets is None
    )
    layer = workload.layer or ("forwarders" if len(site.forwarders) else "targets")

    def play(name: str, seed: int) -> ReplayResult:
        from fairlead.decide.registered_policies import find_registered_path_policy

        policy = rest if name == AS_IT_WAS else find_registered_path_policy(name)
        if name != AS_IT_WAS and layer != "both":
            policy = OnLayer(policy, rest, layer)
        return replay_past(name, name, policy, past, fit.row, fit.runs, history, site, seed=seed).replayed

    dropped = [f"{one.count:,} {one.of} dropped: {one.why}" for one in fit.dropped]
    quiet = [f"{fit.quiet:,} jobs without I/O left out"] if fit.quiet else []
    content = _digest(history.jobs, [_described(site), repr(rest.grants)])
    told = (f"{len(history.jobs):,} jobs of {workload.since} to {workload.until}", *dropped, *quiet)
    return Source(jobs=history.jobs, machine=site, play=play, content=content, told=told)


def _described(site: Site) -> str:
    """The figures of a site that a replay takes, as text."""
    return repr((site.nodes, site.cores_per_node, site.targets_per_server, site.client_bandwidth, site.whole.tolist()))


def _digest(jobs: Jobs, more: list[str]) -> str:
    """Of all columns that a replay takes."""
    mark = blake2b(digest_size=8)
    for name in sorted(jobs.__dataclass_fields__):
        column = getattr(jobs, name)
        mark.update(name.encode() + (b"" if column is None else np.ascontiguousarray(column).tobytes()))
    for text in more:
        mark.update(text.encode())
    return mark.hexdigest()
