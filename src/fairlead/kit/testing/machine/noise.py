"""Run-to-run noise: how far runs of the same program on the same machine lie apart when nothing stands in their way.

`run_noise.csv` holds quantiles of log(performance / median), restated from the data of "A Year in the Life of a
Parallel File System" (Lockwood et al., SC18; tokio-abcutils, file `mira-summaries`): daily runs of IOR, HACC-IO,
VPIC-IO and dbscan on Mira, 2017, each against the median of its kind (program, direction, one file or many, volume).

- `all`: the 684 runs whose own bytes are 95 to 105 % of all the file system moved meanwhile;
- `well`: of these the 594 in whose half day before and after at least two others ran, and the median of these lost less
  than a tenth. Where all programs of a day were slow together, something was wrong with the machine: that is what a
  fault is here, and no noise;
- `quiet`: of these the 381 beside which little else was *asked* either: no kind of operation of the file system (reads,
  writes, opens, closes, inode updates, directory reads) in the upper quarter of the runs of its kind. What slows a run
  that has all of the bytes may be another's operations, and that is interference here, and no noise.

All three are long-tailed: of `quiet` 0.8 % lie below two thirds of the median, of `well` 1.3 %, of `all` 4 %.

Not here: what noise does to a step (`sim.steps.stretch_step`).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from fairlead.core.model.site import F64
from fairlead.decide.sim.steps import Step

FILE = Path(__file__).with_name("run_noise.csv")


@cache
def read_noise_quantiles(name: str) -> tuple[F64, F64]:
    """Probabilities, rising from 0 to 1, and the logarithms there, of a column (`quiet`, `well`, `all`). KeyError for
    another."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array([float(row["quantile"]) for row in rows]), np.array([float(row[name]) for row in rows])


@dataclass(frozen=True)
class RunNoise:
    """The share of its usual rate each step of each job reaches, drawn from its seed, job and step alone.

    `scale` multiplies the logarithm (0: no noise); `name` is the column of `run_noise.csv`.
    """

    seed: int
    scale: float = 1.0
    name: str = "quiet"

    def __call__(self, job: int, number: int, _step: Step) -> float:
        """The share for step `number` of job `job`."""
        chance = np.random.default_rng([self.seed, 11, job, number]).random()
        return float(np.exp(self.scale * np.interp(chance, *read_noise_quantiles(self.name))))
