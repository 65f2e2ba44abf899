"""Behaviours of runs, predictors of the next one, and how they are scored: nothing is known before its time."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.decide.policies.next_run.behaviours import Behaviours, classify_run_behaviours, compute_behaviour_figures
from fairlead.decide.policies.next_run.contract import Category, Prediction, Predictor, Run
from fairlead.decide.policies.next_run.learned import LearnedPredictor
from fairlead.decide.policies.next_run.ngram import NGram
from fairlead.decide.policies.next_run.simple import LastRun, MostFrequent
from fairlead.decide.registered_policies import PREDICTORS, build_registered_predictor
from predictor_accuracy import measure_predictor_accuracy

A: Category = ("ada", "wrf", 64)
B: Category = ("ben", "cam", 8)
GB = 1e9


def in_a_row(behaviours: list[int], category: Category = A, first: int = 0) -> list[Run]:
    """Runs that begin when the one before has ended."""
    return [Run(category, one, first + n, first + n + 0.5) for n, one in enumerate(behaviours)]


def accuracy(what: Predictor, runs: list[Run], skip: int = 0) -> float:
    found = measure_predictor_accuracy(what, runs, skip).accuracy
    assert found is not None
    return found


@pytest.mark.parametrize("name", PREDICTORS)
def test_of_what_was_never_seen_nothing_is_predicted(name: str) -> None:
    one = build_registered_predictor(name)
    one.observe(B, (3, 3))
    assert one.predict(A) == Prediction(None, 0.0, "never seen")


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_single_run_and_a_constant_sequence(name: str) -> None:
    one = build_registered_predictor(name)
    one.observe(A, (4,))
    assert one.predict(A).behaviour == 4
    one.observe(A, [4] * 30)
    assert one.predict(A).behaviour == 4
    assert one.predict(A).sure > 0.9


@pytest.mark.parametrize("name", PREDICTORS)
def test_predicting_changes_nothing_and_is_the_same_again(name: str) -> None:
    rng = np.random.default_rng(5)
    first, second = build_registered_predictor(name), build_registered_predictor(name)
    for number in range(200):
        category = A if rng.random() < 0.6 else B
        behaviour = int(rng.choice([0, 0, 1, 2]))
        first.observe(category, (behaviour,))
        second.observe(category, (behaviour,))
        if number % 50 == 0:
            first.predict(A)
    assert first.predict(A) == second.predict(A)
    assert first.predict(B) == second.predict(B)


def test_last_run_and_most_frequent() -> None:
    last, often = LastRun(), MostFrequent()
    for one in (last, often):
        one.observe(A, (1, 1, 2, 1, 3))
    assert last.predict(A).behaviour == 3
    assert last.predict(A).sure == pytest.approx((1 + 1) / (4 + 2))
    assert often.predict(A).behaviour == 1
    often.observe(A, (3, 3))
    assert often.predict(A).behaviour == 3  # three each: the one seen last


def test_the_n_gram_knows_a_cycle_the_others_cannot() -> None:
    runs = in_a_row([0, 0, 1, 0, 2] * 12)
    assert accuracy(NGram(), runs, skip=20) == 1.0
    assert accuracy(LastRun(), runs, skip=20) == pytest.approx(0.2)
    assert accuracy(MostFrequent(), runs, skip=20) == pytest.approx(0.6)


def test_the_n_gram_backs_off_where_there_is_no_pattern() -> None:
    rng = np.random.default_rng(1)
    runs = in_a_row(rng.choice([0, 1, 2, 3], 400, p=[0.7, 0.1, 0.1, 0.1]).tolist())
    assert accuracy(NGram(), runs, skip=50) > accuracy(LastRun(), runs, skip=50) + 0.05


def test_what_is_learned_from_one_category_serves_another() -> None:
    # Whatever came the time before last comes next: nobody has told of B what A has taught.
    one = LearnedPredictor()
    for start in range(12):
        one.observe((f"u{start}", "p", 4), [start, start + 1] * 12)
    one.observe(B, (7, 9, 7))
    assert one.predict(B).behaviour == 9
    assert "learned from" in one.predict(B).basis


def test_a_run_is_known_only_once_it_has_ended() -> None:
    # The second begins while the first still runs: nobody is asked about it.
    overlapping = [Run(A, 1, 0.0, 10.0), Run(A, 1, 5.0, 20.0), Run(A, 1, 15.0, 30.0)]
    found = measure_predictor_accuracy(LastRun(), overlapping)
    assert (found.runs, found.asked, found.right, found.possible) == (3, 1, 1, 1)
    # One that begins at the instant another ends does not know it.
    assert measure_predictor_accuracy(LastRun(), [Run(A, 1, 0.0, 5.0), Run(A, 1, 5.0, 6.0)]).asked == 0


def test_nothing_is_learned_from_what_comes_later() -> None:
    class Spy(LastRun):
        def __init__(self) -> None:
            super().__init__()
            self.heard: list[int] = []

        def observe(self, category: Category, behaviours: object) -> None:
            self.heard.extend(behaviours)  # type: ignore[arg-type]
            super().observe(category, behaviours)  # type: ignore[arg-type]

        def predict(self, category: Category) -> Prediction:
            assert set(self.heard) <= set(range(self.asked_at))
            return super().predict(category)

        @property
        def asked_at(self) -> int:
            return len(self.heard)

    rng = np.random.default_rng(3)
    start = np.sort(rng.uniform(0, 100, 60))
    end = start + rng.uniform(0.1, 30, 60)
    place = np.argsort(np.argsort(end))
    runs = [Run(A, int(p), s, e) for p, s, e in zip(place, start, end, strict=True)]
    spy = Spy()
    found = measure_predictor_accuracy(spy, [runs[i] for i in rng.permutation(60)])
    assert spy.heard == list(range(60))  # in the order of their ends
    assert found.right == 0
    assert found.asked > 30


def test_shares_are_of_who_was_asked() -> None:
    runs = [*in_a_row([0, 0, 1, 1]), *in_a_row([5], B, 10)]
    found = measure_predictor_accuracy(LastRun(), runs)
    assert (found.runs, found.asked, found.right, found.possible) == (5, 3, 2, 2)
    assert measure_predictor_accuracy(LastRun(), []).accuracy is None


def test_behaviours_are_classes_within_a_factor_of_two() -> None:
    runs = compute_behaviour_figures([1 * GB, 1.9 * GB, 2.1 * GB, 1 * GB], [10 * GB, 10 * GB, 10 * GB, 200 * GB])
    assert classify_run_behaviours([A] * 4, runs, np.arange(4.0)).tolist() == [0, 0, 1, 2]


def test_what_is_not_known_does_not_tell_runs_apart() -> None:
    runs = compute_behaviour_figures([1 * GB, np.nan, 1 * GB], [np.nan, 50 * GB, 50 * GB])
    assert classify_run_behaviours([A] * 3, runs, np.arange(3.0)).tolist() == [0, 0, 0]
    assert compute_behaviour_figures([0.0], [3.0])[0, :2].tolist() == [
        20.0,
        20.0,
    ]  # nothing and next to nothing are the same


def test_behaviours_never_change_as_runs_are_added() -> None:
    rng = np.random.default_rng(2)
    runs = compute_behaviour_figures(rng.lognormal(22, 3, 200), rng.lognormal(22, 3, 200))
    whole = classify_run_behaviours([A] * 200, runs, np.arange(200.0))
    assert classify_run_behaviours([A] * 80, runs[:80], np.arange(80.0)).tolist() == whole[:80].tolist()
    state = Behaviours()
    assert [state.place(A, run) for run in runs] == whole.tolist()
