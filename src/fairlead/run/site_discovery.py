"""What can be found out of a site: from its scheduler, this node's file systems, its hosts file, and a lake.

Nothing is guessed: what was not found becomes a remark beside the part it would be in. Not here: the site's meaning
(`model.site`), its text (`site_text`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

from fairlead.core.model.node_names import fold_node_names
from fairlead.core.model.site_file import (
    Addresses,
    BurstBuffer,
    FileSystem,
    Forwarders,
    Links,
    NodeClass,
    Route,
    Server,
    SiteFile,
)
from fairlead.see.probes.base import AbsentError
from fairlead.see.probes.commands import read_probe_command_output
from fairlead.see.probes.lfs import Device, Parser, Space

Run = Callable[[list[str]], str]
"""A command's output. Raises AbsentError where there is no such command, OSError where it fails."""
Kind = Literal["lustre", "gluster", "gpfs", "fairlead", "nfs", "other"]
_KINDS: dict[str, Kind] = {
    "lustre": "lustre",
    "fuse.glusterfs": "gluster",
    "gpfs": "gpfs",
    "fuse.fairlead": "fairlead",
    "nfs": "nfs",
    "nfs4": "nfs",
}
_TIMEOUT_S = 20.0
_TARGET = re.compile(r"(.+)-(OST|MDT)[0-9a-fA-F]{4}$")


class Tables(Protocol):
    """Whatever answers SQL over the record tables."""

    def query(self, sql: str, parameters: Any = None) -> pa.Table:
        """The result of one SELECT."""


@dataclass
class Discovery:
    """What was found, and by part of the file what could not be and why."""

    site: SiteFile
    remarks: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class _SeenComponents:
    """What the lake has seen."""

    nodes: list[str] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    forwarders: list[str] = field(default_factory=list)
    routes: Mapping[str, list[str]] = field(default_factory=dict)
    targets: list[tuple[str, str | None]] = field(default_factory=list)
    ports: list[tuple[str, str, str]] = field(default_factory=list)
    devices: Mapping[str, list[str]] = field(default_factory=dict)


def _run_command(argv: list[str]) -> str:
    """Its output as text. Raises AbsentError, OSError."""
    return read_probe_command_output(argv, _TIMEOUT_S).decode("utf-8", "replace")


def discover_site(root: Path = Path("/"), run: Run = _run_command, lake: Tables | None = None) -> Discovery:
    """A site from what `root`, the commands and a lake tell. Raises LakeError."""
    found = Discovery(SiteFile())
    seen = _from_lake(lake) if lake is not None else _SeenComponents()
    if lake is None:
        found.remarks["forwarders"].append("no lake was given (--lake): forwarders and routes seen are in it")
    hosts = _hosts(root)
    nodes = _nodes(found, run, seen)
    forwarders = [Forwarders(nodes=fold_node_names(seen.forwarders))] if seen.forwarders else []
    routes = [Route(nodes=fold_node_names(nodes_of), forwarders=name) for name, nodes_of in sorted(seen.routes.items())]
    systems, addressed = _file_systems(found, root, run, seen, hosts)
    if not forwarders and lake is not None:
        found.remarks["forwarders"].append("none seen: a site without forwarders, or no forwarder reports yet")
    if forwarders and not routes:
        found.remarks["routes"].append("no mapping was seen: add which nodes each forwarder serves")
    links = _links(seen)
    if not links:
        found.remarks["links"].append("no port with a known peer was seen (agent probe `switches`: ibnetdiscover)")
    buffers = [
        BurstBuffer(nodes=fold_node_names(names), device=device) for device, names in sorted(seen.devices.items())
    ]
    found.site = SiteFile(
        name=nodes.cluster or "unnamed",
        nodes=nodes.classes,
        forwarders=forwarders,
        routes=routes,
        file_systems=systems,
        addresses=addressed,
        links=links,
        burst_buffers=buffers,
    )
    return found


@dataclass
class _Nodes:
    classes: list[NodeClass]
    cluster: str | None


def _nodes(found: Discovery, run: Run, seen: _SeenComponents) -> _Nodes:
    cluster, names, cores = None, list[str](), dict[str, int]()
    try:
        for line in run(["sinfo", "-h", "-N", "-o", "%N|%c"]).splitlines():
            name, _, count = line.strip().partition("|")
            if name:
                names.append(name)
                if count.isdigit():
                    cores[name] = int(count)
        match = re.search(r"^ClusterName\s*=\s*(\S+)", run(["scontrol", "show", "config"]), re.MULTILINE)
        cluster = match.group(1) if match else None
    except AbsentError:
        found.remarks["nodes"].append("no Slurm commands on this node")
    except OSError as fault:
        found.remarks["nodes"].append(f"Slurm does not respond: {fault}")
    if not names and seen.nodes:
        names = seen.nodes
        found.remarks["nodes"].append("compute nodes are the nodes of jobs in the lake")
    by_cores: dict[int | None, set[str]] = defaultdict(set)
    for name in names:
        by_cores[cores.get(name)].add(name)
    classes = [
        NodeClass(kind="compute", nodes=fold_node_names(some), cluster=cluster, cores=count)
        for count, some in sorted(by_cores.items(), key=lambda item: (item[0] is None, item[0] or 0))
    ]
    others = sorted(set(seen.clients) - set(names) - set(seen.forwarders))
    if others:
        found.remarks["nodes"].append(f"seen, class not known (login or auxiliary?): {fold_node_names(others)}")
    if not classes:
        found.remarks["nodes"].append("no node was found: add them as host lists")
    return _Nodes(classes, cluster)


def _hosts(root: Path) -> dict[str, str]:
    """Name of an address in the hosts file."""
    try:
        text = (root / "etc/hosts").read_text("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition("#")[0].split() for line in text.splitlines())
    return {words[0]: words[1] for words in pairs if len(words) > 1}


def _file_systems(
    found: Discovery, root: Path, run: Run, seen: _SeenComponents, hosts: Mapping[str, str]
) -> tuple[list[FileSystem], list[Addresses]]:
    mounts = _mounts(root)
    served: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    addressed: dict[str, str] = {}
    told = set()
    for line in _lustre(found, run) if any(kind == "lustre" for kind, _, _ in mounts) else []:
        target = line.target
        match = _TARGET.match(target)
        if match is None or target in told:
            continue
        told.add(target)
        node = ""
        if isinstance(line, Device):
            address = line.server.partition("@")[0]
            node = hosts.get(address, "")
            if node:
                addressed[line.server] = node
            node = node or line.server
        served[match.group(1)]["mds" if match.group(2) == "MDT" else "oss", node].append(target)
    for target, server in seen.targets:
        match = _TARGET.match(target)
        if target in told:
            continue
        name, kind = (match.group(1), "mds" if match.group(2) == "MDT" else "oss") if match else ("unnamed", "target")
        served[name][kind, server or ""].append(target)
    systems = [
        _system(found, name, "lustre", mount, served.pop(name, {})) for kind, name, mount in mounts if kind == "lustre"
    ]
    systems += [FileSystem(name=name, kind=kind, mount=mount) for kind, name, mount in mounts if kind != "lustre"]
    for name, servers in sorted(served.items()):
        kind = "lustre" if any(_TARGET.match(t) for some in servers.values() for t in some) else "other"
        systems.append(_system(found, name, kind, None, servers))  # type: ignore[arg-type]
    if not systems:
        found.remarks["file_systems"].append("no parallel file system is mounted here, and no target was seen")
    pairs = sorted(addressed.items())
    whole = (
        [Addresses(nodes=",".join(node for _, node in pairs), nids=",".join(nid for nid, _ in pairs))] if pairs else []
    )
    return systems, whole


def _system(
    found: Discovery, name: str, kind: Kind, mount: str | None, servers: Mapping[tuple[str, str], list[str]]
) -> FileSystem:
    listed = []
    for (what, node), targets in sorted(servers.items()):
        if not node:
            found.remarks["file_systems"].append(f"{name}: the server of {fold_node_names(targets)} is not known")
            continue
        listed.append(Server(kind=what, node=node, targets=fold_node_names(targets)))  # type: ignore[arg-type]
    if listed:
        found.remarks["file_systems"].append(
            f"{name}: peaks of targets are not known (read_bandwidth_bytes_per_s, ...)"
        )
    return FileSystem(name=name, kind=kind, mount=mount, servers=listed)


def _mounts(root: Path) -> list[tuple[Kind, str, str]]:
    """Kind, name and mount point of parallel file systems mounted here."""
    try:
        lines = (root / "proc/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    found: dict[str, tuple[Kind, str, str]] = {}
    for line in lines:
        words = line.split()
        if len(words) > 2 and words[2] in _KINDS:
            kind = _KINDS[words[2]]
            name = words[0].rstrip("/").rpartition("/")[2] or words[0]
            found.setdefault(f"{kind}/{name}", (kind, name, words[1]))
    return list(found.values())


def _lustre(found: Discovery, run: Run) -> list[Device | Space]:
    lines: list[Device | Space] = []
    for argv in (["lctl", "dl", "-t"], ["lfs", "df"]):
        try:
            told = Parser().parse_lines(run(argv).splitlines())
            lines += [line for line in told if isinstance(line, Device | Space)]
        except AbsentError:
            found.remarks["file_systems"].append(f"no {argv[0]} on this node")
        except OSError as fault:
            found.remarks["file_systems"].append(f"{' '.join(argv)}: {fault}")
    return lines


def _from_lake(lake: Tables) -> _SeenComponents:
    def column(sql: str) -> list[str]:
        return [str(row) for row in lake.query(sql).column(0).to_pylist() if row is not None]

    routes: dict[str, list[str]] = defaultdict(list)
    mapped = lake.query(
        "SELECT a, arg_max(b, from_ns) AS b FROM mapping WHERE kind IN ('node_forwarder', 'node→forwarder')"
        " AND to_ns IS NULL GROUP BY a"
    )
    for node, forwarder in zip(mapped["a"].to_pylist(), mapped["b"].to_pylist(), strict=True):
        routes[forwarder].append(node)
    devices: dict[str, list[str]] = defaultdict(list)
    for row in lake.query("SELECT DISTINCT node, device FROM device").to_pylist():
        devices[row["device"]].append(row["node"])
    hourly = "FROM rollup WHERE interval_ns = 3600000000000 AND"
    return _SeenComponents(
        nodes=column("SELECT DISTINCT unnest(nodes) FROM jobs"),
        clients=column(f"SELECT DISTINCT id {hourly} kind = 'node'"),
        forwarders=sorted({*column("SELECT DISTINCT node FROM forwarder"), *routes}),
        routes=routes,
        targets=_rows(lake.query("SELECT target, max(server) AS server FROM target GROUP BY target ORDER BY target")),
        ports=_rows(lake.query("SELECT DISTINCT switch, port, peer FROM port WHERE peer IS NOT NULL ORDER BY ALL")),
        devices=devices,
    )


def _rows(table: pa.Table) -> list[Any]:
    return [tuple(row.values()) for row in table.to_pylist()]


def _links(seen: _SeenComponents) -> list[Links]:
    """Ports whose peer is a node that was seen."""
    known = {*seen.nodes, *seen.clients, *seen.forwarders}
    ends: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for switch, port, peer in seen.ports:
        node = peer.split()[0] if peer.split() else ""
        if node in known:
            ends[switch].append((port, node))
    return [
        Links(switch=switch, ports=_joined(port for port, _ in some), nodes=_joined(node for _, node in some))
        for switch, some in sorted(ends.items())
    ]


def _joined(names: Iterable[str]) -> str:
    """In their order, which a folded list would lose."""
    return ",".join(names)
