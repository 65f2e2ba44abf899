"""How requests look: sizes, alignment, order of offsets, repeats, read-modify-write. For reads and writes apart.

Not here: what that costs (`costs`) and whether it is bad (`rules`).
"""

from __future__ import annotations

import numpy as np

from fairlead.explain.analysis.job_view import JobView
from fairlead.explain.analysis.metric_docs import Metrics, Value, check_metric_docs, compute_metric_share
from fairlead.explain.analysis.op_columns import find_distinct_op_rows
from fairlead.explain.analysis.timeline import COMPLETE, count_timeline_bytes

SMALL_BINS = 5
"""The first five of Darshan's bins: requests up to 1 MiB. Drishti's limit for small."""
TINY_BINS = 2

DOCS: Metrics = {
    "{d}_bytes": ("bytes", "bytes moved at the lowest interface (POSIX plus STDIO, standard streams apart)"),
    "{d}_ops": ("count", "operations at the lowest interface"),
    "{d}_ops_share": ("share", "of all data operations"),
    "{d}_bytes_share": ("share", "of all bytes moved"),
    "{d}_mean_request_bytes": ("bytes", "mean request size"),
    "{d}_small_ops": ("count", "requests of at most 1 MiB"),
    "{d}_small_share": ("share", "of the requests whose size was recorded that are at most 1 MiB"),
    "{d}_tiny_share": ("share", "of the requests that are at most 1 KiB"),
    "{d}_common_request_bytes": ("bytes", "the most frequent request size; unknown where none was recorded"),
    "shared_{d}_ops": ("count", "operations on files that all or several processes used"),
    "shared_{d}_small_ops": ("count", "of these, requests of at most 1 MiB"),
    "shared_{d}_small_share": ("share", "of the operations on shared files that are at most 1 MiB"),
    "{d}_consecutive_share": ("share", "of operations whose offset was exactly behind the previous one"),
    "{d}_sequential_share": ("share", "of operations that moved forward in the file (consecutive ones included)"),
    "{d}_strided_share": ("share", "of operations at a constant distance that is not consecutive"),
    "{d}_random_share": ("share", "of operations that jumped backwards or without a constant step"),
    "{d}_random_ops": ("count", "operations that jumped backwards or without a constant step"),
    "{d}_pattern": ("word", "consecutive, sequential, strided or random: the largest share"),
    "{d}_repeated_bytes": ("bytes", "bytes moved again that the same run had moved before (any process)"),
    "{d}_repeated_share": ("share", "of the bytes moved that had been moved before (any process)"),
    "{d}_repeated_same_rank_share": ("share", "of the bytes moved that the same process had moved before"),
    "mem_misaligned_share": ("share", "of POSIX operations whose buffer was not aligned in memory"),
    "file_misaligned_share": ("share", "of POSIX operations whose offset was not a multiple of the file alignment"),
    "file_misaligned_ops": ("count", "POSIX operations whose offset was not a multiple of the file alignment"),
    "file_alignment_bytes": ("bytes", "the file system's block, as the trace recorded it"),
    "modify_reads": ("count", "reads at once followed by a write inside the range read (read-modify-write)"),
    "modify_read_bytes": ("bytes", "bytes read only to be modified and written back"),
    "modify_share": ("share", "of the writes that followed a read of the same range"),
    "rw_switches": ("count", "changes between reading and writing within a file"),
}


def compute_request_metrics(view: JobView) -> dict[str, Value]:
    """All metrics of `DOCS`, None where the trace cannot tell."""
    out: dict[str, Value] = {}
    counters = view.counters
    rows = counters.lowest
    for d, ops_name, bytes_name in (("read", "reads", "bytes_read"), ("write", "writes", "bytes_written")):
        out[f"{d}_bytes"] = int(counters.read_ints(bytes_name)[rows].sum())
        out[f"{d}_ops"] = int(counters.read_ints(ops_name)[rows].sum())
        out |= _sizes(view, d, ops_name)
        out |= _order(view, d, ops_name)
        out |= _repeats(view, d, bytes_name)
    for d in ("read", "write"):
        out[f"{d}_ops_share"] = compute_metric_share(out[f"{d}_ops"], _sum(out["read_ops"], out["write_ops"]))
        out[f"{d}_bytes_share"] = compute_metric_share(out[f"{d}_bytes"], _sum(out["read_bytes"], out["write_bytes"]))
        out[f"{d}_mean_request_bytes"] = compute_metric_share(out[f"{d}_bytes"], out[f"{d}_ops"])
    out |= _alignment(view)
    out |= _modify(view, out)
    return check_metric_docs(out, DOCS, "request_metrics")


def _sum(a: Value, b: Value) -> float:
    return float(a or 0) + float(b or 0)


def _sizes(view: JobView, d: str, ops_name: str) -> dict[str, Value]:
    counters = view.counters
    rows = counters.lowest & counters.mark_known(f"{d}_sizes")
    sizes = counters.read_lists(f"{d}_sizes", 10)
    ops = counters.read_ints(ops_name)
    recorded = sizes[rows].sum(axis=0)
    total = int(recorded.sum())
    shared = rows & _shared_files(view)
    of_shared = sizes[shared].sum(axis=0)
    small, tiny = int(recorded[:SMALL_BINS].sum()), int(recorded[:TINY_BINS].sum())
    known = total > 0 or int(ops[counters.lowest].sum()) == 0
    return {
        f"{d}_small_ops": small if known else None,
        f"{d}_small_share": compute_metric_share(small, total),
        f"{d}_tiny_share": compute_metric_share(tiny, total),
        f"{d}_common_request_bytes": _common_size(view, d),
        f"shared_{d}_ops": int(of_shared.sum()) if known else None,
        f"shared_{d}_small_ops": int(of_shared[:SMALL_BINS].sum()) if known else None,
        f"shared_{d}_small_share": compute_metric_share(int(of_shared[:SMALL_BINS].sum()), int(of_shared.sum())),
    }


def _shared_files(view: JobView) -> np.ndarray:
    """Rows of files used by more than one process."""
    counters = view.counters
    files, inverse = np.unique(counters.file_id, return_inverse=True)
    inverse = inverse.reshape(-1)
    rows = counters.lowest
    users = np.zeros(len(files), np.int64)
    (used, _), _ = find_distinct_op_rows(inverse[rows], counters.rank[rows])
    np.add.at(users, used, 1)
    reduced = np.zeros(len(files), bool)
    reduced[inverse[rows & counters.shared]] = True
    return ((users > 1) | (reduced & (view.processes > 1)))[inverse] if len(files) else np.zeros(0, bool)


def _common_size(view: JobView, d: str) -> int | None:
    """The most frequent access size. Darshan's four common sizes count reads and writes together, so they are used
    only for files with one direction; an operation trace tells them apart by bins alone."""
    counters = view.counters
    mine, other = ("reads", "writes") if d == "read" else ("writes", "reads")
    rows = (
        counters.lowest
        & (counters.read_ints(mine) > 0)
        & (counters.read_ints(other) == 0)
        & counters.mark_known("access_sizes")
    )
    if not rows.any():
        rows = counters.lowest & (counters.read_ints(mine) > 0) & counters.mark_known("access_sizes")
    sizes, counts = (
        counters.read_lists("access_sizes", 4)[rows].ravel(),
        counters.read_lists("access_counts", 4)[rows].ravel(),
    )
    if not counts.sum():
        return None
    values, inverse = np.unique(sizes, return_inverse=True)
    return int(values[np.argmax(np.bincount(inverse.reshape(-1), counts))])


def _order(view: JobView, d: str, ops_name: str) -> dict[str, Value]:
    """Order of offsets. Operations tell it exactly; counters know forward and consecutive, and the common strides."""
    names = [f"{d}_{w}_share" for w in ("consecutive", "sequential", "strided", "random")]
    counters = view.counters
    rows = counters.select_rows("POSIX") if counters.select_rows("POSIX").any() else counters.lowest
    ops = int(counters.read_ints(ops_name)[rows].sum())
    traced = view.operations.get("POSIX")
    kind = 0 if d == "read" else 1
    if traced is not None and _complete(view, "POSIX"):
        placed = int(traced.pattern.placed[kind])
        parts = [int(getattr(traced.pattern, w)[kind]) for w in ("consecutive", "sequential", "strided", "random")]
        shares = [compute_metric_share(p, placed) for p in parts]
        random_ops: int | None = parts[3] if placed else 0 if ops == 0 else None
    elif counters.mark_known(f"seq_{ops_name}")[rows].any() and ops:
        # The first operation of each file and process has no predecessor and counts as neither.
        placed = max(ops - _first_operations(view, rows, ops_name), 1)
        consecutive = min(int(counters.read_ints(f"consec_{ops_name}")[rows].sum()), placed)
        sequential = min(int(counters.read_ints(f"seq_{ops_name}")[rows].sum()), placed)
        backwards = placed - sequential
        stepped = min(_stepped(view, rows, d), placed - consecutive)
        shares = [consecutive / placed, sequential / placed, stepped / placed, backwards / placed]
        random_ops = backwards
    else:
        shares, random_ops = [None] * 4, (0 if ops == 0 else None)
    out: dict[str, Value] = dict(zip(names, shares, strict=True))
    out[f"{d}_random_ops"] = random_ops
    out[f"{d}_pattern"] = _pattern(shares)
    return out


def _pattern(shares: list[float | None]) -> str | None:
    consecutive, sequential, strided, random = shares
    if consecutive is None or sequential is None or strided is None or random is None:
        return None
    gapped = max(sequential - consecutive - strided, 0.0)
    named = {"consecutive": consecutive, "strided": strided, "sequential": gapped, "random": random}
    return max(named, key=lambda word: named[word]) if any(named.values()) else None


def _first_operations(view: JobView, rows: np.ndarray, ops_name: str) -> int:
    counters = view.counters
    used = rows & (counters.read_ints(ops_name) > 0)
    return int((used & ~counters.shared).sum()) + view.processes * int((used & counters.shared).sum())


def _stepped(view: JobView, rows: np.ndarray, d: str) -> int:
    """Operations at one of the file's four common non-zero strides, for files used in this direction only."""
    counters = view.counters
    other = counters.read_ints("writes" if d == "read" else "reads")
    mine = rows & counters.mark_known("strides")
    total = counters.read_ints("reads") + counters.read_ints("writes")
    strides, counts = counters.read_lists("strides", 4), counters.read_lists("stride_counts", 4)
    stepped = np.where(strides != 0, counts, 0).sum(axis=1)
    part = np.where(total > 0, (total - other) / np.maximum(total, 1), 0.0)
    return int((stepped * part)[mine].sum())


def _complete(view: JobView, interface: str) -> bool:
    traced = view.operations.get(interface)
    if traced is None:
        return False
    counted = count_timeline_bytes(view, (interface,))
    return counted > 0 and float(traced.rank_bytes.sum()) >= COMPLETE * counted


def _repeats(view: JobView, d: str, bytes_name: str) -> dict[str, Value]:
    counters = view.counters
    kind = 0 if d == "read" else 1
    total = int(counters.read_ints(bytes_name)[counters.lowest].sum())
    traced = view.operations.get("POSIX")
    same: float | None = None
    again: int | None
    if traced is not None and traced.repeats is not None and _complete(view, "POSIX"):
        again = int(traced.repeats.any_rank[kind])
        same = compute_metric_share(int(traced.repeats.same_rank[kind]), total)
    else:
        again = _beyond_the_end(view, d, bytes_name)
    return {
        f"{d}_repeated_bytes": again,
        f"{d}_repeated_share": compute_metric_share(again, total),
        f"{d}_repeated_same_rank_share": same,
    }


def _beyond_the_end(view: JobView, d: str, bytes_name: str) -> int | None:
    """A lower bound from counters: bytes of a file beyond the highest offset touched were moved more than once."""
    counters = view.counters
    top_name = "max_byte_read" if d == "read" else "max_byte_written"
    rows = counters.lowest & (counters.read_ints(bytes_name) > 0)
    if not rows.any():
        return 0
    if not counters.mark_known(top_name)[rows].all():
        return None
    _, inverse = np.unique(counters.file_id[rows], return_inverse=True)
    inverse = inverse.reshape(-1)
    moved = np.bincount(inverse, counters.read_ints(bytes_name)[rows])
    top = np.zeros(len(moved))
    np.maximum.at(top, inverse, counters.read_ints(top_name)[rows] + 1.0)
    return int(np.maximum(moved - top, 0).sum())


def _alignment(view: JobView) -> dict[str, Value]:
    counters = view.counters
    rows = counters.select_rows("POSIX") & counters.mark_known("file_not_aligned")
    ops = int((counters.read_ints("reads") + counters.read_ints("writes"))[rows].sum())
    misaligned = int(counters.read_ints("file_not_aligned")[rows].sum())
    used = rows & ((counters.read_ints("reads") + counters.read_ints("writes")) > 0)
    blocks = counters.read_ints("file_alignment")[used & (counters.read_ints("file_alignment") > 1)]
    return {
        "mem_misaligned_share": compute_metric_share(int(counters.read_ints("mem_not_aligned")[rows].sum()), ops),
        "file_misaligned_share": compute_metric_share(misaligned, ops),
        "file_misaligned_ops": misaligned if rows.any() else None,
        "file_alignment_bytes": int(np.bincount(blocks).argmax()) if blocks.size and blocks.max() < 1 << 26 else None,
        "rw_switches": int(counters.read_ints("rw_switches")[rows].sum()) if rows.any() else None,
    }


def _modify(view: JobView, out: dict[str, Value]) -> dict[str, Value]:
    traced = view.operations.get("POSIX")
    if traced is None or not _complete(view, "POSIX"):
        none: dict[str, Value] = dict.fromkeys(("modify_reads", "modify_read_bytes", "modify_share"))
        return none
    return {
        "modify_reads": traced.modify_reads,
        "modify_read_bytes": traced.modify_read_bytes,
        "modify_share": compute_metric_share(traced.modify_reads, out["write_ops"]),
    }
