"""A trace of jobs (SWF, or a table with I/O totals) replayed under path policies: one line a policy and measure.

What a trace does not hold is assumed by stated rules, which are told. Not here: reading files, the replay itself
(`fairlead.decide.sim.replay`), a site's own history (`fairlead whatif`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial

from fairlead.core.errors import UsageError
from fairlead.decide.registered_policies import (
    find_registered_path_policy,
    list_registered_path_policies,
    list_registered_policies,
)
from fairlead.decide.sim.experiments.dfra import predict_true_dfra_jobs
from fairlead.decide.sim.experiments.papers import Line, PaperReport
from fairlead.decide.sim.platform import build_taihulight_platform
from fairlead.decide.sim.replay.replay import replay_jobs
from fairlead.decide.sim.replay.replay_measures import summarise_replay_measures
from fairlead.decide.sim.workloads import swf, tables

DAY_S = 86_400.0
_GZIP = b"\x1f\x8b"


def compare_on_trace(
    data: bytes,
    where: str,
    policies: Sequence[str],
    *,
    seed: int,
    forwarders: int | None = None,
    days: float | None = None,
    tell: Callable[[int, int], None],
) -> PaperReport:
    """The jobs of a trace under each policy, on a machine like TaihuLight with that many forwarders (None: its own), as
    far as they begin in the first `days`. Raises UsageError for a policy there is none of, InputError for a trace that
    cannot be used."""
    if days is not None and not days > 0:
        raise UsageError(f"{days:g} is not a number of days", where="--days", remedy="a number above 0")
    known = [*list_registered_path_policies(), *list_registered_policies()]
    for name in policies:
        if name not in known:
            near = get_close_matches(name, known, n=3)
            raise UsageError(
                f"there is no policy {name!r}",
                where="--policy",
                remedy=f"perhaps {', '.join(near)}" if near else f"one of {', '.join(list_registered_path_policies())}",
            )
    machine = build_taihulight_platform() if forwarders is None else build_taihulight_platform(forwarders=forwarders)
    taken = (
        tables.read_workload_job_table(data, machine, where=where)
        if _is_table(data)
        else swf.read_swf(data, seed, machine=machine, where=where)
    )
    drawn = taken.season
    until_s = float("inf") if days is None else days * DAY_S
    lines: list[Line] = []

    def told(number: int, done: int, whole: int) -> None:
        tell(number * whole + done, len(policies) * whole)

    for number, name in enumerate(policies):
        out = replay_jobs(
            drawn.jobs,
            machine,
            find_registered_path_policy(name),
            seed=seed,
            expected_of=predict_true_dfra_jobs(drawn),
            progress=partial(told, number),
            until_s=until_s,
        )
        found = summarise_replay_measures(drawn.jobs, out)
        lines += [
            Line(name, "jobs that ended", float(found.ended), unit="jobs"),
            Line(name, "mean I/O slowdown", _known(found.mean)),
            Line(name, "90th percentile of slowdown", _known(found.p90)),
            Line(name, "mean stretch", _known(found.stretch)),
            Line(name, "cores waiting in I/O", _known(found.waiting_core_hours), unit="core-hours"),
            Line(name, "of these beyond I/O alone", _known(found.lost_core_hours), unit="core-hours"),
        ]
    counts = f"{len(machine.forwarders)} forwarders, {len(machine.targets)} targets"
    notes = (f"{taken.told}; seed {seed}; {counts}", *taken.assumed)
    return PaperReport(paper=f"jobs of {where}", source="a trace, replayed", lines=tuple(lines), notes=notes)


def _is_table(data: bytes) -> bool:
    """Whether a trace is a table with a row of names: of SWF the first line is a comment or numbers."""
    if data[:2] == _GZIP:
        import zlib

        data = zlib.decompressobj(31).decompress(data, 1 << 16)
    head = data[: 1 << 16].lstrip().partition(b"\n")[0]
    return not head.startswith(b";") and b"," in head


def _known(value: float) -> float | None:
    return value if value == value else None  # NaN is not itself
