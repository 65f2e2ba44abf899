"""Every policy that can be replayed, with one plain sentence on what it does; plug-ins say theirs in their docstring.

Not here: the policies (`fairlead.decide.policies`), their names (`registered_policies`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from fairlead.decide import registered_policies
from fairlead.decide.whatif.whatif_evaluation import DEFAULT_POLICIES
from fairlead.explain.questions.answers_whatif_runs import PolicyLine, WhatIfPolicies

WHOLE = {
    "static-map": ("The current map", "Every node keeps the forwarders the site's map gives it."),
    "dfra": ("DFRA", "Jobs that needed it in their last run get more forwarders, or exclusive ones."),
    "aiot": ("AIOT", "Each job gets the least loaded path that can carry it, with matching tunings."),
    "joint": ("Joint", "Number and choice of components are decided together, considering the other jobs."),
    "joint-light": ("Joint, light", "As joint, with a shorter search."),
}
ALLOCATIONS = {
    "tcpu": ("TCPU", "Starts every job with little and adds where it saves most core time, while load allows."),
    "best-bandwidth": ("Best bandwidth", "Each job gets the smallest number at which it is fastest."),
    "n-sys": ("Nsys", "Each job gets the number that burdens the others least."),
    "mckp": ("MCKP", "The largest sum of bandwidths the components allow."),
    "mckp-direct": ("MCKP, direct", "As MCKP; a job may go straight to the file system."),
    "size": ("By nodes", "In proportion to the job's nodes among all that run."),
    "process": ("By processes", "In proportion to the job's processes among all that run."),
    "static": ("By cores", "In proportion to the job's part of the machine's cores."),
    "oracle": ("Oracle", "Each job gets its best number as if it were alone: a bound, not a policy to run."),
    "random": ("Random", "A random allowed number."),
}
PLACEMENTS = {
    "greedy-clairvoyant": ("Least occupied", "Each job goes where it is expected to take the least time."),
    "greedy-non-clairvoyant": ("Fewest users", "Each job goes where the fewest others are."),
    "round-robin": ("Round-robin", "One component after the other."),
    "pools": ("Pools", "Where most performance is left per user, as on Sunway."),
    "weighted-random": ("Weighted random", "Random, faster components more often."),
    "random": ("Random", "Random."),
    "straw": ("Straw", "By a hash, as in CRUSH: jobs stay in place when a component is removed."),
}


def list_whatif_policies() -> WhatIfPolicies:
    """All there are, ours before those of the site."""
    pairs = {f"{a}+{p}" for a in registered_policies.ALLOCATIONS for p in registered_policies.PLACINGS}
    whole = [
        *registered_policies.list_registered_path_policies(),
        *(name for name in registered_policies.list_registered_policies() if name not in pairs),
    ]
    return WhatIfPolicies(
        policies=[
            _line(name, WHOLE, lambda one: registered_policies.find_registered_path_policy(one))
            for name in dict.fromkeys(whole)
        ],
        allocations=[PolicyLine(name=n, title=t, about=a) for n, (t, a) in ALLOCATIONS.items()],
        placements=[PolicyLine(name=n, title=t, about=a) for n, (t, a) in PLACEMENTS.items()],
        usual=list(DEFAULT_POLICIES),
    )


def _line(name: str, known: dict[str, tuple[str, str]], made: Callable[[str], object]) -> PolicyLine:
    if name in known:
        title, about = known[name]
        return PolicyLine(name=name, title=title, about=about)
    first = (inspect.getdoc(type(made(name))) or "").partition("\n")[0].strip()
    return PolicyLine(name=name, title=name, about=first or "A policy of this site, without a description.")
