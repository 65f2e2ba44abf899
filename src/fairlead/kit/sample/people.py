"""Who works on the sample site: users, projects, programs. Drawn once from the site's seed.

Not here: when their jobs run (`month`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead.core.model.site import Site
from fairlead.kit.testing.machine.population import Mix, Program, draw_population_programs
from fairlead.kit.testing.machine.season import SMALL_SEASON

PROJECTS = {
    "climate": ("alice", "dora", "henry"),
    "plasma": ("bob", "erika"),
    "genome": ("frank", "gita", "ines"),
    "ocean": ("jonas", "kim", "lena"),
    "lattice": ("mario", "nadia"),
}
"""Projects and the users in them."""
ACCOUNTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("alice", "user", ("climate",)),
    ("bob", "user", ("plasma",)),
    ("carol", "support", ()),
    ("admin", "admin", ()),
)
"""Accounts offered on the sample site: name, role, projects."""
MIX = replace(
    SMALL_SEASON,
    time_scale=0.35,
    shortest_s=240.0,
    longest_s=3 * 3600.0,
    largest_share=0.25,
    volume_scale=0.2,
    high_mdops_share=0.012,
    mixed_share=0.02,
    mode_jobs=(11_000, 2_500, 900, 12_000),
    nontrivial_share=0.86,
    arrivals_per_s=1.0,
)
"""The published population on a site of 64 nodes: jobs of minutes to hours. `month` sets when they are handed in."""


def list_sample_people() -> list[tuple[str, str]]:
    """Users with their projects, in order."""
    return [(user, project) for project, members in PROJECTS.items() for user in members]


def draw_people_programs(machine: Site, seed: int, mix: Mix = MIX) -> dict[str, list[Program]]:
    """The programs of the site, by mode, each of one of its users."""
    drawn = draw_population_programs(machine, mix, np.random.default_rng([seed, 21]))
    who = list_sample_people()
    rng = np.random.default_rng([seed, 31])

    def owned(program: Program) -> Program:
        user, project = who[int(rng.integers(len(who)))]
        return replace(program, user=user, project=project)

    return {mode: [owned(program) for program in some] for mode, some in drawn.items()}
