"""What a look at the whole system wants to know of a site: classes of nodes, full loads, burst-buffer devices.

Pure. Not here: the file (`model.site`), what questions want to know of it (`model.site_facts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.site_facts import find_site_facts
from fairlead.core.model.site_file import ADDRESSED, OF_CLASS, Expand, SiteFile, expand_site_file_list


@dataclass(frozen=True)
class SystemSite:
    """`classes`: class of a node or address (compute, login, auxiliary, forwarder). `peaks`: full load of one
    `forwarder` or `target` in bytes/s, of one `mds` in operations/s. `devices`: burst-buffer devices (`node/device`, as
    the rollup names them) with their capacity in bytes where it is told. What is not told is not assumed."""

    name: str = "system"
    classes: Mapping[str, str] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    devices: Mapping[str, int | None] = field(default_factory=dict)
    forwarded: bool | None = None
    """Whether clients reach file systems through forwarders; None: not told."""

    def list_class_nodes(self, word: str) -> set[str]:
        """Nodes and addresses of a class."""
        return {name for name, kind in self.classes.items() if kind == word}


def build_system_site(site: SiteFile, expand: Expand) -> SystemSite:
    """The facts of a site file. Raises ConfigError for broken lists."""
    facts = find_site_facts(site, expand)
    devices: dict[str, int | None] = {}
    for at, some in enumerate(site.burst_buffers):
        for node in expand_site_file_list(some.nodes, f"burst_buffers[{at}].nodes", expand):
            devices[f"{node}/{some.device}"] = some.capacity_bytes
    told = bool(site.forwarders or site.nodes or site.file_systems)
    return SystemSite(site.name, facts.classes, facts.peaks, devices, bool(site.forwarders) if told else None)


def add_system_site_mapping(site: SystemSite, mapping: pa.Table) -> SystemSite:
    """The same with classes that `mapping` rows tell of nodes and of their addresses; what the site says counts."""
    kinds = mapping["kind"].cast(pa.string())
    pairs = {
        kind: dict(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))
        for kind in (OF_CLASS, ADDRESSED)
        for rows in [mapping.filter(pc.equal(kinds, kind)).sort_by("from_ns")]
    }
    classes = {**pairs[OF_CLASS], **site.classes}
    classes |= {nid: classes[node] for nid, node in pairs[ADDRESSED].items() if node in classes and nid not in classes}
    return SystemSite(site.name, classes, site.peaks, site.devices, site.forwarded)
