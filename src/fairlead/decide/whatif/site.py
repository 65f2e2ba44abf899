"""The machine a past is replayed on: from the site's description, the lake's map, and the highest rates seen.

Not here: the past itself (`past`), what jobs reach on it (`sim.workloads.history_curves`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairlead.core.model.site import SERVED
from fairlead.decide.sim.platform import Machine
from fairlead.decide.sim.replay.landscape import Site as Running
from fairlead.decide.sim.workloads.history import METADATA, MOST_NODES
from fairlead.decide.sim.workloads.history_curves import LEAST_IO_S, Curves, Defaults
from fairlead.decide.sim.workloads.history_peaks import highest
from fairlead.decide.whatif.history import Past
from fairlead.explain.questions.lake_queries import Tables, days, select
from fairlead.explain.questions.span import INTERVALS, Span

HIGH = 0.98
"""The rate of a component that so large a share of its busy intervals stay below is what it can do: single intervals
above it are late counts."""
_MDOPS = 40_000.0


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Components of a kind by name, and what one of them can do. `basis`: told, seen (counted) or assumed (jobs' phases
    added up)."""

    names: tuple[str, ...]
    peak: float
    basis: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of the machine before a replay."""

    forwarders: Layer
    targets: Layer
    mds: Layer
    targets_per_server: int
    cores_per_node: int

    @property
    def defaults(self) -> Defaults:
        """What the curves are learnt with."""
        return Defaults(forwarder_peak=self.forwarders.peak, target_peak=self.targets.peak, mdops=self.mds.peak)


def known_of(lake: Tables, span: Span, past: Past, peaks: Mapping[str, float]) -> Known:
    """Components that served the past and what they can do; `peaks` are told by the site's description (bytes/s by
    kind, `mds` operations/s), and count over what was seen. Raises LakeError."""
    seen, names = _seen(lake, span)
    added = {kind: _added_up(past, kind) for kind in ("forwarder", "target") if kind not in seen}
    forwarders = {*(n for some in past.forwarders for n in some), *past.routes.b.unique().to_pylist()}
    targets = {n for some in past.targets for n in some} | names.get("target", set())
    runs = past.runs
    with np.errstate(invalid="ignore", divide="ignore"):
        per_node = runs.cores / runs.nodes
    usual = float(np.nanmedian(per_node)) if np.isfinite(per_node).any() else 1.0
    return Known(
        forwarders=_layer(forwarders | names.get("forwarder", set()), "forwarder", peaks, seen, added),
        targets=_layer(targets, "target", peaks, seen, added),
        mds=_layer(names.get("mds", set()) or {"mds"}, "mds", peaks, seen, {}),
        targets_per_server=_per_server(lake, len(targets)),
        cores_per_node=max(round(usual), 1),
    )


def _layer(
    names: set[str], kind: str, peaks: Mapping[str, float], seen: Mapping[str, float], added: Mapping[str, float]
) -> Layer:
    if kind in peaks:
        return Layer(names=tuple(sorted(names)), peak=float(peaks[kind]), basis="told")
    if kind in seen:
        return Layer(names=tuple(sorted(names)), peak=seen[kind], basis="seen")
    return Layer(names=tuple(sorted(names)), peak=added.get(kind, np.nan), basis="assumed")


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
    return highest(component, b.start_s[entry], b.end_s[entry], rate)


def _seen(lake: Tables, span: Span) -> tuple[dict[str, float], dict[str, set[str]]]:
    """The highest rate of one component of each kind, from the finest intervals there are; names by kind."""
    bytes_ = "coalesce(read_bytes, 0) + coalesce(write_bytes, 0)"
    peaks: dict[str, float] = {}
    names: dict[str, set[str]] = {}
    for interval in INTERVALS:
        found = select(
            lake,
            f"SELECT kind, id, quantile_cont(work, {HIGH}) AS high FROM (SELECT kind, id, ts_ns,"
            f" sum(CASE WHEN kind = $k_mds THEN metadata_ops ELSE {bytes_} END) AS work FROM rollup"
            f" WHERE interval_ns = {interval} AND ts_ns >= {span.from_ns} AND ts_ns < {span.to_ns} AND {days(span)}"
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
    found = select(lake, "SELECT count(DISTINCT a) AS n FROM mapping WHERE kind = $kind GROUP BY b", {"kind": SERVED})
    counts = set(found["n"].to_pylist())
    each = counts.pop() if len(counts) == 1 else 1
    return int(each) if targets and targets % each == 0 else 1


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A machine, how it is run, and the places of its components by name."""

    machine: Machine
    running: Running
    forwarder_at: Mapping[str, int]
    target_at: Mapping[str, int]


def setting_of(
    known: Known,
    past: Past,
    curves: Curves,
    *,
    forwarders: int | None = None,
    targets: int | None = None,
    at_ns: int | None = None,
) -> Setting:
    """The machine as it was, with the map of then (`at_ns`; None: the last one), or with other numbers of forwarders or
    targets: then nodes fall to forwarders in equal blocks, the usual static map."""
    sane = past.runs.nodes[past.runs.nodes <= MOST_NODES]
    nodes = max(len(past.node_names), int(sane.max(initial=1.0)))
    has = forwarders if forwarders is not None else len(known.forwarders.names)
    stores = targets if targets is not None else max(len(known.targets.names), 1)
    per_server = known.targets_per_server if targets is None else 1
    machine = Machine(
        name="site",
        nodes=nodes,
        forwarders=has,
        nodes_per_forwarder=max(-(-nodes // has), 1) if has else nodes,
        servers=stores // per_server,
        targets_per_server=per_server,
        mds=max(len(known.mds.names), 1),
        cores_per_node=known.cores_per_node,
        node_bandwidth=curves.node_rate,
        process_bandwidth=curves.node_rate,
        forwarder_bandwidth=1.0 / curves.forwarder_cost,
        target_bandwidth=1.0 / curves.target_cost,
        server_bandwidth=per_server / curves.target_cost,
        mdops=known.mds.peak if np.isfinite(known.mds.peak) else max(_MDOPS, curves.metadata_rate),
    )
    forwarder_at = {name: i for i, name in enumerate(known.forwarders.names[:has])}
    default = None
    if forwarders is None and has:
        default = _map(past, forwarder_at, machine, at_ns)
    return Setting(
        machine=machine,
        running=Running(default_forwarder=default),
        forwarder_at=forwarder_at,
        target_at={name: i for i, name in enumerate(known.targets.names[:stores])},
    )


def _map(past: Past, forwarder_at: Mapping[str, int], machine: Machine, at_ns: int | None) -> np.ndarray | None:
    """(nodes,) places; nodes the map does not tell fall in equal blocks. None where it tells of none."""
    import pyarrow as pa

    if not len(past.routes.a) or not past.node_names:
        return None
    last = past.origin_ns + round(float(np.nanmax(past.runs.start_s)) * 1e9)
    when = np.full(len(past.node_names), last if at_ns is None else at_ns, np.int64)
    found = past.routes.look_up(pa.array(past.node_names), when).to_pylist()
    default = machine.static_map().astype(np.int64)
    for i, name in enumerate(found):
        if name is not None and name in forwarder_at:
            default[i] = forwarder_at[name]
    return default
