"""Floors of the whole diagnosis on the labelled machine: a tiny season at once, the table's when there is time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.explain.analysis.anomalies.expectation import CANDIDATES
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis, Limits

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "diagnosis.py"
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from diagnosis import PARTS, console, whole
from _diagnosis_scenes import Plays
from fairlead.kit.testing.machine.season import build_small_season
from fairlead.kit.testing.machine.views import FULL
console.quiet = True
seeds, plays, seconds = json.loads(sys.argv[2])
print(json.dumps(whole([Plays.of(build_small_season(seed, plays, seconds), FULL, None) for seed in seeds], "", PARTS)))
"""


def _figures(seeds: list[int], plays: int, seconds: int) -> dict[str, dict[str, dict[str, float]]]:
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(BENCHMARK.parent), json.dumps([seeds, plays, seconds])],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, dict[str, float]]] = json.loads(told.stdout)
    return found


def test_the_service_asks_about_the_same_phases() -> None:
    assert Limits().confidence == Diagnosis().confidence == CANDIDATES.probability


def test_a_short_season_is_told_mostly_right() -> None:
    found = _figures([2], 2, 1800)
    assert found["detectors"]["whole diagnosis, lost >= 50 %"]["precision"] >= 0.9
    assert found["detectors"]["whole diagnosis, lost >= 50 %"]["recall"] >= 0.5


@pytest.mark.slow
def test_the_floors_of_the_table_hold_on_a_tuning_seed() -> None:
    found = _figures([2], 8, 3600)
    whole, culprits = found["detectors"]["whole diagnosis, lost >= 50 %"], found["culprits"]
    assert whole["f1"] >= 0.9
    assert whole["precision"] >= 0.9
    assert culprits["top1 share"] >= 0.9
    assert culprits["top3 share"] >= 0.97
    assert culprits["category share"] >= 0.85
