"""What a job moved is one figure, wherever it is asked for: lists, pages, summaries, rankings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fairlead.core.model.tables import FORWARDER, JOBS, OPS, PFS_CLIENT, TARGET, build_table_batch
from fairlead.explain.diagnosing.ended_jobs import summarise_ended_jobs
from fairlead.explain.questions.job_volumes import build_volume_runs, read_job_volumes
from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.node_estimates import share_nodes
from fairlead.explain.questions.question_catalog import Asking, answer_question, parse_question_parameters
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups

S = 10**9
MIB = 1 << 20
T0 = 20_000 * 86_400 * S + 10 * 3600 * S + 1234 * S
NOW = T0 + 7200 * S
Row = dict[str, Any]


def job(number: str, begin: int, end: int | None, *nodes: str, cluster: str | None = "alpha", user: str = "ann") -> Row:
    about = {"job_id": number, "cluster": cluster, "user": user, "nodes": list(nodes), "nodes_count": len(nodes)}
    ends = None if end is None else T0 + end * S
    state = "RUNNING" if end is None else "COMPLETED"
    return {**about, "start_ns": T0 + begin * S, "end_ns": ends, "state": state}


def seen(number: str, begin: int, end: int, *nodes: str, cluster: str | None = None) -> Row:
    """What a mount tells of a job."""
    return {**job(number, begin, end, *nodes, cluster=cluster), "user": None, "nodes_count": None, "state": None}


def mounted(number: str, node: str, at: int, size: int, op: str = "write", cluster: str | None = None) -> pa.Table:
    """An operation of a mount."""
    row = {"start_ns": T0 + at * S, "end_ns": T0 + at * S + S // 2, "busy_ns": S // 2, "node": node, "job_id": number}
    more = {"interface": "fuse", "fs": "fairlead:x", "op": op, "size": size, "count": 1, "rank": 0, "file_id": 7}
    return one(OPS, [{**row, **more, "cluster": cluster}])


def node_counters(node: str, first: int, last: int, each: int, period: int = 1, job_id: str | None = None) -> pa.Table:
    """What a node's file system client counted, a row every `period` seconds, of `each` bytes written a second."""
    ends = np.arange(first + period, last + 1, period)
    about = {"node": node, "interval_ns": period * S, "write_bytes": each * period, "read_bytes": 0, "job_id": job_id}
    return one(PFS_CLIENT, [{**about, "ts_ns": T0 + int(end) * S, "source": "llite"} for end in ends])


def one(spec: Any, rows: list[Row]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_batches([build_table_batch(spec, {name: [row.get(name) for row in rows] for name in names})])


def jobs(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), JOBS.schema)


class Site:
    """A lake that is told tables one after the other, and summarised."""

    def __init__(self, folder: Path, *tables: pa.Table) -> None:
        self.lake = Lake.open(folder / "lake", create=True)
        self.told = 0
        self.tell(*tables)

    def tell(self, *tables: pa.Table) -> None:
        with self.lake.open_writer("main", derive=derive_rollups) as writer:
            for table in tables:
                batch = writer.open_batch(f"b{self.told}", source="test")
                batch.add(table)
                batch.commit()
                self.told += 1

    def summarise(self, now_ns: int = NOW) -> None:
        with self.lake.open_writer("analysis") as writer:
            while summarise_ended_jobs(self.lake, writer, now_ns).summaries:
                pass

    def ask(self, question: str, name: str = "", sight: Sight = Sight(), **words: str) -> Any:  # noqa: B008
        asked = parse_question_parameters(question, words)
        return answer_question(Asking(self.lake), question, name, asked, sight, NOW)

    def everywhere(self, number: str, cluster: str = "alpha") -> dict[str, tuple[int | None, int | None]]:
        """(bytes read, bytes written) of a job by every place that tells them."""
        told: dict[str, Any] = {}
        for sort in ("start", "bytes"):
            for row in self.ask("jobs", last="3h", sort=sort).jobs:
                if (row.job_id, row.cluster) == (number, cluster):
                    told[f"jobs by {sort}"] = row.sums
        for row in self.ask("mine", last="3h").jobs:
            if (row.job.job_id, row.job.cluster) == (number, cluster):
                told["recent jobs"] = row.job.sums
        page = self.ask("job", number, cluster=cluster)
        told |= {"job": page.job.sums, "summary": page.summary.sums}
        ranked = [row for row in self.ask("top", "jobs", last="3h").rows if row.name == number]
        if len(ranked) == 1:
            told["top"] = ranked[0].sums
        return {place: (sums.read_bytes, sums.write_bytes) for place, sums in told.items()}


def only(figures: dict[str, tuple[int | None, int | None]]) -> tuple[int | None, int | None]:
    """The one figure that all places tell."""
    assert len(figures) >= 5, figures
    assert len(set(figures.values())) == 1, figures
    return next(iter(figures.values()))


@pytest.mark.parametrize("first", ["mount", "scheduler"])
def test_a_job_on_a_mount_is_one_job_with_one_figure(tmp_path: Path, first: str) -> None:
    """D1: the mount knows no cluster, the scheduler knows one."""
    moved = [mounted("42", "n1", 10, 128 * MIB), mounted("42", "n1", 20, 128 * MIB, "read")]
    told = [jobs(job("42", 0, 60, "n1")), jobs(seen("42", 10, 21, "n1"))]
    order = [*moved, *reversed(told)] if first == "mount" else [*told, *moved]
    site = Site(tmp_path)
    for hours, table in enumerate([*order, node_counters("n1", 0, 60, 5 * MIB)]):
        site.tell(table)
        site.summarise(NOW + hours * 3600 * S)
    assert only(site.everywhere("42")) == (128 * MIB, 128 * MIB)
    assert site.ask("jobs", last="3h").total == 1
    assert (site.ask("job", "42").job.user, site.ask("job", "42").other_runs) == ("ann", 0)
    assert site.lake.query("SELECT count(*) AS n FROM job_summary")["n"].to_pylist() == [1]


def test_equal_numbers_in_two_clusters_stay_apart(tmp_path: Path) -> None:
    accounts = jobs(job("42", 0, 60, "a1"), job("42", 5, 70, "b1", cluster="beta", user="bob"))
    rows = [
        mounted("42", "a1", 10, 1 * MIB),  # by its node
        mounted("42", "b1", 12, 2 * MIB, cluster="beta"),
        mounted("42", "b1", 14, 4 * MIB),
        mounted("42", "c1", 15, 64 * MIB),  # nobody's: neither cluster had the node
    ]
    site = Site(tmp_path, accounts, *rows)
    site.summarise()
    assert only(site.everywhere("42")) == (0, 1 * MIB)
    assert only(site.everywhere("42", "beta")) == (0, 6 * MIB)


def test_a_requeued_job_is_two_runs(tmp_path: Path) -> None:
    site = Site(
        tmp_path,
        jobs(job("42", 0, 20, "n1"), job("42", 25, 50, "n2")),
        mounted("42", "n1", 19, 1 * MIB),
        mounted("42", "n1", 22, 2 * MIB),
        mounted("42", "n2", 25, 4 * MIB),
    )
    site.summarise()
    rows = site.ask("jobs", last="3h").jobs
    assert [(row.start_ns, row.sums.write_bytes) for row in rows] == [(T0 + 25 * S, 4 * MIB), (T0, 3 * MIB)]
    stored = site.lake.query("SELECT write_bytes FROM job_summary ORDER BY start_ns")["write_bytes"].to_pylist()
    assert stored == [3 * MIB, 4 * MIB]


@pytest.mark.parametrize("period", [1, 10])
def test_a_job_alone_on_its_nodes_has_all_that_they_moved(tmp_path: Path, period: int) -> None:
    """D2: not a part by time of the minutes it touched; and what is written back after its end."""
    site = Site(
        tmp_path,
        jobs(job("7", 23, 61, "n1", "n2")),
        node_counters("n1", 20, 60, MIB, period),
        node_counters("n2", 30, 80, MIB, period),
    )
    site.summarise()
    assert only(site.everywhere("7")) == (0, 90 * MIB)
    row = site.ask("job", "7").job
    assert (row.layer, row.bound.shared, row.bound.share) == ("estimate", False, 0.0)
    assert row.bound.low == row.bound.high == row.sums


def test_jobs_that_share_a_node_have_bounds_that_hold_the_truth(tmp_path: Path) -> None:
    site = Site(
        tmp_path,
        jobs(job("1", 0, 100, "n1"), job("2", 60, 200, "n1")),
        node_counters("n1", 0, 200, MIB),
    )
    site.summarise()
    first, second = site.ask("job", "1").job, site.ask("job", "2").job
    assert only(site.everywhere("1")) == (0, (60 + 20) * MIB)
    assert only(site.everywhere("2")) == (0, (20 + 100) * MIB)
    assert (first.bound.shared, second.bound.shared) == (True, True)
    # Ten seconds around a change of runs are within the bounds, too.
    assert (first.bound.low.write_bytes, first.bound.high.write_bytes) == (50 * MIB, 110 * MIB)
    assert (second.bound.low.write_bytes, second.bound.high.write_bytes) == (90 * MIB, 150 * MIB)
    assert second.bound.share == pytest.approx(30 / 120)
    assert site.ask("job", "1").summary.bound.high.write_bytes == 110 * MIB


def test_bounds_tell_a_reader_nothing_of_others(tmp_path: Path) -> None:
    """A reader of one user's jobs hears what his job moved alone on its node, and nothing where others were there."""
    site = Site(
        tmp_path,
        jobs(job("1", 0, 100, "n1"), job("2", 60, 200, "n1", user="bob"), job("3", 0, 100, "n2")),
        node_counters("n1", 0, 200, MIB),
        node_counters("n2", 0, 100, MIB),
    )
    assert site.ask("job", "1", Sight("ann")).job.sums.write_bytes is None
    assert site.ask("job", "3", Sight("ann")).job.sums.write_bytes == 100 * MIB


def test_what_a_node_counts_of_a_job_by_name_is_not_another_jobs(tmp_path: Path) -> None:
    site = Site(
        tmp_path,
        jobs(job("1", 0, 100, "n1"), job("2", 0, 100, "n1")),
        node_counters("n1", 0, 100, MIB, job_id="1"),
        node_counters("n1", 0, 100, 2 * MIB),
    )
    assert site.ask("job", "1").job.sums.write_bytes == 100 * MIB
    assert site.ask("job", "1").job.bound is None


def test_runs_on_a_node_one_after_the_other(tmp_path: Path) -> None:
    """Back to back: each has its seconds, and the ten around the change are within the bounds."""
    site = Site(tmp_path, jobs(job("1", 0, 100, "n1"), job("2", 100, 200, "n1")), node_counters("n1", 0, 200, MIB))
    first = site.ask("job", "1").job
    assert first.sums.write_bytes == 100 * MIB
    assert (first.bound.low.write_bytes, first.bound.high.write_bytes) == (90 * MIB, 110 * MIB)
    assert not first.bound.shared


def test_late_records_of_a_mount_change_every_figure(tmp_path: Path) -> None:
    site = Site(tmp_path, jobs(job("42", 0, 60, "n1")), mounted("42", "n1", 10, MIB))
    site.summarise(NOW - 3600 * S)
    site.tell(mounted("42", "n1", 30, MIB))
    site.summarise()
    assert only(site.everywhere("42")) == (0, 2 * MIB)


def test_job_stats_and_forwarders_are_never_added(tmp_path: Path) -> None:
    target = {"ts_ns": T0 + 30 * S, "interval_ns": 10 * S, "target": "OST0", "job_id": "42", "write_bytes": 3 * MIB}
    served = {"ts_ns": T0 + 30 * S, "interval_ns": 10 * S, "node": "f1", "job_id": "42", "op_class": "write"}
    site = Site(
        tmp_path,
        jobs(job("42", 0, 60, "n1")),
        one(TARGET, [{**target, "source": "job_stats", "read_bytes": 0}]),
        one(FORWARDER, [{**served, "requests": 4, "bytes": 4 * MIB}]),
    )
    site.summarise()
    assert only(site.everywhere("42")) == (0, 4 * MIB)
    assert site.ask("job", "42").job.layer == "forwarder"


def test_shares_of_a_node_add_up_to_all_of_it() -> None:
    """Whatever runs there are: parts of a second add up to one, or to none where nobody is near."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        count = int(rng.integers(1, 6))
        begin = rng.integers(0, 300, count) * S
        end = begin + rng.integers(1, 200, count) * S
        found = share_nodes(np.arange(count), np.zeros(count, np.int64), begin, end, S)
        line = np.zeros(700)
        low = np.zeros(700)
        for first, last, share, sure in zip(found.from_ns, found.to_ns, found.share, found.sure, strict=True):
            line[first // S + 100 : last // S + 100] += share
            low[first // S + 100 : last // S + 100] += sure
        assert np.all((np.abs(line - 1) < 1e-9) | (line == 0))
        assert low.max() <= 1
        inside = np.zeros(700, np.bool_)
        for first, last in zip(begin, end, strict=True):
            inside[first // S + 100 : last // S + 100] = True
        assert np.allclose(line[inside], 1)


def test_runs_of_many_jobs_are_read_at_once(tmp_path: Path) -> None:
    accounts = [job(str(at), 10 * at, 10 * at + 5, "n1") for at in range(50)]
    site = Site(tmp_path, jobs(*accounts), *(mounted(str(at), "n1", 10 * at + 1, at * MIB) for at in range(1, 50)))
    found = read_job_volumes(site.lake, build_volume_runs(accounts), NOW)
    assert found["write_bytes"].to_pylist()[1:] == [at * MIB for at in range(1, 50)]
