"""What only the pages ask for: a job's lanes on one time axis, its ranks, files and requests; layers as a whole; now.

Null is *not known*, never zero. Times are epoch nanoseconds; units come last in a name.
"""

# ruff: noqa: RUF012  (a struct copies its defaults)

from __future__ import annotations

from fairlead.core.model.incident import Incident
from fairlead.explain.questions.answers import Answer, ComponentRow, Gap, JobRow, Share, Sums, TopRow


class Line(Answer, frozen=True, kw_only=True):
    """One value over time: the mean of each point, and the lowest and highest finer value within it. Null: not known.
    `low` and `high` are empty where a point is not made of finer ones."""

    mean: list[float | None]
    low: list[float | None] = []
    high: list[float | None] = []


class Lane(Answer, frozen=True, kw_only=True):
    """One layer of the path on the shared axis. `estimated`: split off a shared component by share of traffic."""

    layer: str
    read_bytes_per_s: Line
    write_bytes_per_s: Line
    metadata_ops_per_s: Line
    estimated: bool = False
    known_share: float | None = None


class PhaseBand(Answer, frozen=True, kw_only=True):
    """A phase to be shaded. `abnormal`: how sure it is that it was slower than chance makes it."""

    kind: str
    number: int
    start_ns: int
    end_ns: int
    bytes: int | None = None
    mode: str | None = None
    lost_s: float | None = None
    abnormal: float | None = None


class Neighbour(Answer, frozen=True, kw_only=True):
    """A job that used a component of this one meanwhile: its bytes there, over the same points. `job_id` null: not for
    this reader's eyes."""

    job_id: str | None
    user: str | None
    program: str | None
    kind: str
    component: str
    bytes_per_s: list[float | None]
    bytes: int
    blamed: bool = False
    """A finding of the job names it."""
    ops_per_s: list[float | None] = []
    """Its metadata operations there; of a metadata server, which counts no bytes."""
    metadata_ops: int | None = None


class JobTimeline(Answer, frozen=True, kw_only=True):
    """Client, forwarder, target and metadata of one job on one axis: point k covers [from_ns + k * step_ns, ...).
    `finest_ns`: the finest interval these points are made of."""

    schema: str = "fairlead.job-timeline/1"
    job_id: str
    cluster: str | None
    job_from_ns: int
    job_to_ns: int
    from_ns: int
    step_ns: int
    points: int
    finest_ns: int
    running: bool
    lanes: list[Lane]
    phases: list[PhaseBand]
    neighbours: list[Neighbour]
    gaps: list[Gap]
    missing: list[str] = []


class RankRow(Answer, frozen=True, kw_only=True):
    """One row of a heat map: a rank or node, or `members` of them in a row (mean of them, and the highest)."""

    name: str
    members: int
    bytes_per_s: list[float | None]
    highest_bytes_per_s: list[float | None]
    read_bytes: int | None
    write_bytes: int | None


class Ranks(Answer, frozen=True, kw_only=True):
    """Which ranks of a job moved data when. `by`: rank or node. At most 256 rows: `total` ranks are grouped."""

    schema: str = "fairlead.job-ranks/1"
    job_id: str
    by: str
    from_ns: int
    step_ns: int
    columns: int
    total: int
    rows: list[RankRow]
    busiest: list[RankRow]
    """The ten busiest one by one, without their cells."""
    imbalance: float | None
    """Bytes of the busiest over the mean."""
    missing: list[str] = []


class FileRow(Answer, frozen=True, kw_only=True):
    """What a job did with one file. `path` null: its name is not known."""

    file_id: str
    path: str | None
    fs: str | None
    read_bytes: int | None
    write_bytes: int | None
    read_ops: int | None
    write_ops: int | None
    metadata_ops: int | None
    processes: int | None
    """Ranks (or nodes, where ranks are not known) that used it."""
    busy_s: float | None
    request_bytes: float | None
    first_ns: int | None
    last_ns: int | None


class JobFiles(Answer, frozen=True, kw_only=True):
    """Files of a job, sorted and cut; `total` is how many there are."""

    schema: str = "fairlead.job-files/1"
    job_id: str
    total: int
    sort: str
    files: list[FileRow]
    missing: list[str] = []


class RequestBin(Answer, frozen=True, kw_only=True):
    """Requests of [from_bytes, to_bytes)."""

    from_bytes: int
    to_bytes: int | None
    reads: int
    writes: int
    read_bytes: int | None
    write_bytes: int | None
    """Null where only counts by size are known (counter-only traces)."""


class JobRequests(Answer, frozen=True, kw_only=True):
    """Request sizes of a job and how they follow each other. `metadata`: operations by name."""

    schema: str = "fairlead.job-requests/1"
    job_id: str
    bins: list[RequestBin]
    metadata: dict[str, int]
    sequential_share: float | None
    """Share of the data requests that begin where the one before ended, in the same file by the same process."""
    missing: list[str] = []


class MyJob(Answer, frozen=True, kw_only=True):
    """A job in a person's list, with what matters at a glance. `spark`: bytes a second, 40 points of its run.
    `grade`: A to F by the share of its run that was lost; null: not known."""

    job: JobRow
    spark: list[float | None]
    grade: str | None
    lost_s: float | None
    findings: int
    worst: str | None
    """Title of the gravest finding."""
    severity: str | None


class MyJobs(Answer, frozen=True, kw_only=True):
    """Recent jobs of the reader (of all, for who sees all), latest first."""

    schema: str = "fairlead.my-jobs/1"
    from_ns: int
    to_ns: int
    total: int
    jobs: list[MyJob]
    missing: list[str] = []


class ComponentNow(Answer, frozen=True, kw_only=True):
    """One component just now. `load`: share of its known peak. `state`: healthy, sick, dead, idle, unknown or
    silent."""

    id: str
    state: str
    load: float | None
    bytes_per_s: float | None
    ops_per_s: float | None
    incident: str | None = None
    why: str = ""


class LayerNow(Answer, frozen=True, kw_only=True):
    """One layer of the path just now: at most 400 components, those in trouble and the busiest first."""

    layer: str
    kind: str
    components: list[ComponentNow]
    total: int
    states: dict[str, int]
    bytes_per_s: float | None
    ops_per_s: float | None
    load: float | None
    recent: list[float | None] = []
    """Load of the last hour, a point a minute: bytes a second, of metadata operations a second."""


class Now(Answer, frozen=True, kw_only=True):
    """The machine now, layers from the clients to the devices."""

    schema: str = "fairlead.now/1"
    now_ns: int
    from_ns: int
    to_ns: int
    layers: list[LayerNow]
    top: list[TopRow]
    open: list[Incident]
    jobs_running: int | None
    sources: int
    silent: list[Gap]
    missing: list[str] = []


class LayerComponent(Answer, frozen=True, kw_only=True):
    """A component in the list of its layer."""

    row: ComponentRow
    state: str
    load: float | None
    """Mean rate over the known peak."""
    jobs: int | None
    incident: str | None = None


class Layer(Answer, frozen=True, kw_only=True):
    """All components of one layer in the span. `imbalance`: the busiest over the mean; 1 is even."""

    schema: str = "fairlead.layer/1"
    layer: str
    from_ns: int
    to_ns: int
    total: int
    components: list[LayerComponent]
    sums: Sums
    imbalance: float | None
    idle: int
    peak: float | None
    peak_basis: str
    peak_unit: str
    """bytes/s or operations/s."""
    missing: list[str] = []


class ComponentLook(Answer, frozen=True, kw_only=True):
    """One component of a layer on one axis: point k covers [from_ns + k * step_ns, ...). `hours`: the busiest minute of
    each hour, in `peak_unit`; `peak`: what is known to be its best."""

    schema: str = "fairlead.layer-component/1"
    layer: str
    id: str
    from_ns: int
    to_ns: int
    step_ns: int
    points: int
    finest_ns: int
    row: ComponentRow
    lanes: list[Lane]
    queue_max: list[float | None]
    """Longest queue of each point."""
    wait_mean_ns: list[float | None]
    """Mean wait of the requests of each point."""
    hours_from_ns: int
    hours: list[float | None]
    peak: float | None
    peak_unit: str
    who: list[Share]
    hidden: bool
    """True when the reader may not see whose the rest is."""
    gaps: list[Gap]


class DayVolume(Answer, frozen=True, kw_only=True):
    """One day (UTC) of one layer, or of one component."""

    day: str
    layer: str
    sums: Sums


class Volumes(Answer, frozen=True, kw_only=True):
    """Daily volumes of every layer."""

    schema: str = "fairlead.volumes/1"
    from_ns: int
    to_ns: int
    days: list[DayVolume]
    missing: list[str] = []


class WaitClass(Answer, frozen=True, kw_only=True):
    """How long requests of one class waited and were served: counts by bins, quantiles in nanoseconds."""

    op_class: str
    requests: int
    wait: list[int]
    service: list[int]
    wait_p50_ns: float | None
    wait_p95_ns: float | None
    wait_p99_ns: float | None
    service_p50_ns: float | None
    service_p95_ns: float | None
    service_p99_ns: float | None


class Waits(Answer, frozen=True, kw_only=True):
    """Queues and latencies of a layer. `bins_ns`: upper bounds of the bins. `queue`: component-minutes by the longest
    queue in them, upper bounds `queue_bins`."""

    schema: str = "fairlead.waits/1"
    layer: str
    from_ns: int
    to_ns: int
    component: str | None
    bins_ns: list[float]
    classes: list[WaitClass]
    queue_bins: list[int]
    queue: list[int]
    queue_mean: float | None
    missing: list[str] = []
