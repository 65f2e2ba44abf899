"""The questions against a small site in a real lake: figures, owners, gaps that are gaps, idleness that is zero."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from fairlead.core.errors import UsageError
from fairlead.core.model.tables import DEVICE, JOBS, MAPPING, TARGET
from fairlead.explain.analysis.overview.class_limits import classify_share_by_limits
from fairlead.explain.questions import answers
from fairlead.explain.questions.lake_queries import NotForYouError, Sight, UnknownNameError
from fairlead.explain.questions.metadata_load import classify_metadata_client
from fairlead.explain.questions.question_catalog import (
    Asking,
    answer_question,
    format_question_parameters,
    parse_question_parameters,
)
from fairlead.store.lake import Lake
from questions_site import (
    DAY,
    HOUR,
    MIB,
    NOW,
    T0,
    S,
    accounts,
    build,
    build_table_batch,
    columns,
    forwarded,
    ops,
    put,
    stored,
    well,
)

EVERYTHING, ALICE, BOB = Sight(), Sight("alice"), Sight("bob")


@dataclass
class Site:
    """A lake and what is asked of it at `NOW`."""

    asking: Asking

    def ask(self, question: str, name: str = "", sight: Sight = EVERYTHING, now_ns: int = NOW, **words: str) -> Any:
        asked = parse_question_parameters(question, {key.rstrip("_"): value for key, value in words.items()})
        return answer_question(self.asking, question, name, asked, sight, now_ns)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(Asking(build(tmp_path_factory.mktemp("site") / "lake")))


def layer(page: Any, name: str) -> answers.Series:
    return next(series for series in page.timeline.series if series.layer == name)


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_which_job_moved_most_in_the_last_hour(site: Site) -> None:
    found = site.ask("jobs", last="1h", sort="bytes")
    assert [(job.job_id, job.user, job.sums.bytes, job.layer) for job in found.jobs] == [
        ("100", "alice", 1200 * MIB, "client"),
        ("101", "bob", 960 * MIB, "client"),
    ]
    assert [job.running for job in found.jobs] == [False, True]
    assert found.total == 2


def test_jobs_are_filtered_and_paged(site: Site) -> None:
    assert [j.job_id for j in site.ask("jobs", user="bob").jobs] == ["101"]
    assert [j.job_id for j in site.ask("jobs", state="completed").jobs] == ["100"]
    assert [j.job_id for j in site.ask("jobs", node="n3").jobs] == ["101"]
    assert [j.job_id for j in site.ask("jobs", running="true").jobs] == ["101"]
    page = site.ask("jobs", limit="1", offset="1")
    assert (page.total, [j.job_id for j in page.jobs]) == (2, ["100"])
    assert site.ask("jobs", user="nobody").jobs == []


def test_metadata_of_a_job_is_of_the_layer_that_tells_it(site: Site) -> None:
    [first, second] = site.ask("top", "jobs", metric="read").rows
    assert (first.name, first.sums.read_bytes, second.sums.read_bytes) == ("101", 960 * MIB, 0)
    assert first.share == 1.0


def test_top_by_owner(site: Site) -> None:
    users = site.ask("top", "users")
    assert [(row.name, row.sums.bytes, row.jobs) for row in users.rows] == [
        ("alice", 1200 * MIB, 1),
        ("bob", 960 * MIB, 1),
    ]
    assert users.total.bytes == 2160 * MIB
    assert [row.name for row in site.ask("top", "projects").rows] == ["climate", "fusion"]
    assert [row.name for row in site.ask("top", "programs", metric="read").rows] == ["gkua", "wrf"]
    with pytest.raises(UsageError, match="no ranking"):
        site.ask("top", "nodes")


def test_a_job_page(site: Site) -> None:
    page = site.ask("job", "100")
    assert (page.job.user, page.job.nodes_count, page.nodes) == ("alice", 2, ["n1", "n2"])
    assert page.job.sums.write_bytes == 1200 * MIB
    assert page.summary.write_mode == "N-1"
    client = layer(page, "client")
    assert page.timeline.step_ns == S
    assert client.write_bytes_per_s[:300] == [4 * MIB] * 300
    assert [s.layer for s in page.timeline.series] == ["client", "forwarder", "target", "metadata"]
    shares = {(c.kind, c.id): c.share for c in page.components}
    assert shares == {
        ("forwarder", "f1"): 1.0,
        ("target", "OST0"): 0.75,
        ("target", "OST1"): 0.25,
        ("mds", "MDT2"): 1.0,
    }
    assert page.missing == []
    assert page.other_runs == 1


def test_an_older_run_of_the_same_number(site: Site) -> None:
    page = site.ask("job", "100", at="2024-09-14T12:00", last="1h")
    assert page.job.user == "carol"
    assert page.timeline.series == []
    assert page.missing[0].startswith("traffic: no counter names this job")


def test_rates_of_a_longer_step_are_means(site: Site) -> None:
    page = site.ask("job", "100", points="10")
    rates = layer(page, "client").write_bytes_per_s
    assert len(rates) == 10
    assert rates[0] == pytest.approx(4 * MIB)
    moved = sum(rate or 0 for rate in rates) * page.timeline.step_ns / S
    assert moved == pytest.approx(1200 * MIB)


def test_a_wrong_number_names_the_likes_of_it(site: Site) -> None:
    with pytest.raises(UnknownNameError) as caught:
        site.ask("job", "10")
    assert set(caught.value.near) == {"100", "101"}


def test_a_job_that_only_counters_know(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    put(lake, stored("OST0", 0, 60, MIB, job="dd.0"))
    site = Site(Asking(lake))
    page = site.ask("job", "dd.0")
    assert (page.job.accounted, page.job.user, page.job.sums.write_bytes) == (False, None, 60 * MIB)
    assert page.missing[0].startswith("account:")
    assert [job.accounted for job in site.ask("jobs", sort="bytes").jobs] == [False]
    with pytest.raises(UnknownNameError):
        site.ask("job", "dd.0", ALICE)


# -- no data, idle, zero -----------------------------------------------------------------------------------------------


def test_silence_is_null_and_idleness_is_zero(site: Site) -> None:
    later = NOW + 120 * S
    idle = layer(site.ask("node", "n1", now_ns=later, last="10m"), "client").write_bytes_per_s
    # From T0+120: the job writes until T0+360; then the agent says that all is well until about T0+690.
    assert idle[:239] == [2 * MIB] * 239
    assert idle[300:420] == [0.0] * 120
    assert idle[-60:] == [None] * 60, "what has just happened is not known yet"
    failing = layer(site.ask("node", "n2", now_ns=later, last="10m"), "client").write_bytes_per_s
    assert failing[300:420] == [None] * 120, "a failing probe tells nothing, not even zero"
    silent = site.ask("node", "n3", now_ns=later, last="10m")
    assert layer(silent, "client").read_bytes_per_s[100] == MIB, "what was counted in a gap is still shown"
    assert layer(silent, "client").read_bytes_per_s[500] is None
    assert [gap.source for gap in silent.gaps] == ["n3"]


def test_a_gap_event_counts_even_between_words_of_health(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    from fairlead.core.model.tables import EVENTS

    gap = build_table_batch(
        EVENTS,
        {"ts_ns": [T0 + 200 * S], "end_ns": [T0 + 300 * S], "component": ["n1"], "kind": ["gap"], "text": ["silent"]},
    )
    put(lake, ops("1", "n1", 0, 60, MIB), well("n1", 0, 600), gap)
    rates = layer(Site(Asking(lake)).ask("node", "n1", from_="2024-10-04T10:00", to="2024-10-04T10:08"), "client")
    values = rates.write_bytes_per_s
    assert values[100:199] == [0.0] * 99
    assert values[201:299] == [None] * 98
    assert values[301:399] == [0.0] * 98


def test_a_value_no_source_tells_is_never_zero(site: Site) -> None:
    target = layer(site.ask("target", "OST0", last="10m"), "target")
    assert set(target.metadata_ops_per_s) == {None}
    assert set(layer(site.ask("mds", last="10m"), "metadata").read_bytes_per_s) == {None}


def test_seconds_that_are_forgotten_are_read_as_minutes(tmp_path: Path) -> None:
    from fairlead.core.model.tables import ROLLUP

    lake = Lake.open(tmp_path / "lake", create=True)
    minutes = [T0 + k * 60 * S for k in range(30)]
    put(
        lake,
        build_table_batch(
            ROLLUP,
            {
                "ts_ns": minutes,
                "interval_ns": [60 * S] * 30,
                "kind": ["node"] * 30,
                "id": ["n1"] * 30,
                "layer": ["client"] * 30,
                "write_bytes": [60 * MIB] * 30,
            },
        ),
    )
    page = Site(Asking(lake)).ask("node", "n1", now_ns=T0 + HOUR, last="1h")
    assert page.timeline.step_ns == 60 * S
    assert layer(page, "client").write_bytes_per_s[:30] == [MIB] * 30


# -- components --------------------------------------------------------------------------------------------------------


def test_load_and_imbalance_of_targets(site: Site) -> None:
    found = site.ask("targets", last="5m")
    rows = {row.id: row for row in found.targets}
    assert [row.id for row in found.targets] == ["OST0", "OST1", "OST2"]
    assert rows["OST0"].sums.write_bytes == 900 * MIB
    assert rows["OST0"].peak_bytes_per_s == 3 * MIB
    assert found.imbalance == pytest.approx(900 / 400)
    assert found.idle == 1
    assert rows["OST0"].grown_bytes == 900 * MIB
    assert rows["OST2"].grown_bytes == 0


def test_who_uses_a_target(site: Site) -> None:
    page = site.ask("target", "OST0", last="10m")
    assert page.row.sums.write_bytes == 1800 * MIB
    assert [(w.id, w.user, w.sums.write_bytes, w.share) for w in page.who] == [("100", "alice", 900 * MIB, 0.5)]
    with pytest.raises(UnknownNameError) as caught:
        site.ask("target", "ost0")
    assert caught.value.near[0] == "OST0"


def test_who_hammers_mdt2(site: Site) -> None:
    found = site.ask("mds", "MDT2", last="5m")
    assert found.per_s == pytest.approx(1200)
    assert [(row.name, row.per_s) for row in found.ops] == [("open", 1000.0), ("getattr", 200.0)]
    assert [(row.name, row.user, row.per_s) for row in found.jobs] == [("101", "bob", 900.0), ("100", "alice", 10.0)]
    assert [(row.name, row.per_s) for row in found.classes] == [("login", 1000.0), ("n", 200.0)]
    assert [row.name for row in found.clients] == ["login03", "n3", "n4"]
    every = site.ask("mds", last="5m")
    assert [(row.name, row.per_s) for row in every.servers] == [("MDT2", 1200.0), ("MDT0", 5.0)]


@pytest.mark.parametrize(
    ("client", "kind"),
    [("login03", "login"), ("n00017", "n"), ("10.1.2.3@o2ib", "@o2ib"), ("fwd-12.site.org", "fwd"), ("7", "7")],
)
def test_classes_of_clients(client: str, kind: str) -> None:
    assert classify_metadata_client(client) == kind


def test_the_heat_map_knows_no_data_from_idle(site: Site) -> None:
    found = site.ask("heatmap", last="3h", peak=str(8 * MIB))
    rows = {row.id: row for row in found.rows}
    assert rows["f2"].peak_share[-1] == pytest.approx(0.75)
    assert rows["f1"].level[-1] == "mid"
    assert rows["f1"].peak_share[0] is None
    assert found.levels["no data"] == 2 * (found.columns - 1)
    assert [classify_share_by_limits(share) for share in (0.0, 0.1, 0.5, 0.9, None)] == [
        "idle",
        "low",
        "mid",
        "high",
        None,
    ]


def test_the_heat_map_is_kept_and_shows_what_comes_late(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    put(lake, forwarded("f1", "1", 0, 60, MIB))
    site, later = Site(Asking(lake)), T0 + 3 * HOUR
    assert site.ask("heatmap", now_ns=later, last="4h", peak="1e7").rows[0].peak_share[1] == pytest.approx(
        0.1049, abs=1e-4
    )
    put(lake, forwarded("f1", "1", 60, 120, 4 * MIB), stream="late")
    assert site.ask("heatmap", now_ns=later + S, last="4h", peak="1e7").rows[0].peak_share[1] < 0.2
    shown = site.ask("heatmap", now_ns=later + 600 * S, last="4h", peak="1e7").rows[0].peak_share
    assert max(share for share in shown if share is not None) == pytest.approx(0.4194, abs=1e-4)


def test_the_distribution_of_targets(site: Site) -> None:
    found = site.ask("cdf", last="30m", peak=str(4 * MIB))
    at = dict(zip(found.utilisation, found.share, strict=True))
    assert found.components == 3
    assert found.minutes + found.minutes_unknown == 3 * (found.to_ns - found.from_ns) // (60 * S)
    # Ten minutes each: OST2 idle, OST1 at 25 %, OST0 at 75 %; what is idle without rows adds to the first.
    assert 30 <= found.minutes <= 36
    assert at[0.2] == pytest.approx((found.minutes - 20) / found.minutes, abs=1e-5)
    assert at[0.25] == pytest.approx((found.minutes - 10) / found.minutes, abs=1e-5)
    assert at[0.75] == at[1.0] == 1.0


def test_the_system(site: Site) -> None:
    found = site.ask("system", last="1h")
    assert (found.jobs_running, found.jobs_ended) == (1, 1)
    assert found.totals["client"].read_bytes == 960 * MIB
    read = {(a.upper, a.lower): a.read for a in found.amplification}
    assert read["client", "forwarder"] == pytest.approx(3.0)
    assert {gap.source for gap in found.silent} == {"n3", "n4"}
    assert [event.kind for event in found.events] == ["gap", "eviction", "missing:dxt"]


def test_health_lists_trouble_first(site: Site) -> None:
    found = site.ask("health")
    assert found.states == {"ok": 6, "failing": 1, "silent": 2}
    assert [(p.node, p.probe) for p in found.probes] == [("n3", "agent"), ("n4", "agent"), ("n2", "llite")]
    assert len(site.ask("health", all="true").probes) == 9


def test_an_empty_lake_answers_everything(tmp_path: Path) -> None:
    site = Site(Asking(Lake.open(tmp_path / "lake", create=True)))
    for question in ("jobs", "system", "targets", "mds", "heatmap", "cdf", "usage", "ports", "devices", "health"):
        msgspec.json.encode(site.ask(question))
    assert site.ask("system").jobs_running is None
    assert site.ask("mds").total is None
    assert site.ask("cdf").below_5_percent is None
    for question in ("job", "node", "target", "mds", "forwarder"):
        with pytest.raises(UnknownNameError):
            site.ask(question, "x")


# -- estimates ---------------------------------------------------------------------------------------------------------


def _shared_forwarder(root: Path) -> Site:
    """Forwarder f1 counts no jobs and carries 4 MiB/s for n1 (3/4 of the traffic) and n2 (1/4)."""
    from fairlead.core.model.tables import FORWARDER

    lake = Lake.open(root, create=True)
    n, ts = 60, [T0 + (k + 1) * S for k in range(60)]
    put(
        lake,
        accounts(
            {"job_id": "1", "user": "alice", "nodes": ["n1"], "start_ns": T0, "end_ns": T0 + 60 * S},
            {"job_id": "2", "user": "bob", "nodes": ["n2"], "start_ns": T0, "end_ns": T0 + 60 * S},
        ),
        ops("1", "n1", 0, 60, 3 * MIB),
        ops("2", "n2", 0, 60, MIB),
        build_table_batch(
            FORWARDER,
            {
                "ts_ns": ts,
                "interval_ns": [S] * n,
                "node": ["f1"] * n,
                "op_class": ["write"] * n,
                "requests": [1] * n,
                "bytes": [4 * MIB] * n,
            },
        ),
        build_table_batch(
            MAPPING, {"from_ns": [T0 - DAY] * 2, "kind": ["node_forwarder"] * 2, "a": ["n1", "n2"], "b": ["f1", "f1"]}
        ),
    )
    return Site(Asking(lake))


def test_a_shared_forwarder_is_split_by_the_share_of_traffic_and_marked(tmp_path: Path) -> None:
    site = _shared_forwarder(tmp_path / "lake")
    for job, size in (("1", 3 * MIB), ("2", MIB)):
        page = site.ask("job", job)
        estimate = layer(page, "forwarder")
        assert estimate.estimated
        assert estimate.write_bytes_per_s[:60] == pytest.approx([size] * 60)
        assert not layer(page, "client").estimated
        assert [(c.id, c.mapped) for c in page.components] == [("f1", True)]
        assert page.missing == ["forwarder: not counted by job; estimated by its nodes' share of the traffic"]


# -- who may see what --------------------------------------------------------------------------------------------------


def test_a_reader_of_one_user_sees_no_other_user_anywhere(site: Site) -> None:
    """The same by everybody, about everything, is tests/explain/questions/test_rights.py."""
    asked = [
        ("jobs", ""),
        ("job", "100"),
        ("node", "n1"),
        ("targets", ""),
        ("target", "OST0"),
        ("forwarder", "f1"),
        ("mds", ""),
        ("mds", "MDT2"),
        ("heatmap", ""),
        ("top", "jobs"),
        ("top", "users"),
        ("top", "projects"),
        ("top", "programs"),
        ("usage", ""),
        ("ports", ""),
        ("devices", ""),
        ("behaviour", ""),
        ("findings", ""),
        ("finding", "abcdef123456"),
        ("why", "100"),
        ("component_health", ""),
    ]
    for question in ("system", "cdf", "health"):
        with pytest.raises(NotForYouError, match="whole machine"):
            site.ask(question, "", ALICE)
    for question, name in (("node", "n3"), ("forwarder", "f2"), ("target", "OST2")):
        with pytest.raises(UnknownNameError):
            site.ask(question, name, ALICE)
    for question, name in asked:
        text = msgspec.json.encode(site.ask(question, name, ALICE)).decode()
        for other in ("bob", "carol", "fusion", "gkua", "vasp", '"101"', "job:101"):
            assert other not in text, (question, name)


def test_a_reader_of_one_user_gets_totals_of_components_while_own_jobs_used_them(site: Site) -> None:
    hers = [(row.id, row.sums.write_bytes) for row in site.ask("targets", "", ALICE).targets]
    assert hers == [("OST0", 60 * 3 * MIB), ("OST1", 60 * MIB)], "of five minutes one"
    mds = site.ask("mds", "MDT2", ALICE, last="5m")
    assert (mds.total, mds.clients, [row.name for row in mds.jobs]) == (60 * 1200, [], ["100"])
    top = site.ask("top", "users", ALICE)
    assert ([row.name for row in top.rows], top.total.bytes) == (["alice"], 1200 * MIB)
    assert site.ask("job", "101", BOB).job.user == "bob"


def test_another_users_job_is_as_unknown_as_none(site: Site) -> None:
    errors = []
    for name in ("101", "999"):
        with pytest.raises(UnknownNameError) as caught:
            site.ask("job", name, ALICE)
        errors.append((str(caught.value).replace(name, "?"), [n for n in caught.value.near if n != "100"]))
    assert errors[0] == errors[1]


def test_a_number_two_users_have_at_once_shows_neither_the_others_traffic(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    two = [
        {"cluster": c, "job_id": "7", "user": u, "nodes": [n], "start_ns": T0, "end_ns": T0 + 300 * S}
        for c, u, n in (("a", "alice", "n1"), ("b", "bob", "n2"))
    ]
    put(lake, accounts(*two), ops("7", "n2", 0, 60, MIB))
    site = Site(Asking(lake))
    page = site.ask("job", "7", ALICE)
    assert (page.job.user, page.timeline.series, page.components, page.job.sums.bytes) == ("alice", [], [], None)
    assert page.missing[0].startswith("counters: another user's job")
    assert [job.sums.bytes for job in site.ask("jobs", "", ALICE).jobs] == [None]
    assert site.ask("top", "jobs", ALICE).rows == []


def test_a_number_used_again_keeps_runs_apart(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    runs = [
        {"job_id": "7", "user": user, "nodes": ["n1"], "start_ns": T0 + first * S, "end_ns": T0 + (first + 60) * S}
        for user, first in (("alice", 0), ("bob", 7200))
    ]
    put(lake, accounts(*runs), ops("7", "n1", 0, 60, MIB), ops("7", "n1", 7200, 7260, 9 * MIB))
    site, later = Site(Asking(lake)), T0 + 3 * HOUR
    assert site.ask("job", "7", ALICE, later).job.sums.write_bytes == 60 * MIB
    assert site.ask("job", "7", BOB, later).job.sums.write_bytes == 540 * MIB
    assert site.ask("job", "7", now_ns=later).job.user == "bob"
    assert site.ask("job", "7", now_ns=later, at="2024-10-04T10:01").job.user == "alice"


# -- words -------------------------------------------------------------------------------------------------------------


def test_parameters_survive_the_way_over_http() -> None:
    asked = parse_question_parameters("jobs", {"from": "-2h", "running": "true", "sort": "bytes", "limit": "7"})
    assert parse_question_parameters("jobs", format_question_parameters(asked)) == asked


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("jobs", {"limit": "0"}),
        ("jobs", {"limit": "x"}),
        ("jobs", {"sort": "name; drop"}),
        ("jobs", {"nonsense": "1"}),
        ("job", {"points": "1000000"}),
        ("jobs", {"user": "x" * 1000}),
        ("heatmap", {"peak": "-1"}),
    ],
)
def test_wrong_parameters_are_named(question: str, words: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="parameter"):
        parse_question_parameters(question, words)


def test_names_are_data(site: Site) -> None:
    for name in ("' OR 1=1 --", '"; DROP TABLE jobs', "$kind", "a\x00b", "🦆"):
        for question in ("job", "node", "target", "mds", "forwarder"):
            with pytest.raises(UnknownNameError):
                site.ask(question, name)
        assert site.ask("jobs", user=name).jobs == []
    assert isinstance(site.asking.lake.query("SELECT count(*) AS n FROM jobs"), pa.Table)
    assert JOBS.name == "jobs"


# -- a simulated machine -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_simulated_machine_moved_is_what_the_questions_say(tmp_path: Path) -> None:
    import pyarrow.compute as pc

    from fairlead.kit.testing import machine

    tables = machine.play_small_machine(seconds=240).build_tables()
    lake = Lake.open(tmp_path / "lake", create=True)
    put(lake, *(batch for table in tables.values() for batch in table.combine_chunks().to_batches()))
    site = Site(Asking(lake))
    target = tables["target"]
    end = int(pc.max(target["ts_ns"]).as_py())
    whole = {"from_": str(end - 300 * S), "to": str(end)}
    counted = target.filter(pc.is_null(target["job_id"])) if target["job_id"].null_count else target
    parts = ("job_stats", "exports", "brw_stats")
    rows = [r for r in counted.to_pylist() if r["source"] not in parts]
    written = sum(r["write_bytes"] or 0 for r in rows)
    found = site.ask("targets", now_ns=end + S, **whole)
    assert sum(row.sums.write_bytes or 0 for row in found.targets) == written > 0
    moved = site.ask("top", "jobs", now_ns=end + S, metric="write", limit="1000", **whole)
    ops = tables["ops"].to_pylist()
    assert moved.total.write_bytes == sum(r["size"] * r["count"] for r in ops if r["op"] == "write")
    assert all(row.user for row in moved.rows)


def test_a_nodes_own_devices_are_its_own_and_no_storage_target(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    when = {"ts_ns": NOW - 30 * S, "interval_ns": S}
    disks = [
        {**when, "node": "n1", "device": "vda", "read_bytes": MIB, "write_bytes": 0},
        {**when, "node": "n11", "device": "vda", "read_bytes": 7 * MIB, "write_bytes": 0},
    ]
    room = {
        "ts_ns": NOW - 30 * S,
        "server": "n1",
        "target": "n1:/scratch",
        "source": "statvfs",
        "capacity_bytes": 100 * MIB,
        "used_bytes": 40 * MIB,
    }
    put(
        lake,
        build_table_batch(DEVICE, columns(disks)),
        build_table_batch(TARGET, columns([room])),
        stored("OST0", 560, 580, MIB),
    )
    site = Site(Asking(lake))
    own = {row.id: row for row in site.ask("node", "n1", last="1h").devices}
    assert own.keys() == {"vda", "/scratch"}
    assert own["vda"].sums.read_bytes == MIB
    scratch = own["/scratch"]
    assert (scratch.fullness, scratch.used_bytes) == (0.4, 40 * MIB)
    assert (scratch.sums.read_bytes, scratch.peak_bytes_per_s, scratch.busy_share) == (None, None, None)
    assert "n1:/scratch" not in {row.id for row in site.ask("targets", last="1h").targets}
