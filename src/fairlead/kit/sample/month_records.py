"""What the agents and feeds of the sample site record of a stretch of its month, as tables.

The play's own records, and besides: idle targets told of once a minute, agents that fall silent, space held by owners,
events. Not here: taking them in (`sample.fill`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.tables import EVENTS, TABLES, USAGE, build_table_batch
from fairlead.kit.sample.month import Month
from fairlead.kit.sample.people import PROJECTS, list_sample_people
from fairlead.kit.sample.story import DAY_S
from fairlead.kit.testing.machine.client_rows import NS

FINE_DAYS = 2
"""Agents tell of their health each minute in the last days, ..."""
COARSE_S = 600
"""... and so often before."""
OWNERS_S = 1800
TIB = 1 << 40
_USAGE = ("ts_ns", "fs", "owner_kind", "owner", "used_bytes", "inodes_used", "limit_bytes")
_NODES = {"target": "server", "metadata": "server"}
"""The column that names the node of a row's agent, where it is not `node`."""


def build_month_records(month: Month, from_s: int, to_s: int) -> dict[str, pa.Table]:
    """Rows of [from_s, to_s) by table."""
    play = month.play
    tables = play.build_tables(from_s, to_s)
    tables["health"] = _sent(month, _health(month, tables["health"]), tables, from_s)
    tables |= build_month_feed_records(month, from_s, to_s)
    return {name: _drop_silent_rows(month, name, table) for name, table in tables.items()}


def build_month_feed_records(month: Month, from_s: int, to_s: int) -> dict[str, pa.Table]:
    """What comes from feeds and no agent: space held by owners, events; tables without rows are left out."""
    made = {"usage": _build_usage_rows(month, from_s, to_s), "events": _build_event_rows(month, from_s, to_s)}
    return {name: pa.Table.from_batches([rows], TABLES[name].schema) for name, rows in made.items() if rows.num_rows}


def _health(month: Month, rows: pa.Table) -> pa.Table:
    """Each minute in the last days, before each ten minutes."""
    second = (rows["ts_ns"].to_numpy() - month.play.origin_ns) // NS
    fine = second >= month.seconds - FINE_DAYS * DAY_S
    kept = fine | (second % COARSE_S < 60)
    rows = rows.filter(pa.array(kept))
    every = np.where(fine[kept], 60, COARSE_S)
    place = rows.schema.get_field_index
    rows = rows.set_column(place("interval_ns"), rows.schema.field("interval_ns"), pa.array(every * NS))
    return rows.set_column(place("runs"), rows.schema.field("runs"), pa.array(every))


def _sent(month: Month, rows: pa.Table, tables: Mapping[str, pa.Table], from_s: int) -> pa.Table:
    """Each agent tells how many rows it sent since it last told of itself; unknown where that was before `from_s`."""
    times: dict[str, list[NDArray[np.int64]]] = {}
    for name, table in tables.items():
        column = _NODES.get(name, "node")
        if name == "health" or column not in table.schema.names or not table.num_rows:
            continue
        when = table["start_ns" if name == "ops" else "ts_ns"].to_numpy()
        said = pc.dictionary_encode(table[column].combine_chunks().cast(pa.string()))
        place = said.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for k, node in enumerate(said.dictionary.to_pylist()):
            times.setdefault(node, []).append(when[place == k])
    node, when = rows["node"].to_numpy(), rows["ts_ns"].to_numpy()
    since = when - rows["interval_ns"].to_numpy()
    count = np.zeros(len(when), np.int64)
    for name in np.unique(node):
        mine = node == name
        sent = np.sort(np.concatenate(times.get(name) or [np.zeros(0, np.int64)]))
        count[mine] = np.searchsorted(sent, when[mine], "right") - np.searchsorted(sent, since[mine], "right")
    told = pa.array(count, mask=since < month.play.origin_ns + from_s * NS)
    at = rows.schema.get_field_index("rows")
    return rows.set_column(at, rows.schema.field("rows"), told)


def _drop_silent_rows(month: Month, name: str, rows: pa.Table) -> pa.Table:
    """Rows without those of agents that were silent."""
    column = _NODES.get(name, "node")
    if column not in rows.schema.names or not rows.num_rows:
        return rows
    when = rows["start_ns" if name == "ops" else "ts_ns"].to_numpy()
    for quiet in month.quiet:
        begin = month.play.origin_ns + int(quiet.from_s * NS)
        lost = pc.equal(rows[column], quiet.node).fill_null(False).to_numpy(zero_copy_only=False) & (when > begin)
        if quiet.to_s is not None:
            lost &= when <= month.play.origin_ns + int(quiet.to_s * NS)
        if lost.any():
            rows, when = rows.filter(pa.array(~lost)), when[~lost]
    return rows


def is_silent_in_month(month: Month, node: str, at_s: float) -> bool:
    """Whether a node's agent says nothing at that time."""
    return any(
        quiet.node == node and quiet.from_s < at_s and (quiet.to_s is None or at_s <= quiet.to_s)
        for quiet in month.quiet
    )


def _build_usage_rows(month: Month, from_s: int, to_s: int) -> pa.RecordBatch:
    """Each half hour what users and projects hold: what they had and a part of what they wrote since."""
    course, origin = month.play.course, month.play.origin_ns
    times = np.arange(-(-from_s // OWNERS_S), -(-to_s // OWNERS_S)) * OWNERS_S
    if not len(times):
        return build_table_batch(USAGE, {name: [] for name in _USAGE}, 0)
    who = list_sample_people()
    place = {user: k for k, (user, _) in enumerate(who)}
    ended = [job for job in course.jobs if job.end_s < to_s]
    end = np.array([job.end_s for job in ended])
    owner = np.array([place[job.drawn.program.user] for job in ended], np.int64)
    kept = np.array([0.35 * job.drawn.write_bytes for job in ended])
    rng = np.random.default_rng([month.play.seed, 51])
    had = rng.uniform(0.4, 3.0, len(who)) * TIB
    columns: dict[str, list[object]] = {name: [] for name in _USAGE}
    for at in times.tolist():
        now = had + np.bincount(owner, np.where(end <= at, kept, 0.0), len(who)) if len(ended) else had
        limits = [(4 + k % 3) * TIB for k in range(len(who))]
        limits[place["bob"]] = now[place["bob"]] / (0.86 + 0.1 * at / month.seconds)
        rows = [("user", user, now[k], limits[k]) for k, (user, _) in enumerate(who)]
        rows += [
            ("project", name, sum(now[place[user]] for user in members), 16 * TIB) for name, members in PROJECTS.items()
        ]
        for kind, name, used, limit in rows:
            for key, value in zip(
                columns,
                (
                    origin + at * NS,
                    course.files.fs,
                    kind,
                    name,
                    int(used),
                    int(used / (6 << 20)),
                    int(limit),
                ),
                strict=True,
            ):
                columns[key].append(value)
    return build_table_batch(USAGE, dict(columns), 0)


def _build_event_rows(month: Month, from_s: int, to_s: int) -> pa.RecordBatch:
    """What servers and staff wrote down."""
    play, machine = month.play, month.play.machine
    told = [
        *(
            (at, None, machine.servers.names[fault.number // machine.targets_per_server], kind, f"md0: recovery {word}")
            for fault in play.faults
            if fault.kind == "rebuild"
            for at, kind, word in ((fault.from_s, "raid_rebuild", "begins"), (fault.to_s, "raid_rebuilt", "done"))
        ),
        (12.2 * DAY_S, 12.2 * DAY_S + 5400, machine.mds.names[0], "maintenance", "planned: new firmware"),
        (19.7 * DAY_S, None, machine.format_node_name(31), "eviction", f"{machine.targets.names[1]}: client evicted"),
        (
            27.1 * DAY_S,
            None,
            machine.format_node_name(31),
            "reconnect",
            f"{machine.targets.names[1]}: connection restored",
        ),
    ]
    rows = [row for row in told if from_s <= row[0] < to_s]
    return build_table_batch(
        EVENTS,
        {
            "ts_ns": [play.origin_ns + int(row[0] * NS) for row in rows],
            "end_ns": [None if row[1] is None else play.origin_ns + int(row[1] * NS) for row in rows],
            "component": [row[2] for row in rows],
            "kind": [row[3] for row in rows],
            "text": [row[4] for row in rows],
        },
        0,
    )
