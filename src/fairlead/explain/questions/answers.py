"""What the answers look like: the documents of the HTTP API and of `--json`, one struct each.

Null is *not known*, never zero. Times are epoch nanoseconds; units come last in a name.
"""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A value that goes out as JSON."""


class Sums(Answer, frozen=True, kw_only=True):
    """What was moved and asked in a span."""

    read_bytes: int | None = None
    write_bytes: int | None = None
    read_ops: int | None = None
    write_ops: int | None = None
    metadata_ops: int | None = None

    @property
    def bytes(self) -> int | None:
        """Read and written, as far as known."""
        if self.read_bytes is None and self.write_bytes is None:
            return None
        return (self.read_bytes or 0) + (self.write_bytes or 0)


class Bound(Answer, frozen=True, kw_only=True):
    """Between which values figures of a job lie that no counter counted by job: what its nodes moved meanwhile."""

    low: Sums
    """What is the job's for sure: moved while nobody else was on the node."""
    high: Sums
    """All that its nodes moved while it was there."""
    shared: bool
    """Other jobs ran on its nodes meanwhile; the figure holds an equal part of that time's traffic."""
    share: float | None
    """How far a bound of the bytes lies from the figure at most, as a part of the figure (0.02: ± 2 %); null where the
    figure is 0 and may be more."""


class Series(Answer, frozen=True, kw_only=True):
    """One layer over time: one value a point. Null where nothing is known, 0 where the source was there and idle."""

    layer: str
    read_bytes_per_s: list[float | None]
    write_bytes_per_s: list[float | None]
    metadata_ops_per_s: list[float | None]
    estimated: bool = False
    """Split off a shared component by share of traffic, not counted."""
    known_share: float | None = None
    """Share of the points so far that something is known of."""


class Timeline(Answer, frozen=True, kw_only=True):
    """Series of equal steps: point k covers [from_ns + k * step_ns, ...+ step_ns)."""

    from_ns: int
    step_ns: int
    points: int
    series: list[Series]


class Gap(Answer, frozen=True, kw_only=True):
    """Nothing was heard of a source: no data, which is not idleness. `to_ns` null: it lasts."""

    source: str
    from_ns: int
    to_ns: int | None
    why: str


class JobRow(Answer, frozen=True, kw_only=True):
    """A job in a list. `layer`: where its figures were counted."""

    job_id: str
    cluster: str | None = None
    name: str | None = None
    user: str | None = None
    project: str | None = None
    program: str | None = None
    partition: str | None = None
    state: str | None = None
    submit_ns: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    nodes_count: int | None = None
    cores: int | None = None
    processes: int | None = None
    running: bool = False
    layer: str | None = None
    sums: Sums = Sums()
    """What the run moved, from its start to its end or now, whatever the span of the list."""
    bound: Bound | None = None
    """Null: counted by job, exactly. Else the figures are those of its nodes (`layer` estimate)."""
    accounted: bool = True
    """False: counters name this job, the scheduler has not told of it."""


class Jobs(Answer, frozen=True, kw_only=True):
    """Jobs that ran in the span, sorted and cut; `total` is how many there are."""

    schema: str = "fairlead.jobs/1"
    from_ns: int
    to_ns: int
    total: int
    sort: str
    jobs: list[JobRow]


class Share(Answer, frozen=True, kw_only=True):
    """A component's part in a job, or a job's in a component."""

    kind: str
    id: str
    layer: str
    sums: Sums
    share: float | None = None
    """Of the whole that was counted there (bytes, or metadata operations where there are no bytes)."""
    user: str | None = None
    program: str | None = None
    mapped: bool = False
    """Known from the mapping alone: no counter splits it."""


class JobSummary(Answer, frozen=True, kw_only=True):
    """The analysis of a job's I/O (Beacon, TOS 2023, section 5). Columns of `job_summary`."""

    io_processes: int | None = None
    io_nodes: int | None = None
    sums: Sums = Sums()
    read_time_ns: int | None = None
    write_time_ns: int | None = None
    metadata_time_ns: int | None = None
    read_bandwidth_bytes_per_s: float | None = None
    write_bandwidth_bytes_per_s: float | None = None
    peak_read_bytes_per_s: float | None = None
    peak_write_bytes_per_s: float | None = None
    iops: float | None = None
    mdops_in_phases: float | None = None
    read_mode: str | None = None
    write_mode: str | None = None
    files: int | None = None
    phases: int | None = None
    basis: str | None = None
    estimated: list[str] = []
    bound: Bound | None = None
    """As of a job in a list."""
    end_ns: int | None = None
    made_ns: int | None = None
    so_far: bool = False
    """The job still ran when this was made (`made_ns`): sums up to then, the rest is not known yet."""


class JobEfficiency(Answer, frozen=True, kw_only=True):
    """How a job used what it had. `io_share`: share of its processes' time in I/O requests. `final`: its summary is of
    all of its run. `missing`: what is not known, and why."""

    schema: str = "fairlead.seff/1"
    job: JobRow
    summary: JobSummary | None = None
    elapsed_s: float | None = None
    io_share: float | None = None
    final: bool = False
    other_runs: int = 0
    missing: list[str] = []


class ClockShift(Answer, frozen=True, kw_only=True):
    """A source's clock against the server's: so much is added to its times where they are shown."""

    source: str
    offset_ns: int


class PortVolume(Answer, frozen=True, kw_only=True):
    """A switch port (`switch/port`) and the node behind it; bytes in the node's view."""

    port: str
    node: str | None
    received_bytes: int
    sent_bytes: int
    shared_bytes: int = 0
    """Of these, bytes split among several jobs on the node."""
    peak_share: float | None = None
    """Mean rate of the busier direction over the link's, where the site tells it."""


class PortImbalance(Answer, frozen=True, kw_only=True):
    """How unevenly a job uses its ports. 1 and 0: all alike."""

    job_id: str
    ports: int
    received_bytes: int
    sent_bytes: int
    highest_over_mean: float
    deviation: float
    """Standard deviation over the mean."""
    user: str | None = None
    program: str | None = None


class LatencyLine(Answer, frozen=True, kw_only=True):
    """How long requests took as one layer counts them: the mean of `requests`, which are those that were timed.

    `kind`: read, write, metadata or all. Quantiles where a histogram is recorded, of the time since
    `quantiles_from_ns`; null where there is none."""

    layer: str
    kind: str
    requests: int
    mean_ns: float
    p50_ns: float | None = None
    p95_ns: float | None = None
    p99_ns: float | None = None
    quantiles_from_ns: int | None = None


class JobPage(Answer, frozen=True, kw_only=True):
    """One job: who, what it moved, through what, over time."""

    schema: str = "fairlead.job/1"
    from_ns: int
    to_ns: int
    job: JobRow
    nodes: list[str]
    """At most the first 1,000 (`nodes_count` tells all)."""
    summary: JobSummary | None
    timeline: Timeline
    components: list[Share]
    missing: list[str]
    """What is not known of this job, and why."""
    gaps: list[Gap]
    other_runs: int = 0
    """Jobs of the same number: older runs, other clusters (`cluster` chooses)."""
    ports: list[PortVolume] = []
    """Switch ports of its nodes, busiest first, where links are known."""
    port_imbalance: PortImbalance | None = None
    clocks: list[ClockShift] = []
    """Nodes and forwarders of it whose clocks are off; their records are shown shifted."""
    latencies: list[LatencyLine] = []
    """How long its requests took, by layer from the program down. Empty: no layer timed them."""


class LayerDay(Answer, frozen=True, kw_only=True):
    """One layer on one day (UTC)."""

    day: str
    layer: str
    sums: Sums


class Event(Answer, frozen=True, kw_only=True):
    """Something that happened. `text` is null for who may not see all."""

    ts_ns: int
    end_ns: int | None
    component: str
    kind: str
    text: str | None


class Amplification(Answer, frozen=True, kw_only=True):
    """Bytes a lower layer read or wrote for each byte of the upper one: far above 1 is thrashing or read-ahead."""

    upper: str
    lower: str
    read: float | None
    write: float | None


class System(Answer, frozen=True, kw_only=True):
    """The machine at a glance."""

    schema: str = "fairlead.system/1"
    from_ns: int
    to_ns: int
    jobs_running: int | None
    jobs_ended: int | None
    layers: list[LayerDay]
    totals: dict[str, Sums]
    amplification: list[Amplification]
    timeline: Timeline
    sources: int
    """Nodes and servers that have reported in the last day."""
    silent: list[Gap]
    events: list[Event]


class ProbeHealth(Answer, frozen=True, kw_only=True):
    """How watching goes on one node: the last that one probe said (`agent`: all of it)."""

    node: str
    probe: str
    state: str
    ts_ns: int
    silent: bool
    rows: int | None = None
    failures: int | None = None
    unknown_lines: int | None = None
    lost_batches: int | None = None
    memory_bytes: int | None = None
    clock_offset_ns: int | None = None
    text: str | None = None


class Health(Answer, frozen=True, kw_only=True):
    """Every source's last word; `probes` holds those in trouble first."""

    schema: str = "fairlead.health/1"
    now_ns: int
    nodes: int
    states: dict[str, int]
    """Probes by state; `silent` counts those not heard for three periods."""
    probes: list[ProbeHealth]
    gaps: list[Gap]


class ComponentRow(Answer, frozen=True, kw_only=True):
    """One target, server or forwarder in a list. Utilisation is a share of its known peak."""

    id: str
    sums: Sums
    peak_bytes_per_s: float | None = None
    """Highest of the span (its busiest second, minute or hour, by the span's length)."""
    busy_share: float | None = None
    used_bytes: int | None = None
    capacity_bytes: int | None = None
    fullness: float | None = None
    grown_bytes: int | None = None
    """Used at the end less used at the beginning of the span."""


class NodePage(Answer, frozen=True, kw_only=True):
    """A node: what runs on it, what it moves, how it is watched."""

    schema: str = "fairlead.node/1"
    from_ns: int
    to_ns: int
    node: str
    jobs: list[JobRow]
    sums: dict[str, Sums]
    timeline: Timeline
    probes: list[ProbeHealth]
    gaps: list[Gap]
    events: list[Event]
    clock: ClockShift | None = None
    """Set where its clock is off: its records are shown shifted."""
    devices: list[ComponentRow] = []
    """Its own block devices and file systems, by name without the node's."""
    latencies: list[LatencyLine] = []
    """How long its requests took, by layer from the program down. Empty: no layer timed them."""


class Targets(Answer, frozen=True, kw_only=True):
    """Load and space of every storage target, and how unevenly both lie."""

    schema: str = "fairlead.targets/1"
    from_ns: int
    to_ns: int
    targets: list[ComponentRow]
    mean_bytes: float | None
    imbalance: float | None
    """Bytes of the busiest over the mean; 1 is even."""
    idle: int
    """Targets that moved nothing."""
    fullness_spread: float | None
    """Fullest less emptiest, as shares of capacity."""


class ComponentPage(Answer, frozen=True, kw_only=True):
    """One target, forwarder or metadata server: its load over time and who makes it up."""

    schema: str = "fairlead.component/1"
    kind: str
    id: str
    from_ns: int
    to_ns: int
    row: ComponentRow
    timeline: Timeline
    who: list[Share]
    hidden: bool
    """True when the reader may not see whose the rest is."""
    gaps: list[Gap]
    latencies: list[LatencyLine] = []
    """How long its requests took. Empty: nothing timed them."""


class OpCount(Answer, frozen=True, kw_only=True):
    """Metadata operations of one kind, client, class or job."""

    name: str
    count: int
    per_s: float
    share: float
    user: str | None = None
    program: str | None = None
    mean_ns: float | None = None
    """Mean time of one, where all of them were timed."""


class Mds(Answer, frozen=True, kw_only=True):
    """Metadata load: by server, operation, where it comes from, client and job."""

    schema: str = "fairlead.mds/1"
    from_ns: int
    to_ns: int
    server: str | None
    """Asked about one server or target; null: all."""
    total: int | None
    per_s: float | None
    servers: list[OpCount]
    ops: list[OpCount]
    classes: list[OpCount]
    clients: list[OpCount]
    jobs: list[OpCount]
    hidden: bool
    timeline: Timeline
    gaps: list[Gap]
    latencies: list[LatencyLine] = []
    """How long operations took, of the server or of all. Empty: nothing timed them."""


class HeatRow(Answer, frozen=True, kw_only=True):
    """One forwarder's day: the busiest minute of each hour as a share of the known peak. Null: no data."""

    id: str
    peak_share: list[float | None]
    level: list[str | None]
    """idle (< 10 %), low (to 50 %), mid (to 90 %), high."""


class HeatMap(Answer, frozen=True, kw_only=True):
    """Forwarders by hour (Beacon, TOS 2023, section 7: per-hour peak load)."""

    schema: str = "fairlead.heatmap/1"
    from_ns: int
    step_ns: int
    columns: int
    kind: str
    peak_bytes_per_s: float | None
    peak_basis: str
    """given, or highest seen (of any forwarder's minutes in the last seven days and this one)."""
    levels: dict[str, int]
    rows: list[HeatRow]


class Cdf(Answer, frozen=True, kw_only=True):
    """How busy targets are: the share of all target-minutes at or below a utilisation."""

    schema: str = "fairlead.cdf/1"
    from_ns: int
    to_ns: int
    kind: str
    peak_bytes_per_s: float | None
    peak_basis: str
    components: int
    minutes: int
    """Target-minutes something is known of."""
    minutes_unknown: int
    utilisation: list[float]
    """Upper bounds, shares of the peak."""
    share: list[float]
    """Share of the known minutes at or below each."""
    below_1_percent: float | None
    below_5_percent: float | None


class TopRow(Answer, frozen=True, kw_only=True):
    """One job, user, project or program by what it moved. `name` null: not known whose."""

    name: str | None
    sums: Sums
    share: float | None
    jobs: int
    user: str | None = None
    program: str | None = None
    running: bool | None = None
    layer: str | None = None


class Top(Answer, frozen=True, kw_only=True):
    """Who moved most."""

    schema: str = "fairlead.top/1"
    from_ns: int
    to_ns: int
    by: str
    metric: str
    total: Sums
    """Of all, also of those not listed (and of the reader's own jobs only, where nobody else's may be seen)."""
    count: int
    rows: list[TopRow]
