"""Advice on findings about jobs promises what earlier runs in the lake show, and nothing of later ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from fairlead.core.model.tables import JOBS, PHASE, build_table_batch
from fairlead.explain.diagnosing.job_advice import Advising
from fairlead.explain.questions.past_phases import History
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.store.lake import Lake

H = 3600 * 10**9
NOW = 1_700_000_000 * 10**9


def phases(jobs: list[str], *, user: str, program: str, mode: str, rate: float, first_ns: int) -> pa.RecordBatch:
    n = len(jobs)
    starts = [first_ns + k * H for k in range(n)]
    return build_table_batch(
        PHASE,
        {
            "cluster": ["c"] * n,
            "job_id": jobs,
            "job_start_ns": starts,
            "number": [0] * n,
            "kind": ["write"] * n,
            "start_ns": starts,
            "end_ns": [start + H // 2 for start in starts],
            "active_ns": [H // 2] * n,
            "bytes": [10**12] * n,
            "rate_per_s": [rate * (1 + 0.01 * k) for k in range(n)],
            "mode": [mode] * n,
            "user": [user] * n,
            "program": [program] * n,
            "nodes_count": [16] * n,
            "made_ns": [NOW] * n,
            "analysis_version": [1] * n,
        },
    )


def test_the_culprits_owner_is_told_what_his_own_other_runs_reached(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    names = [f"j{n}" for n in range(5)]
    past = [
        phases([f"a{name}" for name in names], user="bob", program="nto1", mode="N-1", rate=1e8, first_ns=NOW - 90 * H),
        phases([f"b{name}" for name in names], user="bob", program="nto1", mode="N-N", rate=4e8, first_ns=NOW - 80 * H),
        phases(
            [f"c{name}" for name in names], user="alice", program="app", mode="N-N", rate=2e8, first_ns=NOW - 70 * H
        ),
        phases([f"d{name}" for name in names], user="bob", program="nto1", mode="N-N", rate=9e9, first_ns=NOW + H),
    ]
    job = build_table_batch(
        JOBS,
        {
            "cluster": ["c"],
            "job_id": ["99"],
            "user": ["bob"],
            "program": ["nto1"],
            "start_ns": [NOW - H],
            "nodes_count": [16],
        },
    )
    with lake.open_writer("main") as writer:
        batch = writer.open_batch("past")
        for rows in (*past, job):
            batch.add(rows)
        batch.commit()
    victim = phases(["42"], user="alice", program="app", mode="N-N", rate=5e7, first_ns=NOW)
    mine = pa.Table.from_batches([victim])
    advise = Advising(lake, mine, History(lake, mine), load_advice_set())
    facts = {"job": "42", "culprit": "99", "something_else": 1}
    said = advise("job.interference", "n_to_1", facts, "forwarder")
    told = {one.audience: one.text for one in reversed(said)}
    assert told["culprit"].endswith("Your N-N runs of this program at this scale get 4.0x (5 runs).")
    assert told["user"].endswith("Your earlier runs like it get 4.1x (5 runs).")
    stranger = advise("job.interference", "n_to_1", {"job": "42", "culprit": "nobody"}, "forwarder")
    assert not any("Your N-N" in one.text for one in stranger)
    assert all("Your" not in one.text for one in advise("job.interference", "n_to_1", {}, None))
