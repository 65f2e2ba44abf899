"""All findings about a system, of one window: the entry of the loop. Pure; same tables, same findings.

Windows are the caller's (an hour, a day): a finding is of its window, and its id with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fairlead.core.model.finding import SEVERITIES
from fairlead.explain.analysis.advice import AdviceSet, Gain
from fairlead.explain.analysis.system.burst_buffer import BurstBufferLimits, find_unused_burst_buffer
from fairlead.explain.analysis.system.cache_amplification import (
    AmplificationLimits,
    find_cache_thrashing,
    find_write_amplification,
)
from fairlead.explain.analysis.system.forwarder_provision import (
    ForwarderLimits,
    find_overloaded_forwarders,
    find_surplus_forwarders,
)
from fairlead.explain.analysis.system.imbalance import ImbalanceLimits, find_imbalance
from fairlead.explain.analysis.system.login_misuse import LoginLimits, find_login_misuse
from fairlead.explain.analysis.system.metadata_storm import StormLimits, find_metadata_storms
from fairlead.explain.analysis.system.scope import Scope, SystemFindings
from fairlead.explain.analysis.system.small_requests import RequestLimits, find_small_requests
from fairlead.explain.analysis.system.stripe_misuse import StripeLimits, find_stripe_misuse
from fairlead.explain.analysis.system.system_site import SystemSite, add_system_site_mapping

TABLES_READ = ("rollup", "job_summary", "mapping", "layouts", "file_counters", "ops", "metadata", "health")
"""Tables that are looked at, where they are given. Rollup by the minute; of `metadata` rows that name clients."""


HOURLY = ("cache_thrashing", "write_amplification", "forwarders_under", "imbalance", "metadata_storm", "login_misuse")
"""What an hour shows: told once, of that hour."""
DAILY = ("forwarders_over", "small_requests", "stripe_misuse", "burst_buffer_unused")
"""What only a day shows."""
_CACHES = ("forwarder", "node", "target", "job")
_KINDS = {
    "cache_thrashing": _CACHES,
    "write_amplification": _CACHES,
    "forwarders_under": ("forwarder",),
    "imbalance": ("forwarder", "target"),
    "metadata_storm": ("mds",),
    "login_misuse": ("node",),
    "forwarders_over": ("forwarder",),
    "burst_buffer_unused": ("device",),
}
_BESIDE = {
    "forwarders_under": ("health",),
    "imbalance": ("health",),
    "forwarders_over": ("health",),
    "metadata_storm": ("metadata",),
    "login_misuse": ("metadata",),
    "stripe_misuse": ("layouts", "file_counters", "ops"),
}


def list_system_finding_kinds(words: Collection[str]) -> list[str]:
    """Kinds of rollup rows that these rules look at: rows of others need not be read, nor parts of nodes by job."""
    return sorted({kind for word in words for kind in _KINDS.get(word, ())})


def list_system_finding_tables(words: Collection[str]) -> list[str]:
    """Tables of `TABLES_READ` that these rules look at."""
    wanted = {"job_summary", "mapping"} | {name for word in words for name in _BESIDE.get(word, ())}
    wanted |= {"rollup"} if list_system_finding_kinds(words) else set()
    return [name for name in TABLES_READ if name in wanted]


@dataclass(frozen=True)
class SystemLimits:
    """The limits of every finding; each says where it comes from."""

    amplification: AmplificationLimits = field(default_factory=AmplificationLimits)
    forwarders: ForwarderLimits = field(default_factory=ForwarderLimits)
    imbalance: ImbalanceLimits = field(default_factory=ImbalanceLimits)
    storm: StormLimits = field(default_factory=StormLimits)
    login: LoginLimits = field(default_factory=LoginLimits)
    requests: RequestLimits = field(default_factory=RequestLimits)
    stripes: StripeLimits = field(default_factory=StripeLimits)
    burst_buffer: BurstBufferLimits = field(default_factory=BurstBufferLimits)


def find_system_findings(
    tables: Mapping[str, pa.Table],
    site: SystemSite,
    from_ns: int,
    to_ns: int,
    limits: SystemLimits | None = None,
    *,
    only: Collection[str] | None = None,
    cluster: str | None = None,
    advice: AdviceSet | None = None,
    gains: Sequence[Gain] = (),
) -> SystemFindings:
    """Findings of [from_ns, to_ns), gravest first, and what was missing to look for the others.

    `tables`: by name, any of `TABLES_READ`; what is left out is not known. `only`: the rules looked for (`HOURLY`,
    `DAILY`), all by default. `advice`: the set findings end with.
    """
    known = site if "mapping" not in tables else add_system_site_mapping(site, tables["mapping"])
    scope = Scope(tables, known, from_ns, to_ns, cluster, advice or {}, gains)
    at = limits or SystemLimits()
    looks: dict[str, Callable[[], SystemFindings]] = {
        "cache_thrashing": lambda: find_cache_thrashing(scope, at.amplification),
        "write_amplification": lambda: find_write_amplification(scope, at.amplification),
        "forwarders_over": lambda: find_surplus_forwarders(scope, at.forwarders),
        "forwarders_under": lambda: find_overloaded_forwarders(scope, at.forwarders),
        "imbalance": lambda: find_imbalance(scope, at.imbalance),
        "metadata_storm": lambda: find_metadata_storms(scope, at.storm),
        "login_misuse": lambda: find_login_misuse(scope, at.login),
        "small_requests": lambda: find_small_requests(scope, at.requests),
        "stripe_misuse": lambda: find_stripe_misuse(scope, at.stripes),
        "burst_buffer_unused": lambda: find_unused_burst_buffer(scope, at.burst_buffer),
    }
    found = SystemFindings()
    for word, look in looks.items():
        if only is None or word in only:
            found += look()
    order = sorted(
        found.told, key=lambda one: (SEVERITIES.index(one.finding.severity), one.finding.rule, one.finding.id)
    )
    return SystemFindings(order, found.missing)
