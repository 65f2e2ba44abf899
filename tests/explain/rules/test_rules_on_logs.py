"""What the rules say of real logs, and what they must not say; each expectation with its reason from the counters.

What an independent tool reports as grave for these logs was compared by hand; where fairlead says less, the reason
stands beside the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from fairlead.explain.analysis.verdict import Verdict
from fairlead.see.sources import inputs
from fairlead.show.report import report_builder as reporting

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Expected:
    """Rules that must fire, alone or covered by another; that must not; and the findings to mend, dearest first."""

    why: str
    fires: set[str] = field(default_factory=set)
    quiet: set[str] = field(default_factory=set)
    mend: list[str] | None = None
    grade: str | None = None


@cache
def verdict_of(path: Path) -> Verdict:
    found, failures = inputs.discover_input_files([path])
    (one,) = inputs.group_input_files(found)
    report = reporting.build_report(one, reporting.load_report_setup(), {}, failures)
    assert report is not None
    return report.verdict


def said(verdict: Verdict) -> set[str]:
    return {f.rule for f in verdict.findings} | {name for f in verdict.findings for name in f.covers}


def to_mend(verdict: Verdict) -> list[str]:
    return [f.rule for f in verdict.findings if f.severity not in ("ok", "info")]


def hold(verdict: Verdict, expected: Expected) -> None:
    fired = said(verdict)
    assert expected.fires <= fired, f"silent: {expected.fires - fired}"
    assert not expected.quiet & fired, f"said: {expected.quiet & fired}"
    if expected.mend is not None:
        assert to_mend(verdict) == expected.mend
    if expected.grade is not None:
        assert verdict.grade == expected.grade


def general(verdict: Verdict) -> None:
    """What holds for every log."""
    mend = [f for f in verdict.findings if f.severity not in ("ok", "info")]
    assert [f.rule for f in verdict.findings[: len(mend)]] == [f.rule for f in mend], "what to mend comes first"
    assert sorted((f.cost_s or 0 for f in mend), reverse=True) == [f.cost_s or 0 for f in mend]
    fired = [f.rule for f in verdict.findings]
    assert len(set(fired)) == len(fired)
    assert not set(fired) & {name for f in verdict.findings for name in f.covers}
    assert not set(fired) & {one.rule for one in verdict.undecided}
    run_time = verdict.job.run_time_s or 0.0
    for one in verdict.findings:
        assert "{" not in one.title
        assert "unknown" not in one.title, one.title
        if one.cost_s is not None and one.rule != "high_metadata_rate" and one.severity in ("high", "critical"):
            assert one.cost_s >= 0.1
            assert one.cost_s >= 0.05 * run_time
        if one.cost_s is not None:
            assert one.cost_s <= max(run_time, 1e-9) * 1.001
            assert one.cost_basis


COMMITTED = {
    "tests/fixtures/darshan/n1_strided_64k_8.darshan": Expected(
        "8 ranks write every eighth 64 KiB block of one file by POSIX calls: 512 requests, no reads out of order",
        fires={"strided_shared_file", "no_mpiio", "sequential_writes"},
        quiet={"small_writes", "random_writes", "shared_file_n1", "file_misaligned", "high_metadata_rate"},
        mend=["strided_shared_file"],
    ),
    "tests/fixtures/darshan/one_1_16m.darshan": Expected(
        "one process, 16 requests of 4 MiB each way: nothing to mend, though over half the 0.1 s is I/O",
        mend=[],
        grade="B",
        quiet={"serial_io", "no_mpiio", "small_writes"},
    ),
    "tests/fixtures/darshan/ior_mpiio_4.darshan": Expected(
        "collective MPI-IO of 16 MiB through one of four ranks in 77 ms: too little to matter",
        fires={"collective_reads", "collective_writes"},
        quiet={"no_mpiio", "independent_writes", "serial_io"},
    ),
    "tests/fixtures/darshan/mdtest_4.darshan": Expected(
        "800 empty files, 2,400 opens and stats in all: a short burst moves no byte and burdens nobody for long",
        fires={"unused_opens"},
        quiet={"small_writes", "stdio_heavy", "high_metadata_rate"},
        mend=[],
        grade="A",
    ),
    "tests/fixtures/darshan/python_1.darshan": Expected(
        "one Python process, 115 requests: too few of anything",
        quiet={"small_writes", "tiny_requests", "seek_heavy"},
    ),
    "examples/logs/phases_nn_4x3.darshan": Expected(
        "each of 3 phases writes and reads the same 48 MiB a process in 1 MiB requests",
        fires={"repeated_writes", "repeated_reads"},
        quiet={"random_writes", "no_mpiio", "small_writes"},
        mend=["repeated_writes"],
        grade="A",
    ),
    "examples/logs/small_512b_nn_4.darshan": Expected(
        "2,048 reads and writes of 512 bytes in 8 ms: tiny is the reason, small says no more",
        fires={"tiny_requests", "small_writes", "small_reads", "file_misaligned"},
        quiet={"random_writes", "shared_small_writes", "no_mpiio"},
    ),
}


@pytest.mark.parametrize("name", list(COMMITTED))
def test_committed_logs(name: str) -> None:
    verdict = verdict_of(ROOT / name)
    hold(verdict, COMMITTED[name])
    general(verdict)


SHARED = {
    "own/darshan_labelled/big_4k_nn_8": Expected(
        "278,528 consecutive requests of 4 KiB on own files",
        fires={"small_writes", "small_reads", "sequential_reads", "sequential_writes", "seek_heavy"},
        quiet={"random_writes", "random_reads", "shared_small_writes", "file_misaligned", "no_mpiio"},
        mend=["small_writes"],
        grade="F",
    ),
    "own/darshan_labelled/big_4k_random_n1_4": Expected(
        "half of the 131,072 writes and reads of 4 KiB in one file go backwards; reads come from the page cache at "
        "over 1 GiB/s, so they cost nothing",
        fires={
            "random_reads",
            "random_writes",
            "shared_small_reads",
            "shared_small_writes",
            "small_writes",
            "no_mpiio",
        },
        quiet={"sequential_writes", "strided_shared_file", "tiny_requests"},
        mend=["shared_small_writes", "random_writes"],
        grade="F",
    ),
    "own/darshan_labelled/md_heavy_8": Expected(
        "2,400 files made, statted and removed, 4,800 opens and stats in under a second, no bytes",
        fires={"high_metadata_rate", "unused_opens", "little_io"},
        quiet={"stdio_heavy", "small_writes"},
        mend=["high_metadata_rate"],
    ),
    "own/darshan_labelled/nn_1m_8": Expected("1 MiB requests to own files, over half the run", mend=[], grade="B"),
    "own/darshan_labelled/phases_write_only_n1_4x5": Expected(
        "five bursts overwrite one file",
        fires={"repeated_writes", "periodic_writes"},
        mend=["repeated_writes"],
        grade="C",
    ),
    "darshan/drishti/jlbez_8a_benchmark_write_parallel_id1322696_12": Expected(
        "384 ranks write 240 GiB of HDF5 collectively, half of it twice (fill values: 128 GiB are overwritten); 64 "
        "aggregators on 64 nodes read 24 GiB that no MPI-IO call asked for; the ranks that read are aggregators",
        fires={
            "repeated_writes",
            "data_sieving",
            "read_imbalance",
            "random_reads",
            "repeated_reads",
            "collective_writes",
            "blocking_writes",
            "aggregators_fit",
            "shared_file_n1",
        },
        quiet={"small_writes", "small_reads", "write_imbalance", "data_stragglers", "independent_writes", "hdf5_small"},
        mend=["repeated_writes", "data_sieving"],
        grade="D",
    ),
    "darshan/imbalanced_io/imbalanced-io": Expected(
        "the shared file has one stripe, so MPI-IO lets one of 496 ranks do the I/O of all: its own README says so",
        fires={
            "one_aggregator",
            "data_stragglers",
            "time_stragglers",
            "one_stripe",
            "small_writes",
            "small_reads",
            "shared_small_writes",
            "shared_small_reads",
            "long_metadata",
            "mem_misaligned",
            "file_misaligned",
        },
        quiet={"random_writes", "no_mpiio", "high_metadata_rate"},
        mend=["one_aggregator", "long_metadata", "file_misaligned"],
        grade="F",
    ),
    "darshan/pytokio/sample-badost": Expected(
        "2,048 files on 24 targets, one stripe each: number 14 is 50 times slower, as the README says; the shared file "
        "is only 1.6 MB of text",
        fires={"slow_target", "slow_ranks"},
        quiet={"data_stragglers", "small_writes", "no_mpiio", "repeated_reads"},
        mend=["slow_target"],
        grade="F",
    ),
    "darshan/pytokio/sample": Expected(
        "2 TiB in requests of 128 MiB at 18 GiB/s, the same bytes by each rank: the fastest takes 20 s, an average one "
        "49 s, the slowest 86 s",
        fires={"time_stragglers", "file_misaligned", "io_bound", "shared_file_n1", "collective_writes"},
        quiet={"small_writes", "no_mpiio", "strided_shared_file", "one_stripe"},
        mend=["time_stragglers", "file_misaligned"],
        grade="F",
    ),
    "darshan/skew_io/skew-app": Expected(
        "41 GB of 65,536 ranks pass through one, with one stripe: 4 minutes of 10 hours. Writes are of 1 MiB each. "
        "The metadata time of the shared record is the sum over all ranks, half a second each",
        fires={"one_aggregator", "serial_io", "data_stragglers", "small_writes", "shared_small_writes", "little_io"},
        quiet={"long_metadata", "no_mpiio", "tiny_requests"},
        mend=["one_aggregator"],
        grade="A",
    ),
    "darshan/skew_io/skew-autobench-ior": Expected(
        "512 GiB read collectively in 1 MiB pieces by some 56 of 2,048 ranks (so the variance says), the slowest of "
        "which takes twice the average; the shared files that are used unevenly hold a few KB of text",
        fires={"time_stragglers", "small_reads", "shared_small_reads", "collective_reads", "io_bound"},
        quiet={"data_stragglers", "long_metadata", "serial_io"},
    ),
    "darshan/partial_data_stdio/partial_data_stdio": Expected(
        "16 GiB by fwrite of 16 MiB each at over 1 GiB/s: STDIO it is, but it costs nothing",
        fires={"stdio_heavy"},
        mend=[],
    ),
    "darshan/apmpi/darshan-apmpi-2nodes-64mpi": Expected(
        "12 KiB read in ten minutes (the rest are standard streams)",
        fires={"little_io"},
        quiet={"stdio_heavy", "no_mpiio", "serial_io"},
        mend=[],
        grade="A",
    ),
    "darshan/stdio_no_posix/laytonjb_test1_id28730_6-7-43012-2131301613401632697_1": Expected(
        "151 bytes",
        quiet={"stdio_heavy"},
        mend=[],
    ),
    "darshan/hdf5_diagonal_write_only/hdf5_diagonal_write_1_byte_dxt": Expected(
        "10 processes import Python modules: 1,060 stats in 33 ms of 4 s; half the requests are off a 4 KiB block",
        fires={"file_misaligned", "little_io"},
        quiet={"high_metadata_rate", "stat_storm", "no_mpiio", "mem_misaligned"},
        mend=[],
        grade="A",
    ),
    "darshan/hdf5_diagonal_write_only/hdf5_file_opens_only": Expected(
        "2,052 stats and 300 opens take 135 ms of 2 s: the stats are the reason for the metadata time",
        fires={"stat_storm", "metadata_time", "unused_opens"},
        quiet={"high_metadata_rate", "open_churn"},
    ),
    "darshan/release_logs/mpi-io-test-ppc64-3.1.3": Expected(
        "four ranks move 64 MiB in eight requests, one of them takes twice as long",
        fires={"slow_ranks"},
        quiet={"data_stragglers", "small_writes", "no_mpiio"},
    ),
    "darshan/release_logs/mpi-io-test-x86_64-3.1.4": Expected(
        "the slowest of four ranks takes 53 ms, 1.45 times the average: less than what is called late",
        quiet={"data_stragglers", "time_stragglers", "slow_ranks"},
    ),
    "darshan/release_logs/mpi-io-test-x86_64-3.1.1": Expected("even and large", mend=[], grade="A"),
    "darshan/ior_pnetcdf_hdf5/shane_ior-HDF5_id438090-438090_11-9-41522-17417065676046418211_1": Expected(
        "55 misaligned requests in 12 ms are too few to speak of",
        quiet={"file_misaligned", "repeated_writes"},
        mend=[],
    ),
    "darshan/dlio_logs/snyder_python3_id3116902-2110483_12-19-66980-15861026832475351160_1": Expected(
        "a training worker reads 10 GiB, four fifths of it for the second to fifth time, in large requests",
        fires={"repeated_reads", "file_misaligned", "sequential_reads"},
        quiet={"small_reads", "random_reads", "no_mpiio"},
        mend=["repeated_reads"],
        grade="B",
    ),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", list(SHARED))
def test_shared_logs(name: str, shared_data: Path) -> None:
    hold(verdict_of(shared_data / f"{name}.darshan"), SHARED[name])


@pytest.mark.shared_data
def test_every_shared_log_keeps_the_rules_of_a_verdict(shared_data: Path) -> None:
    logs = sorted([*shared_data.glob("darshan/**/*.darshan"), *shared_data.glob("own/darshan*/*.darshan")])
    assert len(logs) > 50
    for log in logs:
        try:
            general(verdict_of(log))
        except AssertionError as fault:
            raise AssertionError(f"{log.name}: {fault}") from fault


@pytest.mark.shared_data
def test_the_slow_target_is_the_one_its_readme_names(shared_data: Path) -> None:
    verdict = verdict_of(shared_data / "darshan/pytokio/sample-badost.darshan")
    assert verdict.metrics["slowest_target"] == 14
    assert verdict.findings[0].title.startswith("Storage target 14 ")
    assert verdict.findings[0].cost_s == pytest.approx(744.5, rel=0.01)


@pytest.mark.shared_data
def test_darshans_own_log_hints_are_not_the_jobs(shared_data: Path) -> None:
    """Darshan records `cb_nodes=4` in every log: that is how it writes the log itself."""
    verdict = verdict_of(shared_data / "darshan/imbalanced_io/imbalanced-io.darshan")
    assert verdict.metrics["aggregators"] is None
    assert verdict.metrics["aggregators_per_node"] is None
