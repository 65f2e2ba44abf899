"""The load maker: a described machine at work, and what all its nodes would report of it. Simulated, from a seed.

`play_small_machine(seed)`, `play_two_layer_machine(seed)` and `play_taihulight_machine(seed)` give a `Play`;
`play.build_tables()` are Arrow tables by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.decide.sim import platform
from fairlead.decide.sim.faults import Fault
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.population import Mix

SMALL = Mix(
    nontrivial_share=0.75,
    high_mdops_share=0.05,
    volume_scale=0.25,
    time_scale=0.02,
    shortest_s=30.0,
    longest_s=240.0,
    arrivals_per_s=0.1,
)
"""The population bent so that ten minutes of a small site show every kind of job."""

TAIHULIGHT = Mix(arrivals_per_s=0.0142, backlog=1500)
"""The published population: 1,460,662 jobs in 39 months (Beacon), and as many waiting as fill the machine."""

__all__ = [
    "SMALL",
    "TAIHULIGHT",
    "Fault",
    "Mix",
    "Play",
    "play_small_machine",
    "play_taihulight_machine",
    "play_two_layer_machine",
]


def play_small_machine(seed: int = 7, seconds: int = 600, faults: Sequence[Fault] = (), mix: Mix = SMALL) -> Play:
    """64 nodes, 4 forwarders, 8 targets, 1 MDS."""
    return Play(platform.build_small_platform(), mix, seed, seconds, faults=faults)


def play_two_layer_machine(seed: int = 7, seconds: int = 600, faults: Sequence[Fault] = (), mix: Mix = SMALL) -> Play:
    """128 nodes without forwarders, 16 targets, 2 MDS."""
    return Play(platform.build_two_layer_platform(), mix, seed, seconds, faults=faults)


def play_taihulight_machine(
    seed: int = 7, seconds: int = 3600, faults: Sequence[Fault] = (), mix: Mix = TAIHULIGHT
) -> Play:
    """40,960 nodes, 288 forwarders, 864 targets, 2 MDS."""
    return Play(platform.build_taihulight_platform(), mix, seed, seconds, faults=faults)
