"""What a neighbour was doing while the victim was slow: the features Beacon tells disturbers by. Pure.

Features are suspicions, not guilt: who took how much is in `blame`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.unit_formats import KIB
from fairlead.explain.analysis.interference.load_arrays import F64, Loads


@dataclass(frozen=True, kw_only=True)
class FeatureLimits:
    """From when on something is conspicuous (Beacon, TOS 2023, section 6, names 300 metadata operations a second; the
    others are ours)."""

    mdops_per_s: float = 300.0
    bandwidth_share: float = 0.3
    """Share of the bytes of a shared component, while it does something."""
    iops_share: float = 0.3
    small_request_bytes: float = 64.0 * KIB
    small_requests_per_s: float = 500.0


@dataclass(frozen=True, kw_only=True)
class Features:
    """Of one neighbour, over the seconds of the phase in which it did something (`overlap_s`). None: not recorded."""

    job_id: str
    overlap_s: float
    n_to_1: bool | None
    mdops_per_s: float | None
    bytes_per_s: float | None
    iops: float | None
    request_bytes: float | None
    bandwidth_share: float | None
    """Of the shared component where that is largest."""
    iops_share: float | None
    metadata_share: float | None
    processes: int | None = None
    user: str | None = None

    def list_facts(self) -> dict[str, object]:
        """What is known of it, by the names of `analysis.advice.FACTS`."""
        found = {
            "culprit": self.job_id,
            "culprit_user": self.user,
            "processes": self.processes,
            "mdops_per_s": self.mdops_per_s,
            "iops": self.iops,
            "bandwidth_bytes_per_s": self.bytes_per_s,
            "request_bytes": self.request_bytes,
            "writers": max(self.processes // 32, 1) if self.processes else None,
        }
        return {name: value for name, value in found.items() if value is not None}

    def list_conspicuous(self, limits: FeatureLimits) -> tuple[str, ...]:
        """Which of `n_to_1`, `high_mdops`, `high_bandwidth`, `high_iops` it shows."""
        small = self.request_bytes is not None and self.request_bytes <= limits.small_request_bytes
        many = (self.iops or 0.0) >= limits.small_requests_per_s
        shown = {
            "n_to_1": bool(self.n_to_1),
            "high_mdops": (self.mdops_per_s or 0.0) > limits.mdops_per_s,
            "high_bandwidth": (self.bandwidth_share or 0.0) >= limits.bandwidth_share,
            "high_iops": small and many and (self.iops_share or 0.0) >= limits.iops_share,
        }
        return tuple(name for name, there in shown.items() if there)


def compute_features(
    loads: Loads, inside: F64, start_ns: int, end_ns: int, neighbours: pa.Table, path: Sequence[int]
) -> list[Features]:
    """Of every job but the victim. `inside`: seconds of each interval (T,) that lie in the phase [start_ns, end_ns);
    `path`: places of the components that the victim used; `neighbours`: rows of PHASE."""
    told = _told(neighbours, start_ns, end_ns)
    own = loads.own
    at = np.flatnonzero(inside > 0)
    part = inside[at] / loads.axis.interval_s
    shares = {name: _share(loads, at, path, name) for name in ("moved", "data_ops", "metadata_ops")}
    amounts = {name: _first_known(loads, getattr(own, name)[:, at], path, at, name) for name in shares}
    active: NDArray[np.bool_] = np.zeros((len(loads.jobs), len(at)), np.bool_)
    for values in amounts.values():
        active |= np.nan_to_num(values) > 0
    seconds = (active * (part * loads.axis.interval_s)).sum(axis=1)
    found = []
    for job in range(1, len(loads.jobs)):
        mode, processes, user = told.get(loads.jobs[job], (None, None, None))
        rate = {name: _rate(values[job], part, float(seconds[job])) for name, values in amounts.items()}
        moved, ops = rate["moved"], rate["data_ops"]
        found.append(
            Features(
                job_id=loads.jobs[job],
                overlap_s=float(seconds[job]),
                n_to_1=mode,
                mdops_per_s=rate["metadata_ops"],
                bytes_per_s=moved,
                iops=ops,
                request_bytes=moved / ops if moved is not None and ops else None,
                bandwidth_share=shares["moved"][job],
                iops_share=shares["data_ops"][job],
                metadata_share=shares["metadata_ops"][job],
                processes=processes,
                user=user,
            )
        )
    return found


_SAYS = {"N-1": True, "N-N": False, "1-1": False}
_Told = tuple[bool | None, int | None, str | None]


def _told(neighbours: pa.Table, start_ns: int, end_ns: int) -> dict[str, _Told]:
    """By job: whether a phase of it during this one (else any) was N-1, its processes, its user. None: not known; of
    N-M, too, as several files that many processes hold one after the other are N-M together."""
    if not neighbours.num_rows:
        return {}
    meanwhile = pc.and_(pc.less(neighbours["start_ns"], end_ns), pc.greater(neighbours["end_ns"], start_ns))
    found: dict[str, _Told] = {}
    for rows in (neighbours.filter(meanwhile), neighbours.filter(pc.invert(meanwhile))):
        known = {job for job, told in found.items() if told[0] is not None}
        columns = [rows[name].to_pylist() for name in ("job_id", "mode", "processes", "user")]
        for job, mode, processes, user in zip(*columns, strict=True):
            before, many, who = found.get(job, (None, None, None))
            told = before if job in known or mode not in _SAYS else bool(before) or _SAYS[mode]
            found[job] = (told, processes if many is None else many, user if who is None else who)
    return found


def _share(loads: Loads, at: np.ndarray, path: Sequence[int], name: str) -> list[float | None]:
    """Each job's largest share of a component's sum over the phase."""
    best: list[float | None] = [None] * len(loads.jobs)
    for place in path:
        component = loads.components[place]
        parts = getattr(component.parts, name)[:, at]
        mine = np.nansum(parts, axis=1)
        total = max(float(np.nansum(getattr(component.whole, name)[at])), float(mine.sum()))
        if total <= 0:
            continue
        for job in np.flatnonzero(mine > 0).tolist():
            best[job] = max(best[job] or 0.0, float(mine[job] / total))
    return best


def _first_known(loads: Loads, own: F64, path: Sequence[int], at: np.ndarray, name: str) -> F64:
    """A job's amounts as recorded of the job, else added up over the components of one kind that counted it: of the
    kind that saw most."""
    unknown = np.asarray(np.isnan(own).all(axis=1))
    if not unknown.any():
        return own
    best = np.full_like(own, np.nan)
    most = np.zeros(len(own))
    for kind in sorted({loads.components[place].kind for place in path}):
        rows = [getattr(loads.components[p].parts, name)[:, at] for p in path if loads.components[p].kind == kind]
        sums = np.asarray(np.nansum(rows, axis=0))
        total = sums.sum(axis=1)
        better = np.flatnonzero(total > most)
        best[better] = sums[better]
        most = np.maximum(most, total)
    return np.where(unknown[:, None], best, own)


def _rate(values: F64, part: F64, seconds: float) -> float | None:
    """Per second of activity; None where unknown or where it did nothing."""
    if seconds <= 0 or np.isnan(values).all():
        return None
    return float(np.nansum(values * part) / seconds)
