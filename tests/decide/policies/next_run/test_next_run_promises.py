"""Predictors whatever the sequence: names of behaviours and of categories do not matter, nor do other categories."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.decide.policies.next_run.contract import Category, Run
from fairlead.decide.registered_policies import build_registered_predictor
from predictor_accuracy import measure_predictor_accuracy

A: Category = ("ada", "wrf", 64)
B: Category = ("ben", "cam", 8)
SEQUENCES = st.lists(st.integers(0, 4), min_size=1, max_size=60)


@pytest.mark.parametrize("name", ["last-run", "most-frequent", "n-gram"])
@settings(deadline=None, max_examples=60)
@given(sequence=SEQUENCES, others=SEQUENCES, names=st.permutations(range(5)))
def test_only_the_order_of_its_own_runs_matters(
    name: str, sequence: list[int], others: list[int], names: list[int]
) -> None:
    plain, beside, renamed = (
        build_registered_predictor(name),
        build_registered_predictor(name),
        build_registered_predictor(name),
    )
    plain.observe(A, sequence)
    for at, one in enumerate(sequence):
        beside.observe(A, (one,))
        beside.observe(B, others[at : at + 1])
    renamed.observe(A, [names[one] for one in sequence])
    expected = plain.predict(A)
    assert beside.predict(A) == expected
    assert expected.behaviour in sequence
    assert renamed.predict(A).behaviour == names[expected.behaviour]
    assert 0.0 <= expected.sure <= 1.0


@settings(deadline=None, max_examples=40)
@given(sequence=SEQUENCES, times=st.integers(3, 8))
def test_a_repeated_sequence_is_found_out(sequence: list[int], times: int) -> None:
    # With contexts of six runs every cycle of up to six different steps is known after it has come round twice.
    cycle = list(dict.fromkeys(sequence))
    runs = [Run(A, one, float(n), n + 0.5) for n, one in enumerate(cycle * (times + 8))]
    found = measure_predictor_accuracy(build_registered_predictor("n-gram"), runs, skip=len(cycle) * 8)
    assert found.right == found.asked == len(cycle) * times
