"""Profiles of the runs of one category: how many, how much they move, in which mode, how fast. Merged as runs end.

A profile holds only binned counts, so merging the profiles of parts of the history, in any order, gives exactly the
profile of the whole. Not here: slow phases (`analysis.anomalies.expectation`), similar runs of any name (`similar`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.core.model.finding_incident_rows import DIAGNOSIS_VERSION
from fairlead.core.model.tables import PROFILE, build_table_batch
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.history.category import compute_category_scale
from fairlead.explain.analysis.history.rate_bins import compute_bin_rates, find_rate_bins
from fairlead.explain.analysis.table_columns import (
    combine_column_codes,
    read_code_column,
    read_float_column,
    read_integer_column,
    read_job_code_columns,
)

PROFILE_SCHEMA = "fairlead.profile/1"
KINDS = ("read", "write", "metadata")
Key = tuple[str | None, str | None, str | None, int | None]
"""Cluster, user, program and scale."""
Counts = dict[str, int]
"""How many by value. Keys are words or, as JSON has it, integers as words: bins of `rate_bins` for what has a scale."""


class KindProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Phases of one kind. Counted in bins of an eighth of a doubling: `volumes` bytes (metadata: operations) of a
    phase, `rates` a second, `requests` bytes, `periods` seconds from the begin of one phase to that of the next;
    `modes` by word. `phases`: how many there were, `runs` with any."""

    phases: int = 0
    runs: int = 0
    modes: Counts = {}
    volumes: Counts = {}
    rates: Counts = {}
    requests: Counts = {}
    periods: Counts = {}


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one category. `scale`: nodes rounded to a power of two. `seconds`, `metadata_ops`: of runs, in bins."""

    schema: str = PROFILE_SCHEMA
    cluster: str | None
    user: str | None
    program: str | None
    scale: int | None
    runs: int
    first_ns: int
    last_ns: int
    seconds: Counts = {}
    metadata_ops: Counts = {}
    kinds: dict[str, KindProfile] = {}


def estimate_profile_quantile(counts: Mapping[str, int], share: float) -> float | None:
    """Return the `share` quantile of binned counts: the middle of its bin (at most 4.4 % off); None without any."""
    order = sorted((int(word), count) for word, count in counts.items())
    total = sum(count for _, count in order)
    if not total:
        return None
    reached = np.cumsum([count for _, count in order])
    return float(compute_bin_rates(order[int(np.searchsorted(reached, share * total))][0]))


def merge_run_profiles(a: Profile, b: Profile) -> Profile:
    """Return the profile of the runs of both. They must be different runs of one category, else ValueError."""
    if get_run_profile_key(a) != get_run_profile_key(b):
        raise ValueError("the profiles are of two categories")
    kinds = {
        kind: _both(a.kinds.get(kind, KindProfile()), b.kinds.get(kind, KindProfile()))
        for kind in KINDS
        if kind in a.kinds or kind in b.kinds
    }
    return Profile(
        cluster=a.cluster,
        user=a.user,
        program=a.program,
        scale=a.scale,
        runs=a.runs + b.runs,
        first_ns=min(a.first_ns, b.first_ns),
        last_ns=max(a.last_ns, b.last_ns),
        seconds=_sum(a.seconds, b.seconds),
        metadata_ops=_sum(a.metadata_ops, b.metadata_ops),
        kinds=kinds,
    )


def subtract_run_profile(a: Profile, b: Profile) -> Profile:
    """Return `a` with the runs of `b` removed (undoes `merge_run_profiles`). First and last time stay those of `a`.
    Raises ValueError for another category."""
    if get_run_profile_key(a) != get_run_profile_key(b):
        raise ValueError("the profiles are of two categories")
    kinds = {kind: _less(one, b.kinds.get(kind, KindProfile())) for kind, one in a.kinds.items()}
    return Profile(
        cluster=a.cluster,
        user=a.user,
        program=a.program,
        scale=a.scale,
        runs=max(a.runs - b.runs, 0),
        first_ns=a.first_ns,
        last_ns=a.last_ns,
        seconds=_minus(a.seconds, b.seconds),
        metadata_ops=_minus(a.metadata_ops, b.metadata_ops),
        kinds={kind: one for kind, one in kinds.items() if one.phases},
    )


def get_run_profile_key(one: Profile) -> Key:
    """Return cluster, user, program and scale: the key of a category."""
    return one.cluster, one.user, one.program, one.scale


def _less(a: KindProfile, b: KindProfile) -> KindProfile:
    named = {name: _minus(getattr(a, name), getattr(b, name)) for name in _COUNTED}
    return KindProfile(phases=max(a.phases - b.phases, 0), runs=max(a.runs - b.runs, 0), **named)


def _minus(a: Counts, b: Counts) -> Counts:
    return _sorted({key: left for key, count in a.items() if (left := count - b.get(key, 0)) > 0})


def _both(a: KindProfile, b: KindProfile) -> KindProfile:
    named = {name: _sum(getattr(a, name), getattr(b, name)) for name in _COUNTED}
    return KindProfile(phases=a.phases + b.phases, runs=a.runs + b.runs, **named)


_COUNTED = ("modes", "volumes", "rates", "requests", "periods")


def _sum(a: Counts, b: Counts) -> Counts:
    return _sorted({key: a.get(key, 0) + b.get(key, 0) for key in a.keys() | b.keys()})


def _sorted(counts: Counts) -> Counts:
    return dict(sorted(counts.items(), key=lambda item: (len(item[0]), item[0])))


def build_run_profiles(summaries: pa.Table, phases: pa.Table) -> list[Profile]:
    """Profiles of the runs of `summaries` (JOB_SUMMARY, ended ones) with their `phases` (PHASE), one of each category,
    in the order of their names. Runs and phases told more than once count once, as made last; phases of runs that are
    not in `summaries` do not count. Runs without a user or program have no category."""
    runs = _latest(summaries, [read_job_code_columns(summaries, "start_ns")])
    start, end = read_integer_column(runs, "start_ns", -1), read_integer_column(runs, "end_ns", -1)
    usable = (
        (start >= 0) & (end >= start) & (read_code_column(runs, "user") >= 0) & (read_code_column(runs, "program") >= 0)
    )
    runs = runs.filter(pa.array(usable))
    start, end = start[usable], end[usable]
    if not runs.num_rows:
        return []
    scale = compute_category_scale(read_float_column(runs, "nodes_count"))
    group = combine_column_codes(
        [read_code_column(runs, "cluster"), read_code_column(runs, "user"), read_code_column(runs, "program"), scale]
    )
    count = int(group.max()) + 1
    _, one = np.unique(group, return_index=True)
    seconds = _counts(group, find_rate_bins((end - start) / NS_PER_S), count, end > start)
    operations = read_float_column(runs, "metadata_ops")
    metadata = _counts(group, find_rate_bins(operations), count, operations >= 0)
    first, last = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, end)
    kinds = _kinds(runs, group, count, phases)
    names = {
        name: runs[name].cast(pa.string()).take(pa.array(one)).to_pylist() for name in ("cluster", "user", "program")
    }
    number = np.bincount(group, minlength=count)
    found = [
        Profile(
            cluster=names["cluster"][i],
            user=names["user"][i],
            program=names["program"][i],
            scale=int(scale[one[i]]) if scale[one[i]] > 0 else None,
            runs=int(number[i]),
            first_ns=int(first[i]),
            last_ns=int(last[i]),
            seconds=seconds[i],
            metadata_ops=metadata[i],
            kinds=kinds[i],
        )
        for i in range(count)
    ]
    return sorted(found, key=lambda one: (one.cluster or "", one.user or "", one.program or "", one.scale or 0))


def _latest(table: pa.Table, keys: Sequence[NDArray[np.int64]]) -> pa.Table:
    """Of rows of one key the one made last."""
    if not table.num_rows:
        return table
    key = combine_column_codes(keys)
    order = np.lexsort((read_integer_column(table, "made_ns"), key))
    last = np.append(key[order][1:] != key[order][:-1], True)
    return table.take(pa.array(order[last]))


def _kinds(runs: pa.Table, group: NDArray[np.int64], count: int, phases: pa.Table) -> list[dict[str, KindProfile]]:
    """By category: the profile of each kind there are phases of."""
    found: list[dict[str, KindProfile]] = [{} for _ in range(count)]
    if not phases.num_rows:
        return found
    phases = _latest(
        phases,
        [read_job_code_columns(phases), read_code_column(phases, "kind"), read_integer_column(phases, "number", -1)],
    )
    # Codes hold within one call: runs and phases are coded as one table.
    who = pa.concat_tables([_who(runs, "start_ns"), _who(phases, "job_start_ns")])
    job = read_job_code_columns(who)
    of_run, of_phase = job[: runs.num_rows], job[runs.num_rows :]
    place = np.full(int(job.max()) + 1, -1, np.int64)
    place[of_run] = group
    mine = place[of_phase]
    kind = np.asarray(phases["kind"].cast(pa.string()).to_numpy(zero_copy_only=False))
    amount = np.where(kind == "metadata", read_float_column(phases, "metadata_ops"), read_float_column(phases, "bytes"))
    start = read_integer_column(phases, "start_ns")
    for name in KINDS:
        here = np.flatnonzero((mine >= 0) & (kind == name))
        if not len(here):
            continue
        here = here[np.lexsort((start[here], of_phase[here]))]
        at, who_ = mine[here], of_phase[here]
        again = np.flatnonzero(who_[1:] == who_[:-1]) + 1
        period = (start[here][again] - start[here][again - 1]) / NS_PER_S
        rate, request = read_float_column(phases, "rate_per_s")[here], read_float_column(phases, "request_bytes")[here]
        modes = _words(at, phases["mode"].cast(pa.string()).take(pa.array(here)), count)
        volumes = _counts(at, find_rate_bins(amount[here]), count, amount[here] > 0)
        rates = _counts(at, find_rate_bins(rate), count, rate > 0)
        requests = _counts(at, find_rate_bins(request), count, request > 0)
        periods = _counts(at[again], find_rate_bins(period), count, period > 0)
        number = np.bincount(at, minlength=count)
        _, one = np.unique(who_, return_index=True)
        with_any = np.bincount(at[one], minlength=count)
        for i in np.flatnonzero(number).tolist():
            found[i][name] = KindProfile(
                phases=int(number[i]),
                runs=int(with_any[i]),
                modes=modes[i],
                volumes=volumes[i],
                rates=rates[i],
                requests=requests[i],
                periods=periods[i],
            )
    return found


def _who(table: pa.Table, began: str) -> pa.Table:
    columns = {name: table[name].cast(pa.string()) for name in ("cluster", "job_id")}
    return pa.table(columns | {"job_start_ns": table[began]})


def _counts(group: NDArray[np.int64], bins: NDArray[np.int64], count: int, known: NDArray[np.bool_]) -> list[Counts]:
    """By category: how many in each bin."""
    found: list[Counts] = [{} for _ in range(count)]
    group, bins = group[known], bins[known]
    if not len(group):
        return found
    wide = int(bins.max()) + 1
    key, number = np.unique(group * wide + bins, return_counts=True)
    for one, times in zip(key.tolist(), number.tolist(), strict=True):
        found[one // wide][str(one % wide)] = times
    return found


def _words(group: NDArray[np.int64], words: pa.ChunkedArray, count: int) -> list[Counts]:
    """By category: how many of each word."""
    table = pa.table({"word": words})
    code = read_code_column(table, "word")
    distinct, first = np.unique(code, return_index=True)
    names = dict(zip(distinct.tolist(), words.take(pa.array(first)).to_pylist(), strict=True))
    found = _counts(group, code, count, code >= 0)
    return [dict(sorted((str(names[int(one)]), times) for one, times in counts.items())) for counts in found]


def build_run_profile_rows(profiles: Sequence[Profile], made_ns: int) -> pa.RecordBatch:
    """Return PROFILE rows of the profiles; `made_ns` is when they were computed."""
    columns: dict[str, Any] = {
        name: [getattr(one, name) for one in profiles]
        for name in ("cluster", "user", "program", "scale", "runs", "first_ns", "last_ns")
    }
    columns |= {
        "detail": [msgspec.json.encode(one).decode() for one in profiles],
        "made_ns": [made_ns] * len(profiles),
        "analysis_version": [DIAGNOSIS_VERSION] * len(profiles),
    }
    return build_table_batch(PROFILE, columns, len(profiles))


def read_run_profiles(rows: pa.Table) -> list[Profile]:
    """Read profiles from rows with the column `detail`. Raises msgspec.ValidationError for invalid ones."""
    return [msgspec.json.decode(text, type=Profile) for text in rows.column("detail").to_pylist()]
