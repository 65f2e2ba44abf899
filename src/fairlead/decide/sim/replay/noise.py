"""Background load that no job of a replay makes: what it takes of components, as capacity changes.

Not here: faults (`sim.faults`), which policies may come to know of; of noise they see only `load`.
"""

from __future__ import annotations

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.core.model.site import Site
from fairlead.decide.sim.engine import Changes


def build_background_noise(
    machine: Site, until_s: float, *, share: float, every_s: float = 600.0, component: str = "target", seed: int = 0
) -> Changes:
    """Every component of the kind (`forwarder`, `server`, `target` or `mds`) loses a part of its capacity drawn anew
    every `every_s`, evenly between 0 and twice `share`, until `until_s`. Each has a stream of its own: more components
    do not move the others'. Raises UsageError."""
    if not 0 <= share <= 0.5:
        raise UsageError(f"share is {share:g}", where="share", remedy="0 to 0.5: at most twice as much is taken")
    if not every_s > 0 or not np.isfinite(until_s):
        raise UsageError("noise needs times at which it changes", where="every_s", remedy="seconds above 0, and an end")
    counts = {
        "forwarder": len(machine.forwarders),
        "server": len(machine.servers),
        "target": len(machine.targets),
        "mds": len(machine.mds),
    }
    if component not in counts:
        raise UsageError(f"no component {component!r}", where="component", remedy=f"one of {', '.join(counts)}")
    starts = np.arange(0.0, until_s, every_s)
    time_s = np.concatenate([starts, [until_s]])
    times, places, capacities = [], [], []
    for number in range(counts[component]):
        taken = np.random.default_rng([seed, number]).uniform(0.0, 2.0 * share, len(starts))
        for resource in machine.at.find_resources(component, number):
            times.append(time_s)
            places.append(np.full(len(time_s), resource, np.int32))
            capacities.append(np.concatenate([1.0 - taken, [1.0]]))
    none = np.zeros(0)
    at, over = np.concatenate([none, *times]), np.concatenate([none.astype(np.int32), *places])
    order = np.lexsort((over, at))
    return Changes(at[order], over[order], np.concatenate([none, *capacities])[order])
