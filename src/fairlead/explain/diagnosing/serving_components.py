"""What served a job: its forwarders and targets, by what counted it, placed its files, or was mapped to its nodes.

Counted components come first; what is only placed or mapped is told apart. Not here: how much (`analysis_loop`).
"""
# ruff: noqa: S608  (names of tables and columns are ours; what others say goes in as parameters)

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from fairlead.core.model.tables import MAPPING
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.file_targets import list_file_path_suffixes, match_file_targets
from fairlead.explain.analysis.node_intervals import build_node_intervals

DAY_NS = 86_400 * NS_PER_S
_HOUR_NS = 3600 * NS_PER_S
MOST_FILES = 10_000
"""A job of more files is not looked up file by file."""
_OST = re.compile(r"-OST([0-9a-fA-F]{4})$")


class Tables(Protocol):
    """Whatever answers SQL over the record tables."""

    def query(self, sql: str, parameters: Any = None) -> pa.Table:
        """The result of one SELECT."""


class CarriedTables(Tables, Protocol):
    """Tables that can leave out rows of which nothing is derived yet."""

    def query(self, sql: str, parameters: Any = None, *, waiting: bool = True) -> pa.Table:
        """The result of one SELECT. `waiting` False: without rows that are not in the tables yet."""


def build_day_condition(begin_ns: int, end_ns: int) -> str:
    """A span in words of partitions, so that other days' files are not opened."""
    low, high = ((at // DAY_NS + shift) for at, shift in ((begin_ns, -1), (end_ns, 1)))
    return f"day >= DATE '1970-01-01' + {low} AND day <= DATE '1970-01-01' + {high}"


def find_serving_components(
    lake: Tables, asked: str, words: Mapping[str, object], low: int, high: int
) -> dict[tuple[int, str], list[str]]:
    """Forwarders and targets that counted each of the jobs `asked` for (SQL whose rows are jobs, and its parameters;
    none began before `low` or ended after `high`): by number and kind, in order of their names."""
    found = lake.query(
        f"SELECT DISTINCT number, kind, rollup.id AS id FROM rollup JOIN {asked} asked ON rollup.job_id = asked.id"
        f" AND ts_ns > asked.begin_ns - {_HOUR_NS} AND ts_ns < asked.end_ns WHERE kind IN (SELECT unnest($kinds))"
        f" AND rollup.job_id IN (SELECT unnest($ids)) AND interval_ns = {_HOUR_NS} AND ts_ns > {low - _HOUR_NS}"
        f" AND ts_ns < {high} AND {build_day_condition(low, high)} ORDER BY number, kind, id",
        {**words, "kinds": ["forwarder", "target"]},
    )
    names: dict[tuple[int, str], list[str]] = {}
    for row in found.to_pylist():
        names.setdefault((row["number"], row["kind"]), []).append(str(row["id"]))
    return names


def find_serving_forwarders(lake: Tables, nodes: Sequence[str], begin: int, end: int) -> list[str] | None:
    """Forwarders a job's nodes were mapped to while it ran; None where that is not known."""
    if not nodes:
        return None
    mapping = lake.query(
        "SELECT * EXCLUDE (day) FROM mapping WHERE kind IN ('node_forwarder', 'node→forwarder')"
        " AND from_ns < $to AND (to_ns IS NULL OR to_ns > $from) AND a IN (SELECT unnest($nodes))",
        {"from": begin, "to": end, "nodes": list(nodes)},
    )
    routes = build_node_intervals(mapping.select(MAPPING.schema.names))
    held = (routes.from_ns < end) & (routes.to_ns > begin)
    return sorted(set(routes.b.filter(pa.array(held)).to_pylist())) or None


def find_serving_targets(lake: Tables, span: Mapping[str, Any], begin: int, end: int) -> list[str] | None:
    """Targets a job's files lie on (`span`: `job`, and `from` and `to` in whole minutes): as fairlead's forwarders
    placed them (rows of `mapping` of kind `file_targets`), else as their layouts say. None where a file's targets
    cannot be named."""
    files = lake.query(
        "SELECT used.file_id, f.path FROM (SELECT DISTINCT file_id FROM ops WHERE job_id = $job AND start_ns >= $from"
        f" AND start_ns < $to AND {build_day_condition(begin, end)} AND file_id IS NOT NULL LIMIT"
        f" {MOST_FILES + 1}) used"
        " LEFT JOIN (SELECT file_id, any_value(path) AS path FROM files GROUP BY file_id) f"
        " ON f.file_id = used.file_id",
        span,
    )
    if not files.num_rows or files.num_rows > MOST_FILES:
        return None
    by_file = match_file_targets(files, _placed(lake, files, end))
    placed = {name for names in by_file.values() for name in names}
    rest = [number for number in files["file_id"].to_pylist() if number not in by_file]
    striped = _striped(lake, rest)
    return sorted(placed | striped) or None if striped is not None else None


def _placed(lake: Tables, files: pa.Table, end_ns: int) -> pa.Table:
    """The last placement before a time of every name one of `files` may have in a tree: `a`, `targets`."""
    names = {end for path in files["path"].to_pylist() for end in list_file_path_suffixes(path)}
    return lake.query(
        "SELECT a, list(b) AS targets FROM (SELECT a, b, from_ns, max(from_ns) OVER (PARTITION BY a) AS latest"
        " FROM mapping WHERE kind = 'file_targets' AND from_ns < $to AND CASE WHEN contains(a, ':/')"
        " THEN substr(a, strpos(a, ':/') + 1) ELSE a END IN (SELECT unnest($names)))"
        " WHERE from_ns = latest GROUP BY a",
        {"to": end_ns, "names": sorted(names)},
    )


def _striped(lake: Tables, files: Sequence[int]) -> set[str] | None:
    """Names of the targets files are striped over; None when a number is no target's or several'."""
    if not files:
        return set()
    striped = lake.query(
        "SELECT DISTINCT unnest(targets) AS number FROM layouts WHERE file_id IN (SELECT unnest($files))",
        {"files": list(files)},
    )
    numbers = {int(number) for number in striped["number"].to_pylist() if number is not None}
    if not numbers:
        return set()
    known = lake.query("SELECT DISTINCT id FROM rollup WHERE kind = 'target' AND interval_ns = 3600000000000")
    named: dict[int, list[str]] = {}
    for name in known["id"].to_pylist():
        match = _OST.search(name)
        if match:
            named.setdefault(int(match.group(1), 16), []).append(name)
    # A number names one target only where there is one file system.
    names = {named[number][0] for number in numbers if len(named.get(number, ())) == 1}
    return names if len(names) == len(numbers) else None
