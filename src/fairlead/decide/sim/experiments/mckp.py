"""MCKP's comparison (Bez et al., IPDPS 2021, section 3.2): what sets of applications reach on a pool of forwarders.

All of a set do I/O at once; what they reach is the sum of what each reaches alone with its number of forwarders. Not
here: the live runs of the paper.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.allowed_counts import find_allowed_counts, find_nearest_allowed_count
from fairlead.decide.policies.allocation.contract import NONE, Applications, build_allocation_pool
from fairlead.decide.policies.allocation.mckp import Mckp, MckpDirect
from fairlead.decide.policies.allocation.published import Oracle, Process, Size
from fairlead.decide.sim.experiments.papers import Line, PaperReport
from fairlead.decide.sim.workloads.profiles import MIB, Profiles, count_best_profiles, read_forge_profiles

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Chooses = Callable[[Applications, Layer, np.random.Generator], I64]
TOGETHER = 16
"""Applications of a set."""
POOLS = (16, 24, 32, 48, 56, 64, 96, 128)
"""Forwarders there are."""
MACHINE_NODES = 480
"""Compute nodes STATIC deals forwarders by. The paper does not print it; its ratios do: 24, 64 and 128 forwarders are
called 1:20, 1:8 and 1:4 of the nodes."""
SETS, QUICK_SETS = 10_000, 1_000
BEST_COUNTS = ((0, 62), (1, 12), (2, 83), (4, 15), (8, 17))
"""Of the 189 scenarios, how many are fastest with so many forwarders (section 2). They come out of the largest of the
repetitions."""
ENOUGH = 56
"""Forwarders with which MCKP reaches what ORACLE does."""
OVER_STATIC = {24: (1.03, 5.11, 15.06), 56: (1.0408, 3.1138, 8.3922)}
"""Least, median and most of MCKP over STATIC, by forwarders (section 3.2)."""


def _one(applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG001
    return np.zeros(len(applications), np.int64)


def _zero(applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG001
    return np.full(len(applications), NONE, np.int64)


def _static(applications: Applications, pool: Layer, rng: np.random.Generator) -> I64:  # noqa: ARG001
    """The paper's own: a forwarder for every R nodes begun, R = nodes of the machine / forwarders."""
    wanted = np.ceil(applications.nodes * len(pool) / MACHINE_NODES - 1e-9)
    return find_nearest_allowed_count(applications, wanted, find_allowed_counts(applications, pool))


def list_mckp_policies() -> dict[str, Chooses]:
    """The paper's, by its names: ZERO sends everybody straight to the file system, ONE gives a forwarder each. MCKP may
    send applications straight to the file system, as ORACLE may; MCKP >= 1 may not."""
    return {
        "ZERO": _zero,
        "ONE": _one,
        "STATIC": _static,
        "SIZE": Size().choose,
        "PROCESS": Process().choose,
        "MCKP": MckpDirect().choose,
        "MCKP >= 1": Mckp().choose,
        "ORACLE": Oracle(direct=True).choose,
    }


def _draw_set(profiles: Profiles, rng: np.random.Generator) -> Applications:
    """A set: scenarios drawn with putting back. What they compute does not count here."""
    own = profiles.select_rows(rng.integers(0, len(profiles), TOGETHER))
    return Applications.from_columns(
        own.counts,
        own.bandwidth,
        np.ones(TOGETHER),
        np.zeros(TOGETHER),
        own.nodes,
        nodes=own.nodes,
        processes=own.processes,
        direct=own.direct,
    )


def compute_mckp_bandwidth(applications: Applications, choice: I64) -> float:
    """Bytes/s of all together, each alone on its forwarders (the paper's equation 2)."""
    granted = applications.bandwidth[np.arange(len(choice)), choice]
    return float(np.where(choice < 0, applications.direct, granted).sum())


def _compute_bandwidths(profiles: Profiles, seed: int, sets: int, tell: Callable[[int, int], None]) -> dict[str, F64]:
    """(POOLS, sets) bytes/s of each policy; the same sets for all."""
    compared = list_mckp_policies()
    out = {name: np.zeros((len(POOLS), sets)) for name in compared}
    pools = [build_allocation_pool(forwarders, MACHINE_NODES) for forwarders in POOLS]
    for i in range(sets):
        rng = np.random.default_rng((seed, i))
        applications = _draw_set(profiles, rng)
        for name, choose in compared.items():
            if name in ("ZERO", "ONE", "ORACLE"):  # the same in every pool
                out[name][:, i] = compute_mckp_bandwidth(applications, choose(applications, pools[-1], rng))
                continue
            for p, pool in enumerate(pools):
                out[name][p, i] = compute_mckp_bandwidth(applications, choose(applications, pool, rng))
        tell(i + 1, sets)
    return out


def compare_mckp(*, seed: int, quick: bool, tell: Callable[[int, int], None]) -> PaperReport:
    """Medians over sets by pool and policy, and what the paper states of them. See `papers.Compares`."""
    sets = QUICK_SETS if quick else SETS
    counted = count_best_profiles(read_forge_profiles("max"))
    lines = [
        Line("189 scenarios", f"fastest with {n} forwarders", counted[n], published, 0.0, "scenarios")
        for n, published in BEST_COUNTS
    ]
    lines += _lines(_compute_bandwidths(read_forge_profiles("mean"), seed, sets, tell))
    live = "real applications, whose curves are not published: not simulated"
    lines.append(Line("live runs", "MCKP over STATIC", None, 1.9, note=live))
    drawn = (
        f"{sets:,} sets of {TOGETHER} of FORGE's scenarios, seed {seed}. Bandwidth of a scenario: the mean of its "
        "repetitions. The paper does not say which it takes; with means all it states comes out."
    )
    machine = (
        f"STATIC deals by {MACHINE_NODES} compute nodes, from the ratios the paper names. It gives 3 or 6 forwarders "
        "at times, for which there is no curve: the nearest number counts."
    )
    return PaperReport(paper="mckp", source="Bez et al., IPDPS 2021", lines=tuple(lines), notes=(drawn, machine))


def _lines(found: dict[str, F64]) -> list[Line]:
    zero, oracle, mckp = found["ZERO"][0], found["ORACLE"][0], found["MCKP"]
    gain = np.percentile(oracle / zero, (0, 50, 100))
    lines = [
        Line("any pool", "ONE over ZERO, median", float(np.median(found["ONE"][0] / zero)), 0.1789, 0.2),
        Line("any pool", "ORACLE over ZERO, least", float(gain[0]), 1.0083, 0.2),
        Line("any pool", "ORACLE over ZERO, median", float(gain[1]), 1.2563, 0.2),
        Line("any pool", "ORACLE over ZERO, most", float(gain[2]), 2.2168, 0.2),
    ]
    for p, forwarders in enumerate(POOLS):
        setting = f"{forwarders} forwarders"
        lines += [
            Line(setting, f"{name}, median", float(np.median(column[p])) / MIB, unit="MiB/s")
            for name, column in found.items()
        ]
        least, median, most = np.percentile(mckp[p] / found["STATIC"][p], (0, 50, 100)).tolist()
        forwarded = float(np.median(found["MCKP >= 1"][p] / found["STATIC"][p]))
        bound = float(np.median(mckp[p]) / np.median(oracle))
        published = OVER_STATIC.get(forwarders)
        lines += [
            Line(setting, "MCKP over STATIC, least", least, published[0] if published else None, wanted=">= 1"),
            Line(setting, "MCKP over STATIC, median", median, *((published[1], 0.2) if published else ())),
            Line(setting, "MCKP over STATIC, most", most, published[2] if published else None),
            Line(setting, "MCKP >= 1 over STATIC, median", forwarded),
            Line(setting, "MCKP over ORACLE, medians", bound, *((1.0, 0.01) if forwarders == ENOUGH else ())),
        ]
    return lines
