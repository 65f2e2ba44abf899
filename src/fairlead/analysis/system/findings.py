"""All findings about a system, of one window: the entry of the loop. Pure; same tables, same findings.

Windows are the caller's (an hour, a day): a finding is of its window, and its id with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fairlead.analysis.advice import AdviceSet, Gain
from fairlead.analysis.system.amplification import AmplificationLimits, cache_thrashing, write_amplification
from fairlead.analysis.system.burst_buffer import BurstBufferLimits, burst_buffer_unused
from fairlead.analysis.system.imbalance import ImbalanceLimits, imbalance
from fairlead.analysis.system.login_misuse import LoginLimits, login_misuse
from fairlead.analysis.system.metadata_storm import StormLimits, metadata_storm
from fairlead.analysis.system.provision import ForwarderLimits, forwarders_over, forwarders_under
from fairlead.analysis.system.scope import Scope, SystemFindings
from fairlead.analysis.system.site import SystemSite, with_mapping
from fairlead.analysis.system.small_requests import RequestLimits, small_requests
from fairlead.analysis.system.stripe_misuse import StripeLimits, stripe_misuse
from fairlead.model.finding import SEVERITIES

TABLES_READ = ("rollup", "job_summary", "mapping", "layouts", "file_counters", "ops", "metadata", "health")
"""Tables that are looked at, where they are given. Rollup by the minute; of `metadata` rows that name clients."""


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
    cluster: str | None = None,
    advice: AdviceSet | None = None,
    gains: Sequence[Gain] = (),
) -> SystemFindings:
    """Findings of [from_ns, to_ns), gravest first, and what was missing to look for the others.

    `tables`: by name, any of `TABLES_READ`; what is left out is not known. `advice`: the set findings end with.
    """
    known = site if "mapping" not in tables else with_mapping(site, tables["mapping"])
    scope = Scope(tables, known, from_ns, to_ns, cluster, advice or {}, gains)
    at = limits or SystemLimits()
    found = (
        cache_thrashing(scope, at.amplification)
        + write_amplification(scope, at.amplification)
        + forwarders_over(scope, at.forwarders)
        + forwarders_under(scope, at.forwarders)
        + imbalance(scope, at.imbalance)
        + metadata_storm(scope, at.storm)
        + login_misuse(scope, at.login)
        + small_requests(scope, at.requests)
        + stripe_misuse(scope, at.stripes)
        + burst_buffer_unused(scope, at.burst_buffer)
    )
    order = sorted(
        found.told, key=lambda one: (SEVERITIES.index(one.finding.severity), one.finding.rule, one.finding.id)
    )
    return SystemFindings(order, found.missing)
