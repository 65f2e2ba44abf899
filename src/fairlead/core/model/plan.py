"""A plan: what an arriving job gets, by names, with reasons; and the document of plans that one call prints as JSON.

What a site's own tools can carry out and what a checker can refuse. Not here: deciding (`policies.paths`), checking
(`policies.paths.checker`), commands (`planning.render`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairlead.core.errors import InputError, OversizeError

PLANS_SCHEMA = "fairlead.plan/1"
MOST_BYTES = 64 << 20
"""A document of plans is at most this long."""
MOST_PLANS = 10_000
_Time = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
UNSTATED_NS = 0
"""`state_ns` of a plan that does not say of when the state it rests on is."""


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The job a plan is for. `nodes`: names where they are known already, in the scheduler's order."""

    job_id: str
    user: str = ""
    program: str = ""
    node_count: int = 1
    nodes: list[str] = []
    processes: int | None = None
    cores: float | None = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was expected of the job, and what that rests on (`basis`, `runs_known` earlier runs). Null: not known."""

    basis: str
    runs_known: int = 0
    mode: str | None = None
    io_processes: int | None = None
    read_bytes: float | None = None
    write_bytes: float | None = None
    bandwidth_bytes_per_s: float | None = None
    mdops: float | None = None
    request_bytes: float | None = None
    compute_s: float | None = None


class PlanReason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`what` was decided (a field of the plan) and `why`."""

    what: str
    why: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one job gets. Empty lists and nulls: nothing is changed, the site's default holds.

    `forwarders`, `targets`: names. `isolated`: nobody else is to be put on these forwarders. `default_forwarders`: what
    the site's map gives its nodes. `pool`: name of the OST pool of these targets, `pool_exists`: whether the site has
    it already. `stripe_bytes`, `prefetch_bytes`, `dom_bytes`: bytes; `dom_bytes` are the first of every file, on the
    metadata target. `metadata_share`: P of P:(1-P) on the forwarders, `metadata_ops_per_s`: what that share comes to.
    `hints`: MPI-IO hints for the job. `state_ns`: the live state it rests on is of then. `missing`: what was not known.
    """

    job: PlannedJob
    policy: str
    state_ns: int = UNSTATED_NS
    forwarders: list[str] = []
    isolated: bool = False
    default_forwarders: list[str] = []
    file_system: str | None = None
    mount: str | None = None
    targets: list[str] = []
    pool: str | None = None
    pool_exists: bool = False
    stripe_count: int | None = None
    stripe_bytes: int | None = None
    prefetch_bytes: int | None = None
    metadata_share: float | None = None
    metadata_ops_per_s: float | None = None
    dom_bytes: int | None = None
    hints: dict[str, str] = {}
    expected: Expectation
    reasons: list[PlanReason] = []
    missing: list[str] = []

    @property
    def changes(self) -> bool:
        """Whether anything differs from the site's default."""
        touched = (self.stripe_count, self.stripe_bytes, self.prefetch_bytes, self.metadata_share, self.dom_bytes)
        moved = bool(self.forwarders) and set(self.forwarders) != set(self.default_forwarders)
        return moved or bool(self.targets or self.pool) or any(value is not None for value in touched)


class Plans(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Plans of jobs that arrive together, in their order: each was made knowing those before it. `made_ns`: when."""

    schema: str = PLANS_SCHEMA
    policy: str
    state_ns: _Time
    made_ns: _Time
    plans: list[Plan] = []
    missing: list[str] = []


def read_plan_document(content: bytes, where: str) -> Plans:
    """A document of plans from JSON. Raises InputError naming the key, OversizeError."""
    if len(content) > MOST_BYTES:
        raise OversizeError(f"longer than {MOST_BYTES >> 20} MiB", where=where, remedy="check fewer plans at once")
    try:
        found = msgspec.json.decode(content, type=Plans, strict=True)
    except RecursionError as fault:
        raise InputError("nested too deeply", where=where, remedy="see the reference page of plans") from fault
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise InputError(
            f"not a plan file: {fault}", where=where, remedy="give what fairlead plan --json printed"
        ) from fault
    if found.schema != PLANS_SCHEMA:
        raise InputError(f"its schema is {found.schema!r}", where=where, remedy=f"this fairlead reads {PLANS_SCHEMA}")
    if len(found.plans) > MOST_PLANS:
        raise OversizeError(f"{len(found.plans)} plans", where=where, remedy=f"give at most {MOST_PLANS} at once")
    return found
