"""What attribution looks at and what it says: one abnormal phase, the components it used, who else was there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fairlead.core.model.finding import Evidence, Subject
from fairlead.core.model.finding_incident_rows import ShownPrecision
from fairlead.core.model.incident import Incident

VERDICTS = (
    "n_to_1",
    "high_mdops",
    "high_bandwidth",
    "high_iops",
    "mixed",
    "many_neighbours",
    "component",
    "own",
    "unknown",
)
"""Beacon's categories of a cause (TOS 2023, section 6). `mixed`: one neighbour by several of the first four;
`many_neighbours`: none alone, their sum; `component`: it was degraded; `own`: the job itself asked for something else
than usual; `unknown`: the evidence does not reach."""


@dataclass(frozen=True, kw_only=True)
class Victim:
    """The abnormal phase. `expected_s`, `lost_s`, `confidence` as judged; the other values as in PHASE. `usual_*`: what
    runs of its category do (None: not known)."""

    cluster: str | None
    job_id: str
    kind: str
    start_ns: int
    end_ns: int
    expected_s: float
    lost_s: float
    confidence: float
    rate_per_s: float | None = None
    mode: str | None = None
    forwarders: Sequence[str] = ()
    targets: Sequence[str] = ()
    mds: Sequence[str] = ()
    request_bytes: float | None = None
    usual_request_bytes: float | None = None
    metadata_ops: float | None = None
    usual_metadata_ops: float | None = None
    usual_mode: str | None = None


@dataclass(frozen=True, kw_only=True)
class Scene:
    """`loads`: rows of ROLLUP (any number a key; partial sums add up) at `interval_ns`, of the victim's components and
    of the jobs on them (`kind` forwarder, target, mds, port with and without `job_id`; `kind` job of the victim and its
    neighbours), over the phase and some time before and after. `neighbours`: rows of PHASE and, where there are none,
    of JOB_SUMMARY, of jobs that ran meanwhile. `incidents`: of these components, overlapping. `peaks`: known peak of
    (kind, component), bytes/s or operations/s. `usual_wait_s`: mean wait of a request at (kind, component) in quiet
    times, where known."""

    victim: Victim
    loads: pa.Table
    interval_ns: int
    neighbours: pa.Table
    jobs: pa.Table
    incidents: Sequence[Incident] = ()
    peaks: dict[tuple[str, str], float] = field(default_factory=dict)
    usual_wait_s: dict[tuple[str, str], float] = field(default_factory=dict)
    missing: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """A neighbour (subject kind `job`) or a component, with what speaks against it. `score` in [0, 1] is how likely it
    is the main cause, `cost_s` the seconds of the victim it took, `at` the shared components, worst first. `facts`:
    what it did, by the names of `analysis.advice.FACTS`."""

    who: Subject
    verdict: str
    score: float
    cost_s: float | None
    at: Sequence[Subject]
    evidence: Sequence[Evidence]
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """The verdict on one phase. `culprits` best first, also below the threshold of accusation: `accused` tells whether
    the first one is named to people. `missing`: what was not recorded and would have helped. `active`: jobs at the same
    components meanwhile, where nobody is accused; `precision`: of the accusation (`accusation_gate`)."""

    verdict: str
    accused: bool
    confidence: float
    culprits: Sequence[Culprit]
    evidence: Sequence[Evidence]
    missing: Sequence[str]
    active: Sequence[Subject] = ()
    precision: ShownPrecision | None = None
