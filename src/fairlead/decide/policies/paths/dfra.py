"""DFRA (Ji et al., FAST 2019): more forwarders, or forwarders of its own, for a job whose last run asked for them.

Decided from history when the job is dispatched and fixed for its life. Targets are not its matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.policies.paths.contract import I64, ExpectedJob, Grant, Reason
from fairlead.decide.policies.paths.layer import (
    choose_layer_count,
    compute_layer_use,
    find_mapped_in_layer,
    find_sound_in_layer,
    find_typical_in_layer,
    format_layer_amount,
    format_layer_names,
    format_unusable_in_layer,
    order_layer_by_use,
)


@dataclass(frozen=True)
class Dfra:
    """A path policy. Eligible: the last run was in one of `modes`, moved `least_bytes` and had `least_processes` doing
    I/O. It gets ceil(N_io b_client / B_fwd) forwarders where that is more than its map gives
    (capacity). A job of `least_mdops` metadata operations a second or more gets unused forwarders for itself
    (isolation), as does an eligible one whose own map suffices but whose forwarders others keep busy above
    `busy_share`: the paper isolates from disturbing neighbours; a site knows their load, not who they are.
    """

    modes: tuple[str, ...] = ("N-N", "N-1")
    least_bytes: float = 20e9
    least_processes: int = 32
    least_mdops: float = 300.0
    busy_share: float = 0.5

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:  # noqa: ARG002
        """See `PathPolicy`."""
        layer = site.forwarders
        if not len(layer):
            return Grant(reasons=(Reason(what="forwarders", why="the site has no forwarders"),))
        fit = find_sound_in_layer(layer)
        if not len(fit):
            why = (
                f"none of {len(layer)} forwarders is sound{format_unusable_in_layer(layer)}: left to the site's default"
            )
            return Grant(reasons=(Reason(what="forwarders", why=why),))
        default = find_mapped_in_layer(expected, site)
        if expected.mdops is not None and expected.mdops >= self.least_mdops:
            count = max(len(default), self._needed(expected, site) if not self._unfit(expected) else 1, 1)
            why = (
                f"metadata-heavy: {expected.mdops:.0f} operations/s in the last run, {self.least_mdops:.0f} or more are"
            )
            return self._isolated(site, fit, default, count, why)
        unfit = self._unfit(expected)
        if unfit:
            return self._default(site, fit, default, f"not eligible: {unfit}")
        needed = self._needed(expected, site)
        if needed <= 0:
            return self._default(site, fit, default, "no forwarder's bandwidth is known")
        told = self._told(expected, site, needed)
        if needed > max(len(default), 1) or not len(default):
            return self._capacity(site, fit, default, needed, told)
        busy = compute_layer_use(layer)[default]
        crowded = default[(layer.jobs[default] > 0) & (busy > self.busy_share)]
        if len(crowded):
            others = f"others keep {format_layer_names(layer, crowded)} busy to {busy.max():.0%}"
            why = f"{told}: its own {len(default)} suffice, but {others}"
            return self._isolated(site, fit, default, max(needed, 1), why)
        return self._default(site, fit, default, f"{told}: the {len(default)} of the site's map suffice")

    def _unfit(self, expected: ExpectedJob) -> str:
        """Why a job is not eligible; empty where it is."""
        if not expected.runs_known:
            return "no earlier run is known"
        if expected.mode not in self.modes:
            return f"its mode is {expected.mode or 'not known'}, not {' or '.join(self.modes)}"
        volume = expected.volume_bytes
        if volume is None or volume < self.least_bytes:
            moved = "its volume is not known" if volume is None else f"it moves {format_layer_amount(volume)}B"
            return f"{moved}, {format_layer_amount(self.least_bytes)}B are required"
        if expected.io_processes is None or expected.io_processes < self.least_processes:
            doing = "their number is not known" if expected.io_processes is None else f"{expected.io_processes}"
            return f"{doing} processes do I/O, {self.least_processes} are required"
        return ""

    def _clients(self, expected: ExpectedJob, site: Site) -> int:
        """N_io: clients that do I/O, processes or, where a node has one client for all of its own, nodes."""
        doing = expected.io_processes or 0
        return min(doing, expected.node_count) if site.client == "node" else doing

    def _needed(self, expected: ExpectedJob, site: Site) -> int:
        """N_fwd = ceil(N_io b_client / B_fwd); 0 where B_fwd is not known."""
        bandwidth = find_typical_in_layer(site.forwarders.bandwidth)
        if bandwidth is None:
            return 0
        return math.ceil(self._clients(expected, site) * site.client_bandwidth / bandwidth - 1e-9)

    def _told(self, expected: ExpectedJob, site: Site, needed: int) -> str:
        bandwidth = find_typical_in_layer(site.forwarders.bandwidth) or 0.0
        return (
            f"{self._clients(expected, site)} I/O clients x {format_layer_amount(site.client_bandwidth)}B/s / "
            f"{format_layer_amount(bandwidth)}B/s a forwarder ask for {needed}"
        )

    def _capacity(self, site: Site, fit: I64, default: I64, needed: int, told: str) -> Grant:
        """The least used sound forwarders, as many as are needed or may be granted."""
        layer = site.forwarders
        count = choose_layer_count(needed, site.forwarder_counts, len(fit))
        if count <= len(default) and not (layer.sick | layer.reserved)[default].any():
            return self._default(site, fit, default, f"{told}, but no more than {count} can be granted")
        places = order_layer_by_use(layer, fit)[:count]
        short = "" if count >= needed else f", {count} can be granted"
        why = f"{told}{short}; the least used are {format_layer_names(layer, places)}{format_unusable_in_layer(layer)}"
        return Grant(forwarders=tuple(sorted(places.tolist())), reasons=(Reason(what="forwarders", why=why),))

    def _isolated(self, site: Site, fit: I64, default: I64, count: int, why: str) -> Grant:
        """Forwarders nobody uses, for this job alone; where there are none, the site's map."""
        layer = site.forwarders
        unused = fit[(layer.jobs[fit] == 0)]
        if not len(unused):
            return self._default(site, fit, default, f"{why}; no healthy forwarder is unused, so it shares")
        spare = min(len(unused), len(fit) - 1)  # everybody else needs one, too
        if not spare:
            return self._default(site, fit, default, f"{why}; no other healthy forwarder is left, so it shares")
        count = choose_layer_count(count, site.forwarder_counts, spare)
        places = order_layer_by_use(layer, unused)[:count]
        told = Reason(
            what="forwarders",
            why=f"{why}; {format_layer_names(layer, places)} serve nobody{format_unusable_in_layer(layer)}",
        )
        alone = Reason(what="isolated", why="no other job may be placed on them while it runs")
        return Grant(forwarders=tuple(sorted(places.tolist())), isolated=True, reasons=(told, alone))

    def _default(self, site: Site, fit: I64, default: I64, why: str) -> Grant:
        """Nothing, which is the site's map; where that leads to a sick or reserved forwarder, sound ones instead."""
        layer = site.forwarders
        barred = (layer.sick | layer.reserved)[default]
        if not barred.any():
            return Grant(reasons=(Reason(what="forwarders", why=f"left to the site's map: {why}"),))
        kept = default[~barred]
        spare = np.setdiff1d(order_layer_by_use(layer, fit), kept, assume_unique=True)
        spare = order_layer_by_use(layer, spare)[: int(barred.sum())]
        moved = f"{format_layer_names(layer, default[barred])} of the site's map sick or reserved, "
        moved += f"{format_layer_names(layer, spare)} instead" if len(spare) else "no other is healthy"
        grant = Grant(reasons=(Reason(what="forwarders", why=f"{moved}; {why}"),))
        return replace(grant, forwarders=tuple(sorted([*kept.tolist(), *spare.tolist()])))
