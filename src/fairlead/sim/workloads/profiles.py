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

    def only(self, rows: object) -> Profiles:
        """Some scenarios, by index or mask."""
        names = ("bandwidth", "direct", "nodes", "processes", "behaviour")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def class_means(self) -> F64:
        """(S, C): each scenario's curve replaced by the mean curve of its class, at the scenario's own b(counts[0]):
        what is known of an application whose class is known and that was seen on the least resources only."""
        relative = self.bandwidth / self.bandwidth[:, :1]
        out = np.empty_like(self.bandwidth)
        for behaviour in np.unique(self.behaviour):
            of_class = self.behaviour == behaviour
            out[of_class] = relative[of_class].mean(axis=0) * self.bandwidth[of_class, :1]
        return out


@cache
def forge(statistic: str = "median") -> Profiles:
    """The 189 write scenarios of FORGE on MareNostrum 4; `statistic` of the repetitions: `median` or `max`."""
    text = files("fairlead.sim.workloads").joinpath("forge.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))

    def column(name: str) -> F64:
        return np.array([float(row[name]) for row in rows])

    counts = np.array([1, 2, 4, 8])
    return Profiles(
        source=f"FORGE, MareNostrum 4, {statistic} of repetitions (Bez et al., PDSW 2020)", counts=counts,
        bandwidth=np.stack([column(f"{statistic}{n}") for n in counts], axis=1) * MIB,
        direct=column(f"{statistic}0") * MIB, nodes=column("clients").astype(np.int64),
        processes=column("processes").astype(np.int64),
        behaviour=np.array([BEHAVIOURS.index(row["behaviour"]) for row in rows], np.int64),
    )  # fmt: skip
