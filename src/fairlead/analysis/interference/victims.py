"""Who was hurt by a given job: the same evidence as of who hurt whom, read the other way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairlead.analysis.interference.scene import Attribution, Victim
from fairlead.model.finding import Subject


@dataclass(frozen=True, kw_only=True)
class Hurt:
    """One phase of another job that the job in question took time from. `named`: it was accused there; else it is below
    the threshold of accusation, and only worth a look."""

    victim: Victim
    cost_s: float
    score: float
    named: bool
    verdict: str
    at: Sequence[Subject]


def victims_of(
    job_id: str, attributed: Iterable[tuple[Victim, Attribution]], *, cluster: str | None = None, least_s: float = 0.0,
    named_only: bool = False,
) -> list[Hurt]:  # fmt: skip
    """Phases this job (of `cluster`, where one is given) took more than `least_s` seconds from, the costliest first."""
    found = []
    for victim, said in attributed:
        if victim.job_id == job_id or (cluster is not None and victim.cluster != cluster):
            continue
        many = said.verdict == "many_neighbours"
        for place, one in enumerate(said.culprits):
            if one.who != Subject("job", job_id) or one.cost_s is None or one.cost_s <= least_s:
                continue
            named = said.accused and (many or place == 0)
            if named or not named_only:
                found.append(Hurt(
                    victim=victim, cost_s=one.cost_s, score=one.score, named=named, verdict=one.verdict, at=one.at
                ))  # fmt: skip
    return sorted(found, key=lambda one: (-one.cost_s, one.victim.job_id, one.victim.start_ns, one.victim.kind))
