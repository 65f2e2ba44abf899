"""What the answers about diagnosis look like: findings, one of them explained, one job, the components' health.

Null is *not known*, never zero. Times are epoch nanoseconds; units come last in a name. Not here: findings and
incidents themselves (`fairlead.core.model`), what other questions answer (`answers`).
"""

# ruff: noqa: RUF012  (a struct copies its defaults)

from __future__ import annotations

from fairlead.core.model.finding import Advice
from fairlead.core.model.finding_incident_rows import StoredFinding
from fairlead.core.model.incident import Incident
from fairlead.explain.questions.answers import Answer, JobRow, JobSummary


class Findings(Answer, frozen=True, kw_only=True):
    """What was found in the span: the most severe first, of equals the latest."""

    schema: str = "fairlead.findings/1"
    from_ns: int
    to_ns: int
    total: int
    findings: list[StoredFinding]
    older: int = 0
    """Findings of an older analysis that are left out, as a newer one has looked at their time."""
    by_severity: dict[str, int] = {}
    """How many there are of each severity, whichever was asked for."""
    by_rule: dict[str, int] = {}
    """How many of `total` there are of each rule, the most frequent first."""
    analysis_version: int | None = None
    """Of those listed; null where there are none."""
    missing: list[str] = []
    """Why there may be none."""


class CourseLine(Answer, frozen=True, kw_only=True):
    """One line of a course: a value a step, null where nothing is known. `role`: victim, culprit, other, whole, wait,
    peak or usual."""

    name: str
    role: str
    values: list[float | None]


class Course(Answer, frozen=True, kw_only=True):
    """Lines over one time axis: point k covers [from_ns + k * step_ns, ...)."""

    title: str
    unit: str
    from_ns: int
    step_ns: int
    lines: list[CourseLine]
    marked: list[tuple[int, int]] = []
    """Stretches that matter: the phase, the incident."""


class RunLike(Answer, frozen=True, kw_only=True):
    """A phase of a run that this one is compared with. `this`: it is the one asked about."""

    job_id: str | None
    start_ns: int
    kind: str
    seconds: float | None
    amount: float | None
    """Bytes; operations of a phase of metadata."""
    rate_per_s: float | None
    nodes_count: int | None = None
    this: bool = False


class Usual(Answer, frozen=True, kw_only=True):
    """How phases of a kind went in runs like this one. Quantiles are of `rate_per_s` of the other runs."""

    kind: str
    runs: list[RunLike]
    rate_p25: float | None = None
    rate_p50: float | None = None
    rate_p75: float | None = None
    like: str = ""
    """In what they are alike."""


class Explanation(Answer, frozen=True, kw_only=True):
    """One finding with what can be drawn of it."""

    schema: str = "fairlead.explanation/1"
    told: StoredFinding
    withdrawn: bool = False
    made_ns: int
    analysis_version: int
    courses: list[Course]
    usual: list[Usual]
    incidents: list[Incident] = []
    """Of the components that play a part, at that time."""
    related: list[StoredFinding] = []
    """Other findings about the same job or component at that time."""
    missing: list[str] = []


class PhaseLine(Answer, frozen=True, kw_only=True):
    """A phase of the job, as it went and as it usually goes."""

    kind: str
    number: int
    start_ns: int
    end_ns: int
    seconds: float
    amount: int | None
    rate_per_s: float | None
    mode: str | None
    expected_s: float | None
    lost_s: float | None
    abnormal: float | None
    """How sure it is that it was slower than chance makes it (0 to 1)."""
    missing: list[str] = []


class LostTime(Answer, frozen=True, kw_only=True):
    """Who or what took time of the job. `seconds` null: it cannot be told how much."""

    who: str
    what: str
    seconds: float | None
    confidence: float
    finding: str


class Hurt(Answer, frozen=True, kw_only=True):
    """A phase of another job this one is blamed for. `who`, `finding` null: not for this reader's eyes. `seconds`: what
    it took; null where it is only one of many who took it."""

    who: str | None
    start_ns: int | None
    seconds: float | None
    confidence: float
    finding: str | None


class KindUsually(Answer, frozen=True, kw_only=True):
    """What phases of one kind are like in runs of a program: medians, of amounts bytes (metadata: operations).
    `runs`: those that had any."""

    kind: str
    phases: int
    runs: int
    amount_p50: float | None
    rate_p50: float | None
    request_p50_bytes: float | None
    period_p50_s: float | None
    mode: str | None


class RunsOfProgram(Answer, frozen=True, kw_only=True):
    """What runs of the same user's program on as many nodes (rounded to a power of two: `scale`) are like."""

    runs: int
    scale: int | None
    first_ns: int
    last_ns: int
    seconds_p50: float | None
    kinds: list[KindUsually]


class AlikeRun(Answer, frozen=True, kw_only=True):
    """A run whose I/O is like this one's, whatever its name. Names are null for who may not see them. `distance` in
    doublings."""

    job_id: str | None
    user: str | None
    program: str | None
    start_ns: int
    seconds: float | None
    distance: float
    how: str


class Why(Answer, frozen=True, kw_only=True):
    """One job: what it got, what it usually gets, who or what took the difference, what to do.

    `verdict`: slowed (someone or something did), slow (it was, and it is not known why), changed (it asked for
    something else than usual), usual, unknown (nothing to compare with), running."""

    schema: str = "fairlead.why/1"
    job: JobRow
    verdict: str
    headline: str
    summary: JobSummary | None
    phases: list[PhaseLine]
    expected_s: float | None
    lost_s: float | None
    usual: list[Usual]
    taken: list[LostTime]
    findings: list[StoredFinding]
    advice: list[Advice]
    hurt: list[Hurt] = []
    """Whom it hurt."""
    runs: RunsOfProgram | None = None
    alike: list[AlikeRun] = []
    courses: list[Course] = []
    missing: list[str] = []
    other_runs: int = 0
    grade: str | None = None
    """A to F by the share of its run that was lost; null: not known."""
    same_number: list[JobRow] = []
    """Other runs of this number this reader may see, latest first."""


class ComponentState(Answer, frozen=True, kw_only=True):
    """How one component is. `state`: healthy, sick, dead, idle (nobody asked, so it cannot be told) or unknown."""

    layer: str
    component: str
    state: str
    share_of_peak: float | None = None
    peak: float | None = None
    measured: float | None = None
    since_ns: int | None = None
    incident: str | None = None
    why: str = ""


class LayerHealth(Answer, frozen=True, kw_only=True):
    """How many components of a layer are in which state."""

    layer: str
    components: int
    states: dict[str, int]


class Durations(Answer, frozen=True, kw_only=True):
    """Incidents of a layer by how long they lasted (Beacon, TOS 2023, section 6), classes in hours."""

    layer: str
    classes: list[str]
    counts: list[int]


class ComponentHealth(Answer, frozen=True, kw_only=True):
    """The components: layer by layer, sick ones, open and past incidents."""

    schema: str = "fairlead.component-health/1"
    from_ns: int
    to_ns: int
    layers: list[LayerHealth]
    components: list[ComponentState]
    """Those in trouble; with `all`, or when one is asked about, others too."""
    open: list[Incident]
    past: list[Incident]
    durations: list[Durations]
    courses: list[Course] = []
    findings: list[StoredFinding] = []
    missing: list[str] = []
