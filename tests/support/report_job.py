"""One made-up but lifelike job for the HTML report, from a seed: phases, stragglers, files, findings with advice.

The kinds of jobs the tests look at are in `report_samples`.
"""

from __future__ import annotations

import random
from typing import Any

START_NS = 1_721_037_600_000_000_000
BINS = [
    "≤ 100 B",
    "≤ 1 KiB",
    "≤ 10 KiB",
    "≤ 100 KiB",
    "≤ 1 MiB",
    "≤ 4 MiB",
    "≤ 10 MiB",
    "≤ 100 MiB",
    "≤ 1 GiB",
    "> 1 GiB",
]

Data = dict[str, Any]


def epoch_ns(seconds: float) -> int:
    return START_NS + round(seconds * 1e9)


def _finding(rule: str, title: str, severity: str, cost_s: float | None, **more: Any) -> Data:
    base: Data = {
        "id": rule,
        "rule": rule,
        "title": title,
        "subject": {"kind": "job", "id": "482913"},
        "from_ns": START_NS,
        "to_ns": epoch_ns(45),
        "severity": severity,
        "confidence": 0.9,
        "category": "requests",
        "culprits": [],
        "evidence": [],
        "missing": [],
        "advice": [],
        "cost_s": cost_s,
        "cost_basis": "time of the requests beyond what large ones would have taken" if cost_s else None,
        "analysis_version": "1",
    }
    return base | more


def _findings(ranks: int, run_time_s: float) -> list[Data]:
    collective = (
        "MPI_File_write_at_all(fh, offset, buf, count, MPI_DOUBLE, &status);\n// not one MPI_File_write_at a row"
    )
    return [
        _finding(
            "small-writes",
            "98 % of the writes are smaller than 1 MiB, most of them 4 KiB",
            "critical",
            run_time_s * 0.18,
            evidence=[
                {
                    "text": "2,412,544 of 2,461,696 writes are below 1 MiB",
                    "metric": "small_write_share",
                    "value": 0.98,
                    "unit": "fraction",
                    "files": ["/scratch/proj42/run7/plt/plt00120.h5", "/scratch/proj42/run7/plt/plt00080.h5"],
                    "ranks": [],
                },
                {
                    "text": "they take 18 % of the run time",
                    "metric": "small_write_time_s",
                    "value": run_time_s * 0.18,
                    "unit": "s",
                    "files": [],
                    "ranks": [],
                },
            ],
            advice=[
                {
                    "text": "Write collectively, so that MPI-IO gathers the rows into large requests.",
                    "audience": "developer",
                    "code": collective,
                    "language": "c",
                },
                {
                    "text": "Without touching the code, turn on collective buffering.",
                    "audience": "user",
                    "code": "export ROMIO_HINTS=$PWD/hints\necho 'romio_cb_write enable' > hints",
                    "language": "sh",
                },
            ],
        ),
        _finding(
            "straggler",
            "One rank in sixteen waits: rank 3 spends 1.8 times the mean in I/O",
            "high",
            run_time_s * 0.12,
            category="imbalance",
            from_ns=epoch_ns(12),
            to_ns=epoch_ns(19.5),
            evidence=[
                {
                    "text": "the slowest ranks are on one node",
                    "metric": "rank_ratio",
                    "value": 1.8,
                    "unit": "",
                    "files": [],
                    "ranks": list(range(3, ranks, 16)),
                }
            ],
            advice=[
                {
                    "text": "Spread the aggregators over the nodes.",
                    "audience": "user",
                    "code": "export MPICH_MPIIO_HINTS='*:cb_nodes=24:cb_config_list=*:1'",
                    "language": "sh",
                }
            ],
            missing=["server-side counters of the same time"],
            confidence=0.7,
        ),
        _finding(
            "stripe-count",
            "The 96 GiB checkpoint lies on one storage target",
            "warning",
            None,
            category="layout",
            subject={"kind": "file", "id": "/scratch/proj42/run7/chk/chk00100.h5"},
            evidence=[
                {
                    "text": "stripe count 1, 96 GiB written",
                    "metric": "stripe_count",
                    "value": 1,
                    "unit": "",
                    "files": ["/scratch/proj42/run7/chk/chk00100.h5"],
                    "ranks": [],
                }
            ],
            advice=[
                {
                    "text": "Stripe the folder before the job writes to it.",
                    "audience": "user",
                    "code": "lfs setstripe -c 16 -S 4M /scratch/proj42/run7/chk",
                    "language": "sh",
                }
            ],
        ),
        _finding(
            "metadata-share",
            "Opening and closing takes 4 % of the I/O time",
            "info",
            run_time_s * 0.012,
            category="metadata",
            evidence=[
                {
                    "text": "61,440 opens of 812 files",
                    "metric": "opens",
                    "value": 61440,
                    "unit": "count",
                    "files": [],
                    "ranks": [],
                }
            ],
        ),
        _finding("aligned", "Reads are aligned with the file system", "ok", None, category="alignment"),
    ]


def _segments(rng: random.Random, ranks: int, run_time_s: float, most: int) -> Data:
    columns: Data = {name: [] for name in ("rank", "start_s", "dur_s", "kind", "bytes")}
    each = max(1, most // ranks)
    for rank in range(ranks):
        slow = 1.9 if rank % 16 == 3 else 1.0
        time = 0.0
        for index in range(each):
            burst = index * 8 // each
            if index * 8 % each < 8:
                time = max(time, run_time_s * (0.01 + burst / 8.2 + rng.random() * 0.002))
                kind, size, length = 2, 0, run_time_s * (0.0001 + rng.random() * 0.0002)
            else:
                kind = 0 if burst == 0 else 1
                size = rng.choice((4096, 65536, 1 << 20)) * rng.randint(1, 40)
                length = slow * run_time_s / each * 0.7 * rng.random()
            columns["rank"].append(rank)
            columns["start_s"].append(time)
            columns["dur_s"].append(length)
            columns["kind"].append(kind)
            columns["bytes"].append(size)
            time += length + rng.random() * 0.08 * run_time_s / each
    return columns


def _binned(segments: Data, ranks: int, run_time_s: float, bins: int) -> tuple[list[list[int]], list[list[int]]]:
    grid = ([[0] * bins for _ in range(ranks)], [[0] * bins for _ in range(ranks)])
    for rank, start, kind, size in zip(
        segments["rank"], segments["start_s"], segments["kind"], segments["bytes"], strict=True
    ):
        if kind < 2:
            grid[kind][rank][min(bins - 1, int(start / run_time_s * bins))] += size
    return grid


def _files(rng: random.Random, count: int, total: int) -> Data:
    rows = []
    for index in range(count):
        folder, stem = (
            ("plt", f"plt{index * 40 + 40:05d}.h5") if index % 3 else ("chk", f"chk{index * 100 + 100:05d}.h5")
        )
        weight = 1 / (index + 1)
        rows.append(
            {
                "path": f"/scratch/proj42/run7/{folder}/{stem}",
                "fs": "lustre",
                "interface": rng.choice(("POSIX", "MPI-IO", "STDIO")),
                "processes": rng.choice((1, 16, 384)),
                "read_bytes": int(weight * 4e9) if index % 5 == 0 else 0,
                "write_bytes": int(weight * 9e10),
                "reads": int(weight * 4e4) if index % 5 == 0 else 0,
                "writes": int(weight * 9e5),
                "opens": rng.randint(1, 384),
                "read_time_s": weight * 120 if index % 5 == 0 else 0.0,
                "write_time_s": weight * 4100 * (0.5 + rng.random()),
                "meta_time_s": weight * 90 * rng.random(),
                "small_share": rng.random(),
                "layout": "1 × 1 MiB" if index % 2 else "16 × 4 MiB",
            }
        )
    return {"total": total, "rows": rows}


def _phases(moved: dict[str, int], run_time_s: float) -> list[Data]:
    phases = []
    for burst in range(8):
        kind = "read" if burst == 0 else "write"
        begin = run_time_s * (0.01 + burst / 8.2)
        end = begin + run_time_s / 8.2 * 0.55
        size = moved["read"] if kind == "read" else moved["write"] // 7
        phases.append(
            {
                "kind": kind,
                "start_ns": epoch_ns(begin),
                "end_ns": epoch_ns(end),
                "bytes": size,
                "bandwidth_bytes_per_s": size / (end - begin),
            }
        )
    return phases


def _verdict(sums: dict[str, list[int]], io_time: list[float], run_time_s: float, bin_s: float) -> Data:
    ranks, mean = len(io_time), sum(io_time) / len(io_time)
    moved = {kind: sum(values) for kind, values in sums.items()}
    return {
        "schema": "fairlead.report/1",
        "fairlead_version": "0.1.0",
        "inputs": ["flash_id482913_7-15-36000-1.darshan"],
        "analysis_version": "1",
        "source": "darshan",
        "job": {
            "id": "482913",
            "user": "akira",
            "program": "/home/akira/flash/flash4 -par_file run7/flash.par -chk_file chk_0100",
            "start_ns": START_NS,
            "end_ns": epoch_ns(run_time_s),
            "processes": ranks,
            "nodes": max(1, ranks // 32),
            "run_time_s": run_time_s,
        },
        "totals": {
            "read_bytes": moved["read"],
            "write_bytes": moved["write"],
            "read_ops": 41_210,
            "write_ops": 2_461_696,
            "metadata_ops": 61_440,
            "stream_bytes": 2048,
        },
        "io_mode": {"read": "N-1", "write": "N-M" if ranks > 1 else "1-1"},
        "io_mode_mpiio": {"read": "N-1", "write": "N-1"},
        "io_processes": {"read": ranks, "write": max(1, ranks // 2)},
        "summary": {
            "run_time_s": run_time_s,
            "io_time_s": max(io_time),
            "io_time_mean_s": mean,
            "io_time_share": max(io_time) / run_time_s,
            "read_bandwidth_bytes_per_s": moved["read"] / 3,
            "write_bandwidth_bytes_per_s": moved["write"] / 20,
            "read_peak_bytes_per_s": max(sums["read"]) / bin_s,
            "write_peak_bytes_per_s": max(sums["write"]) / bin_s,
            "average_iops": 51_240.3,
            "metadata_ops_per_s": 1359.3,
            "read_period": None,
            "write_period": {"period_s": run_time_s / 8.2, "confidence": 0.91},
        },
        "phases": _phases(moved, run_time_s),
        "findings": _findings(ranks, run_time_s),
        "grade": "D",
        "grade_reason": "Small writes and a few slow ranks cost about 30 % of the run time.",
        "headline": "A third of this job is spent writing 4 KiB pieces into shared files.",
        "lost_s": run_time_s * 0.3,
        "undecided": [
            {"rule": "mds-load", "title": "The metadata server is overloaded", "unknown": ["mds_utilisation"]}
        ],
        "missing": [
            {
                "kind": "server_load",
                "what": "load of the storage servers",
                "why": "the trace sees the client only: interference by other jobs looks like a slow layout",
                "remedy": "fairlead ingest --lake DIR with the site's Lustre counters of the same day",
                "where": "flash_id482913_7-15-36000-1.darshan",
            }
        ],
    }


def _charts(
    rows: Data,
    heat: tuple[list[list[int]], list[list[int]]],
    sums: dict[str, list[int]],
    io_time: list[float],
    run_time_s: float,
) -> Data:
    ranks, mean, bins = len(io_time), sum(io_time) / len(io_time), len(sums["read"])
    heat_read, heat_write = heat
    return {
        "time": {
            "run_time_s": run_time_s,
            "compute_s": run_time_s - mean,
            "read_s": mean * 0.1,
            "write_s": mean * 0.84,
            "meta_s": mean * 0.06,
        },
        "bandwidth": {"start_ns": START_NS, "bin_ns": round(run_time_s / bins * 1e9), **sums},
        "source": "operations",
        "timeline": {"source": "operations", "ranks": list(range(ranks)), "segments": rows, "merged_gap_s": 0.005},
        "heatmap": {
            "start_s": 0.0,
            "bin_s": run_time_s / bins,
            "bins": bins,
            "rows": [{"label": f"rank {rank}"} for rank in range(ranks)],
            "read": heat_read,
            "write": heat_write,
        },
        "sizes": {
            "bins": BINS,
            "read": [0, 12, 340, 2200, 30_100, 8_400, 158, 0, 0, 0],
            "write": [120, 96_000, 2_100_000, 214_424, 1_200, 49_152, 640, 160, 0, 0],
            "common": [
                {"size": 4096, "count": 1_998_848},
                {"size": 65536, "count": 180_224},
                {"size": 1 << 20, "count": 49_152},
                {"size": 524_288, "count": 29_900},
            ],
        },
        "patterns": {
            "read": {"consecutive": 0.71, "sequential": 0.12, "strided": 0.1, "random": 0.07},
            "write": {"consecutive": 0.08, "sequential": 0.15, "strided": 0.4, "random": 0.37},
        },
        "ranks": {
            "rank": list(range(ranks)),
            "node": [f"nid{rank // 32 + 1040:05d}" for rank in range(ranks)],
            "read_bytes": [sum(row) for row in heat_read],
            "write_bytes": [sum(row) for row in heat_write],
            "io_time_s": io_time,
        },
        "costs": [
            {"cause": finding["title"], "cost_s": finding["cost_s"]}
            for finding in _findings(ranks, run_time_s)
            if finding["cost_s"]
        ],
    }


def job(
    ranks: int,
    *,
    run_time_s: float = 45.2,
    segments: int = 30_000,
    bins: int = 180,
    files: int = 812,
    total_files: int = 812,
    seed: int = 7,
) -> Data:
    """A simulation that reads once and writes seven times, with stragglers; every section is there."""
    rng = random.Random(seed)
    rows = _segments(rng, ranks, run_time_s, segments)
    heat_read, heat_write = _binned(rows, ranks, run_time_s, bins)
    sums = {
        "read": [sum(column) for column in zip(*heat_read, strict=True)],
        "write": [sum(column) for column in zip(*heat_write, strict=True)],
    }
    io_time = [0.0] * ranks
    for rank, length in zip(rows["rank"], rows["dur_s"], strict=True):
        io_time[rank] += length
    bin_s = run_time_s / bins
    charts = _charts(rows, (heat_read, heat_write), sums, io_time, run_time_s)
    charts["files"] = _files(rng, files, total_files)
    return {"verdict": _verdict(sums, io_time, run_time_s, bin_s), "charts": charts, "compare": None}
