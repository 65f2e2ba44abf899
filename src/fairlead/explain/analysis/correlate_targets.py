"""Files to targets: layouts as rows, and the targets on which forwarders placed files. Pure.

Not here: counters of targets by job (`job_stats`), which are preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from fairlead.core.model.identity import file_id
from fairlead.core.model.tables import LAYOUTS, batch_of
from fairlead.see.probes.layouts import Striped


def build_layout_rows(files: Iterable[Striped], fs: str) -> pa.RecordBatch:
    """Rows of LAYOUTS of what `lfs getstripe` told of files on the file system mounted at `fs`."""
    rows: dict[str, list[object]] = {name: [] for name in LAYOUTS.schema.names if name != "job_id"}
    for one in files:
        for number, part in enumerate(one.components):
            for name, value in (
                ("file_id", file_id(fs, one.path)),
                ("component", number),
                ("stripe_size", part.stripe_size),
                ("stripe_count", part.stripe_count),
                ("pool", part.pool),
                ("extent_start", part.extent_start),
                ("extent_end", part.extent_end),
                ("targets", list(part.targets) or None),
            ):
                rows[name].append(value)
    return batch_of(LAYOUTS, dict(rows), 0)


def find_placed_targets(files: pa.Table, placed: pa.Table) -> dict[int, list[str]]:
    """Targets of files (`file_id`, `path`) as fairlead's forwarders placed them (`a`: `TREE:/path in the tree` or the
    path itself; `targets`). A file's path is where it was mounted, so a name fits that ends it; the longest wins. Left
    out: a file that fits equally long in several trees, and one whose name no forwarder saw."""
    by_path: dict[str, list[tuple[str, list[str]]]] = {}
    for a, targets in zip(placed["a"].to_pylist(), placed["targets"].to_pylist(), strict=True):
        tree, mark, inside = a.partition(":/")
        by_path.setdefault(f"/{inside}" if mark else a, []).append((tree if mark else "", targets))
    found: dict[int, list[str]] = {}
    for number, path in zip(files["file_id"].to_pylist(), files["path"].to_pylist(), strict=True):
        fitting = next((by_path[end] for end in list_path_suffixes(path) if end in by_path), [])
        if len(fitting) == 1:
            found[number] = sorted(set(fitting[0][1]))
    return found


def list_path_suffixes(path: str | None) -> Iterator[str]:
    """A path, and what is left of it from each `/` on, longest first."""
    at = 0 if path else -1
    while path and at >= 0:
        yield path[at:]
        at = path.find("/", at + 1)
