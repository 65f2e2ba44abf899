"""Component health on loads made by hand: what is sick, what only looks it, and how incidents begin, go on and end."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.model.incident import Incident
from fairlead.explain.analysis.health.assess import Health, HealthLimits
from fairlead.explain.analysis.health.incidents import is_maintenance_incident
from health_loads import LIMITS, NS, PEAK, START_NS, events, forwarder, look, rows, states_of, target

HOUR = np.arange(3600)
SICK_FROM, SICK_TO = 1200, 1800
IN_FAULT = (HOUR >= SICK_FROM) & (HOUR < SICK_TO)


def fleet(slow: tuple[str, ...] = ("t3",), share: float = 0.15, many: int = 6) -> list[pa.Table]:
    """Targets that are asked for all they can give throughout; those in `slow` give less in the fault."""
    out: list[pa.Table] = []
    for place in range(many):
        name = f"t{place}"
        rate = np.where(IN_FAULT & (name in slow), share, 0.9) * PEAK
        # Servers differ by a little, so that each device is its target's alone.
        out += target(name, HOUR, rate * (1 - 0.01 * place), 1.0)
    return out


def one_of(health: Health) -> Incident:
    (incident,) = health.incidents
    return incident


def at_s(time_ns: int | None) -> float:
    assert time_ns is not None
    return (time_ns - START_NS) / NS


def test_a_slow_target_is_found_with_its_times_and_nobody_else() -> None:
    incident = one_of(look(fleet(), 3600))
    assert (incident.layer, incident.component, incident.kind) == ("target", "t3", "degraded")
    assert abs(at_s(incident.from_ns) - SICK_FROM) <= 2
    assert abs(at_s(incident.to_ns) - SICK_TO) <= 2
    assert incident.share_of_peak == pytest.approx(0.15, abs=0.01)
    assert incident.jobs == ["1"]
    assert incident.persistence == "transient"


def test_it_is_found_while_it_happens_within_two_windows_of_the_minimum() -> None:
    assert not look(fleet(), SICK_FROM + 60).incidents, "one window is no incident"
    incident = one_of(look(fleet(), SICK_FROM + LIMITS.minimum_s))
    assert incident.to_ns is None


def test_the_default_minimum_is_an_hour() -> None:
    assert not look(fleet(), 3600, limits=HealthLimits()).incidents
    assert look(fleet(), 3600, limits=HealthLimits(minimum_s=600)).incidents


def test_looks_one_after_the_other_tell_one_incident() -> None:
    everything = pa.concat_tables(fleet())
    known: dict[str, Incident] = {}
    begun = ended = 0
    for end in range(60, 3601, 60):
        # A sliding window that forgets the beginning long before the end.
        first = START_NS + max(end - 300, 0) * NS
        times = everything["ts_ns"].to_numpy()
        recent = everything.filter(pa.array((times >= first) & (times < START_NS + end * NS)))
        health = look([recent], end, list(known.values()))
        known.update({one.id: one for one in health.incidents})
        begun += len(health.begun)
        ended += len(health.ended)
        assert not health.withdrawn
    assert (begun, ended, len(known)) == (1, 1, 1)
    (incident,) = known.values()
    assert abs(at_s(incident.from_ns) - SICK_FROM) <= 2
    assert abs(at_s(incident.to_ns) - SICK_TO) <= 2
    assert incident.id == one_of(look(fleet(), 3600)).id, "as one look at everything tells it"


def test_the_same_loads_in_any_order_and_in_pieces_give_the_same_bytes() -> None:
    whole = pa.concat_tables(fleet())
    order = np.random.default_rng(3).permutation(whole.num_rows)
    halves = [whole.take(pa.array(order[::2])), whole.take(pa.array(order[1::2]))]
    first, second = look([whole], 3600), look(halves, 3600)
    assert msgspec.json.encode(first.incidents) == msgspec.json.encode(second.incidents)
    assert first.states.equals(second.states)


def test_an_idle_component_is_not_sick() -> None:
    tables = fleet(slow=())
    tables += target("t7", HOUR, np.where(HOUR < 1000, 0.9 * PEAK, 0.0), np.where(HOUR < 1000, 1.0, 0.0))
    health = look(tables, 3600)
    assert not health.incidents
    assert set(states_of(health, "t7")[20:]) == {"idle"}


def test_low_rates_that_nobody_waits_for_are_unknown_or_well_never_sick() -> None:
    tables = fleet(slow=())
    tables += forwarder("f0", HOUR, 0.05 * PEAK, 0.0)
    health = look(tables, 3600)
    assert not health.incidents
    assert set(states_of(health, "f0")) == {"unknown"}


def test_a_fault_that_nobody_touched_is_unknown() -> None:
    tables = fleet(slow=())
    asked = HOUR < 600
    tables += target("t7", HOUR, np.where(asked, 0.9 * PEAK, 0.01 * PEAK), np.where(asked, 1.0, 0.2))
    health = look(tables, 3600)
    assert not health.incidents
    assert "sick" not in states_of(health, "t7")


def test_a_heavy_load_is_no_sickness() -> None:
    tables = [table for n in range(4) for table in forwarder(f"f{n}", HOUR, 2.4 * PEAK, 40.0, 28.0)]
    health = look(tables, 3600)
    assert not health.incidents
    assert set(states_of(health, "f1")[1:-1]) == {"ok"}


def test_a_forwarder_held_by_what_is_behind_it_is_not_sick_and_a_slow_one_is() -> None:
    """A job writes one file with many processes: its requests hold the workers, others wait, little moves."""
    quiet = [table for n in range(3) for table in forwarder(f"f{n}", HOUR, 0.8 * PEAK, 0.0, 9.0)]
    held = forwarder("f9", HOUR, 0.25 * PEAK, 4.0, 60.0)
    assert not look(quiet + held, 3600).incidents
    slow = forwarder("f8", HOUR, np.where(IN_FAULT, 0.3, 0.8) * PEAK, np.where(IN_FAULT, 20.0, 0.0), 4.0)
    incident = one_of(look(quiet + held + slow, 3600))
    assert (incident.layer, incident.component) == ("forwarder", "f8")


def test_a_dead_forwarder_tells_only_of_its_queue() -> None:
    dead = HOUR[(HOUR >= SICK_FROM) & (HOUR < SICK_TO)]
    alive = HOUR[(HOUR < SICK_FROM) | (HOUR >= SICK_TO)]
    tables = forwarder("f0", alive, 2.0 * PEAK, 0.0, 20.0)
    tables += [rows("forwarder", "f0", "forwarder", dead, queue_len_max=30)]
    incident = one_of(look(tables, 3600))
    assert (incident.kind, incident.hint) == ("dead", "dead")


def test_one_job_that_loads_one_target_with_one_file_is_no_sick_target() -> None:
    """Its device is not busy: the file's lock is what limits."""
    tables = fleet(slow=()) + target("t7", HOUR, 0.2 * PEAK, 0.2)
    assert not look(tables, 3600).incidents


def test_when_all_are_slow_alike_no_component_is_sick() -> None:
    health = look(fleet(slow=("t0", "t1", "t2", "t3", "t4", "t5")), 3600)
    assert not health.incidents
    why = {row["why"] for row in health.states.to_pylist() if row["state"] == "unknown" and row["layer"] == "target"}
    assert "all peers with requests are equally slow" in why


def test_of_two_components_the_slow_one_is_found() -> None:
    assert one_of(look(fleet(slow=("t1",), many=2), 3600)).component == "t1"


def test_without_a_given_peak_it_is_learnt_from_the_past_and_the_class() -> None:
    health = look(fleet(), 3600, peaks={})
    incident = one_of(health)
    assert incident.component == "t3"
    assert health.peaks["target", "t3"].basis.startswith("learnt")
    given = one_of(look(fleet(), 3600))
    assert given.confidence > incident.confidence, "a given peak is surer"


def test_a_full_server_excuses_its_targets() -> None:
    """Two targets of one server compete: one has the flows and moves nearly all of what the server can."""
    both = target("t4", HOUR, 1.0 * PEAK, 1.0) + target("t5", HOUR, 0.2 * PEAK, 1.0)
    others = [table for n in range(4) for table in target(f"t{n}", HOUR, (0.6 + 0.01 * n) * PEAK, 1.0)]
    servers = {f"t{n}": f"oss{n // 2}" for n in range(6)}
    assert not look(both + others, 3600, servers=servers).incidents


def test_a_gap_in_the_data_neither_ends_nor_extends_an_incident() -> None:
    whole = pa.concat_tables(fleet())
    seconds = (whole["ts_ns"].to_numpy() - START_NS) // NS
    gap = (seconds >= 1440) & (seconds < 1620)
    incident = one_of(look([whole.filter(pa.array(~gap))], 3600))
    assert abs(at_s(incident.to_ns) - SICK_TO) <= 2
    silent = one_of(look([whole.filter(pa.array(seconds < 1500))], 1800))
    assert silent.to_ns is None
    assert silent.missing, "that no report since is said"
    # When nothing comes for long enough, it ends where it was seen last.
    later = look([whole.filter(pa.array(seconds < 60))], 1500 + 600, [silent])
    (over,) = later.ended
    assert abs(at_s(over.to_ns) - 1500) <= 2


def test_a_component_that_is_gone_from_the_data_keeps_its_incident() -> None:
    incident = one_of(look(fleet(), 1500))
    others = pa.concat_tables(fleet(slow=(), many=3))
    (same,) = look([others], 1560, [incident]).continued
    assert same.id == incident.id
    empty = look([others.slice(0, 0)], 1560, [incident])
    assert [one.id for one in empty.continued] == [incident.id]


def test_rows_sent_twice_make_nobody_sick() -> None:
    whole = pa.concat_tables(fleet(slow=()))
    some = whole.slice(0, 2000)
    assert not look([whole, some], 3600).incidents


def test_clocks_that_are_off_by_seconds_change_no_verdict() -> None:
    parts = []
    for number, table in enumerate(fleet()):
        ts = pa.array(table["ts_ns"].to_numpy() + (number % 5 - 2) * NS)
        parts.append(table.set_column(0, table.schema.field(0), ts))
    assert {one.component for one in look(parts, 3600).incidents} == {"t3"}


def test_on_and_off_is_one_incident_that_flaps() -> None:
    bad = IN_FAULT & (HOUR // 90 % 2 == 0)
    tables = fleet(slow=(), many=5) + target("t7", HOUR, np.where(bad, 0.1, 0.9) * PEAK, 1.0)
    incident = one_of(look(tables, 3600))
    assert incident.kind == "flapping"
    assert at_s(incident.from_ns) < 1300 < 1700 < at_s(incident.to_ns)


def test_what_comes_back_is_recurrent() -> None:
    bad = ((HOUR >= 600) & (HOUR < 1000)) | ((HOUR >= 2400) & (HOUR < 2900))
    tables = fleet(slow=(), many=5) + target("t7", HOUR, np.where(bad, 0.1, 0.9) * PEAK, 1.0)
    first, second = look(tables, 3600).incidents
    assert (first.persistence, second.persistence) == ("transient", "recurrent")


def test_events_are_evidence_and_maintenance_is_told() -> None:
    told = events(("oss1:md1", "raid_rebuild", 1150, 1900), ("oss9", "maintenance", 0, 3600))
    incident = one_of(look(fleet(), 3600, told=told))
    assert incident.hint == "rebuild"
    assert any("raid_rebuild" in fact.text for fact in incident.evidence)
    assert not is_maintenance_incident(incident), "another server's"
    planned = one_of(look(fleet(), 3600, told=events(("oss1", "maintenance", 1000, 2000))))
    assert is_maintenance_incident(planned)


@pytest.mark.parametrize("damage", ["ops", "bytes", "busy", "nothing"])
def test_unknown_columns_give_unknown_never_a_crash_or_a_zero(damage: str) -> None:
    whole = pa.concat_tables(fleet())
    gone = {"ops": ["write_ops"], "bytes": ["write_bytes"], "busy": ["busy_ns"], "nothing": []}[damage]
    for name in gone:
        place = whole.schema.get_field_index(name)
        whole = whole.set_column(place, whole.schema.field(place), pa.nulls(whole.num_rows, pa.int64()))
    health = look([whole], 3600)
    assert {one.component for one in health.incidents} <= {"t3"}
    if damage == "nothing":
        assert health.incidents
    if damage == "busy":
        assert any("queues" in text for text in health.missing)


def test_a_beginning_that_is_not_borne_out_later_is_withdrawn() -> None:
    incident = one_of(look(fleet(), 1500))
    health = look(fleet(slow=()), 3600, [incident])
    assert [one.id for one in health.withdrawn] == [incident.id]
    assert not health.incidents


def test_a_job_that_is_alone_on_a_sick_target_is_not_its_cause() -> None:
    assert one_of(look(fleet(), 3600)).hint == "unknown", "job 1 makes all requests there, sick or not"
    assert one_of(look(fleet(), 1700)).hint == "unknown"


def test_a_target_that_is_slow_with_one_job_and_only_with_it_follows_that_job() -> None:
    bad = IN_FAULT & ~((HOUR >= 1440) & (HOUR < 1500))
    rate = np.where(bad, 0.1, 0.9) * PEAK
    by = {job: rows for job in ("1", "2") for rows in (bad if job == "2" else ~bad,)}
    tables = fleet(slow=(), many=5)
    for name, table in (("whole", None), *by.items()):
        seconds = HOUR if table is None else HOUR[table]
        mine = target("t7", seconds, rate if table is None else rate[table], 1.0, job=name)
        tables += [mine[0], mine[2]] if table is None else [mine[1]]
    assert {one.hint for one in look(tables, 3600).incidents} == {"one_client"}


def test_what_is_sick_again_after_a_short_pause_is_the_same_incident() -> None:
    """A pause of more than two windows, once shorter and once longer than a quarter of the least duration."""
    limits = HealthLimits(minimum_s=120, window_s=5)
    for pause_s, count in ((25, 1), (60, 2)):
        bad = IN_FAULT & ~((HOUR >= 1440) & (1440 + pause_s > HOUR))
        tables = fleet(slow=(), many=5) + target("t7", HOUR, np.where(bad, 0.1, 0.9) * PEAK, 1.0)
        found = look(tables, 3600, limits=limits).incidents
        assert len(found) == count
        assert abs(at_s(found[0].from_ns) - SICK_FROM) <= 2
        assert abs(at_s(found[-1].to_ns) - SICK_TO) <= 2
        # The end is known for a while before it goes on.
        ended = one_of(look(tables, 1440 + 20, limits=limits))
        assert abs(at_s(ended.to_ns) - 1440) <= 2
        again = look(tables, 1700, [ended], limits=limits)
        assert [one.id for one in again.incidents][:1] == ([ended.id] if count == 1 else [found[1].id])


def test_silence_does_not_split_an_incident() -> None:
    """Nobody used it for an hour; it was sick before and is sick after, and nothing shows that it was well."""
    asked = ~((HOUR >= 1400) & (HOUR < 3200))
    bad = HOUR >= SICK_FROM
    tables = fleet(slow=(), many=5)
    tables += target("t7", HOUR[asked], (np.where(bad, 0.1, 0.9) * PEAK)[asked], 1.0)
    lapsed = one_of(look(tables, 2600))
    assert lapsed.to_ns is not None
    assert abs(at_s(lapsed.to_ns) - 1400) <= 2
    (same,) = look(tables, 3600, [lapsed]).incidents
    assert (same.id, same.to_ns) == (lapsed.id, None)
    assert one_of(look(tables, 3600)).id == lapsed.id
