"""Whether plans are sound: a check that shares nothing with the policies that make them. Pure.

Each rule is one function of the table `RULES` (one plan) or `TOGETHER` (all plans of a call); each violation names the
job, the field, the component and the reason. Not here: what would be better (policies), what a plan is (`model.plan`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from fairlead.core.model.plan import Plan
from fairlead.core.model.site import Layer, Site

STRIPE_UNIT = 64 << 10
"""Lustre: a stripe is a multiple of 64 KiB ..."""
STRIPE_LIMIT = 4 << 30
"""... and below 4 GiB."""
POOL_NAME_LENGTH = 15
"""Lustre: LOV_MAXPOOLNAME."""
DOM_LIMIT = 1 << 30
"""Lustre: the largest component on a metadata target."""
MOST_STRIPES = 2000
"""Lustre: the most stripes of a file."""
_WORD = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@:+/\[\],#-]{0,254}")
_POOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_HINT = re.compile(r"[A-Za-z0-9_]{1,64}")
_AHEAD_NS = 60 * 1_000_000_000
_SYSTEM = re.compile(r"(.+)-OST[0-9a-fA-F]{4}")


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Components and pools that some jobs may not use, and why. `concerns(user, program)`: whether they are kept from
    such a job."""

    components: frozenset[str]
    pools: frozenset[str]
    why: str
    concerns: Callable[[str, str], bool]


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What plans are checked against. `site` as it is, without what a policy was told besides. `reserved_for`:
    component → the job it is kept for. `nodes`: place of a node in `site.default_forwarder`."""

    site: Site
    now_ns: int
    barred: tuple[Reservation, ...] = ()
    reserved_for: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    alone: frozenset[str] = frozenset()
    """Forwarders that plans checked before in this call keep for their jobs."""

    @cached_property
    def forwarders(self) -> dict[str, int]:
        """Place of each forwarder."""
        return {name: at for at, name in enumerate(self.site.forwarders.names)}

    @cached_property
    def targets(self) -> dict[str, int]:
        """Place of each target."""
        return {name: at for at, name in enumerate(self.site.targets.names)}

    def count_usable(self, layer: Layer, plan: Plan) -> int:
        """How many components of a layer could be granted to the job of a plan."""
        job = plan.job
        kept = {
            name for rule in self.barred if rule.concerns(job.user, job.program) for name in rule.components
        } | self.alone
        owner = self.reserved_for
        return sum(
            not layer.sick[at]
            and name not in kept
            and (owner[name] == job.job_id if name in owner else not layer.reserved[at])
            for at, name in enumerate(layer.names)
        )

    def find_default_forwarders(self, nodes: Sequence[str]) -> set[str]:
        """Forwarders the site's own map gives these nodes."""
        places = {int(self.site.default_forwarder[self.nodes[node]]) for node in nodes if node in self.nodes}
        return {self.site.forwarders.names[at] for at in places if at >= 0}


@dataclass(frozen=True, kw_only=True, order=True)
class Violation:
    """What is wrong with a plan. `component`: its name, empty where it is about none."""

    job_id: str
    field: str
    component: str
    reason: str
    rule: str

    def __str__(self) -> str:
        """One sentence."""
        of = f" {self.component}" if self.component else ""
        return f"job {self.job_id}: {self.field}{of}: {self.reason}"


Found = Iterator[tuple[str, str, str]]
"""Field, component, reason."""
Rule = Callable[[Plan, Ground], Found]
Across = Callable[[Sequence[Plan], Ground], Iterator[tuple[str, str, str, str]]]
"""Job, field, component, reason."""


def check_path_plans(
    plans: Sequence[Plan],
    ground: Ground,
    *,
    rules: Mapping[str, Rule] | None = None,
    together: Mapping[str, Across] | None = None,
) -> list[Violation]:
    """Everything wrong with these plans, which are to hold at once. O(total grants). None: they are sound."""
    rules, together = RULES if rules is None else rules, TOGETHER if together is None else together
    found, here = [], ground
    for plan in plans:
        found += [
            Violation(job_id=plan.job.job_id, field=where, component=component, reason=reason, rule=name)
            for name, rule in rules.items()
            for where, component, reason in rule(plan, here)
        ]
        if plan.isolated:
            here = replace(here, alone=here.alone | set(plan.forwarders))
    found += [
        Violation(job_id=job, field=where, component=component, reason=reason, rule=name)
        for name, across in together.items()
        for job, where, component, reason in across(plans, ground)
    ]
    return found


def _granted(plan: Plan) -> Iterator[tuple[str, str]]:
    yield from (("forwarders", name) for name in plan.forwarders)
    yield from (("targets", name) for name in plan.targets)


def _known(plan: Plan, ground: Ground) -> Iterator[tuple[str, str, Layer, int]]:
    """Granted components that exist: field, name, the layer and the place in it."""
    for where, places, layer in (
        ("forwarders", ground.forwarders, ground.site.forwarders),
        ("targets", ground.targets, ground.site.targets),
    ):
        for name in dict.fromkeys(getattr(plan, where)):
            if name in places:
                yield where, name, layer, places[name]


def _unfit_words(plan: Plan, _: Ground) -> Found:
    """Names that no command line, map or script could hold safely."""
    words = [("job.job_id", plan.job.job_id), *(("job.nodes", name) for name in plan.job.nodes), *_granted(plan)]
    words += [("file_system", plan.file_system)] if plan.file_system is not None else []
    for where, word in words:
        if not _WORD.fullmatch(word):
            yield where, repr(word[:60]), "not usable as a name in a command, map or script"
    if plan.mount is not None and (not plan.mount.startswith("/") or not plan.mount.isprintable()):
        yield "mount", repr(plan.mount[:60]), "not an absolute path on one line"
    for key, value in plan.hints.items():
        if not _HINT.fullmatch(key) or not _WORD.fullmatch(value):
            yield "hints", repr(key[:60]), "not a valid MPI-IO hint"


def _unknown(plan: Plan, ground: Ground) -> Found:
    for where, name in _granted(plan):
        if name not in (ground.forwarders if where == "forwarders" else ground.targets):
            yield where, name, "no such component is known"


def _twice(plan: Plan, _: Ground) -> Found:
    for (where, name), times in Counter(_granted(plan)).items():
        if times > 1:
            yield where, name, f"granted {times} times"


def _sick(plan: Plan, ground: Ground) -> Found:
    for where, name, layer, at in _known(plan, ground):
        if layer.sick[at]:
            yield where, name, "it is sick"


def _reserved(plan: Plan, ground: Ground) -> Found:
    for where, name, layer, at in _known(plan, ground):
        owner = ground.reserved_for.get(name)
        if owner is not None and owner != plan.job.job_id:
            yield where, name, f"it is reserved for job {owner}"
        elif owner is None and layer.reserved[at]:
            yield where, name, "it is reserved for another job"


def _barred(plan: Plan, ground: Ground) -> Found:
    for rule in ground.barred:
        if rule.concerns(plan.job.user, plan.job.program):
            for where, name in _granted(plan):
                if name in rule.components:
                    yield where, name, f"not allowed by the site: {rule.why}"
            pools = [plan.pool] if plan.pool is not None else []
            for pool in pools:
                if pool in rule.pools:
                    yield "pool", pool, f"not allowed by the site: {rule.why}"


def _beyond(plan: Plan, ground: Ground) -> Found:
    """Never more than exist, and counts that may be granted."""
    most, count = len(ground.site.forwarders), len(plan.forwarders)
    if count > most:
        yield "forwarders", "", f"{count} are granted, {most} exist"
    elif count and count not in ground.site.forwarder_counts:
        least, usable = min(ground.site.forwarder_counts), ground.count_usable(ground.site.forwarders, plan)
        default = ground.find_default_forwarders(plan.job.nodes)
        # As many as its own nodes' map gives, or what is sound of those, is no more than it has without a plan.
        own = count == len(default) or set(plan.forwarders) <= default or count == usable < len(default)
        # Fewer than the least count, where no more are left; for a job that is to be alone, where no more are unused.
        few = count < least and (plan.isolated or count == usable)
        if not own and not few:
            allowed = ", ".join(map(str, ground.site.forwarder_counts))
            yield "forwarders", "", f"{count} are granted, a job may have {allowed}"
    exist = len(ground.site.targets)
    if len(plan.targets) > exist:
        yield "targets", "", f"{len(plan.targets)} are granted, {exist} exist"


def _stripes(plan: Plan, ground: Ground) -> Found:
    count = plan.stripe_count
    if count is None:
        return
    if count < 1 or count > MOST_STRIPES:
        yield "stripe_count", "", f"{count} is not 1 to {MOST_STRIPES}"
        return
    allowed = {*ground.site.stripe_counts, ground.site.default_stripes}
    least = min(ground.site.stripe_counts)
    few = count < least and count == ground.count_usable(ground.site.targets, plan)
    if count not in allowed and not few:
        yield "stripe_count", "", f"{count} is granted, a job may have {', '.join(map(str, sorted(allowed)))}"
    room = len(set(plan.targets)) or len(ground.site.targets)
    if room and count > room:  # where no targets are known, neither is how many there are
        yield "stripe_count", "", f"{count} stripes on {room} target{'' if room == 1 else 's'}"


def _stripe_bytes(plan: Plan, _: Ground) -> Found:
    size = plan.stripe_bytes
    if size is not None and (size <= 0 or size % STRIPE_UNIT or size >= STRIPE_LIMIT):
        yield "stripe_bytes", "", f"{size} is not a multiple of 64 KiB below 4 GiB"


def _pool(plan: Plan, ground: Ground) -> Found:
    name = plan.pool
    if name is None:
        if plan.pool_exists:
            yield "pool", "", "it is marked as existing but has no name"
        return
    if len(name.encode()) > POOL_NAME_LENGTH or not _POOL.fullmatch(name):
        yield "pool", repr(name[:60]), f"invalid pool name: use letters, digits, _ and - , at most {POOL_NAME_LENGTH}"
    if not plan.targets:
        yield "pool", name, "a pool without targets"
    held = ground.site.pools.get(name)
    if held is None and plan.pool_exists:
        yield "pool", name, "no such pool is known"
    if held is not None:
        known = {ground.site.targets.names[at] for at in held}
        if known != set(plan.targets):
            yield "pool", name, "the site has a pool of this name with other targets"


def _file_system(plan: Plan, _: Ground) -> Found:
    systems = {match[1] for name in plan.targets if (match := _SYSTEM.fullmatch(name))}
    if plan.file_system is not None and systems - {plan.file_system}:
        yield "targets", ", ".join(sorted(systems)), f"targets of another file system than {plan.file_system}"
    elif len(systems) > 1:
        yield "targets", ", ".join(sorted(systems)), "targets of several file systems"


def _isolated(plan: Plan, ground: Ground) -> Found:
    if not plan.isolated:
        return
    if not plan.forwarders:
        yield "isolated", "", "exclusive, but no forwarders are granted"
    for where, name, layer, at in _known(plan, ground):
        if where == "forwarders" and layer.jobs[at] > 0 and ground.reserved_for.get(name) != plan.job.job_id:
            yield "isolated", name, f"it serves {int(layer.jobs[at])} other job{'' if layer.jobs[at] == 1 else 's'}"


def _prefetch(plan: Plan, ground: Ground) -> Found:
    size, room = plan.prefetch_bytes, ground.site.forwarder_buffer_bytes * max(len(plan.forwarders), 1)
    if size is not None and (size <= 0 or size > room):
        yield "prefetch_bytes", "", f"{size} must be above 0 and at most the buffer of its forwarders, {room:.0f}"


def _share(plan: Plan, _: Ground) -> Found:
    share, rate = plan.metadata_share, plan.metadata_ops_per_s
    if share is not None and not 0.0 <= share <= 1.0:  # NaN is refused, too
        yield "metadata_share", "", f"{share} is not between 0 and 1"
    if rate is not None and not (rate > 0 and math.isfinite(rate)):
        yield "metadata_ops_per_s", "", f"{rate} is not above 0"
    if rate is not None and share is None:
        yield "metadata_ops_per_s", "", "a rate without metadata_share"


def _dom(plan: Plan, _: Ground) -> Found:
    size = plan.dom_bytes
    if size is not None and (size <= 0 or size % STRIPE_UNIT or size > DOM_LIMIT):
        yield "dom_bytes", "", f"{size} is not a multiple of 64 KiB up to 1 GiB"


def _job(plan: Plan, _: Ground) -> Found:
    job = plan.job
    if job.node_count < 1 or (job.nodes and len(job.nodes) != job.node_count):
        yield "job.node_count", "", f"{job.node_count} with {len(job.nodes)} nodes named"
    if len(set(job.nodes)) != len(job.nodes):
        yield "job.nodes", "", "a node is named twice"


def _time(plan: Plan, ground: Ground) -> Found:
    if not 0 <= plan.state_ns <= ground.now_ns + _AHEAD_NS:
        yield "state_ns", "", "the state it is based on lies in the future"


RULES: dict[str, Rule] = {
    "words": _unfit_words,
    "known": _unknown,
    "twice": _twice,
    "sick": _sick,
    "reserved": _reserved,
    "barred": _barred,
    "capacity": _beyond,
    "stripe count": _stripes,
    "stripe size": _stripe_bytes,
    "pool": _pool,
    "file system": _file_system,
    "isolation": _isolated,
    "prefetch": _prefetch,
    "metadata share": _share,
    "data on metadata target": _dom,
    "job": _job,
    "state": _time,
}
"""What one plan must keep."""


def _one_plan_each(plans: Sequence[Plan], _: Ground) -> Iterator[tuple[str, str, str, str]]:
    for job, times in Counter(plan.job.job_id for plan in plans).items():
        if times > 1:
            yield job, "job.job_id", "", f"{times} plans for one job"


def _alone(plans: Sequence[Plan], _: Ground) -> Iterator[tuple[str, str, str, str]]:
    """An isolated job's forwarders are granted to nobody else of these."""
    owner: dict[str, int] = {}
    for at, plan in enumerate(plans):
        if plan.isolated:
            for name in set(plan.forwarders):
                if name in owner:
                    yield (
                        plan.job.job_id,
                        "isolated",
                        name,
                        f"job {plans[owner[name]].job.job_id} has exclusive use of it",
                    )
                owner.setdefault(name, at)
    for at, plan in enumerate(plans):
        if not plan.isolated:
            for name in sorted(set(plan.forwarders) & owner.keys()):
                if owner[name] != at:
                    yield (
                        plan.job.job_id,
                        "forwarders",
                        name,
                        f"job {plans[owner[name]].job.job_id} has exclusive use of it",
                    )


def _room_left(plans: Sequence[Plan], ground: Ground) -> Iterator[tuple[str, str, str, str]]:
    """Isolated jobs together leave a sound forwarder to everybody else."""
    layer = ground.site.forwarders
    sound = {name for at, name in enumerate(layer.names) if not layer.sick[at] and name not in ground.reserved_for}
    alone = {name for plan in plans if plan.isolated for name in plan.forwarders}
    if alone and not sound - alone:
        last = [plan for plan in plans if plan.isolated][-1]
        yield last.job.job_id, "isolated", "", "no healthy forwarder is left for all other jobs"


TOGETHER: dict[str, Across] = {"one plan each": _one_plan_each, "alone": _alone, "room left": _room_left}
"""What plans that hold at once must keep."""
