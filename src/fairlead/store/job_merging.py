"""Rows of `jobs` that tell of one run: the scheduler's account, and what mounts and traces saw of it, as one row.

This is the one place where it is decided which job a sighting is of; what is decided for counters builds on it
(`fairlead.explain.questions.job_counters`). It is a view: an account that comes days after a sighting takes its place
as one that came before it does. Not here: rows of one key (`stored_tables`).

    account    state or submit time are known: the scheduler told of it
    sighting   neither: somebody saw processes of that number, from the first request to the last

A sighting is of the account of its number that ran meanwhile and, where the sighting knows it, of its cluster.
Where it does not, and accounts of several clusters ran meanwhile, it is of the one that had its nodes; of none where
the nodes do not tell. Sightings that no account explains are one job where they touch each other.
"""

# ruff: noqa: S608  (our own names)

from __future__ import annotations

from collections.abc import Callable

SLACK_NS = 60 * 10**9
"""A sighting may begin this long before its account and end this long after: clocks differ, caches are written back."""
IS_ACCOUNT = "(state IS NOT NULL OR submit_ns IS NOT NULL)"
_FOREVER = 2**62
_SHORT = "list_transform({0}.nodes, lambda n: split_part(n, '.', 1))"


def select_merged_jobs(rows: str, once: Callable[[str], str], columns: list[str]) -> str:
    """A SELECT of `columns` (of `jobs`, and `day`) of the rows that the SELECT `rows` has, each run once. `once`
    keeps of rows of one key the one that counts."""
    accounts = once(f"SELECT * FROM ({rows}) WHERE {IS_ACCOUNT}")
    sightings = _islands(once(f"SELECT * FROM ({rows}) WHERE NOT {IS_ACCOUNT}"), columns)
    numbers = f"SELECT job_id FROM ({rows}) WHERE NOT {IS_ACCOUNT}"

    def told(more: str = "") -> str:
        """Accounts of numbers that were seen: their key and end."""
        return (
            f"(SELECT cluster, job_id, start_ns, max(end_ns) AS end_ns{more} FROM ({rows}) WHERE {IS_ACCOUNT}"
            f" AND start_ns IS NOT NULL AND job_id IN ({numbers}) GROUP BY cluster, job_id, start_ns)"
        )

    meets = (
        f"a.job_id = s.job_id AND a.start_ns < coalesce(s.end_ns, s.start_ns, {_FOREVER})::HUGEINT + {SLACK_NS}"
        f" AND (s.start_ns IS NULL OR coalesce(a.end_ns, {_FOREVER}) > s.start_ns::HUGEINT - {SLACK_NS})"
    )
    chosen = ", ".join(f's."{name}"' for name in columns)
    one_cluster = (
        f"SELECT s.job_id, s.start_ns FROM ({sightings}) s JOIN {told()} a ON {meets} WHERE s.cluster IS NULL"
        " GROUP BY s.job_id, s.start_ns HAVING count(DISTINCT coalesce(a.cluster, '')) = 1"
    )
    there = f"list_has_any({_SHORT.format('a')}, {_SHORT.format('s')})"
    one_place = (
        f"SELECT s.job_id, s.start_ns FROM ({sightings}) s JOIN {told(', any_value(nodes) AS nodes')} a ON {meets}"
        f" WHERE s.cluster IS NULL AND {there} GROUP BY s.job_id, s.start_ns"
        " HAVING count(DISTINCT coalesce(a.cluster, '')) = 1"
    )
    return (
        f"{accounts} UNION ALL SELECT {chosen} FROM ({sightings}) s WHERE NOT CASE WHEN s.cluster IS NOT NULL"
        f" THEN EXISTS (SELECT 1 FROM {told()} a WHERE {meets} AND (a.cluster = s.cluster OR a.cluster IS NULL))"
        f" ELSE (s.job_id, s.start_ns) IN ({one_cluster}) OR (s.job_id, s.start_ns) IN ({one_place}) END"
    )


def _islands(rows: str, columns: list[str]) -> str:
    """Sightings of one number that overlap (two nodes saw the job) as one."""
    before = (
        "max(coalesce(end_ns, start_ns)) OVER (PARTITION BY cluster, job_id ORDER BY start_ns"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    begun = f"SELECT *, CASE WHEN start_ns < {before} THEN 0 ELSE 1 END AS begins FROM ({rows})"
    numbered = (
        "SELECT *, sum(begins) OVER (PARTITION BY cluster, job_id ORDER BY start_ns ROWS UNBOUNDED PRECEDING)"
        f" AS island FROM ({begun})"
    )
    latest = ("end_ns", "nodes_count", "cores", "processes")
    made = []
    for name in columns:
        if name in ("cluster", "job_id"):
            made.append(f'"{name}"')
        elif name == "nodes":
            made.append("list_sort(list_distinct(flatten(list(nodes) FILTER (nodes IS NOT NULL)))) AS nodes")
        else:
            made.append(f'{"max" if name in latest else "min"}("{name}") AS "{name}"')
    return f"SELECT {', '.join(made)} FROM ({numbered}) GROUP BY cluster, job_id, island"
