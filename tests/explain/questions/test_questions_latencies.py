"""How long requests took: means of those that were timed, quantiles where there is a histogram, else unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fairlead.core.model.histogram_bins import OCTAVES_NS
from fairlead.core.model.tables import FORWARDER, METADATA, PFS_CLIENT, TARGET
from fairlead.explain.questions.latencies import list_latencies
from fairlead.explain.questions.span import Span
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

NOW = 1_700_000_000 * 10**9
S = 10**9


def told(lake: Lake, kind: str, name: str, **options: str) -> dict[tuple[str, str], Any]:
    span = Span(NOW - 600 * S, NOW + 60 * S)
    where = "kind = $kind AND id = $id AND job_id IS NULL"
    lines = list_latencies(lake, span, where, {"kind": kind, "id": name}, **options)
    return {(line.layer, line.kind): line for line in lines}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A second of an OST, an MDT, an NFS client and a forwarder."""
    made = Lake.open(tmp_path / "lake", create=True)
    base = {"ts_ns": NOW, "interval_ns": S}
    histogram = [0] * (len(OCTAVES_NS) - 1)
    histogram[20] = 100
    rows = {
        "target": pa.Table.from_pylist(
            [
                {**base, "target": "ost", "read_rpcs": 4, "write_rpcs": 1, "read_busy_ns": 400, "write_busy_ns": 200}
                | {"metadata_ops": 0, "metadata_busy_ns": 0},
                {**base, "target": "old", "read_rpcs": 4, "read_bytes": 9},
            ],
            TARGET.schema,
        ),
        "metadata": pa.Table.from_pylist(
            [
                {**base, "server": "mdt", "op": "open", "count": 3, "busy_ns": 90},
                {**base, "server": "mdt", "op": "close", "count": 5},
            ],
            METADATA.schema,
        ),
        "pfs_client": pa.Table.from_pylist(
            [{**base, "node": "n1", "fs": "s:/home", "source": "nfs", "write_rpcs": 2, "write_busy_ns": 5000}],
            PFS_CLIENT.schema,
        ),
        "forwarder": pa.Table.from_pylist(
            [{**base, "node": "f1", "op_class": "write", "requests": 100, "service_ns_histogram": histogram}],
            FORWARDER.schema,
        ),
    }
    with made.open_writer("s", derive=derive_rollups) as writer:
        taking = writer.open_batch("in")
        for table in rows.values():
            for one in table.to_batches():
                taking.add(one)
        taking.commit()
    return made


def test_means_by_kind_where_all_were_timed(lake: Lake) -> None:
    """An OST that counts times by kind; one that does not is unknown, not zero."""
    found = told(lake, "target", "ost")
    assert {key: (line.requests, line.mean_ns) for key, line in found.items()} == {
        ("target", "all"): (5, 120.0),
        ("target", "read"): (4, 100.0),
        ("target", "write"): (1, 200.0),
    }
    assert told(lake, "target", "old") == {}


def test_a_mean_says_of_how_many_requests_it_is(lake: Lake) -> None:
    """Of eight operations three were timed: their mean, and no mean by kind."""
    (line,) = told(lake, "mds", "mdt").values()
    assert (line.kind, line.requests, line.mean_ns) == ("all", 3, 30.0)


def test_an_nfs_mount_tells_times_of_its_node(lake: Lake) -> None:
    (line,) = told(lake, "node", "n1").values()
    assert (line.layer, line.requests, line.mean_ns, line.p50_ns) == ("pfs_client", 2, 2500.0, None)


def test_quantiles_come_from_a_histogram(lake: Lake) -> None:
    (line,) = told(lake, "forwarder", "f1", component="f1").values()
    assert line.requests == 100
    assert line.p50_ns is not None
    assert OCTAVES_NS[20] <= line.p50_ns <= (line.p95_ns or 0) <= (line.p99_ns or 0) <= OCTAVES_NS[21]
    assert OCTAVES_NS[20] <= line.mean_ns <= OCTAVES_NS[21]
