"""Jobs drawn like TaihuLight's, and jobs read from traces and tables: figures, streams, and what is dropped."""

from __future__ import annotations

import gzip
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from fairlead.core.errors import InputError, UsageError
from fairlead.core.model.site import build_uniform_site
from fairlead.decide.sim.platform import build_two_layer_platform
from fairlead.decide.sim.replay.jobs import Jobs
from fairlead.decide.sim.workloads import sunway, swf, tables
from fairlead.decide.sim.workloads.io_rules import LONGEST_IO_S, STORM, TRIVIAL, Season
from fairlead.decide.sim.workloads.taihulight import DAY_S, draw_taihulight_season

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data"
SUMMIT = build_uniform_site(name="summit-like", nodes=4608, servers=77, targets_per_server=2, node_bandwidth=10e9)


def same(one: Season, other: Season) -> bool:
    return all(np.array_equal(getattr(one.jobs, f.name), getattr(other.jobs, f.name)) for f in fields(Jobs))


@pytest.fixture(scope="module")
def year() -> Season:
    return draw_taihulight_season(5)


def test_a_year_holds_enough_jobs_and_they_are_sound(year: Season) -> None:
    year.jobs.check()
    assert len(year.jobs) >= 300_000
    assert (year.jobs.first_node >= 0).all()
    assert (year.jobs.first_node + year.jobs.nodes <= 40_960).all()
    assert (np.diff(year.jobs.first_phase) >= 2).all()


def test_modes_and_mean_volumes_are_the_published_ones(year: Season) -> None:
    """Storms are 0.69 of 16.3 %; the means within a fifth: few programs move much, and nobody moves for ever."""
    of_modes = np.bincount(year.mode, minlength=5)
    shares = of_modes[:4] / of_modes[:4].sum()
    np.testing.assert_allclose(shares, np.array(sunway.MODE_JOBS) / sum(sunway.MODE_JOBS), atol=0.005)
    assert of_modes[STORM] / len(year.jobs) == pytest.approx(0.0069 / 0.163, rel=0.05)
    for mode in range(3):
        mine = year.mode == mode
        assert year.read[mine].mean() / 1e9 == pytest.approx(sunway.MEAN_READ_GB[mode], rel=0.2)
        assert year.written[mine].mean() / 1e9 == pytest.approx(sunway.MEAN_WRITE_GB[mode], rel=0.2)
    assert (year.read + year.written >= sunway.TRIVIAL_BYTES)[year.mode < STORM].all()


def test_phases_move_what_the_job_moves_and_no_longer_than_it_may(year: Season) -> None:
    jobs = year.jobs
    moved = np.add.reduceat(jobs.volume, jobs.first_phase[:-1])
    np.testing.assert_allclose(moved, year.read + year.written, rtol=1e-9)
    alone = moved / np.minimum(jobs.client_rate, 1 / np.maximum(jobs.forwarder_cost, jobs.target_cost))
    assert alone.max() <= LONGEST_IO_S * (1 + 1e-9)
    storms = np.add.reduceat(jobs.operations, jobs.first_phase[:-1]) > 0
    np.testing.assert_array_equal(storms, year.mode == STORM)
    assert ((jobs.volume > 0) != (jobs.operations > 0)).all()


def test_a_file_all_write_holds_a_forwarder_while_it_waits_for_its_lock(year: Season) -> None:
    """Beacon: N-1 reaches 250 MB/s whatever N; sixteen writers keep the sixteen workers."""
    shared = (year.mode == 2) & (year.processes >= 16)
    assert year.jobs.client_rate[shared].max() == 250e6
    np.testing.assert_allclose(year.jobs.forwarder_cost[shared], 1 / 250e6)


def test_the_same_seed_gives_the_same_and_volumes_move_nothing_else() -> None:
    one, again, other = (
        draw_taihulight_season(3, span_s=DAY_S),
        draw_taihulight_season(3, span_s=DAY_S),
        draw_taihulight_season(4, span_s=DAY_S),
    )
    assert same(one, again)
    assert not same(one, other)
    more = draw_taihulight_season(3, span_s=DAY_S, volume_scale=2.0)
    np.testing.assert_array_equal(one.jobs.start_s, more.jobs.start_s)
    np.testing.assert_array_equal(one.program, more.program)
    assert (more.read >= one.read).all()


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("span_s", {"span_s": -1.0}),
        ("jobs_per_year", {"jobs_per_year": np.nan}),
        ("programs", {"programs": 3}),
        ("volume_scale", {"volume_scale": 0.0}),
    ],
)
def test_a_season_that_cannot_be_is_refused(field: str, bad: dict[str, object]) -> None:
    with pytest.raises(UsageError) as told:
        draw_taihulight_season(1, **bad)  # type: ignore[arg-type]
    assert told.value.where == field


HEADER = "; Version: 2\n;\n"


def swf_line(number: int, submit: int = 0, wait: int = 3, run: int = 100, used: int = 4) -> str:
    return f"{number} {submit} {wait} {run} {used} -1 -1 {used} -1 -1 1 7 1 3 1 1 -1 -1\n"


def test_a_trace_becomes_jobs_that_begin_when_they_did() -> None:
    text = HEADER + swf_line(1, 500, 20) + swf_line(2, 400, 10, used=9) + swf_line(3, 600, -1)
    taken = swf.read_swf(text.encode(), 1, processors_per_node=4)
    jobs = taken.season.jobs
    jobs.check()
    assert jobs.start_s.tolist() == [0.0, 110.0, 190.0]
    assert jobs.nodes.tolist() == [3, 1, 1]
    assert taken.lines == (4, 3, 5)
    assert taken.told == "3 of 3 jobs"
    assert any("is drawn" in what for what in taken.assumed)
    assert any("1 jobs without a known wait" in what for what in taken.assumed)
    # Runs of one program at one size are alike but for the run's own deviation.
    assert taken.season.program[1] == taken.season.program[2] != taken.season.program[0]


def test_a_packed_trace_is_the_same_trace() -> None:
    text = (HEADER + "".join(swf_line(i, 10 * i) for i in range(50))).encode()
    assert same(swf.read_swf(text, 3).season, swf.read_swf(gzip.compress(text, mtime=0), 3).season)


def test_five_percent_of_corrupt_lines_are_dropped_and_told() -> None:
    lines = [swf_line(i, 10 * i) for i in range(2000)]
    broken = [
        "9 9 9\n",
        "9 x 3 100 4 -1 -1 4 -1 -1 1 7 1 3 1 1 -1 -1\n",
        swf_line(1).replace(" 100 ", " nan "),
        swf_line(1, -5),
        swf_line(1, run=0),
        "\x00\xff\n",
        swf_line(1, used=-1),
    ]
    for i in range(100):
        lines[20 * i] = broken[i % len(broken)]
    taken = swf.read_swf("".join(lines).encode("latin-1"), 1)
    assert (len(taken.season.jobs), taken.rows, sum(taken.dropped.values())) == (1900, 2000, 100)
    assert set(taken.dropped) == {
        "with a different number of fields",
        "with something that is not a number",
        "with impossible numbers",
        "without a run time",
        "without processors",
    }
    assert taken.told.startswith("1,900 of 2,000 jobs; dropped: ")


def test_numbers_no_job_has_are_dropped_and_told() -> None:
    """They would hold up the whole replay, or all figures would be theirs."""
    trace = swf.read_swf((swf_line(1) + swf_line(2, run=9_000_000_000)).encode(), 1)
    assert (len(trace.season.jobs), trace.dropped) == (1, {"longer than a year": 1})
    bad = [
        "a,1000,1e18,84,2e9,8e9,50,840\n",
        "a,1000,4e8,84,2e9,8e9,50,840\n",
        "a,1000,1100,1e30,2e9,8e9,50,840\n",
        "a,1000,1100,84,1e18,8e9,50,840\n",
        "a,1000,1100,84,2e9,8e9,1e20,840\n",
    ]
    table = tables.read_workload_job_table(
        (COLUMNS + "a,1000,1100,84,2e9,8e9,50,1e300\n" + "".join(bad)).encode(), SUMMIT
    )
    assert table.dropped == {"with impossible numbers": 4, "longer than a year": 1}
    # Its I/O took no longer than it ran.
    assert table.season.jobs.client_rate.tolist() == [1e10 / 100]


@pytest.mark.parametrize("data", [b"", b"; only a header\n", b"nothing of it\n", gzip.compress(b"1 2 3", mtime=0)[:-9]])
def test_a_trace_without_a_job_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        swf.read_swf(data, 1)


def test_jobs_larger_than_the_machine_are_told() -> None:
    text = swf_line(1) + swf_line(2, used=10_000_000)
    assert swf.read_swf(text.encode(), 1).dropped == {"larger than the machine": 1}
    with pytest.raises(InputError, match="larger than the machine"):
        swf.read_swf(swf_line(2, used=10_000_000).encode(), 1)


COLUMNS = "app,start_time,end_time,nprocs,POSIX_BYTES_READ,POSIX_BYTES_WRITTEN,POSIX_OPENS,POSIX_F_WRITE_TIME\n"


def test_records_of_a_table_become_jobs() -> None:
    text = COLUMNS + "b,1000,1100,84,2e9,8e9,50,840\n" + "a,900,950,1,,3e8,,\n"
    taken = tables.read_workload_job_table(text.encode(), SUMMIT)
    jobs = taken.season.jobs
    jobs.check()
    assert jobs.start_s.tolist() == [0.0, 100.0]
    assert jobs.nodes.tolist() == [1, 2]
    # The first has four writes; the second its names, one read, four writes of a quarter.
    assert np.diff(jobs.first_phase).tolist() == [4, 6]
    np.testing.assert_allclose(jobs.volume, [7.5e7] * 4 + [0.0, 2e9] + [2e9] * 4)
    np.testing.assert_allclose(jobs.operations, [0.0] * 4 + [50.0] + [0.0] * 5)
    # 10 GB in ten seconds of each process: that is what its processes reach.
    assert jobs.client_rate[1] == pytest.approx(1e9)
    assert taken.season.mode.tolist() == [3, 0]


def test_a_table_of_other_columns_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"column end_time, POSIX_BYTES_WRITTEN is missing; columns found: start_time"):
        tables.read_workload_job_table(b"start_time,nprocs,POSIX_BYTES_READ\n1,2,3\n", SUMMIT)
    with pytest.raises(InputError, match="columns found: none"):
        tables.read_workload_job_table(b"", SUMMIT)


def test_rows_that_are_no_record_are_dropped_and_told() -> None:
    good = "a,1000,1100,84,2e9,8e9,50,840\n"
    bad = [
        "a,1000\n",
        "a,x,1100,84,2e9,8e9,50,840\n",
        "a,1000,1100,84,-2e9,8e9,50,840\n",
        "a,1000,900,84,1,1,1,1\n",
        "a,1000,1100,84,,,50,840\n",
        "a,1000,1100,,2e9,8e9,50,840\n",
        "a,1000,1100,nan,2e9,8e9,50,840\n",
        "a,1000,1100,0,2e9,8e9,50,840\n",
    ]
    taken = tables.read_workload_job_table((COLUMNS + good * 152 + "".join(bad)).encode(), SUMMIT)
    assert (len(taken.season.jobs), taken.rows) == (152, 160)
    assert taken.dropped == {
        "with a different number of columns": 1,
        "with something that is not a number": 1,
        "with impossible numbers": 2,
        "that end before they begin": 1,
        "without volumes": 1,
        "without nprocs": 1,
        "without processes": 1,
    }
    with pytest.raises(InputError, match="none of 8 rows is a job"):
        tables.read_workload_job_table((COLUMNS + "".join(bad)).encode(), SUMMIT)


@pytest.mark.shared_data
def test_a_real_table_and_a_published_trace() -> None:
    folder = SHARED / "swf"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent")
    trace = swf.read_swf((folder / "lublin_256.swf").read_bytes(), 1)
    trace.season.jobs.check()
    assert trace.told == "10,000 of 10,000 jobs"
    assert np.mean(trace.season.mode != TRIVIAL) == pytest.approx(sunway.NONTRIVIAL_SHARE, abs=0.02)
    packed = (SHARED / "summit_darshan" / "summit_jobs_2021.csv.gz").read_bytes()
    table = tables.read_workload_job_table(packed, SUMMIT)
    table.season.jobs.check()
    assert (table.rows, table.dropped) == (53_546, {"without volumes": 6})


def test_costs_are_the_machine_s() -> None:
    """Without forwarders' own figures changed nothing else is: another machine, other rates."""
    one, other = (
        draw_taihulight_season(3, span_s=DAY_S),
        draw_taihulight_season(3, span_s=DAY_S, machine=build_two_layer_platform()),
    )
    assert one.machine.name == "taihulight"
    assert other.jobs.target_cost.min() == pytest.approx(1 / 1.2e9)
    assert other.jobs.nodes.max() <= 64
