"""Feeds against those who would hurt: small remote-write bodies that grow, samples of impossible times, folders swapped
for links."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from fairlead.core.errors import CorruptInputError
from fairlead.see.collector.feeds.drop_folder import DropFeed
from fairlead.see.collector.feeds.prometheus import protobuf
from fairlead.see.collector.feeds.prometheus.exposition import Page
from fairlead.see.collector.feeds.prometheus.remote_write import RemoteWriteFeed
from fairlead.see.collector.feeds.settings import Drop, RemoteWrite
from feed_sinks import MemorySink
from remote_writing import body, field, labels, sample, varint

LABELS = {"__name__": "lustre_write_bytes_total", "component": "ost", "target": "OST0001", "instance": "oss1:9169"}


@pytest.mark.parametrize(
    "message",
    [
        b"\x0a\x00" * 600_000,
        field(1, labels(LABELS) + b"\x12\x00" * 600_000),
        field(1, field(1, field(1, b"__name__") + field(2, b"x" * 200_000)) + sample(1, 1.0)),
        field(1, sample(1, 1.0) + b"\x0a\x00" * 1_000_000),
    ],
    ids=["series", "samples", "long labels", "labels after samples"],
)
def test_a_small_body_does_not_become_many_objects(message: bytes) -> None:
    feed = RemoteWriteFeed(RemoteWrite(enabled=True), began_ns=1)
    sent = body(message)
    assert len(sent) < 1 << 20
    began = time.process_time()
    with pytest.raises(CorruptInputError):
        feed.store_body(sent, MemorySink())
    assert time.process_time() - began < 20, "a body of repeated labels must not be copied again for each"


def test_a_snappy_block_says_its_size_before_it_is_made() -> None:
    with pytest.raises(CorruptInputError, match="more than"):
        protobuf.inflate_protobuf_body(varint((1 << 32) - 1) + b"\x00" * 40, 1 << 20)


@pytest.mark.parametrize("stamp", [1 << 62, (1 << 63) - 1, -5, 4_000_000_000_000])
def test_a_sample_of_an_impossible_time_does_not_make_those_after_it_late(stamp: int) -> None:
    feed = RemoteWriteFeed(RemoteWrite(enabled=True), began_ns=1)
    now = time.time_ns() // 1_000_000
    feed.accept(body(field(1, labels(LABELS) + sample(now - 30_000, 1000.0))))
    assert feed.accept(body(field(1, labels(LABELS) + sample(stamp, 2000.0)))) == []
    (rows,) = feed.accept(body(field(1, labels(LABELS) + sample(now, 1500.0))))
    assert rows.column("write_bytes").to_pylist() == [500]
    assert feed.counts.misdated == 1
    assert "dated" in feed.counts.format_text()


def test_a_page_with_times_that_are_no_times() -> None:
    page = Page("a 1 inf\nb 1 nan\nc 1 1e400\nd 2 1700000000000\n")
    assert list(page.read_values()) == [("d", 2.0, 1_700_000_000_000)]
    assert page.strange == 3


@pytest.mark.parametrize("after", ["keep", "delete"])
def test_links_in_the_place_of_the_drop_folders_own_are_not_followed(tmp_path: Path, after: str) -> None:
    """Whoever writes in the drop folder must not move files into another folder of the collector's, nor expire them."""
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    for number in range(20):
        (treasure / f"{number}").write_text("dear")
    folder = tmp_path / "drop"
    folder.mkdir()
    for name in ("taken", "refused"):
        (folder / name).symlink_to(treasure)
    (folder / "strange.bin").write_bytes(os.urandom(100))
    os.utime(folder / "strange.bin", (1, 1))
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    sink = MemorySink()
    feed = DropFeed(Drop(folder=str(folder), time_zone="UTC", after=after, kept_refused=1))  # type: ignore[arg-type]
    feed.look(sink, threading.Event())
    assert sorted(int(path.name) for path in treasure.iterdir()) == list(range(20))
    assert (folder / "strange.bin").exists()
    assert "not the collector's own" in str(feed._failing)
