"""Profiles of programs as the analysis keeps them: those of the whole lake, whichever way jobs came to be looked at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from diagnosed_lake import LAG, VICTIM, S, co_run, fill, kept, lake_of, later, look
from fairlead.core.model.tables import JOB_SUMMARY, PHASE
from fairlead.explain.analysis.history.run_profiles import Profile, build_run_profiles, read_run_profiles
from fairlead.store.lake import Lake
from fairlead.store.stored_tables import conform_stored_table

Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def tables() -> Tables:
    return co_run().build_tables()


def stored(lake: Lake) -> list[Profile]:
    return read_run_profiles(lake.query('SELECT detail FROM profile ORDER BY cluster, "user", program, scale'))


def of_all(lake: Lake) -> list[Profile]:
    """Made at once of all that the lake tells."""
    summaries = lake.query("SELECT * EXCLUDE (day) FROM job_summary WHERE end_ns IS NOT NULL")
    phases = lake.query("SELECT * EXCLUDE (day) FROM phase")
    return build_run_profiles(
        conform_stored_table(summaries, JOB_SUMMARY, strict=True), conform_stored_table(phases, PHASE, strict=True)
    )


def test_steps_of_any_size_come_to_the_profile_of_the_whole(tables: Tables, tmp_path: Path) -> None:
    one, two = (lake_of(tmp_path / name, tables) for name in ("one", "two"))
    look(one, later(tables))
    look(two, later(tables), most=2)
    assert stored(one) == of_all(one)
    assert {row["user"]: row["runs"] for row in kept(one, "profile")} == {
        "alice": 5,
        "bob": 1,
    }
    assert kept(one, "profile") == kept(two, "profile")


def test_a_run_looked_at_again_counts_once_as_it_is_known_now(tables: Tables, tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", tables)
    look(lake, later(tables))
    before = stored(lake)
    ops = tables["ops"]
    mine = ops.filter(pc.equal(ops["job_id"].cast(pa.string()), VICTIM))
    more = mine.set_column(
        mine.schema.get_field_index("count"), mine.schema.field("count"), pc.multiply(mine["count"], 2)
    )
    fill(lake, {"ops": more}, "late")
    look(lake, later(tables) + LAG)
    assert stored(lake) == of_all(lake)
    assert stored(lake) != before
    assert [one.runs for one in stored(lake)] == [one.runs for one in before]
    look(lake, later(tables) + 2 * LAG + S)
    assert stored(lake) == of_all(lake)
