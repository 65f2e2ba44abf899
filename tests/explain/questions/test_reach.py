"""What others do changes nothing that a reader is told, whatever it is, and what a reach leaves adds up."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fairlead.explain.questions.lake_queries import NotForYouError, Run, Sight, UnknownNameError
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import answer_question, parse_question_parameters
from fairlead.explain.questions.restricted_lake import find_restricted_steps
from fairlead.explain.questions.visible_lake import (
    build_visible_jobs_condition,
    is_job_visible,
    merge_visible_intervals,
)
from questions_site import T0, S
from rights_site import BUSY, NOW, Other, others, site

PLACES = itertools.count()
READERS = (Sight("alice"), Sight("dana", ("climate",)), Sight(only=Run("c", "100", T0 + 61 * S)))
ASKED = (
    ("jobs", "", {"sort": "bytes"}),
    ("job", "100", {}),
    ("why", "100", {}),
    ("job_timeline", "100", {}),
    ("findings", "", {}),
    ("finding", "f00000000100", {}),
    ("node", "n1", {}),
    ("node", "n3", {}),
    ("target", "OST0", {}),
    ("forwarder", "f1", {}),
    ("mds", "", {}),
    ("targets", "", {}),
    ("top", "users", {}),
    ("usage", "", {}),
    ("ports", "", {}),
    ("component_health", "", {"all": "true"}),
    ("layer", "forwarder", {}),
    ("layer_component", "target", {"id": "OST0"}),
    ("layer_waits", "forwarder", {}),
    ("behaviour", "", {}),
    ("job_files", "100", {}),
    ("heatmap", "", {}),
    ("devices", "", {}),
    ("mine", "", {}),
)
SPANS = ("2024-10-04T09:58", "2024-10-04T10:03:20", "2024-10-04T06:30", "2024-10-01")
UNTIMED = ("finding",)


@st.composite
def strangers(draw: st.DrawFn) -> Other:
    """A job of somebody else that uses nothing of hers while she does."""
    first = draw(st.integers(-4000, 820))
    last = first + draw(st.integers(1, 70))

    def free(name: str) -> bool:
        return all(last <= begin or first >= end for begin, end in BUSY.get(name, []))

    pick = {
        kind: draw(st.sampled_from([name for name in names if free(name)]))
        for kind, names in (
            ("forwarder", ("f1", "f2")),
            ("target", ("OST0", "OST2")),
            ("mdt", ("MDT0", "MDT2")),
        )
    }
    nodes = draw(st.lists(st.sampled_from([n for n in ("n1", "n2", "n3", "n4") if free(n)]), min_size=1, unique=True))
    return Other(
        draw(st.sampled_from(["101", "102", "7"])),
        first,
        last,
        sorted(nodes),
        **pick,
        size=draw(st.integers(1, 9999)),
        user=draw(st.sampled_from(["bob", "eve"])),
        cluster=draw(st.sampled_from(["c", "d"])),
        told=draw(st.booleans()),
        program=draw(st.sampled_from(["gkua", "wrf"])),
    )


def told(asking: Asking, sight: Sight, question: str, name: str, words: dict[str, str]) -> str:
    try:
        return msgspec.json.encode(
            answer_question(asking, question, name, parse_question_parameters(question, words), sight, NOW)
        ).decode()
    except (UnknownNameError, NotForYouError) as error:
        return f"{type(error).__name__} {error} {getattr(error, 'near', '')}"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Asking]:
    root = tmp_path_factory.mktemp("reach")
    return root, Asking(site(root / "bare"))


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    jobs=st.lists(strangers(), min_size=1, max_size=3, unique_by=lambda job: (job.cluster, job.number)),
    start=st.integers(0, 11),
    reader=st.integers(0, 2),
)
def test_what_others_do_changes_no_answer(
    bare: tuple[Path, Asking], jobs: list[Other], start: int, reader: int
) -> None:
    root, without = bare
    lake = site(root / f"full{next(PLACES)}")
    others(lake, jobs)
    full = Asking(lake)
    for at, (question, name, words) in list(enumerate(ASKED))[start % 3 :: 3]:
        span = {} if question in UNTIMED else {"from": SPANS[(start + at) % len(SPANS)]}
        sight = READERS[(reader + at) % 2 if at % 5 else 2]
        assert told(full, sight, question, name, words | span) == told(without, sight, question, name, words | span)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_merged_times_are_the_same_without_overlap(rows: list[tuple[str, int, int]]) -> None:
    ids = np.array([name for name, _, _ in rows], object)
    begins = np.array([begin * S for _, begin, _ in rows], np.int64)
    ends = begins + np.array([length * S for _, _, length in rows], np.int64)
    _, names, first, last = merge_visible_intervals(np.full(len(rows), "k", object), ids, begins, ends)
    for name in "ab":
        wanted = {t for n, b, length in rows if n == name for t in range(b, b + length)}
        pieces = sorted((b // S, e // S) for n, b, e in zip(names, first, last, strict=True) if n == name)
        got = [t for b, e in pieces for t in range(int(b), int(e))]
        assert sorted(wanted) == got
        assert all(one[1] < two[0] for one, two in itertools.pairwise(pieces))


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200)), max_size=8), st.integers(1, 60))
def test_whole_steps_and_what_is_ragged_make_up_each_stretch(rows: list[tuple[int, int]], step: int) -> None:
    begins = np.array([begin for begin, _ in rows], np.int64)
    ends = begins + np.array([length for _, length in rows], np.int64)
    at, first, last = find_restricted_steps(begins, ends, step)
    for place, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        whole = [t for t in range(begin, end) if t // step * step >= begin and t // step * step + step <= end]
        rest = [t for k in np.flatnonzero(at == place) for t in range(int(first[k]), int(last[k]))]
        assert sorted(whole + rest) == list(range(begin, end))


ACCOUNT = {"cluster": "c", "job_id": "1", "start_ns": 5, "user": "alice", "project": "p"}


@pytest.mark.parametrize(
    ("sight", "seen"),
    [
        (Sight(), True),
        (Sight("alice"), True),
        (Sight("bob"), False),
        (Sight("bob", ("p",)), True),
        (Sight("bob", ("q",)), False),
        (Sight("", ("p",)), True),
        (Sight(only=Run("c", "1", 5)), True),
        (Sight(only=Run("d", "1", 5)), False),
        (Sight(only=Run("c", "1", 6)), False),
        (Sight(only=Run(None, "1", 5)), False),
        (Sight("alice", only=Run("c", "2", 5)), False),
    ],
)
def test_a_job_is_seen_in_the_lake_as_in_the_hand(sight: Sight, seen: bool) -> None:
    import duckdb

    assert is_job_visible(ACCOUNT, sight) is seen
    assert is_job_visible(None, sight) is sight.everything
    condition, words = build_visible_jobs_condition(sight, "t")
    sql = f"SELECT coalesce({condition}, false) FROM (SELECT 'c' AS cluster, '1' AS job_id, 5 AS start_ns,"  # noqa: S608
    sql += " 'alice' AS \"user\", 'p' AS project) t"
    assert duckdb.connect().execute(sql, words).fetchone() == (seen,)
