"""What if: a site's own past under other policies and capacities, with who wins, who loses, and how far to trust it.

Not here: reading past records (`past_jobs`), replaying it (`past_replay`), checking it (`checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from fairlead.core.errors import UsageError
from fairlead.core.model.site import Site
from fairlead.core.model.unit_formats import NS_PER_S, format_percent
from fairlead.decide import registered_policies
from fairlead.decide.policies.paths.contract import PathPolicy
from fairlead.decide.sim.replay.jobs import Progress
from fairlead.decide.sim.workloads.history import (
    History,
    Sound,
    build_history_jobs,
    build_history_phases,
    drop_unsound_history,
)
from fairlead.decide.sim.workloads.history_curves import Curves, learn_curves
from fairlead.decide.whatif.checks import check_held_out_change, check_whatif_replay, find_largest_change
from fairlead.decide.whatif.past_jobs import Past, read_past_jobs
from fairlead.decide.whatif.past_replay import (
    AS_IT_WAS,
    Figures,
    NamedReplay,
    OnLayer,
    build_recorded_past_replay,
    compute_past_replay_figures,
    replay_past,
)
from fairlead.decide.whatif.past_site import build_past_site, find_known_past_site
from fairlead.explain.questions.answers_whatif import (
    BasisLine,
    ChangedCost,
    Check,
    DroppedLine,
    LayerLine,
    Scenario,
    Sides,
    WhatIf,
)
from fairlead.explain.questions.lake_queries import Sight, Tables, find_similar_names
from fairlead.explain.questions.span import Span

F64 = NDArray[np.float64]
DEFAULT_POLICIES = ("dfra", "tcpu+greedy-clairvoyant", "joint")
"""What is replayed where nothing else is asked for."""
STATIC = "static-map"
"""The site's own map as it is at the end of the time; replayed besides where the map changed in it."""
SAME = 0.05
"""A job whose seconds in I/O change by less than this share neither wins nor loses."""
BASES = ("own", "class", "machine")
Telling = Callable[[str], None]
"""Told which replay begins."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How far an answer is. `step`: reading, learning, replaying, checking; `text` says it, `share` of all is done.
    `replay` of `replays` is under way."""

    step: str
    text: str
    share: float
    jobs: int | None = None
    replay: int | None = None
    replays: int | None = None


Following = Callable[[Stage], None]
_READ, _LEARNT, _REPLAYED = 0.12, 0.2, 0.9
"""Shares of the whole that are done after reading, learning curves and all replays; the rest is checking."""


@dataclass(frozen=True, kw_only=True)
class WhatIfRequest:
    """What is asked: names of path policies (none: `DEFAULT_POLICIES`, or with other capacities the site's own), other
    numbers of forwarders and targets, a price in any currency, how many winners and losers to list. `layer`: where the
    policies decide: forwarders, targets or both (none: forwarders, where the site has any)."""

    policies: tuple[str, ...] = ()
    forwarders: int | None = None
    targets: int | None = None
    layer: str = ""
    price_per_core_hour: float | None = None
    limit: int = 10
    seed: int = 0


def evaluate_whatif(
    lake: Tables,
    span: Span,
    sight: Sight,
    asked: WhatIfRequest,
    *,
    peaks: Mapping[str, float] | None = None,
    telling: Telling | None = None,
    following: Following | None = None,
) -> WhatIf:
    """The answer for jobs that began in the span. `peaks`: told by the site's description. A reader with a user is
    named that user's jobs only; sums are of all. `telling` hears which replay begins, `following` how far it is. Raises
    UsageError for an unknown policy or an empty history, LakeError."""
    tell, follow = telling or (lambda _text: None), following or (lambda _stage: None)
    policies = find_whatif_policies(asked)
    tell("reading past records")
    follow(Stage(step="reading", text="reading past records", share=0.0))
    past = read_past_jobs(lake, span)
    fit = drop_unsound_history(past.runs, past.bursts)
    known, defaults = find_known_past_site(lake, span, past, peaks or {})
    follow(Stage(step="learning", text="learning the speed of programs", share=_READ, jobs=len(fit.runs)))
    phases = build_history_phases(fit.runs, fit.bursts)
    curves = learn_curves(fit.runs, phases, defaults)
    history = build_history_jobs(fit.runs, phases, curves)
    now = build_past_site(known, past, curves)
    if asked.forwarders is not None and not len(now.forwarders):
        raise UsageError("no forwarder of this site is known", where="--forwarders", remedy="leave it out")
    other = asked.forwarders is not None or asked.targets is not None
    if not other and find_largest_change(past, span) is not None and all(name != STATIC for name, _ in policies):
        # What policies keep of the map is the present one: what that alone does is not theirs.
        policies = [(STATIC, registered_policies.find_registered_path_policy(STATIC)), *policies]
    wanted = [
        (AS_IT_WAS, AS_IT_WAS, build_recorded_past_replay(past, fit.row, now), now),
        *_wanted(asked, policies, known, past, fit, curves, now),
    ]
    runs: list[NamedReplay] = []
    for number, (shown, name, policy, site) in enumerate(wanted):
        tell(shown)
        hear = _heard(follow, shown, number, len(wanted), len(fit.runs))
        runs.append(_play(name, shown, policy, past, fit, history, site, asked, hear))
    base = runs[0]
    tell("checking")
    follow(Stage(step="checking", text="checking against measurements", share=_REPLAYED, jobs=len(fit.runs)))
    checks = [check_whatif_replay(AS_IT_WAS, history, fit.runs, base)]
    foreseen, why = check_held_out_change(lake, span, past, fit, peaks or {}, seed=asked.seed)
    told = [compute_past_replay_figures(history.jobs, one.replayed) for one in runs]
    scenarios = [
        _scenario(one, mine, told[0], history, past, fit, sight, asked) for one, mine in zip(runs, told, strict=True)
    ]
    best = _best(scenarios)
    took = fit.runs.end_s - fit.runs.start_s
    return WhatIf(
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        headline=_format_headline(scenarios, best, span, asked),
        jobs=len(fit.runs),
        quiet_jobs=fit.quiet,
        running_jobs=past.running,
        core_hours=float((history.jobs.cores * took).sum() / 3600.0),
        price_per_core_hour=asked.price_per_core_hour,
        best=best,
        scenarios=scenarios,
        confidence=_confidence(history),
        checks=checks,
        held_out=foreseen,
        dropped=[DroppedLine(why=one.why, count=one.count, of=one.of) for one in fit.dropped],
        layers=_layers(now),
        missing=_missing(known, history, checks[0], why),
        hidden=not sight.everything,
    )


def _heard(follow: Following, shown: str, number: int, replays: int, jobs: int) -> Progress:
    """What one replay tells as it goes, as a part of the whole."""

    def progress(done: int, of: int) -> None:
        share = _LEARNT + (_REPLAYED - _LEARNT) * (number + done / max(of, 1)) / replays
        follow(Stage(step="replaying", text=shown, share=share, jobs=jobs, replay=number + 1, replays=replays))

    return progress


def find_whatif_policies(asked: WhatIfRequest) -> list[tuple[str, PathPolicy | None]]:
    """Policies by name; None is the site's own way. Raises UsageError for one that is not known."""
    names = list(dict.fromkeys(asked.policies))
    other = asked.forwarders is not None or asked.targets is not None
    if not names:
        names = [AS_IT_WAS] if other else list(DEFAULT_POLICIES)
    found: list[tuple[str, PathPolicy | None]] = []
    for name in names:
        if name == AS_IT_WAS:
            found.append((name, None))
            continue
        try:
            found.append((name, registered_policies.find_registered_path_policy(name)))
        except KeyError:
            known = [
                AS_IT_WAS,
                *registered_policies.list_registered_path_policies(),
                *registered_policies.list_registered_policies(),
            ]
            like = find_similar_names(name, known) or registered_policies.list_registered_path_policies()
            raise UsageError(
                f"unknown policy {name!r}", where="--policy", remedy=f"similar: {', '.join(like)}"
            ) from None
    return found


def _wanted(
    asked: WhatIfRequest,
    policies: Sequence[tuple[str, PathPolicy | None]],
    known: Site,
    past: Past,
    fit: Sound,
    curves: Curves,
    now: Site,
) -> list[tuple[str, str, PathPolicy, Site]]:
    """The replays to make besides that of what was: label, policy, machine."""
    other = asked.forwarders is not None or asked.targets is not None
    site = build_past_site(known, past, curves, forwarders=asked.forwarders, targets=asked.targets) if other else now
    counts = (asked.forwarders, "forwarder"), (asked.targets, "OST")
    parts = [f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counts if count]
    with_ = f" with {' and '.join(parts)}" if other else ""
    rest = build_recorded_past_replay(
        past, fit.row, site, forwarders=asked.forwarders is None, targets=asked.targets is None
    )
    layer = asked.layer or ("forwarders" if len(now.forwarders) else "targets")
    made: list[tuple[str, str, PathPolicy, Site]] = []
    for name, policy in policies:
        if policy is None:
            if other:
                made.append((f"the current map{with_}", name, rest, site))
        else:
            own = policy if layer == "both" else OnLayer(policy, rest, layer)
            made.append((f"{_format_policy(name)}{with_}", name, own, site))
    return made


def _format_policy(name: str) -> str:
    """A policy's name as people write it."""
    if name == STATIC:
        return "the current map throughout"
    first, plus, placing = name.partition("+")
    shown = first.upper() if first in ("dfra", "aiot", "tcpu", "mckp") else first.replace("-", " ")
    return f"{shown} ({placing})" if plus else shown


def _play(
    name: str,
    shown: str,
    policy: PathPolicy,
    past: Past,
    fit: Sound,
    history: History,
    site: Site,
    asked: WhatIfRequest,
    progress: Progress,
) -> NamedReplay:
    return replay_past(name, shown, policy, past, fit.row, fit.runs, history, site, seed=asked.seed, progress=progress)


def _scenario(
    one: NamedReplay,
    mine: Figures,
    base: Figures,
    history: History,
    past: Past,
    fit: Sound,
    sight: Sight,
    asked: WhatIfRequest,
) -> Scenario:
    was, now = float(np.nansum(base.io_core_hours)), float(np.nansum(mine.io_core_hours))
    slow = mine.slowdown[np.isfinite(mine.slowdown)]
    first = mine is base
    saved = was - now
    busy = one.replayed.forwarder_busy, one.replayed.target_busy
    return Scenario(
        name=one.name,
        policy=one.policy,
        forwarders=len(one.site.forwarders),
        targets=len(one.site.targets),
        io_core_hours=now,
        avoidable_core_hours=max(float(np.nansum(mine.io_core_hours - mine.alone_core_hours)), 0.0),
        mean_slowdown=float(slow.mean()) if len(slow) else None,
        p90_slowdown=float(np.quantile(slow, 0.9)) if len(slow) else None,
        saved_core_hours=None if first else saved,
        saved_share=None if first or was <= 0 else saved / was,
        saved_money=None if first or asked.price_per_core_hour is None else saved * asked.price_per_core_hour,
        busy_forwarders=_mean(busy[0]),
        busiest_forwarder=_most(busy[0]),
        busy_targets=_mean(busy[1]),
        busiest_target=_most(busy[1]),
        sides=[] if first else _sides(one, mine, base, history, past, fit, sight, asked.limit),
    )


def _mean(values: F64) -> float | None:
    return float(values.mean()) if len(values) else None


def _most(values: F64) -> float | None:
    return float(values.max()) if len(values) else None


def _sides(
    one: NamedReplay, mine: Figures, base: Figures, history: History, past: Past, fit: Sound, sight: Sight, limit: int
) -> list[Sides]:
    """Jobs, users and programs by what they gain. Whom a reader may not see is not named, and not counted."""
    del one
    before, after = base.io_core_hours, mine.io_core_hours
    cores = np.maximum(history.jobs.cores, 1e-9)
    seconds = before / cores * 3600.0, after / cores * 3600.0
    rows = fit.row.tolist()
    users = [past.user[row] for row in rows]
    programs = [past.program[row] for row in rows]
    seen = np.array([sight.everything or user == sight.user for user in users], np.bool_) & np.isfinite(after)
    found = []
    for kind, names in (("job", [past.job_id[row] for row in rows]), ("user", users), ("program", programs)):
        keys = [
            (name, user if kind == "program" else None, j if kind == "job" else -1)
            for j, (name, user) in enumerate(zip(names, users, strict=True))
        ]
        group: dict[object, int] = {}
        at = np.array([group.setdefault(key, len(group)) for key in keys], np.int64)
        count = len(group)
        sums = [np.bincount(at[seen], values[seen], count) for values in (before, after, *seconds)]
        jobs = np.bincount(at[seen], minlength=count)
        saved = sums[0] - sums[1]
        change = np.where(sums[0] > 0, saved / np.maximum(sums[0], 1e-12), 0.0)
        won, lost = (change > SAME) & (jobs > 0), (change < -SAME) & (jobs > 0)
        first = np.full(count, -1, np.int64)
        first[at[::-1]] = np.arange(len(at))[::-1]

        def line(i: int) -> ChangedCost:
            j = int(first[i])  # noqa: B023
            return ChangedCost(
                name=names[j] or "unknown",  # noqa: B023
                user=users[j] if kind != "user" else None,  # noqa: B023
                jobs=int(jobs[i]),  # noqa: B023
                before_core_hours=float(sums[0][i]),  # noqa: B023
                after_core_hours=float(sums[1][i]),  # noqa: B023
                saved_core_hours=float(saved[i]),  # noqa: B023
                before_s=float(sums[2][i]),  # noqa: B023
                after_s=float(sums[3][i]),  # noqa: B023
            )

        order = np.argsort(-saved, kind="stable")
        found.append(
            Sides(
                kind=kind,
                winners=[line(int(i)) for i in order if won[i]][:limit],
                losers=[line(int(i)) for i in order[::-1] if lost[i]][:limit],
                won=int(won.sum()),
                lost=int(lost.sum()),
                same=int((jobs > 0).sum() - won.sum() - lost.sum()),
            )
        )
    return found


def _best(scenarios: Sequence[Scenario]) -> int | None:
    others = [(one.saved_core_hours or 0.0, -i) for i, one in enumerate(scenarios) if one.saved_core_hours is not None]
    return -max(others)[1] if others else None


def _format_headline(scenarios: Sequence[Scenario], best: int | None, span: Span, asked: WhatIfRequest) -> str:
    """The answer in one line."""
    was = scenarios[0].io_core_hours
    lost = f"{_hours(was)} core-hours lost to I/O {format_whatif_span(span)}"
    if best is None:
        return f"{lost[0].upper()}{lost[1:]}"
    one = scenarios[best]
    saved, share = one.saved_core_hours or 0.0, one.saved_share or 0.0
    on = asked.layer or ("forwarders" if scenarios[0].forwarders else "targets")
    where = {"both": "forwarders and targets"}.get(on, on)
    plain = asked.forwarders or asked.targets or one.policy == STATIC
    name = one.name if plain else f"{one.name} on your {where}"
    if share > 0.005:
        money = "" if one.saved_money is None else f", worth {_hours(one.saved_money)}"
        text = f"{name} would have saved {_hours(saved)} of {lost} ({format_percent(share)}){money}"
        return text[0].upper() + text[1:]
    if share < -0.005:
        text = f"{name} would have cost {_hours(-saved)} more than the {lost} ({format_percent(-share)})"
        return text[0].upper() + text[1:]
    return f"None of the alternatives would have changed the {lost}; nearest is {name} ({format_percent(share)})"


def format_whatif_span(span: Span) -> str:
    """`in October 2026`, `on 2026-10-03`, `from 2026-10-03 to 2026-10-09`; UTC."""
    first, last = (datetime.fromtimestamp(at // NS_PER_S, UTC) for at in (span.from_ns, span.to_ns - 1))
    after = datetime.fromtimestamp(span.to_ns // NS_PER_S, UTC)
    if (
        first.day == after.day == 1
        and first.strftime("%Y%m") == last.strftime("%Y%m")
        and first.hour == after.hour == 0
    ):
        return f"in {first:%B %Y}"
    if first.date() == last.date():
        return f"on {first:%Y-%m-%d}"
    return f"from {first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _confidence(history: History) -> list[BasisLine]:
    basis, looked = history.jobs.basis, history.looked
    volume = np.bincount(looked.phase_basis, history.jobs.volume, len(BASES))
    total = max(float(volume.sum()), 1e-12)
    return [
        BasisLine(
            basis=word,
            jobs=int((basis == i).sum()),
            job_share=float((basis == i).mean()),
            volume_share=float(volume[i] / total),
        )
        for i, word in enumerate(BASES)
    ]


def _layers(site: Site) -> list[LayerLine]:
    forwarders, targets, mds = site.forwarders, site.targets, site.mds
    peak = float(forwarders.bandwidth[0]) if len(forwarders) else None
    return [
        LayerLine(kind="forwarder", count=len(forwarders), basis=forwarders.basis, unit="bytes/s", peak=peak),
        LayerLine(
            kind="target", count=len(targets), peak=float(targets.bandwidth[0]), basis=targets.basis, unit="bytes/s"
        ),
        LayerLine(kind="mds", count=len(mds), peak=float(mds.mdops[0]), basis=mds.basis, unit="operations/s"),
    ]


def _missing(known: Site, history: History, checked: Check, why: str) -> list[str]:
    """What the answer rests on that is not known."""
    said = [why] if why else []
    for layer, word in ((known.forwarders, "forwarder"), (known.targets, "target")):
        if layer.basis == "seen" and layer.names:
            said.append(f"no site file states the peak of a {word}: the highest rate seen is used")
        elif layer.basis == "assumed" and layer.names:
            said.append(f"the peak of a {word} is neither stated nor counted: the summed phases of its jobs are used")
    if not known.forwarders.names:
        said.append("no forwarder is known: jobs access the targets directly")
    default = float((history.jobs.basis == 2).mean())
    if default > 0.2:
        share = format_percent(default)
        said.append(f"{share} of the jobs are of programs with too few runs: the defaults of the machine are used")
    if checked.error_p50 is None:
        said.append("the replay could not be checked: no job spent a second in I/O")
    elif checked.error_p50 > 0.25:
        off = format_percent(checked.error_p50)
        said.append(f"half of the jobs are more than {off} off in the check: do not rely on figures of single jobs")
    return said
