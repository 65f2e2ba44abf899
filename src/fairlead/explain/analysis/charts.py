"""The data behind the pictures of a report: small, drawn as they are. None where there is nothing to draw.

Sizes are bounded whatever the job: at most 600 bins of time, 128 rows of ranks, 30,000 bars, 2,000 files.
"""

from __future__ import annotations

import numpy as np

from fairlead.explain.analysis.counters import LOWEST, FloatArray
from fairlead.explain.analysis.profile import JobProfile
from fairlead.explain.analysis.timeline import group_timeline_bins, sum_timeline_by_rank
from fairlead.explain.analysis.verdict import Verdict

MAX_BINS, MAX_ROWS, MAX_BARS, MAX_FILES = 600, 128, 30_000, 2_000
SIZE_LABELS = (
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
)

Chart = dict[str, object] | None


def build_charts(profile: JobProfile, verdict: Verdict) -> dict[str, object]:
    """All charts of one job, ready to be encoded as JSON."""
    return {
        "time": _time(profile),
        "bandwidth": _bandwidth(profile),
        "source": profile.timeline.source if profile.timeline else None,
        "timeline": _timeline(profile),
        "heatmap": _heatmap(profile),
        "sizes": _sizes(profile),
        "patterns": _patterns(profile),
        "ranks": _ranks(profile),
        "files": _files(profile),
        "costs": [
            {"cause": f.title, "rule": f.rule, "cost_s": f.cost_s}
            for f in verdict.findings
            if f.cost_s and f.severity not in ("ok", "info")
        ]
        or None,
    }


def _time(profile: JobProfile) -> Chart:
    times, run_time = profile.times, profile.view.job.run_time_s
    if not run_time:
        return None
    rest = max(run_time - times.mean_s, 0.0)
    return {
        "run_time_s": run_time,
        "compute_s": rest,
        "read_s": times.read_s,
        "write_s": times.write_s,
        "meta_s": times.meta_s,
    }


def _bandwidth(profile: JobProfile) -> Chart:
    timeline = profile.timeline
    if timeline is None:
        return None
    read, write = timeline.total
    factor = -(-len(read) // MAX_BINS)
    return {
        "start_ns": timeline.fine_origin_ns,
        "bin_ns": timeline.fine_bin_ns * factor,
        "read": np.rint(group_timeline_bins(read, factor)).astype(int).tolist(),
        "write": np.rint(group_timeline_bins(write, factor)).astype(int).tolist(),
    }


def _timeline(profile: JobProfile) -> Chart:
    traced = [profile.view.operations[i] for i in LOWEST if i in profile.view.operations]
    if not traced:
        return None
    rank, kind, start, end, nbytes = (
        np.concatenate([getattr(t.activity, name) for t in traced])
        for name in ("rank", "kind", "start_ns", "end_ns", "nbytes")
    )
    if len(rank) > MAX_BARS:
        keep = np.sort(np.argsort(end - start)[::-1][:MAX_BARS])
        rank, kind, start, end, nbytes = (a[keep] for a in (rank, kind, start, end, nbytes))
    origin = profile.view.job.start_ns or int(start.min())
    return {
        "source": "operations",
        "ranks": np.unique(rank).tolist(),
        "merged_gap_s": max(t.activity.gap_ns for t in traced) / 1e9,
        "segments": {
            "rank": rank.tolist(),
            "kind": kind.tolist(),
            "bytes": nbytes.tolist(),
            "start_s": np.round((start - origin) / 1e9, 6).tolist(),
            "dur_s": np.round((end - start) / 1e9, 6).tolist(),
        },
    }


def _heatmap(profile: JobProfile) -> Chart:
    timeline = profile.timeline
    if timeline is None or profile.view.processes < 2:
        return None
    factor = -(-timeline.read.shape[1] // (MAX_BINS // 3))
    lanes = timeline.read.shape[0]
    group = -(-lanes // MAX_ROWS)
    ranks = group * timeline.ranks_per_row
    most = max(profile.view.processes, (lanes - 1) * timeline.ranks_per_row + 1)
    rows = [
        {"label": f"rank {r}" if ranks == 1 else f"ranks {r}-{min(r + ranks, most) - 1}"} for r in range(0, most, ranks)
    ]

    def shrink(values: FloatArray) -> list[list[int]]:
        binned = group_timeline_bins(values, factor)
        grouped = group_timeline_bins(binned.T, group).T if group > 1 else binned
        return np.rint(grouped).astype(int).tolist()  # type: ignore[no-any-return]

    read, write = shrink(timeline.read), shrink(timeline.write)
    origin = profile.view.job.start_ns or timeline.origin_ns
    return {
        "start_s": (timeline.origin_ns - origin) / 1e9,
        "bin_s": timeline.bin_ns * factor / 1e9,
        "bins": len(read[0]),
        "rows": rows,
        "read": read,
        "write": write,
    }


def _sizes(profile: JobProfile) -> Chart:
    counters = profile.view.counters
    rows = counters.lowest
    read, write = (counters.read_lists(f"{d}_sizes", 10)[rows].sum(axis=0) for d in ("read", "write"))
    if not (read.sum() + write.sum()):
        return None
    sizes = counters.read_lists("access_sizes", 4)[rows].ravel()
    counts = counters.read_lists("access_counts", 4)[rows].ravel()
    values, inverse = np.unique(sizes, return_inverse=True)
    summed = np.bincount(inverse.reshape(-1), counts, len(values)).astype(int)
    order = np.argsort(summed)[::-1][:6]
    return {
        "bins": list(SIZE_LABELS),
        "read": read.tolist(),
        "write": write.tolist(),
        "common": [{"size": int(values[i]), "count": int(summed[i])} for i in order if summed[i]],
    }


def _patterns(profile: JobProfile) -> Chart:
    out: dict[str, object] = {}
    for d in ("read", "write"):
        consecutive, sequential, strided, random = (
            profile.metrics[f"{d}_{w}_share"] for w in ("consecutive", "sequential", "strided", "random")
        )
        if isinstance(consecutive, float) and isinstance(sequential, float) and isinstance(random, float):
            strided_share = strided if isinstance(strided, float) else 0.0
            out[d] = {
                "consecutive": consecutive,
                "strided": strided_share,
                "random": random,
                "sequential": max(0.0, 1 - consecutive - strided_share - random),
            }
    return out or None


def _ranks(profile: JobProfile) -> Chart:
    moved = sum_timeline_by_rank(profile.view)
    spent = profile.times.per_rank_s
    if profile.view.processes < 2 or (moved is None and spent is None):
        return None
    ranks = np.arange(profile.view.processes)
    if len(ranks) > 4 * MAX_FILES:
        order = spent if spent is not None else moved.sum(axis=0)  # type: ignore[union-attr]
        ranks = np.sort(np.argsort(order)[::-1][: 4 * MAX_FILES])
    nodes = next((t.rank_node for t in profile.view.operations.values() if any(t.rank_node)), None)
    return {
        "rank": ranks.tolist(),
        "node": [nodes[r] if r < len(nodes) else None for r in ranks.tolist()] if nodes else None,
        "read_bytes": moved[0][ranks].astype(int).tolist() if moved is not None else None,
        "write_bytes": moved[1][ranks].astype(int).tolist() if moved is not None else None,
        "io_time_s": np.round(spent[ranks], 6).tolist() if spent is not None else None,
    }


def _files(profile: JobProfile) -> Chart:
    files = profile.files
    columns = files.columns
    if not files.path:
        return None
    weight = columns["io_time_s"] + 1e-12 * (columns["read_bytes"] + columns["write_bytes"])
    rows = []
    for i in np.argsort(weight, kind="stable")[::-1][:MAX_FILES].tolist():
        ops = columns["read_ops"][i] + columns["write_ops"][i]
        small = columns["read_small_ops"][i] + columns["write_small_ops"][i]
        rows.append(
            {
                "path": files.path[i],
                "fs": files.fs[i],
                "interface": files.interface[i],
                "processes": int(columns["processes"][i]),
                "read_bytes": int(columns["read_bytes"][i]),
                "write_bytes": int(columns["write_bytes"][i]),
                "reads": int(columns["read_ops"][i]),
                "writes": int(columns["write_ops"][i]),
                "opens": int(columns["opens"][i]),
                **{n: round(float(columns[n][i]), 6) for n in ("read_time_s", "write_time_s", "meta_time_s")},
                "small_share": round(float(small / ops), 4) if ops else None,
                "layout": files.layout[i],
            }
        )
    return {"total": len(files.path), "rows": rows}
