"""Which of Beacon's categories a neighbour's part falls into, and what speaks against it in plain words. Pure.

Not here: how much it took (`blame`), whether it is accused (`attribution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.core.model.finding import Evidence
from fairlead.core.model.unit_formats import (
    format_bandwidth,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
)
from fairlead.core.safe_text import escape_text
from fairlead.explain.analysis.interference.blame import Blame, order_by_blame
from fairlead.explain.analysis.interference.congestion import OP_BYTES, Congestion
from fairlead.explain.analysis.interference.dose_response import Doses
from fairlead.explain.analysis.interference.features import FeatureLimits, Features
from fairlead.explain.analysis.interference.load_arrays import Loads

PLAIN = {"forwarder": "forwarder", "target": "target", "mds": "metadata server"}
FULL = 0.7
"""Use of a component's peak in bytes from which its bytes are what fills it."""
LOCKED = 3.0
"""Times as long as others' that a byte keeps a forwarder's workers, from which a job looks like N-1."""
WORDS = {"read": "reads", "write": "writes", "metadata": "metadata operations"}


@dataclass(frozen=True)
class Case:
    """All there is on one phase."""

    loads: Loads
    found: Congestion
    blame: Blame
    doses: Doses
    features: Sequence[Features]
    """Of the neighbours, in order of `loads.jobs[1:]`."""
    limits: FeatureLimits
    kind: str


def classify_neighbour_load(case: Case, job: int, part: float) -> str:
    """The category of what a neighbour (by place) did where it cost the victim time. `mixed`: two or more kinds of load
    make up `part` of it each."""
    weights = _sum_by_category(case, job)
    total = sum(weights.values())
    if total <= 0:
        shown = case.features[job - 1].list_conspicuous(case.limits)
        return shown[0] if len(shown) == 1 else "mixed" if shown else "high_bandwidth"
    counting = [name for name, weight in weights.items() if weight >= part * total]
    return counting[0] if len(counting) == 1 else "mixed"


def _sum_by_category(case: Case, job: int) -> dict[str, float]:
    """Seconds of the victim by category of load: second by second, what the neighbour did then."""
    loads, found = case.loads, case.found
    weights = dict.fromkeys(("n_to_1", "high_mdops", "high_bandwidth", "high_iops"), 0.0)
    told = case.features[job - 1].n_to_1
    n_to_1 = _is_likely_shared(case, job) if told is None else told
    for row, held in enumerate(found.held):
        one = loads.components[held.place]
        if case.blame.where[row, job] <= 0:
            continue
        when = found.lost * held.at * case.blame.shares[row][job]
        if one.kind == "mds":
            weights["high_mdops"] += float(when.sum())
            continue
        mine = one.parts.select_job(job)
        moved, requests = np.nan_to_num(mine.moved), np.nan_to_num(mine.data_ops) * OP_BYTES
        names = np.nan_to_num(mine.metadata_ops) * OP_BYTES * (one.kind == "forwarder")
        total = moved + requests + names
        each = when / np.where(total > 0, total, 1.0)
        weights["high_mdops"] += float((each * names).sum())
        data = each * (moved + requests)
        used = np.nan_to_num(held.util)
        # Small requests count where it is not the bytes that fill the component.
        small = (requests > moved) & (used < FULL)
        if n_to_1:
            weights["n_to_1"] += float(data.sum())
        else:
            weights["high_iops"] += float(data[small].sum())
            weights["high_bandwidth"] += float(data[~small].sum())
    return weights


def _is_likely_shared(case: Case, job: int) -> bool:
    """Whether a job whose mode nobody recorded looks like many processes in one file: at a forwarder far from its peak,
    a byte of it keeps workers many times as long as a byte of the others, for they wait for the file's lock."""
    for held in case.found.held:
        one = case.loads.components[held.place]
        when = (case.found.lost * held.at > 0) & ~(np.nan_to_num(held.util) >= FULL)
        if one.kind != "forwarder" or not when.any():
            continue
        busy, moved = (np.nan_to_num(v)[:, when].sum(axis=1) for v in (one.parts.busy_s, one.parts.moved))
        busy = np.where(moved > 0, busy, 0.0)
        rest_busy, rest_moved = busy.sum() - busy[job], moved.sum() - moved[job]
        if moved[job] > 0 and rest_moved > 0 and busy[job] * rest_moved >= LOCKED * rest_busy * moved[job] > 0:
            return True
    return False


def list_neighbour_counter_evidence(case: Case, job: int) -> list[Evidence]:
    """What speaks against a neighbour, strongest first."""
    loads, found, blame = case.loads, case.found, case.blame
    name = escape_text(loads.jobs[job])
    lost = float(found.lost.sum())
    cost = float(blame.jobs[job])
    told = [
        Evidence(
            text=f"{format_duration(cost)} of the {format_duration(lost)} lost are due to job {name}'s share of "
            "shared components",
            metric="cost",
            value=_round(cost),
            unit="s",
        )
    ]
    worst = order_by_blame(blame.where[:, job])[:3]
    told += [_at(case, row, job) for row in worst if blame.where[row, job] >= 0.05 * max(lost, 1e-9)]
    response = float(case.doses.response[job])
    if np.isfinite(response) and response > 0.3:
        high, low = float(case.doses.high_rate[job]), float(case.doses.low_rate[job])
        chance = format_percent(float(case.doses.by_chance[job]))
        told.append(
            Evidence(
                text=f"in the seconds in which job {escape_text(case.loads.jobs[job])} did most the phase ran at "
                f"{_rate(high, case.kind)}, in those in which it did least at {_rate(low, case.kind)} "
                f"(shifted in time, its load fits as well in {chance} of tries)",
                metric="dose_response",
                value=_round(response),
            )
        )
    told.append(_doing(case, job))
    return told


def _at(case: Case, row: int, job: int) -> Evidence:
    held = case.found.held[row]
    one = case.loads.components[held.place]
    where = f"{PLAIN[one.kind]} {escape_text(one.id)}"
    share = float(case.blame.holding[row, job])
    workers = one.kind == "forwarder" and bool(np.nansum(one.parts.busy_s) > 0)
    of_what = "the time its workers were busy" if workers else "what it did"
    if not one.counted:
        of_what += " (estimated from the job's own traffic)"
    text = f"at {where} job {escape_text(case.loads.jobs[job])} held {format_percent(share)} of {of_what}"
    if held.wait_s is not None and one.kind == "forwarder":
        whose = f"its {WORDS.get(case.kind, 'requests')}" if held.mine else "requests of all jobs"
        text = (
            f"{whose} waited {format_duration(held.wait_s)} a request at {where}"
            + (f" ({format_duration(held.usual_wait_s)} in quiet times)" if held.usual_wait_s is not None else "")
            + text.removeprefix(f"at {where}").replace(" job", " while job", 1)
        )
    elif (use := compute_peak_use(case, row)) is not None:
        busy = f"at {format_percent(use)} of its peak" if use <= 1.0 else "busier than ever seen without it"
        text += f", which was {busy}"
    elif held.slower is not None and held.slower > 1.2:
        text += f", whose requests took {held.slower:.1f} times as long as in its quiet seconds"
    return Evidence(text=text, metric="held", value=_round(share), unit="share")


def compute_peak_use(case: Case, row: int) -> float | None:
    """Use of a component's peak while time was lost there; None where no peak is known."""
    held = case.found.held[row]
    when = case.found.lost * held.at
    known = np.isfinite(held.util) & (when > 0)
    return float((held.util * when)[known].sum() / when[known].sum()) if known.any() else None


def _doing(case: Case, job: int) -> Evidence:
    one = case.features[job - 1]
    parts = []
    if one.n_to_1:
        many = f" of {format_count(one.processes)} processes" if one.processes else ""
        parts.append(f"all in one file (N-1){many}")
    if one.bytes_per_s:
        parts.append(format_bandwidth(one.bytes_per_s))
    if one.request_bytes and one.iops:
        parts.append(f"{format_count(one.iops)} requests/s of {format_bytes(one.request_bytes)}")
    if one.mdops_per_s and one.mdops_per_s >= 1:
        parts.append(f"{format_count(one.mdops_per_s)} metadata operations/s")
    what = ", ".join(parts) if parts else "its own I/O was not recorded"
    return Evidence(
        text=f"in {format_duration(one.overlap_s)} of the phase it was active: {what}",
        metric="overlap",
        value=_round(one.overlap_s),
        unit="s",
    )


def _rate(value: float, kind: str) -> str:
    return f"{format_count(value)} operations/s" if kind == "metadata" else format_bandwidth(value)


def _round(value: float) -> float:
    return float(f"{value:.6g}")
