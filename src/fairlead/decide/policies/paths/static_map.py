"""The site's own map: every compute node has its forwarder, every file the default number of stripes.

What DFRA (Ji et al., FAST 2019) and AIOT are compared with: on TaihuLight 512 compute nodes to a forwarder.
"""

from __future__ import annotations

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant, Reason
from fairlead.decide.policies.paths.layer import find_mapped_in_layer, format_layer_names


class StaticMap:
    """A path policy that grants nothing: an empty grant is the site's default, and its reasons say what that is. A job
    whose map leads to a sick or reserved forwarder stays on it, as it would without a policy."""

    def grant(self, expected: ExpectedJob, site: Site, rng: np.random.Generator) -> Grant:  # noqa: ARG002
        """See `PathPolicy`."""
        layer = site.forwarders
        places = find_mapped_in_layer(expected, site)
        barred = places[layer.sick[places] | layer.reserved[places]]
        if not len(layer):
            why = "the site has no forwarders"
        elif not len(places):
            why = "its nodes are not in the site's map of forwarders"
        else:
            why = f"the site's map gives its {len(expected.node_ids)} nodes {format_layer_names(layer, places)}"
            why += f", though {format_layer_names(layer, barred)} is sick or reserved" if len(barred) else ""
        stripes = Reason(what="stripe_count", why=f"the site's default of {site.default_stripes}")
        return Grant(reasons=(Reason(what="forwarders", why=why), stripes))
