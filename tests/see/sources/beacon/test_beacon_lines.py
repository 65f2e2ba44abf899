"""Beacon scanners: compiled and plain agree, blocks do not matter, deltas and handles match a plain reading."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.errors import FairleadError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import find_table_spec
from fairlead.see.sources.beacon import BeaconSource
from fairlead.see.sources.beacon.carry_over import OpenHandles, SeriesState
from fairlead.see.sources.beacon.compiled import compile_kernel
from fairlead.see.sources.beacon.layout import BUCKETS
from fairlead.see.sources.beacon.lines import scan_beacon_lines
from fairlead.see.sources.beacon.scan_counters import (
    scan_cache_counters,
    scan_latency_counters,
    scan_metadata_counters,
    scan_rpc_counters,
)
from fairlead.see.sources.beacon.scan_trace import resolve_trace_handles, scan_trace_operations
from fairlead.see.sources.beacon.series import Series
from fairlead.see.sources.line_blocks import Block

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "beacon"


def _tables(items: Any) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item, pa.RecordBatch):
            out.setdefault(find_table_spec(item.schema).name, []).extend(map(str, item.to_pylist()))
    return {name: sorted(rows) for name, rows in out.items()}


def _mutated(seed: int) -> bytes:
    """The mixed fixture with some bytes replaced, dropped or doubled."""
    rng = random.Random(seed)
    raw = bytearray((FIXTURES / "mixed.log").read_bytes() + (FIXTURES / "client_sums.log").read_bytes())
    raw += (FIXTURES / "pages" / "172.0.12.3.json").read_bytes() + (FIXTURES / "ost" / "OST0007.csv").read_bytes()
    for _ in range(rng.randrange(60)):
        at = rng.randrange(len(raw))
        choice = rng.randrange(3)
        if choice == 0:
            raw[at] = rng.choice(b"0123456789 []|,.=x\"'\t:-Z\xff\n")
        elif choice == 1:
            del raw[at : at + rng.randrange(1, 9)]
        else:
            raw[at:at] = raw[at : at + rng.randrange(1, 12)]
    return bytes(raw)


def _scans(data: bytes, *, fast: bool) -> list[Any]:
    """Results of every scanner on every line, whatever its kind."""
    lines = scan_beacon_lines(Block(data, 1), fast=fast)
    found: list[Any] = [lines.kind, lines.begin, lines.end, lines.stamp_ns, lines.host_begin, lines.host_end]
    for scanner, kinds, width in (
        (scan_trace_operations, (1,), 10),
        (scan_latency_counters, (2,), 12),
        (scan_cache_counters, (5,), 5),
    ):
        rows = lines.select_rows(*kinds)
        out = np.zeros((len(rows), width), np.int64)
        compile_kernel(scanner, fast=fast)(lines.view, lines.begin[rows], lines.end[rows], out)
        found.append(out)
    rows = lines.select_rows(3, 4)
    out, counts = np.zeros((len(rows), 4), np.int64), np.zeros((len(rows), 2, BUCKETS), np.int64)
    found.append(
        compile_kernel(scan_rpc_counters, fast=fast)(lines.view, lines.begin[rows], lines.end[rows], out, counts)
    )
    found += [out, counts]
    rows = lines.select_rows(6)
    out, pairs = np.zeros((len(rows), 2), np.int64), np.zeros((len(data), 4), np.int64)
    count = compile_kernel(scan_metadata_counters, fast=fast)(
        lines.view, lines.begin[rows], lines.end[rows], out, pairs
    )
    return [*found, count, out, pairs[:count]]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_compiled_and_plain_scanners_agree_on_damaged_lines(seed: int) -> None:
    data = _mutated(seed)
    for plain, fast in zip(_scans(data, fast=False), _scans(data, fast=True), strict=True):
        np.testing.assert_array_equal(plain, fast)


@pytest.mark.parametrize("block_bytes", [1, 200, 1500, 1 << 20])
def test_block_size_does_not_matter(tmp_path: Path, block_bytes: int) -> None:
    path = tmp_path / "mixed.log"
    path.write_bytes((FIXTURES / "mixed.log").read_bytes())
    assert _tables(BeaconSource(block_bytes=block_bytes).read(path)) == _tables(BeaconSource().read(path))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_damaged_files_give_records_and_gaps_or_one_clear_error(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "x.log"
    raw = _mutated(seed)
    path.write_bytes(raw[: random.Random(seed).randrange(len(raw))])
    faults: list[FairleadError] = []
    try:
        for item in BeaconSource().read(path):
            assert isinstance(item, pa.RecordBatch | Missing)
            if isinstance(item, pa.RecordBatch):
                item.validate(full=True)
    except FairleadError as error:
        faults.append(error)
    assert all(fault.remedy for fault in faults)


def test_every_truncation_gives_a_part_of_the_whole(tmp_path: Path) -> None:
    raw = (FIXTURES / "client_released.log").read_bytes()
    path = tmp_path / "x.log"
    whole = _tables(BeaconSource().read(FIXTURES / "client_released.log"))["ops"]
    for end in range(raw.index(b"\n", 200) + 1, len(raw)):
        path.write_bytes(raw[:end])
        assert set(_tables(BeaconSource().read(path)).get("ops", [])) <= set(whole)


samples = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.tuples(st.integers(0, 50), st.integers(0, 50))), max_size=60
)


@settings(deadline=None)
@given(samples=samples, cuts=st.lists(st.integers(0, 60), max_size=3))
def test_deltas_of_counters_with_resets(samples: list[tuple[int, int, tuple[int, int]]], cuts: list[int]) -> None:
    """Against a plain loop over samples in time order, cut into blocks anywhere."""
    samples.sort(key=lambda sample: sample[1])
    last: dict[int, tuple[int, tuple[int, int]]] = {}
    expected: list[tuple[int, int, int, int, int]] = []
    newest = {(key, t): value for key, t, value in samples}
    resets = 0
    for (key, t), value in sorted(newest.items(), key=lambda entry: (entry[0][1], entry[0][0])):
        if key in last:
            before_t, before = last[key]
            delta = (value[0] - before[0], value[1] - before[1])
            if min(delta) >= 0:
                expected.append((key, t, t - before_t, *delta))
            else:
                resets += 1
        last[key] = (t, value)
    series = Series(2)
    got: list[tuple[int, ...]] = []
    seen = 0
    times = sorted({s[1] for s in samples})
    limits = sorted({times[min(c, len(times) - 1)] for c in cuts}) if times else []
    for low, high in zip([0, *limits], [*limits, 1 << 40], strict=True):
        part = [s for s in samples if low <= s[1] < high]
        if not part:
            continue
        keys, t = np.array([s[0] for s in part]), np.array([s[1] for s in part])
        deltas = series.compute_deltas(keys, t, np.array([s[2] for s in part]))
        seen += deltas.resets
        got += [
            (int(keys[r]), int(t[r]), int(i), *map(int, v))
            for r, i, v in zip(deltas.rows, deltas.interval_ns, deltas.values, strict=True)
        ]
        assert deltas.late == 0
    assert sorted(got) == sorted(expected)
    assert seen == resets


def test_samples_older_than_the_last_are_late() -> None:
    series = Series(1)
    series.compute_deltas(np.array([1, 1]), np.array([10, 20]), np.array([[1], [2]]))
    deltas = series.compute_deltas(np.array([1, 1]), np.array([15, 30]), np.array([[9], [5]]))
    assert deltas.late == 1
    assert deltas.values.tolist() == [[3]]


steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.sampled_from([0, 1, 2, 3])), max_size=80)


@settings(deadline=None)
@given(steps=steps, size=st.integers(1, 20), fast=st.booleans())
def test_handles_against_a_dictionary(steps: list[tuple[int, int, int]], size: int, *, fast: bool) -> None:
    table = OpenHandles()
    known: dict[tuple[int, int], int] = {}
    for start in range(0, len(steps), size):
        part = steps[start : start + size]
        hosts = np.array([s[0] for s in part])
        fds = np.array([[(s[1] << 40) - (s[1] & 1) * (1 << 62), 1] for s in part])
        ops = np.array([s[2] for s in part])
        files = np.array([[start + i if s[2] == 2 else 0, 0] for i, s in enumerate(part)])
        table.reserve(int((ops == 2).sum()))
        compile_kernel(resolve_trace_handles, fast=fast)(hosts, fds, ops, files, table.keys, table.values, table.used)
        for i, (host, fd, op) in enumerate(part):
            if op == 2:
                known[host, fd] = start + i
            wanted = known.pop((host, fd), None) if op == 3 else known.get((host, fd))
            assert (int(files[i, 0]) if files[i, 1] else None) == wanted


def test_a_growing_table_forgets_nothing_that_is_open() -> None:
    table = OpenHandles()
    rng = np.random.default_rng(5)
    fds = rng.integers(-(1 << 62), 1 << 62, 5000)
    for start in range(0, 5000, 500):
        part = fds[start : start + 500]
        table.reserve(500)
        files = np.column_stack([np.arange(start, start + 500), np.zeros(500, np.int64)])
        ones = np.ones(500, np.int64)
        resolve_trace_handles(
            ones, np.column_stack([part, ones]), ones * 2, files, table.keys, table.values, table.used
        )
    files = np.zeros((5000, 2), np.int64)
    ones = np.ones(5000, np.int64)
    missed = resolve_trace_handles(
        ones, np.column_stack([fds, ones]), ones * 0, files, table.keys, table.values, table.used
    )
    assert missed == 0
    assert files[:, 0].tolist() == list(range(5000))


def test_a_path_is_given_once() -> None:
    carried = SeriesState()
    assert carried.find_new_paths(np.array([1, 2])).tolist() == [True, True]
    assert carried.find_new_paths(np.array([2, 3])).tolist() == [False, True]
