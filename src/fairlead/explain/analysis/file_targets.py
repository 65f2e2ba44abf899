"""Files to targets: those on which forwarders placed files. Pure.

Not here: counters of targets by job (`job_stats`), which are preferred.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def match_file_targets(files: pa.Table, placed: pa.Table) -> dict[int, list[str]]:
    """Return the targets of files (`file_id`, `path`) by number, as forwarders placed them (`placed`: `a` is the path
    or `TREE:/path in the tree`; `targets`). A file's path begins at its mount point, so it is matched by its end; the
    longest match wins. Left out: files with equally long matches in several trees, and files without a match."""
    by_path: dict[str, list[tuple[str, list[str]]]] = {}
    for a, targets in zip(placed["a"].to_pylist(), placed["targets"].to_pylist(), strict=True):
        tree, mark, inside = a.partition(":/")
        by_path.setdefault(f"/{inside}" if mark else a, []).append((tree if mark else "", targets))
    found: dict[int, list[str]] = {}
    for number, path in zip(files["file_id"].to_pylist(), files["path"].to_pylist(), strict=True):
        fitting = next((by_path[end] for end in list_file_path_suffixes(path) if end in by_path), [])
        if len(fitting) == 1:
            found[number] = sorted(set(fitting[0][1]))
    return found


def list_file_path_suffixes(path: str | None) -> Iterator[str]:
    """Yield the path and its suffixes that begin at a `/`, longest first: `/a/b`, `/b`."""
    at = 0 if path else -1
    while path and at >= 0:
        yield path[at:]
        at = path.find("/", at + 1)
