"""What a lake tells of who is connected: what is in it, since when, who was heard of. It may be empty or unreadable.

Not here: what is made of it (`setup`).
"""
# ruff: noqa: S608  (names of tables and conditions are ours)

from __future__ import annotations

from pathlib import Path

from fairlead.core.errors import FairleadError
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.questions.lake_queries import build_day_filter, query_lake
from fairlead.explain.questions.setup import QUIET_NS, LakeSeen, TableActivity
from fairlead.explain.questions.span import DAY_NS, Span
from fairlead.store.inventory import take_stored_inventory
from fairlead.store.lake import Lake

REACH_NS = 3 * DAY_NS
TABLES = {
    "ops": ("start_ns", "node"),
    "op_groups": ("start_ns", ""),
    "forwarder": ("ts_ns", "node"),
    "pfs_client": ("ts_ns", "node"),
    "target": ("ts_ns", "target"),
    "metadata": ("ts_ns", "server"),
    "device": ("ts_ns", "node"),
    "port": ("ts_ns", "switch"),
    "usage": ("ts_ns", ""),
    "jobs": ("start_ns", ""),
}
"""The column that dates a row of each, and the one that names who it is of."""


def inspect_lake_setup(root: Path, now_ns: int, lake: Lake | None = None) -> LakeSeen:
    """What is known of the lake in `root`. `lake`: it, where it is open. Trouble is part of the answer."""
    if lake is None and not (root / "lake.toml").is_file():
        return LakeSeen()
    try:
        return _seen(lake or Lake.open(root), now_ns)
    except FairleadError as fault:
        return LakeSeen(there=True, trouble=fault.what)
    except OSError as fault:
        return LakeSeen(there=True, trouble=(fault.strerror or str(fault)).lower())


def _seen(lake: Lake, now_ns: int) -> LakeSeen:
    holdings, log_bytes, _ = take_stored_inventory(lake.place, now_ns)
    first = min((one.first_day for one in holdings if one.first_day), default=None)
    held = {one.table: one.last_day for one in holdings if one.rows}
    span = Span(now_ns - REACH_NS, now_ns + DAY_NS)
    tables = {}
    for name, (when, who) in TABLES.items():
        senders = f"count(DISTINCT {who})" if who else "NULL"
        found = query_lake(
            lake,
            f"SELECT max({when}) AS last_ns, {senders} AS senders FROM {name} WHERE {when} >= {span.from_ns}"
            f" AND {when} <= {now_ns + DAY_NS} AND {build_day_filter(span)}",
            within=span,
        ).to_pylist()[0]
        last = found["last_ns"]
        if last is None and held.get(name):  # longer ago: to the day is enough
            last = _day_ns(str(held[name]))
        tables[name] = TableActivity(
            last_ns=None if last is None else min(int(last), now_ns), senders=found["senders"] or None
        )
    nodes = query_lake(
        lake,
        "SELECT count(*) AS n, count(*) FILTER (last_ns >= $lately) AS ok, max(last_ns) AS last_ns FROM"
        f" (SELECT node, max(ts_ns) AS last_ns FROM health WHERE probe = 'agent' AND ts_ns >= {span.from_ns}"
        f" AND {build_day_filter(span)} GROUP BY node)",
        {"lately": now_ns - QUIET_NS},
        within=span,
    ).to_pylist()[0]
    made = query_lake(lake, "SELECT max(made_ns) AS ns FROM job_summary")["ns"][0].as_py()
    return LakeSeen(
        there=True,
        bytes=sum(one.bytes for one in holdings) + log_bytes,
        first_ns=None if first is None else _day_ns(str(first)),
        tables=tables,
        nodes=nodes["n"],
        nodes_ok=nodes["ok"],
        node_last_ns=None if nodes["last_ns"] is None else min(nodes["last_ns"], now_ns),
        analysed_ns=None if made is None else min(int(made), now_ns),
    )


def _day_ns(day: str) -> int | None:
    import datetime

    try:
        return int(datetime.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * NS_PER_S
    except ValueError:
        return None
