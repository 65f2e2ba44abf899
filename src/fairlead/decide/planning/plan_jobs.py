"""Plans of arriving jobs: the policy is asked job by job, each seeing what those before it got; then all are checked.

Not here: the live state (`site`), what is expected (`expectations`), what makes a plan sound
(`policies.paths.checker`), commands (`render`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from fairlead.core.errors import UnsoundPlanError, UsageError
from fairlead.core.model.plan import Expectation, Plan, PlannedJob, PlanReason, Plans
from fairlead.core.model.site import Site
from fairlead.core.model.site_file import SiteFile
from fairlead.decide import registered_policies
from fairlead.decide.planning.commitments import (
    add_forwarder_commitment,
    add_grant_commitment,
    add_running_commitments,
)
from fairlead.decide.planning.expectations import Arriving, build_job_expectation, find_expectation_runs
from fairlead.decide.planning.live_site import Live, find_live_site, select_live_site_plans
from fairlead.decide.policies.next_run.expectation import Past
from fairlead.decide.policies.paths.checker import POOL_NAME_LENGTH, Ground, Violation, check_path_plans
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant, PathPolicy
from fairlead.explain.questions.lake_queries import Tables

_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class PlanOutcome:
    """Plans, what they were checked against, and what is wrong with them (nothing, where they are sound)."""

    plans: Plans
    ground: Ground
    violations: tuple[Violation, ...] = ()


def _find_path_policy(name: str) -> PathPolicy:
    """The path policy of a name. Raises UsageError for an unknown one."""
    try:
        return registered_policies.find_registered_path_policy(name)
    except KeyError:
        from fairlead.explain.questions.lake_queries import find_similar_names

        known = [*registered_policies.list_registered_path_policies(), *registered_policies.list_registered_policies()]
        like = find_similar_names(name, known) or [
            *registered_policies.list_registered_path_policies(),
            *registered_policies.list_registered_policies()[:3],
        ]
        raise UsageError(
            f"unknown policy {name!r}", where="--policy", remedy=f"one of {', '.join(like)}, ..."
        ) from None


def plan_jobs(
    lake: Tables,
    site: SiteFile | None,
    jobs: Sequence[Arriving],
    *,
    policy: str,
    at_ns: int,
    now_ns: int,
    file_system: str = "",
    seed: int = 0,
    granted: Sequence[Plan] = (),
) -> PlanOutcome:
    """Plans of `jobs` in their order, of a lake. `granted`: plans made before whose jobs may not be seen running yet.
    Raises LakeError, ConfigError, UsageError."""
    _find_path_policy(policy)
    state = find_live_site(lake, site, at_ns, now_ns, file_system=file_system)
    programs = [*(job.program for job in jobs), *(job.program for job in state.running)]
    runs = find_expectation_runs(lake, programs, at_ns)
    return plan_jobs_on_state(
        state,
        runs,
        jobs,
        policy=policy,
        at_ns=at_ns,
        now_ns=now_ns,
        seed=seed,
        granted=select_live_site_plans(lake, granted, at_ns),
    )


def plan_jobs_on_state(
    state: Live,
    runs: Past,
    jobs: Sequence[Arriving],
    *,
    policy: str,
    at_ns: int,
    now_ns: int,
    seed: int = 0,
    granted: Sequence[Plan] = (),
) -> PlanOutcome:
    """The same of what is known already. Pure: the same of the same. Raises UsageError for an unknown policy."""
    asked = _find_path_policy(policy)
    site, untold = add_running_commitments(state, runs, at_ns)
    site = _with_granted(site, state, granted, {job.job_id for job in jobs})
    ground = replace(build_plan_ground(state, now_ns, granted), site=site)
    rng = np.random.default_rng(seed)
    plans = []
    for job in jobs:
        plan, site = _plan(job, asked, policy, state, site, runs, ground, rng, at_ns)
        plans.append(plan)
    document = Plans(
        policy=policy, state_ns=state.state_ns, made_ns=now_ns, plans=plans, missing=[*state.missing, *untold]
    )
    return PlanOutcome(plans=document, ground=ground, violations=tuple(check_path_plans(plans, ground)))


def require_sound_plans(made: PlanOutcome) -> Plans:
    """The plans. Raises UnsoundPlanError where anything is wrong with one."""
    if made.violations:
        raise build_unsound_plan_error(made.violations, f"policy {made.plans.policy}")
    return made.plans


def build_unsound_plan_error(violations: Sequence[Violation], where: str) -> UnsoundPlanError:
    """The error that says what is wrong."""
    told = "; ".join(str(one) for one in violations[:_SHOWN])
    more = f"; and {len(violations) - _SHOWN} more" if len(violations) > _SHOWN else ""
    return UnsoundPlanError(
        f"{told}{more}", where=where, remedy="do not apply it; docs/reference/plan.md lists the constraints of a plan"
    )


def build_plan_ground(state: Live, now_ns: int, granted: Sequence[Plan] = ()) -> Ground:
    """What plans are checked against: the machine now, what the site bars, what is kept for whom."""
    kept = dict(state.reserved_for)
    kept |= {name: plan.job.job_id for plan in granted if plan.isolated for name in plan.forwarders}
    return Ground(site=state.site, now_ns=now_ns, barred=state.barred, reserved_for=kept, nodes=state.nodes)


def _with_granted(site: Site, state: Live, granted: Sequence[Plan], arriving: set[str]) -> Site:
    """What plans made before take, of jobs that are not planned anew; of those seen running only what is kept for
    them."""
    seen = {job.job_id for job in state.running}
    places = {
        kind: {name: at for at, name in enumerate(layer.names)}
        for kind, layer in (("f", state.site.forwarders), ("t", state.site.targets))
    }
    for plan in granted:
        if plan.job.job_id in arriving:
            continue
        held = tuple(places["f"][name] for name in plan.forwarders if name in places["f"])
        if plan.job.job_id in seen:
            site = add_forwarder_commitment(site, held) if plan.isolated else site
            continue
        told = plan.expected
        expected = ExpectedJob(
            job_id=plan.job.job_id,
            user=plan.job.user,
            program=plan.job.program,
            node_count=plan.job.node_count,
            node_ids=tuple(state.nodes[name] for name in plan.job.nodes if name in state.nodes),
            read_bytes=told.read_bytes,
            write_bytes=told.write_bytes,
            compute_s=told.compute_s,
            mdops=told.mdops,
            bandwidth_bytes_per_s=told.bandwidth_bytes_per_s,
            io_processes=told.io_processes,
        )
        site = add_grant_commitment(
            site,
            expected,
            Grant(
                forwarders=held,
                isolated=plan.isolated,
                targets=tuple(places["t"][name] for name in plan.targets if name in places["t"]),
            ),
        )
    return site


def _plan(
    job: Arriving,
    asked: PathPolicy,
    policy: str,
    state: Live,
    site: Site,
    runs: Past,
    ground: Ground,
    rng: np.random.Generator,
    at_ns: int,
) -> tuple[Plan, Site]:
    missing = []
    ids = tuple(state.nodes[name] for name in job.nodes if name in state.nodes)
    if not job.nodes:
        missing.append("nodes: not known yet, so neither are its default forwarders")
    elif len(ids) < len(job.nodes):
        lost = [name for name in job.nodes if name not in state.nodes]
        missing.append(f"nodes: {len(lost)} of {len(job.nodes)} are in no map, such as {lost[0]}")
    expected = build_job_expectation(job, runs, ids, at_ns)
    if not expected.runs_known:
        missing.append(f"history: {'no program was named' if not job.program else 'no earlier run of it is known'}")
    sight = _as_seen(site, job, ground)
    grant = asked.grant(expected, sight, rng)
    return _named(job, policy, state, sight, expected, grant, missing), add_grant_commitment(site, expected, grant)


def _as_seen(site: Site, job: Arriving, ground: Ground) -> Site:
    """The machine in the eyes of the policy for this job: what it may not use is reserved."""

    def kept(names: Sequence[str], already: np.ndarray) -> np.ndarray:
        own = np.array([ground.reserved_for.get(name) == job.job_id for name in names], np.bool_)
        barred = np.array(
            [
                any(name in rule.components and rule.concerns(job.user, job.program) for rule in ground.barred)
                for name in names
            ],
            np.bool_,
        )
        return np.asarray((already & ~own) | barred)

    forwarders, targets = site.forwarders, site.targets
    return replace(
        site,
        forwarders=replace(forwarders, reserved=kept(forwarders.names, forwarders.reserved)),
        targets=replace(targets, reserved=kept(targets.names, targets.reserved)),
        pools={
            name: held
            for name, held in site.pools.items()
            if not any(name in rule.pools and rule.concerns(job.user, job.program) for rule in ground.barred)
        },
    )


def _named(
    job: Arriving, policy: str, state: Live, site: Site, expected: ExpectedJob, grant: Grant, missing: list[str]
) -> Plan:
    """The grant by names."""
    forwarders = [site.forwarders.names[at] for at in grant.forwarders]
    targets = [site.targets.names[at] for at in grant.targets]
    system = state.file_system or None
    default = site.default_forwarder[list(expected.node_ids)]
    defaults = [site.forwarders.names[int(at)] for at in np.unique(default[default >= 0])]
    pool, exists = _pool(job.job_id, grant.targets, site, state.site)
    crossing = site.forwarders.reserved | site.forwarders.sick
    trouble = [name for at, name in enumerate(site.forwarders.names) if crossing[at] and name in set(defaults)]
    if trouble and not forwarders:
        missing.append(f"path: its default forwarders {', '.join(trouble)} are sick or reserved, and none is granted")
    return Plan(
        job=PlannedJob(
            job_id=job.job_id,
            user=job.user,
            program=job.program,
            node_count=job.node_count,
            nodes=list(job.nodes),
            processes=job.processes,
            cores=job.cores or None,
        ),
        policy=policy,
        state_ns=state.state_ns,
        forwarders=forwarders,
        isolated=grant.isolated,
        default_forwarders=defaults,
        file_system=system,
        mount=state.mounts.get(system) if system else None,
        targets=targets,
        pool=pool,
        pool_exists=exists,
        stripe_count=grant.stripe_count,
        stripe_bytes=grant.stripe_bytes,
        prefetch_bytes=grant.prefetch_bytes,
        metadata_share=grant.metadata_share,
        metadata_ops_per_s=_rate(grant, site),
        dom_bytes=grant.dom_bytes,
        hints=_hints(expected, grant),
        expected=Expectation(
            basis=expected.basis,
            runs_known=expected.runs_known,
            mode=expected.mode or None,
            io_processes=expected.io_processes,
            read_bytes=expected.read_bytes,
            write_bytes=expected.write_bytes,
            bandwidth_bytes_per_s=expected.bandwidth_bytes_per_s,
            mdops=expected.mdops,
            request_bytes=expected.request_bytes,
            compute_s=expected.compute_s,
        ),
        reasons=[PlanReason(what=one.what, why=one.why) for one in grant.reasons],
        missing=missing,
    )


def _pool(job_id: str, places: Sequence[int], seen: Site, whole: Site) -> tuple[str | None, bool]:
    """The pool of these targets: one the site has, else a new one's name; None where no pool is needed."""
    if not places or len(set(places)) == len(whole.targets):
        return None, False
    wanted = set(places)
    for name, held in sorted(seen.pools.items()):
        if set(held) == wanted:
            return name, True
    name = f"f{_UNFIT.sub('_', job_id)}"
    if len(name) > POOL_NAME_LENGTH or name in whole.pools or _UNFIT.search(job_id):
        name = f"f{blake2b(job_id.encode('utf-8', 'surrogateescape'), digest_size=5).hexdigest()}"
    return name, False


def _rate(grant: Grant, site: Site) -> float | None:
    """What a share of metadata comes to on the granted forwarders; None where their peaks are not known."""
    if grant.metadata_share is None or not grant.forwarders:
        return None
    able = float(site.forwarders.mdops[list(grant.forwarders)].sum())
    rate = grant.metadata_share * able
    return rate if np.isfinite(rate) and rate > 0 else None


def _hints(expected: ExpectedJob, grant: Grant) -> dict[str, str]:
    """MPI-IO hints (ROMIO's names) for files that processes share."""
    hints = {}
    if expected.mode in ("N-1", "N-M"):
        if grant.stripe_count is not None:
            hints["striping_factor"] = str(grant.stripe_count)
        if grant.stripe_bytes is not None:
            hints["striping_unit"] = str(grant.stripe_bytes)
            if expected.request_bytes is not None and expected.request_bytes < grant.stripe_bytes:
                hints["romio_cb_write"] = "enable"
    return hints
