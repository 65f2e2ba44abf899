"""A job as CSV: what is not known is empty, and nothing begins a formula of a spreadsheet."""

from __future__ import annotations

import csv
import io
from types import SimpleNamespace
from typing import Any

from fairlead.explain.questions.answers_diagnosis import PhaseLine
from fairlead.explain.questions.answers_pages import JobTimeline, Lane, Line
from fairlead.show.web.api.job_export import export_job_as_csv

S = 10**9


def test_rows_of_lanes_and_phases() -> None:
    unknown = Line(mean=[None, None])
    lane = Lane(
        layer="=SUM(A1)",
        read_bytes_per_s=Line(mean=[1.5, None], low=[1.0, None], high=[2.0, None]),
        write_bytes_per_s=unknown,
        metadata_ops_per_s=unknown,
    )
    timeline = JobTimeline(
        job_id="@7",
        cluster=None,
        job_from_ns=10 * S,
        job_to_ns=12 * S,
        from_ns=10 * S,
        step_ns=S,
        points=2,
        finest_ns=S,
        running=False,
        lanes=[lane],
        phases=[],
        neighbours=[],
        gaps=[],
    )
    phase = PhaseLine(
        kind="write",
        number=0,
        start_ns=11 * S,
        end_ns=12 * S,
        seconds=1.0,
        amount=5,
        rate_per_s=5.0,
        mode="-N",
        expected_s=None,
        lost_s=None,
        abnormal=None,
    )
    why: Any = SimpleNamespace(phases=[phase])
    first, second, third = csv.DictReader(io.StringIO(export_job_as_csv(why, timeline)))
    assert (first["job"], first["layer"], third["mode"]) == ("'@7", "'=SUM(A1)", "'-N")
    assert (first["read_bytes_per_s"], first["read_highest"], second["read_bytes_per_s"]) == ("1.5", "2.0", "")
    assert (second["seconds_after_start"], second["begin_utc"]) == ("1.0", "1970-01-01T00:00:11.000Z")
    assert (third["record"], third["number"], third["usually_s"]) == ("phase", "1", "")
