"""Prometheus: remote-write bodies and exporters' pages become rows; resets, gaps, stale and hostile input."""

from __future__ import annotations

import gzip
import math
import random
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import cramjam
import pytest

from fairlead.core.errors import ConfigError, CorruptInputError, LakeError
from fairlead.see.collector.feeds.prometheus import protobuf
from fairlead.see.collector.feeds.prometheus.assembly import Assembly
from fairlead.see.collector.feeds.prometheus.exposition import Page, parse_exposition_labels
from fairlead.see.collector.feeds.prometheus.mapping import load_mapping
from fairlead.see.collector.feeds.prometheus.remote_write import RemoteWriteFeed
from fairlead.see.collector.feeds.prometheus.scrape import ScrapeFeed
from fairlead.see.collector.feeds.settings import RemoteWrite, Scrape
from feed_sinks import MemorySink
from remote_writing import body, field, series
from waiting import PATIENCE_S

T0 = 1_700_000_000_000
MS = 1_000_000
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
OST = {"__name__": "lustre_write_bytes_total", "component": "ost", "target": "lfs-OST0001", "instance": "oss1:9169"}
JOB = OST | {"__name__": "lustre_job_write_bytes_total", "jobid": "77"}


def receiver(**options: object) -> RemoteWriteFeed:
    return RemoteWriteFeed(RemoteWrite(enabled=True, **options), began_ns=1)  # type: ignore[arg-type]


def test_counters_become_growth_with_their_interval() -> None:
    one = receiver()
    assert one.accept(body(series(OST, (T0, 1000.0)))) == []
    (rows,) = one.accept(body(series(OST, (T0 + 15_000, 1500.0), (T0 + 30_000, 1500.0), (T0 + 45_000, 2e15))))
    assert rows.schema.metadata[b"fairlead.table"] == b"target"
    found = rows.to_pylist()
    assert [row["write_bytes"] for row in found] == [500, 0, 2 * 10**15 - 1500]
    assert (found[0]["ts_ns"], found[0]["interval_ns"]) == ((T0 + 15_000) * MS, 15_000 * MS)
    assert (found[0]["target"], found[0]["server"], found[0]["source"]) == ("lfs-OST0001", "oss1", "exporter")
    assert found[0]["read_bytes"] is None


def test_columns_of_one_target_and_time_are_one_row() -> None:
    one = receiver()
    reads = OST | {"__name__": "lustre_read_bytes_total"}
    one.accept(body(series(OST, (T0, 0)), series(reads, (T0, 0))))
    (rows,) = one.accept(body(series(OST, (T0 + 1000, 5)), series(reads, (T0 + 1000, 7))))
    assert [(row["read_bytes"], row["write_bytes"]) for row in rows.to_pylist()] == [(7, 5)]


def test_resets_late_and_stale_samples_make_no_traffic() -> None:
    one = receiver()
    one.accept(body(series(OST, (T0, 1000.0))))
    assert one.accept(body(series(OST, (T0 + 1000, 10.0)))) == []  # a reset: a new base
    assert one.accept(body(series(OST, (T0 + 500, 5000.0), (T0 + 1000, 5000.0)))) == []  # late, and again
    (rows,) = one.accept(body(series(OST, (T0 + 2000, 30.0))))
    assert rows["write_bytes"].to_pylist() == [20]
    assert one.accept(body(series(OST, (T0 + 3000, STALE), (T0 + 4000, 90.0)))) == []  # a new base after the marker
    assert one.accept(body(series(OST, (T0 + 5000, math.nan), (T0 + 5001, math.inf), (T0 + 5002, 1e300)))) == []
    assert one.accept(body(series(OST, (T0 + 6000, 95.0), (T0 + 20 * 60_000, 96.0)))) == []  # too long ago
    assert (one.counts.resets, one.counts.late, one.counts.stale) == (1, 2, 4)


def test_a_job_that_begins_is_counted_from_nothing() -> None:
    one = receiver()
    other = JOB | {"jobid": "5"}
    assert one.accept(body(series(other, (T0, 900.0)))) == []  # it ran before: nothing is known of it
    (rows,) = one.accept(body(series(other, (T0 + 15_000, 950.0)), series(JOB, (T0 + 15_000, 400.0))))
    assert {row["job_id"]: row["write_bytes"] for row in rows.to_pylist()} == {"5": 50, "77": 400}
    assert {row["source"] for row in rows.to_pylist()} == {"job_stats"}
    assert {row["interval_ns"] for row in rows.to_pylist()} == {15_000 * MS}


def test_space_and_operations_and_clients() -> None:
    one = receiver()
    whole = OST | {"__name__": "lustre_capacity_kilobytes"}
    free = OST | {"__name__": "lustre_free_kilobytes"}
    (rows,) = one.accept(body(series(whole, (T0, 100)), series(free, (T0, 30))))
    assert [(row["capacity_bytes"], row["used_bytes"], row["interval_ns"]) for row in rows.to_pylist()] == [
        (102_400, 71_680, None)
    ]
    opens = {
        "__name__": "lustre_stats_total",
        "component": "mdt",
        "operation": "open",
        "target": "lfs-MDT0000",
        "instance": "[fd00::1]:9169",
    }
    client = OST | {"component": "client", "target": "lfs-ffff88105db50000", "instance": "n1"}
    one.accept(body(series(opens, (T0, 5)), series(client, (T0, 5))))
    found = {
        rows.schema.metadata[b"fairlead.table"]: rows.to_pylist()
        for rows in one.accept(body(series(opens, (T0 + 1, 8)), series(client, (T0 + 1, 9))))
    }
    (operation,) = found[b"metadata"]
    assert (operation["op"], operation["count"], operation["server"]) == ("open", 3, "fd00::1")
    assert operation["target"] == "lfs-MDT0000"
    (mount,) = found[b"pfs_client"]
    assert (mount["node"], mount["fs"], mount["write_bytes"], mount["source"]) == ("n1", "lfs", 4, "llite")


def test_unknown_metrics_are_counted_and_known_useless_ones_not() -> None:
    one = receiver()
    strange = {"__name__": "llama_count", "instance": "x"}
    one.accept(
        body(series(strange, (T0, 1)), series({"__name__": "go_threads"}, (T0, 1)), series(strange, (T0 + 1, 1)))
    )
    assert dict(one.counts.unknown) == {"llama_count": 1}
    assert "llama_count" in one.counts.format_text()
    assert one.counts.samples == 3


def test_a_body_counts_once_and_is_kept_until_it_is_on_disk() -> None:
    for fail_after in (False, True):
        sink = MemorySink()
        one = receiver()
        one.store_body(body(series(OST, (T0, 100))), sink)
        news = body(series(OST, (T0 + 1000, 150)))
        sink.failures, sink.fail_after = 1, fail_after
        with pytest.raises(LakeError):
            one.store_body(news, sink)
        one.store_body(body(series(OST, (T0 + 2000, 170))), sink)
        assert one.receive(news, {"content-type": "application/x-protobuf"}, sink) == (204, "")
        assert one.store_body(news, sink).known
        assert (
            one.receive(news, {"content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}, sink)[0]
            == 415
        )
        assert sorted(row["write_bytes"] for row in sink.rows("target")) == [20, 50]


def test_forgotten_series_do_not_count_from_nothing() -> None:
    one = Assembly(load_mapping(), lambda key: protobuf.parse_protobuf_labels(key), most_series=10)  # type: ignore[arg-type]

    def label(job: int) -> bytes:
        message = cramjam.snappy.decompress_raw(body(series(JOB | {"jobid": str(job)}, (T0, 0))))
        return next(protobuf.parse_protobuf_series(bytes(message)))[0]

    one.build_rows([(label(job), T0 + job, 5.0) for job in range(12)])
    assert one.series_count == 9
    assert one.build_rows([(label(0), T0 + 1000, 9.0)]) == []
    (rows,) = one.build_rows([(label(11), T0 + 1000, 9.0)])
    assert rows["write_bytes"].to_pylist() == [4]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xff" * 20,
        body(b"\x0a\x05\x01"),
        body(b"\x0a\x02\x0a\x7f"),
        body(b"\x0b"),
        body(b"\x0a" + b"\x80" * 11),
        body(field(1, field(2, b"\x09\x00"))),
        body(b"\x08"),
        bytes(cramjam.snappy.compress_raw(b"\0" * 5000)),
    ],
)
def test_hostile_bodies(bad: bytes) -> None:
    one = receiver(most_bytes=4096)
    if bad == b"":
        with pytest.raises(CorruptInputError):
            one.accept(bad)
        return
    with pytest.raises(CorruptInputError) as caught:
        one.accept(bad)
    assert caught.value.remedy
    assert one.counts.samples == 0


def test_every_cut_of_a_body_is_an_error_or_whole_series() -> None:
    message = b"".join(series(OST | {"target": f"t{i}"}, (T0, i), (T0 + 1, -i)) for i in range(4))
    whole = list(protobuf.parse_protobuf_series(message))
    assert [samples for _, samples in whole] == [[(T0, i), (T0 + 1, -i)] for i in range(4)]
    good = 0
    for end in range(len(message)):
        try:
            found = list(protobuf.parse_protobuf_series(message[:end]))
        except CorruptInputError:
            continue
        good += 1
        assert found == whole[: len(found)]
    assert good == 4
    draw = random.Random(3)
    for _ in range(300):
        data = bytearray(message)
        for _ in range(3):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            for labels, _ in protobuf.parse_protobuf_series(bytes(data)):
                protobuf.parse_protobuf_labels(labels)
        except CorruptInputError:
            continue


def test_fields_of_other_versions_are_passed_over() -> None:
    exemplar = field(3, b"\x09" + struct.pack("<d", 1.0))
    inner = series(OST, (T0, 4))
    labels_and_samples = inner[2:] if inner[1] < 0x80 else inner[3:]
    message = field(3, b"metadata") + field(1, labels_and_samples + exemplar) + b"\x28\x05" + b"\x31" + b"\0" * 8
    ((labels, samples),) = protobuf.parse_protobuf_series(message)
    assert protobuf.parse_protobuf_labels(labels) == OST
    assert samples == [(T0, 4.0)]


PAGE = """# HELP lustre_write_bytes_total x
# TYPE lustre_write_bytes_total counter
lustre_write_bytes_total{component="ost",target="lfs-OST0001"} %d
lustre_job_write_bytes_total{component="ost",jobid="cp \\"a\\" }.0",target="lfs-OST0001"} %d %s
lustre_job_stats_total{component="mdt",jobid="9",operation="open",target="lfs-MDT0000"} 4.0 # {trace="x"} 1.0
node_disk_io_time_seconds_total{device="nvme0n1"} %s
node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} %d
what is this
broken{x="1" 5
unknown_metric NaN
"""


def test_pages_are_read_forgivingly() -> None:
    page = Page(PAGE % (5, 6, T0, "1.5", 10))
    found = list(page.read_values())
    assert len(found) == 7
    assert found[1][1:] == (6.0, T0)
    assert parse_exposition_labels(found[1][0]) == {
        "__name__": "lustre_job_write_bytes_total",
        "component": "ost",
        "jobid": 'cp "a" }.0',
        "target": "lfs-OST0001",
    }
    assert found[2][1:] == (4.0, None)
    assert (page.strange, page.example) == (1, "what is this")
    assert parse_exposition_labels('a{b="c') is None
    assert parse_exposition_labels("1a") is None
    assert parse_exposition_labels('a{b="c\\nd\\\\"}') == {"__name__": "a", "b": "c\nd\\"}
    assert list(Page('x 1 1700000000.5\ny{a="1",} +Inf\n').read_values()) == [
        ("x", 1.0, 1_700_000_000_500),
        ('y{a="1",}', math.inf, None),
    ]


class Exporter(BaseHTTPRequestHandler):
    page: bytes = b""
    status = 200
    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        data = gzip.compress(self.page) if self.headers.get("Accept-Encoding") == "gzip" else self.page
        self.send_response(self.status)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def exporter() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    Exporter.status, Exporter.page = 200, b""
    Exporter.seen.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_page_is_scraped(exporter: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    sink = MemorySink()
    feed = ScrapeFeed(Scrape(url=exporter, node="oss7", token_file=str(tmp_path / "token")))
    Exporter.page = (PAGE % (5, 6, "", "1.5", 10)).encode()
    feed.look(sink)
    assert not sink.batches
    Exporter.page = (PAGE % (25, 10, "", "2.0", 110)).encode()
    sink.failures, sink.fail_after = 1, True
    feed.look(sink)
    assert sink.healths[-1][1] == "failing"
    Exporter.page = (PAGE % (26, 10, "", "2.0", 110)).encode()
    feed.look(sink)
    whole = [row for row in sink.rows("target") if row["source"] == "exporter"]
    assert [(row["server"], row["target"], row["write_bytes"]) for row in whole] == [
        ("oss7", "lfs-OST0001", 20),
        ("oss7", "lfs-OST0001", 1),
    ]
    assert [row["job_id"] for row in sink.rows("target") if row["source"] == "job_stats"] == ['cp "a" }.0'] * 2
    assert [row["busy_ns"] for row in sink.rows("device")] == [500_000_000, 0]
    assert [(row["port"], row["rx_bytes"]) for row in sink.rows("port")] == [("mlx5_0/1", 100), ("mlx5_0/1", 0)]
    assert "1 lines not understood" in sink.healths[-1][2]
    assert sink.unknown_lines == 4  # twice a line that is none, once each a broken and an unknown metric
    assert set(Exporter.seen) == {"Bearer abc"}
    Exporter.status = 500
    feed.look(sink)
    assert "returned 500" in sink.healths[-1][2]


def test_an_exporter_that_is_away_is_said() -> None:
    sink = MemorySink()
    stop = threading.Event()
    feed = ScrapeFeed(Scrape(url="http://127.0.0.1:9/metrics", period_s=0.05))
    thread = threading.Thread(target=feed.run, args=(sink, stop))
    thread.start()
    while not sink.healths:
        stop.wait(0.01)
    stop.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert sink.healths[0][1] == "failing"
    with pytest.raises(ConfigError):
        ScrapeFeed(Scrape(url="file:///etc/passwd"))


def test_a_site_can_add_metrics(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("""
        ignore = ["llama_"]
        [[metric]]
        name = "site_bytes"
        table = "device"
        column = "write_bytes"
        kind = "gauge"
        factor = 8
        keys = { node = "instance", device = "disk" }
        set = { kind = "tape" }
    """)
    one = receiver(mapping=str(path))
    labels = {"__name__": "site_bytes", "instance": "n1:1", "disk": "d"}
    (rows,) = one.accept(body(series(labels, (T0, 2.5)), series({"__name__": "llama_x"}, (T0, 1))))
    (row,) = rows.to_pylist()
    assert (row["node"], row["device"], row["write_bytes"], row["kind"]) == ("n1", "d", 20, "tape")
    assert not one.counts.unknown
    for text in ("[[metric]]\nname = 'x'", path.read_text().replace("device =", "colour ="), "no toml"):
        path.write_text(text)
        with pytest.raises(ConfigError):
            receiver(mapping=str(path))
    with pytest.raises(ConfigError):
        receiver(mapping=str(tmp_path / "none"))
