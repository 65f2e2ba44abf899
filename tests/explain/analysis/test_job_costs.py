"""What a cause is priced at where the plain sums would mislead: many processes, one process, one long opener."""

from __future__ import annotations

import pytest

from fairlead.core.model.platform import FileSystem, Platform
from fairlead.explain.analysis.profile import build_profile
from fairlead.explain.analysis.target_metrics import compute_target_rate_metrics
from job_building import SHARED, counters, job, sizes

GIB = 1 << 30


def many_writers(seconds: float) -> list[dict[str, object]]:
    """1,024 processes write 1 TiB into one file in 128 MiB requests, `seconds` each."""
    return [
        counters(
            1,
            SHARED,
            bytes_written=1024 * GIB,
            writes=8192,
            write_time_s=1024 * seconds,
            slowest_rank_time_s=seconds,
            write_sizes=[0] * 8 + [8192, 0],
            write_start_ns=0,
            write_end_ns=int(seconds * 1e9),
        )
    ]


def test_processes_together_are_not_expected_to_outrun_every_file_system() -> None:
    """One process alone would need a second for its part; all of them at once reach what the run did."""
    found = build_profile(job(many_writers(40.0), processes=1024))
    assert found.costs["shared_file_writes"].seconds == pytest.approx(0.0, abs=1e-6)
    assert "all processes together" in found.costs["shared_file_writes"].basis


def test_a_described_file_system_says_what_all_can_reach() -> None:
    site = Platform(
        file_systems=[
            FileSystem(
                mount="/scratch",
                process_bandwidth_bytes_per_s=float(GIB),
                write_bandwidth_bytes_per_s=100.0 * GIB,
            )
        ]
    )
    view = job(many_writers(40.0), processes=1024)
    view.file_systems[1] = "/scratch"
    assert build_profile(view, site).costs["shared_file_writes"].seconds == pytest.approx(40.0 - 10.24, rel=1e-3)


def test_one_process_of_a_shared_record_is_serial_io() -> None:
    total, n = float(GIB), 64
    variance = total**2 * (n - 1) / n**2
    rows = [
        counters(
            1,
            SHARED,
            bytes_written=GIB,
            writes=64,
            write_time_s=8.0,
            slowest_rank_time_s=8.0,
            variance_rank_bytes=variance,
            write_sizes=sizes(large=64),
        )
    ]
    found = build_profile(job(rows, processes=n))
    assert found.metrics["io_processes"] == 1
    assert found.costs["serial"].seconds == pytest.approx(7.5)


def test_all_processes_in_one_direction_are_all_in_both() -> None:
    rows = [counters(r + 2, r, bytes_written=9, writes=1) for r in range(4)]
    rows.append(counters(1, SHARED, bytes_read=9, reads=4))
    assert build_profile(job(rows)).metrics["io_processes"] == 4


def test_one_long_opener_is_priced_by_itself() -> None:
    rows = [
        counters(1, 0, opens=1000, meta_time_s=40.0),
        *(counters(1, r, opens=1, meta_time_s=0.1) for r in (1, 2, 3)),
    ]
    found = build_profile(job(rows))
    assert found.costs["long_metadata"].seconds == pytest.approx(40.0)
    assert found.costs["metadata"].seconds == pytest.approx(10.075)


def test_a_crumb_of_shared_time_leaves_the_ranks_apart() -> None:
    own = [
        counters(r + 2, r, bytes_written=GIB, writes=9, write_time_s=t) for r, t in enumerate((10.0, 10.0, 10.0, 90.0))
    ]
    crumb = counters(1, SHARED, bytes_read=99, reads=4, read_time_s=0.4, slowest_rank_time_s=0.1)
    times = build_profile(job([*own, crumb])).times
    assert times.exact
    assert times.per_rank_s is not None
    assert times.per_rank_s.tolist() == pytest.approx([10.1, 10.1, 10.1, 90.1])
    assert times.slowest_rank == 3
    much = crumb | {"read_time_s": 40.0, "slowest_rank_time_s": 10.0}
    assert not build_profile(job([*own, much])).times.exact


def test_crumbs_are_no_unevenly_used_files() -> None:
    """A shared log file that one rank alone writes says nothing of the job's balance."""
    big = counters(
        1,
        SHARED,
        bytes_written=GIB,
        writes=9,
        write_time_s=9.0,
        slowest_rank_time_s=2.3,
        fastest_rank_time_s=2.2,
        slowest_rank_bytes=GIB // 4,
        fastest_rank_bytes=GIB // 4,
    )
    log = counters(
        2,
        SHARED,
        "STDIO",
        bytes_written=999,
        writes=9,
        write_time_s=0.01,
        slowest_rank_time_s=0.01,
        fastest_rank_time_s=0.0,
        slowest_rank_bytes=999,
        fastest_rank_bytes=0,
    )
    metrics = build_profile(job([big, log])).metrics
    assert (metrics["data_straggler_files"], metrics["time_straggler_files"]) == (0, 0)
    alone = build_profile(job([log])).metrics
    assert (alone["data_straggler_files"], alone["time_straggler_files"]) == (1, 1)


def test_aggregators_are_those_seen_below_collective_calls() -> None:
    above = counters(1, SHARED, "MPI-IO", bytes_written=GIB, coll_writes=64)
    writers = [counters(1, r, bytes_written=GIB // 2, writes=32) for r in (0, 2)]
    assert build_profile(job([above, *writers])).metrics["aggregators"] == 2
    assert build_profile(job([above, *writers], hints={"cb_nodes": "3"})).metrics["aggregators"] == 3
    everyone = [counters(1, r, bytes_written=GIB // 4, writes=16) for r in range(4)]
    assert build_profile(job([above, *everyone])).metrics["aggregators"] is None
    assert build_profile(job(writers)).metrics["aggregators"] is None


def test_only_files_of_one_stripe_and_one_process_tell_targets_apart() -> None:
    rows = [counters(f, f % 4, bytes_written=GIB, writes=9, write_time_s=2.0) for f in range(1, 9)]
    rows.append(counters(9, SHARED, bytes_written=GIB, writes=9, write_time_s=50.0))
    layouts = [
        {"file_id": f, "component": 0, "stripe_count": 1, "stripe_size": 1, "targets": [f % 2]} for f in range(1, 8)
    ]
    layouts += [
        {"file_id": 8, "component": 0, "stripe_count": 2, "stripe_size": 1, "targets": [0, 1]},
        {"file_id": 9, "component": 0, "stripe_count": 1, "stripe_size": 1, "targets": [0]},
    ]
    ids, rates = compute_target_rate_metrics(job(rows, layouts=layouts))
    assert ids.tolist() == [0, 1]
    assert rates.tolist() == pytest.approx([GIB / 2, GIB / 2])
    assert build_profile(job(rows, layouts=layouts)).metrics["slow_targets"] is None
