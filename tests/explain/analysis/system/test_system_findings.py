"""Findings about the whole system: each fires on its case, is quiet on the neighbour, and says what it lacks."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from fairlead.core.model.finding import Subject
from fairlead.core.model.finding_incident_rows import build_finding_rows, parse_finding_rows
from fairlead.core.model.site_file import parse_site_file
from fairlead.core.model.tables import FILE_COUNTERS, HEALTH, LAYOUTS, MAPPING, METADATA, OPS, ROLLUP
from fairlead.explain.analysis.advice import SYSTEM
from fairlead.explain.analysis.system.system_findings import (
    DAILY,
    HOURLY,
    TABLES_READ,
    find_system_findings,
    list_system_finding_kinds,
    list_system_finding_tables,
)
from fairlead.explain.analysis.system.system_site import SystemSite, add_system_site_mapping, build_system_site
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.kit.testing.machine import play_small_machine, play_two_layer_machine
from fairlead.see.sources.slurm.hostlist import expand_hostlist as expand
from fairlead.store.rollups import derive_rollups
from system_building import GIB, HOUR, MIB, MINUTE, T0, Row, S, look, measured, minutes, only, summary, table, words

FORWARDERS = SystemSite(peaks={"forwarder": 1.0 * GIB, "target": 1.0 * GIB, "mds": 1000.0}, forwarded=True)
PER_MINUTE = 60 * GIB
"""Bytes of a minute at the peak."""


# -- amplification -----------------------------------------------------------------------------------------------------


def cached(asked: int, done: int, *, way: str = "read", layer: str = "osc") -> list[Row]:
    column = f"{way}_bytes"
    return [
        *minutes("forwarder", "forwarder", "f1", **{column: asked}),
        *minutes("node", layer, "f1", **{column: done}),
        *minutes("forwarder", "forwarder", "f2", **{column: asked}),
        *minutes("node", layer, "f2", **{column: asked}),
    ]


@pytest.mark.parametrize("layer", ["osc", "pfs_client"])
def test_reads_below_that_nobody_asked_for_above_are_thrashing(layer: str) -> None:
    told = only(look(cached(GIB, 6 * GIB, layer=layer)), "cache_thrashing")
    assert measured(told, "amplification") == pytest.approx(3.5)
    assert told.components == [Subject("forwarder", "f1")]
    assert told.finding.subject == Subject("forwarder", "f1")
    assert told.finding.severity == "high"
    assert any("job ids" in text for text in told.finding.missing)


def test_reads_that_the_cache_answers_are_no_thrashing() -> None:
    assert look(cached(GIB, GIB // 2)).told == []


def test_ordinary_read_ahead_is_no_thrashing() -> None:
    assert look(cached(GIB, 3 * GIB // 2)).told == []


def test_little_is_not_worth_telling_however_amplified() -> None:
    assert look(cached(MIB, 100 * MIB)).told == []


def test_a_forwarder_whose_upper_layer_was_not_watched_is_no_thrashing() -> None:
    """f1's records end after 10 minutes; its file system's client goes on as before."""
    rows = [
        *minutes("forwarder", "forwarder", "f1", last=10, read_bytes=GIB),
        *minutes("node", "osc", "f1", read_bytes=GIB),
    ]
    assert look(rows).told == []


def test_unknown_bytes_are_not_zero() -> None:
    found = look(cached(GIB, 6 * GIB, way="read"))
    assert "write_amplification" not in words(found)
    assert "system.write_amplification: no two layers whose writes can be compared" in found.missing


def test_the_jobs_that_make_it_are_named() -> None:
    rows = [
        *cached(GIB, 6 * GIB),
        *minutes("job", "forwarder", "17", read_bytes=GIB),
        *minutes("job", "target", "17", read_bytes=6 * GIB),
        *minutes("job", "forwarder", "18", read_bytes=GIB),
        *minutes("job", "target", "18", read_bytes=GIB),
    ]
    told = only(look(rows, [summary("17"), summary("18")]), "cache_thrashing")
    assert told.finding.culprits == [Subject("job", "17")]
    assert any("user17, prog17" in one.text for one in told.finding.evidence)


def test_writes_made_larger_are_write_amplification() -> None:
    found = look(cached(GIB, 4 * GIB, way="write"))
    assert words(found) == {"write_amplification"}
    assert measured(only(found, "write_amplification"), "amplification") == pytest.approx(2.5)


def test_nodes_are_held_against_themselves_where_there_are_no_forwarders() -> None:
    rows = [*minutes("node", "pfs_client", "n1", read_bytes=GIB), *minutes("node", "osc", "n1", read_bytes=4 * GIB)]
    told = only(look(rows, site=SystemSite(forwarded=False)), "cache_thrashing")
    assert told.components == [Subject("node", "n1")]


def test_layers_as_a_whole_are_less_sure() -> None:
    rows = [
        *minutes("forwarder", "forwarder", "f1", read_bytes=GIB),
        *minutes("target", "target", "o1", read_bytes=4 * GIB),
    ]
    told = only(look(rows), "cache_thrashing")
    assert told.finding.confidence < 0.7
    assert any("osc" in text for text in told.finding.missing)


# -- forwarders --------------------------------------------------------------------------------------------------------


def test_forwarders_that_are_never_busy_are_too_many() -> None:
    rows = [r for k in range(8) for r in minutes("forwarder", "forwarder", f"f{k}", last=1440, write_bytes=GIB)]
    told = only(look(rows, site=FORWARDERS, hours=24), "forwarders_over")
    assert "8 forwarders, and 1 would" in told.finding.title
    assert told.finding.severity == "info"


def test_a_quiet_hour_says_nothing_about_too_many() -> None:
    rows = [r for k in range(8) for r in minutes("forwarder", "forwarder", f"f{k}", write_bytes=GIB)]
    assert look(rows, site=FORWARDERS).told == []


def test_one_busy_minute_together_justifies_them() -> None:
    rows = [r for k in range(8) for r in minutes("forwarder", "forwarder", f"f{k}", last=1440, write_bytes=GIB)]
    rows += [r for k in range(8) for r in minutes("forwarder", "forwarder", f"f{k}", last=1, write_bytes=PER_MINUTE)]
    assert look(rows, site=FORWARDERS, hours=24).told == []


def test_unwatched_days_say_nothing_about_too_many() -> None:
    rows = [r for k in range(8) for r in minutes("forwarder", "forwarder", f"f{k}", last=300, write_bytes=GIB)]
    found = look(rows, site=FORWARDERS, hours=24)
    assert "forwarders_over" not in words(found)
    assert any(text.startswith("system.forwarders_over: forwarders were not monitored") for text in found.missing)


def full(names: list[str], idle: list[str], **more: object) -> list[Row]:
    rows = [r for n in names for r in minutes("forwarder", "forwarder", n, write_bytes=PER_MINUTE, **more)]
    return rows + [r for n in idle for r in minutes("forwarder", "forwarder", n, write_bytes=GIB, wait_ns=S, waits=100)]


def test_forwarders_at_their_peak_are_too_few() -> None:
    rows = full(["f1", "f2", "f3"], ["f4"], wait_ns=100 * S, waits=100)
    told = only(look(rows, site=FORWARDERS), "forwarders_under")
    assert "too few" in told.finding.title
    assert measured(told, "wait_ratio") == pytest.approx(100)
    assert told.finding.confidence == 0.9


def test_one_at_its_peak_while_others_idle_is_said_so() -> None:
    rows = full(["f1"], ["f2", "f3", "f4"]) + minutes("forwarder", "forwarder", "f1", job="9", write_bytes=PER_MINUTE)
    told = only(look(rows, site=FORWARDERS), "forwarders_under")
    assert "while 75 % of them idle" in told.finding.title
    assert told.components == [Subject("forwarder", "f1")]
    assert told.finding.culprits == [Subject("job", "9")]


def test_busy_but_below_the_peak_is_enough() -> None:
    rows = [
        r
        for n in ("f1", "f2", "f3", "f4")
        for r in minutes("forwarder", "forwarder", n, write_bytes=int(0.85 * PER_MINUTE))
    ]
    assert look(rows, site=FORWARDERS).told == []


def test_without_a_known_peak_nobody_is_full() -> None:
    found = look(full(["f1", "f2", "f3"], ["f4"]), site=SystemSite(forwarded=True))
    assert not words(found) & {"forwarders_under", "forwarders_over"}
    assert "system.forwarders_under: the peak of a forwarder (site file)" in found.missing


# -- imbalance ---------------------------------------------------------------------------------------------------------


def uneven(*loads: int, job: str | None = None) -> list[Row]:
    rows = [r for k, load in enumerate(loads) for r in minutes("target", "target", f"o{k}", write_bytes=load)]
    return rows + (minutes("target", "target", "o0", job=job, write_bytes=loads[0]) if job else [])


def test_one_target_that_carries_all_is_imbalance() -> None:
    told = only(look(uneven(30 * GIB, MIB, MIB, MIB, MIB, MIB, job="5"), [summary("5")], site=FORWARDERS), "imbalance")
    assert told.components == [Subject("target", "o0")]
    assert measured(told, "highest_over_mean") == pytest.approx(6, abs=0.01)
    assert told.finding.culprits == [Subject("job", "5")]
    assert told.finding.severity == "info"  # alone there, it crowds nobody
    assert measured(told, "fairness") == pytest.approx(1 / 6, abs=0.01)


@pytest.mark.parametrize(
    "loads", [(30 * GIB,) * 6, (30 * GIB, 10 * GIB, 10 * GIB, 20 * GIB), (GIB, MIB, MIB, MIB, MIB)]
)
def test_alike_targets_idle_ones_and_small_differences_are_none(loads: tuple[int, ...]) -> None:
    assert look(uneven(*loads), site=FORWARDERS).told == []


def test_components_without_any_row_count_where_their_host_was_watched() -> None:
    """Only o0 has rows. That o1 to o5 did nothing is known where their server's agent was well, and else it is not."""
    names = [f"o{k}" for k in range(6)]
    mapping = table(MAPPING, [{"from_ns": 0, "kind": "target→server", "a": n, "b": "oss1"} for n in names])
    well = table(HEALTH, [{"ts_ns": T0 + 30 * S, "node": "oss1", "probe": "agent", "state": "ok"}])
    rows = uneven(30 * GIB)
    assert words(look(rows, site=FORWARDERS, mapping=mapping, health=well)) == {"imbalance"}
    assert look(rows, site=FORWARDERS, mapping=mapping).told == []


def test_a_target_that_jobs_crowd_on_is_graver() -> None:
    rows = uneven(30 * GIB, MIB, MIB, MIB, MIB, MIB)
    rows += [r for job in ("5", "6") for r in minutes("target", "target", "o0", job=job, write_bytes=15 * GIB)]
    told = only(look(rows, site=FORWARDERS), "imbalance")
    assert told.finding.severity == "warning"
    assert [who.id for who in told.finding.culprits] == ["5", "6"]


def test_two_kinds_of_imbalance_are_two_findings() -> None:
    forwarders = [
        r
        for k in range(6)
        for r in minutes("forwarder", "forwarder", f"f{k}", write_bytes=(30 * GIB if not k else MIB))
    ]
    found = look(uneven(30 * GIB, MIB, MIB, MIB, MIB, MIB) + forwarders, site=FORWARDERS)
    ids = [one.finding.id for one in found.told if one.finding.category == "imbalance"]
    assert len(set(ids)) == 2


# -- metadata ----------------------------------------------------------------------------------------------------------


def clients(**ops: int) -> pa.Table:
    rows = [
        {
            "ts_ns": T0 + (k + 1) * MINUTE,
            "interval_ns": MINUTE,
            "target": "m0",
            "client": name,
            "op": "open",
            "count": count,
            "source": "exports",
        }
        for name, count in ops.items()
        for k in range(60)
    ]
    return table(METADATA, rows)


CLASSES = {"login1": "login", "aux1": "auxiliary", "aux2": "auxiliary", "f1": "forwarder"}
STORMY = SystemSite(peaks={"mds": 1000.0}, classes=CLASSES)


def storm(per_s: int, last: int = 60) -> list[Row]:
    return minutes("mds", "metadata", "m0", last=last, metadata_ops=per_s * 60)


def test_a_storm_names_the_class_it_comes_from() -> None:
    told = only(look(storm(800), site=STORMY, metadata=clients(aux1=30_000, aux2=15_000, f1=3_000)), "metadata_storm")
    evidence = {one.metric: one.value for one in told.finding.evidence if one.metric == "source_class"}
    assert evidence == {"source_class": "auxiliary"}
    assert told.finding.culprits == [Subject("node", "aux1"), Subject("node", "aux2")]
    assert told.components == [Subject("mds", "m0")]


def test_a_storm_of_one_job_names_the_job() -> None:
    rows = storm(800) + minutes("mds", "metadata", "m0", job="3", metadata_ops=600 * 60)
    told = only(look(rows, [summary("3")], site=STORMY), "metadata_storm")
    assert told.finding.culprits == [Subject("job", "3")]
    assert "from job" in told.finding.title


def test_a_storm_of_nobody_in_particular_accuses_nobody() -> None:
    many = clients(aux1=16_000, login1=16_000, f1=16_000)
    told = only(look(storm(800), site=STORMY, metadata=many), "metadata_storm")
    assert told.finding.culprits == []
    assert told.finding.confidence < 0.9


def test_below_three_quarters_or_for_a_moment_is_no_storm() -> None:
    assert look(storm(740), site=STORMY).told == []
    assert look(storm(990, last=4), site=STORMY).told == []


def test_without_a_known_peak_there_is_no_storm_and_it_is_said() -> None:
    found = look(storm(100_000))
    assert found.told == []
    assert "system.metadata_storm: the peak of a metadata server (site file: mdops)" in found.missing


def test_bulk_io_of_a_login_node_is_misuse() -> None:
    rows = minutes("node", "pfs_client", "login1", read_bytes=5 * GIB) + minutes(
        "node", "osc", "login1", read_bytes=5 * GIB
    )
    told = only(look(rows, site=STORMY), "login_misuse")
    assert measured(told, "bytes") == 300 * GIB
    assert told.finding.culprits == [Subject("node", "login1")]


def test_the_same_of_a_compute_node_and_a_little_of_a_login_node_are_none() -> None:
    rows = minutes("node", "pfs_client", "n1", read_bytes=5 * GIB) + minutes(
        "node", "pfs_client", "login1", read_bytes=GIB
    )
    assert look(rows, site=STORMY).told == []


def test_metadata_of_a_login_node_is_misuse_as_servers_count_it() -> None:
    told = only(look(site=STORMY, metadata=clients(login1=400 * 60)), "login_misuse")
    assert measured(told, "mdops_per_s") == pytest.approx(400)
    assert "bytes of the login node's client" in told.finding.missing
    assert look(site=STORMY, metadata=clients(login1=200 * 60)).told == []


def test_classes_and_addresses_come_from_the_mapping_too() -> None:
    rows = [
        {"from_ns": 0, "kind": "node→class", "a": "login1", "b": "login"},
        {"from_ns": 0, "kind": "nid→node", "a": "10.0.0.1@tcp", "b": "login1"},
    ]
    site = add_system_site_mapping(SystemSite(classes={"n1": "compute"}), table(MAPPING, rows))
    assert site.classes == {"n1": "compute", "login1": "login", "10.0.0.1@tcp": "login"}


# -- requests, stripes, burst buffer -----------------------------------------------------------------------------------


def asked(job: str, size: int, ops: int) -> Row:
    return summary(job, write_bytes=size * ops, write_ops=ops)


def test_small_requests_that_are_most_of_all_are_told() -> None:
    jobs = [*(asked(str(k), 512, 10**6) for k in range(3)), *(asked(str(k), 4 * MIB, 10**5) for k in range(3, 8))]
    told = only(look(jobs=jobs), "small_requests")
    assert measured(told, "ops_share") == pytest.approx(3 / 3.5, abs=1e-3)
    assert measured(told, "jobs_below_1K") == pytest.approx(3 / 8)
    assert {who.id for who in told.finding.culprits} == {"0", "1", "2"}


def test_large_requests_few_jobs_and_unknown_operations_are_none() -> None:
    assert look(jobs=[asked(str(k), 4 * MIB, 10**5) for k in range(8)]).told == []
    assert look(jobs=[asked(str(k), 512, 10**6) for k in range(4)]).told == []
    found = look(jobs=[summary(str(k), write_bytes=10**9) for k in range(8)])
    assert found.told == []
    assert "system.small_requests: no requests are counted by job" in found.missing


def files(number: int, stripes: int, size: int, processes: int = 1) -> dict[str, pa.Table]:
    counters = [
        {
            "job_id": "7",
            "rank": -1 if processes > 1 else 0,
            "interface": "POSIX",
            "file_id": k,
            "max_byte_written": size - 1,
        }
        for k in range(number)
    ]
    layouts = [{"file_id": k, "component": 0, "stripe_count": stripes} for k in range(number)]
    return {"file_counters": table(FILE_COUNTERS, counters), "layouts": table(LAYOUTS, layouts)}


def test_many_small_files_over_many_targets_are_misuse() -> None:
    told = only(look(jobs=[summary("7")], **files(150, 8, 100_000)), "stripe_misuse")
    assert measured(told, "small_files") == 150
    assert told.finding.culprits == [Subject("job", "7")]


@pytest.mark.parametrize("case", [(150, 1, 100_000), (150, 8, 100 * MIB), (50, 8, 100_000)])
def test_files_that_fit_their_stripes_are_none(case: tuple[int, int, int]) -> None:
    assert look(jobs=[summary("7")], **files(*case)).told == []


def test_a_huge_shared_file_on_one_target_is_misuse() -> None:
    many = [summary("7", processes=64)]
    assert "single target" in only(look(jobs=many, **files(1, 1, 50 * GIB, 64)), "stripe_misuse").finding.title
    assert look(jobs=many, **files(1, 4, 50 * GIB, 64)).told == []
    assert look(jobs=[summary("7", processes=4)], **files(1, 1, 50 * GIB, 4)).told == []


def test_sizes_of_files_come_from_operations_too() -> None:
    ops = [
        {
            "start_ns": T0 + k,
            "end_ns": T0 + k + 1,
            "busy_ns": 1,
            "node": f"n{k}",
            "job_id": "7",
            "rank": k,
            "interface": "POSIX",
            "op": "write",
            "file_id": 1,
            "offset": k * GIB,
            "size": MIB,
            "stride": MIB,
            "count": 1024,
        }
        for k in range(12)
    ]
    layouts = table(LAYOUTS, [{"file_id": 1, "component": 0, "stripe_count": 1}])
    told = only(look(ops=table(OPS, ops), layouts=layouts), "stripe_misuse")
    assert "up to 12 GiB" in told.finding.evidence[0].text


def test_stripes_without_layouts_or_sizes_are_missing() -> None:
    assert "system.stripe_misuse: how files are striped (layouts)" in look().missing
    found = look(layouts=files(1, 1, 1)["layouts"])
    assert "system.stripe_misuse: sizes of files (operations or counters of jobs)" in found.missing


DEVICES = SystemSite(devices={f"n{k}/nvme0": 1000 * GIB for k in range(4)})


def bursty(written: int, **more: object) -> list[Row]:
    shape: Row = {"write_bytes": written, "write_mode": "N-N", "phases": 4, "nodes_count": 4} | more
    return [summary(str(k), **shape) for k in range(4)]


def device(written: int, used: int = GIB) -> list[Row]:
    return [
        r
        for k in range(4)
        for r in minutes("device", "device", f"n{k}/nvme0", write_bytes=written, used_bytes_max=used)
    ]


def test_an_idle_burst_buffer_beside_jobs_that_fit_is_told() -> None:
    told = only(look(device(MIB), bursty(100 * GIB), site=DEVICES), "burst_buffer_unused")
    assert len(told.finding.culprits) == 4
    assert told.finding.severity == "info"


def test_used_devices_other_shapes_and_little_are_none() -> None:
    assert look(device(GIB), bursty(100 * GIB), site=DEVICES).told == []
    assert look(device(MIB, 500 * GIB), bursty(100 * GIB), site=DEVICES).told == []
    assert look(device(MIB), bursty(GIB), site=DEVICES).told == []
    assert look(device(MIB), bursty(100 * GIB, write_mode="N-1"), site=DEVICES).told == []


def test_devices_nobody_counts_are_missing_and_not_idle() -> None:
    found = look(jobs=bursty(100 * GIB), site=DEVICES)
    assert found.told == []
    assert "system.burst_buffer_unused: counters of the burst buffer's devices" in found.missing


# -- the whole ---------------------------------------------------------------------------------------------------------


def storms_and_all() -> dict[str, object]:
    rows = cached(GIB, 6 * GIB) + storm(800) + uneven(30 * GIB, MIB, MIB, MIB, MIB, MIB)
    return {"rollup": rows, "site": FORWARDERS, "metadata": clients(aux1=48_000)}


def test_the_same_tables_give_the_same_findings_in_any_order() -> None:
    given = storms_and_all()
    rows: list[Row] = given.pop("rollup")  # type: ignore[assignment]
    first = look(rows, **given)  # type: ignore[arg-type]
    again = look(rows[::-1], **given)  # type: ignore[arg-type]
    assert msgspec.json.encode(first.told) == msgspec.json.encode(again.told)
    assert len(first.told) == 3
    ids = [one.finding.id for one in first.told]
    assert len(set(ids)) == len(ids)


def test_every_rule_has_its_length_of_window_and_says_what_it_reads() -> None:
    assert sorted([*HOURLY, *DAILY]) == sorted(SYSTEM)
    assert set(list_system_finding_tables(SYSTEM)) == set(TABLES_READ)
    assert "ops" not in list_system_finding_tables(HOURLY)
    assert list_system_finding_kinds(DAILY) == ["device", "forwarder"]


@pytest.mark.parametrize("rules", [HOURLY, DAILY])
def test_rules_that_are_not_asked_for_say_nothing(rules: tuple[str, ...]) -> None:
    given = storms_and_all()
    tables = {"rollup": table(ROLLUP, given["rollup"]), "metadata": given["metadata"]}  # type: ignore[arg-type]
    found = find_system_findings(tables, FORWARDERS, T0, T0 + HOUR, only=rules)  # type: ignore[arg-type]
    assert words(found) == ({"cache_thrashing", "imbalance", "metadata_storm"} if rules is HOURLY else set())
    assert {text.split(":")[0].removeprefix("system.") for text in found.missing} <= set(rules)


@pytest.mark.parametrize("rules", [HOURLY, DAILY])
def test_what_is_said_to_be_read_is_enough(rules: tuple[str, ...]) -> None:
    """With only the rows a rule says it reads, it finds the same."""
    given = storms_and_all()
    rows: list[Row] = given["rollup"]  # type: ignore[assignment]
    tables = {"rollup": table(ROLLUP, rows), "metadata": given["metadata"]}
    whole = find_system_findings(tables, FORWARDERS, T0, T0 + HOUR, only=rules)  # type: ignore[arg-type]
    some = [row for row in rows if row["kind"] in list_system_finding_kinds(rules)]
    kept = {"rollup": table(ROLLUP, some), "metadata": given["metadata"]}
    kept = {name: kept[name] for name in list_system_finding_tables(rules) if name in kept}
    assert find_system_findings(kept, FORWARDERS, T0, T0 + HOUR, only=rules) == whole  # type: ignore[arg-type]


def test_findings_are_kept_as_rows() -> None:
    given = storms_and_all()
    found = look(given.pop("rollup"), **given)  # type: ignore[arg-type]
    kept = pa.Table.from_batches([build_finding_rows(found.told, T0)])
    assert parse_finding_rows(kept) == found.told
    assert set(kept["rule"].to_pylist()) <= {f"system.{word}" for word in SYSTEM}


def test_every_finding_ends_with_what_to_do() -> None:
    given = storms_and_all()
    tables = {"rollup": table(ROLLUP, given["rollup"]), "metadata": given["metadata"]}  # type: ignore[arg-type]
    found = find_system_findings(tables, FORWARDERS, T0, T0 + HOUR, advice=load_advice_set())  # type: ignore[arg-type]
    for one in found.told:
        assert {advice.audience for advice in one.finding.advice} >= {"user", "site"}, one.finding.rule


def test_an_empty_lake_has_no_findings_and_says_what_is_missing() -> None:
    found = find_system_findings({}, SystemSite(), T0, T0 + HOUR)
    assert found.told == []
    assert {text.split(":")[0].removeprefix("system.") for text in found.missing} == set(SYSTEM) - {
        "burst_buffer_unused"  # a site that tells of no burst buffer lacks none
    }


def test_a_site_without_forwarders_misses_none() -> None:
    site = build_system_site(parse_site_file('[[nodes]]\nkind = "compute"\nnodes = "n[1-4]"\n'), expand)
    found = find_system_findings({}, site, T0, T0 + HOUR)
    assert not [text for text in found.missing if "forwarder" in text]


def test_the_site_file_tells_peaks_classes_and_devices() -> None:
    site = build_system_site(parse_site_file(SITE), expand)
    assert site.peaks == {"forwarder": 1e9, "target": 2e9, "mds": 4e4}
    assert site.list_class_nodes("login") == {"login1", "login2"}
    assert site.devices == {"n1/nvme0": 10, "n2/nvme0": 10}
    assert site.forwarded is True


SITE = """
[[nodes]]
kind = "login"
nodes = "login[1-2]"
[[forwarders]]
nodes = "f1"
bandwidth_bytes_per_s = 1e9
[[burst_buffers]]
nodes = "n[1-2]"
device = "nvme0"
capacity_bytes = 10
[[file_systems]]
name = "scratch"
kind = "lustre"
[[file_systems.servers]]
kind = "oss"
node = "oss1"
targets = "o1"
write_bandwidth_bytes_per_s = 2e9
[[file_systems.servers]]
kind = "mds"
node = "mds1"
targets = "m1"
mdops = 4e4
"""


@pytest.mark.parametrize("make", [play_small_machine, play_two_layer_machine])
def test_a_healthy_machine_at_work_has_no_amplification_and_no_storm(make: object) -> None:
    play = make(7, seconds=240)  # type: ignore[operator]
    tables = play.build_tables()
    tables |= derive_rollups(tables)
    machine = play.machine
    site = SystemSite(
        peaks={
            "forwarder": float(machine.forwarders.bandwidth.max(initial=1.0)),
            "target": float(machine.targets.bandwidth[0]),
            "mds": float(machine.mds.mdops[0]),
        },
        forwarded=len(machine.forwarders) > 0,
    )
    found = find_system_findings(tables, site, play.origin_ns, play.origin_ns + HOUR)
    assert not words(found) & {"cache_thrashing", "write_amplification", "metadata_storm", "forwarders_under"}
