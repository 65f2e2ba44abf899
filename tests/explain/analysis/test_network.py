"""Ports of jobs, devices by hour, and whom metadata servers work for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fairlead.core.model.site_file import build_site_file_mapping, parse_site_file
from fairlead.core.model.tables import DEVICE, JOBS, METADATA, PORT
from fairlead.explain.analysis.node_intervals import build_node_placement_intervals
from fairlead.explain.analysis.switch_ports import (
    compute_switch_port_imbalance,
    list_port_links,
    sum_switch_ports_by_job,
)
from fairlead.explain.analysis.system.metadata_storm import count_metadata_storm_sources
from fairlead.explain.questions.device_hours import average_device_hours
from fairlead.see.sources.slurm.hostlist import expand_hostlist
from fairlead.store.rollups import derive_rollups

S = 1_000_000_000
EPOCH = 1_700_000_000 * S
HOUR = 3600 * S


def ports(rows: list[tuple[str, int, int]]) -> pa.Table:
    """Traffic of one second on ports of switch s."""
    return pa.Table.from_pylist(
        [
            {
                "ts_ns": EPOCH + S,
                "interval_ns": S,
                "switch": "s",
                "port": port,
                "rx_bytes": rx,
                "tx_bytes": tx,
                "peer": f"n{port} HCA-1",
            }
            for port, rx, tx in rows
        ],
        PORT.schema,
    )


def seconds(table: pa.Table, name: str, kind: str) -> pa.Table:
    rollup = derive_rollups({name: table})["rollup"]
    return pa.Table.from_pylist(
        [r for r in rollup.to_pylist() if r["kind"] == kind and r["interval_ns"] == S], rollup.schema
    )


def jobs() -> pa.Table:
    return build_node_placement_intervals(
        pa.Table.from_pylist(
            [
                {"job_id": "7", "start_ns": EPOCH - 60 * S, "end_ns": EPOCH + 60 * S, "nodes": ["n1", "n2"]},
                {"job_id": "8", "start_ns": EPOCH - 60 * S, "end_ns": None, "nodes": ["n2", "n3"]},
            ],
            JOBS.schema,
        )
    )


def test_volumes_of_ports_go_to_the_jobs_on_their_nodes() -> None:
    raw = ports([("1", 100, 10), ("2", 40, 0), ("3", 8, 0), ("9", 5, 0)])
    found = sum_switch_ports_by_job(seconds(raw, "port", "port"), list_port_links(raw), jobs())
    rows = {(r["job_id"], r["port"]): r for r in found.to_pylist()}
    assert rows["7", "s/1"]["sent_bytes"] == 100
    assert rows["7", "s/1"]["received_bytes"] == 10
    assert rows["7", "s/1"]["ambiguous_bytes"] == 0
    assert rows["7", "s/2"]["sent_bytes"] == rows["8", "s/2"]["sent_bytes"] == rows["8", "s/2"]["ambiguous_bytes"] == 20
    assert rows[None, "s/9"]["sent_bytes"] == 5
    uneven = {r["job_id"]: r for r in compute_switch_port_imbalance(found).to_pylist()}
    assert uneven["7"]["highest_over_mean"] == pytest.approx(110 / 65)
    assert uneven["7"]["deviation"] == pytest.approx(45 / 65)
    assert uneven["7"]["ports"] == 2


def test_ports_may_be_told_by_the_site_file_and_others_are_between_switches() -> None:
    site = parse_site_file('[[links]]\nswitch="s"\nports="[1-2]"\nnodes="n[1-2]"')
    links = pa.Table.from_batches([build_site_file_mapping(site, expand_hostlist)])
    found = sum_switch_ports_by_job(seconds(ports([("1", 1, 1), ("3", 9, 9)]), "port", "port"), links, jobs())
    assert {r["port"] for r in found.to_pylist()} == {"s/1"}


def test_a_job_of_one_port_is_not_uneven() -> None:
    raw = ports([("1", 100, 10)])
    assert (
        compute_switch_port_imbalance(
            sum_switch_ports_by_job(seconds(raw, "port", "port"), list_port_links(raw), jobs())
        ).num_rows
        == 0
    )


def test_devices_have_an_hour_of_the_day() -> None:
    start = EPOCH // (24 * HOUR) * 24 * HOUR
    rows = [
        {
            "ts_ns": start + (day * 24 + 5) * HOUR + HOUR,
            "interval_ns": HOUR,
            "node": "n1",
            "device": "nvme0",
            "write_bytes": 3600 * 10 * (day + 1),
            "read_bytes": 0,
        }
        for day in (0, 1)
    ]
    rollup = derive_rollups({"device": pa.Table.from_pylist(rows, DEVICE.schema)})["rollup"]
    hourly = pa.Table.from_pylist([r for r in rollup.to_pylist() if r["interval_ns"] == HOUR], rollup.schema)
    (row,) = average_device_hours(hourly).to_pylist()
    assert (row["id"], row["hour"], row["hours"]) == ("n1/nvme0", 5, 2)
    assert row["write_bytes_per_s"] == pytest.approx(15)
    assert row["read_bytes_per_s"] == 0
    assert row["busy_share"] is None
    assert average_device_hours(hourly, offset_ns=20 * HOUR).to_pylist()[0]["hour"] == 1


def test_a_metadata_server_works_for_classes_of_clients() -> None:
    rows = [("n1", "open", 5), ("login1", "stat", 90), ("10.0.0.9@tcp", "open", 2), (None, "open", 97)]
    table = pa.Table.from_pylist(
        [
            {"ts_ns": EPOCH, "server": "mds1", "client": c, "op": op, "count": n, "source": "exports"}
            for c, op, n in rows
        ],
        METADATA.schema,
    )
    found = count_metadata_storm_sources(table, {"n1": "compute", "login1": "login"})
    assert [(r["client_class"], r["op"], r["count"]) for r in found.to_pylist()] == [
        ("login", "stat", 90),
        ("compute", "open", 5),
        ("unknown", "open", 2),
    ]
