"""Ranking what explains slow runs: made causes, and the published ground truth."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairlead.core.errors import InputError
from fairlead.core.model.repeated_runs import Runs
from fairlead.explain.analysis.factors import FactorLimits, rank_slow_run_factors
from fairlead.see.sources.tokio_runs import read_tokio_runs

QUICK = FactorLimits(shuffles=4)


def made(seed: int = 1, count: int = 600) -> Runs:
    """Runs that are slow where the load of others is beyond 0.8; a cause that sets in at a threshold."""
    rng = np.random.default_rng(seed)
    load, noise = rng.uniform(0, 1, count), rng.lognormal(0, 0.05, count)
    group = rng.integers(0, 4, count)
    performance = (group + 1) * 100.0 * noise * np.where(load > 0.8, 0.4, 1.0)
    performance[rng.integers(0, count, 3)] *= 0.01  # runs that failed in part
    return Runs(
        performance=performance,
        group=group.astype(np.int64),
        time=np.arange(count, dtype=np.float64),
        factors={"load": load, "idle": rng.uniform(0, 1, count), "missing": np.full(count, np.nan)},
    )


def test_the_cause_is_first_and_the_others_are_worth_nothing() -> None:
    found = rank_slow_run_factors(made(), QUICK)
    assert found is not None
    assert found.ranked[0].family == "load"
    assert found.auc > 0.95
    assert "missing" not in {one.family for one in found.ranked}
    assert abs({one.family: one.loss for one in found.ranked}["idle"]) < 0.05


def test_the_order_of_runs_does_not_matter() -> None:
    runs = made()
    other = np.random.default_rng(2).permutation(len(runs.time))
    shuffled = Runs(
        performance=runs.performance[other],
        group=runs.group[other],
        time=runs.time[other],
        factors={name: values[other] for name, values in runs.factors.items()},
    )
    assert rank_slow_run_factors(shuffled, QUICK) == rank_slow_run_factors(runs, QUICK)


def test_without_slow_runs_nothing_is_explained() -> None:
    runs = made()
    assert rank_slow_run_factors(replace(runs, performance=np.full(600, 5.0)), QUICK) is None
    assert rank_slow_run_factors(replace(runs, performance=np.full(600, np.nan)), QUICK) is None


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("file", "least", "baseline"), [("mira-summaries.csv.gz", 0.85, 0.56), ("sample_summaries.csv.gz", 0.92, 0.91)]
)
def test_published_runs_are_explained_by_the_published_factor(
    shared_data: Path, file: str, least: float, baseline: float
) -> None:
    found = rank_slow_run_factors(read_tokio_runs(shared_data / "tokio-abcutils" / file), QUICK)
    assert found is not None
    assert found.ranked[0].family == "bandwidth contention"
    assert found.auc >= least
    assert found.baseline_auc <= baseline
    assert found.auc > found.baseline_auc


@pytest.mark.parametrize(
    "content",
    [b"", b"a,b\n1,2\n", b"\x00\xff\n\x00", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9]],
    ids=["empty", "other", "bytes", "cut"],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ("runs.csv.gz" if content[:2] == b"\x1f\x8b" else "runs.csv")
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_tokio_runs(path)
