"""MCKP's comparison (Bez et al., IPDPS 2021): what sets of applications reach on a pool of forwarders.

All of a set do I/O at once and each has its forwarders for itself. Not here: the live runs of the paper.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairlead.policies.allocation.contract import NONE, Applications, Pool
from fairlead.policies.allocation.mckp import Mckp, MckpDirect
from fairlead.policies.allocation.simple import Oracle, Process, Size, Static
from fairlead.policies.placement.applications import RoundRobinPlacing
from fairlead.sim.experiments.papers import Line, Told
from fairlead.sim.workloads.profiles import MIB, Profiles, forge

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
TOGETHER = 16
"""Applications of a set."""
POOLS = (8, 16, 24, 32, 48, 64, 96, 128)
"""Forwarders there are."""
SETS, QUICK_SETS = 1000, 100
BEST_COUNTS = ((0, 62), (1, 12), (2, 83), (4, 15), (8, 17))
"""Of the 189 scenarios, how many are fastest with so many forwarders (Bez et al., PDSW 2020): of the largest of the
repetitions, not of their medians."""


Chooses = Callable[[Applications, Pool, np.random.Generator], I64]


def _one(applications: Applications, pool: Pool, rng: np.random.Generator) -> I64:  # noqa: ARG001
    return np.zeros(len(applications), np.int64)


def _zero(applications: Applications, pool: Pool, rng: np.random.Generator) -> I64:  # noqa: ARG001
    return np.full(len(applications), NONE, np.int64)


def policies() -> dict[str, Chooses]:
    """The paper's, by its names: ZERO sends everybody straight to the file system, ONE gives a forwarder each. MCKP may
    send applications straight to the file system, as ORACLE may; MCKP >= 1 may not."""
    return {
        "ZERO": _zero, "ONE": _one, "STATIC": Static().choose, "SIZE": Size().choose, "PROCESS": Process().choose,
        "MCKP": MckpDirect().choose, "MCKP >= 1": Mckp().choose, "ORACLE": Oracle(direct=True).choose,
    }  # fmt: skip


def together(profiles: Profiles, rng: np.random.Generator) -> Applications:
    """A set: scenarios drawn with putting back; what they move and compute does not count here. Cores are nodes."""
    own = profiles.only(rng.integers(0, len(profiles), TOGETHER))
    return Applications.of(
        own.counts, own.bandwidth, np.ones(TOGETHER), np.zeros(TOGETHER), own.nodes, nodes=own.nodes,
        processes=own.processes, direct=own.direct,
    )  # fmt: skip


def reached(applications: Applications, choice: I64, pool: Pool) -> float:
    """Bytes/s of all together. Where more forwarders are granted than there are, they are shared, one application after
    the other in turn: n transfers, the slowest of them through the forwarder with the most users, decide."""
    none = choice < 0
    alone = np.where(none, applications.direct, applications.bandwidth[np.arange(len(choice)), choice])
    resources = RoundRobinPlacing().place(applications, choice, pool, np.random.default_rng(0))
    used = resources >= 0
    users = np.bincount(resources[used], minlength=len(pool))
    beside = np.where(used, users[resources], 1).max(axis=1)
    return float((alone / beside).sum())


def bandwidths(profiles: Profiles, seed: int, sets: int, tell: Callable[[int, int], None]) -> dict[str, F64]:
    """(POOLS, sets) bytes/s of each policy; the same sets for all. The machine has as many nodes as the largest set
    could ask for: STATIC deals its forwarders by them. ORACLE knows no limit of the pool."""
    compared = policies()
    out = {name: np.zeros((len(POOLS), sets)) for name in compared}
    nodes = float(TOGETHER * profiles.nodes.max())
    endless = Pool.of(TOGETHER * int(profiles.counts.max()), nodes)
    for i in range(sets):
        rng = np.random.default_rng((seed, i))
        applications = together(profiles, rng)
        for p, forwarders in enumerate(POOLS):
            pool = Pool.of(forwarders, nodes)
            for name, choose in compared.items():
                own = endless if name == "ORACLE" else pool
                out[name][p, i] = reached(applications, choose(applications, own, rng), own)
        tell(i + 1, sets)
    return out


def best_counts(profiles: Profiles) -> dict[int, int]:
    """How many scenarios are fastest with each number of forwarders; 0: straight."""
    all_of = np.column_stack([profiles.direct, profiles.bandwidth])
    best = np.concatenate([[0], profiles.counts])[np.nanargmax(all_of, axis=1)]
    return {int(n): int((best == n).sum()) for n in (0, *profiles.counts.tolist())}


def compared(*, seed: int, quick: bool, tell: Callable[[int, int], None]) -> Told:
    """Medians over sets by pool and policy, and how MCKP stands beside STATIC. See `papers.Compares`."""
    sets = QUICK_SETS if quick else SETS
    counted = best_counts(forge("max"))
    lines = [
        Line("189 scenarios", f"fastest with {n} forwarders", counted[n], published, 0.0, "scenarios")
        for n, published in BEST_COUNTS
    ]
    for place, (statistic, of) in enumerate((("max", "largest"), ("median", "medians"))):

        def told(done: int, out_of: int, place: int = place) -> None:
            tell(place * out_of + done, 2 * out_of)

        lines += _lines(bandwidths(forge(statistic), seed, sets, told), of, every=statistic == "max")
    lines.append(Line("live runs", "MCKP over STATIC, at most", None, 1.85, note="real applications: not simulated"))
    drawn = (
        f"{sets:,} sets of {TOGETHER} scenarios of FORGE, all doing I/O at once: with the largest of a scenario's "
        f"repetitions, and with their medians. Seed {seed}."
    )
    ours = (
        f"Sets of {TOGETHER}, the pools, and the machine STATIC deals by ({TOGETHER} times the most nodes of a "
        "scenario) are our setting. The medians of the paper are not known here, so none is compared with."
    )
    shared = "Where a policy grants more forwarders than there are, they are shared."
    source = "Bez et al., IPDPS 2021; FORGE: Bez et al., PDSW 2020"
    return Told(paper="mckp", source=source, lines=tuple(lines), notes=(drawn, ours, shared))


def _lines(found: dict[str, F64], of: str, *, every: bool) -> list[Line]:
    """Of each pool; `every`: the medians of all policies as well."""
    lines = []
    for p, forwarders in enumerate(POOLS):
        setting = f"{forwarders} forwarders, {of} of repetitions"
        median = {name: float(np.median(column[p])) for name, column in found.items()}
        if every:
            lines += [Line(setting, f"{name}, median", value / MIB, unit="MiB/s") for name, value in median.items()]
        gain = found["MCKP"][p] / found["STATIC"][p]
        lines += [
            Line(setting, "MCKP over STATIC, medians", median["MCKP"] / median["STATIC"], wanted="> 1"),
            Line(setting, "MCKP over STATIC, least of the sets", float(gain.min()), wanted=">= 1"),
            Line(setting, "MCKP over STATIC, most of the sets", float(gain.max())),
            Line(setting, "MCKP >= 1 over STATIC, medians", median["MCKP >= 1"] / median["STATIC"], wanted=">= 0.99"),
            Line(setting, "MCKP over ORACLE, medians", median["MCKP"] / median["ORACLE"], wanted="<= 1"),
        ]
    setting = f"{POOLS[-1]} forwarders, {of} of repetitions"
    note = f"enough for 8 each of {TOGETHER}: the pool is no limit"
    least = float((found["MCKP"][-1] / found["ORACLE"][-1]).min())
    return [*lines, Line(setting, "least of MCKP over ORACLE", least, wanted=">= 0.999999", note=note)]
