"""AIOT (Yang et al., IPDPS 2022): the least loaded path that carries a job, and what is set along it.

The path is a greedy flow (`find_flow`), the settings are `tunings`; `policies.next_run` predicts the job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.core.model.site import Layer, Site, build_site_layer
from fairlead.decide.policies.paths import tunings
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant, Reason
from fairlead.decide.policies.paths.flow import Flow, Weights, find_flow, order_flow_places
from fairlead.decide.policies.paths.layer import (
    choose_layer_count,
    compute_layer_use,
    find_sound_in_layer,
    find_typical_in_layer,
    format_layer_amount,
    format_layer_names,
    format_unusable_in_layer,
)


@dataclass(frozen=True)
class Aiot:
    """A path policy. As many forwarders and targets as carry what the job wants a second, rounded up to what may be
    granted; sick and reserved ones carry nothing. `tuned`: whether read-ahead, P, stripes and DoM are set as well.
    `equal_weights`: weigh bandwidth, IOPS and MDOPS as printed, not by what the job asks for (see `flow.Weights`)."""

    tuned: bool = True
    equal_weights: bool = False

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:  # noqa: ARG002
        """See `PathPolicy`. O(components) beside sorting them."""
        wanted = _wanted(expected)
        weights = (Weights.weigh_equally if self.equal_weights else Weights.weigh_demand)(wanted, _units(site))
        if weights.demand <= 0:
            why = "its demand per second is not known" if max(wanted) <= 0 else "no peak of any layer is known"
            return Grant(reasons=(Reason(what="forwarders", why=f"{why}: left to the site's default"),))
        found = find_flow(
            site.forwarders,
            site.targets,
            weights,
            servers=site.servers,
            server_of=site.server_of,
            most_forwarders=max(site.forwarder_counts),
            most_targets=max(site.stripe_counts),
        )
        if not found.forwarders or not found.targets:
            # Where one layer has no room at all, the other still carries the whole.
            nothing = build_site_layer("", (), 0.0)
            above = find_flow(site.forwarders, nothing, weights, most_forwarders=max(site.forwarder_counts))
            beneath = find_flow(
                nothing,
                site.targets,
                weights,
                servers=site.servers,
                server_of=site.server_of,
                most_targets=max(site.stripe_counts),
            )
            found = replace(found, forwarders=above.forwarders, targets=beneath.targets)
        forwarders, told = _layer(site.forwarders, found.forwarders, site.forwarder_counts, "forwarders")
        sound_targets = _below_sound(site)
        targets, below = _layer(sound_targets, found.targets, site.stripe_counts, "targets")
        reasons = [
            Reason(what="forwarders", why=f"{told}; {_asked(wanted, weights, found)}"),
            Reason(what="targets", why=below),
        ]
        if not self.tuned:
            return Grant(
                forwarders=tuple(sorted(forwarders)),
                targets=tuple(sorted(targets)),
                reasons=tuple(reasons),
                stripe_count=len(targets) or None,
            )
        ahead, why_ahead = tunings.tune_prefetch(expected, site, forwarders)
        share, why_share = tunings.tune_metadata_share(expected, site, forwarders)
        count, stripe, why_stripes = tunings.tune_stripes(expected, site, len(find_sound_in_layer(sound_targets)))
        dom, why_dom = tunings.tune_dom(expected)
        if count is not None and expected.mode == "N-1" and count != len(targets):
            # The shared file needs as many targets as stripes: the next of the queue, or fewer of those found.
            order = [
                *targets,
                *(
                    one
                    for one in order_flow_places(sound_targets, find_sound_in_layer(sound_targets))
                    if one not in targets
                ),
            ]
            targets = tuple(order[:count])
            reasons[1] = Reason(what="targets", why=f"{below}; {len(targets)} for as many stripes")
        return Grant(
            forwarders=tuple(sorted(forwarders)),
            targets=tuple(sorted(targets)),
            stripe_count=count,
            stripe_bytes=stripe,
            prefetch_bytes=ahead,
            metadata_share=share,
            dom_bytes=dom,
            reasons=(*reasons, why_stripes, why_ahead, why_share, why_dom),
        )


def _wanted(expected: ExpectedJob) -> tuple[float, float, float]:
    """Bandwidth, IOPS and MDOPS a job asks for; 0 where not known."""
    return expected.bandwidth_bytes_per_s or 0.0, expected.iops or 0.0, expected.mdops or 0.0


def _units(site: Site) -> tuple[float | None, float | None, float | None]:
    """What one usual forwarder gives of each measure; of one they have no peak of, a usual target."""
    units = []
    for name in ("bandwidth", "iops", "mdops"):
        unit = find_typical_in_layer(getattr(site.forwarders, name))
        units.append(find_typical_in_layer(getattr(site.targets, name)) if unit is None else unit)
    return units[0], units[1], units[2]


def _below_sound(site: Site) -> Layer:
    """The targets, those below a sick or reserved server taken for sick."""
    servers, owner = site.servers, site.server_of
    if not len(servers) or len(owner) != len(site.targets):
        return site.targets
    barred = (servers.sick | servers.reserved)[owner]
    return replace(site.targets, sick=site.targets.sick | barred)


def _layer(
    components: Layer, found: tuple[int, ...], counts: tuple[int, ...], layer: str
) -> tuple[tuple[int, ...], str]:
    """What is granted of a layer, in the order it was taken: what the flow found, and the next of the queue up to a
    count that may be granted."""
    if not len(components):
        return (), f"the site has no {layer}"
    free = find_sound_in_layer(components)
    if not len(free):
        unusable = format_unusable_in_layer(components)
        return (), f"none of {len(components)} {layer} is sound{unusable}: left to the site's default"
    count = choose_layer_count(max(len(found), 1), counts, len(free))
    places = list(found[:count])
    if len(places) < count:
        taken = set(places)
        more = (one for one in order_flow_places(components, free) if one not in taken)
        places += [next(more) for _ in range(count - len(places))]
    load = compute_layer_use(components)[places]
    return tuple(places), (
        f"{format_layer_names(components, places)}: the least used of {len(free)} healthy"
        f"{format_unusable_in_layer(components)}, {load.min():.0%} to {load.max():.0%} used"
    )


def _asked(wanted: tuple[float, float, float], weights: Weights, found: Flow) -> str:
    """The demand and how far it was met, in words."""
    parts = [f"{format_layer_amount(wanted[0])}B/s"] if wanted[0] else []
    parts += [
        f"{format_layer_amount(rate)}{unit}/s"
        for rate, unit in zip(wanted[1:], ("I/O", "metadata operations"), strict=True)
        if rate
    ]
    return f"it asks for {', '.join(parts)} = {weights.demand:.2f} forwarders, {found.met:.1%} found a path"
