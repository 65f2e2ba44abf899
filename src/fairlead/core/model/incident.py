"""An incident: a component that was sick for a time, with what shows it. The same record everywhere."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.core.model.finding import Evidence

INCIDENT_SCHEMA = "fairlead.incident/1"
Layer = Literal["forwarder", "target", "mds", "port", "device", "client"]
DURATIONS_H: tuple[tuple[float, float], ...] = ((0, 1), (1, 4), (4, 12), (12, 96), (96, float("inf")))
"""Classes of duration, hours (Beacon, TOS 2023, section 6: node anomalies): from, up to but not including."""


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One component out of order from `from_ns` on. `to_ns` None: it still is.

    `measured` is what it reached while asked for more, `peak` what is known to be its best (bytes/s; MDS:
    operations/s), `share_of_peak` the one over the other. `persistence`: transient (over within an hour, once),
    recurrent (came back) or persistent. `hint` is a likely cause: rebuild, one_client, cache_thrashing, full_target,
    network, fail_slow, dead or unknown. `confidence` in [0, 1]. `jobs`: who was served by it then.
    """

    schema: str = INCIDENT_SCHEMA
    id: str
    layer: Layer
    component: str
    from_ns: int
    to_ns: int | None
    kind: Literal["degraded", "dead", "flapping"]
    measured: float | None = None
    peak: float | None = None
    share_of_peak: float | None = None
    persistence: Literal["transient", "recurrent", "persistent"] = "transient"
    hint: str = "unknown"
    confidence: float
    jobs: list[str] = []
    evidence: list[Evidence] = []
    missing: list[str] = []

    def compute_duration_s(self, now_ns: int) -> float:
        """Seconds it lasted, or has lasted until `now_ns`."""
        return ((self.to_ns if self.to_ns is not None else now_ns) - self.from_ns) / 1e9
