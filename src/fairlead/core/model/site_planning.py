"""What a site says of planning in its file: counts that may be granted, pools, what is barred to whom.

Not here: the rest of the site file (`site`), the components themselves, live state (`decide.planning`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

_Rate = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(gt=0, le=1 << 16)]
_Counts = Annotated[list[_Count], msgspec.Meta(min_length=1)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class SitePool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OST pool the site has: its name and its targets, a host list."""

    name: _Text
    targets: _Text


class Exclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Components (a host list of forwarders and targets) and pools that jobs may not use. `users`, `programs`: whose
    jobs; none named: everyone's. `but_users`: who may all the same. `why`: shown with a refusal."""

    why: _Text
    components: str = ""
    pools: list[str] = []
    users: list[str] = []
    programs: list[str] = []
    but_users: list[str] = []

    def matches(self, user: str, program: str) -> bool:
        """Whether a job of this user and program is kept away."""
        if user in self.but_users:
            return False
        own = program.split(" ")[0].rsplit("/", 1)[-1]
        return (not self.users or user in self.users) and (
            not self.programs or program in self.programs or own in self.programs
        )


class SitePlanning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the site is planned for. What is left out has the usual values of `Site`."""

    forwarder_counts: _Counts = msgspec.field(default_factory=lambda: [1, 2, 4, 8])
    stripe_counts: _Counts = msgspec.field(default_factory=lambda: [1, 2, 4, 8])
    default_stripes: _Count = 1
    client_bandwidth_bytes_per_s: _Rate | None = None
    forwarder_buffer_bytes: _Rate | None = None
    pools: list[SitePool] = []
    barred: list[Exclusion] = []
