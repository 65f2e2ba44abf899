"""Beside the path of a request: switch ports of a job and how unevenly they are used (Beacon, TOS 2023, section 5).

Pure. Not here: reading counters, the site's description (`core.model.site_file`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead.core.model.tables import MAPPING, build_table_batch
from fairlead.explain.analysis.node_intervals import ALWAYS, Intervals, attribute_node_interval_traffic

LINKED = "node→port"
"""Kind of `mapping` rows from a node to the switch port (`switch/port`) at its other end."""


def list_port_links(ports: pa.Table) -> pa.Table:
    """`mapping` rows of kind LINKED that the `peer` of `port` rows tells: the first word of it, as `ibnetdiscover`
    names an adapter (`n001 HCA-1`)."""
    known = ports.filter(pc.is_valid(ports["peer"]))
    names = ("peer", "switch", "port")
    seen = pa.table({name: known[name].cast(pa.string()) for name in names}).group_by(list(names)).aggregate([])
    node = pc.list_element(pc.split_pattern_regex(pc.utf8_trim_whitespace(seen["peer"]), r"\s+"), 0)
    to = pc.binary_join_element_wise(seen["switch"], seen["port"], "/")
    rows = {"from_ns": np.full(seen.num_rows, ALWAYS), "kind": [LINKED] * seen.num_rows, "a": node, "b": to}
    return pa.Table.from_batches([build_table_batch(MAPPING, rows, 0)])


def sum_switch_ports_by_job(ports: pa.Table, links: pa.Table, placed: pa.Table) -> pa.Table:
    """What each job moved through which port, in the node's view: `job_id`, `port`, `node`, `received_bytes`,
    `sent_bytes`, `ambiguous_bytes` (shared out among jobs on one node). `job_id` null: nobody known was there.

    `ports`: rows of the rollup of kind port (`ts_ns`, `interval_ns`, `id`, `read_bytes` received by the switch,
    `write_bytes` sent by it). `links`: `mapping` rows of kind LINKED. Ports without a node are left out: they connect
    switches.
    """
    told = links.filter(pc.equal(links["kind"].cast(pa.string()), LINKED))
    by_port = Intervals(*_sorted(told))
    node = by_port.look_up(ports["id"].cast(pa.string()), ports["ts_ns"].to_numpy())
    mine = pa.table(
        {
            "ts_ns": ports["ts_ns"],
            "interval_ns": ports["interval_ns"],
            "node": node,
            "port": ports["id"].cast(pa.string()),
            "received_bytes": ports["write_bytes"],
            "sent_bytes": ports["read_bytes"],
        }
    ).filter(pc.is_valid(node))
    found = attribute_node_interval_traffic(mine, placed)
    row = pa.array(found.row)
    moved = {
        name: pc.fill_null(mine[name], 0).to_numpy()[found.row] * found.part
        for name in ("received_bytes", "sent_bytes")
    }
    unclear = np.where(found.how == "shared", moved["received_bytes"] + moved["sent_bytes"], 0.0)
    flat = pa.table(
        {
            "job_id": found.job_id,
            "port": mine["port"].take(row),
            "node": mine["node"].take(row),
            **moved,
            "ambiguous_bytes": unclear,
        }
    )
    keys, values = ["job_id", "port", "node"], ["received_bytes", "sent_bytes", "ambiguous_bytes"]
    summed = flat.group_by(keys).aggregate([(name, "sum") for name in values])
    return summed.rename_columns([name.removesuffix("_sum") for name in summed.schema.names]).select([*keys, *values])


def _sorted(links: pa.Table) -> tuple[pa.Array, pa.Array, np.ndarray, np.ndarray]:
    """The links by port: what `Intervals` wants, for one node a port and time."""
    rows = links.sort_by([("b", "ascending"), ("from_ns", "ascending")]).combine_chunks()
    end = pc.fill_null(rows["to_ns"], np.iinfo(np.int64).max).to_numpy()
    a, b = (_flat(rows[name]) for name in ("b", "a"))
    return a, b, rows["from_ns"].to_numpy(), end


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return (
        pa.concat_arrays([chunk.cast(pa.string()) for chunk in column.chunks])
        if column.num_chunks
        else pa.array([], pa.string())
    )


def compute_switch_port_imbalance(volumes: pa.Table) -> pa.Table:
    """How unevenly a job's ports are used: `job_id`, `ports`, `received_bytes`, `sent_bytes`, `highest_over_mean` and
    `deviation` (standard deviation over mean) of the bytes of a port. 1 and 0: all alike. Jobs of one port are left
    out. `volumes`: as `sum_switch_ports_by_job` gives."""
    by_port = (
        volumes.filter(pc.is_valid(volumes["job_id"]))
        .group_by(["job_id", "port"])
        .aggregate([("received_bytes", "sum"), ("sent_bytes", "sum")])
    )
    total = pc.add(by_port["received_bytes_sum"], by_port["sent_bytes_sum"])
    flat = by_port.append_column("bytes", total)
    found = flat.group_by("job_id").aggregate(
        [
            ("bytes", "count"),
            ("bytes", "mean"),
            ("bytes", "max"),
            ("bytes", "stddev"),
            ("received_bytes_sum", "sum"),
            ("sent_bytes_sum", "sum"),
        ]
    )
    found = found.filter(pc.and_(pc.greater(found["bytes_count"], 1), pc.greater(found["bytes_mean"], 0)))
    return pa.table(
        {
            "job_id": found["job_id"],
            "ports": found["bytes_count"],
            "received_bytes": found["received_bytes_sum_sum"],
            "sent_bytes": found["sent_bytes_sum_sum"],
            "highest_over_mean": pc.divide(found["bytes_max"], found["bytes_mean"]),
            "deviation": pc.divide(found["bytes_stddev"], found["bytes_mean"]),
        }
    )
