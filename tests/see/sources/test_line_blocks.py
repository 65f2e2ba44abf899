"""Blocks of whole lines, and local times: what the line sources stand on."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.errors import InputError, UsageError
from fairlead.see.sources import line_blocks as module
from fairlead.see.sources.line_blocks import list_block_end_gaps, read_line_blocks
from fairlead.see.sources.local_time import check_local_time_zone, convert_local_to_utc_ns, parse_local_offset


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_blocks_are_the_file_cut_at_line_ends(tmp_path: Path, size: int, *, packed: bool) -> None:
    data = b"".join(b"line %d\n" % n for n in range(500)) + b"cut"
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data[:999]) + gzip.compress(data[999:]) if packed else data)
    blocks = list(read_line_blocks(path, size))
    assert b"".join(block.data for block in blocks) + blocks[-1].cut == data
    assert [block.last for block in blocks] == [False] * (len(blocks) - 1) + [True]
    for block in blocks:
        assert not block.data or block.data.startswith(b"line %d\n" % (block.first_line - 1))
        assert block.data.endswith(b"\n") or not block.data


def test_a_line_without_end_is_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 1000)
    monkeypatch.setattr(module, "_CHUNK", 256)
    path = tmp_path / "x"
    path.write_bytes(b"one\n" + b"x" * 5000 + b"\nthree\nfour\n")
    blocks = list(read_line_blocks(path, 64))
    assert b"".join(block.data for block in blocks) == b"one\nthree\nfour\n"
    assert sum(block.overlong for block in blocks) == 1
    assert next(block.first_line for block in blocks if block.data.startswith(b"three")) == 3


@pytest.mark.parametrize("cut", [1, 9, 30, 200])
def test_broken_gzip_gives_what_came_before(tmp_path: Path, cut: int) -> None:
    data = b"".join(b"line %d\n" % (n * n) for n in range(5000))
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data)[:-cut])
    blocks = list(read_line_blocks(path))
    got = b"".join(block.data for block in blocks)
    assert data.startswith(got)
    assert len(got) > len(data) // 2
    assert [gap.kind for gap in list_block_end_gaps(blocks[-1], kept=False)] == ["truncated"]


def test_rubbish_after_gzip_data_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"a\nb\n") + b"rubbish")
    blocks = list(read_line_blocks(path))
    assert blocks[-1].data == b"a\nb\n"
    assert blocks[-1].fault


def test_an_empty_file_is_one_empty_block(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"")
    assert [(b.data, b.last, b.cut) for b in read_line_blocks(path)] == [(b"", True, b"")]
    with pytest.raises(InputError) as caught:
        list(read_line_blocks(tmp_path))
    assert caught.value.where == str(tmp_path)


@settings(deadline=None)
@given(st.integers(0, 4_000_000_000), st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"]))
def test_local_times_are_those_of_the_clock(instant: int, zone: str) -> None:
    wall = datetime.fromtimestamp(instant, ZoneInfo(zone))
    local = int(wall.replace(tzinfo=ZoneInfo("UTC")).timestamp())
    got = int(convert_local_to_utc_ns(np.array([local]), zone)[0])
    assert got == int(wall.replace(fold=0).timestamp()) * 1_000_000_000


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("UTC", 0),
        ("+08:00", 28800),
        ("-0330", -12600),
        ("UTC+8", 28800),
        ("Asia/Shanghai", 28800),
        ("Europe/Paris", None),
    ],
)
def test_offsets(zone: str, offset: int | None) -> None:
    assert parse_local_offset(zone) == offset
    assert check_local_time_zone(zone) == zone


@pytest.mark.parametrize("zone", ["", "Nowhere", "Europe/Berlinn", "+8:0:0"])
def test_unknown_zones_are_usage_errors(zone: str) -> None:
    with pytest.raises(UsageError, match="unknown time zone") as caught:
        check_local_time_zone(zone)
    assert caught.value.remedy
