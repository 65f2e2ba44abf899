"""Curves b(n): bandwidth of an application over how many resources it is granted. FORGE's, and what is made of them.

Not here: jobs that have these curves (`published`, `history`).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MIB = float(1 << 20)
BEHAVIOURS = ("ascent", "peak", "descent", "neutral", "valley")
"""Classes of curves (Bandet et al. 2024, section on profiles)."""


@dataclass(frozen=True, kw_only=True)
class Profiles:
    """Curves of S scenarios. `counts` (C,), `bandwidth` (S, C) bytes/s, `direct` (S,) bytes/s without any resource
    (NaN: not known), `nodes` and `processes` (S,), `behaviour` (S,) place in BEHAVIOURS, `source`: where they are
    from."""

    source: str
    counts: I64
    bandwidth: F64
    direct: F64
    nodes: I64
    processes: I64
    behaviour: I64

    def __len__(self) -> int:
        """S."""
        return len(self.bandwidth)

    def select_rows(self, rows: object) -> Profiles:
        """Some scenarios, by index or mask."""
        names = ("bandwidth", "direct", "nodes", "processes", "behaviour")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def compute_class_means(self) -> F64:
        """(S, C): each scenario's curve replaced by the mean curve of its class, at the scenario's own b(counts[0]):
        what is known of an application whose class is known and that was seen on the least resources only."""
        relative = self.bandwidth / self.bandwidth[:, :1]
        out = np.empty_like(self.bandwidth)
        for behaviour in np.unique(self.behaviour):
            of_class = self.behaviour == behaviour
            out[of_class] = relative[of_class].mean(axis=0) * self.bandwidth[of_class, :1]
        return out


def count_best_profiles(profiles: Profiles) -> dict[int, int]:
    """How many curves are highest at each number of resources, direct access (0) included where it is known."""
    every = np.column_stack([profiles.direct, profiles.bandwidth])
    best = np.nanargmax(np.where(np.isnan(every), -np.inf, every), axis=1)
    names = [0, *profiles.counts.tolist()]
    return {n: int((best == place).sum()) for place, n in enumerate(names)}


@cache
def read_forge_profiles(statistic: str = "median") -> Profiles:
    """The 189 write scenarios of FORGE on MareNostrum 4; `statistic` of the repetitions: `median`, `max` or
    `mean`."""
    text = files("fairlead.decide.sim.workloads").joinpath("forge.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))

    def column(name: str) -> F64:
        return np.array([float(row[name]) for row in rows])

    counts = np.array([1, 2, 4, 8])
    return Profiles(
        source=f"FORGE, MareNostrum 4, {statistic} of repetitions (Bez et al., PDSW 2020)",
        counts=counts,
        bandwidth=np.stack([column(f"{statistic}{n}") for n in counts], axis=1) * MIB,
        direct=column(f"{statistic}0") * MIB,
        nodes=column("clients").astype(np.int64),
        processes=column("processes").astype(np.int64),
        behaviour=np.array([BEHAVIOURS.index(row["behaviour"]) for row in rows], np.int64),
    )


OST_SCENARIOS = 189
OST_CLASSES = (90, 66, 28, 4, 1)
"""Scenarios of each of BEHAVIOURS: FORGE's numbers (tolerance 0.15 on medians)."""


@cache
def draw_ost_profiles(seed: int = 1) -> Profiles:
    """Made curves over 1 to 8 storage targets; no measurement is behind any of them.

    The classes and how many scenarios are of each are FORGE's (`OST_CLASSES`). The shapes are drawn, with n targets:
    ascent n^e, e in 0.3..1; peak n^e up to a turn at 2..7, then falling as n^-f, f in 0.3..0.8; descent n^-f, f in
    0.1..0.6; neutral within 5 %; valley n^-f down to a turn, then up. Each point is off by 2 % (lognormal), b(1) is
    log-uniform in 40..1600 MiB/s. Direct access is not known. The same seed gives the same curves.
    """
    rng = np.random.default_rng([seed, 8])
    n = np.arange(1, 9, dtype=np.float64)
    behaviour = np.repeat(np.arange(len(BEHAVIOURS)), OST_CLASSES)
    curves = np.empty((OST_SCENARIOS, len(n)))
    for row, kind in enumerate(behaviour):
        rise, fall, turn = rng.uniform(0.3, 1.0), rng.uniform(0.1, 0.6), float(rng.integers(2, 8))
        name = BEHAVIOURS[kind]
        if name == "ascent":
            shape = n**rise
        elif name == "peak":
            shape = np.where(n <= turn, n**rise, turn**rise * (n / turn) ** -(fall + 0.2))
        elif name == "descent":
            shape = n**-fall
        elif name == "neutral":
            shape = rng.uniform(0.95, 1.05, len(n))
        else:
            shape = np.where(n <= turn, n**-fall, turn**-fall * (n / turn) ** (rise + fall))
        curves[row] = shape * rng.lognormal(0.0, 0.02, len(n))
    first = np.exp(rng.uniform(np.log(40.0), np.log(1600.0), OST_SCENARIOS))
    nodes = rng.choice(np.array([8, 16, 32, 64]), OST_SCENARIOS)
    return Profiles(
        source=f"made from behaviour classes, seed {seed}: no measurement",
        counts=n.astype(np.int64),
        bandwidth=curves * first[:, None] * MIB,
        direct=np.full(OST_SCENARIOS, np.nan),
        nodes=nodes,
        processes=nodes * 12,
        behaviour=behaviour,
    )
