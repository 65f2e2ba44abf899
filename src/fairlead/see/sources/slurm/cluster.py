"""What Slurm tells of the machine: nodes, partitions, reservations, the scheduler's counts (`sinfo --json`, slurmrestd,
`scontrol show node`). Out-of-service nodes and reservations become `events`. Not here: jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from fairlead.core.errors import CorruptInputError, InputError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import EVENTS, build_table_batch
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.sources.base import Item
from fairlead.see.sources.line_blocks import read_block_chunks
from fairlead.see.sources.node_lists import NodeListError
from fairlead.see.sources.slurm.hostlist import expand_hostlist
from fairlead.see.sources.slurm.json_jobs import parse_json_number

DOCUMENT = re.compile(r'"(nodes|partitions|reservations|statistics|sinfo)"\s*:\s*[\[{]')
TEXT = re.compile(r"NodeName=\S+ (?:.*\s)*?\s*(?:CPUAlloc|State)=", re.MULTILINE)
_AWAY = ("DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING", "ERROR", "NOT_RESPONDING", "MAINTENANCE", "MAINT")
_MOST_BYTES = 1 << 30


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A compute node. `states`: its state and flags, upper case. `since_ns`: since when its `reason` holds."""

    name: str
    cpus: int | None = None
    states: tuple[str, ...] = ()
    reason: str | None = None
    since_ns: int | None = None
    partitions: tuple[str, ...] = ()

    @property
    def away(self) -> bool:
        """Whether it is out of service, or about to be."""
        return any(state in _AWAY for state in self.states)


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition and its nodes."""

    name: str
    nodes: tuple[str, ...] = ()
    states: tuple[str, ...] = ()


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes set apart for a while."""

    name: str
    start_ns: int | None = None
    end_ns: int | None = None
    nodes: str = ""
    flags: tuple[str, ...] = ()


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What one document tells; what it does not speak of is empty."""

    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    statistics: dict[str, int] = {}
    """The scheduler's counts (`sdiag`)."""


def read_slurm_cluster(path: Path) -> Cluster:
    """The machine as a file tells it. Raises InputError, CorruptInputError."""
    data = _content(path)
    if not data.lstrip().startswith(b"{"):
        return Cluster(nodes=tuple(_text_nodes(data.decode("utf-8", "replace"))))
    try:
        given = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as fault:
        raise CorruptInputError(f"broken JSON ({fault})", where=str(path), remedy="write the file again") from fault
    counts = given.get("statistics")
    return Cluster(
        nodes=tuple(_node(row) for row in _rows(given, "nodes")),
        partitions=tuple(_partition(row) for row in _rows(given, "partitions")),
        reservations=tuple(_reservation(row) for row in _rows(given, "reservations")),
        statistics={
            name: n
            for name, value in (counts if isinstance(counts, dict) else {}).items()
            if not isinstance(value, bool | list) and (n := parse_json_number(value)) is not None
        },
    )


def build_cluster_events(path: Path) -> Iterator[Item]:
    """`events` of what is out of service and reserved: components are nodes, kinds `node_away`, `reservation`."""
    cluster = read_slurm_cluster(path)
    rows = [
        (node.since_ns, None, node.name, "node_away", f"{'+'.join(node.states)}: {node.reason or 'no reason given'}")
        for node in cluster.nodes
        if node.away
    ] + [
        (one.start_ns, one.end_ns, one.nodes or "all nodes", "reservation", f"{one.name} {','.join(one.flags)}".strip())
        for one in cluster.reservations
    ]
    dated = [row for row in rows if row[0] is not None]
    if dated:
        stamps, ends, components, kinds, texts = zip(*dated, strict=True)
        yield build_table_batch(
            EVENTS,
            {
                "ts_ns": list(stamps),
                "end_ns": pa.array(ends, pa.int64()),
                "component": list(components),
                "kind": list(kinds),
                "text": list(texts),
            },
        )
    if len(dated) < len(rows):
        yield Missing(
            kind="undated",
            what=f"{len(rows) - len(dated)} nodes or reservations",
            where=str(path),
            why="Slurm does not report since when",
        )
    if not dated:
        yield Missing(
            kind="no_events",
            what="events",
            where=str(path),
            why="no node is out of service and nothing is reserved; the node list itself is not stored",
        )


def _content(path: Path) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for chunk in read_block_chunks(path):
        if isinstance(chunk, str):
            raise CorruptInputError(f"its gzip data is broken ({chunk})", where=str(path), remedy="copy it again")
        size += len(chunk)
        if size > _MOST_BYTES:
            raise InputError("more than 1 GiB", where=str(path), remedy="give a smaller file")
        pieces.append(chunk)
    return b"".join(pieces)


def _rows(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = given.get(name)
    return [row for row in rows if isinstance(row, dict) and row.get("name")] if isinstance(rows, list) else []


def _ns(value: Any) -> int | None:
    seconds = parse_json_number(value)
    return seconds * NS_PER_S if seconds is not None and 0 < seconds < 1 << 33 else None


def _words(*values: Any) -> tuple[str, ...]:
    found: list[str] = []
    for value in values:
        found += [str(word).upper() for word in (value if isinstance(value, list) else [value]) if word]
    return tuple(dict.fromkeys(found))


def _node(row: dict[str, Any]) -> Node:
    partitions = row.get("partitions")
    return Node(
        name=str(row["name"]),
        cpus=parse_json_number(row.get("cpus")),
        states=_words(row.get("state"), row.get("state_flags")),
        reason=str(row["reason"]) if row.get("reason") else None,
        since_ns=_ns(row.get("reason_changed_at")),
        partitions=tuple(str(name) for name in partitions) if isinstance(partitions, list) else (),
    )


def _partition(row: dict[str, Any]) -> Partition:
    nodes = row.get("nodes")
    listed = nodes.get("configured") if isinstance(nodes, dict) else nodes
    state = row.get("state") or (row.get("partition") or {}).get("state")
    return Partition(name=str(row["name"]), nodes=tuple(_expanded(str(listed or ""))), states=_words(state))


def _reservation(row: dict[str, Any]) -> Reservation:
    return Reservation(
        name=str(row["name"]),
        start_ns=_ns(row.get("start_time")),
        end_ns=_ns(row.get("end_time")),
        nodes=str(row.get("node_list") or ""),
        flags=_words(row.get("flags")),
    )


def _expanded(text: str) -> list[str]:
    try:
        return expand_hostlist(text) if text else []
    except NodeListError:
        return []


def _text_nodes(text: str) -> Iterator[Node]:
    """Nodes of `scontrol show node`: a block, or a line, each."""
    for block in re.split(r"(?:^|\n)(?=NodeName=)", text):
        values = dict(re.findall(r"(\w+)=(\S*)", block))
        if "NodeName" not in values:
            continue
        reason = re.search(r"\bReason=(.*?)(?: \[(\S+)@(\S+)\])?\s*(?:\n|$)", block)
        cpus = values.get("CPUTot", "")
        yield Node(
            name=values["NodeName"],
            cpus=int(cpus) if cpus.isdigit() else None,
            states=_words([word.rstrip("*~#!%$@^-") for word in values.get("State", "").split("+")]),
            reason=reason.group(1) if reason else None,
            partitions=tuple(name for name in values.get("Partitions", "").split(",") if name),
        )
