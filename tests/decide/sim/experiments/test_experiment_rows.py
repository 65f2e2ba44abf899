"""Known results of small experiments: a change here is a change of the model, and raises `cases.MODEL`."""

from __future__ import annotations

import pytest

from fairlead.decide.sim.experiments import experiment_spec, pieces
from fairlead.decide.sim.workloads.profiles import count_best_profiles, read_forge_profiles

SPEC = """
name = "golden"
allocations = ["best-bandwidth", "n-sys", "static"]
placements = ["greedy-non-clairvoyant"]
sets = 1
[workload]
kind = "published"
applications = [10]
loads = [0.4, 1.2]
[machine]
resources = 5
cores = 120
"""
KNOWN = {
    ("best-bandwidth", 0.4): (0.46298677071924466, 3.3013221577289658, 0.19355841437845553, 0.5968689810007101, 4015),
    ("n-sys", 0.4): (0.46298677071924466, 2.9453112300378583, 0.1730615412422432, 0.6940960350152083, 2611),
    ("static", 0.4): (0.46298677071924466, 5.226664052730436, 0.24578635082956676, 0.7025729434165218, 2132),
    ("best-bandwidth", 1.2): (1.2133873764252505, 5.7910759163518275, 0.4324220339459296, 0.11369105688045344, 2102),
    ("n-sys", 1.2): (1.2133873764252505, 4.553052183619115, 0.3332679648587193, 0.3149378415603109, 1644),
    ("static", 1.2): (1.2133873764252505, 4.553052183619115, 0.3332679648587193, 0.3149378415603109, 1644),
}
"""Allocation and load to load(pi_sys), mean slowdown, idle time, spread of occupancy, events."""


def test_a_small_experiment_gives_the_known_rows() -> None:
    made = [
        row
        for one in pieces.cut_pieces(pieces.list_piece_keys([experiment_spec.read_experiment_spec(SPEC, "x")]))
        for row in pieces.simulate_piece(one)
    ]
    found = {
        (row.policy.partition("+")[0], row.load): (row.load_sys, row.slowdown_mean, row.idle, row.spread, row.events)
        for row in made
    }
    assert found.keys() == KNOWN.keys()
    for name, known in KNOWN.items():
        assert found[name] == pytest.approx(known, rel=1e-9), name


def test_forges_best_counts_are_the_published_ones_with_the_largest_of_repetitions() -> None:
    assert count_best_profiles(read_forge_profiles("max")) == {0: 62, 1: 12, 2: 83, 4: 15, 8: 17}
