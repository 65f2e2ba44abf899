"""Machines to simulate: a large one as published, one that fits a test, one without forwarders."""

from __future__ import annotations

from typing import Any

from fairlead.core.model.site import Site, build_uniform_site


def build_taihulight_platform(**changes: Any) -> Site:
    """Sunway TaihuLight as Beacon watches it: 40,960 nodes, 288 forwarders (2.5 GB/s, 512:1), 288 storage nodes of 3
    OSTs, 2 MDS (Beacon, TOS 2023, section 2). Rates of servers, targets and MDS are ours. `changes`: as
    `build_uniform_site` takes them, here and below."""
    figures: dict[str, Any] = {"name": "taihulight", "nodes": 40_960, "forwarders": 288, "servers": 288}
    return build_uniform_site(**figures | {"targets_per_server": 3, "mds": 2} | changes)


def build_small_platform(**changes: Any) -> Site:
    """A site that fits a test: 64 nodes, 4 forwarders (16:1), 4 storage nodes of 2 OSTs, 1 MDS."""
    figures: dict[str, Any] = {
        "name": "small",
        "nodes": 64,
        "nodes_per_forwarder": 16,
        "forwarders": 4,
        "servers": 4,
        "targets_per_server": 2,
        "target_bandwidth": 600e6,
        "target_iops": 8_000.0,
        "server_bandwidth": 1e9,
        "mdops": 8_000.0,
        "target_bytes": 8 << 40,
    }
    return build_uniform_site(**figures | changes)


def build_two_layer_platform(**changes: Any) -> Site:
    """A site without forwarders: 128 nodes that mount Lustre themselves, 8 storage nodes of 2 OSTs, 2 MDS."""
    figures: dict[str, Any] = {
        "name": "two_layer",
        "nodes": 128,
        "servers": 8,
        "targets_per_server": 2,
        "mds": 2,
        "cores_per_node": 16,
        "node_bandwidth": 2e9,
        "process_bandwidth": 600e6,
        "target_bandwidth": 1.2e9,
        "server_bandwidth": 2.2e9,
        "target_bytes": 16 << 40,
    }
    return build_uniform_site(**figures | changes)


MACHINES = {
    "taihulight": build_taihulight_platform,
    "small": build_small_platform,
    "two_layer": build_two_layer_platform,
}
