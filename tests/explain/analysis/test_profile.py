"""What analysis derives from a job: totals, modes, times, costs, timeline. Jobs are made of a few rows."""

from __future__ import annotations

import pytest

from fairlead.core.model.platform import FileSystem, Platform
from fairlead.explain.analysis.profile import METRICS, build_profile
from fairlead.explain.analysis.request_metrics import SMALL_BINS
from job_building import SHARED, S, counters, job, op, sizes

MIB = 1 << 20


def test_totals_are_of_the_lowest_layer_and_leave_streams_apart() -> None:
    view = job(
        [
            counters(1, bytes_written=100, writes=2, opens=1),
            counters(1, interface="MPI-IO", bytes_written=100, coll_writes=1),
            counters(2, interface="H5D", bytes_written=100, writes=1),
            counters(3, interface="STDIO", bytes_written=7, writes=1, opens=1),
            counters(4, interface="STDIO", bytes_written=5, writes=1, opens=1),
        ],
        paths={1: "/s/a", 2: "/s/a:set", 3: "/s/text", 4: "<STDOUT>"},
    )
    metrics = build_profile(view).metrics
    assert (metrics["write_bytes"], metrics["write_ops"], metrics["opens"]) == (107, 3, 2)
    assert metrics["stream_bytes"] == 5
    assert metrics["stdio_bytes"] == 7
    assert metrics["mpiio_used"] is True
    assert metrics["hdf5_used"] is True


def test_every_metric_is_there_for_an_empty_job() -> None:
    metrics = build_profile(job([])).metrics
    assert set(metrics) == set(METRICS)
    assert metrics["total_bytes"] == 0
    assert metrics["write_mode"] == "none"
    assert metrics["write_small_share"] is None


@pytest.mark.parametrize("variance", [0.0, None])
def test_a_shared_record_hides_who_moved_the_bytes(variance: float | None) -> None:
    values = {} if variance is None else {"variance_rank_bytes": variance}
    mode = build_profile(job([counters(1, SHARED, bytes_written=400, writes=4, **values)])).modes["write"]
    assert mode.mode == "N-1"
    # All ranks equal: at least four wrote. Without a variance nothing is claimed but that it may be more than one.
    assert mode.processes is None
    assert mode.processes_at_least == (4 if variance == 0.0 else 2)


def test_a_shared_record_whose_variance_says_one_rank_did_it_all() -> None:
    total, n = 400.0, 4
    variance = total**2 * (n - 1) / n**2
    mode = build_profile(job([counters(1, SHARED, bytes_written=400, writes=4, variance_rank_bytes=variance)])).modes[
        "write"
    ]
    assert (mode.mode, mode.processes) == ("1-1", 1)


def test_the_heat_map_tells_who_moved_the_bytes_of_a_shared_file() -> None:
    heat = [
        {"rank": r, "interface": "POSIX", "bin_start_ns": 0, "bin_ns": S, "read_bytes": 0, "write_bytes": 200}
        for r in (0, 2)
    ]
    found = build_profile(job([counters(1, SHARED, bytes_written=400, writes=4)], heat=heat))
    assert found.modes["write"].processes == 2
    assert found.metrics["io_processes"] == 2
    assert found.timeline is not None
    assert found.timeline.source == "heatmap"
    assert found.timeline.write.sum() == pytest.approx(400)


def test_an_incomplete_operation_trace_gives_way_to_the_heat_map() -> None:
    rows = [counters(1, bytes_written=4 * MIB, writes=4)]
    heat = [{"rank": 0, "interface": "POSIX", "bin_start_ns": 0, "bin_ns": S, "read_bytes": 0, "write_bytes": 4 * MIB}]
    with_map = build_profile(job(rows, ops=[op(1.0)], heat=heat))
    assert with_map.timeline is not None
    assert with_map.timeline.source == "heatmap"
    assert "operations_incomplete" in {m.kind for m in with_map.missing}
    without = build_profile(job(rows, ops=[op(1.0)]))
    assert without.timeline is None
    assert without.metrics["write_phases"] is None
    assert "no_timeline" in {m.kind for m in without.missing}


def test_operations_and_a_heat_map_are_put_together() -> None:
    """DXT knows POSIX only; STDIO's bytes come from the heat map."""
    rows = [
        counters(1, bytes_written=MIB, writes=1),
        counters(2, interface="STDIO", bytes_written=MIB, writes=9),
    ]
    heat = [{"rank": 0, "interface": "STDIO", "bin_start_ns": 5 * S, "bin_ns": S, "read_bytes": 0, "write_bytes": MIB}]
    timeline = build_profile(job(rows, ops=[op(1.0)], heat=heat)).timeline
    assert timeline is not None
    assert timeline.source == "operations"
    assert timeline.fine_write.sum() == pytest.approx(2 * MIB)
    late = timeline.fine_write[(5 * S - timeline.fine_origin_ns) // timeline.fine_bin_ns :].sum()
    assert late == pytest.approx(MIB)


def test_bytes_of_standard_streams_draw_no_file_io() -> None:
    rows = [
        counters(1, bytes_read=MIB, reads=1),
        counters(2, interface="STDIO", bytes_written=50, writes=9),
        counters(3, interface="STDIO", bytes_read=10, reads=1),
    ]
    heat = [
        {"rank": 0, "interface": "POSIX", "bin_start_ns": 0, "bin_ns": S, "read_bytes": MIB, "write_bytes": 0},
        {"rank": 0, "interface": "STDIO", "bin_start_ns": 0, "bin_ns": S, "read_bytes": 10, "write_bytes": 50},
    ]
    found = build_profile(job(rows, heat=heat, paths={1: "/s/a", 2: "<STDOUT>", 3: "/s/b"}))
    assert found.timeline is not None
    assert found.timeline.fine_write.sum() == 0
    assert found.metrics["write_phases"] == 0


def test_times_average_over_the_processes_that_do_io() -> None:
    rows = [counters(1, r, bytes_written=MIB, writes=1, write_time_s=t) for r, t in ((0, 6.0), (1, 2.0))]
    times = build_profile(job(rows, processes=64)).times
    assert times.active == 2
    assert times.write_s == pytest.approx(4.0)
    assert (times.slowest_s, times.slowest_rank, times.exact) == (6.0, 0, True)


def test_the_slowest_time_never_exceeds_the_run() -> None:
    rows = [counters(f, SHARED, bytes_written=1, writes=1, write_time_s=40.0, slowest_rank_time_s=9.0) for f in (1, 2)]
    times = build_profile(job(rows, run_time_s=12.0)).times
    assert times.slowest_s == 12.0
    assert not times.exact


def test_small_writes_cost_what_large_ones_would_not() -> None:
    """Half the bytes in small requests at a tenth of the rate that the run's own large requests reach."""
    ops = [op(i * 0.2, last_s=0.1, offset=i * 10 * MIB, size=10 * MIB) for i in range(4)]
    ops += [op(10 + i * 0.2, last_s=0.1, offset=(100 + i) * MIB, size=MIB) for i in range(40)]
    found = build_profile(job(None, ops=ops, processes=1))
    rate = 100 * MIB
    cost = found.costs["small_writes"]
    assert cost.seconds == pytest.approx(4.0 - 40 * MIB / rate, rel=1e-6)
    assert "this run's own" in cost.basis


def test_a_described_platform_prices_requests() -> None:
    rows = [counters(1, bytes_written=100 * MIB, writes=1000, write_time_s=10.0, write_sizes=sizes(small=1000))]
    site = Platform(file_systems=[FileSystem(mount="/scratch", process_bandwidth_bytes_per_s=50.0 * MIB)])
    cheap, dear = build_profile(job(rows, processes=1)), build_profile(job(rows, processes=1), site)
    assert cheap.costs["small_writes"].seconds == pytest.approx(10.0 - 100 / 1024, rel=1e-3)
    assert dear.costs["small_writes"].seconds == pytest.approx(8.0, rel=1e-3)


def test_serial_io_costs_and_shared_io_does_not() -> None:
    one = build_profile(job([counters(1, 0, bytes_written=MIB, writes=1, write_time_s=8.0)], processes=4))
    assert one.metrics["io_processes"] == 1
    assert one.costs["serial"].seconds == pytest.approx(6.0)
    all_of_them = [counters(r + 1, r, bytes_written=MIB, writes=1, write_time_s=8.0) for r in range(4)]
    assert build_profile(job(all_of_them)).costs["serial"].seconds == 0.0


def test_imbalance_costs_the_wait_for_the_slowest() -> None:
    rows = [counters(r + 1, r, bytes_written=MIB, writes=1, write_time_s=t) for r, t in enumerate((1.0, 1.0, 1.0, 9.0))]
    found = build_profile(job(rows))
    assert found.costs["imbalance"].seconds == pytest.approx(6.0)
    assert found.metrics["straggler_ranks"] == 1
    assert found.metrics["time_rank_imbalance"] == pytest.approx(6 / 9)


def test_what_counters_cannot_tell_is_unknown() -> None:
    found = build_profile(job([counters(1, SHARED, bytes_read=MIB, reads=4, read_time_s=1.0)]))
    for name in ("modify_reads", "read_repeated_same_rank_share", "overlap_share", "read_peak_bytes_per_s"):
        assert found.metrics[name] is None, name
    assert found.costs["modify_reads"].seconds is None


def test_bytes_beyond_the_end_were_moved_twice() -> None:
    rows = [counters(1, r, bytes_read=100, reads=1, max_byte_read=99) for r in range(4)]
    assert build_profile(job(rows)).metrics["read_repeated_bytes"] == 300


def test_data_sieving_is_what_mpiio_reads_unasked() -> None:
    rows = [
        counters(1, SHARED, bytes_read=50 * MIB, reads=50, bytes_written=MIB, writes=1),
        counters(1, SHARED, "MPI-IO", bytes_written=MIB, coll_writes=4),
    ]
    found = build_profile(job(rows))
    assert found.metrics["sieved_read_bytes"] == 50 * MIB
    assert found.metrics["read_mode_mpiio"] == "none"


def test_striping() -> None:
    layouts = [
        {"file_id": 1, "component": 0, "stripe_count": 1, "stripe_size": MIB, "targets": [3]},
        {"file_id": 2, "component": 0, "stripe_count": 4, "stripe_size": MIB, "targets": [3, 4, 5, 6]},
    ]
    rows = [counters(1, SHARED, bytes_written=9, writes=1), counters(2, 0, bytes_written=1, writes=1)]
    metrics = build_profile(job(rows, layouts=layouts)).metrics
    assert (metrics["shared_file_stripes"], metrics["own_file_stripes"], metrics["targets_used"]) == (1, 4, 4)


def test_a_clock_that_ran_backwards() -> None:
    found = build_profile(job([counters(1, bytes_written=1, writes=1)], run_time_s=-5.0))
    assert found.metrics["run_time_s"] is None
    assert found.metrics["io_time_share"] is None
    assert "clock" in {m.kind for m in found.missing}


def test_small_means_up_to_one_mebibyte() -> None:
    rows = [counters(1, bytes_written=9, writes=9, write_sizes=[1] * SMALL_BINS + [1] * (10 - SMALL_BINS))]
    metrics = build_profile(job(rows)).metrics
    assert metrics["write_small_ops"] == 5
    assert metrics["write_small_share"] == 0.5


def test_overlap_of_io_and_computing() -> None:
    ops = [op(0.0, last_s=1.0), op(0.5, last_s=1.0, word="compute", interface="APP", size=0)]
    metrics = build_profile(job(None, ops=ops, processes=1)).metrics
    assert metrics["overlap_share"] == pytest.approx(0.5, abs=0.01)
    assert metrics["compute_time_s"] == pytest.approx(1.0)
