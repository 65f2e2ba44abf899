"""Every policy that can be replayed, with one plain sentence on what it does; plug-ins say theirs in their docstring.

Not here: the policies (`fairlead.decide.policies`), their names (`registry`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from fairlead.decide import registered_policies
from fairlead.decide.whatif.whatif_evaluation import DEFAULT_POLICIES
from fairlead.explain.questions.answers_whatif_runs import PolicyLine, WhatIfPolicies

WHOLE = {
    "static-map": ("The present map", "Every node keeps the forwarders the site's map gives it."),
    "dfra": ("DFRA", "Jobs that asked for it in their last run get more forwarders, or forwarders of their own."),
    "aiot": ("AIOT", "Each job gets the least loaded path that carries it, with tunings to go with it."),
    "joint": ("Joint", "How many and which are decided together, with an eye on who else is there."),
    "joint-light": ("Joint, light", "As joint, with a shorter search."),
}
ALLOCATIONS = {
    "tcpu": ("TCPU", "Starts everybody with little and gives more where most core time is won, while load allows."),
    "best-bandwidth": ("Best bandwidth", "Each job gets the fewest with which it is fastest."),
    "n-sys": ("Nsys", "Each job gets the number that burdens the others least."),
    "mckp": ("MCKP", "The largest sum of bandwidths that the components suffice for."),
    "mckp-direct": ("MCKP, direct", "As MCKP; a job may go straight to the file system."),
    "size": ("By nodes", "In proportion to the job's nodes among all that run."),
    "process": ("By processes", "In proportion to the job's processes among all that run."),
    "static": ("By cores", "In proportion to the job's part of the machine's cores."),
    "oracle": ("Oracle", "Each its best number as if it were alone: a bound, not a policy to run."),
    "random": ("Random", "Any number that is allowed, by lot."),
}
PLACEMENTS = {
    "greedy-clairvoyant": ("Least occupied", "Each job goes where, by what is known of it, least time is taken."),
    "greedy-non-clairvoyant": ("Fewest users", "Each job goes where the fewest others are."),
    "round-robin": ("In turn", "One component after the other."),
    "pools": ("Pools", "Where the most performance is left for each user, as on Sunway."),
    "weighted-random": ("Weighted lot", "By lot, faster components more often."),
    "random": ("Random", "By lot."),
    "straw": ("Straw", "By a hash, as in CRUSH: jobs stay where they are when a component goes."),
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
    return PolicyLine(name=name, title=name, about=first or "A policy of this site; its class says nothing of it.")
