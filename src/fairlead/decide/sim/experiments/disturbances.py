"""Speeds of resources over time from an experiment's noise, faults and degraded resources: who meets them cannot know.

Each kind and each resource has a stream of its own: more of one does not move another. Not here: faults of many-layered
machines (`fairlead.decide.sim.faults`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.cycles.cycle_model import Speeds
from fairlead.decide.sim.experiments.experiment_spec import Degradation, Faults, Noise

F64 = NDArray[np.float64]
DAY_S = 86_400.0
_NOISE, _FAULTS = 1, 2


def compute_disturbance_speeds(
    resources: int, until_s: float, noise: Noise, faults: Faults, degraded: Sequence[Degradation], seed: tuple[int, ...]
) -> Speeds | None:
    """Speeds of all resources up to `until_s`; None: all are sound all the time. What meets multiplies."""
    if not noise.share and not faults.per_day and not degraded:
        return None
    initial, times, which, values = np.ones(resources), [], [], []
    for resource in range(resources):
        steps: list[list[tuple[float, float]]] = []
        if noise.share:
            steps.append(_noisy(noise, until_s, np.random.default_rng((*seed, _NOISE, resource))))
        if faults.per_day:
            steps.append(_failing(faults, until_s, np.random.default_rng((*seed, _FAULTS, resource))))
        for one in degraded:
            if one.resource == resource:
                end = math.inf if one.to_s is None else one.to_s
                steps.append([(0.0, 1.0), (one.from_s, one.speed), (end, 1.0)])
        for number, (at, speed) in enumerate(_together(steps, until_s)):
            if number == 0:
                initial[resource] = speed
                continue
            times.append(at)
            which.append(resource)
            values.append(speed)
    order = np.lexsort((which, times)) if times else np.zeros(0, np.int64)
    return Speeds(
        initial=initial,
        time_s=np.array(times, np.float64)[order],
        resource=np.array(which, np.int64)[order],
        speed=np.array(values, np.float64)[order],
    )


def _noisy(noise: Noise, until_s: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    starts = np.arange(0.0, until_s, noise.every_s)
    return [
        (float(at), 1.0 - float(taken))
        for at, taken in zip(starts, rng.uniform(0.0, 2 * noise.share, len(starts)), strict=True)
    ]


def _failing(faults: Faults, until_s: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    steps, at = [(0.0, 1.0)], 0.0
    while True:
        at += float(rng.exponential(DAY_S / faults.per_day))
        if at >= until_s:
            return steps
        steps.append((at, faults.speed))
        at += float(rng.exponential(faults.lasts_s))
        steps.append((at, 1.0))


def _together(steps: list[list[tuple[float, float]]], until_s: float) -> list[tuple[float, float]]:
    """The product of several courses as one: (since when, speed), from 0 on, only where it changes."""
    if not steps:
        return [(0.0, 1.0)]
    moments = sorted({at for one in steps for at, _ in one if at < until_s} | {0.0})
    product = np.ones(len(moments))
    for one in steps:
        starts = np.array([at for at, _ in one])
        values = np.array([speed for _, speed in one])
        # Of two steps at one moment the later counts.
        product *= values[np.maximum(np.searchsorted(starts, moments, side="right") - 1, 0)]
    course = list(zip(moments, product.tolist(), strict=True))
    return [course[0], *(b for a, b in pairwise(course) if a[1] != b[1])]
