"""What all path policies ask of a layer: which components may be granted, how loaded they are, how many are allowed.

Not here: which of them a policy chooses.
"""

from __future__ import annotations

import math

import numpy as np

from fairlead.core.model.site import Layer, Site
from fairlead.decide.policies.paths.contract import F64, I64, ExpectedJob


def find_sound_in_layer(components: Layer) -> I64:
    """Places of components that may be granted: neither sick nor reserved. Rising."""
    return np.flatnonzero(~(components.sick | components.reserved)).astype(np.int64)


def compute_layer_use(components: Layer) -> F64:
    """(N,) share of each that is used, 0 to 1: its load, where that is not known what its jobs are expected to take."""
    share = np.where(np.isnan(components.load), components.occupancy, components.load)
    return np.asarray(np.clip(np.nan_to_num(share, nan=0.0), 0.0, 1.0), np.float64)


def find_typical_in_layer(values: F64) -> float | None:
    """The median of what is known; None where nothing is."""
    known = values[np.isfinite(values) & (values > 0)]
    return float(np.median(known)) if len(known) else None


def choose_layer_count(wanted: float, counts: tuple[int, ...], available: int) -> int:
    """The smallest count that may be granted and is not below `wanted`, else the largest; where fewer are available
    than the smallest, that many."""
    fitting = sorted(count for count in counts if count <= available)
    if not fitting:
        return available
    need = math.ceil(wanted - 1e-9)
    return next((count for count in fitting if count >= need), fitting[-1])


def find_mapped_in_layer(expected: ExpectedJob, site: Site) -> I64:
    """The forwarders the site's own map gives the nodes of a job, rising; none where its nodes are not known."""
    table = site.default_forwarder
    nodes = np.asarray(expected.node_ids, np.int64)
    nodes = nodes[(nodes >= 0) & (nodes < len(table))]
    found = np.unique(table[nodes]) if len(nodes) else np.zeros(0, np.int64)
    return np.asarray(found[(found >= 0) & (found < len(site.forwarders))], np.int64)


def order_layer_by_use(components: Layer, places: I64) -> I64:
    """`places` in the order they are taken: those without a job first, then the least used, of the fewest jobs."""
    share = compute_layer_use(components)[places]
    jobs = components.jobs[places]
    return places[np.lexsort((places, jobs, np.round(share, 9), jobs > 0))]


def format_layer_names(components: Layer, places: object, most: int = 6) -> str:
    """Names of components for a sentence, cut after `most`."""
    listed = [components.names[int(place)] for place in np.asarray(places, np.int64)]
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")


def format_unusable_in_layer(components: Layer) -> str:
    """How many are sick and reserved, as a clause; empty where none is."""
    sick, kept = int(components.sick.sum()), int((components.reserved & ~components.sick).sum())
    parts = [f"{count} {word}" for count, word in ((sick, "sick"), (kept, "reserved")) if count]
    return f" ({' and '.join(parts)} passed over)" if parts else ""


def format_layer_amount(value: float) -> str:
    """Bytes or bytes/s in powers of 1000 for a sentence: 2.5 G."""
    for unit, one in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= one:
            return f"{value / one:.3g} {unit}"
    return f"{value:.3g} "
