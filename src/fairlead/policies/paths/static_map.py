"""The site's own map: every compute node has its forwarder, every file the default number of stripes.

What DFRA (Ji et al., FAST 2019) and AIOT are compared with: on TaihuLight 512 compute nodes to a forwarder.
"""

from __future__ import annotations

import numpy as np

from fairlead.policies.paths.contract import Expected, Grant, Landscape, Reason
from fairlead.policies.paths.sound import mapped, named


class StaticMap:
    """A path policy that changes nothing. Where the map leads to a sick or reserved forwarder nothing is granted: the
    job stays on it, as it would without a policy, and the reason says so."""

    def grant(self, expected: Expected, landscape: Landscape, rng: np.random.Generator) -> Grant:  # noqa: ARG002
        """See `PathPolicy`."""
        layer = landscape.forwarders
        places = mapped(expected, landscape)
        count = landscape.default_stripes
        stripes = Reason(what="stripe_count", why=f"the site's default of {count}")
        if not len(places):
            why = (
                "the site has no forwarders" if not len(layer) else "its nodes are not in the site's map of forwarders"
            )
            return Grant(stripe_count=count, reasons=(Reason(what="forwarders", why=why), stripes))
        barred = places[layer.sick[places] | layer.reserved[places]]
        if len(barred):
            why = f"left to the site's map, though it leads to {named(layer, barred)}: sick or reserved, so not granted"
            return Grant(stripe_count=count, reasons=(Reason(what="forwarders", why=why), stripes))
        why = f"the site's map gives its {len(expected.node_ids)} nodes {named(layer, places)}"
        return Grant(
            forwarders=tuple(places.tolist()), stripe_count=count, reasons=(Reason(what="forwarders", why=why), stripes)
        )
