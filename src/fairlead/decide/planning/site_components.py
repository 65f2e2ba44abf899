"""Which components there are and how they hang together: of the site file and of what the lake has seen of them.

Not here: how they are just now (`live_site`).
"""
# ruff: noqa: S608  (conditions are numbers of ours; what others say goes in as parameters)

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairlead.core.errors import InputError, UsageError
from fairlead.core.model.site import Layer, Site, build_site_layer
from fairlead.core.model.site_file import SiteFile, build_site_file_mapping, expand_site_file_list, parse_site_file
from fairlead.core.model.site_planning import Exclusion, SitePlanning
from fairlead.decide.policies.paths.checker import Reservation
from fairlead.explain.analysis.node_intervals import FORWARDED
from fairlead.explain.questions.components import SERVED_BY
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import DAY_NS, HOUR_NS, Span

RESERVED = "reserved"
"""Kind of `mapping` rows: component `a` is kept for job `b`."""
SEEN_NS = 7 * DAY_NS
"""Components that counted something in so long before are there."""
_SYSTEM = re.compile(r"(.+)-(?:OST|MDT)[0-9a-fA-F]{4}")
_MDT = re.compile(r".+-MDT[0-9a-fA-F]{4}")
NO_FILE = SiteFile(name="")
"""Stands for a site that has no file."""
_Peaks = tuple[float | None, float | None, float | None]
_UNKNOWN: _Peaks = (None, None, None)


def read_site_file(file: Path) -> SiteFile:
    """The site of a file. Raises InputError, ConfigError. Whether its parts fit together says `fairlead site check`."""
    try:
        content = file.read_bytes()
    except OSError as fault:
        raise InputError((fault.strerror or str(fault)).lower(), where=str(file), remedy="check --site") from fault
    return parse_site_file(content, str(file))


def describe_site_components(
    lake: Tables, told: SiteFile, at_ns: int, file_system: str, missing: list[str]
) -> tuple[Site, Mapping[str, int], Mapping[str, str]]:
    """The site at a time, without its load, of its file and the lake; places of nodes in its map; component → job it is
    kept for. Targets are those of one file system, the name of the site's: the one named, else the one of most
    targets. What nobody told goes into `missing`. Raises LakeError, ConfigError, UsageError for a file system that is
    not there."""
    maps = _mappings(lake, told, at_ns)
    seen = _seen(lake, at_ns)
    forwarders, targets = _site_rates(told)
    served: dict[str, str] = {}
    for kind in SERVED_BY:
        served |= {a: b for a, b in maps.get(kind, {}).items() if not _MDT.fullmatch(a)}
    routed: dict[str, str] = {}
    for kind in FORWARDED:
        routed |= maps.get(kind, {})
    for name in sorted({*seen.get("forwarder", ()), *routed.values()}):
        forwarders.setdefault(name, _UNKNOWN)
    for name in sorted({*seen.get("target", ()), *served} - _metadata_targets(told)):
        targets.setdefault(name, _UNKNOWN)
    missing += _untold(told, forwarders, targets)
    systems = _systems(targets, told)
    system = _system_named(systems, file_system, missing)
    reserved = maps.get(RESERVED, {})
    above = _layer("forwarder", forwarders, reserved)
    below = _layer("target", {name: can for name, can in targets.items() if systems[name] == (system or "")}, reserved)
    nodes = {
        name: None
        for at, some in enumerate(told.nodes)
        if some.kind == "compute"
        for name in _expanded(some.nodes, f"nodes[{at}].nodes")
    }
    nodes |= dict.fromkeys(sorted(routed))
    servers = sorted({served[name] for name in below.names if name in served})
    known = all(name in served for name in below.names)
    planning = told.planning or SitePlanning()
    usual = Site()
    site = Site(
        name=told.name,
        file_system=system or "",
        forwarders=above,
        targets=below,
        servers=build_site_layer("server", tuple(servers if known else ())),
        server_of=np.array([servers.index(served[name]) for name in below.names] if known else [], np.int64),
        default_forwarder=np.array([above.places.get(routed.get(name, ""), -1) for name in nodes], np.int64),
        forwarder_counts=tuple(sorted(set(planning.forwarder_counts))),
        stripe_counts=tuple(sorted(set(planning.stripe_counts))),
        default_stripes=planning.default_stripes,
        pools=_pools(planning, below.places),
        client_bandwidth=planning.client_bandwidth_bytes_per_s or usual.client_bandwidth,
        forwarder_buffer_bytes=planning.forwarder_buffer_bytes or usual.forwarder_buffer_bytes,
        cores=_cores(told),
    )
    return site, {name: at for at, name in enumerate(nodes)}, reserved


def _layer(kind: str, peaks: Mapping[str, _Peaks], reserved: Mapping[str, str]) -> Layer:
    columns = np.array(list(peaks.values()), np.float64).reshape(-1, 3)
    layer = build_site_layer(kind, tuple(peaks), columns[:, 0], iops=columns[:, 1], mdops=columns[:, 2])
    return replace(layer, reserved=np.array([name in reserved for name in peaks], np.bool_))


def _pools(planning: SitePlanning, places: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The site's pools of this file system."""
    named = {
        pool.name: _expanded(pool.targets, f"planning.pools[{i}].targets") for i, pool in enumerate(planning.pools)
    }
    pools = {name: tuple(places[target] for target in held if target in places) for name, held in named.items()}
    return {name: held for name, held in pools.items() if held}


def list_site_mounts(told: SiteFile) -> dict[str, str]:
    """Where file systems are mounted, by name."""
    return {system.name: system.mount for system in told.file_systems if system.mount}


def _system_named(system_of: Mapping[str, str], wanted: str, missing: list[str]) -> str | None:
    """The file system planned for: the one named, else the one of most targets (said, where there are several); None
    where no targets are known. Raises UsageError for one that is not there."""
    every = list(system_of.values())
    names = sorted(set(every), key=lambda name: (-every.count(name), name))
    if wanted:
        if wanted not in names:
            raise UsageError(
                f"no targets of a file system {wanted!r} are known",
                where="--file-system",
                remedy=f"known: {', '.join(n or 'one without a name' for n in names) or 'none'}",
            )
        return wanted
    if len(names) > 1:
        missing.append(f"file system: {names[0]} was chosen, of {', '.join(names)}; name one with --file-system")
    return names[0] if names else None


def _mappings(lake: Tables, site: SiteFile, at_ns: int) -> dict[str, dict[str, str]]:
    """Kind → a → b in force at a time. Of several the one that began last counts."""
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    kinds = [*FORWARDED, *SERVED_BY, RESERVED]
    found = query_lake(
        lake,
        "SELECT kind, a, max(from_ns) AS since, arg_max(b, from_ns) AS b FROM mapping WHERE kind IN"
        f" (SELECT unnest($kinds)) AND from_ns <= {at_ns} AND (to_ns IS NULL OR to_ns > {at_ns}) GROUP BY kind, a"
        " ORDER BY kind, a",
        {"kinds": kinds},
    )
    best: dict[tuple[str, str], tuple[int, str]] = {}
    rows = [row for row in build_site_file_mapping(site, expand_hostlist).to_pylist() if row["kind"] in kinds]
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
    wide = Span(at_ns - SEEN_NS, at_ns + 1).align_to(HOUR_NS)
    found = query_lake(
        lake,
        f"SELECT DISTINCT kind, id FROM rollup WHERE interval_ns = {HOUR_NS} AND kind IN (SELECT unnest($kinds))"
        f" AND layer = kind AND ts_ns >= {wide.from_ns} AND ts_ns < {wide.to_ns} AND {build_day_filter(wide)}"
        f" ORDER BY kind, id",
        {"kinds": ["forwarder", "target"]},
        within=wide,
    )
    seen: dict[str, list[str]] = {}
    for row in found.to_pylist():
        seen.setdefault(row["kind"], []).append(row["id"])
    return seen


def _site_rates(site: SiteFile) -> tuple[dict[str, _Peaks], dict[str, _Peaks]]:
    """Forwarders and targets of the site file with what they can do: bandwidth, IOPS, MDOPS."""
    forwarders: dict[str, _Peaks] = {}
    for at, group in enumerate(site.forwarders):
        can = group.bandwidth_bytes_per_s, group.iops, group.mdops
        forwarders |= dict.fromkeys(_expanded(group.nodes, f"forwarders[{at}].nodes"), can)
    targets: dict[str, _Peaks] = {}
    for at, system in enumerate(site.file_systems):
        for nth, server in enumerate(system.servers):
            if server.kind == "mds" or not server.targets:
                continue
            rates = [r for r in (server.write_bandwidth_bytes_per_s, server.read_bandwidth_bytes_per_s) if r]
            can = min(rates, default=None), server.iops, server.mdops
            names = _expanded(server.targets, f"file_systems[{at}].servers[{nth}].targets")
            targets |= dict.fromkeys(names, can)
    return forwarders, targets


def _metadata_targets(site: SiteFile) -> set[str]:
    return {
        name
        for system in site.file_systems
        for server in system.servers
        if server.kind == "mds" and server.targets
        for name in _expanded(server.targets, "file_systems.servers.targets")
    }


def _systems(targets: Iterable[str], site: SiteFile) -> dict[str, str]:
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

    return expand_site_file_list(text, where, expand_hostlist)


def expand_barred_components(barred: Iterable[Exclusion]) -> tuple[Reservation, ...]:
    """Return exclusions of a site file as reservations, host lists expanded. Raises ConfigError for a broken list."""
    return tuple(
        Reservation(
            components=frozenset(_expanded(one.components, f"planning.barred[{at}].components"))
            if one.components
            else frozenset(),
            pools=frozenset(one.pools),
            why=one.why,
            concerns=one.matches,
        )
        for at, one in enumerate(barred)
    )


def _cores(site: SiteFile) -> float:
    return float(
        sum(
            (some.cores or 0) * len(_expanded(some.nodes, f"nodes[{at}].nodes"))
            for at, some in enumerate(site.nodes)
            if some.kind == "compute"
        )
    )


def _untold(site: SiteFile, forwarders: Collection[str], targets: Collection[str]) -> list[str]:
    missing = []
    if site is NO_FILE:
        missing.append("site file: none was given (--site): pools, restrictions and peaks are not known")
    if not forwarders:
        missing.append("forwarders: none is known; the plan leaves the path to the file system unchanged")
    if not targets:
        missing.append("targets: none is known; the plan leaves placement unchanged")
    if site is not NO_FILE and (site.planning is None or site.planning.client_bandwidth_bytes_per_s is None):
        missing.append("client bandwidth: the site file has no planning.client_bandwidth_bytes_per_s")
    return missing
