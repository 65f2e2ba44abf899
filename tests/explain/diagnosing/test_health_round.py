"""Looks at components with the limits a site has by default: what is slow for hours is found while it lasts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fairlead.core.model.finding_incident_rows import build_finding_rows, build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import ROLLUP, build_table_batch
from fairlead.explain.analysis.health.class_peaks import Peak
from fairlead.explain.analysis.health.health_findings import build_health_findings
from fairlead.explain.diagnosing.component_peaks import read_past_peaks
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.health_round import compute_health_learning_end, run_health_round
from fairlead.store.lake import Lake
from questions_site import DAY, HOUR, MINUTE, S, put

NOON = 20_000 * DAY + 12 * HOUR
SICK = "fwd2"


def loads(from_ns: int, to_ns: int, rates: dict[str, float], waiting: dict[str, float]) -> dict[str, object]:
    """Forwarders that move so many bytes a second with so many requests waiting, in rows of seconds and minutes."""
    columns: dict[str, list[np.ndarray]] = {}
    for interval in (S, MINUTE):
        ts = np.arange(from_ns, to_ns, interval)
        seconds = interval // S
        for name, rate in rates.items():
            moved = np.full(len(ts), int(rate) * seconds)
            held = int(waiting.get(name, 0.0) * interval)
            row = {
                "ts_ns": ts,
                "interval_ns": np.full(len(ts), interval),
                "kind": np.full(len(ts), "forwarder"),
                "layer": np.full(len(ts), "forwarder"),
                "id": np.full(len(ts), name),
                "write_bytes": moved,
                "read_bytes": moved * 0,
                "write_ops": moved >> 20,
                "busy_ns": np.full(len(ts), interval),
                "wait_ns": np.full(len(ts), held),
                "waits": moved >> 20,
            }
            for key, values in row.items():
                columns.setdefault(key, []).append(values)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def lake_with(root: Path, forwarders: int) -> Lake:
    """Well until noon, then one moves a tenth while requests wait at it, for three hours."""
    names = [f"fwd{n}" for n in range(forwarders)]
    well = dict.fromkeys(names, 1e9)
    lake = Lake.open(root, create=True)
    parts = [
        loads(NOON - 2 * HOUR, NOON, well, {}),
        loads(NOON, NOON + 3 * HOUR, {**well, SICK: 1e8}, {SICK: 6.0}),
        loads(NOON + 3 * HOUR, NOON + 3 * HOUR + 30 * MINUTE, well, {}),
    ]
    put(lake, *(build_table_batch(ROLLUP, part) for part in parts))
    return lake


@pytest.mark.parametrize("forwarders", [6, 3])
def test_what_is_slow_for_hours_is_found_while_it_lasts(tmp_path: Path, forwarders: int) -> None:
    lake = lake_with(tmp_path / "lake", forwarders)
    begun, ended, findings = None, None, 0
    with lake.open_writer("analysis") as writer:
        for minute in range(30, 210, 6):
            now = NOON + minute * MINUTE
            run_health_round(lake, writer, now, Diagnosis())
            rows = lake.query("SELECT component, from_ns, to_ns FROM incident").to_pylist()
            assert {row["component"] for row in rows} <= {SICK}
            assert len(rows) <= 1
            if rows and begun is None:
                begun = minute
                assert abs(rows[0]["from_ns"] - NOON) <= 2 * MINUTE
            if rows and rows[0]["to_ns"] is not None and ended is None:
                ended = minute
                assert abs(rows[0]["to_ns"] - (NOON + 3 * HOUR)) <= 2 * MINUTE
        findings = lake.query("SELECT count(*) AS n FROM finding WHERE rule = 'component.degraded'")["n"][0].as_py()
    assert begun is not None
    assert begun <= 60 + 6
    assert ended is not None
    assert ended <= 180 + 12
    assert findings == 1


def test_who_looks_for_the_first_time_hours_later_still_knows_the_peak(tmp_path: Path) -> None:
    """Nothing of the time when it was well is in what a look reaches back to, and it has no peers."""
    lake = lake_with(tmp_path / "lake", 3)
    now = NOON + 2 * HOUR
    alone = Lake.open(tmp_path / "alone", create=True)
    parts = (loads(NOON - 2 * HOUR, NOON, {SICK: 1e9}, {}), loads(NOON, now, {SICK: 1e8}, {SICK: 6.0}))
    put(alone, *(build_table_batch(ROLLUP, part) for part in parts))
    for one in (lake, alone):
        known = read_past_peaks(one, compute_health_learning_end(now, Diagnosis()))
        assert known["forwarder", SICK] == Peak(bytes_per_s=pytest.approx(1e9), basis="learnt")  # type: ignore[arg-type]
        with one.open_writer("analysis") as writer:
            run_health_round(one, writer, now, Diagnosis())
        assert one.query("SELECT component FROM incident")["component"].to_pylist() == [SICK]


Piece = tuple[int, int, bool]
"""From and to, in minutes after NOON, and whether the component is slow."""


def lake_of_pieces(root: Path, pieces: list[Piece], names: int = 6) -> Lake:
    """Forwarders that are all well but for SICK in the slow pieces."""
    lake = Lake.open(root, create=True)
    well = {f"fwd{n}": 1e9 for n in range(names)}
    parts = [
        loads(NOON + begin * MINUTE, NOON + end * MINUTE, {**well, SICK: 1e8} if slow else well, {SICK: 6.0 * slow})
        for begin, end, slow in pieces
    ]
    put(lake, *(build_table_batch(ROLLUP, part) for part in parts))
    return lake


def incidents_of(lake: Lake) -> list[tuple[str, float, float | None]]:
    """Id, start and end in minutes after NOON of every incident that counts."""
    rows = lake.query(
        "SELECT id, from_ns, to_ns FROM incident WHERE NOT coalesce(withdrawn, false) ORDER BY from_ns"
    ).to_pylist()
    return [
        (row["id"], (row["from_ns"] - NOON) / MINUTE, None if row["to_ns"] is None else (row["to_ns"] - NOON) / MINUTE)
        for row in rows
    ]


def look_every(lake: Lake, minutes: range) -> list[int]:
    """Open incidents after each round."""
    found = []
    with lake.open_writer("analysis") as writer:
        for minute in minutes:
            run_health_round(lake, writer, NOON + minute * MINUTE, Diagnosis())
            found.append(sum(end is None for _, _, end in incidents_of(lake)))
    return found


def test_a_component_that_was_sick_before_has_one_open_incident(tmp_path: Path) -> None:
    """As the sample site's target: an earlier incident hid the open one, and each round began another."""
    lake = lake_of_pieces(tmp_path / "lake", [(-600, -500, True), (-500, 0, False), (0, 300, True)])
    opened = look_every(lake, range(-530, -480, 10))
    assert opened == [1, 1, 1, 1, 0]
    opened = look_every(lake, range(30, 300, 5))
    assert set(opened) == {0, 1}
    first, second = incidents_of(lake)
    assert first[2] == pytest.approx(-500, abs=2)
    assert second[1:] == (pytest.approx(0, abs=2), None)
    assert lake.query("SELECT count(*) AS n FROM finding")["n"][0].as_py() == 2


def test_a_lake_with_copies_of_an_incident_is_mended(tmp_path: Path) -> None:
    """As an earlier version left it: a copy each round, each open, each with a finding."""
    lake = lake_of_pieces(tmp_path / "lake", [(-120, 0, False), (0, 200, True), (200, 300, False)])
    assert look_every(lake, range(90, 96, 5)) == [1, 1]
    [row] = lake.query("SELECT detail FROM incident").to_pylist()
    first = msgspec.json.decode(row["detail"], type=Incident)
    copies = [msgspec.structs.replace(first, id=f"copy{n}", from_ns=NOON + n * MINUTE) for n in (10, 20, 30)]
    with lake.open_writer("earlier") as writer:
        batch = writer.open_batch("copies", source="analysis")
        batch.add(build_incident_rows(copies, NOON))
        batch.add(build_finding_rows(build_health_findings(copies, NOON), NOON))
        batch.commit()
    assert len(incidents_of(lake)) == 4
    assert look_every(lake, range(100, 106, 5)) == [1, 1]
    assert incidents_of(lake) == [(first.id, pytest.approx(0, abs=2), None)]
    current = lake.query("SELECT count(*) AS n FROM finding WHERE NOT coalesce(withdrawn, false)")
    assert current["n"][0].as_py() == 1
    look_every(lake, range(210, 216, 5))
    assert incidents_of(lake) == [(first.id, pytest.approx(0, abs=2), pytest.approx(200, abs=2))]
