"""What answers about space and the network look like, as in `answers`: null is not known, units come last in a name."""

from __future__ import annotations

from fairlead.explain.questions.answers import Answer, PortImbalance, PortVolume


class Holder(Answer, frozen=True, kw_only=True):
    """What one user, group or project holds on a file system (or on the target asked about)."""

    fs: str | None
    owner_kind: str
    owner: str
    used_bytes: int | None = None
    inodes: int | None = None
    grown_bytes: int | None = None
    """Held at the end less held at the beginning of the span; null where the beginning is not known."""
    grown_inodes: int | None = None
    limit_bytes: int | None = None
    inodes_limit: int | None = None
    limit_share: float | None = None
    """The larger of the shares of both limits; null without a limit."""


class TargetSpace(Answer, frozen=True, kw_only=True):
    """Room on one target at the end of the span."""

    id: str
    used_bytes: int | None = None
    capacity_bytes: int | None = None
    fullness: float | None = None
    inodes_used: int | None = None
    inodes: int | None = None
    inodes_fullness: float | None = None
    grown_bytes: int | None = None
    grown_inodes: int | None = None


class Usage(Answer, frozen=True, kw_only=True):
    """Who holds most, who grew most, who is near a limit, and how full targets are."""

    schema: str = "fairlead.usage/1"
    from_ns: int
    to_ns: int
    fs: str | None
    target: str | None
    told_ns: int | None
    """When owners were last told of; null: nobody tells."""
    holders: int
    """How many there are in all."""
    most: list[Holder]
    grown: list[Holder]
    """Those that grew, most first."""
    near: list[Holder]
    """Those at 80 % of a limit or more."""
    targets: list[TargetSpace]
    hidden: bool
    """True when the reader sees no other owner."""


class Ports(Answer, frozen=True, kw_only=True):
    """Switch ports: what moved through them, and of jobs on several nodes how evenly."""

    schema: str = "fairlead.ports/1"
    from_ns: int
    to_ns: int
    job_id: str | None
    ports: list[PortVolume]
    total: int
    """How many ports there are, listed or not."""
    jobs: list[PortImbalance]
    missing: list[str]
    hidden: bool


class DeviceHour(Answer, frozen=True, kw_only=True):
    """A device in one hour of the day (UTC): means over the days of the span."""

    id: str
    hour: int
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    busy_share: float | None
    hours: int


class Devices(Answer, frozen=True, kw_only=True):
    """Load of devices by hour of the day."""

    schema: str = "fairlead.devices/1"
    from_ns: int
    to_ns: int
    node: str | None
    total: int
    """Devices there are, listed or not."""
    devices: list[DeviceHour]
