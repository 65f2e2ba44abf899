"""Phases and periods of recorded runs: labelled Darshan logs, and the TMIO and GekkoFS traces that FTIO ships."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from fairlead.explain.analysis.byte_series import AdaptiveSeries, spread_bytes
from fairlead.explain.analysis.period import find_period
from fairlead.explain.analysis.phases import split_phases
from fairlead.see.sources.darshan import read_darshan_source

pytestmark = pytest.mark.shared_data


def choose_bins(start_ns: int, end_ns: int, target: int) -> int:
    """Return the finest bin width (ns; a 1-2-5 step) that covers the span in at most `target` bins."""
    least = max(1, -(-(end_ns - start_ns) // target))
    power = int(10 ** (len(str(least)) - 1))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def grid(start_s, end_s, nbytes, target: int) -> tuple[np.ndarray, int, int]:
    """Series, origin and bin width of operations given in seconds."""
    start, end = (np.rint(np.asarray(times, float) * 1e9).astype(np.int64) for times in (start_s, end_s))
    origin, last = int(start.min()), int(end.max())
    width = choose_bins(origin, last, target)
    bins = max(1, -(-(last - origin) // width))
    return spread_bytes(start, end, np.rint(nbytes).astype(np.int64), origin, width, bins)[0], origin, width


def dxt(log: Path, kind: str, target: int) -> tuple[np.ndarray, int, int]:
    ops = read_darshan_source(log).tables["ops"]
    mine = ops.filter(
        pc.and_(pc.equal(pc.cast(ops["op"], "string"), kind), pc.equal(pc.cast(ops["interface"], "string"), "POSIX"))
    )
    start, end, size, count = (mine[name].to_numpy() for name in ("start_ns", "end_ns", "size", "count"))
    zero = int(start.min()) if len(start) else 0
    return grid((start - zero) / 1e9, (end - zero) / 1e9, size * count, target)


def tmio(path: Path, mode: str, scale: float = 1.0) -> tuple[np.ndarray, ...]:
    """Start, end (s) and bytes of each phase of each rank, from one JSON object or one a line."""
    text = path.read_text()
    objects = (
        [json.loads(line) for line in text.splitlines() if line.strip()]
        if path.suffix == ".jsonl"
        else [json.loads(text)]
    )
    start, end, rate = [], [], []
    for item in objects:
        held = item[mode]["bandwidth"] if mode in item else {}
        start += held.get("t_rank_s", [])
        end += held.get("t_rank_e", [])
        rate += held.get("b_rank_avr", [])
    first, last = np.array(start), np.array(end)
    return first, last, np.array(rate) * (last - first) * scale


def gekkofs(path: Path) -> tuple[np.ndarray, ...]:
    """One process: start, end (s) and bytes of each request."""
    held = json.loads(path.read_text())
    start, end = (np.array(held[name]) / 1e6 for name in ("start_t_micro", "end_t_micro"))
    return start, end, np.array(held["avg_thruput_mib"]) * (1 << 20) * (end - start)


def custom(path: Path) -> tuple[np.ndarray, ...]:
    """A text of named lists, times in milliseconds."""
    lists = {
        name: np.array(body.split(","), float) for name, body in re.findall(r"(\w+):\s*\[([^\]]*)\]", path.read_text())
    }
    start, end = lists["start_t_micro"] / 1e3, lists["end_t_micro"] / 1e3
    return start, end, lists["avg_thruput_mib"] * (1 << 20) * (end - start)


@pytest.mark.parametrize("target", [4096, 2500, 1000, 400, 200])
@pytest.mark.parametrize("name", ["phases_nn_4x3", "phases_write_only_n1_4x5"])
def test_labelled_logs_with_phases(shared_data: Path, name: str, target: int) -> None:
    folder = shared_data / "own" / "darshan_labelled"
    truth = json.loads((folder / "truth.json").read_text())[name]
    for kind in ("write", "read"):
        if truth[f"{kind}_phases"] == 0:
            continue
        series, origin, width = dxt(folder / f"{name}.darshan", kind, target)
        split = split_phases(series, origin, width, kind=kind)
        assert len(split.phases) == truth[f"{kind}_phases"]
        assert split.total_bytes == truth["posix"][f"{kind}_bytes"]
        assert split.outside_bytes == 0
        assert {p.bytes for p in split.phases} == {split.total_bytes // len(split.phases)}
        gaps = [(b.start_ns - a.end_ns) / 1e9 for a, b in zip(split.phases, split.phases[1:], strict=False)]
        assert min(gaps) > truth["delay_s"] - 0.5
        found = find_period(series, width)
        spacing = np.diff([p.start_ns for p in split.phases]).mean() / 1e9
        assert found is not None
        assert found.period_s == pytest.approx(spacing, rel=0.02)
        assert found.confidence > 0.5


@pytest.mark.parametrize("target", [4096, 200])
@pytest.mark.parametrize("name", ["nn_1m_8", "one_1_16m", "n1_strided_64k_8", "small_512b_nn_4", "big_4k_nn_8"])
def test_labelled_logs_of_one_round_are_one_phase(shared_data: Path, name: str, target: int) -> None:
    for kind in ("write", "read"):
        series, origin, width = dxt(shared_data / "own" / "darshan_labelled" / f"{name}.darshan", kind, target)
        split = split_phases(series, origin, width, kind=kind)  # type: ignore[arg-type]
        assert len(split.phases) == 1
        assert split.outside_bytes < 0.01 * split.total_bytes
        assert find_period(series, width) is None


@pytest.mark.parametrize("target", [4096, 500])
def test_ftio_known_example(shared_data: Path, target: int) -> None:
    """Bursts of 5 s at 10, 30 and 50 s. FTIO reports 1/0.04615 Hz = 21.7 s here (its test/test_api.py): its lines lie
    1/65 Hz apart. The period is 20 s."""
    start, end, nbytes = custom(shared_data / "ftio" / "2.txt")
    series, origin, width = grid(start, end, nbytes, target)
    phases = split_phases(series, origin, width, kind="write").phases
    assert [round((p.start_ns - origin) / 1e9) for p in phases] == [10, 30, 50]
    assert [round((p.end_ns - origin) / 1e9) for p in phases] == [15, 35, 55]
    found = find_period(series, width)
    assert found is not None
    assert found.period_s == pytest.approx(20.0, rel=0.01)
    assert found.confidence > 0.6


@pytest.mark.parametrize("target", [4096, 200])
def test_tmio_read_phases(shared_data: Path, target: int) -> None:
    """15 rounds of reads of 8 ranks, 2.5 s to 29.0 s: 1.89 s apart on average."""
    series, origin, width = grid(*tmio(shared_data / "ftio" / "8.jsonl", "read_sync", 1e6), target)
    assert len(split_phases(series, origin, width, kind="read").phases) == 15
    found = find_period(series, width)
    assert found is not None
    assert found.period_s == pytest.approx(1.89, rel=0.02)
    assert found.confidence > 0.7


@pytest.mark.parametrize("target", [4096, 200])
def test_rank_overlap_leaves_one_phase_and_its_period(shared_data: Path, target: int) -> None:
    """Four ranks in eight rounds 2.67 s apart whose writes overlap: no silence, so no phases, but a period."""
    start, end, nbytes = tmio(shared_data / "ftio" / "custom.json", "write_sync")
    series, origin, width = grid(start, end, nbytes, target)
    assert len(split_phases(series, origin, width, kind="write").phases) == 1
    found = find_period(series, width)
    assert found is not None
    assert found.period_s == pytest.approx((start.max() - start.min()) / 7, rel=0.02)
    assert found.regularity is None


@pytest.mark.parametrize("target", [4096, 200])
def test_gekkofs_ten_checkpoints(shared_data: Path, target: int) -> None:
    """Four processes, ten bursts of 0.15 s, 50 s apart; alone and together."""
    traces = [gekkofs(path) for path in sorted((shared_data / "ftio" / "gekkofs").glob("*.json"))]
    assert len(traces) == 4
    together = tuple(np.concatenate(columns) for columns in zip(*traces, strict=True))
    for trace in [*traces, together]:
        series, origin, width = grid(*trace, target)
        assert len(split_phases(series, origin, width, kind="write").phases) == 10
        found = find_period(series, width)
        assert found is not None
        assert found.period_s == pytest.approx(49.9, rel=0.01)
        assert found.confidence > 0.8


def test_a_single_burst_has_no_period(shared_data: Path) -> None:
    series, origin, width = grid(*custom(shared_data / "ftio" / "4.txt"), 4096)
    assert len(split_phases(series, origin, width, kind="write").phases) == 1
    assert find_period(series, width) is None


def test_a_stream_of_operations_gives_the_same_phases(shared_data: Path) -> None:
    """As a report makes it: power-of-two bins on the epoch's grid, grown while the operations come."""
    folder = shared_data / "own" / "darshan_labelled"
    ops = read_darshan_source(folder / "phases_nn_4x3.darshan").tables["ops"]
    ops = ops.filter(pc.equal(pc.cast(ops["interface"], "string"), "POSIX"))
    stream = AdaptiveSeries(2)
    writes = pc.equal(pc.cast(ops["op"], "string"), "write").to_numpy().astype(np.int64)
    rank, start, end, size = (ops[name].to_numpy() for name in ("rank", "start_ns", "end_ns", "size"))
    for part in np.array_split(np.arange(len(start)), 40):
        stream.push(writes[part], rank[part], start[part], end[part], size[part])
    origin, width, series = stream.build_series()
    assert series.shape[:2] == (2, 4)
    for kind, rows in (("read", series[0]), ("write", series[1])):
        total = rows.sum(axis=0)
        assert len(split_phases(total, origin, width, kind=kind).phases) == 3  # type: ignore[arg-type]
        found = find_period(total, width)
        assert found is not None
        assert found.period_s == pytest.approx(8.2, rel=0.02)
