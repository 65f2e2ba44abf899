"""Which job and which forwarder a node belonged to, and when: interval joins on whole columns.

Pure. Unknown stays unknown: a lookup returns null, and an attribution says how it was made. Not here: files and
targets (`file_targets`), splitting the counts of a shared component (`questions.layer_estimates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

I64 = NDArray[np.int64]
ALWAYS, FOREVER = 0, np.iinfo(np.int64).max
FORWARDED = ("node_forwarder", "node→forwarder")
"""Kinds of `mapping` rows that say which forwarder serves a node."""
ON_NODE = ("job_node", "job→node")
"""Kinds of `mapping` rows that place a job on a node besides `jobs.nodes` (a job that grew)."""
COUNTED, ALONE, SHARED, NOBODY = "counted", "alone", "shared", "nobody"
"""How traffic of a node came to a job: its records name the job; it was the only job there; several were, and each gets
an equal part (ambiguous); no job was there, or none is known."""


@dataclass(frozen=True)
class Intervals:
    """Which `b` an `a` had, and when: disjoint intervals [from_ns, to_ns), sorted by `a` and `from_ns`."""

    a: pa.Array
    b: pa.Array
    from_ns: I64
    to_ns: I64

    def look_up(self, names: pa.Array | pa.ChunkedArray, times_ns: I64) -> pa.Array:
        """Return the `b` of each name at each time (ns since the epoch); null where no interval holds."""
        if not len(self.a) or not len(names):
            return pa.nulls(len(names), pa.string())
        codes, asked, words = _coded(self.a, names)
        ranks, (begins, whens) = _ranked(self.from_ns, times_ns)
        keys = codes * ranks + begins
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], asked * ranks + whens, side="right") - 1
        found = order[np.maximum(at, 0)]
        holds = (at >= 0) & (asked >= 0) & (asked < words)
        holds &= (codes[found] == asked) & (times_ns < self.to_ns[found]) & (times_ns >= self.from_ns[found])
        return self.b.take(pa.array(found, mask=~holds))


def build_node_intervals(mapping: pa.Table, kinds: Sequence[str] = FORWARDED) -> Intervals:
    """Return the `mapping` rows of these kinds as disjoint intervals. Of several at once, the one that began last wins
    (of two that began together, the one with an end: a live map before a static table); when it ends, the one below
    it holds again."""
    rows = _of_kind(mapping, kinds)
    a, b = (_strings(rows[name]) for name in ("a", "b"))
    begin = rows["from_ns"].to_numpy()
    end = pc.fill_null(rows["to_ns"], FOREVER).to_numpy()
    order = np.lexsort((-end, begin, _by_name(a)))
    a, b, begin, end = a.take(pa.array(order)), b.take(pa.array(order)), begin[order], end[order]
    codes = a.dictionary_encode().indices.to_numpy()
    heads = np.flatnonzero(np.diff(codes, prepend=-1))
    lengths = np.diff(heads, append=len(codes))
    picked: list[I64] = [heads[lengths == 1]]
    cut: list[tuple[I64, I64]] = [(begin[picked[0]], end[picked[0]])]
    for head, length in zip(heads[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True):
        rows_of, since, until = _topmost(begin[head : head + length], end[head : head + length])
        picked.append(rows_of + head)
        cut.append((since, until))
    which = np.concatenate(picked)
    since, until = (np.concatenate([pair[side] for pair in cut]) for side in (0, 1))
    lasting = until > since
    which, since, until = which[lasting], since[lasting], until[lasting]
    order = np.lexsort((since, codes[which]))
    which = which[order]
    return Intervals(a.take(pa.array(which)), b.take(pa.array(which)), since[order], until[order])


def _topmost(begin: I64, end: I64) -> tuple[I64, I64, I64]:
    """Of intervals in order of preference (last is best): which is on top from when to when."""
    rows: list[int] = []
    since: list[int] = []
    until: list[int] = []
    points = np.unique(np.concatenate([begin, end])).tolist()
    for low, high in pairwise(points):
        holding = np.flatnonzero((begin <= low) & (end > low))
        if not len(holding):
            continue
        best = int(holding[-1])
        if rows and rows[-1] == best and until[-1] == low:
            until[-1] = high
        else:
            rows.append(best)
            since.append(low)
            until.append(high)
    return np.array(rows, np.int64), np.array(since, np.int64), np.array(until, np.int64)


PLACEMENTS = pa.schema(
    [
        pa.field("job_id", pa.string()),
        pa.field("node", pa.string()),
        pa.field("from_ns", pa.int64()),
        pa.field("to_ns", pa.int64()),
    ]
)
"""A job on a node. `to_ns` null: still there, as far as is known."""


def build_node_placement_intervals(jobs: pa.Table, mapping: pa.Table | None = None) -> pa.Table:
    """Return which jobs ran on which nodes (schema PLACEMENTS): `jobs.nodes` while the job ran, and `mapping` rows of
    kind `job_node`. Of several rows of one run the one with the latest end counts. Jobs without a start or nodes, or
    that ended before they began, are left out."""
    jobs = _latest(jobs)
    lists = jobs["nodes"].combine_chunks()
    parents = pc.list_parent_indices(lists)
    start, end = jobs["start_ns"].take(parents), jobs["end_ns"].take(parents)
    told = pa.table([jobs["job_id"].take(parents).cast(pa.string()), pc.list_flatten(lists), start, end], PLACEMENTS)
    told = told.filter(pc.fill_null(pc.less(told["from_ns"], pc.fill_null(told["to_ns"], FOREVER)), False))
    if mapping is None or not mapping.num_rows:
        return told
    grown = _of_kind(mapping, ON_NODE)
    more = [_strings(grown["a"]), _strings(grown["b"]), grown["from_ns"], grown["to_ns"]]
    return pa.concat_tables([told, pa.table(more, PLACEMENTS)])


def _latest(jobs: pa.Table) -> pa.Table:
    """One row a run (cluster, job, start): a job is told of when it begins, and again when it ends."""
    if not jobs.num_rows:
        return jobs
    cluster, job = (jobs[name].cast(pa.string()).combine_chunks().dictionary_encode() for name in ("cluster", "job_id"))
    keys = [_indices(cluster), _indices(job), pc.fill_null(jobs["start_ns"], -1).to_numpy()]
    end = pc.fill_null(jobs["end_ns"], -1).to_numpy()
    order = np.lexsort((end, *keys[::-1]))
    last = np.zeros(len(order), np.bool_)
    last[-1] = True
    for key in keys:
        last[:-1] |= key[order][1:] != key[order][:-1]
    return jobs.take(pa.array(np.sort(order[last])))


def _indices(column: pa.Array | pa.ChunkedArray) -> I64:
    one = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(one.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


@dataclass(frozen=True)
class Attribution:
    """Traffic given to jobs: row `row` of what was asked belongs to `job_id` (null: nobody known) with the weight
    `part`; `how` is one of COUNTED, ALONE, SHARED, NOBODY. The parts of a row add up to 1."""

    row: I64
    job_id: pa.Array
    part: NDArray[np.float64]
    how: NDArray[np.object_]


def attribute_node_interval_traffic(traffic: pa.Table, placed: pa.Table) -> Attribution:
    """Attribute rows of node traffic to jobs (columns `node`, `ts_ns`, `interval_ns`, `job_id`; as `rollup` with `id`
    as `node`, or raw interval rows): the job a row names, else the jobs placed on its node during its interval."""
    count = traffic.num_rows
    named = _strings(traffic["job_id"]) if "job_id" in traffic.schema.names else pa.nulls(count, pa.string())
    unnamed = np.flatnonzero(np.asarray(named.is_null()))
    begin = traffic["ts_ns"].to_numpy()
    end = begin + np.maximum(pc.fill_null(traffic["interval_ns"], 0).to_numpy(), 1)
    row, place = find_interval_overlaps(
        _strings(traffic["node"]).take(pa.array(unnamed)),
        begin[unnamed],
        end[unnamed],
        _strings(placed["node"]),
        placed["from_ns"].to_numpy(),
        pc.fill_null(placed["to_ns"], FOREVER).to_numpy(),
    )
    row = unnamed[row]
    jobs = _strings(placed["job_id"]).take(pa.array(place))
    # A job may be told twice to be on a node (accounting and a live feed).
    _, once = (
        np.unique(
            np.stack([row, jobs.dictionary_encode().indices.to_numpy().astype(np.int64)]), axis=1, return_index=True
        )
        if len(row)
        else (None, np.zeros(0, np.int64))
    )
    row, jobs = row[once], jobs.take(pa.array(once))
    times = np.bincount(row, minlength=count)
    counted = np.flatnonzero(np.asarray(named.is_valid()))
    nobody = unnamed[times[unnamed] == 0]
    how = np.concatenate(
        [
            np.full(len(counted), COUNTED, object),
            np.where(times[row] > 1, SHARED, ALONE).astype(object),
            np.full(len(nobody), NOBODY, object),
        ]
    )
    part = np.concatenate([np.ones(len(counted)), 1.0 / np.maximum(times[row], 1), np.ones(len(nobody))])
    whose = pa.concat_arrays([named.take(pa.array(counted)), jobs, pa.nulls(len(nobody), pa.string())])
    return Attribution(np.concatenate([counted, row, nobody]), whose, part, how)


def find_interval_overlaps(
    names: pa.Array, begin: I64, end: I64, others: pa.Array, from_ns: I64, to_ns: I64
) -> tuple[I64, I64]:
    """Return pairs (i, j) of equal name whose intervals [begin, end) and [from, to) overlap, by i and from_ns."""
    none = np.zeros(0, np.int64)
    if not len(names) or not len(others):
        return none, none
    codes, asked, words = _coded(others, names)
    ranks, (low, high, since, until) = _ranked(begin, end, from_ns, to_ns)
    order = np.lexsort((since, codes))
    since_key = (codes * ranks + since)[order]
    # Within a name, the latest end so far only grows: what ended before, and all before it, is left out at once.
    latest = np.maximum.accumulate((codes * ranks + until)[order])
    known = (asked >= 0) & (asked < words)
    asked = np.where(known, asked, words)
    first = np.searchsorted(latest, asked * ranks + low, side="right")
    first = np.maximum(first, np.searchsorted(since_key, asked * ranks, side="left"))
    last = np.searchsorted(since_key, asked * ranks + high, side="left")
    many = np.where(known, np.maximum(last - first, 0), 0)
    row = np.repeat(np.arange(len(names)), many)
    place = order[np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)]
    meets = to_ns[place] > begin[row]
    return row[meets], place[meets]


def _of_kind(mapping: pa.Table, kinds: Sequence[str]) -> pa.Table:
    return mapping.filter(pc.is_in(mapping["kind"].cast(pa.string()), pa.array(kinds, pa.string())))


def _ranked(*times: I64) -> tuple[int, list[I64]]:
    """Times as ranks among all of them, and how many ranks there are: small enough to be packed with a name."""
    distinct, ranks = np.unique(np.concatenate(times), return_inverse=True)
    at = np.cumsum([len(one) for one in times])[:-1]
    return len(distinct) + 1, np.split(ranks.astype(np.int64), at)


def _coded(known: pa.Array, asked: pa.Array | pa.ChunkedArray) -> tuple[I64, I64, int]:
    """Codes of the known names, of the asked ones (-1: not known), and how many names are known."""
    coded = known.dictionary_encode()
    places = pc.index_in(_strings(asked), value_set=coded.dictionary)
    return (
        coded.indices.to_numpy().astype(np.int64),
        places.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64),
        len(coded.dictionary),
    )


def _by_name(names: pa.Array) -> I64:
    """The rank of each name in their order."""
    coded = names.dictionary_encode()
    rank = np.empty(len(coded.dictionary), np.int64)
    rank[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(len(coded.dictionary))
    return np.asarray(rank[coded.indices.to_numpy()])


def _strings(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    plain = column.cast(pa.string())
    if isinstance(plain, pa.ChunkedArray):
        plain = plain.combine_chunks()
        plain = plain if isinstance(plain, pa.Array) else plain.chunk(0)
    return plain
