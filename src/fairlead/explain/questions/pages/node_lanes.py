"""Lanes of a job from counters of its nodes that know no jobs: an estimate, as jobs beside it on a node count too.

The client's lane where no counter names the job, and the switch ports its nodes are linked to. Not here: counters that
name the job (`job_timeline`), shared servers (`questions.layer_estimates`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fairlead.explain.analysis.switch_ports import LINKED
from fairlead.explain.questions.lake_queries import Tables
from fairlead.explain.questions.pages.page_axis import Axis
from fairlead.explain.questions.rollup_sums import sum_rollup_by_step

MOST_NODES = 4096
_COUNTED = "pfs_client"
"""Counters of a node as a whole. A mount's and a tracer's name the job: where they do not, it moved nothing."""
BY_JOB = ("mount", "client", "pfs_client", "osc", "target")
"""Layers whose counters name jobs: where they do, a job they do not name moved nothing there."""
CLIENT = "client: not counted by job; traffic of its nodes while it ran, including jobs beside it"
PORTS = "port: traffic of its nodes, including jobs beside it"


def sum_node_lane_traffic(lake: Tables, axis: Axis, nodes: Sequence[str]) -> pa.Table | None:
    """Sums by cell of what the nodes moved; None where they do not tell."""
    if not nodes or len(nodes) > MOST_NODES:
        return None
    found = sum_rollup_by_step(
        lake,
        axis.cells,
        axis.cells.step_ns,
        "layer",
        "kind = $kind AND id IN (SELECT unnest($nodes)) AND layer = $layer AND job_id IS NULL",
        {"kind": "node", "nodes": list(nodes), "layer": _COUNTED},
    )
    return found if found.num_rows else None


def sum_port_lane_traffic(lake: Tables, axis: Axis, nodes: Sequence[str]) -> pa.Table | None:
    """Sums by cell of the ports the nodes are linked to, in the node's view (what a switch sends, a node reads); None
    where no link or no port is known."""
    if not nodes or len(nodes) > MOST_NODES:
        return None
    span = axis.cells.span
    found = sum_rollup_by_step(
        lake,
        axis.cells,
        axis.cells.step_ns,
        "layer",
        "kind = $kind AND layer = $kind AND id IN (SELECT b FROM mapping WHERE kind = $linked AND a IN"
        f" (SELECT unnest($nodes)) AND from_ns < {span.to_ns} AND (to_ns IS NULL OR to_ns > {span.from_ns}))",
        {"kind": "port", "linked": LINKED, "nodes": list(nodes)},
    )
    if not found.num_rows:
        return None
    swapped = {
        "read_bytes": "write_bytes",
        "write_bytes": "read_bytes",
        "read_ops": "write_ops",
        "write_ops": "read_ops",
    }
    return found.rename_columns([swapped.get(name, name) for name in found.column_names])
