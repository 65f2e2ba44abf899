"""One component of a layer on one axis: its sums, its extremes, names with slashes, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import questions_site as site
from fairlead.core.errors import UsageError
from fairlead.core.model.tables import PORT, build_table_batch
from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.question_catalog import answer_question, parse_question_parameters


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """A small lake."""
    folder: Path = tmp_path_factory.mktemp("component")
    lake = site.build(folder)
    minutes = 5
    site.put(
        lake,
        build_table_batch(
            PORT,
            {
                "ts_ns": [site.NOW - (k + 2) * 60 * site.S for k in range(minutes)],
                "interval_ns": [60 * site.S] * minutes,
                "switch": ["sw"] * minutes,
                "port": ["n1"] * minutes,
                "tx_bytes": [site.MIB] * minutes,
                "rx_bytes": [0] * minutes,
            },
        ),
        stream="ports",
    )
    return Asking(lake)


def component(asking: Asking, layer: str, **words: str) -> Any:
    return answer_question(
        asking, "layer_component", layer, parse_question_parameters("layer_component", words), Sight(), site.NOW
    )


def test_the_points_add_up_to_the_sums(asking: Asking) -> None:
    look = component(asking, "target", id="OST0", last="15m")
    lane = look.lanes[0]
    assert lane.layer == "target"
    assert look.points == len(lane.write_bytes_per_s.mean) == len(look.queue_max) == len(look.wait_mean_ns)
    written = sum(value or 0 for value in lane.write_bytes_per_s.mean) * look.step_ns / 1e9
    assert written == pytest.approx(look.row.sums.write_bytes, rel=0.01)
    assert look.peak_unit == "bytes/s"


def test_coarser_points_hold_the_lowest_and_highest(asking: Asking) -> None:
    line = component(asking, "target", id="OST0", last="15m", points="20").lanes[0].write_bytes_per_s
    assert line.low
    for low, mean, high in zip(line.low, line.mean, line.high, strict=True):
        assert (low is None) == (mean is None) == (high is None)
        if low is not None and mean is not None and high is not None:
            assert low <= mean <= high


def test_the_hours_tell_the_busiest_minute_and_nothing_where_nothing_is_known(asking: Asking) -> None:
    look = component(asking, "target", id="OST0", last="15m")
    known = [value for value in look.hours if value is not None]
    assert 0 < len(known) < len(look.hours)
    assert max(known) <= (look.row.peak_bytes_per_s or 0)


def test_a_name_may_hold_a_slash(asking: Asking) -> None:
    look = component(asking, "network", id="sw/n1", last="15m")
    assert look.id == "sw/n1"
    assert look.lanes


def test_what_is_not_there_is_refused(asking: Asking) -> None:
    with pytest.raises(UnknownNameError):
        component(asking, "target", id="OST77", last="15m")
    with pytest.raises(UsageError, match="no component named"):
        component(asking, "target", last="15m")
    with pytest.raises(UsageError, match="no layer"):
        component(asking, "moon", id="OST0")
