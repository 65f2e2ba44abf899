"""Made-up but lifelike data for the HTML report: one function a kind of job, all of it from a seed.

`python tests/support/report_samples.py` writes the small ones to tests/fixtures/report; the big job is only
made in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from report_job import BINS, START_NS, Data, epoch_ns, job

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "report"
HOSTILE = '/scratch/</script><img src=x onerror="window.hacked=1">/<!--\u2028\u202eevil\n&amp;.h5'


def big() -> Data:
    """384 ranks, 30,000 segments, 2,000 of 12,034 files: the size the page is made for."""
    return job(384, files=2000, total_files=12_034)


def eight_ranks() -> Data:
    """Eight ranks and every section."""
    return job(8, run_time_s=12.8, segments=640, bins=40, files=30, total_files=30)


def one_rank() -> Data:
    """One process of half a second: nothing to compare a rank with."""
    data = job(1, run_time_s=0.52, segments=60, bins=26, files=2, total_files=2)
    verdict = data["verdict"]
    findings = [finding for finding in verdict["findings"] if finding["severity"] in ("info", "ok")]
    verdict.update(
        findings=findings,
        grade="A",
        grade_reason="Large requests, aligned, one file.",
        headline="The I/O of this job is good: nothing to change.",
        missing=[],
    )
    verdict["io_mode"] = {"read": "1-1", "write": "1-1"}
    verdict["io_mode_mpiio"] = None
    data["charts"]["costs"] = []
    data["charts"]["sizes"] = {
        "bins": BINS,
        "read": [0] * 5 + [48, 0, 0, 0, 0],
        "write": [0] * 5 + [310, 0, 0, 0, 0],
        "common": [{"size": 1 << 20, "count": 358}],
    }
    verdict["totals"].update(read_ops=48, write_ops=310, metadata_ops=12)
    verdict["summary"].update(average_iops=1490.0, metadata_ops_per_s=50.0, write_period=None)
    return data


def no_timeline() -> Data:
    """Counters only, as a log without DXT and heat map gives."""
    data = job(64, segments=3000, bins=60, files=60, total_files=60)
    data["charts"].update(bandwidth=None, timeline=None, heatmap=None, ranks=None, source=None)
    data["verdict"].update(
        phases=[],
        grade="C",
        grade_reason="Judged from counters alone.",
        headline="Most writes are small; when they happened is not in this log.",
    )
    data["verdict"]["summary"].update(write_period=None, read_peak_bytes_per_s=None, write_peak_bytes_per_s=None)
    data["verdict"]["missing"].append(
        {
            "kind": "no_timeline",
            "what": "when the bytes moved: phases, period, peak bandwidth",
            "why": "the trace holds no complete record of operations and no heat map",
            "remedy": "run with DXT_ENABLE_IO_TRACE=1, or with Darshan 3.4 or newer for its heat map",
            "where": None,
        }
    )
    for row in data["charts"]["files"]["rows"]:
        row["layout"] = None
    return data


def zero_io() -> Data:
    """A job that ran and moved no byte: zero is known here, and is not the same as unknown."""
    none = dict.fromkeys(("time", "bandwidth", "timeline", "heatmap", "sizes", "patterns", "ranks", "files", "costs"))
    job_facts = {
        "id": "77",
        "program": "./hello",
        "start_ns": START_NS,
        "end_ns": epoch_ns(3),
        "processes": 16,
        "run_time_s": 3.0,
    }
    return {
        "verdict": {
            "schema": "fairlead.report/1",
            "fairlead_version": "0.1.0",
            "inputs": ["hello.darshan"],
            "analysis_version": "1",
            "source": "darshan",
            "job": job_facts,
            "totals": {
                "read_bytes": 0,
                "write_bytes": 0,
                "read_ops": 0,
                "write_ops": 0,
                "metadata_ops": 0,
                "stream_bytes": 0,
            },
            "io_mode": {"read": "none", "write": "none"},
            "io_mode_mpiio": None,
            "io_processes": {"read": 0, "write": 0},
            "summary": {"io_time_s": 0.0, "io_time_share": 0.0, "read_period": None, "write_period": None},
            "phases": [],
            "findings": [],
            "grade": None,
            "grade_reason": "There is no I/O to grade.",
            "headline": "This job did no file I/O.",
            "missing": [],
        },
        "charts": none,
        "compare": None,
    }


def hostile() -> Data:
    """Paths, names and advice that try to leave their place."""
    data = eight_ranks()
    verdict, charts = data["verdict"], data["charts"]
    verdict["headline"] = "<b>bold</b> {{data}} </title><script>window.hacked=1</script>"
    verdict["job"].update(program=HOSTILE, user="<svg onload=window.hacked=1>", id="{{script}}")
    verdict["findings"][0].update(title=HOSTILE, id='x" onclick="window.hacked=1')
    verdict["findings"][0]["evidence"][0]["files"] = [HOSTILE]
    verdict["findings"][0]["advice"][0]["code"] = "</code></pre><script>window.hacked=1</script>"
    verdict["inputs"] = [HOSTILE, "]]>--><!DOCTYPE"]
    charts["files"]["rows"][0]["path"] = HOSTILE
    charts["files"]["rows"][1]["layout"] = "<iframe src=javascript:window.hacked=1>"
    return data


def compared() -> Data:
    """Two runs of eight ranks: before and after the advice was taken."""
    data = eight_ranks()
    after = job(8, run_time_s=8.1, segments=320, bins=40, files=12, total_files=12, seed=9)
    after["verdict"].update(grade="B", findings=after["verdict"]["findings"][2:])
    data["compare"] = {
        "labels": ["before", "after"],
        "verdict": "The second run is 1.6 times as fast: its writes are large now, the layout is still on one target.",
        "rows": [
            {"name": "run time", "before": 12.8, "after": 8.1, "unit": "s", "ratio": 0.63, "better": True},
            {
                "name": "write bandwidth",
                "before": 9.1e8,
                "after": 3.4e9,
                "unit": "bytes/s",
                "ratio": 3.7,
                "better": True,
            },
            {"name": "written", "before": 1.2e10, "after": 1.2e10, "unit": "bytes", "ratio": 1.0, "better": None},
            {
                "name": "metadata operations",
                "before": 1200,
                "after": 4800,
                "unit": "count",
                "ratio": 4.0,
                "better": False,
            },
            {
                "name": "peak read bandwidth",
                "before": None,
                "after": 2.2e9,
                "unit": "bytes/s",
                "ratio": None,
                "better": None,
            },
        ],
        "findings": {
            "gone": ["98 % of the writes are smaller than 1 MiB"],
            "new": [],
            "kept": ["The 96 GiB checkpoint lies on one storage target"],
        },
        "other": {"charts": after["charts"], "verdict": after["verdict"]},
    }
    return data


SMALL: dict[str, Callable[[], Data]] = {
    "eight_ranks": eight_ranks,
    "one_rank": one_rank,
    "no_timeline": no_timeline,
    "zero_io": zero_io,
    "hostile": hostile,
    "compared": compared,
}


def as_text(data: Data) -> str:
    """The sample as it is kept in tests/fixtures/report."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for name, make in SMALL.items():
        (FOLDER / f"{name}.json").write_text(as_text(make()), "utf-8")
