"""Any allocation policy as a policy of paths: asked once for forwarders and once for targets of an arriving job.

Who runs is state of the caller: it keeps a `Running` a layer in the site (`build_allocation_entry` makes what it
enters), or the policy sees only the sums of `Layer`. Not here: the policies (`policies.allocation`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairlead.core.model.site import Layer, Site
from fairlead.decide.policies.allocation.contract import I64, NONE, Applications, Decision, Policy, Running
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant, Reason
from fairlead.decide.policies.paths.layer import (
    find_sound_in_layer,
    find_typical_in_layer,
    format_layer_amount,
    format_layer_names,
    format_unusable_in_layer,
)

FORWARDERS, TARGETS = "forwarders", "targets"


@dataclass(frozen=True)
class PathFromAllocation:
    """A path policy made of an allocation policy (Bandet, Boito and Pallez 2024, and ours) on both layers."""

    asks_running: ClassVar[bool] = True
    """Whoever asks it should keep rows of who runs: with sums alone it cannot tell jobs apart."""
    policy: Policy

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:
        """See `PathPolicy`. One question a layer, the forwarders' first; both draw from `rng`."""
        grant = Grant()
        for layer in (FORWARDERS, TARGETS):
            places, why = self._layer(expected, site, layer, rng)
            reasons = (*grant.reasons, Reason(what=layer, why=why))
            if layer == FORWARDERS:
                grant = replace(grant, forwarders=places, reasons=reasons)
            else:
                count = None if _own_files(expected, len(places)) else len(places) or None
                grant = replace(grant, targets=places, stripe_count=count, reasons=reasons)
        return grant

    def _layer(
        self, expected: ExpectedJob, site: Site, layer: str, rng: np.random.Generator
    ) -> tuple[tuple[int, ...], str]:
        components = _components(site, layer)
        if not len(components):
            return (), f"the site has no {layer}"
        free = find_sound_in_layer(components)
        if not len(free):
            passed_over = format_unusable_in_layer(components)
            return (), f"none of {len(components)} {layer} is healthy{passed_over}: left to the site's default"
        application, told = build_allocation_application(expected, site, layer)
        if application is None:
            return (), f"{told}: left to the site's default"
        running = _find_running(site, layer, application.counts)
        decision = self.policy.arrive(application, running, _build_layer_pool(expected, site, layer), rng)
        places = np.unique(decision.resources[0][decision.resources[0] >= 0])
        if np.isin(places, free, invert=True).any():
            raise ValueError(f"{type(self.policy).__name__} granted a sick or reserved component of the {layer}")
        if not len(places):
            return (), f"none, straight to the file system; {told}"
        at = int(decision.choice[0])
        share = float(application.stress[0, at]) / max(int(application.counts[at]), 1) if at >= 0 else 0.0
        rest = f"keeps each busy {share:.0%} of its time"
        return tuple(places.tolist()), (
            f"{len(places)} of {len(free)} sound{format_unusable_in_layer(components)}: "
            f"{format_layer_names(components, places)}; {told}, {rest}"
        )


def _own_files(expected: ExpectedJob, targets: int) -> bool:
    """Whether a job fills its targets with files that are not shared: then none need be cut."""
    files = expected.files if expected.files is not None else expected.io_processes
    return expected.mode in ("N-N", "N-M") and files is not None and files >= targets


def _components(site: Site, layer: str) -> Layer:
    return site.forwarders if layer == FORWARDERS else site.targets


def _build_layer_pool(expected: ExpectedJob, site: Site, layer: str) -> Layer:
    """A layer as it is now, with the cores of the machine, for allocation policies."""
    cores = site.cores or max(expected.cores, float(expected.node_count), 1.0)
    return replace(_components(site, layer), cores=float(cores))


def _find_running(site: Site, layer: str, counts: I64) -> Running:
    """Who runs on a layer: what the caller keeps, else the sums of its components."""
    components = _components(site, layer)
    if isinstance(components.running, Running):
        return components.running
    return Running.from_sums(components.occupancy, components.jobs, counts)


def list_allocation_counts(site: Site, layer: str) -> I64:
    """What a layer may grant, rising: the `counts` of a `Running` that a caller keeps for it."""
    counts = site.forwarder_counts if layer == FORWARDERS else site.stripe_counts
    return np.array(sorted({int(count) for count in counts}), np.int64)


def build_allocation_application(expected: ExpectedJob, site: Site, layer: str) -> tuple[Applications | None, str]:
    """An expected job as an application (K = 1) of one layer, and in words where its curve is from; None where it is
    not known what it moves.

    The curve: as seen, between counts by straight lines and level beyond; else min(what it reaches alone, n times the
    usual peak of a component). Counts above the sound ones cannot be used. An unknown time of computing counts as 0.
    """
    volume = expected.volume_bytes
    if volume is None or volume <= 0:
        return None, "its volume is not known" if volume is None else "it moves no data"
    counts = list_allocation_counts(site, layer)
    components = _components(site, layer)
    seen = expected.forwarder_curve if layer == FORWARDERS else expected.target_curve
    curve = sorted((count, rate) for count, rate in seen if count >= 1 and rate > 0)
    if curve:
        at, rates = (np.array(column, np.float64) for column in zip(*curve, strict=True))
        bandwidth, told = np.interp(counts, at, rates), f"its curve is known at {len(curve)} counts"
    else:
        peak = find_typical_in_layer(components.bandwidth)
        if peak is None:
            return None, f"no curve of it and no peak of the {layer} is known"
        alone, basis = _alone(expected, site)
        bandwidth = np.minimum(alone, counts * peak)
        told = f"no curve seen: at most {basis}, {format_layer_amount(peak)}B/s of one {components.kind}"
    short = counts > len(find_sound_in_layer(components))
    if short.any() and not short.all():
        bandwidth = np.where(short, np.nan, bandwidth)
    direct = next((rate for count, rate in seen if count == 0 and rate > 0), np.nan)
    compute = expected.compute_s
    if compute is None or compute < 0:
        compute, told = 0.0, f"{told}, compute time not known (taken as 0)"
    # While its own clients limit it, a job takes only a part of the time of what it is granted.
    peak = find_typical_in_layer(components.bandwidth)
    held = (
        np.ones(len(counts)) if peak is None else np.minimum(np.nan_to_num(bandwidth, nan=0.0) / (counts * peak), 1.0)
    )
    application = Applications.from_columns(
        counts,
        bandwidth,
        [volume],
        [compute],
        [max(expected.cores, 0.0)],
        nodes=[expected.node_count],
        processes=[expected.processes or 0],
        direct=[direct],
        held=[held],
    )
    return application, f"{told}; {format_layer_amount(volume)}B"


def _alone(expected: ExpectedJob, site: Site) -> tuple[float, str]:
    """Bytes/s a job reaches alone on enough resources, and in words what of."""
    if expected.bandwidth_bytes_per_s:
        return (
            expected.bandwidth_bytes_per_s,
            f"{format_layer_amount(expected.bandwidth_bytes_per_s)}B/s, as it reached",
        )
    if expected.io_processes:
        clients = expected.io_processes
        if site.client == "node":
            clients = min(clients, expected.node_count)
        rate = clients * site.client_bandwidth
        return rate, f"{format_layer_amount(rate)}B/s of {clients} clients"
    return np.inf, "any rate (its own is not known)"


def build_allocation_entry(
    expected: ExpectedJob, site: Site, layer: str, places: tuple[int, ...]
) -> tuple[Applications, Decision] | None:
    """What a caller that keeps a `Running` of a layer enters for a job granted `places` there; None where nothing is
    known of it, or it was granted nothing there. A number of places that is no count is entered as the next lower."""
    application, _ = build_allocation_application(expected, site, layer)
    if application is None or not places:
        return None
    column = max(int(np.searchsorted(application.counts, len(places), side="right")) - 1, 0)
    if np.isnan(application.bandwidth[0, column]):
        return None
    row = np.full((1, int(application.counts.max())), NONE, np.int64)
    row[0, : min(len(places), row.shape[1])] = places[: row.shape[1]]
    return application, Decision(np.array([column], np.int64), row)
