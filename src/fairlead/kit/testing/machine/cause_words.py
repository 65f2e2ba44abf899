"""Which of Beacon's categories a cause is of (TOS 2023, section 6), from what the culprit truly did where and while it
held the victim back.

While a flow of the victim was held back by a resource, each flow of the culprit used a share of that resource. These
shares, weighted by what the victim lost meanwhile, are summed by what the culprit's flow was:

- `high_mdops`: metadata operations;
- `n_to_1`: data of one file that many processes hold;
- `high_iops`: its requests cost the resource more than its bytes do (at random, or small);
- `high_bandwidth`: the rest; and a file of many processes too where it takes `LARGE_SHARE` of the resource by its
  bytes.

A feature counts that makes `PART` of the whole or more; several that count are `mixed`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.core.model.site import Site
from fairlead.kit.testing.machine.course import DATA, OPS, Course

LARGE_SHARE = 0.3
PART = 0.25
FEATURES = ("n_to_1", "high_mdops", "high_bandwidth", "high_iops")


def list_cause_features(course: Course, victim: slice, culprit: int) -> tuple[str, ...]:
    """The features that count of what the job in place `culprit` did to the flows `victim` of a phase, the heaviest
    first."""
    weight = _weights(course, victim, culprit)
    whole = sum(weight.values())
    counting = [name for name in FEATURES if weight[name] >= PART * whole and weight[name] > 0]
    return tuple(sorted(counting, key=lambda name: -weight[name])) or ("high_bandwidth",)


def choose_cause_word(features: Sequence[str]) -> str:
    """The one word for features that count."""
    return "mixed" if len(features) > 1 else features[0]


def _weights(course: Course, victim: slice, culprit: int) -> dict[str, float]:
    s, over = course.segments, course.phases
    own = (s.flow >= victim.start) & (s.flow < victim.stop) & (s.bottleneck >= 0)
    loss = np.maximum(1.0 - s.rate[own] / course.alone[s.flow[own]], 0.0)
    begin, end, by = s.begin_s[own], s.end_s[own], s.bottleneck[own]
    theirs = course.job[s.flow] == culprit
    theirs &= (s.begin_s < end.max(initial=-1.0)) & (s.end_s > begin.min(initial=np.inf)) & (s.rate > 0)
    weight = dict.fromkeys(FEATURES, 0.0)
    capacity = course.machine.compute_capacity()
    rows = np.flatnonzero(theirs)
    together = _list_shared_file_ops(course, culprit)
    for resource in np.unique(by[by < len(capacity)]):
        at = over.crosses[s.flow[rows]] == resource
        crossing = rows[at.any(axis=1)]
        if not len(crossing):
            continue
        cost = (over.cost[s.flow[rows]] * at).sum(axis=1)[at.any(axis=1)]
        use = s.rate[crossing] * cost / capacity[resource]
        held = by == resource
        overlap = np.minimum(end[held][:, None], s.end_s[crossing]) - np.maximum(
            begin[held][:, None], s.begin_s[crossing]
        )
        lost = (np.maximum(overlap, 0.0) * loss[held][:, None]).sum(axis=0)
        for flow, used, cost_of_it in zip(s.flow[crossing], use, lost, strict=True):
            for name in _features(course, int(flow), int(resource), float(used), together):
                weight[name] += float(used * cost_of_it)
    return weight


def _list_shared_file_ops(course: Course, place: int) -> set[int]:
    """The operations (read, write, as places in OPS) by which many processes of a job hold one file."""
    steps = course.jobs[place].drawn.steps
    return {OPS.index(step.op) for step in steps if step.moves_data and step.files == 1 < step.writers}


def _features(course: Course, flow: int, resource: int, used: float, together: set[int]) -> list[str]:
    op = int(course.op[flow])
    if op >= DATA:
        return ["high_mdops"]
    small = _is_cost_by_requests(course.machine, resource, int(course.size[flow]))
    if op not in together:
        return ["high_iops" if small else "high_bandwidth"]
    locked = bool((course.phases.crosses[flow] >= course.machine.at.lock).any())
    return ["n_to_1"] if locked or small or used < LARGE_SHARE else ["n_to_1", "high_bandwidth"]


def _is_cost_by_requests(machine: Site, resource: int, size: int) -> bool:
    """Whether requests of that many bytes cost the resource more by their number than by their bytes."""
    at = machine.at
    if at.workers <= resource < at.server:
        return size < machine.request_s * machine.worker_bandwidth
    return at.target_iops <= resource < at.mds
