"""Rated devices: one queue for all who share them, slower while slowed; and windows of health for short incidents."""

from __future__ import annotations

from pathlib import Path

import pytest

import rated_forwarders as rated
from fairlead.core.clock import monotonic_ns
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.health_round import build_health_round_limits
from fairlead.kit.demo.device import Pace, write_device_pace
from rated_forwarders import SharedDevices, make_devices


def test_devices_are_shared_and_slowed_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(rated, "sleep_s", slept.append)
    make_devices(tmp_path / "devices", 2)
    write_device_pace(tmp_path / "pace", {"a": 1.0, "b": 4.0})
    one, other = (SharedDevices(tmp_path / "devices", ("a", "b"), Pace(tmp_path / "pace")) for _ in range(2))
    began = monotonic_ns()
    one.serve("a", 1000e9, began)
    other.serve("a", 1000e9, began)
    one.serve("b", 1000e9, began)
    one.close()
    other.close()
    assert slept == pytest.approx([1000.0, 2000.0, 4000.0], abs=30.0)


@pytest.mark.parametrize(("minutes", "window_s"), [(60.0, 60.0), (2.0, 60.0), (1.0, 30.0), (0.1, 5.0)])
def test_an_incident_spans_two_windows_whatever_its_least_duration(minutes: float, window_s: float) -> None:
    limits = build_health_round_limits(Diagnosis(least_minutes=minutes))
    assert (limits.minimum_s, limits.window_s) == (minutes * 60.0, window_s)
