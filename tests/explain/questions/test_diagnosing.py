"""Diagnosis over a real lake of a made machine: findings with the right culprit, once, the same whoever looks when."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from diagnosed_lake import CULPRIT, FIRST, LAG, VICTIM, S, co_run, fill, kept, lake_of, later, look
from fairlead.core.model.finding_incident_rows import parse_finding_rows
from fairlead.core.model.tables import FINDING, PHASE
from fairlead.explain.batch.rediagnosis import run_rediagnosis
from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.explain.questions.span import Span
from fairlead.store.lake import Lake

Tables = dict[str, pa.Table]
NARROW = {"from": "2024-06-01", "to": "2024-06-02"}


@pytest.fixture(scope="module")
def tables() -> Tables:
    return co_run().build_tables()


@pytest.fixture(scope="module")
def site(tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, int]:
    """A lake that was looked at, and when."""
    lake = lake_of(tmp_path_factory.mktemp("site") / "lake", tables)
    assert look(lake, later(tables)) == 1
    return lake, later(tables) + S


def answer(site: tuple[Lake, int], question: str, name: str = "", sight: Sight | None = None, **words: str) -> object:
    lake, now = site
    return answer_question(
        Asking(lake), question, name, parse_question_parameters(question, words), sight or Sight(), now
    )


def test_the_disturbed_job_is_found_with_who_disturbed_it(site: tuple[Lake, int]) -> None:
    found = answer(site, "findings", **NARROW)
    assert (found.total, found.older, found.missing) == (1, 0, [])
    [told] = found.findings
    finding = told.finding
    assert (told.job_id, told.user, finding.rule, finding.category) == (VICTIM, "alice", "job.interference", "n_to_1")
    assert [(who.kind, who.id) for who in finding.culprits] == [("job", CULPRIT)]
    assert finding.evidence
    assert finding.advice
    assert finding.cost_s is not None
    assert finding.cost_s > 10
    assert [row["job_id"] for row in kept(site[0], "phase") if (row["abnormal"] or 0) > 0.5] == [VICTIM]


def test_findings_are_chosen_by_job_component_user_and_severity(site: tuple[Lake, int]) -> None:
    [told] = answer(site, "findings", **NARROW).findings
    part = told.components[0]
    for words, count in (
        ({"job": VICTIM}, 1),
        ({"job": CULPRIT}, 1),
        ({"job": FIRST}, 0),
        ({"user": "alice"}, 1),
        ({"user": "bob"}, 0),
        ({"component": part.id}, 1),
        ({"component": f"{part.kind}:{part.id}"}, 1),
        ({"component": "nowhere"}, 0),
        ({"severity": told.finding.severity}, 1),
        ({"severity": "critical"}, int(told.finding.severity == "critical")),
        ({"rule": "job.interference"}, 1),
        ({"rule": "job.own_change"}, 0),
    ):
        assert answer(site, "findings", **NARROW, **words).total == count, words
    assert answer(site, "findings", **{"from": "2024-05-01", "to": "2024-05-02"}).missing


def test_one_finding_is_explained_over_one_time_axis(site: tuple[Lake, int]) -> None:
    [told] = answer(site, "findings", **NARROW).findings
    page = answer(site, "finding", told.finding.id[:6])
    assert page.told == told
    roles = {line.role for course in page.courses for line in course.lines}
    assert {"victim", "culprit", "wait"} <= roles
    assert len({(course.from_ns, course.step_ns) for course in page.courses}) == 1
    [usual] = page.usual
    assert len(usual.runs) == 5
    assert [run.job_id for run in usual.runs if run.this] == [VICTIM]
    with pytest.raises(UnknownNameError) as unknown:
        answer(site, "finding", told.finding.id[:-1] + "z")
    assert unknown.value.near


def test_why_says_what_a_job_got_and_who_took_the_rest(site: tuple[Lake, int]) -> None:
    slowed = answer(site, "why", VICTIM)
    assert slowed.verdict == "slowed"
    assert [row.who for row in slowed.taken] == [f"job {CULPRIT}"]
    assert slowed.lost_s > 10
    assert slowed.advice
    calm = answer(site, "why", "100012")
    assert (calm.verdict, calm.taken, calm.findings) == ("usual", [], [])
    assert calm.expected_s is not None
    assert (slowed.runs.runs, slowed.runs.scale) == (5, 1)
    assert {kind.kind for kind in slowed.runs.kinds} >= {"write"}
    assert {run.job_id for run in slowed.alike[:4]} == {"100010", "100011", "100012", "100013"}
    first = answer(site, "why", FIRST)
    assert (first.verdict, first.expected_s, first.lost_s) == ("unknown", None, None)
    assert any(text.startswith("history:") for text in first.missing)


def test_why_of_a_culprit_says_whom_it_hurt(site: tuple[Lake, int]) -> None:
    [hurt] = answer(site, "why", CULPRIT).hurt
    assert (hurt.who, hurt.finding is not None) == (f"job {VICTIM}", True)
    assert hurt.seconds is not None
    assert hurt.seconds > 10
    assert answer(site, "why", VICTIM).hurt == answer(site, "why", FIRST).hurt == []
    assert answer(site, "why", CULPRIT, sight=Sight("bob")).hurt == [], "whom it hurt is others' business"


def test_others_jobs_have_no_names_for_a_user(site: tuple[Lake, int]) -> None:
    alice, bob, carol = (Sight(name) for name in ("alice", "bob", "carol"))
    [told] = answer(site, "findings", sight=alice, **NARROW).findings
    pages = [told, answer(site, "finding", told.finding.id, sight=alice), answer(site, "why", VICTIM, sight=alice)]
    mine = json.dumps(_plain(answer(site, "why", CULPRIT, sight=bob)))
    assert not re.search(rf"(?<![\d.]){VICTIM}(?!\d)|alice|oneone", mine)
    for page in pages:
        text = json.dumps(_plain(page))
        for name in (CULPRIT, "bob", "nto1"):
            assert not re.search(rf"(?<![\d.]){name}(?!\d)", text), name
        assert "another job" in text
        assert VICTIM in text
    for sight in (bob, carol):
        assert answer(site, "findings", sight=sight, **NARROW).total == 0
        with pytest.raises(UnknownNameError):
            answer(site, "finding", told.finding.id, sight=sight)
        with pytest.raises(UnknownNameError):
            answer(site, "why", VICTIM, sight=sight)


def _plain(page: object) -> object:
    import msgspec

    return msgspec.to_builtins(page)


def test_the_same_records_in_another_order_give_the_same_findings(tables: Tables, tmp_path: Path) -> None:
    """Byte for byte: batches come in other orders, and steps take other numbers of jobs."""
    one, two = (Lake.open(tmp_path / name, create=True) for name in ("one", "two"))
    middle = {name: table.num_rows // 2 for name, table in tables.items()}
    halves = [
        {name: t.slice(0, middle[name]) for name, t in tables.items()},
        {name: t.slice(middle[name]) for name, t in tables.items()},
    ]
    for lake, order in ((one, (0, 1)), (two, (1, 0))):
        for part in order:
            fill(lake, halves[part], f"half{part}")
    look(one, later(tables))
    look(two, later(tables) + 7 * S, most=2)
    assert kept(one) == kept(two)
    assert kept(one)
    assert kept(one, "phase") == kept(two, "phase")


def test_a_finding_that_later_records_do_not_bear_out_is_withdrawn(tables: Tables, tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", tables)
    now = later(tables)
    look(lake, now)
    [before] = parse_finding_rows(lake.query("SELECT detail FROM finding"))
    # The clients of the victim tell later that it wrote three times as much: it was not slow.
    ops = tables["ops"]
    mine = ops.filter(pc.equal(ops["job_id"].cast(pa.string()), VICTIM))
    again = mine.set_column(
        mine.schema.get_field_index("count"), mine.schema.field("count"), pc.multiply(mine["count"], 2)
    )
    fill(lake, {"ops": again}, "late")
    look(lake, now + LAG)
    rows = lake.query("SELECT id, withdrawn FROM finding").to_pylist()
    assert {"id": before.finding.id, "withdrawn": True} in rows or rows == [
        {"id": before.finding.id, "withdrawn": False}
    ]
    listed = answer_question(
        Asking(lake), "findings", "", parse_question_parameters("findings", NARROW), Sight(), now + LAG
    )
    assert listed.total == sum(not row["withdrawn"] for row in rows)


def test_findings_of_an_older_analysis_are_left_out_and_counted(tables: Tables, tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", tables)
    now = later(tables)
    look(lake, now)
    rows = lake.query("SELECT * EXCLUDE (day) FROM finding").to_pylist()
    newer = [{**rows[0], "id": "ffffffffffff", "analysis_version": 2}]
    with lake.open_writer("newer") as writer:
        batch = writer.open_batch("newer")
        batch.add(_of(newer, FINDING.schema))
        batch.commit()
    found = answer_question(Asking(lake), "findings", "", parse_question_parameters("findings", NARROW), Sight(), now)
    assert ([one.finding.id for one in found.findings], found.older, found.analysis_version) == (
        [parse_finding_rows(_of(rows, FINDING.schema))[0].finding.id],
        1,
        2,
    )
    phase = lake.query("SELECT * EXCLUDE (day) FROM phase LIMIT 1").to_pylist()
    with lake.open_writer("newer") as writer:
        batch = writer.open_batch("phases")
        batch.add(_of([{**phase[0], "analysis_version": 3}], PHASE.schema))
        batch.commit()
    assert (
        answer_question(Asking(lake), "findings", "", parse_question_parameters("findings", NARROW), Sight(), now).older
        == 2
    )


def _of(rows: list[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    from fairlead.core.model.tables import TABLES
    from fairlead.store.stored_tables import conform_stored_table

    return conform_stored_table(
        pa.Table.from_pylist(rows), TABLES[schema.metadata[b"fairlead.table"].decode()], strict=True
    )


def test_made_again_the_findings_are_the_same_and_a_second_run_adds_nothing(tables: Tables, tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", tables)
    now = later(tables)
    look(lake, now)
    before = kept(lake)
    day = 86_400 * S
    span = Span(now // day * day, now)
    made = run_rediagnosis(Here(), str(lake.place.root), span, now + S)
    assert (made.findings, made.withdrawn, made.done_before) == (1, 0, 0)
    assert kept(lake) == before
    again = run_rediagnosis(Here(), str(lake.place.root), span, now + 2 * S)
    assert (again.findings, again.phases, again.done_before) == (0, 0, again.stretches)


class Here:
    """Workers of this process."""

    def run_each(self, work: object, pieces: list[object], **words: object) -> object:
        return ((piece, work(piece, **words)) for piece in pieces)  # type: ignore[operator]


KILLED = """
import sys
from pathlib import Path
from fairlead.store.lake import Lake
from fairlead.explain.diagnosing import ended_jobs
lake = Lake.open(Path(sys.argv[1]))
with lake.open_writer("analysis") as writer:
    batch = writer.open_batch
    def held(stream, *a, **k):
        made = batch(stream, *a, **k)
        commit = made.commit
        def last():
            if sys.argv[3] == "after":
                commit()
            print("now", flush=True)
            sys.stdin.read()
        made.commit = last
        return made
    writer.open_batch = held
    ended_jobs.summarise_ended_jobs(lake, writer, int(sys.argv[2]), most=3)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_loop_killed_in_a_step_loses_and_doubles_nothing(tables: Tables, tmp_path: Path, when: str) -> None:
    whole, killed = lake_of(tmp_path / "whole", tables), lake_of(tmp_path / "killed", tables)
    now = later(tables)
    look(whole, now, most=3)
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(killed.place.root), str(now), when],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "now\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    look(killed, now, most=3)
    assert kept(killed) == kept(whole)
    assert kept(killed, "phase") == kept(whole, "phase")
    assert killed.query("SELECT count(*) AS n FROM finding")["n"][0].as_py() == 1


@pytest.mark.parametrize(
    "lacking",
    [
        ("ops",),
        ("ops", "forwarder"),
        ("forwarder", "mapping"),
        ("target", "metadata"),
        ("ops", "target", "metadata"),
        ("ops", "forwarder", "target", "metadata", "pfs_client"),
    ],
    ids="-".join,
)
def test_what_is_missing_is_told_and_accuses_nobody_else(
    tables: Tables, tmp_path: Path, lacking: tuple[str, ...]
) -> None:
    lake = lake_of(tmp_path / "lake", {name: table for name, table in tables.items() if name not in lacking})
    now = later(tables)
    look(lake, now)
    found = answer_question(Asking(lake), "findings", "", parse_question_parameters("findings", NARROW), Sight(), now)
    for told in found.findings:
        assert told.job_id == VICTIM
        assert [who.id for who in told.finding.culprits if who.kind == "job"] in ([], [CULPRIT])
    page = answer_question(Asking(lake), "why", VICTIM, parse_question_parameters("why", {}), Sight(), now)
    assert page.missing
    if not page.phases:
        assert (page.verdict, page.lost_s, page.expected_s) == ("unknown", None, None)


def test_broken_accounting_never_ends_the_loop(tables: Tables, tmp_path: Path) -> None:
    """Unfinished jobs, accounts told twice, jobs that overlap on a node, ends before starts, no nodes."""
    jobs = tables["jobs"].to_pylist()
    one = next(row for row in jobs if row["job_id"] == VICTIM and row["end_ns"])
    odd = [
        {**one, "job_id": "unfinished", "end_ns": None},
        {**one, "end_ns": one["end_ns"] + 5 * S},
        {**one, "job_id": "beside"},
        {**one, "job_id": "backwards", "end_ns": one["start_ns"] - 1},
        {**one, "job_id": "nowhere", "nodes": None, "nodes_count": None},
        {**one, "job_id": "nameless", "user": None, "program": None},
        {**one, "job_id": "startless", "start_ns": None},
    ]
    lake = lake_of(tmp_path / "lake", {**tables, "jobs": pa.Table.from_pylist([*jobs, *odd], tables["jobs"].schema)})
    now = later(tables) + 10 * S
    look(lake, now)
    for name in ("unfinished", "beside", "nowhere", "nameless", "startless"):
        page = answer_question(Asking(lake), "why", name, parse_question_parameters("why", {}), Sight(), now)
        assert page.verdict in ("unknown", "running", "usual")
        assert page.lost_s != 0 or page.phases
    assert {row["job_id"] for row in kept(lake)} == {VICTIM}
