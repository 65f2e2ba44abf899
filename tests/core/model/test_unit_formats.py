"""Human formatting: binary sizes, never zero for the unknown."""

from __future__ import annotations

import math

import pytest

from fairlead.core.model import unit_formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1 << 30, "1 GiB"),
        (1023.9 * 1024, "1 MiB"),
        (5 << 50, "5 PiB"),
        (None, "—"),
        (math.nan, "—"),
        (math.inf, "—"),
    ],
)
def test_bytes(value: float | None, text: str) -> None:
    assert unit_formats.format_bytes(value) == text


def test_decimal_bytes_are_named_so() -> None:
    assert unit_formats.format_bytes(1_500_000_000, decimal=True) == "1.5 GB"
    assert unit_formats.format_bytes(1_500_000_000) == "1.4 GiB"
    assert unit_formats.format_bandwidth(1e9, decimal=True) == "1 GB/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2e-9, "2 ns"),
        (830e-6, "830 µs"),
        (0.012, "12 ms"),
        (3.42, "3.4 s"),
        (125, "2 min 05 s"),
        (11_400, "3 h 10 min"),
        (187_200, "2 d 4 h"),
        (-1.5, "-1.5 s"),
        (None, "—"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert unit_formats.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (9999, "9,999"), (10_000, "10 k"), (1_234_567, "1.2 M"), (0.5, "0.5"), (None, "—")]
)
def test_counts(value: float | None, text: str) -> None:
    assert unit_formats.format_count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0312, "0.0312"), (16.52, "16.5"), (2048, "2,048"), (2e6, "2 M"), (None, "—")]
)
def test_ratios(value: float | None, text: str) -> None:
    assert unit_formats.format_ratio(value) == text


def test_times() -> None:
    assert unit_formats.format_time(1_519_552_812_000_000_000) == "2018-02-25 10:00:12 UTC"
    assert unit_formats.format_time(None) == "—"
    assert "since 1970" in unit_formats.format_time(1 << 62) or "UTC" in unit_formats.format_time(1 << 62)
