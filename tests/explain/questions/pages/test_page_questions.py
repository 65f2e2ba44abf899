"""What only the pages ask, against a small site in a real lake: sums that agree, nulls where nothing is known, and
nobody's names but the reader's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fairlead.core.errors import UsageError
from fairlead.core.model.finding_incident_rows import build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import (
    DEVICE,
    FILE_COUNTERS,
    FILES,
    FORWARDER,
    HEATMAP,
    MAPPING,
    OPS,
    PFS_CLIENT,
    PHASE,
    PORT,
    build_table_batch,
)
from fairlead.explain.analysis.switch_ports import LINKED
from fairlead.explain.questions.answers_pages import JobTimeline, Lane
from fairlead.explain.questions.lake_queries import NotForYouError, Sight, UnknownNameError
from fairlead.explain.questions.pages.component_states import Trouble
from fairlead.explain.questions.pages.machine_now import _clients, _merge_rates, _Rates
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.store.lake import Lake
from questions_site import ALICE, DAY, MIB, MINUTE, NOW, T0, S, accounts, build, put, stored

EVERYTHING, MINE, STRANGER = Sight(), Sight("alice"), Sight("eve")
DARSHAN = {
    "job_id": "200",
    "user": "dora",
    "project": "climate",
    "program": "post",
    "nodes": ["n9"],
    "start_ns": T0,
    "end_ns": T0 + 100 * S,
    "state": "COMPLETED",
    "processes": 64,
}
WIDE = {
    "job_id": "300",
    "user": "dora",
    "project": "climate",
    "program": "wide",
    "nodes": ["n8"],
    "start_ns": T0,
    "end_ns": T0 + 300 * S,
    "state": "COMPLETED",
}
OF_A_RUN = ("job_timeline", "job_ranks", "job_files", "job_requests")
MACHINE = (("now", ""), ("volumes", ""), ("layer_cdf", "target"))
RANKS = 2000


@dataclass
class Site:
    """A lake and what is asked of it at `NOW`."""

    asking: Asking

    def ask(self, question: str, name: str = "", sight: Sight = EVERYTHING, now_ns: int = NOW, **words: str) -> Any:
        asked = parse_question_parameters(question, {key.rstrip("_"): value for key, value in words.items()})
        return answer_question(self.asking, question, name, asked, sight, now_ns)


def histogram(*of: tuple[int, int]) -> list[int]:
    """Counts by bin of powers of two."""
    counts = [0] * 40
    for place, count in of:
        counts[place] = count
    return counts


def more(lake: Lake) -> None:
    """What the small site lacks: names, phases, histograms, a counter-only trace, devices, ports, an incident, a job of
    many ranks."""
    rng = np.random.default_rng(3)
    start = T0 + rng.integers(0, 299, RANKS * 3) * S
    put(
        lake,
        accounts(DARSHAN, WIDE),
        build_table_batch(
            FILES,
            {
                "file_id": [7, 8, 9],
                "fs": ["/scratch"] * 3,
                "path": ["/scratch/out.h5", "/scratch/in.dat", "/scratch/log"],
                "first_seen_ns": [T0] * 3,
            },
        ),
        build_table_batch(
            OPS,
            {
                "start_ns": start,
                "end_ns": start + rng.integers(1, 4 * S, len(start)),
                "busy_ns": np.full(len(start), S),
                "node": [f"n{k % 100}" for k in range(len(start))],
                "job_id": ["300"] * len(start),
                "rank": np.arange(len(start), dtype=np.int32) % RANKS,
                "interface": ["POSIX"] * len(start),
                "op": ["write"] * len(start),
                "file_id": np.arange(len(start)) % 10,
                "offset": np.zeros(len(start), np.int64),
                "size": np.full(len(start), 4096),
                "count": rng.integers(1, 50, len(start)),
            },
        ),
        build_table_batch(
            OPS,
            {
                "start_ns": [T0 + 61 * S] * 2,
                "end_ns": [T0 + 61 * S + 10] * 2,
                "busy_ns": [10] * 2,
                "node": ["n1"] * 2,
                "job_id": ["100"] * 2,
                "rank": [0] * 2,
                "interface": ["POSIX"] * 2,
                "op": ["open", "stat"],
                "file_id": [8, 8],
                "count": [3, 4],
            },
        ),
        build_table_batch(
            PHASE,
            {
                "cluster": ["c"],
                "job_id": ["100"],
                "job_start_ns": [ALICE["start_ns"]],
                "number": [0],
                "kind": ["write"],
                "start_ns": [T0 + 60 * S],
                "end_ns": [T0 + 360 * S],
                "active_ns": [300 * S],
                "bytes": [1200 * MIB],
                "mode": ["N-1"],
                "expected_s": [270.0],
                "lost_s": [30.0],
                "abnormal": [0.99],
                "made_ns": [NOW],
                "analysis_version": [1],
            },
        ),
        build_table_batch(
            FORWARDER,
            {
                "ts_ns": [T0 + 500 * S] * 3,
                "interval_ns": [S] * 3,
                "node": ["f1", "f1", "f2"],
                "job_id": ["100", "101", "101"],
                "op_class": ["read", "read", "write"],
                "requests": [100, 100, 50],
                "bytes": [0, 0, 0],
                "wait_ns_histogram": [histogram((11, 100)), histogram((11, 100)), histogram((21, 50))],
                "service_ns_histogram": [histogram((15, 100)), histogram((15, 100)), None],
                "queue_len_max": [3, 3, 40],
            },
        ),
        build_table_batch(
            FILE_COUNTERS,
            {
                "job_id": ["200"] * 2,
                "rank": [-1, 0],
                "interface": ["POSIX", "MPI-IO"],
                "file_id": [9, 9],
                "opens": [64, 64],
                "reads": [0, 0],
                "writes": [640, 640],
                "bytes_read": [0, 0],
                "bytes_written": [640 * MIB, 640 * MIB],
                "consec_writes": [576, 0],
                "stats": [2, 0],
                "write_sizes": [[0, 0, 0, 0, 640, 0, 0, 0, 0, 0], [0] * 10],
                "read_sizes": [[0] * 10, [0] * 10],
                "open_start_ns": [T0 + S, None],
                "close_end_ns": [T0 + 90 * S, None],
                "write_time_s": [12.0, 13.0],
            },
        ),
        build_table_batch(
            HEATMAP,
            {
                "job_id": ["200"] * 6,
                "rank": [0, 0, 1, 1, 2, 2],
                "interface": ["POSIX"] * 4 + ["MPIIO"] * 2,
                "bin_start_ns": [T0, T0 + 50 * S] * 3,
                "bin_ns": [50 * S] * 6,
                "read_bytes": [0] * 6,
                "write_bytes": [100, 200, 300, 400, 1, 1],
            },
        ),
        build_table_batch(
            DEVICE,
            {
                "ts_ns": T0 + np.arange(1, 11) * MINUTE,
                "interval_ns": [MINUTE] * 10,
                "node": ["oss1"] * 10,
                "device": ["sda"] * 10,
                "read_bytes": [0] * 10,
                "write_bytes": [60 * MIB] * 10,
                "busy_ns": [30 * S] * 10,
                "queue_ns": [MINUTE * 3] * 10,
            },
        ),
        build_table_batch(
            PORT,
            {
                "ts_ns": T0 + np.arange(1, 11) * MINUTE,
                "interval_ns": [MINUTE] * 10,
                "switch": ["s1"] * 10,
                "port": ["4"] * 10,
                "tx_bytes": [600 * MIB] * 10,
                "rx_bytes": [0] * 10,
            },
        ),
        build_incident_rows(
            [
                Incident(
                    id="inc0",
                    layer="target",
                    component="OST1",
                    from_ns=T0 + 200 * S,
                    to_ns=None,
                    kind="degraded",
                    measured=1e6,
                    peak=4e6,
                    share_of_peak=0.25,
                    confidence=0.9,
                    jobs=["101"],
                )
            ],
            NOW,
        ),
        stream="more",
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    lake = build(tmp_path_factory.mktemp("pages") / "lake")
    more(lake)
    return Site(Asking(lake))


def lane(answer: JobTimeline, layer: str) -> Lane:
    return next(one for one in answer.lanes if one.layer == layer)


def moved(answer: JobTimeline, layer: str) -> float:
    line = lane(answer, layer).write_bytes_per_s
    return sum(value or 0.0 for value in line.mean) * answer.step_ns / S


def text_of(answer: msgspec.Struct) -> str:
    return msgspec.json.encode(answer).decode()


# -- one job on one axis -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", ["10", "97", "800", "5000"])
def test_sums_of_the_lanes_are_those_of_the_job(site: Site, points: str) -> None:
    answer = site.ask("job_timeline", "100", points=points)
    assert answer.points <= int(points)
    for layer in ("client", "forwarder", "target"):
        assert moved(answer, layer) == pytest.approx(1200 * MIB)
    assert {len(one.write_bytes_per_s.mean) for one in answer.lanes} == {answer.points}
    assert [one.layer for one in answer.lanes] == ["client", "forwarder", "target", "metadata"]
    assert answer.missing == []


def test_a_second_is_drawn_finer_where_operations_were_recorded(site: Site) -> None:
    first = T0 + 100 * S
    answer = site.ask("job_timeline", "100", from_=str(first), to=str(first + S))
    assert (answer.from_ns, answer.points, answer.step_ns) == (first, 100, 10_000_000)
    client = lane(answer, "client").write_bytes_per_s.mean
    assert (client[:50], client[50:]) == ([8.0 * MIB] * 50, [0.0] * 50)
    assert lane(answer, "forwarder").write_bytes_per_s.mean == [4.0 * MIB] * 100
    assert moved(answer, "client") == pytest.approx(4 * MIB)


def test_zooming_in_does_not_change_what_was_moved(site: Site) -> None:
    whole = site.ask("job_timeline", "100")
    for first, last in ((60, 120), (120, 300), (100, 101), (355, 360)):
        part = site.ask("job_timeline", "100", from_=str(T0 + first * S), to=str(T0 + last * S))
        inside = slice(
            (T0 + first * S - whole.from_ns) // whole.step_ns, (T0 + last * S - whole.from_ns) // whole.step_ns
        )
        for layer in ("client", "target"):
            of_whole = sum(v or 0 for v in lane(whole, layer).write_bytes_per_s.mean[inside]) * whole.step_ns / S
            assert moved(part, layer) == pytest.approx(of_whole)


def test_phases_and_neighbours_lie_beside_the_lanes(site: Site) -> None:
    answer = site.ask("job_timeline", "100")
    [phase] = answer.phases
    assert (phase.kind, phase.mode, phase.lost_s, phase.abnormal) == ("write", "N-1", 30.0, 0.99)
    of = {one.job_id: one for one in answer.neighbours}
    assert (of["101"].user, of["101"].blamed, of["101"].kind) == ("bob", True, "mds")
    assert of["101"].metadata_ops == 900 * 300
    assert len(of["101"].ops_per_s) == answer.points
    assert site.ask("job_timeline", "100", neighbours="0").neighbours == []


def test_a_job_nothing_is_known_of_has_no_lanes_and_says_so(site: Site) -> None:
    answer = site.ask("job_timeline", "200")
    assert answer.lanes == []
    assert any(text.startswith("traffic:") for text in answer.missing)


def test_counters_of_nodes_stand_in_where_none_names_the_job(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    job = {"job_id": "8", "user": "alice", "nodes": ["n1"], "start_ns": T0, "end_ns": T0 + 60 * S, "state": "COMPLETED"}
    ts = T0 + np.arange(1, 61) * S
    put(
        lake,
        accounts(job),
        build_table_batch(
            PFS_CLIENT,
            {
                "ts_ns": ts,
                "interval_ns": [S] * 60,
                "node": ["n1"] * 60,
                "source": ["llite"] * 60,
                "read_bytes": [0] * 60,
                "write_bytes": [MIB] * 60,
            },
        ),
        build_table_batch(
            PORT,
            {
                "ts_ns": ts,
                "interval_ns": [S] * 60,
                "switch": ["s1"] * 60,
                "port": ["4"] * 60,
                "tx_bytes": [0] * 60,
                "rx_bytes": [2 * MIB] * 60,
            },
        ),
        build_table_batch(
            MAPPING, {"from_ns": [T0 - DAY], "to_ns": [None], "kind": [LINKED], "a": ["n1"], "b": ["s1/4"]}
        ),
    )
    for sight in (EVERYTHING, MINE):
        answer = Site(Asking(lake)).ask("job_timeline", "8", sight)
        assert [(one.layer, one.estimated) for one in answer.lanes] == [("pfs_client", True), ("port", True)]
        assert moved(answer, "pfs_client") == pytest.approx(60 * MIB)
        assert moved(answer, "port") == pytest.approx(120 * MIB)
        assert any("not counted by job" in text for text in answer.missing)


def test_gaps_are_told_and_no_data_is_not_idleness(site: Site) -> None:
    answer = site.ask("job_timeline", "101", from_=str(T0 + 120 * S), to=str(T0 + 600 * S))
    assert [gap.source for gap in answer.gaps] == ["n3"]
    assert answer.running
    assert lane(answer, "forwarder").metadata_ops_per_s.mean[0] == 0.0
    assert lane(site.ask("job_timeline", "100"), "metadata").write_bytes_per_s.mean == [None] * 360


# -- ranks, files, requests --------------------------------------------------------------------------------------------


def test_ranks_are_grouped_without_loss(site: Site) -> None:
    one = site.ask("job_ranks", "300", rows="200", columns="50")
    few = site.ask("job_ranks", "300", rows="7", columns="50")
    assert (one.by, one.total, len(one.rows), len(few.rows)) == ("rank", RANKS, 200, 7)
    assert sum(row.members for row in one.rows) == RANKS
    whole = sum(row.write_bytes for row in one.rows)
    assert sum(row.write_bytes for row in few.rows) == whole
    for answer in (one, few):
        cells = np.array([row.bytes_per_s for row in answer.rows], float)
        laid = (cells.sum(axis=1) * [row.members for row in answer.rows]).sum() * answer.step_ns / S
        assert laid == pytest.approx(whole, rel=1e-5)
        highest = np.array([row.highest_bytes_per_s for row in answer.rows], float)
        assert (highest >= cells - 0.002).all()
    assert [row.write_bytes for row in one.busiest] == sorted((row.write_bytes for row in one.busiest), reverse=True)
    assert one.imbalance > 1


def test_ranks_by_node_and_of_a_trace(site: Site) -> None:
    nodes = site.ask("job_ranks", "100", by="node", columns="10")
    assert [(row.name, row.write_bytes, row.members) for row in nodes.rows] == [
        ("n1", 600 * MIB, 1),
        ("n2", 600 * MIB, 1),
    ]
    trace = site.ask("job_ranks", "200", columns="10")
    assert (trace.by, trace.total) == ("rank", 2)
    assert [row.write_bytes for row in trace.rows] == [300, 700]
    assert "of 64, 2 were seen" in " ".join(trace.missing)
    nothing = site.ask("job_ranks", "200", by="node")
    assert (nothing.rows, nothing.imbalance) == ([], None)
    assert nothing.missing


def test_files_have_names_sums_and_pages(site: Site) -> None:
    answer = site.ask("job_files", "100")
    assert [(one.path, one.write_bytes, one.read_bytes) for one in answer.files] == [
        ("/scratch/out.h5", 1200 * MIB, 0),
        ("/scratch/in.dat", 0, 0),
    ]
    assert answer.files[1].metadata_ops == 7
    assert next(one.path for one in site.ask("job_files", "100", sort="metadata").files) == "/scratch/in.dat"
    page = site.ask("job_files", "100", like="OUT")
    assert (page.total, [one.file_id for one in page.files]) == (1, ["7"])
    page = site.ask("job_files", "300", limit="3", offset="2", sort="path")
    assert (page.total, len(page.files)) == (10, 3)


def test_files_and_requests_of_a_counter_only_trace(site: Site) -> None:
    [one] = site.ask("job_files", "200").files
    assert (one.path, one.write_bytes, one.write_ops, one.metadata_ops) == ("/scratch/log", 640 * MIB, 640, 66)
    assert one.processes is None
    asked = site.ask("job_requests", "200")
    full = [one for one in asked.bins if one.writes]
    assert [(one.writes, one.from_bytes, one.write_bytes) for one in full] == [(640, 102_401, None)]
    assert asked.metadata == {"opens": 64, "stats": 2}
    assert asked.sequential_share == pytest.approx(0.9)


def test_requests_by_powers_of_two(site: Site) -> None:
    answer = site.ask("job_requests", "100")
    [one] = answer.bins
    assert (one.from_bytes, one.to_bytes, one.writes, one.write_bytes) == (2 * MIB, 4 * MIB, 600, 1200 * MIB)
    assert answer.metadata == {"stat": 4, "open": 3}
    assert answer.sequential_share == pytest.approx(598 / 600)


# -- lists and layers --------------------------------------------------------------------------------------------------


def test_my_jobs_have_sparks_grades_and_findings(site: Site) -> None:
    answer = site.ask("mine", user="alice")
    [mine] = answer.jobs
    assert (mine.job.job_id, mine.lost_s, mine.grade, mine.findings, mine.severity) == ("100", 30.0, "C", 1, "high")
    assert mine.worst == "Job 100 lost 60 s to job 101 at target OST0"
    assert mine.spark == [4.0 * MIB] * 40
    assert [one.grade for one in site.ask("mine", user="bob").jobs] == [None]
    assert site.ask("mine", limit="2").total == 5


def test_the_machine_now(site: Site) -> None:
    answer = site.ask("now")
    layers = {one.layer: one for one in answer.layers}
    assert list(layers) == ["client", "forwarder", "target", "mds", "network", "device"]
    assert layers["target"].bytes_per_s == pytest.approx(4 * MIB)
    assert layers["target"].states == {"sick": 1, "healthy": 1, "idle": 1}
    first = layers["target"].components[0]
    assert (first.id, first.state, first.incident) == ("OST1", "sick", "inc0")
    assert layers["mds"].ops_per_s == pytest.approx(1205)
    assert layers["target"].recent[-1] == pytest.approx(4 * MIB)
    assert len(layers["target"].recent) == 60
    assert ([one.id for one in answer.open], answer.jobs_running) == (["inc0"], 1)
    assert {gap.source for gap in answer.silent} == {"n3", "n4"}
    again = site.ask("now")
    assert again == answer


def test_every_node_is_a_client_though_another_layer_counts_one_of_them_better() -> None:
    """One mount beside many nodes with counters of the file system: all of them are shown, each once."""
    counters = _Rates(["n1", "n2", "n3"], np.array([10.0, 20.0, 30.0]), np.array([1.0, np.nan, 3.0]))
    merged = _merge_rates([_Rates(["n2"], np.array([25.0]), np.array([2.0])), counters])
    assert merged.ids == ["n2", "n1", "n3"]
    assert merged.bytes_per_s.tolist() == [25.0, 10.0, 30.0]
    assert merged.ops_per_s.tolist() == [2.0, 1.0, 3.0]
    heard = Trouble(well=frozenset({"n4"}))
    found = _clients({("node", "mount"): merged}, {}, {("node", "pfs_client"): ["n4"]}, heard, [])
    assert (found.total, found.states) == (4, {"healthy": 3, "idle": 1})
    assert all(one.load is None for one in found.components)


@pytest.mark.parametrize("layer", ["forwarder", "target", "mds", "network", "device"])
def test_a_layer_lists_its_components(site: Site, layer: str) -> None:
    answer = site.ask("layer", layer)
    assert answer.total == len(answer.components) > 0
    assert answer.peak
    assert all(one.load is None or 0 <= one.load <= 1 for one in answer.components)
    assert site.ask("layer", layer, limit="1").total == answer.total
    heat = site.ask("layer_hours", layer)
    assert {row.id for row in heat.rows} == {one.row.id for one in answer.components}
    spread = site.ask("layer_cdf", layer)
    assert spread.components == answer.total
    assert spread.share == sorted(spread.share)
    assert site.ask("layer_waits", layer).layer == layer


def test_a_layer_nobody_has_is_refused(site: Site) -> None:
    for question in ("layer", "layer_hours", "layer_cdf", "layer_waits"):
        with pytest.raises(UsageError, match="no layer"):
            site.ask(question, "moon")


def test_targets_have_states_jobs_and_loads(site: Site) -> None:
    answer = site.ask("layer", "target", peak=str(6 * MIB), last="10m")
    of = {one.row.id: one for one in answer.components}
    assert [(of[name].state, of[name].jobs) for name in ("OST0", "OST1", "OST2")] == [
        ("healthy", 1),
        ("sick", 1),
        ("idle", 0),
    ]
    assert (answer.peak_basis, of["OST0"].load) == ("given", pytest.approx(0.5))
    assert (answer.idle, answer.imbalance) == (1, pytest.approx(2.25))
    assert [one.row.id for one in site.ask("layer", "target", sort="id").components] == ["OST0", "OST1", "OST2"]


def test_waits_are_added_up_by_class(site: Site) -> None:
    answer = site.ask("layer_waits", "forwarder")
    of = {one.op_class: one for one in answer.classes}
    assert (of["read"].requests, sum(of["read"].wait), sum(of["read"].service)) == (200, 200, 200)
    assert of["read"].wait_p50_ns == pytest.approx(1536)
    assert 1024 < of["read"].wait_p99_ns < 2048
    assert (of["write"].service, of["write"].service_p50_ns) == ([], None)
    assert len(answer.bins_ns) == len(of["read"].wait)
    assert sum(answer.queue) == 2
    one = site.ask("layer_waits", "forwarder", component="f2")
    assert [(c.op_class, c.requests) for c in one.classes] == [("write", 50)]
    with pytest.raises(UnknownNameError):
        site.ask("layer_waits", "forwarder", component="f9")


def test_a_device_tells_its_queue_but_no_times(site: Site) -> None:
    answer = site.ask("layer_waits", "device")
    assert (answer.classes, answer.queue_mean) == ([], pytest.approx(3.0))
    assert any(text.startswith("times:") for text in answer.missing)


def test_volumes_by_day_agree_with_the_layers(site: Site) -> None:
    answer = site.ask("volumes", last="3d")
    of = {one.layer: one.sums for one in answer.days}
    assert of["target"].write_bytes == 2400 * MIB
    assert of["metadata"].metadata_ops == 1205 * 600
    assert of["device"].write_bytes == 600 * MIB
    assert site.ask("volumes", last="3d") == answer
    assert site.ask("volumes", now_ns=NOW - 30 * DAY, last="1d").missing


# -- who sees what -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", OF_A_RUN)
def test_another_persons_job_is_like_one_that_is_not_there(site: Site, question: str) -> None:
    for sight, number in ((MINE, "101"), (MINE, "300"), (STRANGER, "100")):
        with pytest.raises(UnknownNameError) as foreign:
            site.ask(question, number, sight)
        with pytest.raises(UnknownNameError) as absent:
            site.ask(question, "999", sight)
        assert str(foreign.value).replace(number, "999") == str(absent.value)
        assert number not in foreign.value.near
        assert site.ask(question, "100", MINE).job_id == "100"


@pytest.mark.parametrize(("question", "name"), MACHINE)
def test_the_whole_machine_is_not_for_everybody(site: Site, question: str, name: str) -> None:
    with pytest.raises(NotForYouError):
        site.ask(question, name, MINE)


def test_nobody_elses_names_are_told(site: Site) -> None:
    told = [site.ask(question, "100", MINE) for question in OF_A_RUN] + [site.ask("mine", sight=MINE)]
    told += [
        site.ask(q, layer, MINE) for q in ("layer", "layer_hours", "layer_waits") for layer in ("forwarder", "target")
    ]
    for answer in told:
        text = text_of(answer)
        assert not any(word in text for word in ("bob", "gkua", "fusion", "carol", '"101"', "dora")), text[:2000]


def test_neighbours_are_nameless_to_who_may_not_know_them(site: Site) -> None:
    [one] = site.ask("job_timeline", "100", MINE).neighbours
    assert (one.job_id, one.user, one.program, one.blamed) == (None, None, None, True)


def test_layers_are_those_of_the_readers_own_jobs(site: Site) -> None:
    whole = {one.row.id for one in site.ask("layer", "target").components}
    answer = site.ask("layer", "target", MINE, last="10m")
    seen = {one.row.id for one in answer.components}
    assert seen == {"OST0", "OST1"} < whole
    assert answer.total == 2
    assert answer.sums.write_bytes == 300 * 4 * MIB
    assert {one.row.id for one in site.ask("layer", "forwarder", MINE).components} == {"f1"}
    assert site.ask("layer", "target", STRANGER).components == []
    assert [row.id for row in site.ask("layer_hours", "forwarder", MINE).rows] == ["f1"]


def test_the_same_number_at_the_same_time_tells_nothing(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    mine = {
        "job_id": "7",
        "user": "alice",
        "nodes": ["n1"],
        "start_ns": T0,
        "end_ns": T0 + 60 * S,
        "state": "COMPLETED",
    }
    put(
        lake,
        accounts({**mine, "cluster": "a"}, {**mine, "user": "bob", "cluster": "b"}),
        stored("OST0", 0, 60, MIB, job="7"),
    )
    site = Site(Asking(lake))
    for question in OF_A_RUN:
        answer = site.ask(question, "7", MINE)
        assert any("cannot be told apart" in text for text in answer.missing)
    assert site.ask("job_timeline", "7", MINE).lanes == []
    assert site.ask("job_timeline", "7", cluster="a").lanes != []


def test_a_long_job_is_drawn_of_hours(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    start = T0 - 30 * DAY
    long = {"job_id": "9", "user": "alice", "nodes": ["n1"], "start_ns": start, "end_ns": start + 12 * DAY}
    n = 12
    put(
        lake,
        accounts(long),
        build_table_batch(
            FORWARDER,
            {
                "ts_ns": start + np.arange(1, n + 1) * DAY,
                "interval_ns": [S] * n,
                "node": ["f1"] * n,
                "job_id": ["9"] * n,
                "op_class": ["write"] * n,
                "requests": [1] * n,
                "bytes": [MIB] * n,
            },
        ),
    )
    answer = Site(Asking(lake)).ask("job_timeline", "9", points="100")
    assert answer.points <= 100
    assert moved(answer, "forwarder") == pytest.approx(n * MIB, rel=1e-3)
    line = lane(answer, "forwarder").write_bytes_per_s
    assert max(value or 0 for value in line.high) >= max(value or 0 for value in line.mean)
