"""A site in one TOML file: nodes, forwarders, file systems, links, devices, and how they hang together.

Pure: text in, structs and `mapping` rows out. Names of many are host lists (`n[001-512]`); whoever wants single names
passes the function that expands one. Not here: discovering a site (`fairlead site init`), rates of a platform that is
only reported on (`platform`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
import pyarrow as pa

from fairlead.core.errors import ConfigError
from fairlead.core.model.site_planning import SitePlanning
from fairlead.core.model.tables import MAPPING, build_table_batch

Expand = Callable[[str], list[str]]
"""Host list → names. Raises ValueError for what is none."""
FORWARDED = "node_forwarder"
SERVED = "target→server"
LINKED = "node→port"
ADDRESSED = "nid→node"
OF_CLASS = "node→class"
"""Kinds of `mapping` rows."""
ALWAYS_NS = 0
"""`from_ns` of a mapping without a beginning."""

_Rate = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(gt=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class NodeClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes of one class of clients. `cluster` is the scheduler's name of the machine they belong to."""

    kind: Literal["compute", "login", "auxiliary"]
    nodes: _Text
    cluster: str | None = None
    cores: _Count | None = None


class Forwarders(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Forwarding nodes (fairlead's, LWFS, DVS, IOFWD, Lustre routers, ...) alike, with what one of them can do."""

    nodes: _Text
    bandwidth_bytes_per_s: _Rate | None = None
    iops: _Rate | None = None
    mdops: _Rate | None = None


class Route(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is forwarded by whom, and when. `deal`: how nodes fall to several forwarders, in the order of both lists:
    `blocks` (the first n/m nodes to the first) or `cyclic` (one after the other)."""

    nodes: _Text
    forwarders: _Text
    deal: Literal["blocks", "cyclic"] = "blocks"
    since: datetime | None = None
    until: datetime | None = None


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server of a file system, its targets and the peaks of one target. `kind`: OSS and MDS of Lustre; `nsd` of GPFS,
    `brick` of GlusterFS, `target` of fairlead's striped trees."""

    kind: Literal["oss", "mds", "nsd", "brick", "target"]
    node: _Text
    targets: str | None = None
    read_bandwidth_bytes_per_s: _Rate | None = None
    write_bandwidth_bytes_per_s: _Rate | None = None
    iops: _Rate | None = None
    mdops: _Rate | None = None


class FileSystem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file system. `forwarded`: whether its clients are the forwarders; false for the two-layer shape, in which
    compute nodes mount it themselves. None: as the site has forwarders."""

    name: _Text
    kind: Literal["lustre", "gluster", "gpfs", "fairlead", "nfs", "other"]
    mount: str | None = None
    forwarded: bool | None = None
    servers: list[Server] = []


class Addresses(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Network addresses of nodes (Lustre NIDs, `10.1.0.[1-4]@o2ib`), in the same order."""

    nodes: _Text
    nids: _Text


class Links(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ports of a switch and the nodes at their other ends, in the same order."""

    switch: _Text
    ports: _Text
    nodes: _Text
    bandwidth_bytes_per_s: _Rate | None = None


class BurstBuffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices nodes write to before the file system: node-local or of burst-buffer nodes."""

    nodes: _Text
    device: _Text
    capacity_bytes: _Count | None = None
    bandwidth_bytes_per_s: _Rate | None = None


class SiteFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site. Everything may be left out; what is not told is not assumed."""

    name: str = "unnamed"
    nodes: list[NodeClass] = []
    forwarders: list[Forwarders] = []
    routes: list[Route] = []
    file_systems: list[FileSystem] = []
    addresses: list[Addresses] = []
    links: list[Links] = []
    burst_buffers: list[BurstBuffer] = []
    planning: SitePlanning | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """The path of a request: with forwarders, or from the clients to the targets."""
        return ("client", "forwarder", "target") if self.forwarders else ("client", "target")


def parse_site_file(text: str | bytes, where: str = "site.toml") -> SiteFile:
    """A site from TOML. Raises ConfigError naming the key."""
    try:
        return msgspec.toml.decode(text, type=SiteFile, strict=True)
    except RecursionError as fault:
        raise ConfigError("nested too deeply", where=where, remedy="see the reference page of the site file") from fault
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise ConfigError(str(fault), where=where, remedy="see the reference page of the site file") from fault


def build_site_file_mapping(site: SiteFile, expand: Expand) -> pa.RecordBatch:
    """`mapping` rows of a site: node_forwarder, target→server, node→port (`switch/port`), nid→node, node→class. Where
    two routes hold for a node at once, the later one wins (`analysis.node_intervals`). Raises ConfigError."""
    found = [*_routes(site, expand), *_served(site, expand), *_pairs(site, expand), *_classes(site, expand)]
    names = ("from_ns", "to_ns", "kind", "a", "b")
    columns = zip(*found, strict=True) if found else ([] for _ in names)
    return build_table_batch(MAPPING, {name: list(values) for name, values in zip(names, columns, strict=True)}, rows=0)


_Row = tuple[int, int | None, str, str, str]


def _routes(site: SiteFile, expand: Expand) -> Iterator[_Row]:
    for at, route in enumerate(site.routes):
        key = f"routes[{at}]"
        nodes, forwarders = (
            expand_site_file_list(route.nodes, f"{key}.nodes", expand),
            expand_site_file_list(route.forwarders, f"{key}.forwarders", expand),
        )
        since, until = _ns(route.since), _ns(route.until)
        for nth, node in enumerate(nodes):
            to = nth * len(forwarders) // len(nodes) if route.deal == "blocks" else nth % len(forwarders)
            yield ALWAYS_NS if since is None else since, until, FORWARDED, node, forwarders[to]


def _served(site: SiteFile, expand: Expand) -> Iterator[_Row]:
    for at, system in enumerate(site.file_systems):
        for nth, server in enumerate(system.servers):
            if server.targets:
                for target in expand_site_file_list(
                    server.targets, f"file_systems[{at}].servers[{nth}].targets", expand
                ):
                    yield ALWAYS_NS, None, SERVED, target, server.node


def _pairs(site: SiteFile, expand: Expand) -> Iterator[_Row]:
    for at, some in enumerate(site.addresses):
        for nid, node in _in_step(some.nids, some.nodes, f"addresses[{at}]", expand):
            yield ALWAYS_NS, None, ADDRESSED, nid, node
    for at, links in enumerate(site.links):
        for port, node in _in_step(links.ports, links.nodes, f"links[{at}]", expand):
            yield ALWAYS_NS, None, LINKED, node, f"{links.switch}/{port}"


def _classes(site: SiteFile, expand: Expand) -> Iterator[_Row]:
    for at, some in enumerate(site.nodes):
        for node in expand_site_file_list(some.nodes, f"nodes[{at}].nodes", expand):
            yield ALWAYS_NS, None, OF_CLASS, node, some.kind
    for at, group in enumerate(site.forwarders):
        for node in expand_site_file_list(group.nodes, f"forwarders[{at}].nodes", expand):
            yield ALWAYS_NS, None, OF_CLASS, node, "forwarder"


def _in_step(left: str, right: str, where: str, expand: Expand) -> Iterator[tuple[str, str]]:
    first, second = expand_site_file_list(left, where, expand), expand_site_file_list(right, where, expand)
    if len(first) != len(second):
        raise ConfigError(
            f"{len(first)} on one side, {len(second)} on the other",
            where=where,
            remedy="give the same number on both sides",
        )
    return zip(first, second, strict=True)


def expand_site_file_list(text: str, where: str, expand: Expand) -> list[str]:
    """Names of a host list. Raises ConfigError."""
    try:
        return expand(text)
    except ValueError as fault:
        raise ConfigError(str(fault), where=where, remedy="write it as n[001-512] or a,b,c") from fault


def _ns(moment: datetime | None) -> int | None:
    """A moment without a zone is UTC."""
    if moment is None:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    past = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds) * 1000


def check_site_file(site: SiteFile, expand: Expand) -> list[str]:
    """What does not fit together: one sentence each, none for a sound site. Raises ConfigError for broken lists."""
    nodes: dict[str, str] = {}
    found = []
    for at, some in enumerate(site.nodes):
        for name in expand_site_file_list(some.nodes, f"nodes[{at}].nodes", expand):
            if name in nodes:
                found.append(f"nodes[{at}]: {name} is already {nodes[name]}")
            nodes[name] = some.kind
    forwarders = {
        name
        for at, some in enumerate(site.forwarders)
        for name in expand_site_file_list(some.nodes, f"forwarders[{at}].nodes", expand)
    }
    found += [f"{name} is a node of class {nodes[name]} and a forwarder" for name in sorted(forwarders & nodes.keys())]
    rows = build_site_file_mapping(site, expand).to_pylist()
    routed = {row["a"] for row in rows if row["kind"] == FORWARDED}
    lacking = sorted({row["b"] for row in rows if row["kind"] == FORWARDED} - forwarders)
    if lacking:
        found.append(f"routes lead to nodes that are not forwarders: {_some(lacking)}")
    if site.forwarders:
        unrouted = sorted(name for name, kind in nodes.items() if kind == "compute" and name not in routed)
        if unrouted:
            found.append(f"compute nodes without a route: {_some(unrouted)}")
    if nodes and (strange := sorted(routed - nodes.keys())):
        found.append(f"routes of undescribed nodes: {_some(strange)}")
    served: dict[str, str] = {}
    for row in rows:
        if row["kind"] == SERVED and served.setdefault(row["a"], row["b"]) != row["b"]:
            found.append(f"target {row['a']} is on {served[row['a']]} and on {row['b']}")
    names = [system.name for system in site.file_systems]
    found += [f"two file systems are named {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    for system in site.file_systems:
        if system.forwarded and not site.forwarders:
            found.append(f"file system {system.name} is forwarded, but no forwarders are described")
    return found


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
