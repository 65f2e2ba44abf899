"""Settings of diagnosis (`[diagnosis]` of the server's file) and limits made of them. Not here: reading the file."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

LOOKED_INTO = 0.3
"""As in `analysis.anomalies.expected.CANDIDATES`, which a settings file needs not load."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[diagnosis]`: what is told of jobs, components and the system, by the analysis loop."""

    on: bool = True
    """Whether phases are judged and findings told."""
    confidence: float = LOOKED_INTO
    """Least confidence that a phase was slower than chance makes it, from 0 to 1, for its cause to be looked
    for; without a cause it is told from 0.5 on."""
    least_lost_s: float = 5.0
    """Phases that lost less time tell nothing..."""
    least_lost_share: float = 0.2
    """... nor do those that lost less of the time they usually take."""
    share: float = 0.3
    """A component that reaches less than this share of its known peak while it is asked for more is sick..."""
    least_minutes: float = 60.0
    """... after so many minutes."""
    every_s: float = 60.0
    """Time between two looks at the components."""
    system_every_s: float = 3600.0
    """Time between two looks at the whole system."""


@dataclass(frozen=True)
class Limits:
    """What of the judged phases is told."""

    confidence: float = LOOKED_INTO
    least_lost_s: float = 5.0
    least_lost_share: float = 0.2


def build_diagnosis_limits(settings: Diagnosis) -> Limits:
    """The limits these settings say."""
    return Limits(settings.confidence, settings.least_lost_s, settings.least_lost_share)
