"""What a change would bring, from runs of the site's own history, in the words of advice.

Pure. Only what chance alone does not explain. Not here: how two ways are compared (`history.expected_gain`), what is
advised (`advice`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from fairlead.core.model.unit_formats import MIB
from fairlead.explain.analysis.advice import Gain
from fairlead.explain.analysis.history.expected_gain import Choice, estimate_expected_gain

LARGE: Choice = (float(MIB), float("inf"))
"""Requests that are large enough."""
_WAYS: dict[str, tuple[str, tuple[tuple[Choice, str], ...]]] = {
    "mode": ("mode", (("N-N", "N-N runs"), ("N-M", "N-M runs"))),
    "request_size": ("request_bytes", ((LARGE, "runs with requests of 1 MiB and more"),)),
    "stripes": ("targets", (((4.0, float("inf")), "runs over four targets and more"),)),
}


def estimate_gains(history: pa.Table, row: Mapping[str, object], changes: Collection[str]) -> list[Gain]:
    """For each of `changes` (words of `advice.CHANGES`) the largest gain that `history` (schema PHASE, runs of that
    user or program among them) shows for I/O like `row` (values of PHASE by name): another mode for N-1, large requests
    for small ones, more targets for one. Nothing for a change that is no change here,
    or that too few runs show."""
    found: list[Gain] = []
    for change, (what, ways) in _WAYS.items():
        now = _now(what, row) if change in changes else None
        if now is None:
            continue
        best: Gain | None = None
        for then, name in ways:
            gain = estimate_expected_gain(history, row, what, now, then)
            if gain is None or not gain.sure or (best is not None and best.factor >= gain.ratio):
                continue
            best = Gain(change=change, factor=gain.ratio, runs=gain.runs_then, basis=_basis(name, gain.among))
        found += [best] if best is not None else []
    return found


def _now(what: str, row: Mapping[str, object]) -> Choice | None:
    """What `row` does that could be done another way; None where it cannot, or where that is not known."""
    match what, row.get(what):
        case "mode", "N-1":
            return "N-1"
        case "request_bytes", int() | float() as size if 0 < size < MIB:
            return (size / 4, min(size * 4, float(MIB)))
        case "targets", [_]:
            return (1.0, 2.0)
    return None


def estimate_usual_gain(history: pa.Table, row: Mapping[str, object]) -> Gain | None:
    """What earlier runs of the same user, program and nodes reached in such a phase over what this one did, as the gain
    of the change `quiet`. None without a rate, or with fewer than three runs."""
    rate = row.get("rate_per_s")
    if not isinstance(rate, int | float) or not rate > 0 or not row.get("program"):
        return None
    alike = [
        (one["job_id"], one["rate_per_s"])
        for one in history.select(
            ["job_id", "user", "program", "kind", "nodes_count", "cluster", "rate_per_s"]
        ).to_pylist()
        if one["rate_per_s"] is not None
        and all(one[name] == row.get(name) for name in ("user", "program", "kind", "nodes_count", "cluster"))
    ]
    runs: dict[str, list[float]] = {}
    for job, value in alike:
        runs.setdefault(job, []).append(value)
    if len(runs) < 3:
        return None
    middle = float(np.median([np.median(values) for values in runs.values()]))
    return Gain(change="quiet", factor=middle / float(rate), runs=len(runs), basis="earlier runs like it")


def _basis(name: str, among: tuple[str, ...]) -> str:
    shared = "of this program at this scale" if "program" in among else "at this scale"
    return f"{name} {shared}" if "user" in among else f"site's {name} {shared}"
