"""All findings about a system, of one window: the entry of the loop. Pure; same tables, same findings.

Windows are the caller's (an hour, a day): a finding is of its window, and its id with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fairlead.core.model.finding import SEVERITIES
from fairlead.explain.analysis.advice import AdviceSet, Gain
from fairlead.explain.analysis.system.amplification import AmplificationLimits, cache_thrashing, write_amplification
from fairlead.explain.analysis.system.burst_buffer import BurstBufferLimits, burst_buffer_unused
from fairlead.explain.analysis.system.imbalance import ImbalanceLimits, imbalance
from fairlead.explain.analysis.system.login_misuse import LoginLimits, login_misuse
from fairlead.explain.analysis.system.metadata_storm import StormLimits, metadata_storm
from fairlead.explain.analysis.system.provision import ForwarderLimits, forwarders_over, forwarders_under
from fairlead.explain.analysis.system.scope import Scope, SystemFindings
from fairlead.explain.analysis.system.site import SystemSite, with_mapping
from fairlead.explain.analysis.system.small_requests import RequestLimits, small_requests
from fairlead.explain.analysis.system.stripe_misuse import StripeLimits, stripe_misuse

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


def kinds_read(words: Collection[str]) -> list[str]:
    """Kinds of rollup rows that these rules look at: rows of others need not be read, nor parts of nodes by job."""
    return sorted({kind for word in words for kind in _KINDS.get(word, ())})


def tables_read(words: Collection[str]) -> list[str]:
    """Tables of `TABLES_READ` that these rules look at."""
    wanted = {"job_summary", "mapping"} | {name for word in words for name in _BESIDE.get(word, ())}
    wanted |= {"rollup"} if kinds_read(words) else set()
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


def system_findings(
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
    known = site if "mapping" not in tables else with_mapping(site, tables["mapping"])
    scope = Scope(tables, known, from_ns, to_ns, cluster, advice or {}, gains)
    at = limits or SystemLimits()
    looks: dict[str, Callable[[], SystemFindings]] = {
        "cache_thrashing": lambda: cache_thrashing(scope, at.amplification),
        "write_amplification": lambda: write_amplification(scope, at.amplification),
        "forwarders_over": lambda: forwarders_over(scope, at.forwarders),
        "forwarders_under": lambda: forwarders_under(scope, at.forwarders),
        "imbalance": lambda: imbalance(scope, at.imbalance),
        "metadata_storm": lambda: metadata_storm(scope, at.storm),
        "login_misuse": lambda: login_misuse(scope, at.login),
        "small_requests": lambda: small_requests(scope, at.requests),
        "stripe_misuse": lambda: stripe_misuse(scope, at.stripes),
        "burst_buffer_unused": lambda: burst_buffer_unused(scope, at.burst_buffer),
    }
    found = SystemFindings()
    for word, look in looks.items():
        if only is None or word in only:
            found += look()
    order = sorted(
        found.told, key=lambda one: (SEVERITIES.index(one.finding.severity), one.finding.rule, one.finding.id)
    )
    return SystemFindings(order, found.missing)
