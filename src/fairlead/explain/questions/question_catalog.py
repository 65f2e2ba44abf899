"""Every question that can be asked, under its name and path, with its parameters and its answer.

The command line and the HTTP API are both made of this table, so that they cannot differ. Not here: the answering.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Literal

import msgspec

from fairlead.core.errors import FairleadError, PluginError, UsageError
from fairlead.core.extensions import (
    build_extension_defect,
    guard_extension_function,
    load_extensions,
    report_extension_faults,
)
from fairlead.explain.questions import (
    answers,
    answers_behaviour,
    answers_diagnosis,
    answers_site,
    components,
    device_hours,
    load_distributions,
    machine,
    network_ports,
)
from fairlead.explain.questions import behaviour as how_jobs_behave
from fairlead.explain.questions import component_health as of_components
from fairlead.explain.questions import finding_detail as explain
from fairlead.explain.questions import findings as what_was_found
from fairlead.explain.questions import job_detail as one_job
from fairlead.explain.questions import job_explanation as whole_job
from fairlead.explain.questions import job_lists as many_jobs
from fairlead.explain.questions import metadata_load as mds
from fairlead.explain.questions import space_usage as space
from fairlead.explain.questions.catalog_pages import PAGE_QUESTIONS
from fairlead.explain.questions.job_efficiency import describe_job_efficiency
from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
from fairlead.explain.questions.question import (
    Answering,
    Asking,
    Limit,
    LoadAsked,
    Name,
    PageAsked,
    Points,
    Question,
    TimeParameters,
    resolve_question_span,
)
from fairlead.explain.questions.restricted_lake import KeptFor, RestrictedLake
from fairlead.explain.questions.visible_lake import require_visible_question

GROUP = "fairlead.questions"


class JobsAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which jobs to list."""

    user: Name = ""
    project: Name = ""
    program: Name = ""
    state: Name = ""
    partition: Name = ""
    cluster: Name = ""
    node: Name = ""
    running: bool = False
    sort: Literal["start", "end", "read", "write", "bytes", "metadata", "nodes", "user", "job"] = "start"
    limit: Limit = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0


class JobAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which run of a job number, how finely."""

    cluster: Name = ""
    points: Points = 600


class MdsAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which metadata server or target."""

    server: Name = ""
    points: Points = 600
    limit: Limit = 20


class TopAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """By what, how many."""

    metric: Literal["bytes", "read", "write", "metadata"] = "bytes"
    limit: Limit = 20


class HealthAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whether to list probes in order too."""

    all: bool = False


class UsageAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whose space: a file system, a target, a kind of owner."""

    fs: Name = ""
    target: Name = ""
    kind: Literal["", "user", "group", "project"] = ""
    limit: Limit = 20


class PortsAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How many ports and jobs."""

    limit: Limit = 20


class DevicesAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Devices of one node, or the busiest of all."""

    node: Name = ""
    limit: Limit = 50


class FindingsAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which findings to list: about a job (or blaming it), a component, a user's jobs; so grave or graver."""

    job: Name = ""
    component: Name = ""
    user: Name = ""
    severity: Literal["", "critical", "high", "warning", "info", "ok"] = ""
    rule: Name = ""
    text: Name = ""
    acknowledged: Literal["", "yes", "no"] = ""
    limit: Limit = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0


class FindingAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Nothing but its id."""


class WhyAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which run of a job number."""

    cluster: Name = ""


class BehaviourAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whose jobs; how many users, programs and runs to list."""

    user: Name = ""
    program: Name = ""
    project: Name = ""
    limit: Limit = 20


class ComponentsAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One component, or all; whether to list those in order, too."""

    component: Name = ""
    all: bool = False


def _jobs(asking: Asking, name: str, asked: JobsAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    filters = {key: getattr(asked, key) for key in many_jobs.FILTERS}
    span = asked.span(now_ns, "1d", asking.longest_ns).round_to_steps()
    return many_jobs.list_jobs(
        asking.lake,
        span,
        sight,
        now_ns,
        filters=filters,
        node=asked.node,
        running=asked.running,
        sort=asked.sort,
        limit=asked.limit,
        offset=asked.offset,
    )


def _job(asking: Asking, name: str, asked: JobAsked, sight: Sight, now_ns: int) -> answers.Answer:
    span = asked.span(now_ns, "1h", asking.longest_ns) if asked.says_when else None
    return one_job.describe_job(
        asking.lake,
        name,
        sight,
        now_ns,
        cluster=asked.cluster,
        span=span,
        points=asked.points,
        rates=asking.facts.ports if asking.facts else None,
    )


def _system(asking: Asking, name: str, asked: PageAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "1d", asking.longest_ns).round_to_steps()
    return machine.describe_machine(asking.lake, span, sight, now_ns, points=asked.points)


def _node(asking: Asking, name: str, asked: PageAsked, sight: Sight, now_ns: int) -> answers.Answer:
    span = asked.span(now_ns, "1h", asking.longest_ns)
    return machine.describe_node(asking.lake, name, span, sight, now_ns, points=asked.points)


def _targets(asking: Asking, name: str, asked: TimeParameters, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    return components.describe_targets(asking.lake, resolve_question_span(asking, asked, "5m", now_ns))


def _page_of(kind: str) -> Answering:
    def page(asking: Asking, name: str, asked: PageAsked, sight: Sight, now_ns: int) -> answers.Answer:
        span = asked.span(now_ns, "1h", asking.longest_ns)
        return components.describe_component(
            asking.lake, kind, name, span, sight, now_ns, points=asked.points, limit=asked.limit
        )

    return page


def _mds(asking: Asking, name: str, asked: MdsAsked, sight: Sight, now_ns: int) -> answers.Answer:
    span = resolve_question_span(asking, asked, "5m", now_ns)
    server = name or asked.server
    return mds.describe_metadata_load(
        asking.lake, server, span, sight, now_ns, points=asked.points, limit=asked.limit, facts=asking.facts
    )


def _usage(asking: Asking, name: str, asked: UsageAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "1d", asking.longest_ns)
    return space.list_space_usage(
        asking.lake, span, sight, now_ns, fs=asked.fs, target=asked.target, kind=asked.kind, limit=asked.limit
    )


def _ports(asking: Asking, name: str, asked: PortsAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    rates = asking.facts.ports if asking.facts else None
    return network_ports.list_network_ports(
        asking.lake, resolve_question_span(asking, asked, "1h", now_ns), sight, rates=rates, limit=asked.limit
    )


def _devices(asking: Asking, name: str, asked: DevicesAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "7d", asking.longest_ns)
    return device_hours.list_device_hours(asking.lake, span, asked.node, limit=asked.limit)


def _heatmap(asking: Asking, name: str, asked: LoadAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "1d", asking.longest_ns)
    if span.length_ns > 32 * 86400 * 10**9:
        raise UsageError("a heat map by hour covers at most 32 days", remedy="choose a shorter span")
    peak = asked.peak or asking.peaks.get("forwarder")
    return load_distributions.build_load_heat_map(asking.lake, span, asking.kept, now_ns, peak_bytes_per_s=peak)


def _cdf(asking: Asking, name: str, asked: LoadAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "1d", asking.longest_ns)
    peak = asked.peak or asking.peaks.get("target")
    return load_distributions.build_load_cdf(asking.lake, span, asking.kept, now_ns, peak_bytes_per_s=peak)


def _top(asking: Asking, name: str, asked: TopAsked, sight: Sight, now_ns: int) -> answers.Answer:
    if name not in many_jobs.BY:
        raise UsageError(f"there is no ranking of {name!r}", remedy=f"one of {', '.join(many_jobs.BY)}")
    span = resolve_question_span(asking, asked, "1h", now_ns)
    return many_jobs.rank_job_consumers(
        asking.lake, span, sight, now_ns, by=name, metric=asked.metric, limit=asked.limit
    )


def _health(asking: Asking, name: str, asked: HealthAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    return machine.list_probe_health(asking.lake, sight, now_ns, everything=asked.all)


def _findings(asking: Asking, name: str, asked: FindingsAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "1d", asking.longest_ns)
    if asked.acknowledged and asking.acknowledged is None:
        raise UsageError("acknowledgements are not known here", remedy="ask the server (fairlead up)")
    taken = asking.acknowledged() if asked.acknowledged and asking.acknowledged is not None else ()
    return what_was_found.list_findings(
        asking.lake,
        span,
        sight,
        job=asked.job,
        component=asked.component,
        user=asked.user,
        severity=asked.severity,
        rule=asked.rule,
        text=asked.text,
        without=taken if asked.acknowledged == "no" else (),
        among=taken if asked.acknowledged == "yes" else None,
        limit=asked.limit,
        offset=asked.offset,
    )


def _finding(asking: Asking, name: str, asked: FindingAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    return explain.explain_finding(asking.lake, name, sight, now_ns)


def _efficiency(asking: Asking, name: str, asked: WhyAsked, sight: Sight, now_ns: int) -> answers.Answer:
    return describe_job_efficiency(asking.lake, name, sight, now_ns, cluster=asked.cluster)


def _why(asking: Asking, name: str, asked: WhyAsked, sight: Sight, now_ns: int) -> answers.Answer:
    at = asked.span(now_ns, "1h", asking.longest_ns) if asked.says_when else None
    return whole_job.explain_job(asking.lake, name, sight, now_ns, cluster=asked.cluster, at=at)


def _behaviour(asking: Asking, name: str, asked: BehaviourAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "30d", asking.longest_ns)
    return how_jobs_behave.describe_behaviour(
        asking.lake,
        span,
        sight,
        now_ns,
        user=asked.user,
        program=asked.program,
        project=asked.project,
        limit=asked.limit,
        kept=asking.kept,
        peaks=asking.peaks,
    )


def _component_health(asking: Asking, name: str, asked: ComponentsAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    span = asked.span(now_ns, "1d", asking.longest_ns)
    return of_components.describe_component_health(
        asking.lake, span, sight, now_ns, component=asked.component, everything=asked.all, peaks=asking.peaks
    )


QUESTIONS: dict[str, Question] = PAGE_QUESTIONS | {
    "jobs": Question("jobs", JobsAsked, answers.Jobs, "Jobs that ran in the span.", _jobs),
    "why": Question(
        "jobs/{name}/why",
        WhyAsked,
        answers_diagnosis.Why,
        "What a job got, what it usually gets, who took the rest.",
        _why,
    ),
    "job_efficiency": Question(
        "jobs/{name}/seff",
        WhyAsked,
        answers.JobEfficiency,
        "How a job used what it had, from its stored summary.",
        _efficiency,
    ),
    "job": Question("jobs/{name}", JobAsked, answers.JobPage, "One job.", _job),
    "findings": Question(
        "findings", FindingsAsked, answers_diagnosis.Findings, "What diagnosis found, most severe first.", _findings
    ),
    "finding": Question(
        "findings/{name}", FindingAsked, answers_diagnosis.Explanation, "One finding explained.", _finding
    ),
    "behaviour": Question(
        "behaviour", BehaviourAsked, answers_behaviour.Behaviour, "How jobs behave: modes, sizes, who.", _behaviour
    ),
    "system": Question("system", PageAsked, answers.System, "The machine at a glance.", _system),
    "node": Question("nodes/{name}", PageAsked, answers.NodePage, "One node.", _node),
    "cdf": Question("targets/cdf", LoadAsked, answers.Cdf, "How busy storage targets are, as a distribution.", _cdf),
    "targets": Question(
        "targets", TimeParameters, answers.Targets, "Load, space and imbalance of all targets.", _targets
    ),
    "target": Question(
        "targets/{name}", PageAsked, answers.ComponentPage, "One storage target and who uses it.", _page_of("target")
    ),
    "mds": Question("mds", MdsAsked, answers.Mds, "Metadata load and where it comes from.", _mds),
    "heatmap": Question(
        "forwarders/heatmap", LoadAsked, answers.HeatMap, "Forwarders by hour: their busiest minute.", _heatmap
    ),
    "forwarder": Question(
        "forwarders/{name}", PageAsked, answers.ComponentPage, "One forwarder and who uses it.", _page_of("forwarder")
    ),
    "top": Question("top/{name}", TopAsked, answers.Top, "Who moved most: jobs, users, projects, programs.", _top),
    "usage": Question(
        "usage", UsageAsked, answers_site.Usage, "Who holds space, who grew, who is near a limit.", _usage
    ),
    "ports": Question("ports", PortsAsked, answers_site.Ports, "Switch ports, and how evenly jobs use them.", _ports),
    "devices": Question("devices", DevicesAsked, answers_site.Devices, "Devices by hour of the day.", _devices),
    "component_health": Question(
        "health/components",
        ComponentsAsked,
        answers_diagnosis.ComponentHealth,
        "Which components are sick, and which are unknown.",
        _component_health,
    ),
    "health": Question(
        "health", HealthAsked, answers.Health, "State of monitoring: the last report of every source.", _health
    ),
}
"""Name → question. Longer paths come before those that would take them for a name."""


@cache
def list_questions() -> dict[str, Question]:
    """Every question: fairlead's, then those of installed plug-ins (`fairlead.questions`), which are guarded and have a
    path below `site/`. Plug-ins that cannot be used are reported and left out."""
    loaded, faults = load_extensions(GROUP, QUESTIONS)
    found = dict(QUESTIONS)
    for name, question in loaded.items():
        try:
            found[name] = _guard_question(name, question)
        except PluginError as fault:
            faults.append(fault)
    report_extension_faults(faults)
    return found


def _guard_question(name: str, question: object) -> Question:
    def explain(fault: Exception, called_with: object) -> FairleadError:  # noqa: ARG001
        return build_extension_defect(GROUP, name, fault)

    if not isinstance(question, Question):
        raise build_extension_defect(
            GROUP, name, TypeError(f"{type(question).__name__} is not a fairlead.plugins.Question")
        )
    if not question.path.startswith("site/"):
        raise build_extension_defect(GROUP, name, ValueError(f"its path {question.path!r} does not begin with site/"))

    def run(asking: Asking, subject: str, asked: msgspec.Struct, sight: Sight, now_ns: int) -> answers.Answer:
        answer = question.run(asking, subject, asked, sight, now_ns)
        if not isinstance(answer, question.answer):
            raise TypeError(f"it answered {type(answer).__name__}, not {question.answer.__name__}")
        return answer

    return replace(question, run=guard_extension_function(run, explain, passing=(UnknownNameError,)))


def answer_question(
    asking: Asking, question: str, name: str, asked: msgspec.Struct, sight: Sight, now_ns: int
) -> answers.Answer:
    """The answer, of the part of the lake that is for this reader's eyes. Raises UsageError, UnknownNameError,
    NotForYouError, LakeError."""
    wanted = list_questions()[question]
    require_visible_question(question, name, sight, None if question in QUESTIONS else wanted.decision)
    return wanted.run(_narrow_asking(asking, sight, now_ns), name, asked, sight, now_ns)


def _narrow_asking(asking: Asking, sight: Sight, now_ns: int) -> Asking:
    """What this reader's questions are asked of."""
    if sight.everything:
        return asking
    kept = KeptFor(asking.kept, sight)
    return replace(asking, lake=RestrictedLake(asking.lake, sight, kept, now_ns), kept=kept)


def parse_question_parameters(question: str, words: dict[str, str]) -> msgspec.Struct:
    """Parameters as text (a query string, options) → the struct of the question. Raises UsageError naming the wrong
    one."""
    kind = list_questions()[question].asked
    try:
        return msgspec.convert(words, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(msgspec.structs.fields(kind)[k].encode_name for k in range(len(msgspec.structs.fields(kind))))
        raise UsageError(f"a parameter is wrong: {error}", remedy=f"parameters: {known}") from error


def format_question_parameters(asked: msgspec.Struct) -> dict[str, str]:
    """The other way: parameters that are not the default, as text."""
    plain = msgspec.to_builtins(asked)
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in plain.items()}
