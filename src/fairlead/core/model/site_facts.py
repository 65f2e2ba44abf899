"""What questions want to know of a site: classes of clients by name and address, full loads, rates of links, layers.

Pure. Not here: the file itself (`site`), what else it maps (`site_file.build_site_file_mapping`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.core.model.site_file import Expand, SiteFile, expand_site_file_list

FORWARDER = "forwarder"


@dataclass(frozen=True)
class SiteFacts:
    """`classes`: class of a node or address (compute, login, auxiliary, forwarder). `peaks`: full load of one forwarder
    or target in bytes a second, of one `mds` in operations a second (the largest of them, where they differ). `ports`:
    that of a switch's ports in bytes a second."""

    classes: Mapping[str, str] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    ports: Mapping[str, float] = field(default_factory=dict)
    layers: tuple[str, ...] | None = None
    """The path of a request; None where no site is described."""

    def find_class(self, client: str) -> str | None:
        """The class of a client by its name, host name or address; None where the site does not tell."""
        found = self.classes.get(client)
        if found is None and "@" not in client:
            found = self.classes.get(client.partition(".")[0])
        return found


def find_site_facts(site: SiteFile, expand: Expand) -> SiteFacts:
    """The facts of a site. Raises ConfigError for broken lists."""
    classes: dict[str, str] = {}
    for at, some in enumerate(site.nodes):
        classes.update(dict.fromkeys(expand_site_file_list(some.nodes, f"nodes[{at}].nodes", expand), some.kind))
    for at, group in enumerate(site.forwarders):
        classes.update(dict.fromkeys(expand_site_file_list(group.nodes, f"forwarders[{at}].nodes", expand), FORWARDER))
    for at, pairs in enumerate(site.addresses):
        nids = expand_site_file_list(pairs.nids, f"addresses[{at}].nids", expand)
        nodes = expand_site_file_list(pairs.nodes, f"addresses[{at}].nodes", expand)
        classes.update({nid: classes[node] for nid, node in zip(nids, nodes, strict=False) if node in classes})
    forwarders = [one.bandwidth_bytes_per_s for one in site.forwarders if one.bandwidth_bytes_per_s]
    targets = [
        rate
        for system in site.file_systems
        for server in system.servers
        if server.kind != "mds"
        for rate in (server.read_bandwidth_bytes_per_s, server.write_bandwidth_bytes_per_s)
        if rate
    ]
    peaks = {kind: max(rates) for kind, rates in (("forwarder", forwarders), ("target", targets)) if rates}
    mdops = [server.mdops for system in site.file_systems for server in system.servers if server.mdops]
    peaks |= {"mds": max(mdops)} if mdops else {}
    ports = {links.switch: links.bandwidth_bytes_per_s for links in site.links if links.bandwidth_bytes_per_s}
    return SiteFacts(classes, peaks, ports, site.layers)
