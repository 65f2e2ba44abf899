"""Which components there are and how they hang together: of the site file and of what the lake has seen of them.

Not here: how they are just now (`landscape`).
"""
# ruff: noqa: S608  (conditions are numbers of ours; what others say goes in as parameters)

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.core.errors import InputError, UsageError
from fairlead.core.model.site import Site, listed, parse_site, site_mapping
from fairlead.core.model.site_planning import Barred, SitePlanning
from fairlead.decide.policies.paths.checker import Kept
from fairlead.explain.analysis.correlate import FORWARDED
from fairlead.explain.questions.components import SERVED_BY
from fairlead.explain.questions.lake_queries import Tables, days, select
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span

RESERVED = "reserved"
"""Kind of `mapping` rows: component `a` is kept for job `b`."""
SEEN_NS = 7 * DAY_NS
"""Components that counted something in so long before are there."""
_SYSTEM = re.compile(r"(.+)-(?:OST|MDT)[0-9a-fA-F]{4}")
_MDT = re.compile(r".+-MDT[0-9a-fA-F]{4}")


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one component can do at most; None: not known."""

    bandwidth: float | None = None
    iops: float | None = None
    mdops: float | None = None


@dataclass(frozen=True, kw_only=True)
class Described:
    """The machine without its load. `forwarders`, `targets` in order; `server_of` a target, `system_of` a target,
    `forwarder_of` a node, `reserved` component → job, `mounts` of file systems. `missing`: what nobody told."""

    forwarders: Mapping[str, Rates]
    targets: Mapping[str, Rates]
    server_of: Mapping[str, str]
    system_of: Mapping[str, str]
    forwarder_of: Mapping[str, str]
    nodes: tuple[str, ...]
    reserved: Mapping[str, str]
    mounts: Mapping[str, str]
    pools: Mapping[str, tuple[str, ...]]
    barred: tuple[Kept, ...]
    planning: SitePlanning
    cores: float
    missing: list[str] = field(default_factory=list)

    @property
    def systems(self) -> list[str]:
        """File systems that have targets, the one of most targets first."""
        names = list(self.system_of.values())
        return sorted(set(names), key=lambda name: (-names.count(name), name))


def site_from(file: Path) -> Site:
    """The site of a file. Raises InputError, ConfigError. Whether its parts fit together says `fairlead site check`."""
    try:
        content = file.read_bytes()
    except OSError as fault:
        raise InputError((fault.strerror or str(fault)).lower(), where=str(file), remedy="check --site") from fault
    return parse_site(content, str(file))


def described(lake: Tables, site: Site | None, at_ns: int) -> Described:
    """The machine at a time, of the site file (if there is one) and the lake. Raises LakeError, ConfigError."""
    told = site or Site()
    maps = _mappings(lake, told, at_ns)
    seen = _seen(lake, at_ns)
    forwarders, targets, mounts = _site_rates(told)
    served: dict[str, str] = {}
    for kind in SERVED_BY:
        served |= {a: b for a, b in maps.get(kind, {}).items() if not _MDT.fullmatch(a)}
    routed: dict[str, str] = {}
    for kind in FORWARDED:
        routed |= maps.get(kind, {})
    for name in sorted({*seen.get("forwarder", ()), *routed.values()}):
        forwarders.setdefault(name, Rates())
    for name in sorted({*seen.get("target", ()), *served} - _metadata_targets(told)):
        targets.setdefault(name, Rates())
    planning = told.planning or SitePlanning()
    pools = {
        one.name: tuple(_expanded(one.targets, f"planning.pools[{at}].targets"))
        for at, one in enumerate(planning.pools)
    }
    nodes = {
        name: None
        for at, some in enumerate(told.nodes)
        if some.kind == "compute"
        for name in _expanded(some.nodes, f"nodes[{at}].nodes")
    }
    nodes |= dict.fromkeys(sorted(routed))
    return Described(
        forwarders=forwarders,
        targets=targets,
        server_of=served,
        system_of=_systems(targets, told),
        forwarder_of=routed,
        nodes=tuple(nodes),
        reserved=maps.get(RESERVED, {}),
        mounts=mounts,
        pools=pools,
        barred=_kept(planning.barred),
        planning=planning,
        cores=_cores(told),
        missing=_untold(told, forwarders, targets, site is not None),
    )


def system_named(machine: Described, wanted: str, missing: list[str]) -> str | None:
    """The file system planned for: the one named, else the one of most targets (said, where there are several); None
    where no targets are known. Raises UsageError for one that is not there."""
    names = machine.systems
    if wanted:
        if wanted not in names:
            raise UsageError(
                f"no targets of a file system {wanted!r} are known",
                where="--file-system",
                remedy=f"known: {', '.join(n or 'one without a name' for n in names) or 'none'}",
            )
        return wanted
    if len(names) > 1:
        missing.append(f"file system: {names[0]} was taken, of {', '.join(names)}; name one with --file-system")
    return names[0] if names else None


def _mappings(lake: Tables, site: Site, at_ns: int) -> dict[str, dict[str, str]]:
    """Kind → a → b in force at a time. Of several the one that began last counts."""
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    kinds = [*FORWARDED, *SERVED_BY, RESERVED]
    found = select(
        lake,
        "SELECT kind, a, max(from_ns) AS since, arg_max(b, from_ns) AS b FROM mapping WHERE kind IN"
        f" (SELECT unnest($kinds)) AND from_ns <= {at_ns} AND (to_ns IS NULL OR to_ns > {at_ns}) GROUP BY kind, a"
        " ORDER BY kind, a",
        {"kinds": kinds},
    )
    best: dict[tuple[str, str], tuple[int, str]] = {}
    rows = [row for row in site_mapping(site, expand_hostlist).to_pylist() if row["kind"] in kinds]
    for row in [*rows, *found.to_pylist()]:
        since = row.get("since", row.get("from_ns"))
        until = row.get("to_ns")
        if since > at_ns or (until is not None and until <= at_ns):
            continue
        key = row["kind"], row["a"]
        if key not in best or since >= best[key][0]:
            best[key] = since, row["b"]
    maps: dict[str, dict[str, str]] = {}
    for (kind, a), (_, b) in best.items():
        maps.setdefault(kind, {})[a] = b
    return maps


def _seen(lake: Tables, at_ns: int) -> dict[str, list[str]]:
    """Forwarders and targets that counted something lately."""
    wide = Span(at_ns - SEEN_NS, at_ns + 1).aligned(HOUR_NS)
    found = select(
        lake,
        f"SELECT DISTINCT kind, id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind IN (SELECT unnest($kinds))"
        f" AND layer = kind AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND {days(wide)} ORDER BY kind, id",
        {"kinds": ["forwarder", "target"]},
        within=wide,
    )
    seen: dict[str, list[str]] = {}
    for row in found.to_pylist():
        seen.setdefault(row["kind"], []).append(row["id"])
    return seen


def _site_rates(site: Site) -> tuple[dict[str, Rates], dict[str, Rates], dict[str, str]]:
    """Forwarders and targets of the site file with what they can do, and where file systems are mounted."""
    forwarders: dict[str, Rates] = {}
    for at, group in enumerate(site.forwarders):
        can = Rates(bandwidth=group.bandwidth_bytes_per_s, iops=group.iops, mdops=group.mdops)
        forwarders |= dict.fromkeys(_expanded(group.nodes, f"forwarders[{at}].nodes"), can)
    targets: dict[str, Rates] = {}
    mounts: dict[str, str] = {}
    for at, system in enumerate(site.file_systems):
        if system.mount:
            mounts[system.name] = system.mount
        for nth, server in enumerate(system.servers):
            if server.kind == "mds" or not server.targets:
                continue
            rates = [r for r in (server.write_bandwidth_bytes_per_s, server.read_bandwidth_bytes_per_s) if r]
            can = Rates(bandwidth=min(rates, default=None), iops=server.iops, mdops=server.mdops)
            names = _expanded(server.targets, f"file_systems[{at}].servers[{nth}].targets")
            targets |= dict.fromkeys(names, can)
    return forwarders, targets, mounts


def _metadata_targets(site: Site) -> set[str]:
    return {
        name
        for system in site.file_systems
        for server in system.servers
        if server.kind == "mds" and server.targets
        for name in _expanded(server.targets, "file_systems.servers.targets")
    }


def _systems(targets: Iterable[str], site: Site) -> dict[str, str]:
    """The file system of each target: as the site file says, else as Lustre names targets, else one without a name."""
    known: dict[str, str] = {}
    for at, system in enumerate(site.file_systems):
        for nth, server in enumerate(system.servers):
            if server.kind != "mds" and server.targets:
                where = f"file_systems[{at}].servers[{nth}].targets"
                known |= dict.fromkeys(_expanded(server.targets, where), system.name)
    named = {name: _SYSTEM.fullmatch(name) for name in targets if name not in known}
    return known | {name: match[1] if match else "" for name, match in named.items()}


def _expanded(text: str, where: str) -> list[str]:
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    return listed(text, where, expand_hostlist)


def _kept(barred: Iterable[Barred]) -> tuple[Kept, ...]:
    return tuple(
        Kept(
            components=frozenset(_expanded(one.components, f"planning.barred[{at}].components"))
            if one.components
            else frozenset(),
            pools=frozenset(one.pools),
            why=one.why,
            concerns=one.concerns,
        )
        for at, one in enumerate(barred)
    )


def _cores(site: Site) -> float:
    return float(
        sum(
            (some.cores or 0) * len(_expanded(some.nodes, f"nodes[{at}].nodes"))
            for at, some in enumerate(site.nodes)
            if some.kind == "compute"
        )
    )


def _untold(site: Site, forwarders: Mapping[str, Rates], targets: Mapping[str, Rates], told: bool) -> list[str]:
    missing = [] if told else ["site file: none was given (--site): pools, bars and peaks are not known"]
    if not forwarders:
        missing.append("forwarders: none is known; the plan leaves the way to the file system as it is")
    if not targets:
        missing.append("targets: none is known; the plan leaves placement as it is")
    if told and (site.planning is None or site.planning.client_bandwidth_bytes_per_s is None):
        missing.append("client bandwidth: the site file does not say planning.client_bandwidth_bytes_per_s")
    return missing
