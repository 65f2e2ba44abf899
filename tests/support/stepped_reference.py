"""Applications in cycles by small steps of time: slow, plain, right to its step. What the exact loop is held to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairlead.decide.sim.cycles.cycle_model import Cycles, Sharing, Speeds


def stepped(
    cycles: Cycles,
    resources: NDArray[np.int64],
    work_s: NDArray[np.float64],
    sharing: Sharing,
    speeds: Speeds,
    step_s: float,
) -> dict[tuple[int, int], tuple[float, float]]:
    """Begin and end of each phase's I/O, by application and phase, of applications that do not repeat."""
    k, count = len(work_s), len(speeds.initial)
    phase = cycles.first_phase[:-1].copy()
    computes = cycles.start_s + np.maximum(cycles.compute_s[phase] - cycles.skip_s, 0.0)
    lines: list[list[int]] = [[] for _ in range(count)]  # applications on each resource, in order of arrival
    left: dict[tuple[int, int], float] = {}
    began: dict[int, float] = {}
    alive = set(range(k))
    out = {}
    step = 0
    while alive:
        now = step * step_s
        speed = speeds.initial.copy()
        for at, resource, to in zip(speeds.time_s, speeds.resource, speeds.speed, strict=True):
            if at <= now:
                speed[resource] = to
        for i in sorted(alive):
            if i in began:
                continue
            computes[i] -= step_s
            if computes[i] <= 0.0:
                began[i] = now + step_s
                for r in resources[i][resources[i] >= 0]:
                    left[i, r] = work_s[i] * cycles.share[phase[i]]
                    lines[r].append(i)
        for r, line in enumerate(lines):
            first: dict[int, int] = {}
            for i in line:
                if began[i] <= now:
                    first.setdefault(int(sharing.queue[i]), i)
            total = sum(sharing.weight[q] for q in first)
            for q, i in first.items():
                left[i, r] -= speed[r] * sharing.weight[q] / total * step_s
            lines[r] = [i for i in line if left[i, r] > 0.0]
        step += 1
        for i in sorted(alive & began.keys()):
            if any(i in lines[r] for r in resources[i] if r >= 0):
                continue
            out[i, int(phase[i])] = (began.pop(i), step * step_s)
            phase[i] += 1
            if phase[i] == cycles.first_phase[i + 1]:
                alive.discard(i)
            else:
                computes[i] = cycles.compute_s[phase[i]]
    return out
