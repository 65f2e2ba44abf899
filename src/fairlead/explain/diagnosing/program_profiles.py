"""Profiles of programs kept as jobs end: what is stored of their categories, with these runs counted in.

A run counts once: when it is looked at again, what it counted for before goes out first. Not here: what a profile is
(`analysis.history.run_profiles`).
"""
# ruff: noqa: S608  (names of columns are ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fairlead.core.model.tables import JOB_SUMMARY, PHASE, build_empty_table
from fairlead.explain.analysis.history.run_profiles import (
    Key,
    Profile,
    build_run_profile_rows,
    build_run_profiles,
    get_run_profile_key,
    merge_run_profiles,
    read_run_profiles,
    subtract_run_profile,
)
from fairlead.explain.diagnosing.serving_components import DAY_NS, Tables, build_day_condition
from fairlead.explain.questions.past_phases import LATEST
from fairlead.store.stored_tables import conform_stored_table

REACH_NS = 400 * DAY_NS
"""A category nothing ran of for so long begins anew."""


def update_program_profiles(
    lake: Tables, summaries: pa.Table, phases: pa.Table, again: Sequence[Mapping[str, Any]], now_ns: int
) -> pa.RecordBatch:
    """Rows of PROFILE of the categories of these runs (rows of JOB_SUMMARY and PHASE that the lake need not hold yet).
    `again`: rows of `jobs` of those that may have been counted before. Raises LakeError."""
    new = {get_run_profile_key(one): one for one in build_run_profiles(summaries, phases)}
    old = {get_run_profile_key(one): one for one in build_run_profiles(*_counted(lake, again))}
    stored, told_ns = _stored(lake, [*new, *old], now_ns)
    made = []
    for key in sorted({*new, *(key for key in old if key in stored)}, key=repr):
        one = stored.get(key)
        if one is not None and key in old:
            one = subtract_run_profile(one, old[key])
        if key in new:
            one = new[key] if one is None or not one.runs else merge_run_profiles(one, new[key])
        if one is not None:
            made.append(one)
    return build_run_profile_rows(made, max(now_ns, told_ns + 1))


def _counted(lake: Tables, jobs: Sequence[Mapping[str, Any]]) -> tuple[pa.Table, pa.Table]:
    """What the lake holds of these runs from when they were looked at after their end."""
    if not jobs:
        return build_empty_table(JOB_SUMMARY), build_empty_table(PHASE)
    begin, end = min(int(job["start_ns"]) for job in jobs), max(int(job["end_ns"]) for job in jobs)
    words = {"names": sorted({str(job["job_id"]) for job in jobs}), "starts": [int(job["start_ns"]) for job in jobs]}
    summaries = lake.query(
        "SELECT * EXCLUDE (day) FROM job_summary WHERE job_id IN (SELECT unnest($names)) AND end_ns IS NOT NULL"
        f" AND start_ns IN (SELECT unnest($starts)) AND {build_day_condition(begin, end)} ORDER BY cluster,"
        f" job_id, start_ns",
        words,
    )
    phases = lake.query(
        "SELECT * EXCLUDE (day) FROM phase WHERE job_id IN (SELECT unnest($names))"
        f" AND job_start_ns IN (SELECT unnest($starts)) AND {build_day_condition(begin, end)} QUALIFY {LATEST}"
        " ORDER BY cluster, job_id, job_start_ns, kind, number",
        words,
    )
    return conform_stored_table(summaries, JOB_SUMMARY, strict=True), conform_stored_table(phases, PHASE, strict=True)


def _stored(lake: Tables, keys: Sequence[Key], now_ns: int) -> tuple[dict[Key, Profile], int]:
    """Profiles of these categories, and when the last of them was made: rows made now must be later."""
    if not keys:
        return {}, 0
    found = lake.query(
        'SELECT detail, made_ns FROM profile WHERE program IN (SELECT unnest($programs)) AND "user" IN'
        f" (SELECT unnest($users)) AND {build_day_condition(now_ns - REACH_NS, now_ns)}",
        {"programs": sorted({str(key[2]) for key in keys}), "users": sorted({str(key[1]) for key in keys})},
    )
    wanted = set(keys)
    return (
        {get_run_profile_key(one): one for one in read_run_profiles(found) if get_run_profile_key(one) in wanted},
        max(found["made_ns"].to_pylist(), default=0),
    )
