"""What counts as sick, and for how long: the limits of component health as data.

Defaults are Beacon's (TOS 2023, section 6) where it names one. Not here: who applies them (`watch`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """Thresholds. Times in seconds; a site's may differ, and tests scale `minimum_s` and `window_s` down together."""

    share: float = 0.30
    """A component below this share of its known peak, while more is asked of it, is sick."""
    minimum_s: float = 3600.0
    """An incident is told when it has lasted this long."""
    window_s: float = 60.0
    """Length of a window: states are told window by window."""
    low_time: float = 0.5
    """Share of the time in which requests queue that has to be below `share` for a window to be sick."""
    flap_time: float = 0.2
    """The same for a window of an incident that comes and goes."""
    asked_s: float = 3.0
    """Least time in a window in which requests queue, to say anything of it."""
    queue: float = 0.5
    """Requests that wait, on average over an interval, to say that requests queue."""
    workers: float = 12.0
    """Requests a forwarder serves at once without using all of its workers: that others wait then is its own doing."""
    device_busy: float = 0.8
    """Share of an interval a device is busy, to say that more is asked of it than it gives."""
    full_server: float = 0.85
    """A target is not blamed while its server as a whole moves this share of its best."""
    steady: int = 1
    """Intervals before and after one that have to be active, too: in the first and last second of a burst no rate says
    what a component can do."""
    held_ratio: float = 8.0
    """Requests that take this many times as long as usual behind a forwarder hold its workers: no fault of its own."""
    peer_components: int = 4
    """A job compares components only when it uses this many (Beacon: jobs of 1,024 nodes and more)."""
    peer_nodes: int = 1
    """Nodes of a job that compares components. Beacon used 1,024; a small site has no such jobs."""
    peer_ratio: float = 2.5
    """Times slower than the median of same-job peers, to count as evidence."""
    peer_longer: float = 1.3
    """Times longer at work than these: one that only got less to do is as soon done."""
    cluster_eps: float = 0.5
    """Neighbourhood of DBSCAN across peers, natural log of the rate: 0.5 is a factor of 1.65."""
    cluster_least: int = 3
    """Members that make a cluster."""
    client_jobs: int = 2
    """A client is sick only when it is slow in this many jobs: one may just have more to do than its other nodes."""
    alike: float = 0.75
    """When more than this share of at least `alike_least` components of a layer that were asked are below the limit at
    once, no component is sick: what is slow is common to them."""
    alike_least: int = 3
    recovered: int = 2
    """Windows in order that end an incident; fewer make it flap."""
    lapse_s: float | None = None
    """An incident that nothing was heard of for so long (default: four times `minimum_s`) ends where it was seen
    last."""
    dead: float = 0.01
    """Below this share of the peak a component is dead, not degraded."""
    full: float = 0.95
    """Share of its room from which a target is full."""
    relief: float = 1.6
    """A component that moves this many times what it moved while it was sick has recovered."""
    coarse_s: float = 10.0
    """Intervals longer than this cannot tell a burst from a steady rate; then only time in service counts."""
    large_job_nodes: int = 1024
    """A job on so many nodes makes an incident urgent at once."""
    urgent_s: float = 96 * 3600.0
    """So does this duration."""

    @property
    def reopen_s(self) -> float:
        """Seconds of good health after which what is slow again is a new incident: a quarter of `minimum_s`."""
        return self.minimum_s / 4

    @property
    def silent_s(self) -> float:
        """Seconds without word after which an incident ends where it was seen last."""
        return 4 * self.minimum_s if self.lapse_s is None else self.lapse_s
