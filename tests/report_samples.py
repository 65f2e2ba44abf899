"""Made-up but lifelike data for the HTML report: one function a kind of job, all of it from a seed.

`python tests/report_samples.py` writes the small ones to tests/fixtures/report; the big job is only made in memory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "fixtures" / "report"
START_NS = 1_721_037_600_000_000_000
BINS = ["≤ 100 B", "≤ 1 KiB", "≤ 10 KiB", "≤ 100 KiB", "≤ 1 MiB", "≤ 4 MiB", "≤ 10 MiB", "≤ 100 MiB", "≤ 1 GiB", "> 1 GiB"]
HOSTILE = "/scratch/</script><img src=x onerror=\"window.hacked=1\">/<!--\u2028\u202eevil\n&amp;.h5"

Data = dict[str, Any]


def _ns(seconds: float) -> int:
    return START_NS + round(seconds * 1e9)


def _finding(rule: str, title: str, severity: str, cost_s: float | None, **more: Any) -> Data:
    base: Data = {
        "id": rule, "rule": rule, "title": title, "subject": {"kind": "job", "id": "482913"}, "from_ns": START_NS, "to_ns": _ns(45),
        "severity": severity, "confidence": 0.9, "category": "requests", "culprits": [], "evidence": [], "missing": [], "advice": [],
        "cost_s": cost_s, "cost_basis": "time of the requests beyond what large ones would have taken" if cost_s else None, "analysis_version": "1",
    }
    return base | more


def _findings(ranks: int, run_time_s: float) -> list[Data]:
    collective = "MPI_File_write_at_all(fh, offset, buf, count, MPI_DOUBLE, &status);\n// instead of one MPI_File_write_at per row"
    return [
        _finding("small-writes", "98 % of the writes are smaller than 1 MiB, most of them 4 KiB", "critical", run_time_s * 0.18,
                 evidence=[{"text": "2,412,544 of 2,461,696 writes are below 1 MiB", "metric": "small_write_share", "value": 0.98, "unit": "fraction",
                            "files": ["/scratch/proj42/run7/plt/plt00040.h5", "/scratch/proj42/run7/plt/plt00080.h5"], "ranks": []},
                           {"text": "they take 18 % of the run time", "metric": "small_write_time_s", "value": run_time_s * 0.18, "unit": "s", "files": [], "ranks": []}],
                 advice=[{"text": "Write collectively, so that MPI-IO gathers the rows into large requests.", "audience": "developer", "code": collective, "language": "c"},
                         {"text": "Without touching the code, turn on collective buffering.", "audience": "user", "code": "export ROMIO_HINTS=$PWD/hints\necho 'romio_cb_write enable' > hints", "language": "sh"}]),
        _finding("straggler", "One rank in sixteen waits: rank 3 spends 1.8 times the mean in I/O", "high", run_time_s * 0.12, category="imbalance",
                 from_ns=_ns(12), to_ns=_ns(19.5),
                 evidence=[{"text": "the slowest ranks are on one node", "metric": "rank_ratio", "value": 1.8, "unit": "", "files": [], "ranks": list(range(3, ranks, 16))}],
                 advice=[{"text": "Spread the aggregators over the nodes.", "audience": "user", "code": "export MPICH_MPIIO_HINTS='*:cb_nodes=24:cb_config_list=*:1'", "language": "sh"}],
                 missing=["server-side counters of the same time"], confidence=0.7),
        _finding("stripe-count", "The 96 GiB checkpoint lies on one storage target", "warning", None, category="layout",
                 subject={"kind": "file", "id": "/scratch/proj42/run7/chk/chk00100.h5"},
                 evidence=[{"text": "stripe count 1, 96 GiB written", "metric": "stripe_count", "value": 1, "unit": "", "files": ["/scratch/proj42/run7/chk/chk00100.h5"], "ranks": []}],
                 advice=[{"text": "Stripe the folder before the job writes to it.", "audience": "user", "code": "lfs setstripe -c 16 -S 4M /scratch/proj42/run7/chk", "language": "sh"}]),
        _finding("metadata-share", "Opening and closing takes 4 % of the I/O time", "info", run_time_s * 0.012, category="metadata",
                 evidence=[{"text": "61,440 opens of 812 files", "metric": "opens", "value": 61440, "unit": "count", "files": [], "ranks": []}]),
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
    for rank, start, kind, size in zip(segments["rank"], segments["start_s"], segments["kind"], segments["bytes"], strict=True):
        if kind < 2:
            grid[kind][rank][min(bins - 1, int(start / run_time_s * bins))] += size
    return grid


def _files(rng: random.Random, count: int, total: int) -> Data:
    rows = []
    for index in range(count):
        folder, stem = ("plt", f"plt{index * 40 + 40:05d}.h5") if index % 3 else ("chk", f"chk{index * 100 + 100:05d}.h5")
        weight = 1 / (index + 1)
        rows.append({
            "path": f"/scratch/proj42/run7/{folder}/{stem}", "fs": "lustre", "interface": rng.choice(("POSIX", "MPI-IO", "STDIO")), "processes": rng.choice((1, 16, 384)),
            "read_bytes": int(weight * 4e9) if index % 5 == 0 else 0, "write_bytes": int(weight * 9e10), "reads": int(weight * 4e4) if index % 5 == 0 else 0,
            "writes": int(weight * 9e5), "opens": rng.randint(1, 384), "read_time_s": weight * 120 if index % 5 == 0 else 0.0, "write_time_s": weight * 4100 * (0.5 + rng.random()),
            "meta_time_s": weight * 90 * rng.random(), "small_share": rng.random(), "layout": "1 × 1 MiB" if index % 2 else "16 × 4 MiB",
        })
    return {"total": total, "rows": rows}


def job(ranks: int, *, run_time_s: float = 45.2, segments: int = 30_000, bins: int = 180, files: int = 812, total_files: int = 812, seed: int = 7) -> Data:
    """A simulation that reads once and writes seven times, with stragglers; every section is there."""
    rng = random.Random(seed)
    rows = _segments(rng, ranks, run_time_s, segments)
    heat_read, heat_write = _binned(rows, ranks, run_time_s, bins)
    sums = {"read": [sum(column) for column in zip(*heat_read, strict=True)], "write": [sum(column) for column in zip(*heat_write, strict=True)]}
    moved = {kind: sum(values) for kind, values in sums.items()}
    phases = []
    for burst in range(8):
        kind = "read" if burst == 0 else "write"
        begin = run_time_s * (0.01 + burst / 8.2)
        end = begin + run_time_s / 8.2 * 0.55
        size = moved["read"] if kind == "read" else moved["write"] // 7
        phases.append({"kind": kind, "start_ns": _ns(begin), "end_ns": _ns(end), "bytes": size, "bandwidth_bytes_per_s": size / (end - begin)})
    io_time = [0.0] * ranks
    for rank, length in zip(rows["rank"], rows["dur_s"], strict=True):
        io_time[rank] += length
    mean = sum(io_time) / ranks
    return {
        "verdict": {
            "schema": "fairlead.report/1", "fairlead_version": "0.1.0", "inputs": ["flash_id482913_7-15-36000-1.darshan"], "analysis_version": "1", "source": "darshan",
            "job": {"id": "482913", "user": "akira", "program": "/home/akira/flash/flash4 -par_file run7/flash.par -chk_file chk_0100", "start_ns": START_NS, "end_ns": _ns(run_time_s),
                    "processes": ranks, "nodes": max(1, ranks // 32), "run_time_s": run_time_s},
            "totals": {"read_bytes": moved["read"], "write_bytes": moved["write"], "read_ops": 41_210, "write_ops": 2_461_696, "metadata_ops": 61_440, "stream_bytes": 2048},
            "io_mode": {"read": "N-1", "write": "N-M" if ranks > 1 else "1-1"}, "io_mode_mpiio": {"read": "N-1", "write": "N-1"}, "io_processes": {"read": ranks, "write": max(1, ranks // 2)},
            "summary": {"run_time_s": run_time_s, "io_time_s": max(io_time), "io_time_mean_s": mean, "io_time_share": max(io_time) / run_time_s,
                        "read_bandwidth_bytes_per_s": moved["read"] / 3, "write_bandwidth_bytes_per_s": moved["write"] / 20,
                        "read_peak_bytes_per_s": max(sums["read"]) * bins / run_time_s, "write_peak_bytes_per_s": max(sums["write"]) * bins / run_time_s,
                        "average_iops": 51_240.3, "metadata_ops_per_s": 1359.3, "read_period": None, "write_period": {"period_s": run_time_s / 8.2, "confidence": 0.91}},
            "phases": phases, "findings": _findings(ranks, run_time_s), "grade": "D", "grade_reason": "Small writes and a few slow ranks cost about 30 % of the run time.",
            "headline": "A third of this job is spent writing 4 KiB pieces into shared files.", "lost_s": run_time_s * 0.3,
            "undecided": [{"rule": "mds-load", "title": "The metadata server is overloaded", "unknown": ["mds_utilisation"]}],
            "missing": [{"kind": "server_load", "what": "load of the storage servers", "why": "the trace sees the client only, so interference by other jobs cannot be told from a slow layout",
                         "remedy": "fairlead ingest --lake DIR with the site's Lustre counters of the same day", "where": "flash_id482913_7-15-36000-1.darshan"}],
        },
        "charts": {
            "time": {"run_time_s": run_time_s, "compute_s": run_time_s - mean, "read_s": mean * 0.1, "write_s": mean * 0.84, "meta_s": mean * 0.06},
            "bandwidth": {"start_ns": START_NS, "bin_ns": round(run_time_s / bins * 1e9), **sums}, "source": "operations",
            "timeline": {"source": "operations", "ranks": list(range(ranks)), "segments": rows, "merged_gap_s": 0.005},
            "heatmap": {"start_s": 0.0, "bin_s": run_time_s / bins, "bins": bins, "rows": [{"label": f"rank {rank}"} for rank in range(ranks)], "read": heat_read, "write": heat_write},
            "sizes": {"bins": BINS, "read": [0, 12, 340, 2200, 30_100, 8_400, 158, 0, 0, 0], "write": [120, 96_000, 2_100_000, 214_424, 1_200, 49_152, 640, 160, 0, 0],
                      "common": [{"size": 4096, "count": 1_998_848}, {"size": 65536, "count": 180_224}, {"size": 1 << 20, "count": 49_152}, {"size": 524_288, "count": 29_900}]},
            "patterns": {"read": {"consecutive": 0.71, "sequential": 0.12, "strided": 0.1, "random": 0.07}, "write": {"consecutive": 0.08, "sequential": 0.15, "strided": 0.4, "random": 0.37}},
            "ranks": {"rank": list(range(ranks)), "node": [f"nid{rank // 32 + 1040:05d}" for rank in range(ranks)], "read_bytes": [sum(row) for row in heat_read],
                      "write_bytes": [sum(row) for row in heat_write], "io_time_s": io_time},
            "files": _files(rng, files, total_files),
            "costs": [{"cause": finding["title"], "cost_s": finding["cost_s"]} for finding in _findings(ranks, run_time_s) if finding["cost_s"]],
        },
        "compare": None,
    }


def big() -> Data:
    """384 ranks, 30,000 segments, 2,000 of 12,034 files: the size the page is made for."""
    return job(384, files=2000, total_files=12_034)


def eight_ranks() -> Data:
    """Eight ranks and every section."""
    return job(8, run_time_s=12.8, segments=640, bins=40, files=30, total_files=30)


def one_rank() -> Data:
    """One process of half a second: nothing to compare a rank with."""
    data = job(1, run_time_s=0.52, segments=60, bins=26, files=2, total_files=2)
    verdict = data["verdict"]
    findings = [finding for finding in verdict["findings"] if finding["severity"] in ("info", "ok")]
    verdict.update(findings=findings, grade="A", grade_reason="Large requests, aligned, one file.", headline="The I/O of this job is good: nothing to change.", missing=[])
    verdict["io_mode"] = {"read": "1-1", "write": "1-1"}
    verdict["io_mode_mpiio"] = None
    data["charts"]["costs"] = []
    data["charts"]["sizes"] = {"bins": BINS, "read": [0] * 5 + [48, 0, 0, 0, 0], "write": [0] * 5 + [310, 0, 0, 0, 0], "common": [{"size": 1 << 20, "count": 358}]}
    verdict["totals"].update(read_ops=48, write_ops=310, metadata_ops=12)
    verdict["summary"].update(average_iops=1490.0, metadata_ops_per_s=50.0, write_period=None)
    return data


def no_timeline() -> Data:
    """Counters only, as a log without DXT and heat map gives."""
    data = job(64, segments=3000, bins=60, files=60, total_files=60)
    data["charts"].update(bandwidth=None, timeline=None, heatmap=None, ranks=None, source=None)
    data["verdict"].update(phases=[], grade="C", grade_reason="Judged from counters alone.", headline="Most writes are small; when they happened is not in this log.")
    data["verdict"]["summary"].update(write_period=None, read_peak_bytes_per_s=None, write_peak_bytes_per_s=None)
    data["verdict"]["missing"].append({"kind": "no_timeline", "what": "when the bytes moved: phases, period, peak bandwidth", "why": "the trace holds no complete record of operations and no heat map",
                                       "remedy": "run with DXT_ENABLE_IO_TRACE=1, or with Darshan 3.4 or newer for its heat map", "where": None})
    for row in data["charts"]["files"]["rows"]:
        row["layout"] = None
    return data


def zero_io() -> Data:
    """A job that ran and moved no byte: zero is known here, and is not the same as unknown."""
    none = dict.fromkeys(("time", "bandwidth", "timeline", "heatmap", "sizes", "patterns", "ranks", "files", "costs"))
    job_facts = {"id": "77", "program": "./hello", "start_ns": START_NS, "end_ns": _ns(3), "processes": 16, "run_time_s": 3.0}
    return {
        "verdict": {"schema": "fairlead.report/1", "fairlead_version": "0.1.0", "inputs": ["hello.darshan"], "analysis_version": "1", "source": "darshan", "job": job_facts,
                    "totals": {"read_bytes": 0, "write_bytes": 0, "read_ops": 0, "write_ops": 0, "metadata_ops": 0, "stream_bytes": 0}, "io_mode": {"read": "none", "write": "none"}, "io_mode_mpiio": None,
                    "io_processes": {"read": 0, "write": 0}, "summary": {"io_time_s": 0.0, "io_time_share": 0.0, "read_period": None, "write_period": None}, "phases": [], "findings": [], "grade": None,
                    "grade_reason": "There is no I/O to grade.", "headline": "This job did no file I/O.", "missing": []},
        "charts": none, "compare": None,
    }


def hostile() -> Data:
    """Paths, names and advice that try to leave their place."""
    data = eight_ranks()
    verdict, charts = data["verdict"], data["charts"]
    verdict["headline"] = "<b>bold</b> {{data}} </title><script>window.hacked=1</script>"
    verdict["job"].update(program=HOSTILE, user="<svg onload=window.hacked=1>", id="{{script}}")
    verdict["findings"][0].update(title=HOSTILE, id="x\" onclick=\"window.hacked=1")
    verdict["findings"][0]["evidence"][0]["files"] = [HOSTILE]
    verdict["findings"][0]["advice"][0]["code"] = "</code></pre><script>window.hacked=1</script>"
    verdict["inputs"] = [HOSTILE, "]]>--><!DOCTYPE"]
    charts["files"]["rows"][0]["path"] = HOSTILE
    charts["files"]["rows"][1]["layout"] = "<iframe src=javascript:window.hacked=1>"
    return data


def compared() -> Data:
    """Two runs of eight ranks: before and after the advice was taken."""
    data = eight_ranks()
    after = job(8, run_time_s=8.1, segments=320, bins=40, files=12, total_files=12, seed=9)
    after["verdict"].update(grade="B", findings=after["verdict"]["findings"][2:])
    data["compare"] = {
        "labels": ["before", "after"], "verdict": "The second run is 1.6 times as fast: its writes are large now, the layout is still on one target.",
        "rows": [
            {"name": "run time", "before": 12.8, "after": 8.1, "unit": "s", "ratio": 0.63, "better": True}, {"name": "write bandwidth", "before": 9.1e8, "after": 3.4e9, "unit": "bytes/s", "ratio": 3.7, "better": True},
            {"name": "written", "before": 1.2e10, "after": 1.2e10, "unit": "bytes", "ratio": 1.0, "better": None}, {"name": "metadata operations", "before": 1200, "after": 4800, "unit": "count", "ratio": 4.0, "better": False},
            {"name": "peak read bandwidth", "before": None, "after": 2.2e9, "unit": "bytes/s", "ratio": None, "better": None},
        ],
        "findings": {"gone": ["98 % of the writes are smaller than 1 MiB"], "new": [], "kept": ["The 96 GiB checkpoint lies on one storage target"]},
        "other": {"charts": after["charts"], "verdict": after["verdict"]},
    }
    return data


SMALL: dict[str, Callable[[], Data]] = {
    "eight_ranks": eight_ranks, "one_rank": one_rank, "no_timeline": no_timeline, "zero_io": zero_io, "hostile": hostile, "compared": compared,
}


def as_text(data: Data) -> str:
    """The sample as it is kept in tests/fixtures/report."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for name, make in SMALL.items():
        (FOLDER / f"{name}.json").write_text(as_text(make()), "utf-8")
