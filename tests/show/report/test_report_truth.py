"""The report holds against what is known of each labelled log, and its totals against PyDarshan for every log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.see.sources import inputs
from fairlead.show.report import report_builder as reporting
from fairlead.show.report.report_builder import Report

pytestmark = pytest.mark.shared_data


def report_on(path: Path) -> Report:
    found, failures = inputs.discover_input_files([path])
    assert not failures
    (job,) = inputs.group_input_files(found)
    report = reporting.build_report(job, reporting.load_report_setup(), {}, failures)
    assert report is not None, failures
    return report


LABELLED = (
    "md_heavy_8",
    "n1_strided_64k_8",
    "nn_1m_8",
    "one_1_16m",
    "small_512b_nn_4",
    "big_4k_nn_8",
    "big_4k_random_n1_4",
    "phases_nn_4x3",
    "phases_write_only_n1_4x5",
)


@pytest.mark.parametrize("name", LABELLED)
def test_labelled_log(shared_data: Path, name: str) -> None:
    folder = shared_data / "own" / "darshan_labelled"
    truth = json.loads((folder / "truth.json").read_text())[name]
    report = report_on(folder / f"{name}.darshan")
    verdict, metrics = report.verdict, report.verdict.metrics
    posix = truth["posix"]
    assert verdict.totals.read_bytes == posix["read_bytes"]
    assert verdict.totals.write_bytes == posix["write_bytes"]
    assert verdict.totals.read_ops == posix["reads"]
    assert verdict.totals.write_ops == posix["writes"]
    assert metrics["opens"] == posix["opens"]
    assert metrics["stats"] == posix["stats"]
    assert verdict.job.processes == truth["processes"]
    assert verdict.job.run_time_s == pytest.approx(truth["run_time_s"], abs=1e-3)
    assert verdict.io_mode.write == (truth["write_mode"] or "none")
    if "read_mode" in truth:
        assert verdict.io_mode.read == truth["read_mode"]
    if "pattern" in truth:
        assert metrics["read_pattern"] == truth["pattern"]
        assert metrics["write_pattern"] == truth["pattern"]
    if "request" in truth:
        assert metrics["write_mean_request_bytes"] == truth["request"]
    for d in ("read", "write"):
        if f"{d}_phases" in truth:
            assert metrics[f"{d}_phases"] == truth[f"{d}_phases"]
            assert sum(p.kind == d for p in verdict.phases) == truth[f"{d}_phases"]
    segments = sum(t.operations for name, t in report.profile.view.operations.items() if name == "POSIX")
    assert segments == truth["dxt_segments"]


def test_all_labelled_logs_are_tested(shared_data: Path) -> None:
    truth = json.loads((shared_data / "own" / "darshan_labelled" / "truth.json").read_text())
    assert set(truth) == set(LABELLED)


def test_a_trace_that_ran_out_of_memory_is_said_and_not_concluded_from(shared_data: Path) -> None:
    report = report_on(shared_data / "own" / "darshan_labelled" / "big_4k_random_n1_4.darshan")
    kinds = {m.kind: m for m in report.verdict.missing}
    assert "DXT_POSIX" in kinds["partial_module"].why
    assert "74.9" in kinds["operations_incomplete"].why
    assert "incomplete" in report.verdict.grade_reason
    metrics = report.verdict.metrics
    # Read-modify-write and repeats by the same rank need all operations.
    assert metrics["modify_reads"] is None
    assert metrics["read_repeated_same_rank_share"] is None
    timeline = report.profile.timeline
    assert timeline is not None
    assert timeline.source == "heatmap"
    total = timeline.read.sum() + timeline.write.sum()
    assert total == pytest.approx(metrics["total_bytes"], rel=1e-3)


def logs_below(folder: Path) -> list[Path]:
    return sorted([*(folder / "darshan").rglob("*.darshan"), *(folder / "own").rglob("*.darshan")])


def test_totals_equal_the_counters_of_every_log(shared_data: Path) -> None:
    """Every log gives a report; bytes and operations are exactly what PyDarshan reads from it."""
    darshan = pytest.importorskip("darshan")
    streams = ("<STDIN>", "<STDOUT>", "<STDERR>")
    logs = logs_below(shared_data)
    assert len(logs) >= 50
    for path in logs:
        log = darshan.DarshanReport(str(path), read_all=False)
        expected = dict.fromkeys(("read_bytes", "write_bytes", "read_ops", "write_ops", "opens"), 0)
        for module in ("POSIX", "STDIO"):
            if module not in log.modules:
                continue
            log.mod_read_all_records(module)
            counters = log.records[module].to_df()["counters"]
            names = [log.name_records.get(i, "") for i in counters["id"]]
            counters = counters[[n not in streams for n in names]]
            expected["read_bytes"] += int(counters[f"{module}_BYTES_READ"].sum())
            expected["write_bytes"] += int(counters[f"{module}_BYTES_WRITTEN"].sum())
            expected["read_ops"] += int(counters[f"{module}_READS"].sum())
            expected["write_ops"] += int(counters[f"{module}_WRITES"].sum())
            expected["opens"] += int(counters[f"{module}_OPENS"].sum())
        totals, metrics = report_on(path).verdict.totals, report_on(path).verdict.metrics
        seen = {
            "read_bytes": totals.read_bytes,
            "write_bytes": totals.write_bytes,
            "read_ops": totals.read_ops,
            "write_ops": totals.write_ops,
            "opens": metrics["opens"],
        }
        assert seen == expected, path.name
