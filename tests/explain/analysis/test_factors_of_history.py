"""What explains slow phases of a lake's own history, by the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairlead.cli.main import main
from fairlead.core.model.tables import PHASE, ROLLUP, build_table_batch
from fairlead.store.lake import Lake

MINUTE_NS, DAY_NS = 60_000_000_000, 86_400_000_000_000
BEGIN_NS = 20_000 * DAY_NS
MINUTES = 2_000


def history(folder: Path) -> Path:
    """A lake of 400 phases of 2 minutes; where others move ten times as much, a phase has a third of its rate."""
    rng = np.random.default_rng(5)
    root = folder / "lake"
    others = np.where(rng.random(MINUTES // 5).repeat(5) > 0.85, 10e9, 1e9)
    ts = BEGIN_NS + np.arange(MINUTES) * MINUTE_NS
    at = np.sort(rng.choice(np.arange(1, MINUTES // 5 - 1), 390, replace=False)) * 5 + 1
    rate = 50e6 * np.where(others[at] > 5e9, 0.33, 1.0) * rng.lognormal(0, 0.04, len(at))
    count = len(at)
    phases = build_table_batch(
        PHASE,
        {
            "cluster": ["c"] * count,
            "job_id": [str(n) for n in range(count)],
            "job_start_ns": ts[at],
            "number": np.zeros(count, np.int32),
            "kind": ["write"] * count,
            "start_ns": ts[at],
            "end_ns": ts[at] + 2 * MINUTE_NS,
            "active_ns": np.full(count, 2 * MINUTE_NS),
            "bytes": (rate * 120).astype(np.int64),
            "rate_per_s": rate,
            "user": ["ada"] * count,
            "program": ["cast"] * count,
            "nodes_count": np.full(count, 4),
            "made_ns": ts[at],
            "analysis_version": np.ones(count, np.int64),
        },
    )
    own = np.zeros(MINUTES)
    own[at] += rate * 60
    own[at + 1] += rate * 60
    loads = [
        build_table_batch(
            ROLLUP,
            {
                "ts_ns": ts,
                "interval_ns": np.full(MINUTES, MINUTE_NS),
                "kind": [kind] * MINUTES,
                "id": [name] * MINUTES,
                "layer": [layer] * MINUTES,
                "write_bytes": moved,
                "metadata_ops": names,
            },
        )
        for kind, name, layer, moved, names in (
            ("target", "OST0000", "target", (others + own).astype(np.int64), None),
            ("mds", "MDT0000", "metadata", None, rng.integers(0, 9_000, MINUTES)),
        )
    ]
    with Lake.open(root, create=True).open_writer("main") as writer:
        batch = writer.open_batch("made", source="test")
        for rows in (phases, *loads):
            batch.add(rows)
        assert batch.commit()
    return root


def test_the_load_of_others_explains_the_slow_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = history(tmp_path)
    asked = ["history", "explain", "--lake", str(root), "--from", "2024-10-04", "--to", "2024-10-07"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "fairlead.factors/1"
    (found,) = told["explained"].values()
    assert found["ranked"][0]["family"] == "bandwidth contention"
    assert found["auc"] > 0.95
    assert main(asked) == 0
    assert "bandwidth contention" in capsys.readouterr().out
    assert main([*asked, "--user", "nobody"]) == 0
    assert "unknown: too few runs" in capsys.readouterr().out


def test_files_and_a_lake_together_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.csv").write_text("a,b\n")
    assert main(["history", "explain", str(tmp_path / "runs.csv"), "--lake", str(tmp_path)]) != 0
    assert "exclude each other" in capsys.readouterr().err
