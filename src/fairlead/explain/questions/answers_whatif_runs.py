"""What-if runs as the pages see them: what was asked for, how far it is, what came out; the policies there are.

Not here: the answer of a run (`answers_whatif`).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from fairlead.explain.questions.answers import Answer
from fairlead.explain.questions.answers_whatif import WhatIf

RunState = Literal["queued", "running", "done", "failed", "cancelled"]
_Word = Annotated[str, msgspec.Meta(max_length=64)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class WhatIfAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to replay: as the options of `fairlead whatif`. `since`: a time or an age (30d); `last`: an age before
    `until`. Without `policies` the usual ones, or the present way where another capacity is named."""

    since: _Word = ""
    until: _Word = ""
    last: _Word = ""
    policies: Annotated[list[Annotated[str, msgspec.Meta(max_length=128)]], msgspec.Meta(max_length=12)] = []
    layer: Literal["", "forwarders", "targets", "both"] = ""
    forwarders: _Count | None = None
    targets: _Count | None = None
    price: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0


class WhatIfProgress(Answer, frozen=True, kw_only=True):
    """How far a run is. `step`: starting, reading, learning, replaying or checking; `replay` of `replays` is under way;
    `share` of all is done."""

    step: str
    text: str
    share: float
    jobs: int | None = None
    replay: int | None = None
    replays: int | None = None


class WhatIfRun(Answer, frozen=True, kw_only=True):
    """One run. `command`: what gives the same on a command line; `before`: runs that come first, while it is queued."""

    id: str
    owner: str
    state: RunState
    asked: WhatIfAsked
    from_ns: int
    to_ns: int
    asked_ns: int
    started_ns: int | None = None
    ended_ns: int | None = None
    command: str
    before: int | None = None
    progress: WhatIfProgress | None = None
    headline: str | None = None
    jobs: int | None = None
    error: str | None = None
    remedy: str | None = None


class WhatIfRunPage(Answer, frozen=True, kw_only=True):
    """One run with its answer, once it is done."""

    schema: str = "fairlead.whatif-run/1"
    run: WhatIfRun
    answer: WhatIf | None = None


class WhatIfRuns(Answer, frozen=True, kw_only=True):
    """Runs of the reader (of everybody, for administrators), latest first. `kept`: so many that are over are kept."""

    schema: str = "fairlead.whatif-runs/1"
    runs: list[WhatIfRun]
    kept: int


class PolicyLine(Answer, frozen=True, kw_only=True):
    """A policy, or one half of a pair. `about`: what it does, in a sentence."""

    name: str
    title: str
    about: str


class WhatIfPolicies(Answer, frozen=True, kw_only=True):
    """What can be replayed. A pair is written ALLOCATION+PLACEMENT: how many components a job gets, and which.
    `usual`: what is replayed where none is named."""

    schema: str = "fairlead.whatif-policies/1"
    policies: list[PolicyLine]
    allocations: list[PolicyLine]
    placements: list[PolicyLine]
    usual: list[str]
