"""The machine a past is replayed on: from the site's description, the lake's map, and the highest rates seen.

Not here: the past itself (`past_jobs`), what jobs reach on it (`sim.workloads.history_curves`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fairlead.core.model.site import Layer, Site, build_site_layer, build_uniform_site
from fairlead.core.model.site_file import SERVED
from fairlead.decide.sim.workloads.history import METADATA, MOST_NODES
from fairlead.decide.sim.workloads.history_curves import LEAST_IO_S, Curves, Defaults
from fairlead.decide.sim.workloads.history_peaks import find_highest_peak
from fairlead.decide.whatif.past_jobs import Past
from fairlead.explain.questions.lake_queries import Tables, build_day_filter, query_lake
from fairlead.explain.questions.span import INTERVALS, Span

HIGH = 0.98
"""The rate of a component that so large a share of its busy intervals stay below is what it can do: single intervals
above it are late counts."""
_MDOPS = 40_000.0


def find_known_past_site(lake: Tables, span: Span, past: Past, peaks: Mapping[str, float]) -> tuple[Site, Defaults]:
    """Components that served the past and what they can do; `peaks` are told by the site's description (bytes/s by
    kind, `mds` operations/s), and count over what was seen. The peaks are told apart too: a layer nobody saw has one
    all the same. Raises LakeError."""
    seen, names = _seen(lake, span)
    added = {kind: _added_up(past, kind) for kind in ("forwarder", "target") if kind not in seen}
    forwarders = {*(n for some in past.forwarders for n in some), *past.routes.b.unique().to_pylist()}
    targets = {n for some in past.targets for n in some} | names.get("target", set())
    runs = past.runs
    with np.errstate(invalid="ignore", divide="ignore"):
        per_node = runs.cores / runs.nodes
    usual = float(np.nanmedian(per_node)) if np.isfinite(per_node).any() else 1.0

    def layer(kind: str, here: set[str]) -> tuple[Layer, float]:
        basis = "told" if kind in peaks else "seen" if kind in seen else "assumed"
        peak = float(peaks.get(kind, seen.get(kind, added.get(kind, np.nan))))
        every = tuple(sorted(here))
        if kind == "mds":
            return build_site_layer(kind, every, mdops=peak, basis=basis), peak
        return build_site_layer(kind, every, peak, basis=basis), peak

    above, forwarder_peak = layer("forwarder", forwarders | names.get("forwarder", set()))
    below, target_peak = layer("target", targets)
    beside, mdops = layer("mds", names.get("mds", set()) or {"mds"})
    each = _per_server(lake, len(targets))
    site = Site(
        forwarders=above,
        targets=below,
        mds=beside,
        servers=build_site_layer("server", tuple(map(str, range(len(below) // each)))),
        server_of=np.arange(len(below)) // each,
        cores_per_node=max(round(usual), 1),
    )
    return site, Defaults(forwarder_peak=forwarder_peak, target_peak=target_peak, mdops=mdops)


def _added_up(past: Past, kind: str) -> float:
    """The highest rate of a component by the phases it served, where nothing counted it."""
    served = past.forwarders if kind == "forwarder" else past.targets
    number = {name: i for i, name in enumerate(dict.fromkeys(name for some in served for name in some))}
    b = past.bursts
    sound = np.flatnonzero((b.job >= 0) & (b.kind != METADATA) & (b.active_s >= LEAST_IO_S) & np.isfinite(b.amount))
    where = [[number[name] for name in served[job]] for job in b.job[sound].tolist()]
    counts = np.array([len(some) for some in where], np.int64)
    entry = np.repeat(sound, counts)
    component = np.array([one for some in where for one in some], np.int64)
    rate = b.amount[entry] / b.active_s[entry] / np.repeat(counts, counts)
    return find_highest_peak(component, b.start_s[entry], b.end_s[entry], rate)


def _seen(lake: Tables, span: Span) -> tuple[dict[str, float], dict[str, set[str]]]:
    """The highest rate of one component of each kind, from the finest intervals there are; names by kind."""
    bytes_ = "coalesce(read_bytes, 0) + coalesce(write_bytes, 0)"
    peaks: dict[str, float] = {}
    names: dict[str, set[str]] = {}
    for interval in INTERVALS:
        found = query_lake(
            lake,
            f"SELECT kind, id, quantile_cont(work, {HIGH}) AS high FROM (SELECT kind, id, ts_ns,"
            f" sum(CASE WHEN kind = $k_mds THEN metadata_ops ELSE {bytes_} END) AS work FROM rollup"
            f" WHERE interval_ns = {interval} AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND"
            f" {build_day_filter(span)}"
            " AND job_id IS NULL AND kind IN (SELECT unnest($kinds))"
            " AND layer = CASE WHEN kind = $k_mds THEN $l_mds ELSE kind END GROUP BY ALL)"
            " GROUP BY kind, id ORDER BY kind, id",
            {"kinds": ["forwarder", "target", "mds"], "k_mds": "mds", "l_mds": "metadata"},
            within=span,
        )
        for row in found.to_pylist():
            names.setdefault(row["kind"], set()).add(row["id"])
            if row["high"] and row["kind"] not in peaks:
                mine = [r["high"] for r in found.to_pylist() if r["kind"] == row["kind"] and r["high"]]
                peaks[row["kind"]] = max(mine) / (interval / 1e9)
    return peaks, names


def _per_server(lake: Tables, targets: int) -> int:
    """Targets of one storage server, where the map tells and all have as many; else 1 (servers are not modelled)."""
    found = query_lake(
        lake, "SELECT count(DISTINCT a) AS n FROM mapping WHERE kind = $kind GROUP BY b", {"kind": SERVED}
    )
    counts = set(found["n"].to_pylist())
    each = counts.pop() if len(counts) == 1 else 1
    return int(each) if targets and targets % each == 0 else 1


def build_past_site(
    known: Site,
    past: Past,
    curves: Curves,
    *,
    forwarders: int | None = None,
    targets: int | None = None,
    at_ns: int | None = None,
) -> Site:
    """The machine as it was, with the map of then (`at_ns`; None: the last one), or with other numbers of forwarders or
    targets: then nodes fall to forwarders in equal blocks, the usual static map."""
    sane = past.runs.nodes[past.runs.nodes <= MOST_NODES]
    nodes = max(len(past.node_names), int(sane.max(initial=1.0)))
    has = forwarders if forwarders is not None else len(known.forwarders)
    stores = targets if targets is not None else max(len(known.targets), 1)
    per_server = max(known.targets_per_server, 1) if targets is None else 1
    mdops = float(known.mds.mdops[0])
    site = build_uniform_site(
        nodes=nodes,
        forwarders=has,
        nodes_per_forwarder=max(-(-nodes // has), 1) if has else nodes,
        servers=stores // per_server,
        targets_per_server=per_server,
        mds=len(known.mds),
        cores_per_node=known.cores_per_node,
        node_bandwidth=curves.node_rate,
        process_bandwidth=curves.node_rate,
        forwarder_bandwidth=1.0 / curves.forwarder_cost,
        target_bandwidth=1.0 / curves.target_cost,
        server_bandwidth=per_server / curves.target_cost,
        mdops=mdops if np.isfinite(mdops) else max(_MDOPS, curves.metadata_rate),
    )
    site = replace(
        site,
        forwarders=_named(site.forwarders, known.forwarders),
        targets=_named(site.targets, known.targets),
        mds=_named(site.mds, known.mds),
    )
    return _mapped(site, past, at_ns) if forwarders is None and has else site


def _named(layer: Layer, known: Layer) -> Layer:
    """The layer with the names of known components; more than there were are called `+8`, `+9`, ..."""
    more = tuple(f"+{number}" for number in range(len(known), len(layer)))
    return replace(layer, names=known.names[: len(layer)] + more, basis=known.basis)


def _mapped(site: Site, past: Past, at_ns: int | None) -> Site:
    """The site with the map of a time; nodes it does not tell fall in equal blocks."""
    import pyarrow as pa

    if not len(past.routes.a) or not past.node_names:
        return site
    last = past.origin_ns + round(float(np.nanmax(past.runs.start_s)) * 1e9)
    when = np.full(len(past.node_names), last if at_ns is None else at_ns, np.int64)
    found = past.routes.look_up(pa.array(past.node_names), when).to_pylist()
    default = site.default_forwarder.copy()
    for i, name in enumerate(found):
        if name is not None and name in site.forwarders.places:
            default[i] = site.forwarders.places[name]
    return replace(site, default_forwarder=default)
