"""Diagnosis of records that say what cannot be: the loop goes on, and says of the rest what it says without them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from diagnosed_lake import CULPRIT, VICTIM, S, co_run, kept, lake_of, later, look
from fairlead.explain.questions.answers_diagnosis import Why
from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from questions_site import NOW, build

MOST = (1 << 63) - 1
Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def play() -> Tables:
    return dict(co_run().build_tables())


def said(tables: Tables, table: str, column: str, values: Sequence[object]) -> Tables:
    """The records with another column in one table."""
    field = tables[table].schema.field(column)
    plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    at = tables[table].schema.get_field_index(column)
    made = tables[table].set_column(at, field, pa.array(values, plain).cast(field.type))
    return {**tables, table: made}


def now_and_then(tables: Tables, table: str, column: str, value: int) -> Tables:
    """Every 50th row says `value`."""
    told = tables[table][column].to_pylist()
    return said(tables, table, column, [value if row % 50 == 0 else one for row, one in enumerate(told)])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_impossible_numbers_do_not_end_the_loop(tmp_path: Path, play: Tables) -> None:
    broken = play
    for table, columns in {
        "ops": ("size", "count"),
        "target": ("read_bytes", "write_bytes"),
        "forwarder": ("bytes", "requests"),
    }.items():
        for column in columns:
            broken = now_and_then(broken, table, column, MOST)
    lake = lake_of(tmp_path / "lake", broken)
    look(lake, later(play))
    assert len(kept(lake, "phase")) > 0
    for row in lake.query("SELECT read_bytes, write_bytes, metadata_ops FROM job_summary").to_pylist():
        assert all(value is None or 0 <= value < 1 << 53 for value in row.values())
    assert {row["job_id"] for row in kept(lake)} <= {VICTIM}
    assert {who for row in kept(lake) for who in row["culprits"]} <= {f"job:{CULPRIT}"}


def test_names_that_are_markup_or_commands_change_nothing(tmp_path: Path, play: Tables) -> None:
    evil = "<b>'; DROP TABLE jobs; --\x1b[2J$(id)" + "x" * 5000
    broken = play
    for column in ("user", "program", "name", "project"):
        broken = said(broken, "jobs", column, [evil + str(one) for one in play["jobs"][column].to_pylist()])
    lake, plain = lake_of(tmp_path / "lake", broken), lake_of(tmp_path / "plain", play)
    look(lake, later(play))
    look(plain, later(play))
    assert [row["id"] for row in kept(lake)] == [row["id"] for row in kept(plain)]
    assert [row["cost_s"] for row in kept(lake)] == [row["cost_s"] for row in kept(plain)]
    assert all(row["user"].startswith(evil) for row in kept(lake))


def test_accounting_told_twice_is_one_job(tmp_path: Path, play: Tables) -> None:
    jobs = play["jobs"]
    longer = [None if end is None else end + 7 * S for end in jobs["end_ns"].to_pylist()]
    twice = pa.concat_tables([jobs, jobs, said(play, "jobs", "end_ns", longer)["jobs"]])
    lake = lake_of(tmp_path / "lake", {**play, "jobs": twice})
    look(lake, later(play) + 7 * S)
    assert [(row["job_id"], row["culprits"]) for row in kept(lake)] == [(VICTIM, [f"job:{CULPRIT}"])]


@pytest.mark.parametrize("gone", ["forwarder", "mapping", "target", "ops"])
def test_what_was_not_recorded_accuses_nobody_else(tmp_path: Path, play: Tables, gone: str) -> None:
    lake = lake_of(tmp_path / "lake", {name: table for name, table in play.items() if name != gone})
    look(lake, later(play))
    assert {who for row in kept(lake) for who in row["culprits"]} <= {f"job:{CULPRIT}"}
    assert all(row["lost_s"] is None or row["lost_s"] >= 0 for row in kept(lake, "phase"))


def test_a_job_of_before_phases_were_kept_is_not_said_to_have_done_nothing(tmp_path: Path) -> None:
    """Its summary tells of a phase, and there is no row of it: a lake of an older version."""
    page = answer_question(
        Asking(build(tmp_path / "lake")), "why", "100", parse_question_parameters("why", {}), Sight(), NOW
    )
    assert isinstance(page, Why)
    assert page.verdict == "slowed"
    assert [text for text in page.missing if text.startswith("phases: it was analysed before")]
    assert not [text for text in page.missing if "did too little" in text]
