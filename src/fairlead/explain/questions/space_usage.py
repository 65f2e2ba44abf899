"""Space: who holds most, who grew most between two times, who is near a limit, how full each target is.

Of a target the owners told of together count together: one that is missing among them holds nothing. Not here: load.
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.explain.questions.answers_site import Holder, TargetSpace, Usage
from fairlead.explain.questions.lake_queries import (
    Sight,
    Tables,
    UnknownNameError,
    build_day_filter,
    find_similar_names,
    list_query_rows,
    query_lake,
)
from fairlead.explain.questions.span import HOUR_NS, MINUTE_NS, Span

REACH_NS = 2 * HOUR_NS
"""Owners are told of every ten minutes; a last word counts this long."""
SPACE_NS = 15 * MINUTE_NS
"""The same for the room on a target."""
NEAR = 0.8
OWNERS = ("user", "group", "project")
_Key = tuple[str | None, str, str]


def list_space_usage(
    lake: Tables,
    span: Span,
    sight: Sight,
    now_ns: int,
    *,
    fs: str = "",
    target: str = "",
    kind: str = "",
    limit: int = 20,
) -> Usage:
    """Owners (of `kind` in OWNERS, all when empty) on a file system or target. Raises UnknownNameError."""
    end = min(span.to_ns, now_ns)
    seen = Span(span.from_ns - REACH_NS, end + 1)
    conditions, parameters = _chosen(fs, target, kind)
    last, first = _moments(lake, seen, span.from_ns, end)
    if target and not any(row[1] == target for row in last):
        known = sorted({row[1] for row in last if row[1]} | set(_room(lake, end)))
        if target not in known:
            raise UnknownNameError("target", target, find_similar_names(target, known))
    now = _held(lake, seen, last, conditions, parameters)
    before = _held(lake, seen, first, conditions, parameters)
    begun = {place[0] for place in first}
    limits = {} if target else _limits(lake, Span(end - REACH_NS, end + 1), conditions, parameters)
    # A file system of which some target was not told of at the beginning has no known growth.
    whole = {name for name in begun if {p[1] for p in last if p[0] == name} <= {p[1] for p in first if p[0] == name}}
    rows = [_holder(key, now.get(key), before.get(key), key[0] in whole, limits.get(key)) for key in now | limits]
    rows = [row for row in rows if row.used_bytes is not None or row.inodes is not None or row.limit_share is not None]
    return Usage(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        fs=fs or None,
        target=target or None,
        told_ns=max((at for _, _, at in last), default=None),
        holders=len(rows),
        most=sorted(rows, key=lambda row: (-(row.used_bytes or 0), -(row.inodes or 0), _name(row)))[:limit],
        grown=sorted(
            (row for row in rows if (row.grown_bytes or 0) > 0 or (row.grown_inodes or 0) > 0),
            key=lambda row: (-(row.grown_bytes or 0), -(row.grown_inodes or 0), _name(row)),
        )[:limit],
        near=sorted(
            (row for row in rows if row.limit_share is not None and row.limit_share >= NEAR),
            key=lambda row: (-(row.limit_share or 0), _name(row)),
        )[:limit],
        targets=_targets(lake, span.from_ns, end, fs, target),
        hidden=not sight.everything,
    )


def _name(row: Holder) -> tuple[str, str, str]:
    return row.fs or "", row.owner_kind, row.owner


def _chosen(fs: str, target: str, kind: str) -> tuple[str, dict[str, object]]:
    conditions, parameters = "owner <> ''", dict[str, object]()  # of those a reader may not see nobody is named
    for column, value in (("fs", fs), ("target", target), ("owner_kind", kind)):
        if value:
            conditions += f" AND {column} = $c_{column}"
            parameters[f"c_{column}"] = value
    return conditions, parameters


_Place = tuple[str | None, str | None, int]


def _moments(lake: Tables, seen: Span, from_ns: int, to_ns: int) -> tuple[list[_Place], list[_Place]]:
    """(fs, target, time) of the last telling up to `to_ns`, and of that up to `from_ns`, else the first after it."""
    found = query_lake(
        lake,
        f"SELECT fs, target, max(ts_ns) FILTER (ts_ns > {to_ns - REACH_NS}) AS last,"
        f" coalesce(max(ts_ns) FILTER (ts_ns <= {from_ns}), min(ts_ns)) AS first FROM usage"
        f" WHERE ts_ns >= {seen.from_ns} AND ts_ns <= {to_ns} AND {build_day_filter(seen)}"
        " AND (used_bytes IS NOT NULL OR inodes_used IS NOT NULL) GROUP BY fs, target",
        within=seen,
    )
    rows = [row for row in list_query_rows(found) if row["last"] is not None]
    # What is told of a whole file system counts only where its targets tell nothing.
    split = {row["fs"] for row in rows if row["target"] is not None}
    rows = [row for row in rows if row["target"] is not None or row["fs"] not in split]
    last = [(row["fs"], row["target"], row["last"]) for row in rows]
    return last, [(row["fs"], row["target"], row["first"]) for row in rows if row["first"] < row["last"]]


def _held(
    lake: Tables, seen: Span, places: list[_Place], conditions: str, parameters: Mapping[str, object]
) -> dict[_Key, tuple[int | None, int | None]]:
    """(bytes, inodes) by owner. Inodes are those of metadata targets, where a file system has any."""
    if not places:
        return {}
    meta = {fs for fs, target, _ in places if target and "-MDT" in target}
    names = [f"{fs or ''}\x01{target or ''}\x01{at}" for fs, target, at in places]
    found = query_lake(
        lake,
        "SELECT fs, owner_kind, owner, least(sum(used_bytes), 9223372036854775807)::BIGINT AS used,"
        " least(sum(inodes_used), 9223372036854775807)::BIGINT AS every,"
        " sum(inodes_used) FILTER (contains(target, '-MDT'))::BIGINT AS of_mdt"
        f" FROM usage WHERE ts_ns >= {seen.from_ns} AND ts_ns < {seen.to_ns} AND {build_day_filter(seen)} AND"
        f" {conditions}"
        " AND concat(coalesce(fs, ''), chr(1), coalesce(target, ''), chr(1), ts_ns::VARCHAR)"
        " IN (SELECT unnest($places)) GROUP BY fs, owner_kind, owner",
        {**parameters, "places": names},
        within=seen,
    )
    asked = "c_target" in parameters
    return {
        (row["fs"], row["owner_kind"], row["owner"]): (
            row["used"],
            (row["of_mdt"] or 0) if row["fs"] in meta and not asked else row["every"],
        )
        for row in list_query_rows(found)
    }


def _limits(
    lake: Tables, seen: Span, conditions: str, parameters: Mapping[str, object]
) -> dict[_Key, tuple[int | None, int | None]]:
    found = query_lake(
        lake,
        "SELECT fs, owner_kind, owner, arg_max(limit_bytes, ts_ns) AS size, arg_max(inodes_limit, ts_ns) AS of_mdt"
        f" FROM usage WHERE ts_ns > {seen.from_ns} AND ts_ns < {seen.to_ns} AND {build_day_filter(seen)} AND"
        f" {conditions}"
        " AND (limit_bytes IS NOT NULL OR inodes_limit IS NOT NULL) GROUP BY fs, owner_kind, owner",
        parameters,
        within=seen,
    )
    return {
        (row["fs"], row["owner_kind"], row["owner"]): (row["size"], row["of_mdt"]) for row in list_query_rows(found)
    }


def _holder(
    key: _Key,
    now: tuple[int | None, int | None] | None,
    before: tuple[int | None, int | None] | None,
    begun: bool,
    limits: tuple[int | None, int | None] | None,
) -> Holder:
    held, at_first = now or (None, None), before or (0, 0)
    most = limits or (None, None)
    shares = [have / may for have, may in zip(held, most, strict=True) if have is not None and may]
    grown = [
        have - was if begun and have is not None and was is not None else None
        for have, was in zip(held, at_first, strict=True)
    ]
    return Holder(
        fs=key[0],
        owner_kind=key[1],
        owner=key[2],
        used_bytes=held[0],
        inodes=held[1],
        grown_bytes=grown[0],
        grown_inodes=grown[1],
        limit_bytes=most[0],
        inodes_limit=most[1],
        limit_share=max(shares, default=None),
    )


def _room(lake: Tables, at_ns: int) -> dict[str, dict[str, Any]]:
    """The last telling of the room on each target up to a time."""
    seen = Span(at_ns - SPACE_NS, at_ns + 1)
    fields = ("used_bytes", "capacity_bytes", "inodes_used", "inodes")
    chosen = ", ".join(f"arg_max({name}, ts_ns) AS {name}" for name in fields)
    found = query_lake(
        lake,
        f"SELECT target AS id, {chosen} FROM target WHERE ts_ns > {seen.from_ns} AND ts_ns < {seen.to_ns}"
        f" AND {build_day_filter(seen)} AND (used_bytes IS NOT NULL OR inodes_used IS NOT NULL)"
        " AND source IS DISTINCT FROM 'statvfs' GROUP BY target",
        within=seen,
    )
    return {row["id"]: row for row in list_query_rows(found)}


def _targets(lake: Tables, from_ns: int, to_ns: int, fs: str, target: str) -> list[TargetSpace]:
    now, before = _room(lake, to_ns), _room(lake, from_ns)
    rows = []
    for name, row in now.items():
        if (target and name != target) or (fs and not name.startswith(f"{fs}-")):
            continue
        was = before.get(name, {})
        rows.append(
            TargetSpace(
                **row,
                fullness=_share(row["used_bytes"], row["capacity_bytes"]),
                inodes_fullness=_share(row["inodes_used"], row["inodes"]),
                grown_bytes=_less(row["used_bytes"], was.get("used_bytes")),
                grown_inodes=_less(row["inodes_used"], was.get("inodes_used")),
            )
        )
    return sorted(rows, key=lambda row: (-(row.fullness or 0), row.id))


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _less(now: int | None, before: int | None) -> int | None:
    return now - before if now is not None and before is not None else None
